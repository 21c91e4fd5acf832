//! The summary of a scenario: one line of `name=count` pairs with the injected faults and the findings.
//!
//! `EBB_CHAOS_TALLY` names a file that the lines of a run are appended to; `scripts/kafka/chaos.sh` adds them up and
//! requires a minimum of some counts by name.

use std::fs::File;
use std::io::Write;

use super::Scenario;
use crate::checker::Findings;
use crate::log_lines::PARTITIONS_ASSIGNED;
use crate::testbed::Delivery;

/// One summary line.
#[derive(Debug)]
pub struct ScenarioSummary(String);

impl ScenarioSummary {
    pub fn new(scenario: &str) -> Self {
        Self(scenario.to_owned())
    }

    #[must_use]
    pub fn with(mut self, name: &str, count: u64) -> Self {
        self.0.push_str(&format!(" {}={count}", name.replace(' ', "-")));
        self
    }

    /// Adds duration, rebalances, rollbacks and all counted events.
    #[must_use]
    pub fn with_events(self, scenario: &Scenario) -> Self {
        let rebalances: usize = scenario.instances.iter().map(|one| one.log_count(PARTITIONS_ASSIGNED)).sum();
        let line = self
            .with("seconds", scenario.begun.elapsed().as_secs())
            .with("rebalances", rebalances as u64)
            .with("rollbacks", scenario.rollbacks());
        scenario.events.iter().fold(line, |line, (name, count)| line.with(name, *count))
    }

    /// Adds the checker's findings. Duplicates have a different name where the delivery guarantee permits them.
    #[must_use]
    pub fn with_findings(self, findings: &Findings, delivery: Delivery) -> Self {
        let doubled = match delivery {
            Delivery::ExactlyOnce => "doubled",
            Delivery::AtLeastOnce => "doubled-at-least-once",
        };
        self.with("records", findings.count("inputs"))
            .with("lost", findings.count("lost"))
            .with(doubled, findings.count("doubled"))
            .with("reordered", findings.count("reordered"))
            .with("wrong", findings.count("wrong"))
    }

    /// Prints the line and appends it to the file of the run.
    pub fn publish(self) {
        println!("scenario {}", self.0);
        if let Some(file) = std::env::var_os("EBB_CHAOS_TALLY") {
            let file = File::options().create(true).append(true).open(file);
            file.and_then(|mut file| writeln!(file, "{}", self.0)).expect("append to the summary file");
        }
    }
}
