//! A weighted sample of observations, and every statistic that is read from it.
//!
//! A sample is what one copy of a sketch has to say about one question. Under a decay g (or f(w, age) for the integral
//! forms) it estimates, over all distinct observations that the question covers:
//! `sum` Σ w·g; `count` Σ g; `value_sum` Σ w·v·g; `mean` Σ w·v·g / Σ w·g; `share` the part of Σ w·g that a predicate
//! selects; ranks, quantiles and frequent values with the weights w·g. Medians over copies are taken above ([`super::answers`]).

use std::sync::Arc;

use super::sampling::SampleHash;

/// Sums of floating-point products that ought to be equal differ by less than this share.
const ROUNDING: f64 = 1e-12;

/// What one element says at one level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub value: u64,
    pub weight: u32,
    /// Integers of the element that are alive, and how many of them are sampled at `level`.
    pub live: u32,
    pub hits: u64,
    pub level: u8,
    /// The part of g that this level answers for.
    pub band: f64,
    /// band · (what this level and above answer for + what those above do): the variance of a sampled integer, whose
    /// appearances at several levels are nested.
    pub spread: f64,
}

/// The rows of one copy.
#[derive(Debug, Clone)]
pub struct Sample {
    pub(super) hash: Arc<SampleHash>,
    pub(super) rows: Vec<Row>,
    /// The highest level that was used: 0 says that nothing was sampled away.
    pub(super) level: u8,
    pub(super) incomplete: bool,
    /// What weights were multiplied with before they came into the sketch.
    pub(super) weight_scale: u32,
}

/// A statistic with its standard error, which is 0 at level 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub value: f64,
    pub deviation: f64,
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

    pub fn is_exact(&self) -> bool {
        self.level == 0
    }

    pub fn incomplete(&self) -> bool {
        self.incomplete
    }

    /// Sampled elements, once for each level that uses them.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Integers sampled: X of the paper.
    pub fn hits(&self) -> u64 {
        self.rows.iter().map(|row| row.hits).sum()
    }

    fn amount(&self, row: &Row) -> f64 {
        row.hits as f64 * self.hash.scale(row.level) * row.band / f64::from(self.weight_scale)
    }

    /// Σ w·g.
    pub fn sum(&self) -> f64 {
        self.rows.iter().map(|row| self.amount(row)).sum()
    }

    /// Σ g: each element counts by how unlikely it was to be sampled (Horvitz and Thompson), so heavy ones add no noise.
    pub fn count(&self) -> Measured {
        let (mut value, mut variance) = (0.0, 0.0);
        for row in &self.rows {
            let inverse = 1.0 / self.hash.hit_probability(row.live, row.level);
            value += row.band * inverse;
            variance += row.spread * inverse * (inverse - 1.0);
        }
        Measured { value, deviation: libm::sqrt(variance.max(0.0)) }
    }

    /// Σ w·v·g.
    pub fn value_sum(&self) -> Measured {
        let value = self.rows.iter().map(|row| self.amount(row) * row.value as f64).sum();
        Measured { value, deviation: self.deviation_about(0.0) }
    }

    /// Σ w·v·g / Σ w·g, unless nothing was sampled.
    pub fn mean(&self) -> Option<Measured> {
        let total = self.sum();
        let value = self.value_sum().value / total;
        (total > 0.0).then(|| Measured { value, deviation: self.deviation_about(value) / total })
    }

    /// The standard error of Σ w·g·(v - centre).
    fn deviation_about(&self, centre: f64) -> f64 {
        let variance = self.rows.iter().map(|row| {
            let (scale, off) = (self.hash.scale(row.level), row.value as f64 - centre);
            row.hits as f64 * scale * (scale - 1.0) * row.spread * off * off
        });
        libm::sqrt(variance.sum::<f64>()) / f64::from(self.weight_scale)
    }

    /// The share of Σ w·g of the observations (value, weight) that are selected, unless nothing was sampled.
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

    /// The amounts of all values, by value, and their total.
    pub fn by_value(&self) -> ByValue {
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
        ByValue { amounts, total }
    }
}

/// A weighted distribution of values.
#[derive(Debug, Clone, PartialEq)]
pub struct ByValue {
    amounts: Vec<(u64, f64)>,
    total: f64,
}

impl ByValue {
    /// The smallest value at which the cumulated share reaches `phi`, unless there are none.
    pub fn quantile(&self, phi: f64) -> Option<u64> {
        let wanted = phi * self.total * (1.0 - ROUNDING);
        let mut reached = 0.0;
        let at = self.amounts.iter().find(|(_, amount)| {
            reached += amount;
            reached >= wanted
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
