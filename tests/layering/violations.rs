//! Finds the names in a source file that the map of its crate does not allow.

use std::fmt;

use crate::map::CrateMap;
use crate::tokens::{Token, tokens};

#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub file: String,
    pub line: usize,
    pub rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

/// Every violation in one file; `file` is its path below the sources of the crate, separated by `/`.
pub fn violations(map: &CrateMap, file: &str, source: &str) -> Vec<Violation> {
    let path = module_path(file);
    let module = path.first().copied().unwrap_or_default();
    let tokens = tokens(source);
    let mut found = Vec::new();
    if map.tier(module).is_none() {
        found.push((1, unmapped(module)));
    }
    // Test modules may use every module of their crate.
    let is_test = path.last() == Some(&"tests");
    for (line, used) in crate_modules(&path, &tokens).into_iter().filter(|_| !is_test) {
        found.extend(disallowed_use(map, module, &used).map(|rule| (line, rule)));
    }
    let explains_unsafe = source.lines().any(|line| line.starts_with("//!") && line.contains("unsafe"));
    for (index, (line, _)) in tokens.iter().enumerate() {
        let rest = &tokens[index..];
        found.extend(disallowed_name(map, module, rest).map(|rule| (*line, rule)));
        if name_at(rest, 0) == Some("unsafe") && !explains_unsafe {
            found.push((*line, "unsafe code without a reason in the module documentation".to_owned()));
        }
    }
    let file = format!("{}/{file}", map.sources);
    found.into_iter().map(|(line, rule)| Violation { file: file.clone(), line, rule }).collect()
}

/// `a.rs` and `a/mod.rs` are module a, `a/b.rs` is a::b.
fn module_path(file: &str) -> Vec<&str> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    stem.strip_suffix("/mod").unwrap_or(stem).split('/').collect()
}

fn unmapped(module: &str) -> String {
    format!("module {module} is not listed in tests/layering/map.rs")
}

/// Why `module` may not use the top-level module `used`, if so.
fn disallowed_use(map: &CrateMap, module: &str, used: &str) -> Option<String> {
    if module == used || map.exceptions.contains(&(module, used)) {
        return None;
    }
    let Some(below) = map.tier(used) else {
        return Some(unmapped(used));
    };
    if map.tier(module).is_some_and(|tier| tier <= below) {
        return Some(format!("{module} may not use {used}: it is not in a lower tier"));
    }
    let users = map.users(used).filter(|users| !users.contains(&module))?;
    Some(format!("{module} may not use {used}: only {} may", users.join(", ")))
}

/// Why the path that begins with the first of these tokens may not be named, if so.
fn disallowed_name(map: &CrateMap, module: &str, tokens: &[(usize, Token)]) -> Option<String> {
    let name = name_at(tokens, 0)?;
    if let Some(owner) = map.owner(name).filter(|owner| *owner != module) {
        return Some(format!("{module} may not name {name}: only {owner} may"));
    }
    let is_named = |path: &&&[&str]| path.iter().enumerate().all(|(i, part)| name_at(tokens, 2 * i) == Some(part));
    let path = map.forbidden.iter().find(is_named)?;
    Some(format!("{} may not be named in a pure crate", path.join("::")))
}

fn name_at(tokens: &[(usize, Token)], index: usize) -> Option<&str> {
    match tokens.get(index) {
        Some((_, Token::Name(name))) => Some(name),
        Some((_, Token::Path | Token::Sign(_))) | None => None,
    }
}

/// Every top-level module of the crate that the tokens name by a path from the crate root, with its line.
fn crate_modules(file: &[&str], tokens: &[(usize, Token)]) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    // The brace depth at which each enclosing inline module began.
    let (mut depth, mut inline) = (0usize, Vec::new());
    for (index, (_, token)) in tokens.iter().enumerate() {
        match token {
            Token::Sign('{') => {
                if name_at(tokens, index.saturating_sub(2)) == Some("mod") {
                    inline.push(depth);
                }
                depth += 1;
            }
            Token::Sign('}') => {
                depth = depth.saturating_sub(1);
                inline.pop_if(|began| *began == depth);
            }
            Token::Name(name) if begins_path(tokens, index) => {
                let supers = (0..).take_while(|i| is_super(tokens, index + 2 * i)).count();
                if matches!(name.as_str(), "crate" | "ebb") {
                    used.extend(after_root(&tokens[index + 2..]));
                } else if supers > 0 && supers == file.len() + inline.len() {
                    used.extend(after_root(&tokens[index + 2 * supers..]));
                }
            }
            Token::Name(_) | Token::Path | Token::Sign(_) => {}
        }
    }
    used
}

fn begins_path(tokens: &[(usize, Token)], index: usize) -> bool {
    let after_path = index > 0 && tokens[index - 1].1 == Token::Path;
    !after_path && tokens.get(index + 1).is_some_and(|next| next.1 == Token::Path)
}

fn is_super(tokens: &[(usize, Token)], index: usize) -> bool {
    name_at(tokens, index) == Some("super") && tokens.get(index + 1).is_some_and(|next| next.1 == Token::Path)
}

/// The modules named directly after the root: one, or all of a group. An item that the root itself declares or re-exports
/// is reported as module `lib`.
fn after_root(tokens: &[(usize, Token)]) -> Vec<(usize, String)> {
    let (mut used, mut depth) = (Vec::new(), 0);
    let mut expected = true;
    for (line, token) in tokens {
        match token {
            Token::Sign('{') => depth += 1,
            Token::Sign('}') => depth -= 1,
            Token::Sign(',') if depth == 1 => expected = true,
            Token::Sign('*') if expected => used.push((*line, "lib".to_owned())),
            Token::Name(name) if expected => {
                expected = false;
                let is_module = name.starts_with(|first: char| first.is_lowercase());
                used.push((*line, if is_module { name.clone() } else { "lib".to_owned() }));
            }
            Token::Name(_) | Token::Path | Token::Sign(_) => {}
        }
        if depth == 0 {
            break;
        }
    }
    used
}
