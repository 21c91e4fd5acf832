//! Decayed counts in small digits, with a shared pool of further digits for the few counts that outgrow theirs.
//!
//! With [`Carry::Each`] the values equal those of whole counters ([`super::basic`]), cell for cell. With [`Carry::All`] a
//! full digit stays as it is while another cell of the item has room: that cell is the minimum and gives the answer. This
//! needs fewer digits and never answers higher. When the pool is exhausted the cell is marked, and an item with only
//! marked cells gets a lower bound.

use super::digit_array::DigitArray;
use super::epochs::{EpochClock, EpochSpec};
use super::lost::LostIncrements;
use super::rounding::EpochFactor;
use super::{DecayedCount, minimum_count};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::cells::CellWidth;
use crate::filter::structure::layout::{CellHasher, CellLayout};
use crate::hash::Fingerprint;

pub(super) const KIND: Kind = *b"frqo";
const VERSION: u16 = 1;

/// When a full digit carries into the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// As soon as it is full.
    Each,
    /// Only if the digits of all cells of the item are full.
    All,
}

/// The shape of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigitSpec {
    /// Bits per digit: 1, 2, 4 or 8.
    pub digit_bits: u8,
    /// Fractional bits of a count.
    pub fraction_bits: u8,
    /// Further digits in the pool, shared by all cells.
    pub pool: u32,
    /// When a full digit carries.
    pub carry: Carry,
}

/// Valid parameters of the optimised method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimisedSpec {
    hasher: CellHasher,
    epochs: EpochSpec,
    form: DigitSpec,
}

impl OptimisedSpec {
    /// `hashes` cells per item, with digits as in `form`.
    pub fn new(layout: CellLayout, hashes: u8, epochs: EpochSpec, form: DigitSpec) -> Result<Self, ParameterError> {
        if ![1, 2, 4, 8].contains(&form.digit_bits) {
            let nearest = [8, 4, 2].into_iter().find(|bits| form.digit_bits > *bits).unwrap_or(1);
            return Err(ParameterError::new("digit_bits", form.digit_bits, "a digit has 1, 2, 4 or 8 bits", nearest));
        }
        check_range("fraction_bits", form.fraction_bits, 0..=16, "one observation would overflow the digits")?;
        let hasher = CellHasher::new(layout, u32::from(form.digit_bits), hashes)?;
        check_range("cells", hasher.cells(), 1..=u64::from(u32::MAX), "cells are indexed with 32 bits")?;
        let max = hasher.cells().min(u64::from(u32::MAX / 4)) as u32 * 2;
        check_range("pool", form.pool, 1..=max, "two further digits per cell are always enough")?;
        Ok(Self { hasher, epochs, form })
    }

    pub(super) fn epochs(&self) -> &EpochSpec {
        &self.epochs
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.hasher.layout().encode(writer);
        writer.raw(&[self.hasher.hashes(), self.form.digit_bits, self.form.fraction_bits]);
        writer.u8(u8::from(self.form.carry == Carry::All));
        writer.varint(u64::from(self.form.pool));
        self.epochs.encode(writer);
    }

    fn width(&self) -> CellWidth {
        CellWidth::holding((u16::MAX >> (16 - self.form.digit_bits)) as u8)
    }
}

/// Decayed counts in small digits.
///
/// ```
/// use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
/// use ebb_sketch::filter::structure::frequency::optimised::{Carry, DigitSpec, OptimisedFrequency, OptimisedSpec};
/// use ebb_sketch::{filter::structure::layout::CellLayout, hash::HashKey};
///
/// let form = DigitSpec { digit_bits: 4, fraction_bits: 0, pool: 512, carry: Carry::Each };
/// let epochs = EpochSpec::halving(60_000, 1).unwrap();
/// let mut counts = OptimisedFrequency::new(OptimisedSpec::new(CellLayout::Spread(4096), 4, epochs, form).unwrap());
/// let item = HashKey::new([7; 16]).fingerprint(b"ip");
/// (0..1000).for_each(|_| counts.add(item, 0));
/// assert!(counts.estimate(item, 0).value >= 1000.0 && counts.lost_increments() == 0);
/// ```
#[derive(Debug, Clone)]
pub struct OptimisedFrequency {
    spec: OptimisedSpec,
    epochs: EpochClock,
    digits: DigitArray,
    total: u64,
    lost: LostIncrements,
}

impl OptimisedFrequency {
    /// Empty counters.
    pub fn new(spec: OptimisedSpec) -> Self {
        let digits = DigitArray::new(spec.hasher.cells(), spec.width(), spec.form.pool);
        Self { spec, epochs: EpochClock::new(spec.epochs), digits, total: 0, lost: LostIncrements::default() }
    }

