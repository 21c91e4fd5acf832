//! The distribution of values: ranks, quantiles, shares and frequent values.

use super::bracket::{Assurance, Bracket, DecayFactor};
use crate::aggregate::answer::{Estimate, Guarantee, Quantile, TopItem, TopItems, TopMode};
use crate::aggregate::error::{MergeError, QueryError};
use crate::aggregate::predicate::{Field, Predicate};
use crate::aggregate::robust::SampleReading;

/// How the decayed weight is distributed over the values.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// From cells, with certain bounds.
    Cells(CellValues),
    /// From a sample.
    Sample(SampleReading),
}

impl Values {
    /// The decayed weight of all observations.
    pub fn total(&self) -> Estimate {
        match self {
            Self::Cells(values) => values.total(),
            Self::Sample(sample) => sample.weight(),
        }
    }

    /// The decayed weight of the values at or below `value`. Its error is a share of the total.
    pub fn rank(&self, value: u64) -> Estimate {
        match self {
            Self::Cells(values) => values.rank(value),
            Self::Sample(sample) => sample.weight_through(value),
        }
    }

    /// The smallest value at which the cumulative share reaches `phi`; `None` without observations.
    pub fn quantile(&self, phi: f64) -> Result<Option<Quantile>, QueryError> {
        match self {
            Self::Cells(values) => values.quantile(phi),
            Self::Sample(sample) => Ok(sample.quantiles(&[phi])?.pop()),
        }
    }

    /// [`Self::quantile`] of every `phi`; empty without observations.
    pub fn quantiles(&self, phis: &[f64]) -> Result<Vec<Quantile>, QueryError> {
        match self {
            Self::Cells(values) => phis.iter().filter_map(|phi| values.quantile(*phi).transpose()).collect(),
            Self::Sample(sample) => sample.quantiles(phis),
        }
    }

    /// The share of the decayed weight that a predicate selects; `None` without observations.
    pub fn share(&self, predicate: &Predicate) -> Result<Option<Estimate>, QueryError> {
        match self {
            Self::Cells(values) => values.share(predicate),
            Self::Sample(sample) => Ok(sample.share(predicate)),
        }
    }

    /// Bounds of the decayed weight of one value.
    pub fn weight_of(&self, value: u64) -> Bracket {
        match self {
            Self::Cells(values) => values.weight_of(value),
            Self::Sample(sample) => sample.weight_of(value),
        }
    }

    /// The values that hold at least `phi` of the decayed weight. `phi` must be above the error of the sketch.
    pub fn frequent(&self, phi: f64, mode: TopMode) -> Result<TopItems, QueryError> {
        match self {
            Self::Cells(values) => values.frequent(phi, mode),
            Self::Sample(sample) => sample.top(phi, mode),
        }
    }

    /// The distribution of both streams.
    pub fn merge(self, other: Self) -> Result<Self, MergeError> {
        match (self, other) {
            (Self::Cells(values), Self::Cells(others)) => Ok(Self::Cells(values.merge(others))),
            (Self::Sample(_), _) | (_, Self::Sample(_)) => Err(MergeError::SampleReading),
        }
    }
}

/// Decayed weight of values within `low` and `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ValueRange {
    low: u64,
    high: u64,
    weight: Bracket,
}

impl ValueRange {
    pub fn new(low: u64, high: u64, mass: f64, factor: DecayFactor) -> Self {
        let mut weight = Bracket::default();
        weight.add(mass, factor);
        Self { low, high, weight }
    }
}

/// The distribution of values, from cells.
#[derive(Debug, Clone, PartialEq)]
pub struct CellValues {
    ranges: Vec<ValueRange>,
    /// Cumulative weight by the low end of the ranges: what may lie at or below a value.
    by_low: Vec<(u64, Bracket)>,
    /// Cumulative weight by the high end of the ranges: what certainly lies at or below a value.
    by_high: Vec<(u64, Bracket)>,
    total: Bracket,
    max_value: u64,
    /// What supports shares.
    assurance: Assurance,
    /// The guaranteed error of a rank, as a share of the true total.
    rank_epsilon: Option<f64>,
}

/// Domains up to this size are counted instead of sorted if there are about as many ranges.
const MAX_COUNTED_DOMAIN: u64 = 1 << 20;

/// Running sums over one end of the ranges.
fn cumulate(ranges: &[ValueRange], max_value: u64, end: fn(&ValueRange) -> u64) -> Vec<(u64, Bracket)> {
    let mut ends: Vec<(u64, Bracket)> = if max_value < MAX_COUNTED_DOMAIN && max_value / 8 < ranges.len() as u64 {
        let mut counted: Vec<(u64, Bracket)> = (0..=max_value).map(|value| (value, Bracket::default())).collect();
        ranges.iter().for_each(|range| counted[end(range).min(max_value) as usize].1.merge(range.weight));
        counted
    } else {
        let mut ends: Vec<(u64, Bracket)> = ranges.iter().map(|range| (end(range), range.weight)).collect();
        ends.sort_by_key(|(at, _)| *at);
        ends
    };
    let mut sum = Bracket::default();
    for (_, weight) in &mut ends {
        sum.merge(*weight);
        *weight = sum;
    }
    ends
}

