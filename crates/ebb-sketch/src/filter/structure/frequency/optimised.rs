//! Decayed counts in small digits, with a shared pool of further digits for the few counts that outgrow theirs.
//!
//! With [`Carry::Each`] the values equal those of whole counters ([`super::basic`]), cell for cell. With [`Carry::All`] a
//! full digit stays as it is while another cell of the item has room: that cell is the minimum and gives the answer. This
//! needs fewer digits and never answers higher. When the pool is exhausted the cell's group is marked, and an item with
//! only marked cells gets a lower bound. [`super::digit_plan`] chooses the digits and the pool for a given memory.

use super::digit_array::{DigitArray, GROUP, MAX_DIGIT_BITS};
use super::epochs::{EpochClock, EpochSpec};
use super::lost::LostIncrements;
use super::rounding::EpochFactor;
use super::weight::ObservationWeight;
use super::{DecayedCount, minimum_count};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::layout::{CellHasher, CellLayout};
use crate::hash::Fingerprint;

pub(super) const KIND: Kind = *b"frqo";
/// Version 1 marked cells instead of groups, for digits of 1, 2, 4 or 8 bits. No plan produces such digits any more.
const VERSION: u16 = 2;
/// The largest number of cells: the key of a pool digit must fit a word.
pub(super) const MAX_CELLS: u64 = 1 << 39;
/// The most digits of the pool per cell.
pub(super) const POOL_DIGITS_PER_CELL: u64 = 2;

/// What the fields themselves take. A constant, because planned layouts depend on it and are part of plan identities.
const FIXED_BYTES: u64 = 384;
const _: () = assert!(size_of::<OptimisedFrequency>() as u64 <= FIXED_BYTES);

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
    /// Bits per digit: 1 to 16.
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
        check_range("digit_bits", form.digit_bits, 1..=MAX_DIGIT_BITS as u8, "a digit has 1 to 16 bits")?;
        check_range("fraction_bits", form.fraction_bits, 0..=16, "one observation would overflow the digits")?;
        let hasher = CellHasher::new(layout, line_bits(form.digit_bits), hashes)?;
        check_range("cells", hasher.cells(), 1..=MAX_CELLS, "a larger array is not supported")?;
        check_range("pool", form.pool, 1..=max_pool(hasher.cells()), "two further digits per cell are always enough")?;
        Ok(Self { hasher, epochs, form })
    }

    /// Where the cells of an item lie, and how many there are.
    pub fn hasher(&self) -> &CellHasher {
        &self.hasher
    }

    /// Digits and pool.
    pub fn form(&self) -> &DigitSpec {
        &self.form
    }

    /// Bytes of the counters: digits, pool, marks and fixed fields.
    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(self.hasher.cells(), &self.form)
    }

    /// When and by how much counts decay.
    pub fn epochs(&self) -> &EpochSpec {
        &self.epochs
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.encode_form(writer);
        self.epochs.encode(writer);
    }

    fn encode_form(&self, writer: &mut Writer) {
        self.hasher.layout().encode(writer);
        writer.raw(&[self.hasher.hashes(), self.form.digit_bits, self.form.fraction_bits]);
        writer.u8(u8::from(self.form.carry == Carry::All));
        writer.varint(u64::from(self.form.pool));
    }
}

/// The width of a cell for the choice of cells in a line: a line holds a power of two of them.
pub(super) fn line_bits(digit_bits: u8) -> u32 {
    u32::from(digit_bits).next_power_of_two()
}

/// The largest pool for this many cells.
pub(super) fn max_pool(cells: u64) -> u32 {
    (cells * POOL_DIGITS_PER_CELL).min(u64::from(u32::MAX / 2)) as u32
}

