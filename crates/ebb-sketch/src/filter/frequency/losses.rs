//! Increments that a counter could not take, remembered until they no longer matter.
//!
//! A marked cell may hold too little; an unmarked one never does. An item with one unmarked cell still gets an answer
//! that is no undercount; only when all are marked is the answer a lower bound. What is owed in total fades like the
//! counters; once it is at most one unit, each marked cell can be paid that unit and be trusted again.

use super::fade::{Keep, add_up};
use crate::codec::{CodecError, Reader, Writer};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Losses {
    /// One bit a cell; empty while none is set.
    marks: Vec<u64>,
    marked: u64,
    /// At least what any one cell lacks.
    owed: f64,
    /// How often it happened, ever.
    count: u64,
}

impl Losses {
    pub fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    pub fn marks(&self, cell: u64) -> bool {
        self.marks.get(cell as usize / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1)
    }

    /// `units` more than `cell` could take, in an array of `cells`.
    pub fn note(&mut self, cell: u64, units: u64, cells: u64) {
        self.count = self.count.saturating_add(1);
        self.owed = add_up(self.owed, (units as f64).next_up());
        self.mark(cell, cells);
    }

    fn mark(&mut self, cell: u64, cells: u64) {
        if self.marks.is_empty() {
            self.marks = vec![0; cells.div_ceil(64) as usize];
        }
        self.marked += u64::from(!self.marks(cell));
        if let Some(word) = self.marks.get_mut(cell as usize / 64) {
            *word |= 1 << (cell % 64);
        }
    }

    /// Fades what is owed; the cells that are to be paid one unit and trusted again.
    pub fn fade(&mut self, keep: Keep) -> Vec<u64> {
        if self.marked == 0 {
            return Vec::new();
        }
        self.owed = (self.owed * keep.share()).next_up();
        if self.owed > 1.0 {
            return Vec::new();
        }
        let paid = self.listed();
        *self = Self { count: self.count, ..Self::default() };
        paid
    }

    /// The marked cells, ascending.
    fn listed(&self) -> Vec<u64> {
        (0..self.marks.len() as u64 * 64).filter(|cell| self.marks(*cell)).collect()
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.varint(self.count);
        writer.f64(self.owed);
        writer.varint(self.marked);
        self.listed().into_iter().for_each(|cell| writer.varint(cell));
    }

    pub(super) fn decode(reader: &mut Reader<'_>, cells: u64) -> Result<Self, CodecError> {
        let mut losses = Self { count: reader.varint()?, owed: reader.f64()?, ..Self::default() };
        let mut next_cell = 0;
        for _ in 0..reader.count(1)? {
            let cell = reader.varint()?;
            if cell < next_cell || cell >= cells {
                return Err(CodecError::invalid("losses", "marks out of order"));
            }
            losses.mark(cell, cells);
            next_cell = cell + 1;
        }
        let owes = losses.owed.is_finite() && losses.owed > 0.0;
        if owes != (losses.marked > 0) || (!owes && losses.owed.to_bits() != 0) {
            return Err(CodecError::invalid("losses", "a debt that cannot be"));
        }
        Ok(losses)
    }
}
