//! Ranks, quantiles, frequent values and shares of values under a decay, with bounds.

use super::super::answer::{Estimate, Guarantee, Quantile, TopItem, TopItems, TopMode};
use super::super::predicate::{Field, Predicate};
use super::QuestionError;
use super::totals::{Bracket, Factor, Standing, achieved};

/// Decayed weight that lies somewhere from `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Band {
    low: u64,
    high: u64,
    weight: Bracket,
}

impl Band {
    pub fn new(low: u64, high: u64, mass: f64, factor: Factor) -> Self {
        let mut weight = Bracket::default();
        weight.add(mass, factor);
        Self { low, high, weight }
    }
}

/// How the decayed weight is spread over the values, at one time and under one decay.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    bands: Vec<Band>,
    /// Ends of the bands with the weight of all bands that begin (end) at or before them.
    begun: Vec<(u64, Bracket)>,
    ended: Vec<(u64, Bracket)>,
    total: Bracket,
    value_most: u64,
    /// What is promised of shares.
    standing: Standing,
    /// What is promised of a rank, as a share of the true total.
    rank_epsilon: Option<f64>,
}

/// Domains up to this size are counted, not sorted, when there are about as many bands.
const COUNTED_MOST: u64 = 1 << 20;

/// Running sums over one end of the bands.
fn cumulated(bands: &[Band], value_most: u64, end: fn(&Band) -> u64) -> Vec<(u64, Bracket)> {
    let mut ends: Vec<(u64, Bracket)> = if value_most < COUNTED_MOST && value_most / 8 < bands.len() as u64 {
        let mut counted: Vec<(u64, Bracket)> = (0..=value_most).map(|value| (value, Bracket::default())).collect();
        bands.iter().for_each(|band| counted[end(band).min(value_most) as usize].1.join(band.weight));
        counted
    } else {
        let mut ends: Vec<(u64, Bracket)> = bands.iter().map(|band| (end(band), band.weight)).collect();
        ends.sort_by_key(|(at, _)| *at);
        ends
    };
    let mut sum = Bracket::default();
    for (_, weight) in &mut ends {
        sum.join(*weight);
        *weight = sum;
    }
    ends
}

fn through(ends: &[(u64, Bracket)], value: u64) -> Bracket {
    let after = ends.partition_point(|(at, _)| *at <= value);
    if after == 0 { Bracket::default() } else { ends[after - 1].1 }
}

impl Values {
    pub(crate) fn new(bands: Vec<Band>, value_most: u64, standing: Standing, rank_epsilon: f64) -> Self {
        let rank_epsilon = standing.epsilon.map(|_| rank_epsilon);
        let begun = cumulated(&bands, value_most, |band| band.low);
        let ended = cumulated(&bands, value_most, |band| band.high);
        let total = through(&ended, u64::MAX);
        Self { bands, begun, ended, total, value_most, standing, rank_epsilon }
    }

    /// The spread of both, as if one structure had seen everything.
    pub fn join(self, other: Self) -> Self {
        let rank_epsilon = self.rank_epsilon.zip(other.rank_epsilon).map_or(0.0, |(a, b)| a.max(b));
        let mut bands = self.bands;
        bands.extend(other.bands);
        let standing = self.standing.join(other.standing);
        Self::new(bands, self.value_most.max(other.value_most), standing, rank_epsilon)
    }

    /// Weight at or below `value`, and what the weight above it may be.
    fn split(&self, value: u64) -> (Bracket, Bracket) {
        let (sure, possible) = (through(&self.ended, value), through(&self.begun, value));
        let middle = (sure.value + possible.value) / 2.0;
        let below = Bracket { lower: sure.lower, value: middle, upper: possible.upper };
        let above = Bracket {
            lower: (self.total.lower - possible.lower).max(0.0),
            value: self.total.value - middle,
            upper: (self.total.upper - sure.upper).max(0.0),
        };
        (below, above)
    }

    /// Bounds of the share at or below `value`.
    fn share_through(&self, value: u64) -> Bracket {
        let (below, above) = self.split(value);
        let share = |part: f64, rest: f64| if part <= 0.0 { 0.0 } else { part / (part + rest) };
        Bracket {
            lower: share(below.lower, above.upper),
            value: share(below.value, above.value),
            upper: share(below.upper, above.lower),
        }
    }

