//! An observation, what is refused of it, and the reasons a specification or a question is refused.

use super::super::qdigest::BITS_MOST;

/// Times lie within this distance of the epoch, so that ranges of time fit beside their depth.
pub const TIME_MOST_MS: i64 = 1 << 56;

/// One thing that was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    pub time_ms: i64,
    /// What sums, means, ranks and quantiles are about.
    pub value: u64,
    /// What top items are about.
    pub label: u128,
    /// How many times it counts.
    pub weight: f64,
}

/// Which weights are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightLimits {
    least: f64,
    most: f64,
}

impl WeightLimits {
    /// Above this, sums of weighted values could leave the range in which decay is computed.
    pub const MOST: f64 = 1e15;

    /// Weights from `least` (above 0) to `most`.
    pub fn new(least: f64, most: f64) -> Result<Self, ShapeError> {
        if !(least.is_finite() && least > 0.0) {
            return Err(ShapeError::NotPositive { what: "the least weight", nearest: f64::MIN_POSITIVE });
        }
        if !(least..=Self::MOST).contains(&most) {
            return Err(ShapeError::WeightMost { given: most, least, most: Self::MOST });
        }
        Ok(Self { least, most })
    }

    pub fn least(self) -> f64 {
        self.least
    }

    pub fn most(self) -> f64 {
        self.most
    }

    pub(crate) fn check(self, weight: f64) -> Result<(), Refused> {
        if (self.least..=self.most).contains(&weight) {
            Ok(())
        } else {
            Err(Refused::Weight { given: weight, least: self.least, most: self.most })
        }
    }
}

impl Default for WeightLimits {
    /// From 1 to 10^12.
    fn default() -> Self {
        Self { least: 1.0, most: 1e12 }
    }
}

/// Why an observation was not taken; nothing of it was.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refused {
    #[error("weight {given} is not a finite number from {least} to {most}")]
    Weight { given: f64, least: f64, most: f64 },
    #[error("value {given} is outside 0..={most}")]
    Value { given: u64, most: u64 },
    #[error("time {given}ms is more than {TIME_MOST_MS}ms from the epoch")]
    Time { given: i64 },
    #[error(
        "time {time_ms}ms is older than the horizon: only what is younger than {horizon_ms}ms is kept, at {now_ms}ms"
    )]
    Late { time_ms: i64, now_ms: i64, horizon_ms: u64 },
}

/// Why a structure could not be specified like this, and what would be nearest.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShapeError {
    #[error("values of {given} bits are not supported: 1 to {BITS_MOST} are, such as {nearest}")]
    Bits { given: u8, nearest: u8 },
    #[error("{what} must be at least {least} and below 1, not {given}; the nearest is {nearest}")]
    Share { what: &'static str, given: f64, least: f64, nearest: f64 },
    #[error("{what} must be a finite number above 0; the nearest is {nearest}")]
    NotPositive { what: &'static str, nearest: f64 },
    #[error("the largest weight must be from {least} to {most}, not {given}")]
    WeightMost { given: f64, least: f64, most: f64 },
    #[error("{given} counters are not supported: 1 to {most} are, such as {nearest}")]
    Counters { given: u32, most: u32, nearest: u32 },
    #[error("a horizon of {given}ms is not supported: 1ms to {most}ms are, such as {nearest}ms")]
    Horizon { given: u64, most: u64, nearest: u64 },
    #[error("{decay} does not fit this method: {why}")]
    Decay { decay: String, why: &'static str },
    #[error("{cells} cells would be needed within the horizon, {most} are allowed: a horizon of {nearest}ms fits")]
    Cells { cells: u64, most: u64, nearest: u64 },
}

impl ShapeError {
    /// A share that is useful as an error: from one in a million to below one half of everything.
    pub(crate) fn share(what: &'static str, given: f64) -> Result<f64, Self> {
        const LEAST: f64 = 1e-6;
        const MOST: f64 = 0.999;
        if (LEAST..1.0).contains(&given) {
            return Ok(given);
        }
        let nearest = if given > LEAST { MOST } else { LEAST };
        Err(Self::Share { what, given, least: LEAST, nearest })
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QuestionError {
    #[error("a window of {asked_ms}ms is wider than the horizon; ask for at most {horizon_ms}ms")]
    PastHorizon { asked_ms: u64, horizon_ms: u64 },
    #[error("a share of {phi} cannot be told from the error; ask for more than {least}")]
    PhiTooSmall { phi: f64, least: f64 },
    #[error("{0} is not a share from 0 to 1")]
    Phi(f64),
    #[error("{decay} cannot be asked here: {why}")]
    Decay { decay: String, why: String },
    #[error("under {decay} the cells are off by up to {theta}, more than the {allowed} that was asked for")]
    Undominated { decay: String, theta: f64, allowed: f64 },
    #[error("this aggregate keeps no {0}; say so where it is declared")]
    NotKept(&'static str),
    #[error("a share of weights cannot be asked here: weights are not kept, only values")]
    WeightNotKept,
    #[error("time {0}ms is too far from the epoch")]
    Time(i64),
}

/// Why two structures cannot be added.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("only structures of the same shape can be merged, and {0} differs")]
pub struct MergeError(pub &'static str);

pub(crate) fn check_time(time_ms: i64) -> Result<(), Refused> {
    if (-TIME_MOST_MS..=TIME_MOST_MS).contains(&time_ms) { Ok(()) } else { Err(Refused::Time { given: time_ms }) }
}

pub(crate) fn check_question_time(time_ms: i64) -> Result<(), QuestionError> {
    check_time(time_ms).map_err(|_| QuestionError::Time(time_ms))
}
