//! Chooses the digits of the optimised method for a given memory, which is a hard bound.
//!
//! - Fractional bits: the fewest that keep what rounding adds to a count below [`MAX_ROUNDING_EXCESS`].
//! - Digit bits: six more, so that counts up to 63 need one digit. Cheaper digits would fill the pool under load, wider
//!   ones cost more than the pool digits that they avoid.
//! - Pool: one digit for every [`CELLS_PER_POOL_DIGIT`] cells, and what is left of the memory.
//!
//! A digit always holds one observation and what rounding leaves of an idle count for ever. Otherwise every first sighting
//! would take digits from the pool, or never return them.

use super::epochs::EpochSpec;
use super::optimised::{
    Carry, DigitSpec, MAX_CELLS, OptimisedSpec, POOL_DIGITS_PER_CELL, line_bits, max_pool, memory_bytes,
};
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::layout::CellLayout;
use crate::units::Bytes;

/// The most that rounding may add to a count, unless `fraction_bits` is given.
pub const MAX_ROUNDING_EXCESS: f64 = 0.1;
/// Cells per digit of the pool, unless `pool` is given.
pub const CELLS_PER_POOL_DIGIT: u64 = 28;
/// Bits of a digit above the fraction, unless `digit_bits` is given.
const INTEGER_BITS: u8 = 6;
const MAX_DIGIT_BITS: u8 = super::digit_array::MAX_DIGIT_BITS as u8;
/// More planned fractional bits would leave too few integer bits in a digit.
const MAX_PLANNED_FRACTION_BITS: u8 = 12;

/// What is given about the digits; the rest is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigitChoice {
    /// Bits per digit.
    pub digit_bits: Option<u8>,
    /// Fractional bits of a count.
    pub fraction_bits: Option<u8>,
    /// Digits in the pool.
    pub pool: Option<u32>,
    /// When a full digit carries.
    pub carry: Carry,
}

impl DigitChoice {
    /// Everything is planned.
    pub fn planned(carry: Carry) -> Self {
        Self { digit_bits: None, fraction_bits: None, pool: None, carry }
    }
}

impl OptimisedSpec {
    /// As many cells as fit into `bytes` together with their pool, the cells of an item in one line.
    ///
    /// ```
    /// use ebb_sketch::filter::structure::frequency::digit_plan::DigitChoice;
    /// use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
    /// use ebb_sketch::filter::structure::frequency::optimised::{Carry, OptimisedSpec};
    ///
    /// let epochs = EpochSpec::halving(3_600_000, 16).unwrap();
    /// let spec = OptimisedSpec::in_memory(1 << 20, 4, epochs, DigitChoice::planned(Carry::Each)).unwrap();
    /// assert_eq!((spec.form().digit_bits, spec.form().fraction_bits), (14, 8));
    /// // Whole counters would need four bytes per cell.
    /// assert!(spec.memory_bytes() <= 1 << 20 && spec.hasher().cells() * 4 > 2 << 20);
    /// ```
    pub fn in_memory(bytes: u64, hashes: u8, epochs: EpochSpec, choice: DigitChoice) -> Result<Self, ParameterError> {
        let (digit_bits, fraction_bits) = digits(&epochs, &choice)?;
        let room = MemoryPlan {
            bytes,
            cells_per_line: 512 / u64::from(line_bits(digit_bits)),
            pool: choice.pool,
            form: DigitSpec { digit_bits, fraction_bits, pool: 0, carry: choice.carry },
        };
        let (lines, pool) = room.lines_and_pool()?;
        Self::new(CellLayout::Lines(lines), hashes, epochs, DigitSpec { pool, ..room.form })
    }
}