    /// Where no error is promised, what is open is how much lies at or below the value, and how much below it.
    fn quantile_guarantee(&self, value: u64) -> Guarantee {
        let off = |share: Bracket| (share.upper - share.value).max(share.value - share.lower).max(0.0);
        let below = value.checked_sub(1).map_or(0.0, |below| off(self.share_through(below)));
        self.standing.guarantee(off(self.share_through(value)).max(below))
    }

    fn estimate(&self, bracket: Bracket, guarantee: Guarantee) -> Estimate {
        Estimate {
            value: bracket.value,
            lower: bracket.lower,
            upper: bracket.upper,
            guarantee,
            incomplete: self.standing.incomplete,
            evidence: self.standing.evidence(),
        }
    }

    /// The decayed weight of everything.
    pub fn total(&self) -> Estimate {
        self.estimate(self.total, self.standing.guarantee(achieved(self.total)))
    }

    /// The decayed weight of the values at or below `value`; the promised error is a share of the total.
    pub fn rank(&self, value: u64) -> Estimate {
        let rank = self.split(value).0;
        let off = (rank.upper - rank.value).max(rank.value - rank.lower).max(0.0);
        let standing = Standing { epsilon: self.rank_epsilon, ..self.standing };
        let achieved = if off > 0.0 { off / self.total.value.max(f64::MIN_POSITIVE) } else { 0.0 };
        self.estimate(rank, standing.guarantee(achieved))
    }

    /// The value at which the cumulated share reaches `phi`; none when nothing is left.
    pub fn quantile(&self, phi: f64) -> Result<Option<Quantile>, QuestionError> {
        if !(0.0..=1.0).contains(&phi) {
            return Err(QuestionError::Phi(phi));
        }
        if self.total.value <= 0.0 {
            return Ok(None);
        }
        let first = |reached: &dyn Fn(Bracket) -> bool| self.first(|value| reached(self.share_through(value)));
        // A share that should be 1 may be a rounding short of it.
        let phi_met = phi * (1.0 - 1e-12);
        let value = first(&|share| share.value >= phi_met);
        Ok(Some(Quantile {
            phi,
            value,
            lower: first(&|share| share.upper >= phi_met),
            upper: first(&|share| share.lower >= phi_met),
            guarantee: self.quantile_guarantee(value),
            incomplete: self.standing.incomplete,
            evidence: self.standing.evidence(),
        }))
    }

    /// The first value for which a rising condition holds; the last of the domain when it never does.
    fn first(&self, holds: impl Fn(u64) -> bool) -> u64 {
        let (mut from, mut to) = (0, self.value_most);
        while from < to {
            let middle = from + (to - from) / 2;
            if holds(middle) { to = middle } else { from = middle + 1 }
        }
        from
    }

    /// The decayed share of the values that a predicate means; none when nothing is left.
    pub fn share(&self, predicate: &Predicate) -> Result<Option<Estimate>, QuestionError> {
        let mut cuts = vec![0, self.value_most.saturating_add(1)];
        collect_cuts(predicate, &mut cuts)?;
        cuts.retain(|cut| *cut <= self.value_most.saturating_add(1));
        cuts.sort_unstable();
        cuts.dedup();
        if self.total.value <= 0.0 {
            return Ok(None);
        }
        let meant: Vec<bool> = cuts.iter().map(|cut| predicate.matches(*cut, 0)).collect();
        let (mut inside, mut outside) = (Bracket::default(), Bracket::default());
        for band in &self.bands {
            let first = cuts.partition_point(|cut| *cut <= band.low) - 1;
            let last = cuts.partition_point(|cut| *cut <= band.high) - 1;
            let pieces = &meant[first..=last];
            let (some, all) = (pieces.contains(&true), !pieces.contains(&false));
            for (side, possible, sure) in [(&mut inside, some, all), (&mut outside, !all, !some)] {
                if possible {
                    side.upper += band.weight.upper;
                    side.value += band.weight.value * if sure { 1.0 } else { 0.5 };
                }
                if sure {
                    side.lower += band.weight.lower;
                }
            }
        }
        let share = |part: f64, rest: f64| if part <= 0.0 { 0.0 } else { part / (part + rest) };
        let bracket = Bracket {
            lower: share(inside.lower, outside.upper),
            value: share(inside.value, outside.value),
            upper: share(inside.upper, outside.lower),
        };
        // A predicate may cut the digest in many places, each with its own error: only the bounds are promised.
        let standing = Standing { epsilon: self.standing.epsilon.filter(|e| *e == 0.0), ..self.standing };
        let off = (bracket.upper - bracket.value).max(bracket.value - bracket.lower).max(0.0);
        Ok(Some(self.estimate(bracket, standing.guarantee(off))))
    }

