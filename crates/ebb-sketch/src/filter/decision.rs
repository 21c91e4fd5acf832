//! The answer that costs less if it is wrong.

use thiserror::Error;

use super::posterior::Belief;

/// What wrong answers cost: finite and not negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalties {
    false_duplicate: f64,
    missed_duplicate: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("the penalty for a {what} must be finite and not negative, not {given}; the nearest is {nearest}")]
pub struct PenaltyError {
    pub what: &'static str,
    pub given: f64,
    pub nearest: f64,
}

fn penalty(what: &'static str, given: f64) -> Result<f64, PenaltyError> {
    match given {
        _ if given.is_finite() && given >= 0.0 => Ok(given),
        f64::INFINITY => Err(PenaltyError { what, given, nearest: f64::MAX }),
        _ => Err(PenaltyError { what, given, nearest: 0.0 }),
    }
}

impl Penalties {
    /// `false_duplicate`: a first sighting called a duplicate; `missed_duplicate`: a repeat called unique.
    pub fn new(false_duplicate: f64, missed_duplicate: f64) -> Result<Self, PenaltyError> {
        Ok(Self {
            false_duplicate: penalty("false duplicate", false_duplicate)?,
            missed_duplicate: penalty("missed duplicate", missed_duplicate)?,
        })
    }

    pub fn false_duplicate(&self) -> f64 {
        self.false_duplicate
    }

    pub fn missed_duplicate(&self) -> f64 {
        self.missed_duplicate
    }

    /// What to answer; equal expectations are answered "duplicate".
    pub fn decide(&self, belief: &Belief) -> Decision {
        let if_duplicate = self.false_duplicate * belief.outside;
        let if_unique = self.missed_duplicate * belief.inside;
        Decision { duplicate: if_duplicate <= if_unique, if_duplicate, if_unique }
    }
}

/// An answer, with what is expected of either.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    pub duplicate: bool,
    /// Expected penalty of answering "duplicate".
    pub if_duplicate: f64,
    /// Expected penalty of answering "unique".
    pub if_unique: f64,
}
