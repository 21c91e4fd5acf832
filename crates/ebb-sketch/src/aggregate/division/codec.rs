//! State bytes of a division, including the table of ages.

use super::cell::DivisionCell;
use super::shape::{DivisionShape, NEVER};
use super::{CellRow, DivisionSketch};
use crate::aggregate::codec::{
    invalid, not_negative, read_clock, read_decay, read_time, unzigzag, write_clock, write_decay, zigzag,
};
use crate::aggregate::observation::MAX_TIME_MS;
use crate::aggregate::summary::{Summary, SummaryShape};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"divn";
const VERSION: u16 = 1;

impl DivisionSketch {
    /// Canonical, checksummed state bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(KIND, VERSION);
        self.shape.write(&mut w);
        w.f64(self.expired);
        write_clock(&mut w, self.clock_ms);
        if self.clock_ms.is_some() {
            w.varint(zigzag(self.newest_ms));
            for row in &self.rows {
                row.write(&mut w);
            }
        }
        w.seal()
    }

    /// Restores a sketch that continues exactly like the encoded one.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let mut division = Self::new(DivisionShape::read(&mut r)?);
        division.expired = not_negative("expired weight", r.f64()?)?;
        division.clock_ms = read_clock(&mut r)?;
        if division.clock_ms.is_some() {
            division.newest_ms = read_time(&mut r)?;
            // Gaps are filled with empty slots, so the horizon limits the length of a row.
            let max_slots = division.shape.cells_within(division.shape.horizon_ms) + 64;
            let summary = division.shape.summary;
            for (width, row) in division.rows.iter_mut().enumerate() {
                row.read(width as u8, summary, max_slots, &mut r)?;
            }
        }
        r.finish()?;
        Ok(division)
    }
}

impl DivisionShape {
    fn write(&self, w: &mut Writer) {
        write_decay(w, &self.decay);
        w.f64(self.theta);
        w.u64(self.horizon_ms);
        self.summary.write(w);
        w.varint(self.ages.len() as u64);
        self.ages.iter().for_each(|age| w.u64(*age));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let decay = read_decay(r)?;
        let (theta, horizon_ms) = (r.f64()?, r.u64()?);
        let summary = SummaryShape::read(r)?;
        let fresh = Self::new(decay.clone(), theta, horizon_ms, summary).map_err(invalid("division"))?;
        let ages = (0..r.count(8)?).map(|_| r.u64()).collect::<Result<Vec<u64>, _>>()?;
        let near = |a: u64, b: u64| a == b || (a != NEVER && b != NEVER && a.abs_diff(b) <= 1);
        let same = ages.len() == fresh.ages.len() && ages.iter().zip(&fresh.ages).all(|(a, b)| near(*a, *b));
        // The stored table is used, provided it differs from a new one by rounding only.
        if !same || !ages.is_sorted() {
            return Err(CodecError::invalid("table of ages", "does not match its decay and theta"));
        }
        Ok(Self::with_ages(decay, theta, horizon_ms, summary, ages))
    }
}

impl CellRow {
    fn write(&self, w: &mut Writer) {
        w.varint(self.occupied().count() as u64);
        let mut last = 0;
        for (index, cell) in self.occupied() {
            w.varint(zigzag(index - last));
            last = index;
            cell.write(w);
        }
    }

    fn read(&mut self, width: u8, summary: SummaryShape, max_slots: u64, r: &mut Reader<'_>) -> Result<(), CodecError> {
        let mut last = 0i64;
        for number in 0..r.count(35)? {
            let index = last.checked_add(unzigzag(r.varint()?)).filter(|i| i.abs() <= (2 * MAX_TIME_MS) >> width);
            let index = index.ok_or_else(|| CodecError::invalid("cell", "outside the supported times"))?;
            if number > 0 && (index <= last || index.abs_diff(self.first) > max_slots) {
                return Err(CodecError::invalid("cell", "out of order or too far from the first"));
            }
            last = index;
            *self.slot(index) = Some(DivisionCell::read(width, index, summary, r)?);
        }
        Ok(())
    }
}

impl DivisionCell {
    fn write(&self, w: &mut Writer) {
        w.f64(self.delay);
        w.f64(self.sum_delay);
        w.varint(zigzag(self.oldest_ms));
        w.varint(zigzag(self.newest_ms));
        self.summary.write(w);
    }

    fn read(width: u8, index: i64, summary: SummaryShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (delay, sum_delay) = (not_negative("delay", r.f64()?)?, not_negative("delay", r.f64()?)?);
        let (oldest_ms, newest_ms) = (read_time(r)?, read_time(r)?);
        if oldest_ms > newest_ms || oldest_ms >> width != index || newest_ms >> width != index {
            return Err(CodecError::invalid("cell", "its times are outside of it"));
        }
        Ok(Self { summary: Summary::read(summary, r)?, delay, sum_delay, oldest_ms, newest_ms })
    }
}