fn weight_through(ends: &[(u64, Bracket)], value: u64) -> Bracket {
    let after = ends.partition_point(|(at, _)| *at <= value);
    if after == 0 { Bracket::default() } else { ends[after - 1].1 }
}

impl CellValues {
    pub(crate) fn new(ranges: Vec<ValueRange>, max_value: u64, assurance: Assurance, rank_epsilon: f64) -> Self {
        let rank_epsilon = assurance.epsilon.map(|_| rank_epsilon);
        let by_low = cumulate(&ranges, max_value, |range| range.low);
        let by_high = cumulate(&ranges, max_value, |range| range.high);
        let total = weight_through(&by_high, u64::MAX);
        Self { ranges, by_low, by_high, total, max_value, assurance, rank_epsilon }
    }

    /// The reading of both streams.
    pub fn merge(self, other: Self) -> Self {
        let rank_epsilon = self.rank_epsilon.zip(other.rank_epsilon).map_or(0.0, |(a, b)| a.max(b));
        let mut ranges = self.ranges;
        ranges.extend(other.ranges);
        let assurance = self.assurance.merge(other.assurance);
        Self::new(ranges, self.max_value.max(other.max_value), assurance, rank_epsilon)
    }

    /// The weight at or below `value`, and the weight above it.
    fn split(&self, value: u64) -> (Bracket, Bracket) {
        let (certain, possible) = (weight_through(&self.by_high, value), weight_through(&self.by_low, value));
        let middle = (certain.value + possible.value) / 2.0;
        let below = Bracket { lower: certain.lower, value: middle, upper: possible.upper };
        let above = Bracket {
            lower: (self.total.lower - possible.lower).max(0.0),
            value: self.total.value - middle,
            upper: (self.total.upper - certain.upper).max(0.0),
        };
        (below, above)
    }

    fn share_through(&self, value: u64) -> Bracket {
        let (below, above) = self.split(value);
        Bracket::share(below, above)
    }

    /// Without a guaranteed error, the share at or below the value and the share below it are open by their bounds.
    fn quantile_guarantee(&self, value: u64) -> Guarantee {
        let below = value.checked_sub(1).map_or(0.0, |below| self.share_through(below).half_width());
        self.assurance.guarantee(self.share_through(value).half_width().max(below))
    }

    /// The decayed weight of all observations.
    pub fn total(&self) -> Estimate {
        self.assurance.estimate(self.total, self.assurance.guarantee(self.total.relative_half_width()))
    }

    /// The decayed weight of the values at or below `value`.
    pub fn rank(&self, value: u64) -> Estimate {
        let rank = self.split(value).0;
        let assurance = Assurance { epsilon: self.rank_epsilon, ..self.assurance };
        let off = rank.half_width();
        let open = if off > 0.0 { off / self.total.value.max(f64::MIN_POSITIVE) } else { 0.0 };
        assurance.estimate(rank, assurance.guarantee(open))
    }

    /// The smallest value at which the cumulative share reaches `phi`; `None` without observations.
    pub fn quantile(&self, phi: f64) -> Result<Option<Quantile>, QueryError> {
        if !(0.0..=1.0).contains(&phi) {
            return Err(QueryError::Phi { phi });
        }
        if self.total.value <= 0.0 {
            return Ok(None);
        }
        let first = |reached: &dyn Fn(Bracket) -> bool| self.first(|value| reached(self.share_through(value)));
        // Rounding may leave a share of 1 slightly below it. A share of 0 is reached by the smallest value that occurs.
        let is_met = |share: f64| share >= phi * (1.0 - 1e-12) && share > 0.0;
        let value = first(&|share| is_met(share.value));
        Ok(Some(Quantile {
            phi,
            value,
            lower: first(&|share| is_met(share.upper)),
            upper: first(&|share| is_met(share.lower)),
            guarantee: self.quantile_guarantee(value),
            incomplete: self.assurance.incomplete,
            evidence: self.assurance.evidence(),
        }))
    }

    /// The first value for which a monotone condition holds, or the last of the domain.
    fn first(&self, holds: impl Fn(u64) -> bool) -> u64 {
        let (mut from, mut to) = (0, self.max_value);
        while from < to {
            let middle = from + (to - from) / 2;
            if holds(middle) { to = middle } else { from = middle + 1 }
        }
        from
    }