/// Bytes of counters with this many cells, wherever they are allocated.
pub(super) fn memory_bytes(cells: u64, form: &DigitSpec) -> u64 {
    let digits = DigitArray::bytes_for(cells, u32::from(form.digit_bits), form.pool);
    digits + LostIncrements::bytes_for(cells.div_ceil(GROUP)) + FIXED_BYTES
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
        let digits = DigitArray::new(spec.hasher.cells(), u32::from(spec.form.digit_bits), spec.form.pool);
        Self { spec, epochs: EpochClock::new(spec.epochs), digits, total: 0, lost: LostIncrements::default() }
    }

    /// Bytes of the counters: digits, pool, marks (also while there are none) and fixed fields.
    pub fn memory_bytes(&self) -> u64 {
        self.digits.bytes() + LostIncrements::bytes_for(self.groups()) + FIXED_BYTES
    }

    /// Advances the clock. Earlier times have no effect.
    pub fn advance(&mut self, now_ms: i64) {
        if let Some(factor) = self.epochs.advance(now_ms) {
            self.sweep(factor);
        }
    }

    /// Counts one observation. A later time advances the clock; an earlier one counts at its own age.
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        self.add_units(item, time_ms, 1 << self.spec.form.fraction_bits);
    }

    /// Counts an event that stands for `weight` observations, rounded up to a unit.
    pub fn add_weighted(&mut self, item: Fingerprint, time_ms: i64, weight: ObservationWeight) {
        self.add_units(item, time_ms, weight.units(self.spec.form.fraction_bits));
    }

    fn add_units(&mut self, item: Fingerprint, time_ms: i64, units: u64) {
        self.advance(time_ms);
        let units = self.epochs.decayed(units, time_ms);
        let cells = self.spec.hasher.cells_of(item).distinct();
        let has_room = || cells.as_slice().iter().any(|cell| self.has_room(*cell, units));
        if self.spec.form.carry == Carry::All && has_room() {
            cells.as_slice().iter().for_each(|cell| self.raise_digit(*cell, units));
        } else {
            cells.as_slice().iter().for_each(|cell| self.raise(*cell, units));
        }
        self.total = self.total.saturating_add(units);
    }

    /// The decayed count at `as_of_ms`, or at the clock if that is later.
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> DecayedCount {
        let cells = self.spec.hasher.cells_of(item);
        let minimum = minimum_count(&cells, |cell| self.digits.value(cell), |cell| self.lost.marks(cell / GROUP));
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

    fn groups(&self) -> u64 {
        self.spec.hasher.cells().div_ceil(GROUP)
    }

    fn unit(&self) -> f64 {
        1.0 / f64::from(1u32 << self.spec.form.fraction_bits)
    }

    /// Whether the cell bounds the count of its items, and still does so within its first digit after `units` more. A
    /// cell that lost increments bounds nothing.
    #[inline]
    fn has_room(&self, cell: u64, units: u64) -> bool {
        self.digits.first_digit(cell) + units <= self.digits.max_digit()
            && !self.lost.marks(cell / GROUP)
            && !self.digits.is_extended(cell)
    }

    fn raise(&mut self, cell: u64, units: u64) {
        let lost = self.digits.add(cell, units);
        if lost > 0 {
            self.lost.record(cell / GROUP, lost, self.groups());
        }
    }

    /// Raises a cell up to its first digit: another cell of the item has room, so the item's count is below a full digit.
    fn raise_digit(&mut self, cell: u64, units: u64) {
        if !self.digits.is_extended(cell) {
            let room = self.digits.max_digit() - self.digits.first_digit(cell);
            self.raise(cell, units.min(room));
        }
    }

    fn sweep(&mut self, factor: EpochFactor) {
        self.digits.fade(factor);
        self.total = factor.apply(self.total);
        if self.lost.fade(factor) {
            self.repair();
        }
    }

    /// Raises the cells of all marked groups by one unit. A cell that lost increments is not zero.
    fn repair(&mut self) {
        let mut start = 0;
        while let Some(group) = self.lost.take_mark(start) {
            for cell in group * GROUP..((group + 1) * GROUP).min(self.spec.hasher.cells()) {
                if self.digits.value(cell) > 0 {
                    self.raise(cell, 1);
                }
            }
            start = group + 1;
        }
    }

    /// Encodes parameters, clock and counters.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.spec.encode_form(&mut writer);
        self.epochs.encode(&mut writer);
        writer.varint(self.total);
        self.digits.encode(&mut writer);
        self.lost.encode(&mut writer);
        writer.seal()
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        if reader.version() < VERSION {
            let reason = format!("version {} is no longer read; this build reads {VERSION}", reader.version());
            return Err(CodecError::invalid("optimised frequency", reason));
        }
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
        let digits = DigitArray::decode(&mut reader, spec.hasher.cells(), u32::from(digit_bits), pool)?;
        let lost = LostIncrements::decode(&mut reader, spec.hasher.cells().div_ceil(GROUP))?;
        reader.finish()?;
        Ok(Self { spec, epochs, digits, total, lost })
    }
}
