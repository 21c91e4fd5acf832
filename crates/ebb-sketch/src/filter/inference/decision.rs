//! The answer with the smaller expected penalty.

use thiserror::Error;

use crate::filter::belief::Belief;

/// The costs of wrong answers: finite and not negative.
///
/// ```
/// use ebb_sketch::filter::{belief::Belief, inference::decision::Penalties};
///
/// // Losing a good click costs 1.0, paying for a repeat costs 0.05.
/// let penalties = Penalties::new(1.0, 0.05).unwrap();
/// let decision = penalties.decide(&Belief { inside: 0.9, outside: 0.1 });
/// assert!(!decision.duplicate && decision.if_unique < decision.if_duplicate);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    false_duplicate: f64,
    missed_duplicate: f64,
}

/// A penalty that is negative or not finite.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("the penalty for a {name} must be finite and not negative, not {requested}; the nearest is {nearest}")]
pub struct PenaltyError {
    /// "false duplicate" or "missed duplicate".
    pub name: &'static str,
    /// The rejected value.
    pub requested: f64,
    /// The closest valid value.
    pub nearest: f64,
}

fn penalty(name: &'static str, requested: f64) -> Result<f64, PenaltyError> {
    match requested {
        _ if requested.is_finite() && requested >= 0.0 => Ok(requested),
        f64::INFINITY => Err(PenaltyError { name, requested, nearest: f64::MAX }),
        _ => Err(PenaltyError { name, requested, nearest: 0.0 }),
    }
}

impl Penalties {
    /// `false_duplicate`: a first sighting is reported as a duplicate; `missed_duplicate`: a repeat is reported as unique.
    pub fn new(false_duplicate: f64, missed_duplicate: f64) -> Result<Self, PenaltyError> {
        Ok(Self {
            false_duplicate: penalty("false duplicate", false_duplicate)?,
            missed_duplicate: penalty("missed duplicate", missed_duplicate)?,
        })
    }

    /// The cost of reporting a first sighting as a duplicate.
    pub fn false_duplicate(&self) -> f64 {
        self.false_duplicate
    }

    /// The cost of reporting a repeat as unique.
    pub fn missed_duplicate(&self) -> f64 {
        self.missed_duplicate
    }

    /// The answer with the smaller expected penalty; a tie is a duplicate.
    pub fn decide(&self, belief: &Belief) -> Decision {
        let if_duplicate = self.false_duplicate * belief.outside;
        let if_unique = self.missed_duplicate * belief.inside;
        Decision { duplicate: if_duplicate <= if_unique, if_duplicate, if_unique }
    }
}

/// An answer, with the expected penalty of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Whether to answer "duplicate".
    pub duplicate: bool,
    /// Expected penalty of answering "duplicate".
    pub if_duplicate: f64,
    /// Expected penalty of answering "unique".
    pub if_unique: f64,
}
