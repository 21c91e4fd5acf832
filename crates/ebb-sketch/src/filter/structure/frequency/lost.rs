//! Increments that a counter could not store, remembered until they no longer matter.
//!
//! A marked cell may be too low; an unmarked one never is. An item with one unmarked cell still gets an upper bound; only
//! if all its cells are marked is the answer a lower bound. The deficit decays like the counters; once it is at most one
//! unit, every marked cell is raised by one unit and unmarked. Where memory is scarce one mark stands for a group of
//! cells: then "cell" means group in this file.

use super::rounding::{EpochFactor, add_up};
use crate::codec::{CodecError, Reader, Writer};

/// Marked cells and an upper bound on what any of them lacks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LostIncrements {
    /// One bit per cell; empty while none is set.
    marks: Vec<u64>,
    marked: u64,
    /// Upper bound on what any one cell lacks.
    deficit: f64,
    /// Number of lost increments ever.
    count: u64,
}

impl LostIncrements {
    pub fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    pub fn marks(&self, cell: u64) -> bool {
        self.marks.get(cell as usize / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1)
    }

    /// Records `units` that `cell`, in an array of `cells`, could not store.
    pub fn record(&mut self, cell: u64, units: u64, cells: u64) {
        self.count = self.count.saturating_add(1);
        self.deficit = add_up(self.deficit, (units as f64).next_up());
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

    /// Decays the deficit. Returns whether the caller must now take all marks ([`LostIncrements::take_mark`]) and raise
    /// the marked cells by one unit.
    pub fn fade(&mut self, factor: EpochFactor) -> bool {
        if self.marked == 0 {
            return false;
        }
        self.deficit = (self.deficit * factor.share()).next_up();
        let is_repaid = self.deficit <= 1.0;
        if is_repaid {
            self.deficit = 0.0;
        }
        is_repaid
    }

    /// Removes and returns the first mark from `start` on.
    pub fn take_mark(&mut self, start: u64) -> Option<u64> {
        let cell = self.marked_from(start).next()?;
        self.marks[cell as usize / 64] &= !(1 << (cell % 64));
        self.marked -= 1;
        Some(cell)
    }

    /// The marked cells from `start` on, ascending.
    fn marked_from(&self, start: u64) -> impl Iterator<Item = u64> {
        let words = self.marks.iter().zip((0..).step_by(64)).skip(start as usize / 64);
        let marked = words.filter(|(word, _)| **word != 0);
        let cells = marked
            .flat_map(|(word, first)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit));
        cells.skip_while(move |cell| *cell < start)
    }

    /// Bytes of the marks at present.
    pub fn bytes(&self) -> u64 {
        self.marks.len() as u64 * 8
    }

    /// Bytes of the marks, once there are any.
    pub fn bytes_for(cells: u64) -> u64 {
        cells.div_ceil(64) * 8
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.varint(self.count);
        writer.f64(self.deficit);
        writer.varint(self.marked);
        self.marked_from(0).for_each(|cell| writer.varint(cell));
    }

    pub(super) fn decode(reader: &mut Reader<'_>, cells: u64) -> Result<Self, CodecError> {
        let mut lost = Self { count: reader.varint()?, deficit: reader.f64()?, ..Self::default() };
        let mut next_cell = 0;
        for _ in 0..reader.count(1)? {
            let cell = reader.varint()?;
            if cell < next_cell || cell >= cells {
                return Err(CodecError::invalid("lost increments", "marks out of order"));
            }
            lost.mark(cell, cells);
            next_cell = cell + 1;
        }
        let has_deficit = lost.deficit.is_finite() && lost.deficit > 0.0;
        if has_deficit != (lost.marked > 0) || (!has_deficit && lost.deficit.to_bits() != 0) {
            return Err(CodecError::invalid("lost increments", "the deficit does not match the marks"));
        }
        Ok(lost)
    }
}
