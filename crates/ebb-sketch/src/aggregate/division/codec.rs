//! Bytes of a division, the table of ages included.

use super::cell::Cell;
use super::shape::{DivisionShape, NEVER};
use super::{Division, Row};
use crate::aggregate::content::codec::{
    not_negative, read_clock, read_decay, read_time, unzigzag, write_clock, write_decay, zigzag,
};
use crate::aggregate::content::{Content, ContentShape, TIME_MOST_MS};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"divn";
const VERSION: u16 = 1;

impl Division {
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

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut r = Reader::open(KIND, VERSION, bytes)?;
        let mut division = Self::new(DivisionShape::read(&mut r)?);
        division.expired = not_negative("expired weight", r.f64()?)?;
        division.clock_ms = read_clock(&mut r)?;
        if division.clock_ms.is_some() {
            division.newest_ms = read_time(&mut r)?;
            // Empty places are made for gaps, so no row may be longer than the horizon asks for.
            let most = division.shape.cells_within(division.shape.horizon_ms) + 64;
            let content = division.shape.content;
            for (width, row) in division.rows.iter_mut().enumerate() {
                row.read(width as u8, content, most, &mut r)?;
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
        self.content.write(w);
        w.varint(self.ages.len() as u64);
        self.ages.iter().for_each(|age| w.u64(*age));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let decay = read_decay(r)?;
        let (theta, horizon_ms) = (r.f64()?, r.u64()?);
        let content = ContentShape::read(r)?;
        let refused = |error: crate::aggregate::content::ShapeError| CodecError::invalid("division", error.to_string());
        let fresh = Self::new(decay.clone(), theta, horizon_ms, content).map_err(refused)?;
        let ages = (0..r.count(8)?).map(|_| r.u64()).collect::<Result<Vec<u64>, _>>()?;
        let near = |a: u64, b: u64| a == b || (a != NEVER && b != NEVER && a.abs_diff(b) <= 1);
        let same = ages.len() == fresh.ages.len() && ages.iter().zip(&fresh.ages).all(|(a, b)| near(*a, *b));
        // The stored table holds, as long as only rounding can tell it from one made here.
        if !same || !ages.is_sorted() {
            return Err(CodecError::invalid("table of ages", "not that of its decay and theta"));
        }
        Ok(Self::with_ages(decay, theta, horizon_ms, content, ages))
    }
}

impl Row {
    fn write(&self, w: &mut Writer) {
        let held = || self.cells.iter().enumerate().filter_map(|(place, cell)| cell.as_ref().map(|c| (place, c)));
        w.varint(held().count() as u64);
        let mut last = 0;
        for (place, cell) in held() {
            let index = self.first + place as i64;
            w.varint(zigzag(index - last));
            last = index;
            cell.write(w);
        }
    }

    fn read(&mut self, width: u8, content: ContentShape, most: u64, r: &mut Reader<'_>) -> Result<(), CodecError> {
        let count = r.count(35)?;
        let mut last = 0i64;
        for place in 0..count {
            let index = last.checked_add(unzigzag(r.varint()?)).filter(|i| i.abs() <= (2 * TIME_MOST_MS) >> width);
            let index = index.ok_or_else(|| CodecError::invalid("cell", "outside time"))?;
            if place > 0 && (index <= last || index.abs_diff(self.first) > most) {
                return Err(CodecError::invalid("cell", "out of order or too far from the first"));
            }
            last = index;
            *self.slot(index) = Some(Cell::read(width, index, content, r)?);
        }
        Ok(())
    }
}

impl Cell {
    fn write(&self, w: &mut Writer) {
        w.f64(self.delay);
        w.f64(self.sum_delay);
        w.varint(zigzag(self.oldest_ms));
        w.varint(zigzag(self.newest_ms));
        self.content.write(w);
    }

    fn read(width: u8, index: i64, content: ContentShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (delay, sum_delay) = (not_negative("delay", r.f64()?)?, not_negative("delay", r.f64()?)?);
        let (oldest_ms, newest_ms) = (read_time(r)?, read_time(r)?);
        if oldest_ms > newest_ms || oldest_ms >> width != index || newest_ms >> width != index {
            return Err(CodecError::invalid("cell", "its times lie outside it"));
        }
        Ok(Self { content: Content::read(content, r)?, delay, sum_delay, oldest_ms, newest_ms })
    }
}
