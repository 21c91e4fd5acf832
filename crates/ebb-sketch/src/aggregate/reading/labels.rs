//! The heaviest labels.

use super::bracket::{Assurance, Bracket, DecayFactor};
use crate::aggregate::answer::{Estimate, Guarantee, TopMode};
use crate::aggregate::error::{MergeError, QueryError};
use crate::aggregate::robust::SampleReading;
use crate::aggregate::spacesaving::SpaceSaving;

/// A frequent label and its share of the decayed weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopLabel {
    /// The label.
    pub label: u128,
    /// The estimated share.
    pub share: f64,
    /// The lower bound of the share.
    pub lower: f64,
    /// The upper bound of the share.
    pub upper: f64,
}

/// The frequent labels, largest share first, equal shares by label.
#[derive(Debug, Clone, PartialEq)]
pub struct TopLabels {
    /// The labels.
    pub items: Vec<TopLabel>,
    /// The decayed weight that the shares refer to.
    pub total: Estimate,
    /// Which error the list excludes.
    pub mode: TopMode,
    /// What supports the shares.
    pub guarantee: Guarantee,
}

/// How the decayed weight is distributed over the labels.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// From cells, with certain bounds.
    Cells(CellLabels),
    /// From a sample, which keeps 64 bits of a label.
    Sample(SampleReading),
}

impl Labels {
    /// The labels that hold at least `phi` of the decayed weight. `phi` must be above the error of the sketch.
    pub fn top(&self, phi: f64, mode: TopMode) -> Result<TopLabels, QueryError> {
        match self {
            Self::Cells(labels) => labels.top(phi, mode),
            Self::Sample(sample) => {
                let top = sample.top(phi, mode)?;
                let label = |item: &crate::aggregate::answer::TopItem| TopLabel {
                    label: u128::from(item.item),
                    share: item.share,
                    lower: item.lower,
                    upper: item.upper,
                };
                let items = top.items.iter().map(label).collect();
                Ok(TopLabels { items, total: top.total, mode, guarantee: top.guarantee })
            }
        }
    }

    /// Bounds of the decayed weight of one label.
    pub fn weight_of(&self, label: u128) -> Bracket {
        match self {
            Self::Cells(labels) => labels.weight_of(label),
            Self::Sample(sample) => u64::try_from(label).map_or_else(|_| Bracket::default(), |l| sample.weight_of(l)),
        }
    }

    /// The decayed weight of all observations.
    pub fn total(&self) -> Estimate {
        match self {
            Self::Cells(labels) => labels.total(),
            Self::Sample(sample) => sample.weight(),
        }
    }

    /// The labels of both streams.
    pub fn merge(self, other: Self) -> Result<Self, MergeError> {
        match (self, other) {
            (Self::Cells(labels), Self::Cells(others)) => Ok(Self::Cells(labels.merge(others))),
            (Self::Sample(_), _) | (_, Self::Sample(_)) => Err(MergeError::SampleReading),
        }
    }
}

/// The distribution over labels, from cells.
#[derive(Debug, Clone, PartialEq)]
pub struct CellLabels {
    /// Weight beyond `unseen`, which every label may have; sorted by label and distinct after [`finish`](Self::finish).
    seen: Vec<(u128, Bracket)>,
    unseen: Bracket,
    total: Bracket,
    assurance: Assurance,
}

impl CellLabels {
    pub(crate) fn new() -> Self {
        let assurance = Assurance::exact();
        Self { seen: Vec::new(), unseen: Bracket::default(), total: Bracket::default(), assurance }
    }

    pub(crate) fn add(&mut self, summary: &SpaceSaving, factor: DecayFactor) {
        self.total.add(summary.weight(), factor);
        let floor = summary.floor();
        self.unseen.value += floor / 2.0 * factor.middle;
        self.unseen.upper += floor * factor.upper;
        self.seen.extend(summary.monitored().into_iter().map(|counter| {
            let value = (counter.seen + (counter.error - floor) / 2.0) * factor.middle;
            let upper = (counter.seen + counter.error - floor) * factor.upper;
            (counter.label, Bracket { lower: counter.seen * factor.lower, value, upper })
        }));
    }

    pub(crate) fn add_one(&mut self, label: u128, weight: f64, factor: DecayFactor) {
        self.total.add(weight, factor);
        let mut bracket = Bracket::default();
        bracket.add(weight, factor);
        self.seen.push((label, bracket));
    }

    pub(crate) fn finish(mut self, assurance: Assurance) -> Self {
        self.seen.sort_by_key(|(label, _)| *label);
        self.seen.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1.merge(next.1);
            }
            same
        });
        self.assurance = assurance;
        self
    }

    /// The reading of both streams.
    pub fn merge(mut self, other: Self) -> Self {
        self.seen.extend(other.seen);
        self.unseen.merge(other.unseen);
        self.total.merge(other.total);
        let assurance = self.assurance.merge(other.assurance);
        self.finish(assurance)
    }

    /// Bounds of the decayed weight of one item.
    pub fn weight_of(&self, label: u128) -> Bracket {
        match self.seen.binary_search_by_key(&label, |(l, _)| *l) {
            Ok(index) => self.bounds(self.seen[index].1),
            Err(_) => self.unseen,
        }
    }

    fn bounds(&self, seen: Bracket) -> Bracket {
        Bracket {
            lower: seen.lower,
            value: seen.value + self.unseen.value,
            upper: (seen.upper + self.unseen.upper).max(seen.lower),
        }
    }

    /// The decayed weight of all observations.
    pub fn total(&self) -> Estimate {
        self.assurance.estimate(self.total, self.assurance.guarantee(self.total.relative_half_width()))
    }

    /// The labels that hold at least `phi` of the decayed weight.
    pub fn top(&self, phi: f64, mode: TopMode) -> Result<TopLabels, QueryError> {
        let hidden = if self.total.lower > 0.0 { self.unseen.upper / self.total.lower } else { 0.0 };
        let min = hidden.max(self.assurance.epsilon.unwrap_or(0.0));
        if !(phi > min && phi <= 1.0) {
            return Err(QueryError::PhiTooSmall { phi, min });
        }
        let total = self.total;
        let mut items: Vec<TopLabel> = Vec::new();
        for (label, seen) in self.seen.iter().filter(|_| total.value > 0.0) {
            let weight = self.bounds(*seen);
            let lower = weight.lower / total.upper;
            let upper = if total.lower > 0.0 { (weight.upper / total.lower).min(1.0) } else { 1.0 };
            if mode.lists(phi, lower, upper) {
                let share = (weight.value / total.value).max(lower).min(upper);
                items.push(TopLabel { label: *label, share, lower, upper });
            }
        }
        items.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.label.cmp(&b.label)));
        Ok(TopLabels { items, total: self.total(), mode, guarantee: self.assurance.guarantee(hidden) })
    }
}
