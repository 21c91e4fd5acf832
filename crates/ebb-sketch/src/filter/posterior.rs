//! How old is the last sighting of an item, given what its timers say?
//!
//! A reading allows no age below `from`, fully explains the ages of one block, and is explained by *other* items' writes
//! with likelihood `by_others` for every age beyond (and for "never"). With any prior over ages this one piecewise
//! constant likelihood gives every answer: within a window, in a block, at an age, never, expected.
//! "Inside" and "outside" are computed apart, never as 1 minus the other, and hold to a share of 1e-15.

use libm::{exp, expm1, log1p};
use thiserror::Error;

use super::prior::AgeCurve;

/// Below this a share cannot be told from never.
pub const SHARE_LEAST: f64 = 1e-15;

/// p: the share of arrivals that one item makes, above 0 and below 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    p: f64,
    /// ln(1 - p).
    log_other: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("a share of arrivals must lie between 0 and 1, not {given}; the nearest is {nearest}")]
pub struct ShareError {
    pub given: f64,
    pub nearest: f64,
}

impl Share {
    /// Shares below [`SHARE_LEAST`] count as that.
    pub fn new(p: f64) -> Result<Self, ShareError> {
        if p > 0.0 && p < 1.0 {
            let p = p.max(SHARE_LEAST);
            return Ok(Self { p, log_other: log1p(-p) });
        }
        let nearest = if p >= 1.0 { 1.0 - f64::EPSILON } else { SHARE_LEAST };
        Err(ShareError { given: p, nearest })
    }

    pub fn get(self) -> f64 {
        self.p
    }
}

/// What is believed about ages before the timers are read.
#[derive(Debug, Clone, Copy)]
pub enum AgePrior<'a> {
    /// Every arrival is this item with the same chance: ages are geometric.
    Geometric(Share),
    /// Only what was answered "unique" is inserted: nothing else about ages within `window`, geometric beyond.
    FirstSeen { share: Share, window: f64 },
    /// Learned from ages that were seen.
    Learned(AgeCurve<'a>),
}

impl AgePrior<'_> {
    /// Prior mass of the ages `from..to` (`to` may be infinite), up to a factor that depends on `origin` only. Origin is
    /// the youngest age that matters: what lies below would only underflow.
    fn mass(&self, origin: f64, from: f64, to: f64) -> f64 {
        if to <= from {
            return 0.0;
        }
        match self {
            Self::Geometric(share) => {
                let t = share.log_other;
                exp((from - origin) * t) * rise(t, to - from)
            }
            Self::FirstSeen { share, window } => {
                let (t, origin) = (share.log_other, (origin - window).max(0.0));
                let flat = (to.min(*window) - from.min(*window)) * share.p;
                let (from, to) = ((from - window).max(0.0), (to - window).max(0.0));
                let falling = if to > from { exp((from - origin) * t) * rise(t, to - from) } else { 0.0 };
                flat + falling
            }
            Self::Learned(curve) => curve.between(from, to),
        }
    }
}

/// 1 - exp(length · t), for t < 0.
fn rise(t: f64, length: f64) -> f64 {
    if length == f64::INFINITY { 1.0 } else { -expm1(length * t) }
}

/// The likelihood of one reading as a function of age.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// a: no younger age is possible.
    pub from: f64,
    /// N: the ages `from..from + length` explain the reading by themselves.
    pub length: f64,
    /// g: how likely others' writes made it look so.
    pub by_others: f64,
}

/// Chances that sum to 1, each as exact as it can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Belief {
    pub inside: f64,
    pub outside: f64,
}

impl Belief {
    pub const OUTSIDE: Self = Self { inside: 0.0, outside: 1.0 };

    /// Evidence that the prior holds impossible says nothing in the item's favour.
    fn of(inside: f64, outside: f64) -> Self {
        let scale = 1.0 / (inside + outside);
        if scale.is_finite() { Self { inside: inside * scale, outside: outside * scale } } else { Self::OUTSIDE }
    }
}

/// Prior mass of the four parts that a block and a window cut the possible ages into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Masses {
    pub block_inside: f64,
    pub block_outside: f64,
    pub beyond_inside: f64,
    pub beyond_outside: f64,
}

impl Masses {
    /// What remains of them, when ages beyond the block must be explained by others.
    pub fn weigh(&self, by_others: f64) -> Belief {
        let inside = self.block_inside + by_others * self.beyond_inside;
        Belief::of(inside, self.block_outside + by_others * self.beyond_outside)
    }
}

/// What is believed after the timers were read.
#[derive(Debug, Clone, Copy)]
pub struct Posterior<'a> {
    evidence: Evidence,
    prior: AgePrior<'a>,
}

impl<'a> Posterior<'a> {
    pub fn new(evidence: Evidence, prior: AgePrior<'a>) -> Self {
        Self { evidence, prior }
    }

    /// Was the item seen at an age below `window`, or not?
    #[inline]
    pub fn within(&self, window: f64) -> Belief {
        let Evidence { from, length, by_others } = self.evidence;
        let end = from + length;
        if window <= from {
            return Belief::OUTSIDE;
        }
        match self.prior {
            AgePrior::Geometric(share) if window > end => return within_beyond(self.evidence, share, window),
            AgePrior::Learned(curve) => return within_learned(self.evidence, curve, window),
            _ => {}
        }
        let masses = Masses {
            block_inside: self.mass(from, window.min(end)),
            block_outside: self.mass(window, end),
            beyond_inside: self.mass(end, window),
            beyond_outside: self.mass(window.max(end), f64::INFINITY),
        };
        masses.weigh(by_others)
    }

