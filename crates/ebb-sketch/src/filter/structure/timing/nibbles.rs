//! Fast path for the default shape: 4-bit timers, all cells of an item in one line, their number known at compile time.
//!
//! The results equal those of the general path (a test compares them). There is no branch per cell, because whether a
//! cell is overwritten cannot be predicted.

use super::{DEAD, Reading, TimingFilter, sections};
use crate::hash::Fingerprint;

#[inline(always)]
fn nibble(line: &[u8; 64], cell: u8) -> u8 {
    (line[usize::from(cell >> 1) % 64] >> ((cell & 1) * 4)) & 15
}

impl TimingFilter {
    #[inline]
    pub(super) fn read_nibbles<const K: usize>(&self, item: Fingerprint) -> Reading {
        let lines = self.cells.lines();
        let line = &lines[sections::line_of(item, lines.len())];
        let cells = self.sections.cell_array::<K>(item);
        let ages = cells.map(|cell| self.ages[usize::from(nibble(line, cell))]);
        let oldest = ages.iter().fold(0, |oldest: u8, &age| oldest.max(age));
        let count = ages.iter().fold(0u8, |count, &age| count.wrapping_add(u8::from(age == oldest)));
        Reading { age: (oldest != DEAD).then_some(oldest), cells: K as u8, oldest: count }
    }

    #[inline]
    pub(super) fn insert_nibbles<const K: usize>(&mut self, item: Fingerprint, age: u8, stamp: u8) {
        let cells = self.sections.cell_array::<K>(item);
        let lines = self.cells.lines_mut();
        let index = sections::line_of(item, lines.len());
        let line = &mut lines[index];
        let mut written = 0u64;
        for cell in cells {
            let (byte, shift) = (&mut line[usize::from(cell >> 1) % 64], (cell & 1) * 4);
            let old = (*byte >> shift) & 15;
            let older = self.ages[usize::from(old)] > age;
            let new = if older { stamp } else { old };
            *byte ^= (old ^ new) << shift;
            // Every cell is counted under its stamp (T4), so no count wraps.
            let one = u64::from(older);
            self.histogram[usize::from(old)] = self.histogram[usize::from(old)].wrapping_sub(one);
            written = written.wrapping_add(one);
        }
        self.histogram[usize::from(stamp)] = self.histogram[usize::from(stamp)].wrapping_add(written);
    }
}
