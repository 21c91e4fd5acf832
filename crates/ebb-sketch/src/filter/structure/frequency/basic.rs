//! Decayed counts in 32-bit fixed-point counters, all of which are swept when an epoch ends.
//!
//! The paper's basic method, with `fraction_bits` fractional bits and every decay rounded up: a counter is never too low,
//! and rounding makes it too high by less than 2^-fraction_bits / (1 − λ). A counter that overflows is marked, and an item
//! with only marked cells gets a lower bound. Every epoch costs a pass over all counters; [`super::forward`] does not.

use super::epochs::{EpochClock, EpochSpec};
use super::lost::LostIncrements;
use super::rounding::EpochFactor;
use super::weight::ObservationWeight;
use super::{DecayedCount, minimum_count};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::cells::CellMemory;
use crate::filter::structure::cells::words::{get_u32, put_u32};
use crate::filter::structure::layout::{CellHasher, CellLayout};
use crate::hash::Fingerprint;

pub(super) const KIND: Kind = *b"frqb";
const VERSION: u16 = 1;

/// The most fractional bits of a counter.
pub const MAX_FRACTION_BITS: u8 = 16;

/// Valid parameters of the basic method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BasicSpec {
    hasher: CellHasher,
    epochs: EpochSpec,
    fraction_bits: u8,
}

impl BasicSpec {
    /// `hashes` counters per item, with `fraction_bits` fractional bits each.
    pub fn new(layout: CellLayout, hashes: u8, epochs: EpochSpec, fraction_bits: u8) -> Result<Self, ParameterError> {
        check_range(
            "fraction_bits",
            fraction_bits,
            0..=MAX_FRACTION_BITS,
            "a 32-bit counter must leave room for the integer part",
        )?;
        Ok(Self { hasher: CellHasher::new(layout, 32, hashes)?, epochs, fraction_bits })
    }

    /// When and by how much counters decay.
    pub fn epochs(&self) -> &EpochSpec {
        &self.epochs
    }

    /// Where the counters of an item lie, and how many there are.
    pub fn hasher(&self) -> &CellHasher {
        &self.hasher
    }

    /// Fractional bits of a counter.
    pub fn fraction_bits(&self) -> u8 {
        self.fraction_bits
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.hasher.layout().encode(writer);
        writer.raw(&[self.hasher.hashes(), self.fraction_bits]);
        self.epochs.encode(writer);
    }
}

/// Decayed counts in whole counters.
///
/// ```
/// use ebb_sketch::filter::structure::frequency::{basic::{BasicFrequency, BasicSpec}, epochs::EpochSpec};
/// use ebb_sketch::filter::structure::layout::CellLayout;
/// use ebb_sketch::hash::HashKey;
///
/// let epochs = EpochSpec::halving(60_000, 4).unwrap();
/// let mut counts = BasicFrequency::new(BasicSpec::new(CellLayout::Spread(4096), 4, epochs, 8).unwrap());
/// let item = HashKey::new([7; 16]).fingerprint(b"ip");
/// (0..8).for_each(|_| counts.add(item, 0));
/// assert!((4.0..5.0).contains(&counts.estimate(item, 60_000).value));
/// ```
#[derive(Debug, Clone)]
pub struct BasicFrequency {
    hasher: CellHasher,
    fraction_bits: u8,
    epochs: EpochClock,
    cells: CellMemory,
    total: u64,
    lost: LostIncrements,
}

impl BasicFrequency {
    /// Empty counters.
    pub fn new(spec: BasicSpec) -> Self {
        Self {
            hasher: spec.hasher,
            fraction_bits: spec.fraction_bits,
            epochs: EpochClock::new(spec.epochs),
            cells: CellMemory::zeroed(spec.hasher.cells() as usize * 4),
            total: 0,
            lost: LostIncrements::default(),
        }
    }

    /// Bytes of the counters, and of the marks once a counter has overflowed.
    pub fn memory_bytes(&self) -> u64 {
        self.cells.len() as u64 + self.lost.bytes()
    }