    /// Bounds of the decayed weight of one value.
    pub fn weight_of(&self, value: u64) -> Bracket {
        let mut bounds = Bracket::default();
        for band in self.bands.iter().filter(|band| (band.low..=band.high).contains(&value)) {
            bounds.upper += band.weight.upper;
            if band.low == band.high {
                bounds.lower += band.weight.lower;
                bounds.value += band.weight.value;
            } else {
                bounds.value += band.weight.value / 2.0;
            }
        }
        bounds
    }

    /// The values that hold at least `phi` of the decayed weight. `phi` must be above the error.
    pub fn frequent(&self, phi: f64, mode: TopMode) -> Result<TopItems, QuestionError> {
        let hidden = if self.total.lower > 0.0 { self.deepest_cover() / self.total.lower } else { 0.0 };
        let least = hidden.max(self.standing.epsilon.unwrap_or(0.0));
        if !(phi > least && phi <= 1.0) {
            return Err(QuestionError::PhiTooSmall { phi, least });
        }
        // Without the cover a value needs this much at its own leaf; only few values can have that.
        let needed = (phi - hidden) * self.total.lower * (1.0 - 1e-9);
        let mut leaves: Vec<(u64, f64)> =
            self.bands.iter().filter(|b| b.low == b.high).map(|b| (b.low, b.weight.upper)).collect();
        leaves.sort_by_key(|(value, _)| *value);
        let values = leaves.chunk_by(|a, b| a.0 == b.0);
        let candidates = values.filter(|one| one.iter().map(|(_, upper)| upper).sum::<f64>() >= needed);
        let mut items: Vec<TopItem> = candidates.filter_map(|one| self.listed(one[0].0, phi, mode)).collect();
        TopItems::sort(&mut items);
        let total = self.total();
        Ok(TopItems { items, total, mode, guarantee: self.standing.guarantee(hidden) })
    }

    fn listed(&self, item: u64, phi: f64, mode: TopMode) -> Option<TopItem> {
        let (weight, total) = (self.weight_of(item), self.total);
        if total.value <= 0.0 {
            return None;
        }
        let lower = weight.lower / total.upper;
        let upper = if total.lower > 0.0 { (weight.upper / total.lower).min(1.0) } else { 1.0 };
        let listed = match mode {
            TopMode::NoFalsePositives => lower >= phi,
            TopMode::NoFalseNegatives => upper >= phi,
        };
        listed.then_some(TopItem { item, share: (weight.value / total.value).max(lower).min(upper), lower, upper })
    }

    /// The most weight that could belong to a single value that has no leaf of its own.
    fn deepest_cover(&self) -> f64 {
        let wide = || self.bands.iter().filter(|band| band.low < band.high);
        let mut steps: Vec<(u64, f64)> = wide()
            .flat_map(|band| [(band.low, band.weight.upper), (band.high.saturating_add(1), -band.weight.upper)])
            .collect();
        // Ends before beginnings at the same place: neighbours do not cover each other.
        steps.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut cover = 0.0f64;
        steps.iter().fold(0.0f64, |deepest, (_, step)| {
            cover += step;
            deepest.max(cover)
        })
    }
}

/// The places at which the truth of a predicate may change.
fn collect_cuts(predicate: &Predicate, cuts: &mut Vec<u64>) -> Result<(), QuestionError> {
    match predicate {
        Predicate::Compare { field: Field::Weight, .. } => Err(QuestionError::WeightNotKept),
        Predicate::Compare { field: Field::Value, bound, .. } => {
            cuts.extend([*bound, bound.saturating_add(1)]);
            Ok(())
        }
        Predicate::All(parts) | Predicate::Any(parts) => parts.iter().try_for_each(|part| collect_cuts(part, cuts)),
    }
}
