//! The posterior distribution of an item's age, given the reading of its timers.
//!
//! The likelihood ([`AgeLikelihood`]) is 0 below `from`, 1 within one block, and `collision` for every greater age ("never"
//! included). With any prior over ages, this piecewise constant function gives every answer: within a window, in a block, at
//! an age, never, expected. "Inside" and "outside" are computed separately, so that both stay precise down to a share of
//! 1e-15.
//!
//! ```
//! use ebb_sketch::filter::belief::ArrivalShare;
//! use ebb_sketch::filter::inference::posterior::{AgePrior, Posterior};
//! use ebb_sketch::filter::structure::timing::AgeLikelihood;
//!
//! // The timers allow ages from 100 arrivals on; other items produce such a reading with probability 1 %.
//! let likelihood = AgeLikelihood { from: 100.0, length: 50.0, collision: 0.01 };
//! let posterior = Posterior::new(likelihood, AgePrior::Geometric(ArrivalShare::new(0.001).unwrap()));
//! let belief = posterior.within(1000.0);
//! assert!(belief.inside > 0.8 && (belief.inside + belief.outside - 1.0).abs() < 1e-12);
//! ```

use libm::{exp, expm1};

use super::prior::AgeCurve;
use crate::filter::belief::{ArrivalShare, Belief};
use crate::filter::structure::timing::AgeLikelihood;

/// The prior over an item's age.
#[derive(Debug, Clone, Copy)]
pub enum AgePrior<'a> {
    /// Every arrival is this item with the same probability: ages are geometric.
    Geometric(ArrivalShare),
    /// Only items answered "unique" are inserted: ages are uniform within `window` and geometric beyond.
    FirstSeen {
        /// Share of arrivals that would be accepted.
        share: ArrivalShare,
        /// Length of the uniform part.
        window: f64,
    },
    /// Learned from observed ages.
    Learned(AgeCurve<'a>),
}

