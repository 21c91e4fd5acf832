//! How many observations an event stands for.

use crate::filter::parameter::{ParameterError, check_range};

/// The weight of an event: a number from 0 to 2^40, whole or not.
///
/// ```
/// use ebb_sketch::filter::structure::frequency::ObservationWeight;
///
/// assert!(ObservationWeight::new(2.5).is_ok() && ObservationWeight::new(-1.0).is_err());
/// assert!(ObservationWeight::new(f64::NAN).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObservationWeight(f64);

impl ObservationWeight {
    /// One observation.
    pub const ONE: Self = Self(1.0);
    /// The largest weight: with 16 fractional bits it still fits a 64-bit sum.
    pub const MAX: f64 = (1u64 << 40) as f64;

    /// An event that stands for `weight` observations.
    pub fn new(weight: f64) -> Result<Self, ParameterError> {
        check_range("weight", weight, 0.0..=Self::MAX, "an event stands for 0 to 2^40 observations").map(Self)
    }

    /// In units of 2^-fraction_bits, rounded up.
    pub(super) fn units(self, fraction_bits: u8) -> u64 {
        libm::ceil(self.0 * f64::from(1u32 << fraction_bits)) as u64
    }

    /// At least the product with `power` ≥ 0; exactly `power` for one observation.
    #[inline]
    pub(super) fn times_up(self, power: f64) -> f64 {
        match self.0 {
            1.0 => power,
            0.0 => 0.0,
            weight => (weight * power).next_up(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_rounded_up_and_never_down() {
        let weight = |weight| ObservationWeight::new(weight).unwrap();
        assert_eq!([0.0, 0.001, 1.0, 2.5, 1e12].map(|w| weight(w).units(0)), [0, 1, 1, 3, 1_000_000_000_000]);
        assert_eq!([0.0, 0.001, 1.0, 2.5].map(|w| weight(w).units(8)), [0, 1, 256, 640]);
        assert!(weight(0.1).times_up(3.0) >= 0.3 && weight(0.1).times_up(3.0) < 0.300_000_000_001);
        assert_eq!((weight(0.0).times_up(3.0), ObservationWeight::ONE.times_up(0.3)), (0.0, 0.3));
        assert!(weight(f64::from_bits(1)).times_up(1e-300) > 0.0, "the product underflows");
    }

    #[test]
    fn invalid_weights_report_the_nearest_valid_value() {
        for (weight, nearest) in [(-0.5, "0"), (f64::NAN, "0"), (f64::INFINITY, "1099511627776")] {
            assert_eq!(ObservationWeight::new(weight).unwrap_err().nearest, nearest);
        }
    }
}
