//! Which cells of a cache line belong to an item: one per section, so that no two of them coincide.

use crate::filter::structure::layout::scale;
use crate::hash::Fingerprint;
use crate::random::mix;

/// The line that an item maps to.
#[inline]
pub(super) fn line_of(item: Fingerprint, lines: usize) -> usize {
    scale(item.high(), lines as u64) as usize
}

/// A line divided into as many sections as an item has cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineSections {
    count: u8,
    cells: u16,
}

impl LineSections {
    /// `count` sections in a line of `cells` cells; up to `count - 1` cells at the end stay unused.
    pub(super) fn new(cells: u64, count: u8) -> Self {
        Self { count, cells: (cells / u64::from(count)) as u16 }
    }

    /// The cells of an item within its line: 16 bits select each.
    pub(super) fn cells(self, item: Fingerprint) -> impl Iterator<Item = u8> {
        let mut random = item.low();
        (0..self.count).map(move |section| {
            if section > 0 && section % 4 == 0 {
                random = mix(random);
            }
            self.cell(section, (random >> (section % 4 * 16)) as u16)
        })
    }

    /// The same for a number of cells known at compile time, at most 8.
    #[inline(always)]
    pub(super) fn cell_array<const K: usize>(self, item: Fingerprint) -> [u8; K] {
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
        // A line has at most 168 cells.
        (u32::from(section).wrapping_mul(u32::from(self.cells)).wrapping_add(within)) as u8
    }
}