impl AgePrior<'_> {
    /// Prior mass of the ages `from..to` (`to` may be infinite), up to a factor that depends on `origin` only. `origin` is the
    /// smallest possible age; measuring from it avoids underflow.
    fn mass(&self, origin: f64, from: f64, to: f64) -> f64 {
        if to <= from {
            return 0.0;
        }
        match self {
            Self::Geometric(share) => {
                let t = share.log_complement();
                exp((from - origin) * t) * rise(t, to - from)
            }
            Self::FirstSeen { share, window } => {
                let (t, origin) = (share.log_complement(), (origin - window).max(0.0));
                let flat = (to.min(*window) - from.min(*window)) * share.get();
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

/// Prior mass of the four parts into which a block and a window divide the possible ages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriorMasses {
    /// In the block and the window.
    pub block_inside: f64,
    /// In the block, outside the window.
    pub block_outside: f64,
    /// Older than the block, in the window.
    pub beyond_inside: f64,
    /// Older than the block, outside the window.
    pub beyond_outside: f64,
}

impl PriorMasses {
    /// The posterior, if ages beyond the block need a collision to explain the reading.
    pub fn posterior(&self, collision: f64) -> Belief {
        let inside = self.block_inside + collision * self.beyond_inside;
        Belief::normalised(inside, self.block_outside + collision * self.beyond_outside)
    }
}

/// The posterior over an item's age.
#[derive(Debug, Clone, Copy)]
pub struct Posterior<'a> {
    likelihood: AgeLikelihood,
    prior: AgePrior<'a>,
}

impl<'a> Posterior<'a> {
    /// Combines a likelihood and a prior.
    pub fn new(likelihood: AgeLikelihood, prior: AgePrior<'a>) -> Self {
        Self { likelihood, prior }
    }

    /// The same with another collision probability.
    pub(super) fn with_collision(&self, collision: f64) -> Self {
        Self { likelihood: AgeLikelihood { collision, ..self.likelihood }, ..*self }
    }

    /// The probability that the age is below `window`, and that it is not.
    #[inline]
    pub fn within(&self, window: f64) -> Belief {
        let AgeLikelihood { from, length, collision } = self.likelihood;
        let end = from + length;
        if window <= from {
            return Belief::OUTSIDE;
        }
        match self.prior {
            AgePrior::Geometric(share) if window > end => return within_beyond(self.likelihood, share, window),
            AgePrior::Learned(_) | AgePrior::Geometric(_) | AgePrior::FirstSeen { .. } => {}
        }
        self.masses(window).posterior(collision)
    }

    /// Prior mass of the parts into which the block and a window divide the possible ages.
    #[inline]
    pub(super) fn masses(&self, window: f64) -> PriorMasses {
        let AgeLikelihood { from, length, .. } = self.likelihood;
        let end = from + length;
        if let AgePrior::Learned(curve) = self.prior {
            return learned_masses(from, end, curve, window);
        }
        PriorMasses {
            block_inside: self.mass(from, window.min(end)),
            block_outside: self.mass(window.max(from), end),
            beyond_inside: self.mass(end, window),
            beyond_outside: self.mass(window.max(end), f64::INFINITY),
        }
    }

    /// The probability of an age in `from..to`; `to` may be infinite.
    pub fn between(&self, from: f64, to: f64) -> f64 {
        let whole = self.weight(self.likelihood.from, f64::INFINITY);
        let part = self.weight(from.max(self.likelihood.from), to);
        if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
    }

    /// The probability that the age is exactly `age`.
    pub fn at_age(&self, age: f64) -> f64 {
        if age < self.likelihood.from { 0.0 } else { self.between(age, age + 1.0) }
    }

    /// The probability that the item was last seen in the block of its oldest timer.
    pub fn in_block(&self) -> f64 {
        self.between(self.likelihood.from, self.likelihood.from + self.likelihood.length)
    }

    /// The probability that it was never seen, after `arrivals` arrivals: the mass of greater ages.
    pub fn never(&self, arrivals: f64) -> f64 {
        self.between(arrivals, f64::INFINITY)
    }

    /// The mean age; with a learned prior, over the ages below its horizon.
    pub fn expected_age(&self) -> f64 {
        let AgeLikelihood { from, length, collision } = self.likelihood;
        match self.prior {
            AgePrior::Geometric(share) => {
                let (t, beyond) = (share.log_complement(), (1.0 - share.get()) / share.get());
                let (here, others) = (rise(t, length), collision * exp(length * t));
                let sum = here * truncated_mean(length, -t) + others * (length + beyond);
                from + sum / (here + others)
            }
            AgePrior::FirstSeen { share, window } => self.first_seen_mean(share, window),
            AgePrior::Learned(curve) => {
                let end = from + length;
                let (near, far) = (curve.moment(from, end), curve.moment(end, curve.horizon()));
                let weight = near.0 + collision * far.0;
                if weight > 0.0 { (near.1 + collision * far.1) / weight } else { from }
            }
        }
    }

    /// Uniform pieces have their mean in the middle; beyond the window ages are geometric.
    fn first_seen_mean(&self, share: ArrivalShare, window: f64) -> f64 {
        let AgeLikelihood { from, length, .. } = self.likelihood;
        let cuts = [from, (from + length).min(window.max(from)), (from + length).max(window)];
        let mut sum = 0.0;
        for (start, end) in [(cuts[0], cuts[1]), (cuts[1], cuts[2])] {
            let middle = if start < window {
                (start + end - 1.0) / 2.0
            } else {
                start + truncated_mean(end - start, -share.log_complement())
            };
            sum += self.between(start, end) * middle;
        }
        sum + self.between(cuts[2], f64::INFINITY) * (cuts[2] + (1.0 - share.get()) / share.get())
    }

    fn mass(&self, from: f64, to: f64) -> f64 {
        self.prior.mass(self.likelihood.from, from, to)
    }

    /// Prior mass times likelihood.
    fn weight(&self, from: f64, to: f64) -> f64 {
        let end = self.likelihood.from + self.likelihood.length;
        self.mass(from, to.min(end)) + self.likelihood.collision * self.mass(from.max(end), to)
    }
}

/// The common case, a geometric prior and a window that ends after the block, with two transcendental functions.
fn within_beyond(likelihood: AgeLikelihood, share: ArrivalShare, window: f64) -> Belief {
    let AgeLikelihood { from, length, collision } = likelihood;
    let t = share.log_complement();
    let (block, rest) = (length * t, (window - from - length) * t);
    let (in_block, in_rest) = (-expm1(block), -expm1(rest));
    let beyond = collision * complement(in_block, block);
    Belief::normalised(in_block + beyond * in_rest, beyond * complement(in_rest, rest))
}

/// A learned prior, evaluated once at each of the three ages involved.
fn learned_masses(from: f64, end: f64, curve: AgeCurve<'_>, window: f64) -> PriorMasses {
    let (below_from, below_end, below_window) = (curve.below(from), curve.below(end), curve.below(window));
    PriorMasses {
        block_inside: (below_window.min(below_end) - below_from).max(0.0),
        block_outside: (below_end - below_window.max(below_from)).max(0.0),
        beyond_inside: (below_window - below_end).max(0.0),
        beyond_outside: 1.0 - below_end.max(below_window),
    }
}

/// exp(x), given 1 - exp(x): by subtraction while that is precise.
fn complement(rise: f64, x: f64) -> f64 {
    if rise < 0.5 { 1.0 - rise } else { exp(x) }
}

/// Mean of 0..length under weights exp(-s·i). The closed form cancels if length·s is small; the series does not.
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
