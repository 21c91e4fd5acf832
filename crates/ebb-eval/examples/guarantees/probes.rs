//! The questions of a run, and whether an answer keeps what it states.

use ebb_core::{AggregateResult, Statistic, TopAnswer, TopName};
use ebb_sketch::aggregate::answer::{Guarantee, TopMode};

use crate::setup::STEP;
use crate::truth::{ROUNDING, Truth};

/// A question with a name. Every probe is a family of its own, so that the trials of a family are independent.
#[derive(Debug)]
pub struct Probe {
    pub name: String,
    pub statistic: Statistic,
    /// The exact answer, if it is a number.
    exact: f64,
}

/// The outcome of one answer.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub guarantee: Guarantee,
    pub holds: bool,
}

/// The questions that are asked under every decay. Thresholds of ranks and shares are quantiles of the truth.
pub fn probes(truth: &Truth<'_>, top_phi: f64) -> Vec<Probe> {
    let probe = |name: String, statistic: Statistic, exact: f64| Probe { name, statistic, exact };
    let mut all = vec![
        probe("sum".into(), Statistic::Sum, truth.sum()),
        probe("count".into(), Statistic::Count, truth.count()),
        probe("mean".into(), Statistic::Mean, truth.sum() / truth.count()),
    ];
    for phi in [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0] {
        all.push(probe(format!("quantile {phi}"), Statistic::Quantiles(vec![phi]), f64::NAN));
    }
    for phi in [0.05, 0.5, 0.95] {
        let value = truth.quantile(phi);
        all.push(probe(format!("rank {phi}"), Statistic::Rank(value), truth.share(|one| one <= value)));
    }
    let (low, high) = (truth.quantile(0.3), truth.quantile(0.7));
    let between = format!("value >= {low} and value < {high}").parse().expect("a predicate");
    let outside = format!("value < {low} or value > {high}").parse().expect("a predicate");
    let exact = truth.share(|one| one >= low && one < high);
    all.push(probe("share between".into(), Statistic::Share(between), exact));
    let exact = truth.share(|one| one < low || one > high);
    all.push(probe("share outside".into(), Statistic::Share(outside), exact));
    for (name, mode) in [("top sure", TopMode::NoFalsePositives), ("top all", TopMode::NoFalseNegatives)] {
        all.push(probe(name.into(), Statistic::Top { phi: top_phi, mode }, f64::NAN));
    }
    all
}

/// Compares an answer with the truth; `None` if it states nothing (no weight, or incomplete).
pub fn judge(probe: &Probe, result: &AggregateResult, truth: &Truth<'_>) -> Option<Outcome> {
    match result {
        AggregateResult::Number(number) => {
            let number = number.filter(|number| !number.incomplete)?;
            let holds = number.covers(probe.exact) && number.lower <= number.upper;
            Some(Outcome { guarantee: number.guarantee, holds })
        }
        AggregateResult::Quantiles(quantiles) => {
            let quantile = quantiles.first().filter(|quantile| !quantile.incomplete)?;
            // At the edge of two values rounding decides which one is the quantile: both are right.
            let edge = |phi: f64| truth.quantile(phi.clamp(0.0, 1.0));
            let (low, high) = (edge(quantile.phi - ROUNDING), edge(quantile.phi + ROUNDING));
            let holds = quantile.lower <= high + STEP * ROUNDING && quantile.upper >= low * (1.0 - ROUNDING);
            Some(Outcome { guarantee: quantile.guarantee, holds })
        }
        AggregateResult::Top { items, total, guarantee, .. } => {
            let Statistic::Top { phi, mode } = &probe.statistic else { return None };
            let holds = top_holds(*phi, *mode, items, truth);
            (!total.incomplete).then_some(Outcome { guarantee: *guarantee, holds })
        }
    }
}

/// Every listed share is within its bounds, and the list is free of the error that its mode excludes.
fn top_holds(phi: f64, mode: TopMode, items: &[TopAnswer], truth: &Truth<'_>) -> bool {
    let shares = truth.labels();
    let share = |item: &TopAnswer| match &item.name {
        TopName::Text(text) => shares.get(text.as_ref()).copied().unwrap_or(0.0),
        TopName::Value(_) | TopName::Label(_) => 0.0,
    };
    let is_listed = |name: &str| items.iter().any(|item| matches!(&item.name, TopName::Text(text) if **text == *name));
    let within = |item: &TopAnswer| item.lower <= share(item) + ROUNDING && share(item) <= item.upper + ROUNDING;
    items.iter().all(within)
        && match mode {
            TopMode::NoFalsePositives => items.iter().all(|item| share(item) >= phi - ROUNDING),
            TopMode::NoFalseNegatives => shares.iter().all(|(name, share)| *share < phi + ROUNDING || is_listed(name)),
        }
}
