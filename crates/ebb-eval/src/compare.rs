//! One moment and one decay: each answer beside the truth.

use super::checks::{Check, Moment, Point};
use super::exact::Exact;
use ebb_core::{
    AggregateAnswer, AggregateParameters, AggregateResult, Measure, QuantileAnswer, Statistic, TopAnswer, TopName,
};
use ebb_sketch::aggregate::answer::{Estimate, Guarantee, TopMode};
use ebb_sketch::decay::Decay;
use ebb_sketch::units::DurationMs;

/// The shares at which values are asked for.
const PHIS: [f64; 3] = [0.5, 0.9, 0.99];
/// What a top item makes up, where the aggregate can tell so little from nothing.
const TOP_PHI: f64 = 0.05;
/// Rounding of sums, as a part of them.
const SLACK: f64 = 1e-9;

/// What one answer was found to be.
pub(super) struct Found {
    pub(super) point: Point,
    pub(super) error: f64,
    pub(super) inside: bool,
    pub(super) guarantee: Guarantee,
}

/// What can be asked of an aggregate.
pub(super) fn statistics(given: &AggregateParameters) -> Vec<Statistic> {
    let mut all = vec![Statistic::Count];
    if given.of != Measure::Count {
        all.extend([Statistic::Sum, Statistic::Mean, Statistic::Quantiles(PHIS.to_vec())]);
    }
    if given.top.is_some() {
        let phi = TOP_PHI.max(2.0 * given.epsilon).min(1.0);
        all.push(Statistic::Top { phi, mode: TopMode::NoFalseNegatives });
    }
    all
}

/// As people write it: half-lives instead of rates, and units that are not all milliseconds.
pub(super) fn shown(decay: &Decay) -> String {
    let whole = |ms: f64| (ms >= 1.0 && (ms - ms.round()).abs() < 1e-6 * ms).then(|| DurationMs(ms.round() as u64));
    let half_life = decay.rate().and_then(|rate| whole(std::f64::consts::LN_2 / rate));
    let power = decay.power().and_then(|(alpha, unit_ms)| Some((alpha, whole(unit_ms)?)));
    match (half_life, power) {
        (Some(half_life), _) => format!("exponential:half_life={half_life}"),
        (_, Some((alpha, unit))) => format!("polynomial:alpha={alpha},unit={unit}"),
        (None, None) => decay.to_string(),
    }
}

pub(super) fn name(statistic: &Statistic) -> &'static str {
    match statistic {
        Statistic::Sum => "sum",
        Statistic::Count => "count",
        Statistic::Mean => "mean",
        Statistic::Quantiles(_) => "quantiles",
        Statistic::Rank(_) => "rank",
        Statistic::Top { .. } => "top",
        Statistic::Share(_) => "share",
    }
}

/// See the module.
pub(super) struct Comparison<'a> {
    pub(super) checks: &'a mut Vec<Check>,
    /// As it is shown.
    pub(super) decay: String,
    pub(super) exact: &'a Exact<'a>,
    pub(super) moment: Moment,
}

impl Comparison<'_> {
    pub(super) fn add(&mut self, statistic: &Statistic, answer: &AggregateAnswer) {
        match &answer.result {
            // Nothing to speak of, and nothing said.
            AggregateResult::Number(None) => {}
            AggregateResult::Number(Some(estimate)) => self.number(statistic, estimate),
            AggregateResult::Quantiles(quantiles) => quantiles.iter().for_each(|one| self.quantile(one)),
            AggregateResult::Top { items, total, guarantee, .. } => {
                let Statistic::Top { phi, .. } = statistic else { return };
                match total.incomplete {
                    true => self.check("top", "share").incomplete += 1,
                    false => self.top(*phi, items, *guarantee),
                }
            }
        }
    }

    fn check(&mut self, statistic: &str, error: &'static str) -> &mut Check {
        let found = self.checks.iter().position(|check| check.decay == self.decay && check.statistic == statistic);
        let place = found.unwrap_or_else(|| {
            self.checks.push(Check::new(&self.decay, statistic, error));
            self.checks.len() - 1
        });
        &mut self.checks[place]
    }

    fn point(&self, truth: f64, (value, lower, upper): (f64, f64, f64)) -> Point {
        Point { events: self.moment.events, time_ms: self.moment.time_ms, truth, value, lower, upper }
    }

    fn number(&mut self, statistic: &Statistic, estimate: &Estimate) {
        let truth = match statistic {
            Statistic::Sum => self.exact.sum(),
            Statistic::Mean => self.exact.sum() / self.exact.count(),
            _ => self.exact.count(),
        };
        let off = (estimate.value - truth).abs();
        let found = Found {
            point: self.point(truth, (estimate.value, estimate.lower, estimate.upper)),
            error: if off <= SLACK * truth.abs() { 0.0 } else { off / truth.abs() },
            inside: estimate.covers(truth),
            guarantee: estimate.guarantee,
        };
        let check = self.check(name(statistic), "relative");
        if estimate.incomplete { check.incomplete += 1 } else { check.add(&found) }
    }

    fn quantile(&mut self, quantile: &QuantileAnswer) {
        let QuantileAnswer { phi, value, lower, upper, guarantee, incomplete, .. } = *quantile;
        let statistic = format!("p{}", (phi * 1e6).round() / 1e4);
        let Some(truth) = self.exact.quantile(phi) else { return };
        // At the edge between two values a rounding decides which is the quantile: either will do.
        let edge = |phi: f64| self.exact.quantile(phi.clamp(0.0, 1.0)).unwrap_or(truth);
        let (low, high) = (edge(phi - SLACK), edge(phi + SLACK));
        let found = Found {
            point: self.point(truth, (value, lower, upper)),
            error: self.exact.rank_error(phi, value),
            inside: lower <= high * (1.0 + SLACK) && upper >= low * (1.0 - SLACK),
            guarantee,
        };
        let check = self.check(&statistic, "rank");
        if incomplete { check.incomplete += 1 } else { check.add(&found) }
    }

    /// One answer: every item's share within its bounds, and none missing that has the share. The point is the first item's.
    fn top(&mut self, phi: f64, items: &[TopAnswer], guarantee: Guarantee) {
        let shares = self.exact.shares();
        let truth = |item: &TopAnswer| match &item.name {
            TopName::Text(text) => shares.get(text.as_ref()).copied().unwrap_or(0.0),
            TopName::Value(_) | TopName::Label(_) => 0.0,
        };
        let within = |item: &TopAnswer| item.lower <= truth(item) + SLACK && truth(item) <= item.upper + SLACK;
        let named = |text: &str| items.iter().any(|item| matches!(&item.name, TopName::Text(name) if **name == *text));
        let missing = shares.iter().any(|(text, share)| *share >= phi + SLACK && !named(text));
        let off = items.iter().map(|item| (item.share - truth(item)).abs()).fold(0.0, f64::max);
        let first = items.first().map(|item| (truth(item), (item.share, item.lower, item.upper)));
        let (first_truth, told) = first.unwrap_or_default();
        let found = Found {
            point: self.point(first_truth, told),
            error: if off <= SLACK { 0.0 } else { off },
            inside: !missing && items.iter().all(within),
            guarantee,
        };
        self.check("top", "share").add(&found);
    }
}
