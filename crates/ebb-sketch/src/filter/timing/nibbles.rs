//! The usual shape by its shortest path: nibbles, all of an item's in one line, their number known to the compiler.
//!
//! Says and does exactly what the general path does (a test holds them together), without a branch for each cell:
//! whether a cell is overwritten cannot be predicted.

use super::{DEAD, Reading, TimingFilter, place};
use crate::hash::Fingerprint;

#[inline(always)]
fn nibble(line: &[u8; 64], cell: u8) -> u8 {
    (line[usize::from(cell >> 1) % 64] >> ((cell & 1) * 4)) & 15
}

impl TimingFilter {
    #[inline]
    pub(super) fn look_nibbles<const K: usize>(&self, item: Fingerprint) -> Reading {
        let lines = self.cells.lines();
        let line = &lines[place::line_of(item, lines.len())];
        let cells = self.sections.first::<K>(item);
        let ages = cells.map(|cell| self.ages[usize::from(nibble(line, cell))]);
        let oldest = ages.iter().fold(0, |oldest: u8, &age| oldest.max(age));
        let count = ages.iter().fold(0u8, |count, &age| count.wrapping_add(u8::from(age == oldest)));
        Reading { age: (oldest != DEAD).then_some(oldest), cells: K as u8, oldest: count }
    }

    #[inline]
    pub(super) fn insert_nibbles<const K: usize>(&mut self, item: Fingerprint, age: u8, stamp: u8) {
        let cells = self.sections.first::<K>(item);
        let lines = self.cells.lines_mut();
        let index = place::line_of(item, lines.len());
        let line = &mut lines[index];
        let mut written = 0u64;
        for cell in cells {
            let (byte, shift) = (&mut line[usize::from(cell >> 1) % 64], (cell & 1) * 4);
            let old = (*byte >> shift) & 15;
            let older = self.ages[usize::from(old)] > age;
            let new = if older { stamp } else { old };
            *byte ^= (old ^ new) << shift;
            // Every cell is counted under its stamp, so no count can fall below 0 or wrap.
            let one = u64::from(older);
            self.histogram[usize::from(old)] = self.histogram[usize::from(old)].wrapping_sub(one);
            written = written.wrapping_add(one);
        }
        self.histogram[usize::from(stamp)] = self.histogram[usize::from(stamp)].wrapping_add(written);
    }
}
