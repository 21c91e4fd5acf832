//! Which cells belong to an item. The fingerprint's upper half chooses the line, the lower half the cells.

use super::spec::CELLS_MOST;
use crate::hash::Fingerprint;
use crate::random::mix;

/// Distinct cells, in the order in which they were drawn.
pub(super) struct Place {
    cells: [u64; CELLS_MOST as usize],
    length: usize,
}

impl Place {
    pub(super) fn distinct(drawn: impl Iterator<Item = u64>) -> Self {
        let mut place = Self { cells: [0; CELLS_MOST as usize], length: 0 };
        for cell in drawn {
            if !place.cells().contains(&cell) {
                place.cells[place.length] = cell;
                place.length += 1;
            }
        }
        place
    }

    pub(super) fn cells(&self) -> &[u64] {
        &self.cells[..self.length]
    }
}

fn scale(random: u64, below: u64) -> u64 {
    ((u128::from(random) * u128::from(below)) >> 64) as u64
}

pub(super) fn line_of(item: Fingerprint, lines: usize) -> usize {
    scale(item.high(), lines as u64) as usize
}

/// How a line is shared out: each of an item's cells is drawn from a section of its own, so that no two coincide.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sections {
    count: u8,
    cells: u16,
}

impl Sections {
    /// `count` sections of a line of `cells` cells; up to `count - 1` cells are left over and stay empty.
    pub(super) fn new(cells: u64, count: u8) -> Self {
        Self { count, cells: (cells / u64::from(count)) as u16 }
    }

    /// The cells of an item within its line: 16 bits choose each.
    pub(super) fn cells(self, item: Fingerprint) -> impl Iterator<Item = u8> {
        let mut random = item.low();
        (0..self.count).map(move |section| {
            if section > 0 && section % 4 == 0 {
                random = mix(random);
            }
            self.cell(section, (random >> (section % 4 * 16)) as u16)
        })
    }

    /// The cells of an item whose number is known where this is compiled: at most 8.
    #[inline(always)]
    pub(super) fn first<const K: usize>(self, item: Fingerprint) -> [u8; K] {
        let low = item.low();
        let more = if K > 4 { mix(low) } else { 0 };
        std::array::from_fn(|section| {
            let random = if section < 4 { low } else { more };
            self.cell(section as u8, (random >> (section % 4 * 16)) as u16)
        })
    }

    #[inline(always)]
    fn cell(self, section: u8, random: u16) -> u8 {
        let within = (u32::from(random) * u32::from(self.cells)) >> 16;
        // At most 168 cells a line.
        (u32::from(section).wrapping_mul(u32::from(self.cells)).wrapping_add(within)) as u8
    }
}

/// `count` cells anywhere below `cells`.
pub(super) fn spread_cells(item: Fingerprint, cells: u64, count: u8) -> impl Iterator<Item = u64> {
    (0..u64::from(count)).map(move |draw| scale(mix(item.low().wrapping_add(draw)), cells))
}
