//! A weighted sample of observations, and the statistics of one copy.
//!
//! Under a decay g (or f(w, age) for integral decays) a sample estimates, over all distinct observations that the query
//! covers: `weight` Σ w·g; `observation_count` Σ g; `value_sum` Σ w·v·g; `share` the part of Σ w·g that a predicate selects;
//! ranks, quantiles and frequent values with the weights w·g. [`SampleReading`](super::SampleReading) takes medians over
//! copies and adds bounds.

use std::sync::Arc;

use super::hash::SampleHash;
use super::sizing::LevelShare;

/// The relative rounding error of sums of products.
const ROUNDING: f64 = 1e-12;

/// One element at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SampleRow {
    pub value: u64,
    pub weight: u32,
    /// Integers of the element that are alive.
    pub live: u32,
    pub share: LevelShare,
    pub level: u8,
    /// The part of the decay that this level answers for.
    pub band: f64,
}

/// The sampled elements of one copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub(crate) hash: Arc<SampleHash>,
    pub(crate) rows: Vec<SampleRow>,
    /// The highest level that was used. At level 0 nothing was sampled away.
    pub(crate) level: u8,
    pub(crate) incomplete: bool,
    /// The factor by which weights were multiplied on insertion.
    pub(crate) weight_scale: u32,
    /// The most units of one element that are sampled together.
    pub(crate) cluster: f64,
    /// The estimated weight of elements after the time of the query.
    pub(crate) later: f64,
}

impl Sample {
    /// The hash that chose the sample.
    pub fn hash(&self) -> &SampleHash {
        &self.hash
    }

    /// The highest level that was used.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Whether nothing was sampled away.
    pub fn is_exact(&self) -> bool {
        self.level == 0
    }

    /// Whether the query reaches past what the sketch still remembers.
    pub fn incomplete(&self) -> bool {
        self.incomplete
    }

    /// Sampled elements, counted once per level that uses them.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing was sampled.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of sampled integers (X in the paper).
    pub fn hits(&self) -> u64 {
        self.rows.iter().map(|row| row.share.hits).sum()
    }

    fn amount(&self, row: &SampleRow) -> f64 {
        row.share.estimate * row.band / f64::from(self.weight_scale)
    }

    /// Σ w·g.
    pub fn weight(&self) -> f64 {
        self.rows.iter().map(|row| self.amount(row)).sum()
    }

    /// Σ g: each element counts by the inverse of its inclusion probability.
    pub fn observation_count(&self) -> f64 {
        self.rows.iter().map(|row| row.band / self.hash.inclusion(row.live, row.level)).sum()
    }

    /// Σ w·v·g.
    pub fn value_sum(&self) -> f64 {
        self.rows.iter().map(|row| self.amount(row) * row.value as f64).sum()
    }

    /// The estimated weight of elements after the time of the query.
    pub(crate) fn later_weight(&self) -> f64 {
        self.later / f64::from(self.weight_scale)
    }

    /// The share of Σ w·g of the selected observations (value, weight); `None` for an empty sample.
    pub fn share(&self, mut selects: impl FnMut(u64, u64) -> bool) -> Option<f64> {
        let (mut total, mut selected) = (0.0, 0.0);
        for row in &self.rows {
            let amount = self.amount(row);
            total += amount;
            if selects(row.value, u64::from(row.weight / self.weight_scale)) {
                selected += amount;
            }
        }
        (total > 0.0).then(|| selected / total)
    }

    /// The distribution of the values.
    pub fn distribution(&self) -> ValueDistribution {
        let mut amounts: Vec<(u64, f64)> = self.rows.iter().map(|row| (row.value, self.amount(row))).collect();
        amounts.sort_by_key(|(value, _)| *value);
        amounts.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1 += next.1;
            }
            same
        });
        amounts.retain(|(_, amount)| *amount > 0.0);
        let total = amounts.iter().map(|(_, amount)| amount).sum();
        ValueDistribution { amounts, total }
    }
}

/// A weighted distribution of values.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueDistribution {
    amounts: Vec<(u64, f64)>,
    total: f64,
}

impl ValueDistribution {
    /// The smallest value at which the cumulative share reaches `phi`; `None` for an empty sample.
    pub fn quantile(&self, phi: f64) -> Option<u64> {
        let target = phi * self.total * (1.0 - ROUNDING);
        let mut reached = 0.0;
        let at = self.amounts.iter().find(|(_, amount)| {
            reached += amount;
            reached >= target
        });
        at.or(self.amounts.last()).map(|(value, _)| *value)
    }

    /// The values whose share is at least `cut`, with their shares, by value.
    pub fn frequent(&self, cut: f64) -> impl Iterator<Item = (u64, f64)> {
        let shares = self.amounts.iter().map(|(value, amount)| (*value, amount / self.total));
        shares.filter(move |(_, share)| *share >= cut * (1.0 - ROUNDING))
    }

    /// The share of one value.
    pub fn share_of(&self, value: u64) -> f64 {
        match self.amounts.binary_search_by_key(&value, |(value, _)| *value) {
            Ok(index) => self.amounts[index].1 / self.total,
            Err(_) => 0.0,
        }
    }
}
