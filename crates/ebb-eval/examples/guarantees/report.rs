//! The outcome of all families: one row each, and the number of false guarantees.

use std::collections::BTreeMap;

use crate::family::{Family, Tally};

/// A family whose failures are less probable than this under its stated delta has a false guarantee.
const SIGNIFICANCE: f64 = 1e-6;

/// All families with their tallies.
pub struct Report(BTreeMap<Family, Tally>);

impl Report {
    pub fn new(families: BTreeMap<Family, Tally>) -> Self {
        Self(families)
    }

    pub fn families(&self) -> usize {
        self.0.len()
    }

    fn broken(&self) -> impl Iterator<Item = (&Family, &Tally)> {
        self.0.iter().filter(|(_, tally)| tally.p_value() < SIGNIFICANCE)
    }

    pub fn false_guarantees(&self) -> usize {
        self.broken().count()
    }

    /// The rows of all broken families.
    #[cfg(test)]
    pub fn failures(&self) -> String {
        self.broken().map(|(family, tally)| row(family, tally) + "\n").collect()
    }

    pub fn print(&self) {
        println!(
            "{:<9} {:<26} {:<12} {:<34} {:<14} {:>6} {:>8} {:>7} {:>8} {:>10} {:>6}",
            "method",
            "configured decay",
            "values",
            "decay",
            "statistic",
            "runs",
            "failures",
            "delta",
            "p-value",
            "certain",
            "failed"
        );
        self.0.iter().for_each(|(family, tally)| println!("{}", row(family, tally)));
        let sum = |number: fn(&Tally) -> u64| self.0.values().map(number).sum::<u64>();
        println!(
            "\n{} families; {} probabilistic answers, {} outside their bounds; {} certain answers, {} outside; {} unanswered",
            self.families(),
            sum(|tally| tally.probabilistic),
            sum(|tally| tally.probabilistic_failures),
            sum(|tally| tally.certain),
            sum(|tally| tally.certain_failures),
            sum(|tally| tally.unanswered)
        );
        let worst = self.0.values().filter(|tally| tally.probabilistic > 0);
        let rate = |tally: &Tally| tally.probabilistic_failures as f64 / tally.probabilistic as f64;
        println!("largest share of failures in a family: {:.4}", worst.map(rate).fold(0.0, f64::max));
        println!("false guarantees (p-value below {SIGNIFICANCE:e}): {}", self.false_guarantees());
        self.broken().for_each(|(family, tally)| println!("  {}", row(family, tally)));
    }
}

fn row(family: &Family, tally: &Tally) -> String {
    let Family { method, configured, distribution, decay, statistic } = family;
    let Tally { probabilistic, probabilistic_failures, certain, certain_failures, delta, .. } = tally;
    format!(
        "{method:<9} {configured:<26} {distribution:<12} {decay:<34} {statistic:<14} {probabilistic:>6} \
         {probabilistic_failures:>8} {delta:>7} {:>8.1e} {certain:>10} {certain_failures:>6}",
        tally.p_value()
    )
}
