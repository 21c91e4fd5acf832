//! The dependencies of each crate as Cargo resolves them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The external services that the pure crates must build without.
const SERVICE_CRATES: &[&str] = &["rdkafka", "rdkafka-sys", "sled", "axum", "hyper", "tokio"];

/// The names of all packages that `cargo tree` lists for the given selection, dev-dependencies excluded.
fn dependencies(selection: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    cargo.args(["tree", "--offline", "--locked", "-e", "normal", "--prefix", "none"]).args(selection);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn assert_without(selection: &[&str], unwanted: &[&str]) {
    let found = dependencies(selection);
    assert!(found.len() > 5, "cargo tree {selection:?} lists only {found:?}");
    let unwanted: Vec<&&str> = unwanted.iter().filter(|name| found.contains(**name)).collect();
    assert!(unwanted.is_empty(), "{selection:?} depends on {unwanted:?}");
}

#[test]
fn pure_crates_build_without_kafka_storage_and_http() {
    for package in ["ebb-sketch", "ebb-core", "ebb-traffic"] {
        assert_without(&["-p", package], SERVICE_CRATES);
    }
}

#[test]
fn evaluation_builds_without_kafka_storage_and_http() {
    assert_without(&["-p", "ebb-eval"], &["rdkafka", "rdkafka-sys", "sled", "axum"]);
}

#[test]
fn service_without_default_features_builds_without_evaluation() {
    assert_without(&["-p", "ebb", "--no-default-features"], &["csv", "plotters", "ebb-eval"]);
}
