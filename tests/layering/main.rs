//! The direction of dependencies between modules and crates, and the purity of the core, checked on every source file.

mod dependencies;
mod map;
mod tokens;
mod violations;

use std::fs;
use std::path::Path;

use map::{CORE, CRATES, CrateMap, SERVICE, SKETCH, TRAFFIC};
use violations::{Violation, violations};

/// Checks every source file below `directory` and returns how many there are.
fn check(map: &CrateMap, directory: &Path, prefix: &str, found: &mut Vec<Violation>) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        let name = format!("{prefix}{}", name.to_str().unwrap());
        if path.is_dir() {
            files += check(map, &path, &format!("{name}/"), found);
        } else if name.ends_with(".rs") {
            files += 1;
            found.extend(violations(map, &name, &fs::read_to_string(&path).unwrap()));
        }
    }
    files
}

#[test]
fn every_source_file_keeps_the_rules_of_its_crate() {
    let mut found = Vec::new();
    for map in CRATES {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(map.sources);
        let files = check(map, &sources, "", &mut found);
        assert!(files > 10, "only {files} files in {}", map.sources);
    }
    let list: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(list.is_empty(), "\n{}", list.join("\n"));
}

fn first_violation(map: &CrateMap, file: &str, source: &str) -> Option<String> {
    violations(map, file, source).first().map(Violation::to_string)
}

#[test]
fn paths_to_lower_tiers_and_to_the_own_module_are_allowed() {
    for (map, file, source) in [
        (&SERVICE, "app.rs", "use crate::config::Config; use crate::metrics::Metrics; use crate::http;"),
        (&SERVICE, "store/mod.rs", "use sled::Db; use std::time::SystemTime; use std::collections::HashMap;"),
        (&SERVICE, "http/a.rs", "//! Unlike [`crate::app`].\nconst TEXT: &str = \"crate::app unsafe\";"),
        (&SERVICE, "kafka/raw.rs", "//! unsafe, because the C interface has no safe form.\nunsafe {}"),
        (&SERVICE, "workers/mod.rs", "fn now() { Instant::now(); }"),
        (&CORE, "reader/json.rs", "use crate::reader::fields::Field; use crate::event::Reason;"),
        (&SKETCH, "filter/timing/cells.rs", "use super::super::Shape; use crate::{codec::{self, Kind}, decay};"),
        (&SKETCH, "units.rs", "mod tests { use super::*; fn f() { super::parse() } }"),
        (&TRAFFIC, "tests.rs", "use super::*;"),
    ] {
        assert_eq!(first_violation(map, file, source), None, "{file}: {source}");
    }
}

#[test]
fn use_of_a_higher_tier_is_reported_with_its_line_in_every_form() {
    let rule = "workers may not use app: it is not in a lower tier";
    for (line, source) in [
        (2, "use crate::store;\nuse crate::app::serve;"),
        (1, "fn f() { crate::app::serve() }"),
        (3, "use crate::{\n    store::{self, Store},\n    app::serve,\n};"),
        (1, "use crate::{store, app};"),
        (1, "use super::super::app;"),
        (1, "mod tests { use super::super::super::app::serve; }"),
        (1, "pub use ebb::app;"),
    ] {
        let found = first_violation(&SERVICE, "workers/worker.rs", source);
        assert_eq!(found, Some(format!("src/workers/worker.rs:{line}: {rule}")), "{source}");
    }
}

#[test]
fn same_tier_restricted_and_unlisted_modules_are_reported() {
    let unlisted = "module utils is not listed in tests/layering/map.rs";
    for (map, file, source, rule) in [
        (&SKETCH, "filter/mod.rs", "use crate::aggregate;", "filter may not use aggregate: it is not in a lower tier"),
        (&CORE, "event.rs", "use super::plan;", "event may not use plan: it is not in a lower tier"),
        (&CORE, "event.rs", "use crate::Plan;", "event may not use lib: it is not in a lower tier"),
        (&CORE, "event.rs", "use crate::*;", "event may not use lib: it is not in a lower tier"),
        (&TRAFFIC, "targets.rs", "use super::Traffic;", "targets may not use lib: it is not in a lower tier"),
        (&SERVICE, "http/mod.rs", "use crate::config;", "http may not use config: only telemetry, app, cli, main may"),
        (&SERVICE, "cli.rs", "use crate::metrics;", "cli may not use metrics: only kafka, workers, http, app may"),
        (&SERVICE, "app.rs", "use crate::utils;", unlisted),
        (&SERVICE, "utils.rs", "", unlisted),
    ] {
        let expected = format!("{}/{file}:1: {rule}", map.sources);
        assert_eq!(first_violation(map, file, source), Some(expected), "{source}");
    }
}

#[test]
fn restricted_crates_impure_names_and_unexplained_unsafe_are_reported() {
    for (map, file, source, rule) in [
        (&SERVICE, "workers/mod.rs", "use sled::Db;", "workers may not name sled: only store may"),
        (&SERVICE, "store/mod.rs", "use rdkafka::Message;", "store may not name rdkafka: only kafka may"),
        (&SERVICE, "app.rs", "fn f(r: axum::Router) {}", "app may not name axum: only http may"),
        (&SERVICE, "app.rs", "use hyper_util::rt;", "app may not name hyper_util: only http may"),
        (&CORE, "event.rs", "use std::collections::HashMap;", "HashMap may not be named in a pure crate"),
        (&SKETCH, "hash.rs", "let t = SystemTime::now();", "SystemTime may not be named in a pure crate"),
        (&TRAFFIC, "targets.rs", "let t = Instant::now();", "Instant::now may not be named in a pure crate"),
        (&SERVICE, "app.rs", "// unsafe\nunsafe {}", "unsafe code without a reason in the module documentation"),
    ] {
        let line = 1 + source.matches('\n').count();
        let expected = format!("{}/{file}:{line}: {rule}", map.sources);
        assert_eq!(first_violation(map, file, source), Some(expected), "{source}");
    }
}
