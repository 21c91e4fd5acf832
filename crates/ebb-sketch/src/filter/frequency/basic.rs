//! Decayed hit counts in whole-number counters that are all swept when an epoch ends.
//!
//! The paper's plain form, with the counts in parts of 2^fraction_bits and every decay rounded up: a counter is never too
//! low, and too high by less than 2^-fraction_bits / (1 − λ) for the rounding. A counter that is full is marked
//! ([`super::losses`]). Costs a pass over all counters an epoch: [`super::forward`] answers the same without.

use super::epochs::{EpochSpec, Epochs};
use super::fade::Keep;
use super::losses::Losses;
use super::{Count, least_trusted};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::cells::Memory;
use crate::filter::cells::words::{get_u32, put_u32};
use crate::filter::places::{Places, Size};
use crate::filter::spec_error::{SpecError, within};
use crate::hash::Fingerprint;

pub(super) const KIND: Kind = *b"frqb";
const VERSION: u16 = 1;

pub const MOST_FRACTION_BITS: u8 = 16;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BasicSpec {
    places: Places,
    epochs: EpochSpec,
    fraction_bits: u8,
}

impl BasicSpec {
    pub fn new(size: Size, hashes: u8, epochs: EpochSpec, fraction_bits: u8) -> Result<Self, SpecError> {
        within("fraction_bits", fraction_bits, 0..=MOST_FRACTION_BITS, "a counter of 32 bits must hold whole counts")?;
        Ok(Self { places: Places::new(size, 32, hashes)?, epochs, fraction_bits })
    }

    pub(super) fn epochs(&self) -> &EpochSpec {
        &self.epochs
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.places.size().encode(writer);
        writer.raw(&[self.places.hashes(), self.fraction_bits]);
        self.epochs.encode(writer);
    }
}

#[derive(Debug, Clone)]
pub struct Basic {
    places: Places,
    fraction_bits: u8,
    epochs: Epochs,
    cells: Memory,
    total: u64,
    losses: Losses,
}

impl Basic {
    pub fn new(spec: BasicSpec) -> Self {
        Self {
            places: spec.places,
            fraction_bits: spec.fraction_bits,
            epochs: Epochs::new(spec.epochs),
            cells: Memory::zeroed(spec.places.cells() as usize * 4),
            total: 0,
            losses: Losses::default(),
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.cells.len() as u64
    }

    pub fn advance(&mut self, now_ms: i64) {
        if let Some(keep) = self.epochs.advance(now_ms) {
            self.sweep(keep);
        }
    }

    /// One observation. A time after the clock moves the clock; one before it counts at its own age.
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        self.advance(time_ms);
        let units = self.epochs.faded(1 << self.fraction_bits, time_ms);
        for cell in self.places.of(item).distinct().as_slice() {
            self.raise(*cell, units);
        }
        self.total = self.total.saturating_add(units);
    }

    /// The decayed count as of `as_of_ms`, or as of the clock if that is later.
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> Count {
        let held = |cell| u64::from(get_u32(&self.cells, cell));
        least_trusted(&self.places.of(item), held, &self.losses).scaled(self.unit() * self.epochs.scale(as_of_ms))
    }

    /// The decayed count of all observations.
    pub fn total(&self, as_of_ms: i64) -> f64 {
        self.total as f64 * self.unit() * self.epochs.scale(as_of_ms)
    }

    /// What a cell holds, in parts of 2^fraction_bits.
    pub fn held(&self, cell: u64) -> u64 {
        u64::from(get_u32(&self.cells, cell))
    }

    /// How often a counter was full.
    pub fn exhausted(&self) -> u64 {
        self.losses.count()
    }

    fn unit(&self) -> f64 {
        1.0 / f64::from(1u32 << self.fraction_bits)
    }

    fn raise(&mut self, cell: u64, units: u64) {
        let wanted = u64::from(get_u32(&self.cells, cell)) + units;
        let held = wanted.min(u64::from(u32::MAX));
        put_u32(&mut self.cells, cell, held as u32);
        if held < wanted {
            self.losses.note(cell, wanted - held, self.places.cells());
        }
    }

    fn sweep(&mut self, keep: Keep) {
        for bytes in self.cells.chunks_exact_mut(4) {
            let value = get_u32(bytes, 0);
            if value > 0 {
                put_u32(bytes, 0, keep.of(u64::from(value)) as u32);
            }
        }
        self.total = keep.of(self.total);
        for cell in self.losses.fade(keep) {
            self.raise(cell, 1);
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.places.size().encode(&mut writer);
        writer.raw(&[self.places.hashes(), self.fraction_bits]);
        self.epochs.encode(&mut writer);
        writer.varint(self.total);
        writer.raw(&self.cells);
        self.losses.encode(&mut writer);
        writer.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let (size, hashes, fraction_bits) = (Size::decode(&mut reader)?, reader.u8()?, reader.u8()?);
        let epochs = Epochs::decode(&mut reader)?;
        let spec = BasicSpec::new(size, hashes, epochs.spec(), fraction_bits)
            .map_err(|error| CodecError::invalid("basic frequency", error.to_string()))?;
        let total = reader.varint()?;
        let cells = Memory::copied(reader.raw(spec.places.cells() as usize * 4)?);
        let losses = Losses::decode(&mut reader, spec.places.cells())?;
        reader.finish()?;
        Ok(Self { places: spec.places, fraction_bits, epochs, cells, total, losses })
    }
}
