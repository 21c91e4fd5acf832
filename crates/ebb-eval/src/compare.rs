//! Comparison of answers with exact ones at one moment under one decay.

use super::exact::ExactAnswers;
use super::statistic_check::{AnswerPoint, ComparedAnswer, Moment, StatisticCheck};
use ebb_core::{
    AggregateAnswer, AggregateParameters, AggregateResult, Measure, QuantileAnswer, Statistic, TopAnswer, TopName,
};
use ebb_sketch::aggregate::answer::{Estimate, Guarantee, TopMode};
use ebb_sketch::decay::Decay;
use ebb_sketch::units::DurationMs;

/// The quantiles to query.
const PHIS: [f64; 3] = [0.5, 0.9, 0.99];
/// The minimum share of a top item, unless the error bound of the aggregate requires more.
const TOP_PHI: f64 = 0.05;
/// Relative rounding error of sums.
const ROUNDING: f64 = 1e-9;

/// The statistics that an aggregate can answer.
pub(super) fn statistics(parameters: &AggregateParameters) -> Vec<Statistic> {
    if let Measure::Distinct(_) = parameters.of {
        return vec![Statistic::Distinct];
    }
    let mut all = vec![Statistic::Count];
    if parameters.of != Measure::Count {
        all.extend([Statistic::Sum, Statistic::Mean, Statistic::Quantiles(PHIS.to_vec())]);
    }
    if parameters.top.is_some() {
        let phi = TOP_PHI.max(2.0 * parameters.epsilon).min(1.0);
        all.push(Statistic::Top { phi, mode: TopMode::NoFalseNegatives });
    }
    all
}

/// A decay as people write it: half-lives instead of rates, units other than milliseconds.
pub(super) fn decay_text(decay: &Decay) -> String {
    let whole = |ms: f64| (ms >= 1.0 && (ms - ms.round()).abs() < 1e-6 * ms).then(|| DurationMs(ms.round() as u64));
    let half_life = decay.rate().and_then(|rate| whole(std::f64::consts::LN_2 / rate));
    let power = decay.power().and_then(|(alpha, unit_ms)| Some((alpha, whole(unit_ms)?)));
    match (half_life, power) {
        (Some(half_life), _) => format!("exponential:half_life={half_life}"),
        (_, Some((alpha, unit))) => format!("polynomial:alpha={alpha},unit={unit}"),
        (None, None) => decay.to_string(),
    }
}

pub(super) fn statistic_name(statistic: &Statistic) -> &'static str {
    match statistic {
        Statistic::Sum => "sum",
        Statistic::Count => "count",
        Statistic::Mean => "mean",
        Statistic::Quantiles(_) => "quantiles",
        Statistic::Rank(_) => "rank",
        Statistic::Top { .. } => "top",
        Statistic::Share(_) => "share",
        Statistic::Distinct => "distinct",
    }
}

/// Adds answers to the checks of an aggregate.
pub(super) struct Comparison<'a> {
    pub(super) checks: &'a mut Vec<StatisticCheck>,
    /// As written by [`decay_text`].
    pub(super) decay: String,
    pub(super) exact: &'a ExactAnswers<'a>,
    pub(super) moment: Moment,
}

