//! Statistics of one query: medians over the copies of a sample, with the bounds that the accuracy guarantees.
//!
//! Weights, shares, ranks, quantiles and frequent values have the configured epsilon (relative for weights, of the total for
//! the others). The theorem is about weights, so counts, value sums and means have bounds computed from the sample: as many
//! standard errors as epsilon is of a weight. At level 0 nothing was sampled away and everything is exact.

use super::accuracy::Accuracy;
use super::sample::{Measurement, Sample, ValueDistribution};
use crate::aggregate::answer::{Estimate, Evidence, Guarantee, Quantile, TopItem, TopItems, TopMode};
use crate::aggregate::error::QueryError;
use crate::aggregate::predicate::Predicate;
use crate::aggregate::reading::Bracket;

/// What all copies of a sample know at one time under one decay.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleReading {
    accuracy: Accuracy,
    samples: Vec<Sample>,
}

impl SampleReading {
    pub(crate) fn new(accuracy: Accuracy, samples: Vec<Sample>) -> Self {
        Self { accuracy, samples }
    }

    /// One sample per copy.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The decayed weight: Σ w·g.
    pub fn weight(&self) -> Estimate {
        let value = median(self.samples.iter().map(Sample::weight)).unwrap_or(0.0);
        let epsilon = self.epsilon();
        let upper = if epsilon < 1.0 { value / (1.0 - epsilon) } else { f64::INFINITY };
        self.estimate(value, (value / (1.0 + epsilon), upper), epsilon)
    }

    /// The decayed number of observations, regardless of their weight: Σ g.
    pub fn observation_count(&self) -> Estimate {
        self.median_measurement(self.samples.iter().map(|sample| Some(sample.observation_count())))
            .unwrap_or_else(|| self.zero())
    }

    /// The decayed sum of weight times value: Σ w·v·g.
    pub fn value_sum(&self) -> Estimate {
        self.median_measurement(self.samples.iter().map(|sample| Some(sample.value_sum())))
            .unwrap_or_else(|| self.zero())
    }

    /// The mean value of a unit of weight: Σ w·v·g / Σ w·g. `None` without weight.
    pub fn mean(&self) -> Option<Estimate> {
        self.median_measurement(self.samples.iter().map(Sample::mean))
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
        let quantile = |phi: &f64| {
            let (value, lower, upper) = (at(*phi)?, at(phi - epsilon)?, at(phi + epsilon)?);
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
        let Some(share) = self.share_estimate(self.samples.iter().filter_map(|s| s.share(|v, _| v == value))) else {
            return Bracket::default();
        };
        let total = self.weight();
        let (lower, upper) = (share.lower * total.lower, share.upper * total.upper);
        Bracket { lower, value: share.value * total.value, upper }
    }

    /// The weight of the values up to `value`.
    pub(crate) fn weight_through(&self, value: u64) -> Estimate {
        let Some(share) = self.rank(value) else { return self.zero() };
        let total = self.weight();
        let (lower, upper) = (share.lower * total.lower, share.upper * total.upper);
        Estimate { value: share.value * total.value, lower, upper, ..share }
    }

    fn is_exact(&self) -> bool {
        self.samples.iter().all(Sample::is_exact)
    }

    fn epsilon(&self) -> f64 {
        if self.is_exact() { 0.0 } else { self.accuracy.epsilon() }
    }

    fn incomplete(&self) -> bool {
        self.samples.iter().any(Sample::incomplete)
    }

    fn guarantee(&self, epsilon: f64) -> Guarantee {
        if self.is_exact() {
            Guarantee::Exact
        } else {
            Guarantee::Probabilistic { epsilon, delta: self.accuracy.delta() }
        }
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

    /// The median copy, with its own standard error.
    fn median_measurement(&self, copies: impl Iterator<Item = Option<Measurement>>) -> Option<Estimate> {
        let mut copies: Vec<Measurement> = copies.flatten().collect();
        copies.sort_by(|a, b| a.value.total_cmp(&b.value));
        let middle = copies.get(copies.len() / 2)?;
        let off = self.accuracy.standard_errors() * middle.standard_error;
        let epsilon = if middle.value > 0.0 { off / middle.value } else { 0.0 };
        Some(self.estimate(middle.value, ((middle.value - off).max(0.0), middle.value + off), epsilon))
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
