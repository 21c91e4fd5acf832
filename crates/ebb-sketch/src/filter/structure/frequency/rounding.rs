//! Arithmetic that never rounds a count down.
//!
//! A count may be too high, never too low, so every operation on the way to an answer rounds up: powers of two
//! ([`power_up`]), sums ([`add_up`]), and the decay of integer counters ([`EpochFactor`]).

use crate::filter::parameter::{ParameterError, check_range};

/// Relative margin added to a power, per unit of its exponent and once more.
const MARGIN: f64 = 1.0 / (1u64 << 50) as f64;

/// At least 2^exponent, and exactly 1 for exponent 0. Positive and finite for every finite exponent.
///
/// `exponent` may be a rounded quotient: an error of |exponent| · 2^-52 changes the power by a factor of
/// 1 + |exponent| · 2^-52; `exp2` and the product add less than 2^-51. The margin covers both four times, and `next_up`
/// covers subnormal powers.
pub fn power_up(exponent: f64) -> f64 {
    if exponent == 0.0 {
        return 1.0;
    }
    let power = libm::exp2(exponent) * (1.0 + MARGIN * (1.0 + exponent.abs()));
    power.next_up().min(f64::MAX)
}

/// At least 2^-exponent, from `power` = power_up(exponent); exactly 1 for exponent 0.
///
/// `power` exceeds the true power by at most twice its margin, so a quotient enlarged by four times the margin is not below
/// the true one. `power` must be far from both ends of the range.
pub fn inverse_up(power: f64, exponent: f64) -> f64 {
    if exponent == 0.0 { 1.0 } else { 1.0 / power * (1.0 + 4.0 * MARGIN * (1.0 + exponent.abs())) }
}

/// At least a + b, for a, b ≥ 0; exactly that where it can be represented.
///
/// The sum is rounded to nearest. Subtracting the larger operand from it is exact (Dekker), so the comparison shows whether
/// it was rounded down.
#[inline]
pub fn add_up(a: f64, b: f64) -> f64 {
    let (large, small) = if a >= b { (a, b) } else { (b, a) };
    let sum = large + small;
    // The next larger number has the next bit pattern. Branch-free, because the outcome cannot be predicted.
    f64::from_bits(sum.to_bits() + u64::from(sum - large < small))
}

/// The factor λ by which a counter decays over an epoch, in units of 2^-48, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochFactor(u64);

const PARTS_LOG: u32 = 48;

impl EpochFactor {
    const ONE: Self = Self(1 << PARTS_LOG);

    pub fn new(share: f64) -> Result<Self, ParameterError> {
        check_range("the decay factor", share, 1e-6..=1.0 - 1e-9, "counters must decay, but not to nothing at once")?;
        Ok(Self(libm::ceil(share * (1u64 << PARTS_LOG) as f64) as u64))
    }

    pub fn parts(self) -> u64 {
        self.0
    }

    pub fn share(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }

    /// At least λ^epochs.
    pub fn power(self, mut epochs: u64) -> Self {
        let (mut product, mut power) = (Self::ONE, self);
        while epochs > 0 {
            if epochs & 1 == 1 {
                product = Self(product.apply(power.0));
            }
            power = Self(power.apply(power.0));
            epochs >>= 1;
        }
        product
    }

    /// ⌈λ · digit⌉ for a digit of at most 16 bits.
    #[inline]
    pub fn apply_digit(self, digit: u64) -> u64 {
        // At most 2^48 · (2^16 − 1) + 2^48 − 1, which fits.
        (self.0 * digit + (1 << PARTS_LOG) - 1) >> PARTS_LOG
    }

    /// ⌈λ · value⌉. A non-zero value never becomes zero.
    #[inline]
    pub fn apply(self, value: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(value);
        ((product + (1 << PARTS_LOG) - 1) >> PARTS_LOG) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn powers_are_exact_at_zero_and_finite_everywhere() {
        assert_eq!(power_up(0.0), 1.0);
        for exponent in [-1e300, -1100.0, -1074.0, 1100.0, 1e300] {
            let power = power_up(exponent);
            assert!(power > 0.0 && power.is_finite(), "{exponent}: {power}");
        }
        assert!(power_up(1.0) >= 2.0 && power_up(1.0) < 2.0 * (1.0 + 1e-14));
    }

    #[test]
    fn dyadic_factors_are_exact() {
        let three_quarters = EpochFactor::new(0.75).unwrap();
        assert_eq!([0, 1, 2, 3, 4, 5, 100].map(|value| three_quarters.apply(value)), [0, 1, 2, 3, 3, 4, 75]);
        assert_eq!(three_quarters.power(2), EpochFactor::new(0.5625).unwrap());
        assert_eq!(three_quarters.power(0).apply(u64::MAX), u64::MAX);
        assert_eq!(three_quarters.power(u64::MAX).apply(1 << 40), 1);
        for share in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(EpochFactor::new(share).is_err(), "{share}");
        }
    }

    proptest! {
        #[test]
        fn sums_are_never_rounded_down(a in 0u64..1 << 60, b in 0u64..1 << 60) {
            let (x, y) = (a as f64, b as f64);
            prop_assert!(add_up(x, y) as u128 >= x as u128 + y as u128);
            prop_assert!(add_up(x, y) <= (x + y).next_up());
        }

        #[test]
        fn decay_is_never_rounded_down(share in 1e-6f64..0.999, value in 0u64..1 << 40, epochs in 1u64..50) {
            let factor = EpochFactor::new(share).unwrap();
            prop_assert!(factor.apply(value) as f64 >= share * value as f64 * (1.0 - 1e-15));
            prop_assert!(factor.apply(value) as f64 <= share * value as f64 + 1.01);
            prop_assert_eq!(factor.apply_digit(value & 0xffff), factor.apply(value & 0xffff));
            let exact = libm::pow(share, epochs as f64);
            prop_assert!(factor.power(epochs).0 as f64 >= exact * (1u64 << PARTS_LOG) as f64 * (1.0 - 1e-13));
        }

        #[test]
        fn powers_of_two_are_never_rounded_down(whole in -900i32..900, elapsed in 0u64..1 << 40, span in 1u64..1 << 40) {
            // The integer part of the exponent is applied exactly.
            let fraction = (elapsed % span) as f64 / span as f64;
            let exponent = f64::from(whole) + fraction;
            let apart = libm::ldexp(libm::exp2(exponent - f64::from(whole)), whole);
            prop_assert!(power_up(exponent) >= apart);
            prop_assert!(power_up(exponent) <= apart * (1.0 + 2e-12));
            let inverse = inverse_up(power_up(exponent), exponent);
            let apart = libm::ldexp(libm::exp2(f64::from(whole) - exponent), -whole);
            prop_assert!(inverse >= apart && inverse <= apart * (1.0 + 1e-11));
        }
    }
}