    /// Chance of an age in `from..to`; `to` may be infinite.
    pub fn between(&self, from: f64, to: f64) -> f64 {
        let whole = self.weight(self.evidence.from, f64::INFINITY);
        let part = self.weight(from.max(self.evidence.from), to);
        if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
    }

    /// Chance that the age is exactly `age`.
    pub fn at_age(&self, age: f64) -> f64 {
        if age < self.evidence.from { 0.0 } else { self.between(age, age + 1.0) }
    }

    /// Chance that the item was last seen in the block of its oldest timer.
    pub fn in_block(&self) -> f64 {
        self.between(self.evidence.from, self.evidence.from + self.evidence.length)
    }

    /// Chance that it was never seen, after `arrived` arrivals: the mass beyond the beginning *is* "never".
    pub fn never(&self, arrived: f64) -> f64 {
        self.between(arrived, f64::INFINITY)
    }

    /// The mean age; with a learned prior, of those ages that lie below its horizon.
    pub fn expected_age(&self) -> f64 {
        let Evidence { from, length, by_others } = self.evidence;
        match self.prior {
            AgePrior::Geometric(share) => {
                let (t, beyond) = (share.log_other, (1.0 - share.p) / share.p);
                let (here, others) = (rise(t, length), by_others * exp(length * t));
                let sum = here * truncated_mean(length, -t) + others * (length + beyond);
                from + sum / (here + others)
            }
            AgePrior::FirstSeen { share, window } => self.first_seen_mean(share, window),
            AgePrior::Learned(curve) => {
                let end = from + length;
                let (near, far) = (curve.moment(from, end), curve.moment(end, curve.horizon()));
                let weight = near.0 + by_others * far.0;
                if weight > 0.0 { (near.1 + by_others * far.1) / weight } else { from }
            }
        }
    }

    /// Flat pieces have their mean in the middle; what falls beyond the window is geometric.
    fn first_seen_mean(&self, share: Share, window: f64) -> f64 {
        let Evidence { from, length, .. } = self.evidence;
        let cuts = [from, (from + length).min(window.max(from)), (from + length).max(window)];
        let mut sum = 0.0;
        for (start, end) in [(cuts[0], cuts[1]), (cuts[1], cuts[2])] {
            let middle = if start < window {
                (start + end - 1.0) / 2.0
            } else {
                start + truncated_mean(end - start, -share.log_other)
            };
            sum += self.between(start, end) * middle;
        }
        sum + self.between(cuts[2], f64::INFINITY) * (cuts[2] + (1.0 - share.p) / share.p)
    }

    fn mass(&self, from: f64, to: f64) -> f64 {
        self.prior.mass(self.evidence.from, from, to)
    }

    /// Prior mass times likelihood.
    fn weight(&self, from: f64, to: f64) -> f64 {
        let end = self.evidence.from + self.evidence.length;
        self.mass(from, to.min(end)) + self.evidence.by_others * self.mass(from.max(end), to)
    }
}

/// The common case, with two transcendental functions: a geometric prior and a window that ends after the block.
fn within_beyond(evidence: Evidence, share: Share, window: f64) -> Belief {
    let Evidence { from, length, by_others } = evidence;
    let t = share.log_other;
    let (block, rest) = (length * t, (window - from - length) * t);
    let (in_block, in_rest) = (-expm1(block), -expm1(rest));
    let beyond = by_others * remainder(in_block, block);
    Belief::of(in_block + beyond * in_rest, beyond * remainder(in_rest, rest))
}

/// A learned prior, looked up once for each of the three ages that matter.
fn within_learned(evidence: Evidence, curve: AgeCurve<'_>, window: f64) -> Belief {
    let end = evidence.from + evidence.length;
    let (below_from, below_end, below_window) = (curve.below(evidence.from), curve.below(end), curve.below(window));
    let masses = Masses {
        block_inside: below_window.min(below_end) - below_from,
        block_outside: (below_end - below_window).max(0.0),
        beyond_inside: (below_window - below_end).max(0.0),
        beyond_outside: 1.0 - below_end.max(below_window),
    };
    masses.weigh(evidence.by_others)
}

/// exp(x), where 1 - exp(x) is known: by subtraction while that loses nothing.
fn remainder(risen: f64, x: f64) -> f64 {
    if risen < 0.5 { 1.0 - risen } else { exp(x) }
}

/// Mean of 0..length under weights exp(-s·i): the closed form loses digits when length·s is small, the series does not.
fn truncated_mean(length: f64, s: f64) -> f64 {
    const SERIES: [f64; 6] = [
        -1.0 / 12.0,
        1.0 / 720.0,
        -1.0 / 30_240.0,
        1.0 / 1_209_600.0,
        -1.0 / 47_900_160.0,
        691.0 / 1_307_674_368_000.0,
    ];
    if length <= 0.0 {
        return 0.0;
    }
    if length * s >= 0.3 {
        return 1.0 / expm1(s) - length / expm1(length * s);
    }
    let (mut mean, mut s_power, mut length_power) = ((length - 1.0) / 2.0, s, length * length);
    for coefficient in SERIES {
        mean += coefficient * (length_power - 1.0) * s_power;
        s_power *= s * s;
        length_power *= length * length;
    }
    mean
}
