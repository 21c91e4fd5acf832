//! What `ebb eval` says about the same log: the same figures.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::decisions::Decisions;
use crate::{Judged, configuration};

/// The report, for machines and for people.
pub struct Figures {
    json: Value,
    pub text: String,
}

/// Runs `ebb eval` with the hash key of the service in `data`.
pub fn evaluate(log: &Path, every: usize, data: &Path) -> Figures {
    let page = data.join("report.html");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command.arg("eval").arg(log).arg("-c").arg(configuration()).args(["--every", &every.to_string()]).args(more);
        let done = command.env("EBB_DATA_DIR", data).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(done.stderr.is_empty(), "no progress bar without a terminal");
        String::from_utf8(done.stdout).unwrap()
    };
    let json = run(&["--json", "--check"]);
    let text = run(&["--html", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.ends_with("</html>\n") && page.matches("<svg").count() >= 4 * 3 + 8, "a plot for each figure");
    assert!(!page.contains("http-equiv") && !page.contains("<script") && !page.contains("src="), "it stands alone");
    Figures { json: serde_json::from_str(&json).unwrap(), text }
}

impl Figures {
    /// Every figure of the service is the one that was printed.
    pub fn compare(&self, judged: &Judged) {
        let bad: u64 = self.json["bad_lines"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(bad, judged.bad_lines as u64);
        judged.decisions.iter().for_each(|stream| self.compare_decisions(stream));
        let aggregates = self.stream("within_10m")["aggregates"].as_array().unwrap();
        for ((aggregate, decay, statistic), asked) in &judged.answers.asked {
            let found = aggregates.iter().find(|one| one["name"] == *aggregate).unwrap();
            let checks = found["checks"].as_array().unwrap();
            let check = checks.iter().find(|one| one["decay"] == *decay && one["statistic"] == *statistic);
            let check = check.unwrap_or_else(|| panic!("{aggregate} has no {statistic} under {decay}"));
            let counts = ["certain", "certain_outside", "chancy", "chancy_outside"].map(|name| &check[name]);
            assert_eq!(
                counts.map(|count| count.as_u64().unwrap()),
                [asked.certain, asked.certain_outside, asked.likely, asked.likely_outside],
                "{aggregate} {statistic} under {decay}"
            );
            let points = check["over_time"].as_array().unwrap();
            assert_eq!(points.len(), asked.points.len());
            for (told, point) in points.iter().zip(&asked.points) {
                for (name, found) in
                    [("truth", point.truth), ("value", point.value), ("lower", point.lower), ("upper", point.upper)]
                {
                    let told = told[name].as_f64().unwrap();
                    let near = (told - found).abs() <= 1e-9 * found.abs().max(1e-12);
                    assert!(near, "{aggregate} {statistic} under {decay}: {name} {told} for {found}");
                }
            }
        }
    }

    fn stream(&self, name: &str) -> &Value {
        self.json["streams"].as_array().unwrap().iter().find(|stream| stream["name"] == name).unwrap()
    }

    fn compare_decisions(&self, judged: &Decisions) {
        let told = self.stream(judged.window.stream);
        let rejected = &told["verdicts"]["rejected"];
        let rejected: u64 = rejected.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(rejected, judged.rejected);
        for (section, name, found) in [
            ("verdicts", "unique", judged.unique),
            ("verdicts", "duplicate", judged.duplicate),
            ("verdicts", "late", judged.late),
            ("mistakes", "firsts", judged.firsts),
            ("mistakes", "repeats", judged.repeats),
            ("mistakes", "false_duplicates", judged.false_duplicates),
            ("mistakes", "at_the_edge", judged.at_the_edge),
            ("mistakes", "missed_duplicates", judged.missed),
            ("mistakes", "forgotten", judged.forgotten),
        ] {
            assert_eq!(told[section][name], json!(found), "{}: {section}.{name}", judged.window.stream);
        }
        for (name, found) in [("service", judged.paid), ("no_filter", judged.paid_without_filter)] {
            let told = told["penalty"][name].as_f64().unwrap();
            assert!((told - found).abs() < 1e-6, "{}: penalty.{name} {told} for {found}", judged.window.stream);
        }
        let bins = told["calibration"].as_array().unwrap();
        let used = judged.chances.iter().filter(|(stated, ..)| *stated > 0);
        assert_eq!(bins.len(), used.clone().count());
        for (bin, (stated, sum, came_true)) in bins.iter().zip(used) {
            assert_eq!(bin["stated"], json!(stated));
            let part = |name: &str| bin[name].as_f64().unwrap() * *stated as f64;
            assert!((part("mean_stated") - sum).abs() < 1e-6 * sum.max(1.0), "{bin}");
            assert!((part("came_true") - *came_true as f64).abs() < 1e-6, "{bin}");
        }
    }
}
