//! What a scenario did and what was found after it, as one line of names and numbers.
//!
//! `EBB_CHAOS_TALLY` names a file that gathers the lines of a run: `scripts/kafka/chaos.sh` sums them.

use std::fs::File;
use std::io::Write;

use super::Play;
use crate::check::Findings;
use crate::stage::Delivery;

/// One line of the tally.
#[derive(Debug)]
pub struct Tally(String);

impl Tally {
    pub fn of(scenario: &str) -> Self {
        Self(scenario.to_owned())
    }

    #[must_use]
    pub fn with(mut self, name: &str, count: u64) -> Self {
        self.0.push_str(&format!(" {}={count}", name.replace(' ', "-")));
        self
    }

    /// Everything that was done in a play.
    #[must_use]
    pub fn done(self, play: &Play) -> Self {
        let rebalances: usize =
            play.instances.iter().map(|one| one.log_text().matches("partitions assigned").count()).sum();
        let own = self
            .with("seconds", play.begun.elapsed().as_secs())
            .with("rebalances", rebalances as u64)
            .with("times gone back", play.times_gone_back());
        play.done.iter().fold(own, |line, (name, count)| line.with(name, *count))
    }

    /// What the checker found: repeats have another name where they are allowed.
    #[must_use]
    pub fn found(self, found: &Findings, delivery: Delivery) -> Self {
        let doubled = match delivery {
            Delivery::ExactlyOnce => "doubled",
            Delivery::AtLeastOnce => "doubled-as-allowed",
        };
        self.with("records", found.count("inputs"))
            .with("lost", found.count("lost"))
            .with(doubled, found.count("doubled"))
            .with("reordered", found.count("reordered"))
            .with("wrong", found.count("wrong"))
    }

    /// Prints it, and adds it to the run's.
    pub fn tell(self) {
        println!("scenario {}", self.0);
        if let Some(file) = std::env::var_os("EBB_CHAOS_TALLY") {
            let file = File::options().create(true).append(true).open(file);
            file.and_then(|mut file| writeln!(file, "{}", self.0)).expect("the tally is written");
        }
    }
}