/// Bits per digit, and how many of them are fractional.
fn digits(epochs: &EpochSpec, choice: &DigitChoice) -> Result<(u8, u8), ParameterError> {
    let planned = (0..MAX_PLANNED_FRACTION_BITS).find(|bits| epochs.rounding_excess(*bits) <= MAX_ROUNDING_EXCESS);
    let fraction_bits = choice.fraction_bits.unwrap_or(planned.unwrap_or(MAX_PLANNED_FRACTION_BITS));
    check_range(
        "fraction_bits",
        fraction_bits,
        0..=MAX_DIGIT_BITS - 1,
        "a digit of 16 bits must hold one observation",
    )?;
    let idle = idle_bits(epochs);
    if idle > MAX_DIGIT_BITS {
        let nearest = shortest_epoch_ms(epochs);
        let reason = "with so many sweeps per half-life rounding alone raises counts above a digit";
        return Err(ParameterError::new("epoch", epochs.epoch_ms(), reason, nearest));
    }
    let min = (fraction_bits + 1).max(idle);
    let digit_bits = choice.digit_bits.unwrap_or((fraction_bits + INTEGER_BITS).clamp(min, MAX_DIGIT_BITS));
    let reason = format!(
        "with {fraction_bits} fractional bits one observation needs {} bits, and rounding keeps {idle} bits of an idle count",
        fraction_bits + 1
    );
    check_range("digit_bits", digit_bits, min..=MAX_DIGIT_BITS, &reason)?;
    Ok((digit_bits, fraction_bits))
}

/// Bits of the largest value that rounding up keeps for ever: the largest integer below 1 / (1 − λ).
fn idle_bits(epochs: &EpochSpec) -> u8 {
    let units = epochs.rounding_excess(0) as u64;
    (u64::BITS - units.leading_zeros()) as u8
}

/// The shortest epoch whose idle counts fit a digit of 16 bits.
fn shortest_epoch_ms(epochs: &EpochSpec) -> u64 {
    let max_factor = 1.0 - 1.0 / f64::from(u16::MAX);
    libm::ceil(epochs.half_life_ms() as f64 * -libm::log2(max_factor)) as u64
}

/// The memory that lines and pool share.
struct MemoryPlan {
    bytes: u64,
    cells_per_line: u64,
    /// Digits of the pool, if they are given.
    pool: Option<u32>,
    form: DigitSpec,
}

impl MemoryPlan {
    fn lines_and_pool(&self) -> Result<(u64, u32), ParameterError> {
        let max_lines = (MAX_CELLS / self.cells_per_line).min(self.bytes);
        let lines = largest(max_lines, |lines| self.fits(lines, self.smallest_pool(lines)));
        let least = self.least_lines();
        if lines < least {
            let (cells, pool) = (self.cells(least), self.smallest_pool(least));
            let reason = format!("a pool of {pool} digits and the {cells} counters that can use it do not fit");
            return Err(ParameterError::new("memory", Bytes(self.bytes), reason, Bytes(self.memory(least, pool))));
        }
        let largest_pool = || largest(u64::from(max_pool(self.cells(lines))), |pool| self.fits(lines, pool as u32));
        Ok((lines, self.pool.unwrap_or_else(|| largest_pool() as u32)))
    }

    /// The fewest lines whose cells can use the whole pool.
    fn least_lines(&self) -> u64 {
        let pool = u64::from(self.pool.unwrap_or(1));
        pool.div_ceil(POOL_DIGITS_PER_CELL * self.cells_per_line)
    }

    fn cells(&self, lines: u64) -> u64 {
        lines * self.cells_per_line
    }

    fn smallest_pool(&self, lines: u64) -> u32 {
        let planned = || (self.cells(lines) / CELLS_PER_POOL_DIGIT).clamp(1, u64::from(max_pool(self.cells(lines))));
        self.pool.unwrap_or_else(|| planned() as u32)
    }

    fn memory(&self, lines: u64, pool: u32) -> u64 {
        memory_bytes(self.cells(lines), &DigitSpec { pool, ..self.form })
    }

    fn fits(&self, lines: u64, pool: u32) -> bool {
        self.memory(lines, pool) <= self.bytes
    }
}

/// The largest number up to `max` that fits, given that all smaller ones do; 0 if none does.
fn largest(max: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, max);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::parse_bytes;

    #[test]
    fn too_little_memory_is_refused_with_the_least_that_suffices() {
        let epochs = EpochSpec::halving(1_000, 2).unwrap();
        let choice = DigitChoice { pool: Some(1_000), ..DigitChoice::planned(Carry::Each) };
        let error = OptimisedSpec::in_memory(1_024, 4, epochs, choice).unwrap_err();
        assert_eq!((error.name, error.requested.as_str()), ("memory", "1KiB"));
        let least = parse_bytes(&error.nearest).unwrap();
        assert_eq!(OptimisedSpec::in_memory(least, 4, epochs, choice).unwrap().memory_bytes(), least);
        assert!(OptimisedSpec::in_memory(least - 1, 4, epochs, choice).is_err());
    }
}
