//! Statistics of one query: medians over the copies of a sample, with the bounds that the accuracy guarantees.
//!
//! Totals have the configured epsilon as a relative error, shares, ranks and frequent values as an error of the total; the
//! bounds of quantiles are the quantiles at the bounds of their shares. [`concentration`](super::concentration) is the proof.
//! A sum of values has epsilon if amounts were sampled; its mean has epsilon in both parts, each with half of delta.
//! Otherwise the error of a mean is epsilon of the largest value. At level 0 nothing was sampled away and everything is exact.

use super::accuracy::Accuracy;
use super::sample::{Sample, ValueDistribution};
use crate::aggregate::answer::{Estimate, Evidence, Guarantee, Quantile, TopItem, TopItems, TopMode};
use crate::aggregate::error::QueryError;
use crate::aggregate::predicate::Predicate;
use crate::aggregate::reading::Bracket;

/// What all copies of a sample know at one time under one decay.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleReading {
    accuracy: Accuracy,
    samples: Vec<Sample>,
    sums: SumReading,
}

/// Where sums of values come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SumReading {
    /// A sample by amount.
    Amounts(Box<SampleReading>),
    /// The sample itself. The largest accepted value bounds the error.
    Values { max_value: u64 },
}

impl SampleReading {
    pub(crate) fn new(accuracy: Accuracy, samples: Vec<Sample>) -> Self {
        Self { accuracy, samples, sums: SumReading::Values { max_value: u64::MAX } }
    }

    pub(crate) fn with_sums(self, sums: SumReading) -> Self {
        Self { sums, ..self }
    }

    /// One sample per copy.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The decayed weight: Σ w·g.
    pub fn weight(&self) -> Estimate {
        self.weight_within(self.accuracy.delta())
    }

    /// The decayed weight, with bounds that hold except with probability `delta`.
    fn weight_within(&self, delta: f64) -> Estimate {
        let value = median(self.samples.iter().map(Sample::weight)).unwrap_or(0.0);
        let (epsilon, later) = (self.epsilon_at(delta), self.later_weight());
        let largest = |value: f64| if epsilon < 1.0 { value / (1.0 - epsilon) } else { f64::INFINITY };
        if later > 0.0 && epsilon > 0.0 {
            // Elements after the query are sampled with it: the error is a part of both together.
            let off = epsilon * largest(value + later);
            return self.estimate(value, ((value - off).max(0.0), value + off), off / value);
        }
        self.estimate(value, (value / (1.0 + epsilon), largest(value)), epsilon)
    }

    /// The decayed sum of weight times value: Σ w·v·g.
    pub fn value_sum(&self) -> Estimate {
        match &self.sums {
            SumReading::Amounts(amounts) => amounts.weight(),
            SumReading::Values { max_value } => {
                let value = median(self.samples.iter().map(Sample::value_sum)).unwrap_or(0.0);
                let off = match self.epsilon() {
                    0.0 => 0.0,
                    epsilon => epsilon * self.weight().upper * *max_value as f64,
                };
                let epsilon = if value > 0.0 { off / value } else { 0.0 };
                self.estimate(value, ((value - off).max(0.0), value + off), epsilon)
            }
        }
    }

    /// The mean value of a unit of weight: Σ w·v·g / Σ w·g. `None` without weight.
    pub fn mean(&self) -> Option<Estimate> {
        let weight = self.weight();
        if weight.value <= 0.0 {
            return None;
        }
        match &self.sums {
            SumReading::Amounts(amounts) => Some(self.mean_of(amounts)),
            SumReading::Values { max_value } => {
                let mean = self.value_sum().value / weight.value;
                let off = self.epsilon() * *max_value as f64;
                let off = if self.is_exact() { 0.0 } else { off };
                let epsilon = if mean > 0.0 { off / mean } else { 0.0 };
                let upper = (mean + off).min(*max_value as f64);
                Some(self.estimate(mean, ((mean - off).max(0.0), upper), epsilon))
            }
        }
    }

