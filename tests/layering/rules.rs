//! What a file may name, and what in a source breaks that.

use std::fmt;

use crate::tokens::{Token, tokens};

/// From the bottom to the top: a module uses only what stands on a lower line.
const TIERS: &[&[&str]] = &[
    &["codec", "hash", "random", "units"],
    &["decay", "traffic"],
    &["filter", "sketch"],
    &["shard"],
    &["config", "metrics"],
    &["kafka", "store"],
    &["workers"],
    &["http", "telemetry"],
    &["app"],
    &["cli"],
    &["main", "lib"],
];
/// Modules that only these may use.
const USED_BY: &[(&str, &[&str])] =
    &[("config", &["telemetry", "app", "cli", "main"]), ("metrics", &["kafka", "workers", "http", "app"])];
/// Modules that use nothing but these.
const USES: &[(&str, &[&str])] = &[("traffic", &["random"])];
/// Foreign crates that only one module names.
const FOREIGN: &[(&str, &str)] = &[
    ("sled", "store"),
    ("rdkafka", "kafka"),
    ("rdkafka_sys", "kafka"),
    ("axum", "http"),
    ("hyper", "http"),
    ("hyper_util", "http"),
];
/// Modules that are pure folds, and what therefore never occurs in them.
const PURE: &[&str] = &["filter", "sketch", "shard"];
const IMPURE: &[&[&str]] = &[&["HashMap"], &["HashSet"], &["SystemTime"], &["Instant", "now"]];

#[derive(Debug, PartialEq, Eq)]
pub struct Breach {
    pub file: String,
    pub line: usize,
    pub rule: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

/// Every breach in one file; `file` is its path below `src/`, with `/`.
pub fn breaches(file: &str, source: &str) -> Vec<Breach> {
    let path = module_path(file);
    let module = path.first().copied().unwrap_or_default();
    let tokens = tokens(source);
    let mut found = Vec::new();
    if tier(module).is_none() {
        found.push((1, format!("{module} is not on the map of modules (tests/layering/rules.rs)")));
    }
    for (line, used) in crate_modules(&path, &tokens) {
        found.extend(upward(module, &used).map(|rule| (line, rule)));
    }
    let excused = source.lines().any(|line| line.starts_with("//!") && line.contains("unsafe"));
    for (place, (line, _)) in tokens.iter().enumerate() {
        found.extend(forbidden(module, excused, &tokens[place..]).map(|rule| (*line, rule)));
    }
    found.into_iter().map(|(line, rule)| Breach { file: format!("src/{file}"), line, rule }).collect()
}

/// `a.rs` and `a/mod.rs` are module a, `a/b.rs` is a::b.
fn module_path(file: &str) -> Vec<&str> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    stem.strip_suffix("/mod").unwrap_or(stem).split('/').collect()
}

fn tier(module: &str) -> Option<usize> {
    TIERS.iter().position(|tier| tier.contains(&module))
}

fn upward(module: &str, used: &str) -> Option<String> {
    if module == used {
        return None;
    }
    let Some(below) = tier(used) else {
        return Some(format!("crate::{used} is not on the map of modules (tests/layering/rules.rs)"));
    };
    if tier(module).is_some_and(|tier| tier <= below) {
        return Some(format!("{module} may not use {used}, which does not stand below it"));
    }
    let listed =
        |lists: &[(&str, &'static [&'static str])], name| lists.iter().find(|list| list.0 == name).map(|l| l.1);
    if let Some(users) = listed(USED_BY, used).filter(|users| !users.contains(&module)) {
        return Some(format!("{module} may not use {used}: only {} may", users.join(", ")));
    }
    let uses = listed(USES, module).filter(|uses| !uses.contains(&used))?;
    Some(format!("{module} may not use {used}: it stands on {} alone", uses.join(", ")))
}

/// What the first of these tokens names although it may not be named here.
fn forbidden(module: &str, unsafe_is_explained: bool, tokens: &[(usize, Token)]) -> Option<String> {
    let name = name_at(tokens, 0)?;
    if let Some((_, owner)) = FOREIGN.iter().find(|(foreign, owner)| *foreign == name && *owner != module) {
        return Some(format!("{module} may not name {name}: only {owner} does"));
    }
    if name == "unsafe" && !unsafe_is_explained {
        return Some("unsafe, and the module's documentation does not say why".into());
    }
    let impure = |words: &&&[&str]| words.iter().enumerate().all(|(i, word)| name_at(tokens, 2 * i) == Some(word));
    let words = IMPURE.iter().filter(|_| PURE.contains(&module)).find(impure)?;
    Some(format!("{module} is pure and may not name {}", words.join("::")))
}

fn name_at(tokens: &[(usize, Token)], place: usize) -> Option<&str> {
    match tokens.get(place) {
        Some((_, Token::Name(name))) => Some(name),
        _ => None,
    }
}

/// Every top-level module of the crate that the tokens name by a path from the root.
fn crate_modules(file: &[&str], tokens: &[(usize, Token)]) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    // How many braces were open where each inline module began.
    let (mut braces, mut inline) = (0usize, Vec::new());
    let mut place = 0;
    while place < tokens.len() {
        match &tokens[place].1 {
            Token::Sign('{') => {
                if name_at(tokens, place.saturating_sub(2)) == Some("mod") {
                    inline.push(braces);
                }
                braces += 1;
            }
            Token::Sign('}') => {
                braces = braces.saturating_sub(1);
                inline.pop_if(|began| *began == braces);
            }
            Token::Name(name) if begins_path(tokens, place) => {
                let supers = (0..).take_while(|i| is_super(tokens, place + 2 * i)).count();
                if matches!(name.as_str(), "crate" | "ebb") {
                    used.extend(after_root(&tokens[place + 2..]));
                } else if supers > 0 && supers == file.len() + inline.len() {
                    used.extend(after_root(&tokens[place + 2 * supers..]));
                }
            }
            Token::Name(_) | Token::Path | Token::Sign(_) => {}
        }
        place += 1;
    }
    used
}

fn begins_path(tokens: &[(usize, Token)], place: usize) -> bool {
    let after_path = place > 0 && tokens[place - 1].1 == Token::Path;
    !after_path && tokens.get(place + 1).is_some_and(|next| next.1 == Token::Path)
}

fn is_super(tokens: &[(usize, Token)], place: usize) -> bool {
    name_at(tokens, place) == Some("super") && tokens.get(place + 1).is_some_and(|next| next.1 == Token::Path)
}

/// The modules named right after the root: one, or all of a group.
fn after_root(tokens: &[(usize, Token)]) -> Vec<(usize, String)> {
    let (mut used, mut depth) = (Vec::new(), 0);
    let mut expected = true;
    for (line, token) in tokens {
        match token {
            Token::Sign('{') => depth += 1,
            Token::Sign('}') => depth -= 1,
            Token::Sign(',') if depth == 1 => expected = true,
            Token::Sign('*') if expected => used.push((*line, "*".to_owned())),
            Token::Name(name) if expected => {
                expected = false;
                used.push((*line, name.clone()));
            }
            Token::Name(_) | Token::Path | Token::Sign(_) => {}
        }
        if depth == 0 {
            break;
        }
    }
    used
}
