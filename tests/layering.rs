//! The direction of dependencies and the law of the pure modules, checked on every source file.

#[path = "layering/rules.rs"]
mod rules;
#[path = "layering/tokens.rs"]
mod tokens;

use std::fs;
use std::path::Path;

use rules::{Breach, breaches};

fn check(directory: &Path, below: &str, found: &mut Vec<Breach>) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        let name = format!("{below}{}", name.to_str().unwrap());
        if path.is_dir() {
            files += check(&path, &format!("{name}/"), found);
        } else if name.ends_with(".rs") {
            files += 1;
            found.extend(breaches(&name, &fs::read_to_string(&path).unwrap()));
        }
    }
    files
}

#[test]
fn every_source_file_keeps_the_rules() {
    let mut found = Vec::new();
    let files = check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut found);
    assert!(files > 10, "only {files} files were found");
    let list: Vec<String> = found.iter().map(Breach::to_string).collect();
    assert!(list.is_empty(), "\n{}", list.join("\n"));
}

/// The first breach as people read it.
fn first(file: &str, source: &str) -> Option<String> {
    breaches(file, source).first().map(Breach::to_string)
}

#[test]
fn downward_and_own_paths_are_allowed() {
    for (file, source) in [
        ("shard/reader/json.rs", "use crate::shard::event::Reason;\nuse crate::hash::Fingerprint;"),
        ("filter/timing/cells.rs", "use super::super::Common; use crate::{codec::{self, Kind}, decay};"),
        ("units.rs", "mod tests { use super::*; fn f() { super::parse() } }"),
        ("app.rs", "use crate::config::Config; use crate::metrics::Metrics; use crate::http;"),
        ("store/mod.rs", "use sled::Db; use std::time::SystemTime; use std::collections::HashMap;"),
        ("shard/mod.rs", "//! Unlike [`crate::http`], no HashMap.\nconst AT: &str = \"crate::http unsafe\";"),
        ("filter/lines.rs", "//! unsafe, because prefetching has no safe form.\nunsafe {}"),
        ("workers/mod.rs", "fn now() { Instant::now(); }"),
    ] {
        assert_eq!(first(file, source), None, "{file}: {source}");
    }
}

#[test]
fn an_upward_use_is_found_with_its_line_in_each_form() {
    let rule = "shard may not use workers, which does not stand below it";
    for (line, source) in [
        (2, "use crate::hash;\nuse crate::workers::Worker;"),
        (1, "fn f() { crate::workers::start() }"),
        (3, "use crate::{\n    codec::{self, Kind},\n    workers::Worker,\n};"),
        (1, "use crate::{hash, workers};"),
        (1, "use super::super::workers;"),
        (1, "mod tests { use super::super::super::workers::Worker; }"),
        (1, "pub use ebb::workers;"),
    ] {
        let found = first("shard/plan.rs", source);
        assert_eq!(found, Some(format!("src/shard/plan.rs:{line}: {rule}")), "{source}");
    }
}

#[test]
fn neighbours_favourites_and_unknown_modules_are_found() {
    for (file, source, rule) in [
        ("filter/mod.rs", "use crate::sketch;", "filter may not use sketch, which does not stand below it"),
        ("http/mod.rs", "use crate::config;", "http may not use config: only telemetry, app, cli, main may"),
        ("cli.rs", "use crate::metrics;", "cli may not use metrics: only kafka, workers, http, app may"),
        ("traffic/mod.rs", "use crate::hash;", "traffic may not use hash: it stands on random alone"),
        ("hash.rs", "use super::random;", "hash may not use random, which does not stand below it"),
        ("app.rs", "use crate::utils;", "crate::utils is not on the map of modules (tests/layering/rules.rs)"),
        ("app.rs", "use crate::*;", "crate::* is not on the map of modules (tests/layering/rules.rs)"),
        ("utils.rs", "", "utils is not on the map of modules (tests/layering/rules.rs)"),
    ] {
        assert_eq!(first(file, source), Some(format!("src/{file}:1: {rule}")), "{source}");
    }
}

#[test]
fn foreign_crates_impure_words_and_unsafe_are_found() {
    for (file, source, rule) in [
        ("workers/mod.rs", "use sled::Db;", "workers may not name sled: only store does"),
        ("store/mod.rs", "use rdkafka::Message;", "store may not name rdkafka: only kafka does"),
        ("app.rs", "fn f(r: axum::Router) {}", "app may not name axum: only http does"),
        ("app.rs", "use hyper_util::rt;", "app may not name hyper_util: only http does"),
        ("shard/a.rs", "use std::collections::HashMap;", "shard is pure and may not name HashMap"),
        ("filter/a.rs", "let t = SystemTime::now();", "filter is pure and may not name SystemTime"),
        ("sketch/a.rs", "let t = Instant::now();", "sketch is pure and may not name Instant::now"),
        ("app.rs", "// unsafe\nunsafe {}", "unsafe, and the module's documentation does not say why"),
    ] {
        let line = 1 + source.matches('\n').count();
        assert_eq!(first(file, source), Some(format!("src/{file}:{line}: {rule}")), "{source}");
    }
}