    /// The share that a predicate selects; `None` without observations.
    pub fn share(&self, predicate: &Predicate) -> Result<Option<Estimate>, QueryError> {
        let mut cuts = vec![0, self.max_value.saturating_add(1)];
        collect_cuts(predicate, &mut cuts)?;
        cuts.retain(|cut| *cut <= self.max_value.saturating_add(1));
        cuts.sort_unstable();
        cuts.dedup();
        if self.total.value <= 0.0 {
            return Ok(None);
        }
        let selected: Vec<bool> = cuts.iter().map(|cut| predicate.matches(*cut, 0)).collect();
        let (mut inside, mut outside) = (Bracket::default(), Bracket::default());
        for range in &self.ranges {
            let first = cuts.partition_point(|cut| *cut <= range.low) - 1;
            let last = cuts.partition_point(|cut| *cut <= range.high) - 1;
            let pieces = &selected[first..=last];
            let (some, all) = (pieces.contains(&true), !pieces.contains(&false));
            for (side, possible, certain) in [(&mut inside, some, all), (&mut outside, !all, !some)] {
                if possible {
                    side.upper += range.weight.upper;
                    side.value += range.weight.value * if certain { 1.0 } else { 0.5 };
                }
                if certain {
                    side.lower += range.weight.lower;
                }
            }
        }
        // Each cut adds an error of its own, so epsilon does not bound the error: only the bounds are certain.
        let assurance = self.assurance.only_if_exact();
        let bracket = Bracket::share(inside, outside);
        Ok(Some(assurance.estimate(bracket, assurance.guarantee(bracket.half_width()))))
    }

    /// Bounds of the decayed weight of one item.
    pub fn weight_of(&self, value: u64) -> Bracket {
        let mut bounds = Bracket::default();
        for range in self.ranges.iter().filter(|range| (range.low..=range.high).contains(&value)) {
            bounds.upper += range.weight.upper;
            if range.low == range.high {
                bounds.lower += range.weight.lower;
                bounds.value += range.weight.value;
            } else {
                bounds.value += range.weight.value / 2.0;
            }
        }
        bounds
    }

    /// The values that hold at least `phi` of the decayed weight.
    pub fn frequent(&self, phi: f64, mode: TopMode) -> Result<TopItems, QueryError> {
        let hidden = if self.total.lower > 0.0 { self.deepest_cover() / self.total.lower } else { 0.0 };
        let min = hidden.max(self.assurance.epsilon.unwrap_or(0.0));
        if !(phi > min && phi <= 1.0) {
            return Err(QueryError::PhiTooSmall { phi, min });
        }
        // Wide ranges contribute at most `hidden`, so a frequent value has at least this much at its own leaf.
        let needed = (phi - hidden) * self.total.lower * (1.0 - 1e-9);
        let mut leaves: Vec<(u64, f64)> =
            self.ranges.iter().filter(|r| r.low == r.high).map(|r| (r.low, r.weight.upper)).collect();
        leaves.sort_by_key(|(value, _)| *value);
        let values = leaves.chunk_by(|a, b| a.0 == b.0);
        let candidates = values.filter(|one| one.iter().map(|(_, upper)| upper).sum::<f64>() >= needed);
        let mut items: Vec<TopItem> = candidates.filter_map(|one| self.top_item(one[0].0, phi, mode)).collect();
        TopItems::sort(&mut items);
        let total = self.total();
        Ok(TopItems { items, total, mode, guarantee: self.assurance.guarantee(hidden) })
    }

    fn top_item(&self, item: u64, phi: f64, mode: TopMode) -> Option<TopItem> {
        let (weight, total) = (self.weight_of(item), self.total);
        if total.value <= 0.0 {
            return None;
        }
        let lower = weight.lower / total.upper;
        let upper = if total.lower > 0.0 { (weight.upper / total.lower).min(1.0) } else { 1.0 };
        let share = (weight.value / total.value).max(lower).min(upper);
        mode.lists(phi, lower, upper).then_some(TopItem { item, share, lower, upper })
    }

    /// The largest weight that a value without a leaf of its own may have.
    fn deepest_cover(&self) -> f64 {
        let wide = || self.ranges.iter().filter(|range| range.low < range.high);
        let mut steps: Vec<(u64, f64)> = wide()
            .flat_map(|range| [(range.low, range.weight.upper), (range.high.saturating_add(1), -range.weight.upper)])
            .collect();
        // Ends sort before beginnings at the same value: adjacent ranges do not overlap.
        steps.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut cover = 0.0f64;
        steps.iter().fold(0.0f64, |deepest, (_, step)| {
            cover += step;
            deepest.max(cover)
        })
    }
}

/// The values at which the truth of a predicate may change.
fn collect_cuts(predicate: &Predicate, cuts: &mut Vec<u64>) -> Result<(), QueryError> {
    match predicate {
        Predicate::Compare { field: Field::Weight, .. } => Err(QueryError::WeightNotKept),
        Predicate::Compare { field: Field::Value, bound, .. } => {
            cuts.extend([*bound, bound.saturating_add(1)]);
            Ok(())
        }
        Predicate::All(parts) | Predicate::Any(parts) => parts.iter().try_for_each(|part| collect_cuts(part, cuts)),
    }
}
