//! The two numbers that inference starts from and ends with: an item's share of arrivals, and the belief that it was seen.

use thiserror::Error;

/// Smaller shares cannot be told from "never" in double precision.
pub const MIN_SHARE: f64 = 1e-15;

/// The fraction of arrivals that one item accounts for: above 0 and below 1.
///
/// ```
/// use ebb_sketch::filter::belief::ArrivalShare;
///
/// let share = ArrivalShare::new(1e-6).unwrap();
/// assert_eq!(share.get(), 1e-6);
/// assert!(ArrivalShare::new(1.0).unwrap_err().to_string().contains("between 0 and 1"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalShare {
    p: f64,
    log_complement: f64,
}

/// The share is not between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error("a share of arrivals must lie between 0 and 1, not {requested}; the nearest is {nearest}")]
pub struct ArrivalShareError {
    /// The rejected value.
    pub requested: f64,
    /// The closest valid share.
    pub nearest: f64,
}

impl ArrivalShare {
    /// Shares below [`MIN_SHARE`] are raised to it.
    pub fn new(p: f64) -> Result<Self, ArrivalShareError> {
        if p > 0.0 && p < 1.0 {
            let p = p.max(MIN_SHARE);
            return Ok(Self { p, log_complement: libm::log1p(-p) });
        }
        let nearest = if p >= 1.0 { 1.0 - f64::EPSILON } else { MIN_SHARE };
        Err(ArrivalShareError { requested: p, nearest })
    }

    /// The share itself.
    #[inline]
    pub fn get(self) -> f64 {
        self.p
    }

    /// ln(1 - share): the log-probability that one arrival is another item.
    #[inline]
    pub fn log_complement(self) -> f64 {
        self.log_complement
    }
}

/// The probabilities that an item was, and was not, seen within the window.
///
/// Both are computed separately, so that the smaller one keeps its precision; they sum to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Belief {
    /// Probability that the item was seen within the window.
    pub inside: f64,
    /// Probability that it was not.
    pub outside: f64,
}

impl Belief {
    /// Certainty that the item was not seen within the window.
    pub const OUTSIDE: Self = Self { inside: 0.0, outside: 1.0 };

    /// Scales two weights to sum to 1. Two zero weights, which only an impossible prior produces, give [`Belief::OUTSIDE`].
    #[inline]
    pub fn normalised(inside: f64, outside: f64) -> Self {
        let scale = 1.0 / (inside + outside);
        if scale.is_finite() { Self { inside: inside * scale, outside: outside * scale } } else { Self::OUTSIDE }
    }
}