    /// The ratio of a sum and the weight. Both hold if each holds with half of delta.
    fn mean_of(&self, amounts: &Self) -> Estimate {
        let delta = self.accuracy.delta() / 2.0;
        let (sum, weight) = (amounts.weight_within(delta), self.weight_within(delta));
        let value = sum.value / weight.value;
        let (lower, upper) = (sum.lower / weight.upper, sum.upper / weight.lower);
        let epsilon = if value > 0.0 { (upper / value - 1.0).max(1.0 - lower / value) } else { 0.0 };
        let exact = self.is_exact() && amounts.is_exact();
        let guarantee = if exact { Guarantee::Exact } else { self.probabilistic(epsilon) };
        let evidence = if self.is_exact() { sum.evidence } else { weight.evidence };
        Estimate { value, lower, upper, guarantee, incomplete: sum.incomplete || weight.incomplete, evidence }
    }

    /// The share of the weight that a predicate selects. `None` without weight.
    pub fn share(&self, predicate: &Predicate) -> Option<Estimate> {
        let share = |sample: &Sample| sample.share(|value, weight| predicate.matches(value, weight));
        self.share_estimate(self.samples.iter().filter_map(share))
    }

    /// The share of the weight with values up to `value`. `None` without weight.
    pub fn rank(&self, value: u64) -> Option<Estimate> {
        self.share_estimate(self.samples.iter().filter_map(|sample| sample.share(|v, _| v <= value)))
    }

    /// The smallest values at which the cumulative share reaches each `phi`; empty without weight.
    pub fn quantiles(&self, phis: &[f64]) -> Result<Vec<Quantile>, QueryError> {
        if let Some(phi) = phis.iter().copied().find(|phi| !(0.0..=1.0).contains(phi)) {
            return Err(QueryError::Phi { phi });
        }
        let distributions: Vec<ValueDistribution> = self.samples.iter().map(Sample::distribution).collect();
        let at = |phi: f64| median_value(distributions.iter().filter_map(|copy| copy.quantile(phi.clamp(0.0, 1.0))));
        let epsilon = self.epsilon();
        let is_uniform = epsilon == 0.0 || self.later_weight() > 0.0;
        let errors = (!is_uniform).then(|| self.accuracy.share_errors(self.cluster(), epsilon));
        let error = |share: f64| errors.as_ref().map_or(epsilon, |errors| errors.of(share));
        let quantile = |phi: &f64| {
            let (value, below, above) = (at(*phi)?, error(*phi), error(1.0 - phi));
            // Beyond the first and the last share the sample says nothing about the smallest and the largest value.
            let lower = if epsilon == 0.0 || phi - below > 0.0 { at(phi - below)? } else { 0 };
            let upper = if epsilon == 0.0 || phi + above < 1.0 { at(phi + above)? } else { u64::MAX };
            let (guarantee, incomplete, evidence) = (self.guarantee(epsilon), self.incomplete(), self.evidence());
            Some(Quantile { phi: *phi, value, lower, upper, guarantee, incomplete, evidence })
        };
        Ok(phis.iter().filter_map(quantile).collect())
    }

    /// The values that hold at least `phi` of the weight. `phi` must be above epsilon.
    pub fn top(&self, phi: f64, mode: TopMode) -> Result<TopItems, QueryError> {
        let epsilon = self.epsilon();
        if !(0.0..=1.0).contains(&phi) {
            return Err(QueryError::Phi { phi });
        }
        if phi <= epsilon {
            return Err(QueryError::PhiTooSmall { phi, min: epsilon });
        }
        let cut = match mode {
            TopMode::NoFalsePositives => phi + epsilon,
            TopMode::NoFalseNegatives => phi - epsilon,
        };
        let copies: Vec<ValueDistribution> = self.samples.iter().map(Sample::distribution).collect();
        let mut candidates: Vec<u64> =
            copies.iter().flat_map(|copy| copy.frequent(cut)).map(|(item, _)| item).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let item = |item: u64| {
            let share = median(copies.iter().map(|copy| copy.share_of(item)))?;
            let (lower, upper) = ((share - epsilon).max(0.0), (share + epsilon).min(1.0));
            (share >= cut * (1.0 - 1e-12)).then_some(TopItem { item, share, lower, upper })
        };
        let mut items: Vec<TopItem> = candidates.into_iter().filter_map(item).collect();
        TopItems::sort(&mut items);
        Ok(TopItems { items, total: self.weight(), mode, guarantee: self.guarantee(epsilon) })
    }