    /// Advances the clock. Earlier times have no effect.
    pub fn advance(&mut self, now_ms: i64) {
        if let Some(factor) = self.epochs.advance(now_ms) {
            self.sweep(factor);
        }
    }

    /// Counts one observation. A later time advances the clock; an earlier one counts at its own age.
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        self.add_units(item, time_ms, 1 << self.fraction_bits);
    }

    /// Counts an event that stands for `weight` observations, rounded up to a unit.
    pub fn add_weighted(&mut self, item: Fingerprint, time_ms: i64, weight: ObservationWeight) {
        self.add_units(item, time_ms, weight.units(self.fraction_bits));
    }

    fn add_units(&mut self, item: Fingerprint, time_ms: i64, units: u64) {
        self.advance(time_ms);
        let units = self.epochs.decayed(units, time_ms);
        for cell in self.hasher.cells_of(item).distinct().as_slice() {
            self.raise(*cell, units);
        }
        self.total = self.total.saturating_add(units);
    }

    /// The decayed count at `as_of_ms`, or at the clock if that is later.
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> DecayedCount {
        minimum_count(&self.hasher.cells_of(item), |cell| self.cell_value(cell), |cell| self.lost.marks(cell))
            .scaled(self.unit() * self.epochs.scale(as_of_ms))
    }

    /// The decayed count of all observations together.
    pub fn total(&self, as_of_ms: i64) -> f64 {
        self.total as f64 * self.unit() * self.epochs.scale(as_of_ms)
    }

    /// The value of a cell, in units of 2^-fraction_bits.
    pub fn cell_value(&self, cell: u64) -> u64 {
        u64::from(get_u32(&self.cells, cell))
    }

    /// How often a counter overflowed.
    pub fn lost_increments(&self) -> u64 {
        self.lost.count()
    }

    fn unit(&self) -> f64 {
        1.0 / f64::from(1u32 << self.fraction_bits)
    }

    fn raise(&mut self, cell: u64, units: u64) {
        let sum = self.cell_value(cell) + units;
        let stored = sum.min(u64::from(u32::MAX));
        put_u32(&mut self.cells, cell, stored as u32);
        if stored < sum {
            self.lost.record(cell, sum - stored, self.hasher.cells());
        }
    }

    fn sweep(&mut self, factor: EpochFactor) {
        for bytes in self.cells.chunks_exact_mut(4) {
            let value = get_u32(bytes, 0);
            if value > 0 {
                put_u32(bytes, 0, factor.apply(u64::from(value)) as u32);
            }
        }
        self.total = factor.apply(self.total);
        if self.lost.fade(factor) {
            let mut start = 0;
            while let Some(cell) = self.lost.take_mark(start) {
                self.raise(cell, 1);
                start = cell + 1;
            }
        }
    }

    /// Encodes parameters, clock and counters.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.hasher.layout().encode(&mut writer);
        writer.raw(&[self.hasher.hashes(), self.fraction_bits]);
        self.epochs.encode(&mut writer);
        writer.varint(self.total);
        writer.raw(&self.cells);
        self.lost.encode(&mut writer);
        writer.seal()
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let (layout, hashes, fraction_bits) = (CellLayout::decode(&mut reader)?, reader.u8()?, reader.u8()?);
        let epochs = EpochClock::decode(&mut reader)?;
        let spec = BasicSpec::new(layout, hashes, epochs.spec(), fraction_bits)
            .map_err(|error| CodecError::invalid("basic frequency", error.to_string()))?;
        let total = reader.varint()?;
        let cells = CellMemory::copied(reader.raw(spec.hasher.cells() as usize * 4)?);
        let lost = LostIncrements::decode(&mut reader, spec.hasher.cells())?;
        reader.finish()?;
        Ok(Self { hasher: spec.hasher, fraction_bits, epochs, cells, total, lost })
    }
}
