//! Answers to one question: medians over the copies' samples, with the bounds that the accuracy promises.
//!
//! Sums, shares, ranks, quantiles and frequent values carry the configured epsilon (relative for sums, of the whole for
//! the others). The theorem speaks of weights, so count, value sum and mean carry bounds that are computed from the sample:
//! as many standard errors as epsilon is of a sum's. At level 0 everything is exact.

use super::accuracy::Accuracy;
use super::sample::{ByValue, Measured, Sample};
use crate::aggregate::answer::{Estimate, Evidence, Guarantee, Quantile, TopItem, TopItems, TopMode};
use crate::aggregate::predicate::Predicate;

/// Why a statistic was not computed, and what would be right.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum StatisticError {
    #[error("phi {phi} must lie within 0 and 1")]
    PhiOutside { phi: f64 },
    #[error("phi {phi} must be above epsilon, {epsilon}: smaller shares cannot be told from none")]
    PhiAtMostEpsilon { phi: f64, epsilon: f64 },
}

/// What all copies say about one question.
#[derive(Debug, Clone)]
pub struct Answers {
    accuracy: Accuracy,
    samples: Vec<Sample>,
}

impl Answers {
    pub(super) fn new(accuracy: Accuracy, samples: Vec<Sample>) -> Self {
        Self { accuracy, samples }
    }

    /// One sample a copy.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Σ w·g.
    pub fn sum(&self) -> Estimate {
        let value = median(self.samples.iter().map(Sample::sum)).unwrap_or(0.0);
        let epsilon = self.epsilon();
        let upper = if epsilon < 1.0 { value / (1.0 - epsilon) } else { f64::INFINITY };
        self.estimate(value, (value / (1.0 + epsilon), upper), epsilon)
    }

    /// Σ g: how many observations.
    pub fn count(&self) -> Estimate {
        self.measured(self.samples.iter().map(|sample| Some(sample.count()))).unwrap_or_else(|| self.nothing())
    }

    /// Σ w·v·g.
    pub fn value_sum(&self) -> Estimate {
        self.measured(self.samples.iter().map(|sample| Some(sample.value_sum()))).unwrap_or_else(|| self.nothing())
    }

    /// Σ w·v·g / Σ w·g: the mean value of a unit of weight; none when nothing weighs anything.
    pub fn mean(&self) -> Option<Estimate> {
        self.measured(self.samples.iter().map(Sample::mean))
    }

    /// The share of the weight that a predicate selects.
    pub fn share(&self, predicate: &Predicate) -> Option<Estimate> {
        let share = |sample: &Sample| sample.share(|value, weight| predicate.matches(value, weight));
        self.estimated_share(self.samples.iter().filter_map(share))
    }

    /// The share of the weight with values up to `value`.
    pub fn rank(&self, value: u64) -> Option<Estimate> {
        self.estimated_share(self.samples.iter().filter_map(|sample| sample.share(|v, _| v <= value)))
    }

    /// The values below which each `phi` of the weight lies; empty when nothing weighs anything.
    pub fn quantiles(&self, phis: &[f64]) -> Result<Vec<Quantile>, StatisticError> {
        if let Some(phi) = phis.iter().copied().find(|phi| !(0.0..=1.0).contains(phi)) {
            return Err(StatisticError::PhiOutside { phi });
        }
        let values: Vec<ByValue> = self.samples.iter().map(Sample::by_value).collect();
        let at = |phi: f64| median_value(values.iter().filter_map(|copy| copy.quantile(phi.clamp(0.0, 1.0))));
        let epsilon = self.epsilon();
        let quantile = |phi: &f64| {
            let (value, lower, upper) = (at(*phi)?, at(phi - epsilon)?, at(phi + epsilon)?);
            let (guarantee, incomplete, evidence) = (self.guarantee(epsilon), self.incomplete(), self.evidence());
            Some(Quantile { phi: *phi, value, lower, upper, guarantee, incomplete, evidence })
        };
        Ok(phis.iter().filter_map(quantile).collect())
    }

    /// The values that make up at least `phi` of the weight.
    pub fn top(&self, phi: f64, mode: TopMode) -> Result<TopItems, StatisticError> {
        let epsilon = self.epsilon();
        if !(0.0..=1.0).contains(&phi) {
            return Err(StatisticError::PhiOutside { phi });
        }
        if phi <= epsilon {
            return Err(StatisticError::PhiAtMostEpsilon { phi, epsilon });
        }
        let cut = match mode {
            TopMode::NoFalsePositives => phi + epsilon,
            TopMode::NoFalseNegatives => phi - epsilon,
        };
        let copies: Vec<ByValue> = self.samples.iter().map(Sample::by_value).collect();
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
        Ok(TopItems { items, total: self.sum(), mode, guarantee: self.guarantee(epsilon) })
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

    fn nothing(&self) -> Estimate {
        self.estimate(0.0, (0.0, 0.0), self.epsilon())
    }

    fn estimated_share(&self, shares: impl Iterator<Item = f64>) -> Option<Estimate> {
        let (share, epsilon) = (median(shares)?, self.epsilon());
        Some(self.estimate(share, ((share - epsilon).max(0.0), (share + epsilon).min(1.0)), epsilon))
    }

    /// The copy with the median value speaks, with its own standard error.
    fn measured(&self, copies: impl Iterator<Item = Option<Measured>>) -> Option<Estimate> {
        let mut copies: Vec<Measured> = copies.flatten().collect();
        copies.sort_by(|a, b| a.value.total_cmp(&b.value));
        let middle = copies.get(copies.len() / 2)?;
        let off = self.accuracy.deviations() * middle.deviation;
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
