//! Observations and the limits on their weights.

use super::error::{ObservationError, QueryError, ShapeError};

/// Times must lie within this distance of the epoch, so that a time range and its depth fit into 64 bits.
pub const MAX_TIME_MS: i64 = 1 << 56;

/// One observed event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Event time.
    pub time_ms: i64,
    /// Subject of sums, means, ranks and quantiles.
    pub value: u64,
    /// Subject of heavy hitters.
    pub label: u128,
    /// How many times the observation counts.
    pub weight: f64,
}

/// The range of accepted weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightLimits {
    min: f64,
    max: f64,
}

impl WeightLimits {
    /// Above this, sums of weighted values could overflow the range in which decay is computed.
    pub const MAX: f64 = 1e15;

    /// Weights from `min` (above 0) to `max`.
    pub fn new(min: f64, max: f64) -> Result<Self, ShapeError> {
        if !(min.is_finite() && min > 0.0) {
            return Err(ShapeError::NotPositive { parameter: "the minimum weight", nearest: f64::MIN_POSITIVE });
        }
        if !(min..=Self::MAX).contains(&max) {
            return Err(ShapeError::MaxWeight { weight: max, min, max: Self::MAX });
        }
        Ok(Self { min, max })
    }

    /// The smallest accepted weight.
    pub fn min(self) -> f64 {
        self.min
    }

    /// The largest accepted weight.
    pub fn max(self) -> f64 {
        self.max
    }

    pub(crate) fn check(self, weight: f64) -> Result<(), ObservationError> {
        if (self.min..=self.max).contains(&weight) {
            Ok(())
        } else {
            Err(ObservationError::Weight { weight, min: self.min, max: self.max })
        }
    }
}

impl Default for WeightLimits {
    /// From 1 to 10^12.
    fn default() -> Self {
        Self { min: 1.0, max: 1e12 }
    }
}

pub(crate) fn check_time(time_ms: i64) -> Result<(), ObservationError> {
    if (-MAX_TIME_MS..=MAX_TIME_MS).contains(&time_ms) {
        Ok(())
    } else {
        Err(ObservationError::Time { time_ms, max_ms: MAX_TIME_MS })
    }
}

pub(crate) fn check_query_time(time_ms: i64) -> Result<(), QueryError> {
    check_time(time_ms).map_err(|_| QueryError::Time { time_ms })
}