    /// Bounds of the weight of one value.
    pub(crate) fn weight_of(&self, value: u64) -> Bracket {
        self.part(|v| v == value).map_or(Bracket::default(), |(part, _)| part)
    }

    /// The weight of the values up to `value`.
    pub(crate) fn weight_through(&self, value: u64) -> Estimate {
        let Some((part, epsilon)) = self.part(|v| v <= value) else { return self.zero() };
        self.estimate(part.value, (part.lower, part.upper), epsilon)
    }

    /// The weight of the selected values, and the error of its share. Share and total hold if each holds with half of delta.
    fn part(&self, selects: impl Fn(u64) -> bool) -> Option<(Bracket, f64)> {
        let share = median(self.samples.iter().filter_map(|sample| sample.share(|value, _| selects(value))))?;
        let delta = self.accuracy.delta() / 2.0;
        let (total, epsilon) = (self.weight_within(delta), self.share_epsilon(delta));
        let (lower, upper) = ((share - epsilon).max(0.0) * total.lower, (share + epsilon).min(1.0) * total.upper);
        Some((Bracket { lower, value: share * total.value, upper }, epsilon))
    }

    fn is_exact(&self) -> bool {
        self.samples.iter().all(Sample::is_exact)
    }

    fn epsilon_at(&self, delta: f64) -> f64 {
        if self.is_exact() { 0.0 } else { self.accuracy.epsilon_for(self.cluster(), delta) }
    }

    /// The error of shares.
    fn epsilon(&self) -> f64 {
        self.share_epsilon(self.accuracy.delta())
    }

    fn share_epsilon(&self, delta: f64) -> f64 {
        let (epsilon, later) = (self.epsilon_at(delta), self.later_weight());
        if later <= 0.0 || epsilon == 0.0 {
            return epsilon;
        }
        let weight = median(self.samples.iter().map(Sample::weight)).unwrap_or(0.0);
        if epsilon < 1.0 { epsilon * (1.0 + later / weight) / (1.0 - epsilon) } else { epsilon }
    }

    fn cluster(&self) -> f64 {
        self.samples.iter().map(|sample| sample.cluster).fold(1.0, f64::max)
    }

    fn later_weight(&self) -> f64 {
        self.samples.iter().map(Sample::later_weight).fold(0.0, f64::max)
    }

    fn incomplete(&self) -> bool {
        self.samples.iter().any(Sample::incomplete)
    }

    fn guarantee(&self, epsilon: f64) -> Guarantee {
        if self.is_exact() { Guarantee::Exact } else { self.probabilistic(epsilon) }
    }

    fn probabilistic(&self, epsilon: f64) -> Guarantee {
        Guarantee::Probabilistic { epsilon, delta: self.accuracy.delta() }
    }

    fn evidence(&self) -> Evidence {
        let level = self.samples.iter().map(Sample::level).max().unwrap_or(0);
        Evidence::Level { level, elements: self.samples.iter().map(|sample| sample.len() as u64).sum() }
    }

    fn estimate(&self, value: f64, (lower, upper): (f64, f64), epsilon: f64) -> Estimate {
        let (guarantee, incomplete, evidence) = (self.guarantee(epsilon), self.incomplete(), self.evidence());
        Estimate { value, lower, upper, guarantee, incomplete, evidence }
    }

    fn zero(&self) -> Estimate {
        self.estimate(0.0, (0.0, 0.0), self.epsilon())
    }

    fn share_estimate(&self, shares: impl Iterator<Item = f64>) -> Option<Estimate> {
        let (share, epsilon) = (median(shares)?, self.epsilon());
        Some(self.estimate(share, ((share - epsilon).max(0.0), (share + epsilon).min(1.0)), epsilon))
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn median_value(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
