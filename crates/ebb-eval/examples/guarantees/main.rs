//! Checks every stated bound of every aggregate against exact answers: `make guarantees`, or
//! `cargo run --release --example guarantees -- [RUNS] [METHOD …]`.
//!
//! A family is one method, distribution of values, decay and statistic. Each run draws new ids, values and times, asks every
//! statistic, and counts the answers whose truth is outside the bounds. Deterministic and exact bounds must never fail. The
//! failures of probabilistic ones are compared with their delta by the exact binomial tail.

mod family;
mod probes;
mod report;
mod setup;
mod stream;
mod truth;

use std::process::ExitCode;

/// Runs of each family of a sampling method.
const RUNS: u64 = 2_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runs = arguments.first().map_or(Ok(RUNS), |runs| runs.parse::<u64>());
    let methods = arguments.get(1..).unwrap_or_default();
    let (Ok(runs), None) = (&runs, methods.iter().find(|name| !setup::is_method(name))) else {
        eprintln!("guarantees: write the number of runs, then names of methods: {}", setup::method_names().join(", "));
        return ExitCode::from(2);
    };
    let is_selected = |name: &str| methods.is_empty() || methods.iter().any(|method| method == name);
    let report = report::Report::new(family::check_all(*runs, is_selected));
    report.print();
    if report.false_guarantees() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_family_fails_more_often_than_stated() {
        let report = report::Report::new(family::check_all(5, |_| true));
        assert!(report.families() > 1_000, "{}", report.families());
        assert_eq!(report.false_guarantees(), 0, "{}", report.failures());
    }
}
