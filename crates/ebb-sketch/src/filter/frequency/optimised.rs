//! Decayed hit counts in small digits, with a pool for the few counts that outgrow theirs.
//!
//! Carrying each counter for itself ([`Carry::Each`]) gives cell for cell what whole counters give ([`super::basic`]).
//! [`Carry::All`] lets a full digit stand while another of the item's cells has room: that other one is the lesser and
//! answers; it needs fewer extra digits and answers no higher. When the pool is exhausted the cell is marked
//! ([`super::losses`]), and an item all of whose cells are marked gets a lower bound.

use super::digits::Digits;
use super::epochs::{EpochSpec, Epochs};
use super::fade::Keep;
use super::losses::Losses;
use super::{Count, least_trusted};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::cells::Width;
use crate::filter::places::{Places, Size};
use crate::filter::spec_error::{SpecError, within};
use crate::hash::Fingerprint;

pub(super) const KIND: Kind = *b"frqo";
const VERSION: u16 = 1;

/// When a full digit carries into the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// Whenever it is full.
    Each,
    /// Only when all of the item's digits are.
    All,
}

/// The form of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigitSpec {
    /// Bits of a digit: 1, 2, 4 or 8.
    pub digit_bits: u8,
    /// Counts are in parts of 2^fraction_bits.
    pub fraction_bits: u8,
    /// Extra digits there are for all cells together.
    pub pool: u32,
    pub carry: Carry,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimisedSpec {
    places: Places,
    epochs: EpochSpec,
    form: DigitSpec,
}

impl OptimisedSpec {
    pub fn new(size: Size, hashes: u8, epochs: EpochSpec, form: DigitSpec) -> Result<Self, SpecError> {
        if ![1, 2, 4, 8].contains(&form.digit_bits) {
            let nearest = [8, 4, 2].into_iter().find(|bits| form.digit_bits > *bits).unwrap_or(1);
            return Err(SpecError::new("digit_bits", form.digit_bits, "digits are of 1, 2, 4 or 8 bits", nearest));
        }
        within("fraction_bits", form.fraction_bits, 0..=16, "an observation would be too large to carry")?;
        let places = Places::new(size, u32::from(form.digit_bits), hashes)?;
        within("cells", places.cells(), 1..=u64::from(u32::MAX), "chains name their cell by 32 bits")?;
        let most = places.cells().min(u64::from(u32::MAX / 4)) as u32 * 2;
        within("pool", form.pool, 1..=most, "two extra digits a cell are more than is ever needed")?;
        Ok(Self { places, epochs, form })
    }

    pub(super) fn epochs(&self) -> &EpochSpec {
        &self.epochs
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.places.size().encode(writer);
        writer.raw(&[self.places.hashes(), self.form.digit_bits, self.form.fraction_bits]);
        writer.u8(u8::from(self.form.carry == Carry::All));
        writer.varint(u64::from(self.form.pool));
        self.epochs.encode(writer);
    }

    fn width(&self) -> Width {
        Width::holding((u16::MAX >> (16 - self.form.digit_bits)) as u8)
    }
}

#[derive(Debug, Clone)]
pub struct Optimised {
    spec: OptimisedSpec,
    epochs: Epochs,
    digits: Digits,
    total: u64,
    losses: Losses,
}

impl Optimised {
    pub fn new(spec: OptimisedSpec) -> Self {
        let digits = Digits::new(spec.places.cells(), spec.width(), spec.form.pool);
        Self { spec, epochs: Epochs::new(spec.epochs), digits, total: 0, losses: Losses::default() }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.digits.bytes() as u64
    }

    pub fn advance(&mut self, now_ms: i64) {
        if let Some(keep) = self.epochs.advance(now_ms) {
            self.sweep(keep);
        }
    }

    /// One observation. A time after the clock moves the clock; one before it counts at its own age.
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        self.advance(time_ms);
        let units = self.epochs.faded(1 << self.spec.form.fraction_bits, time_ms);
        let cells = self.spec.places.of(item).distinct();
        let has_room = |cell: &u64| !self.is_full(*cell, units);
        if self.spec.form.carry == Carry::All && cells.as_slice().iter().any(has_room) {
            cells.as_slice().iter().for_each(|cell| self.raise_digit(*cell, units));
        } else {
            cells.as_slice().iter().for_each(|cell| self.raise(*cell, units));
        }
        self.total = self.total.saturating_add(units);
    }

    /// The decayed count as of `as_of_ms`, or as of the clock if that is later.
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> Count {
        let least = least_trusted(&self.spec.places.of(item), |cell| self.digits.value(cell), &self.losses);
        least.scaled(self.unit() * self.epochs.scale(as_of_ms))
    }

    /// The decayed count of all observations.
    pub fn total(&self, as_of_ms: i64) -> f64 {
        self.total as f64 * self.unit() * self.epochs.scale(as_of_ms)
    }

    /// What a cell holds, in parts of 2^fraction_bits.
    pub fn held(&self, cell: u64) -> u64 {
        self.digits.value(cell)
    }

    /// How often the pool had no digit left.
    pub fn exhausted(&self) -> u64 {
        self.losses.count()
    }

    pub fn digits(&self) -> &Digits {
        &self.digits
    }

    fn unit(&self) -> f64 {
        1.0 / f64::from(1u32 << self.spec.form.fraction_bits)
    }

    fn is_full(&self, cell: u64, units: u64) -> bool {
        self.digits.first_digit(cell) + units > self.digits.most() || self.digits.is_chained(cell)
    }

    fn raise(&mut self, cell: u64, units: u64) {
        let lost = self.digits.add(cell, units);
        if lost > 0 {
            self.losses.note(cell, lost, self.spec.places.cells());
        }
    }

    /// Within the first digit: the item's count is below every full digit, since another of its cells has room.
    fn raise_digit(&mut self, cell: u64, units: u64) {
        if !self.digits.is_chained(cell) {
            let room = self.digits.most() - self.digits.first_digit(cell);
            self.raise(cell, units.min(room));
        }
    }

    fn sweep(&mut self, keep: Keep) {
        self.digits.fade(keep);
        self.total = keep.of(self.total);
        for cell in self.losses.fade(keep) {
            self.raise(cell, 1);
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        let form = self.spec.form;
        self.spec.places.size().encode(&mut writer);
        writer.raw(&[self.spec.places.hashes(), form.digit_bits, form.fraction_bits]);
        writer.u8(u8::from(form.carry == Carry::All));
        writer.varint(u64::from(form.pool));
        self.epochs.encode(&mut writer);
        writer.varint(self.total);
        self.digits.encode(&mut writer);
        self.losses.encode(&mut writer);
        writer.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let size = Size::decode(&mut reader)?;
        let (hashes, digit_bits, fraction_bits) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let carry = match reader.u8()? {
            0 => Carry::Each,
            1 => Carry::All,
            tag => return Err(CodecError::invalid("carry", format!("tag {tag}"))),
        };
        let pool = u32::try_from(reader.varint()?).unwrap_or(u32::MAX);
        let epochs = Epochs::decode(&mut reader)?;
        let form = DigitSpec { digit_bits, fraction_bits, pool, carry };
        let spec = OptimisedSpec::new(size, hashes, epochs.spec(), form)
            .map_err(|error| CodecError::invalid("optimised frequency", error.to_string()))?;
        let total = reader.varint()?;
        let digits = Digits::decode(&mut reader, spec.places.cells(), spec.width(), pool)?;
        let losses = Losses::decode(&mut reader, spec.places.cells())?;
        reader.finish()?;
        Ok(Self { spec, epochs, digits, total, losses })
    }
}
