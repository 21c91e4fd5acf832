//! Runs the independent checker, a Python program, and parses its findings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::broker::{Cluster, tools};
use crate::testbed::{BLOCK_MS, Delivery, FALSE_RATE, LATENESS_MS, VERDICTS, WINDOW_MS};

const ANOMALIES: [&str; 7] = ["lost", "doubled", "reordered", "wrong", "holes", "open", "unfinished"];

/// What to check.
#[derive(Debug)]
pub struct CheckerSpec<'a> {
    pub cluster: &'a Cluster,
    pub group: &'a str,
    pub input: &'a str,
    pub delivery: Delivery,
    /// The file that the checker's configuration is written to.
    pub file: PathBuf,
}

/// The checker's report.
#[derive(Debug, Clone)]
pub struct Findings(Value);

impl Findings {
    pub fn count(&self, name: &str) -> u64 {
        self.0[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {}", self.0))
    }

    /// The number of inputs with this verdict.
    pub fn verdicts(&self, verdict: &str) -> u64 {
        self.0["verdicts"][verdict].as_u64().unwrap_or(0)
    }

    pub fn is_ok(&self) -> bool {
        self.0["ok"] == true
    }

    fn anomalies(&self) -> Vec<(&'static str, u64)> {
        ANOMALIES.into_iter().map(|name| (name, self.count(name))).filter(|(_, count)| *count > 0).collect()
    }

    /// A one-line summary.
    pub fn summary(&self) -> String {
        let names = ["inputs"].into_iter().chain(ANOMALIES).chain(["false_duplicates"]);
        let counts: Vec<String> = names.map(|name| format!("{name}={}", self.count(name))).collect();
        format!("{} verdicts={} rejected={}", counts.join(" "), self.0["verdicts"], self.0["rejected"])
    }

    #[track_caller]
    pub fn assert_clean(&self, inputs: u64) {
        println!("checker: {}", self.summary());
        assert!(self.is_ok(), "the checker found {:?}\n{:#}", self.anomalies(), self.0["examples"]);
        assert_eq!(self.count("inputs"), inputs, "the input topic is incomplete");
    }
}

/// Checks the current content of an input topic and its output topics. Panics if the checker itself fails.
pub fn run_checker(spec: &CheckerSpec<'_>) -> Findings {
    let CheckerSpec { cluster, group, input, delivery, file } = spec;
    let outputs: Value =
        VERDICTS.iter().map(|verdict| ((*verdict).to_owned(), json!(format!("{input}.{verdict}")))).collect();
    let config = json!({
        "brokers": cluster.brokers(), "group": group, "input": input, "outputs": outputs, "delivery": delivery.name(),
        "event": {
            "item": ["ip", "ad", "user"], "key": "campaign", "time": "ts", "id": "click_id", "value": "cost",
            "importance": "tier", "max_skew_ms": 300_000,
        },
        "dedup": {
            "window_ms": WINDOW_MS, "lateness_ms": LATENESS_MS, "block_ms": BLOCK_MS, "seen": "first",
            "false_rate": FALSE_RATE,
        },
    });
    fs::write(file, config.to_string()).expect("write the checker's configuration");
    let output = python().arg("check.py").arg(file).output().expect("run python");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 1)), "the checker failed ({}): {stderr}", output.status);
    let report: Value = serde_json::from_str(stdout.trim()).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
    assert_eq!(output.status.code() == Some(0), report["ok"] == true, "exit status and report disagree");
    Findings(report)
}

fn python() -> Command {
    let mut python = tools::python();
    python.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/checker"));
    python
}

#[test]
fn checker_finds_every_planted_anomaly() {
    crate::skip_without_kafka!();
    let output = python().args(["-m", "unittest", "-q"]).output().expect("run python");
    let stderr = String::from_utf8_lossy(&output.stderr);
    print!("{stderr}");
    assert!(output.status.success() && stderr.contains("OK") && !stderr.contains("Ran 0 tests"), "{stderr}");
}
