//! The report of `ebb eval` on the same log, which must have the same figures.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::decisions::Decisions;
use crate::{ServiceRun, configuration};

/// The report as JSON and as text.
pub struct EvalReport {
    json: Value,
    pub text: String,
}

/// Runs `ebb eval` with the hash key of the service in `data`.
pub fn evaluate(log: &Path, every: usize, data: &Path) -> EvalReport {
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
    assert!(page.ends_with("</html>\n") && page.matches("<svg").count() >= 4 * 3 + 8, "missing plots");
    assert!(
        !page.contains("http-equiv") && !page.contains("<script") && !page.contains("src="),
        "the page must be self-contained"
    );
    EvalReport { json: serde_json::from_str(&json).unwrap(), text }
}

impl EvalReport {
    /// Checks that all figures are those of the service.
    pub fn compare(&self, service: &ServiceRun) {
        let bad: u64 = self.json["bad_lines"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(bad, service.bad_lines as u64);
        service.decisions.iter().for_each(|stream| self.compare_decisions(stream));
        let aggregates = self.stream("within_10m")["aggregates"].as_array().unwrap();
        for ((aggregate, decay, statistic), series) in &service.answers.series {
            let found = aggregates.iter().find(|one| one["name"] == *aggregate).unwrap();
            let checks = found["checks"].as_array().unwrap();
            let check = checks.iter().find(|one| one["decay"] == *decay && one["statistic"] == *statistic);
            let check = check.unwrap_or_else(|| panic!("{aggregate} has no {statistic} under {decay}"));
            let counts = ["certain", "certain_outside", "chancy", "chancy_outside"].map(|name| &check[name]);
            assert_eq!(
                counts.map(|count| count.as_u64().unwrap()),
                [
                    series.deterministic,
                    series.deterministic_outside,
                    series.probabilistic,
                    series.probabilistic_outside
                ],
                "{aggregate} {statistic} under {decay}"
            );
            let points = check["over_time"].as_array().unwrap();
            assert_eq!(points.len(), series.points.len());
            for (reported, point) in points.iter().zip(&series.points) {
                for (name, found) in
                    [("truth", point.truth), ("value", point.value), ("lower", point.lower), ("upper", point.upper)]
                {
                    let reported = reported[name].as_f64().unwrap();
                    let near = (reported - found).abs() <= 1e-9 * found.abs().max(1e-12);
                    assert!(near, "{aggregate} {statistic} under {decay}: {name} {reported} for {found}");
                }
            }
        }
    }

    fn stream(&self, name: &str) -> &Value {
        self.json["streams"].as_array().unwrap().iter().find(|stream| stream["name"] == name).unwrap()
    }

    fn compare_decisions(&self, service: &Decisions) {
        let reported = self.stream(service.window.stream);
        let rejected = &reported["verdicts"]["rejected"];
        let rejected: u64 = rejected.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(rejected, service.rejected);
        for (section, name, found) in [
            ("verdicts", "unique", service.unique),
            ("verdicts", "duplicate", service.duplicate),
            ("verdicts", "late", service.late),
            ("mistakes", "firsts", service.firsts),
            ("mistakes", "repeats", service.repeats),
            ("mistakes", "false_duplicates", service.false_duplicates),
            ("mistakes", "at_the_edge", service.at_the_edge),
            ("mistakes", "missed_duplicates", service.missed),
            ("mistakes", "forgotten", service.forgotten),
        ] {
            assert_eq!(reported[section][name], json!(found), "{}: {section}.{name}", service.window.stream);
        }
        for (name, found) in [("service", service.penalty_paid), ("no_filter", service.penalty_without_filter)] {
            let reported = reported["penalty"][name].as_f64().unwrap();
            assert!(
                (reported - found).abs() < 1e-6,
                "{}: penalty.{name} {reported} for {found}",
                service.window.stream
            );
        }
        let bins = reported["calibration"].as_array().unwrap();
        let used = service.probabilities.iter().filter(|(stated, ..)| *stated > 0);
        assert_eq!(bins.len(), used.clone().count());
        for (bin, (stated, sum, came_true)) in bins.iter().zip(used) {
            assert_eq!(bin["stated"], json!(stated));
            let part = |name: &str| bin[name].as_f64().unwrap() * *stated as f64;
            assert!((part("mean_stated") - sum).abs() < 1e-6 * sum.max(1.0), "{bin}");
            assert!((part("came_true") - *came_true as f64).abs() < 1e-6, "{bin}");
        }
    }
}
