//! Runs the checker, which is a program of its own, and reads what it found.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::broker::tools;
use crate::stage::{BLOCK_MS, FALSE_RATE, GROUP, INPUT, LATENESS_MS, Stage, VERDICTS, WINDOW_MS, output};

/// What the checker printed.
#[derive(Debug, Clone)]
pub struct Findings(pub Value);

impl Findings {
    pub fn count(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {}", self.0))
    }

    pub fn is_ok(&self) -> bool {
        self.0["ok"] == true
    }

    /// The anomalies that were found, with how many.
    pub fn anomalies(&self) -> Vec<(&'static str, u64)> {
        let all = ["lost", "doubled", "reordered", "wrong", "holes", "open", "unfinished"];
        all.into_iter().map(|name| (name, self.count(name))).filter(|(_, count)| *count > 0).collect()
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let names =
            ["inputs", "lost", "doubled", "reordered", "wrong", "holes", "open", "unfinished", "false_duplicates"];
        let counts: Vec<String> = names.iter().map(|name| format!("{name}={}", self.count(name))).collect();
        format!("{} verdicts={} rejected={}", counts.join(" "), self.0["verdicts"], self.0["rejected"])
    }

    #[track_caller]
    pub fn assert_clean(&self, inputs: u64) {
        println!("checker: {}", self.line());
        assert!(self.is_ok(), "the checker found: {:?}\n{:#}", self.anomalies(), self.0["examples"]);
        assert_eq!(self.count("inputs"), inputs, "inputs are missing from the input topic");
    }
}

/// Checks everything that is in the topics of the stage now. Panics when the check itself fails.
pub fn check(stage: &Stage) -> Findings {
    let outputs: Value = VERDICTS.iter().map(|verdict| ((*verdict).to_owned(), Value::from(output(verdict)))).collect();
    let spec = json!({
        "brokers": stage.cluster.brokers(),
        "group": GROUP,
        "input": INPUT,
        "outputs": outputs,
        "delivery": stage.delivery.name(),
        "event": {
            "item": ["ip", "ad", "user"], "key": "campaign", "time": "ts", "id": "click_id", "value": "cost",
            "importance": "tier", "max_skew_ms": 300_000,
        },
        "dedup": {
            "window_ms": WINDOW_MS, "lateness_ms": LATENESS_MS, "block_ms": BLOCK_MS, "seen": "first",
            "false_rate": FALSE_RATE,
        },
    });
    let file = stage.file("checker.json");
    fs::write(&file, spec.to_string()).expect("the checker's task");
    run(&file)
}

fn program() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/checker")
}

fn python() -> Command {
    let mut python = Command::new(tools::root().join("checker/bin/python"));
    python.arg("-B").current_dir(program());
    python
}

fn run(spec: &Path) -> Findings {
    let ran = python().arg("check.py").arg(spec).output().expect("python runs");
    let (out, said) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(matches!(ran.status.code(), Some(0 | 1)), "the checker failed ({}): {said}", ran.status);
    let findings: Value = serde_json::from_str(out.trim()).unwrap_or_else(|error| panic!("{error}: {out}{said}"));
    assert_eq!(ran.status.code() == Some(0), findings["ok"] == true);
    Findings(findings)
}

/// The checker's own tests: each anomaly planted and found.
#[test]
fn the_checker_finds_every_planted_anomaly() {
    crate::skip_without_kafka!();
    let ran = python().args(["-m", "unittest", "-q"]).output().expect("python runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    print!("{said}");
    assert!(ran.status.success() && said.contains("OK") && !said.contains("Ran 0 tests"), "{said}");
}