    /// Bytes of the counters.
    pub fn memory_bytes(&self) -> u64 {
        self.digits.bytes() as u64
    }

    /// Advances the clock. Earlier times have no effect.
    pub fn advance(&mut self, now_ms: i64) {
        if let Some(factor) = self.epochs.advance(now_ms) {
            self.sweep(factor);
        }
    }

    /// Counts one observation. A later time advances the clock; an earlier one counts at its own age.
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        self.advance(time_ms);
        let units = self.epochs.decayed(1 << self.spec.form.fraction_bits, time_ms);
        let cells = self.spec.hasher.cells_of(item).distinct();
        let has_room = |cell: &u64| !self.is_full(*cell, units);
        if self.spec.form.carry == Carry::All && cells.as_slice().iter().any(has_room) {
            cells.as_slice().iter().for_each(|cell| self.raise_digit(*cell, units));
        } else {
            cells.as_slice().iter().for_each(|cell| self.raise(*cell, units));
        }
        self.total = self.total.saturating_add(units);
    }

    /// The decayed count at `as_of_ms`, or at the clock if that is later.
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> DecayedCount {
        let minimum = minimum_count(&self.spec.hasher.cells_of(item), |cell| self.digits.value(cell), &self.lost);
        minimum.scaled(self.unit() * self.epochs.scale(as_of_ms))
    }

    /// The decayed count of all observations together.
    pub fn total(&self, as_of_ms: i64) -> f64 {
        self.total as f64 * self.unit() * self.epochs.scale(as_of_ms)
    }

    /// The value of a cell, in units of 2^-fraction_bits.
    pub fn cell_value(&self, cell: u64) -> u64 {
        self.digits.value(cell)
    }

    /// How often the pool had no digit left.
    pub fn lost_increments(&self) -> u64 {
        self.lost.count()
    }

    /// The largest number of pool digits ever in use.
    pub fn peak_pool_use(&self) -> u32 {
        self.digits.peak()
    }

    #[cfg(test)]
    pub(super) fn assert_consistent(&self) {
        self.digits.assert_consistent();
    }

    fn unit(&self) -> f64 {
        1.0 / f64::from(1u32 << self.spec.form.fraction_bits)
    }

    fn is_full(&self, cell: u64, units: u64) -> bool {
        self.digits.first_digit(cell) + units > self.digits.max_digit() || self.digits.is_chained(cell)
    }

    fn raise(&mut self, cell: u64, units: u64) {
        let lost = self.digits.add(cell, units);
        if lost > 0 {
            self.lost.record(cell, lost, self.spec.hasher.cells());
        }
    }

    /// Raises a cell up to its first digit: another cell of the item has room, so the item's count is below a full digit.
    fn raise_digit(&mut self, cell: u64, units: u64) {
        if !self.digits.is_chained(cell) {
            let room = self.digits.max_digit() - self.digits.first_digit(cell);
            self.raise(cell, units.min(room));
        }
    }

    fn sweep(&mut self, factor: EpochFactor) {
        self.digits.fade(factor);
        self.total = factor.apply(self.total);
        for cell in self.lost.fade(factor) {
            self.raise(cell, 1);
        }
    }

    /// Encodes parameters, clock and counters.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        let form = self.spec.form;
        self.spec.hasher.layout().encode(&mut writer);
        writer.raw(&[self.spec.hasher.hashes(), form.digit_bits, form.fraction_bits]);
        writer.u8(u8::from(form.carry == Carry::All));
        writer.varint(u64::from(form.pool));
        self.epochs.encode(&mut writer);
        writer.varint(self.total);
        self.digits.encode(&mut writer);
        self.lost.encode(&mut writer);
        writer.seal()
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let layout = CellLayout::decode(&mut reader)?;
        let (hashes, digit_bits, fraction_bits) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let carry = match reader.u8()? {
            0 => Carry::Each,
            1 => Carry::All,
            tag => return Err(CodecError::invalid("carry", format!("tag {tag}"))),
        };
        let pool = u32::try_from(reader.varint()?).unwrap_or(u32::MAX);
        let epochs = EpochClock::decode(&mut reader)?;
        let form = DigitSpec { digit_bits, fraction_bits, pool, carry };
        let spec = OptimisedSpec::new(layout, hashes, epochs.spec(), form)
            .map_err(|error| CodecError::invalid("optimised frequency", error.to_string()))?;
        let total = reader.varint()?;
        let digits = DigitArray::decode(&mut reader, spec.hasher.cells(), spec.width(), pool)?;
        let lost = LostIncrements::decode(&mut reader, spec.hasher.cells())?;
        reader.finish()?;
        Ok(Self { spec, epochs, digits, total, lost })
    }
}
