//! Errors of all decayed aggregates.

use super::qdigest::MAX_VALUE_BITS;

/// Why an observation was rejected. The sketch has not changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ObservationError {
    /// The weight is not a number the sketch accepts.
    #[error("weight {weight} must be within {min} and {max}")]
    Weight {
        /// The rejected weight.
        weight: f64,
        /// The smallest accepted weight.
        min: f64,
        /// The largest accepted weight.
        max: f64,
    },
    /// The value is above the domain of the sketch.
    #[error("value {value} must be within 0 and {max}")]
    Value {
        /// The rejected value.
        value: u64,
        /// The largest accepted value.
        max: u64,
    },
    /// The amount is not a number the sketch accepts.
    #[error("amount {amount} must be 0, or a finite number of at least {min}")]
    Amount {
        /// The rejected amount.
        amount: f64,
        /// The smallest accepted amount above 0.
        min: f64,
    },
    /// The time is too far from the epoch.
    #[error("time {time_ms}ms must be within {max_ms}ms of the epoch")]
    Time {
        /// The rejected time.
        time_ms: i64,
        /// The largest accepted distance from the epoch.
        max_ms: i64,
    },
    /// The observation was already outside the horizon when it arrived.
    #[error("time {time_ms}ms is outside the horizon of {horizon_ms}ms before {now_ms}ms")]
    Late {
        /// The rejected time.
        time_ms: i64,
        /// The newest observed time.
        now_ms: i64,
        /// How far back the sketch reaches.
        horizon_ms: u64,
    },
}

/// Why a sketch cannot be built with these parameters. Where there is one, `nearest` is the nearest valid parameter.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShapeError {
    /// The domain of values has an unsupported size.
    #[error("values of {bits} bits are not supported: use 1 to {MAX_VALUE_BITS} bits, for example {nearest}")]
    Bits {
        /// The requested bits.
        bits: u8,
        /// The nearest valid number of bits.
        nearest: u8,
    },
    /// An error bound is out of range.
    #[error("{parameter} {value} must be at least {min} and below 1; the nearest valid value is {nearest}")]
    Share {
        /// The name of the parameter.
        parameter: &'static str,
        /// The requested value.
        value: f64,
        /// The smallest valid value.
        min: f64,
        /// The nearest valid value.
        nearest: f64,
    },
    /// A parameter must be a finite number above zero.
    #[error("{parameter} must be a finite number above 0; the nearest valid value is {nearest}")]
    NotPositive {
        /// The name of the parameter.
        parameter: &'static str,
        /// The nearest valid value.
        nearest: f64,
    },
    /// The largest weight is out of range.
    #[error("the maximum weight {weight} must be within {min} and {max}")]
    MaxWeight {
        /// The requested maximum.
        weight: f64,
        /// The smallest valid maximum.
        min: f64,
        /// The largest valid maximum.
        max: f64,
    },
    /// The number of label counters is out of range.
    #[error("{counters} counters are not supported: use 1 to {max}, for example {nearest}")]
    Counters {
        /// The requested number.
        counters: u32,
        /// The largest valid number.
        max: u32,
        /// The nearest valid number.
        nearest: u32,
    },
    /// The horizon is out of range.
    #[error("horizon {horizon_ms}ms must be within 1ms and {max_ms}ms; the nearest valid horizon is {nearest_ms}ms")]
    Horizon {
        /// The requested horizon.
        horizon_ms: u64,
        /// The longest valid horizon.
        max_ms: u64,
        /// The nearest valid horizon.
        nearest_ms: u64,
    },
    /// The method does not support the decay.
    #[error("decay {decay} does not fit this method: {reason}")]
    Decay {
        /// The requested decay.
        decay: String,
        /// Which decays fit.
        reason: &'static str,
    },
    /// The horizon would need too many cells.
    #[error("the horizon needs {cells} cells, at most {max} are allowed; a horizon of {nearest_ms}ms fits")]
    Cells {
        /// Cells within the requested horizon.
        cells: u64,
        /// The most cells allowed.
        max: u64,
        /// The longest horizon that fits.
        nearest_ms: u64,
    },
}

impl ShapeError {
    /// Accepts a usable error bound: from one in a million to below one.
    pub(crate) fn check_share(parameter: &'static str, value: f64) -> Result<f64, Self> {
        const MIN: f64 = 1e-6;
        const MAX: f64 = 0.999;
        if (MIN..1.0).contains(&value) {
            return Ok(value);
        }
        let nearest = if value > MIN { MAX } else { MIN };
        Err(Self::Share { parameter, value, min: MIN, nearest })
    }

    /// Accepts a horizon from one millisecond to `max_ms`.
    pub(crate) fn check_horizon(horizon_ms: u64, max_ms: u64) -> Result<(), Self> {
        if (1..=max_ms).contains(&horizon_ms) {
            return Ok(());
        }
        Err(Self::Horizon { horizon_ms, max_ms, nearest_ms: horizon_ms.clamp(1, max_ms) })
    }
}

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QueryError {
    /// The window is longer than the sketch remembers.
    #[error("window {window_ms}ms is longer than the horizon; query at most {horizon_ms}ms")]
    WindowBeyondHorizon {
        /// The requested window.
        window_ms: u64,
        /// How far back the sketch reaches.
        horizon_ms: u64,
    },
    /// The query time is before everything the sketch still remembers.
    #[error("observations up to {floor_ms}ms have expired; query as of {floor_ms}ms or later")]
    Expired {
        /// The earliest time that can be queried.
        floor_ms: i64,
    },
    /// The query time is too far from the epoch.
    #[error("time {time_ms}ms is too far from the epoch")]
    Time {
        /// The requested time.
        time_ms: i64,
    },
    /// The share is not between 0 and 1.
    #[error("phi {phi} must be within 0 and 1")]
    Phi {
        /// The requested share.
        phi: f64,
    },
    /// The share is not above the error of the sketch.
    #[error("phi {phi} is within the error of the sketch; ask for more than {min}")]
    PhiTooSmall {
        /// The requested share.
        phi: f64,
        /// The error of the sketch.
        min: f64,
    },
    /// The sketch was built for another decay.
    #[error("decay {decay} cannot be queried: {reason}")]
    Decay {
        /// The requested decay.
        decay: String,
        /// Which decay can be queried.
        reason: String,
    },
    /// The decay varies more within the cells than the caller accepts.
    #[error("decay {decay} varies by up to {theta} within a cell, more than the accepted {max_theta}")]
    CellsTooWide {
        /// The requested decay.
        decay: String,
        /// By how much it varies.
        theta: f64,
        /// By how much it may vary.
        max_theta: f64,
    },
    /// The sketch does not keep what the query needs.
    #[error("the sketch keeps no {0}")]
    NotKept(&'static str),
    /// The predicate compares weights, and the sketch keeps values only.
    #[error("weights are not kept; compare values only")]
    WeightNotKept,
}

/// Why two sketches or readings were not merged. Neither has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The sketches were built differently.
    #[error("cannot merge sketches of different {0}")]
    Different(&'static str),
    /// The method does not merge.
    #[error("{0} sketches do not merge; merge their readings instead")]
    Unsupported(&'static str),
    /// Samples are not additive.
    #[error("readings of samples do not merge; merge the sketches instead")]
    SampleReading,
}
