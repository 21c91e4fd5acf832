//! The command line: capacity plans, queries to a running service, generated documents.

mod ask;
mod documents;
mod forecast;
mod plan;

use std::process::{Command, Output};

/// Runs the binary without the `EBB_` variables of the test's environment.
fn ebb(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("EBB_")) {
        command.env_remove(name);
    }
    command.args(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the output is UTF-8")
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}