impl Comparison<'_> {
    pub(super) fn add(&mut self, statistic: &Statistic, answer: &AggregateAnswer) {
        match &answer.result {
            // The mean of nothing.
            AggregateResult::Number(None) => {}
            AggregateResult::Number(Some(estimate)) => self.add_number(statistic, estimate),
            AggregateResult::Quantiles(quantiles) => quantiles.iter().for_each(|one| self.add_quantile(one)),
            AggregateResult::Top { items, total, guarantee, .. } => {
                let Statistic::Top { phi, .. } = statistic else { return };
                match total.incomplete {
                    true => self.check("top", "share").incomplete += 1,
                    false => self.add_top(*phi, items, *guarantee),
                }
            }
        }
    }

    fn check(&mut self, statistic: &str, error: &'static str) -> &mut StatisticCheck {
        let found = self.checks.iter().position(|check| check.decay == self.decay && check.statistic == statistic);
        let index = found.unwrap_or_else(|| {
            self.checks.push(StatisticCheck::new(&self.decay, statistic, error));
            self.checks.len() - 1
        });
        &mut self.checks[index]
    }

    fn point(&self, truth: f64, (value, lower, upper): (f64, f64, f64)) -> AnswerPoint {
        AnswerPoint { events: self.moment.events, time_ms: self.moment.time_ms, truth, value, lower, upper }
    }

    fn add_number(&mut self, statistic: &Statistic, estimate: &Estimate) {
        let truth = match statistic {
            Statistic::Sum => self.exact.sum(),
            Statistic::Mean => self.exact.sum() / self.exact.count(),
            Statistic::Distinct => self.exact.distinct(),
            _ => self.exact.count(),
        };
        let difference = (estimate.value - truth).abs();
        let compared = ComparedAnswer {
            point: self.point(truth, (estimate.value, estimate.lower, estimate.upper)),
            error: if difference <= ROUNDING * truth.abs() { 0.0 } else { difference / truth.abs() },
            is_inside: estimate.covers(truth),
            guarantee: estimate.guarantee,
        };
        let check = self.check(statistic_name(statistic), "relative");
        if estimate.incomplete { check.incomplete += 1 } else { check.add(&compared) }
    }

    fn add_quantile(&mut self, quantile: &QuantileAnswer) {
        let QuantileAnswer { phi, value, lower, upper, guarantee, incomplete, .. } = *quantile;
        let statistic = format!("p{}", (phi * 1e6).round() / 1e4);
        let Some(truth) = self.exact.quantile(phi) else { return };
        // At the boundary of two values rounding decides which one is the quantile: accept both.
        let edge = |phi: f64| self.exact.quantile(phi.clamp(0.0, 1.0)).unwrap_or(truth);
        let (low, high) = (edge(phi - ROUNDING), edge(phi + ROUNDING));
        let compared = ComparedAnswer {
            point: self.point(truth, (value, lower, upper)),
            error: self.exact.rank_error(phi, value),
            is_inside: lower <= high * (1.0 + ROUNDING) && upper >= low * (1.0 - ROUNDING),
            guarantee,
        };
        let check = self.check(&statistic, "rank");
        if incomplete { check.incomplete += 1 } else { check.add(&compared) }
    }

    /// A top list is inside its bounds if every share is and no item with the minimum share is missing. Its point is the
    /// first item.
    fn add_top(&mut self, phi: f64, items: &[TopAnswer], guarantee: Guarantee) {
        let shares = self.exact.shares();
        let truth = |item: &TopAnswer| match &item.name {
            TopName::Text(text) => shares.get(text.as_ref()).copied().unwrap_or(0.0),
            TopName::Value(_) | TopName::Label(_) => 0.0,
        };
        let is_within = |item: &TopAnswer| item.lower <= truth(item) + ROUNDING && truth(item) <= item.upper + ROUNDING;
        let is_listed =
            |text: &str| items.iter().any(|item| matches!(&item.name, TopName::Text(name) if **name == *text));
        let is_missing = shares.iter().any(|(text, share)| *share >= phi + ROUNDING && !is_listed(text));
        let difference = items.iter().map(|item| (item.share - truth(item)).abs()).fold(0.0, f64::max);
        let first = items.first().map(|item| (truth(item), (item.share, item.lower, item.upper)));
        let (first_truth, first_answer) = first.unwrap_or_default();
        let compared = ComparedAnswer {
            point: self.point(first_truth, first_answer),
            error: if difference <= ROUNDING { 0.0 } else { difference },
            is_inside: !is_missing && items.iter().all(is_within),
            guarantee,
        };
        self.check("top", "share").add(&compared);
    }
}
