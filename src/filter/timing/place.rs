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

/// `count` cells below `cells`: each draw takes the leading digits of a fraction and leaves the rest to the next.
/// 64 bits are enough for eight draws; then they are mixed anew.
pub(super) fn line_cells(item: Fingerprint, cells: u8, count: u8) -> impl Iterator<Item = u8> {
    let mut fraction = item.low();
    (0..count).map(move |draw| {
        if draw == 8 {
            fraction = mix(item.low());
        }
        let product = u128::from(fraction) * u128::from(cells);
        fraction = product as u64;
        (product >> 64) as u8
    })
}

/// `count` cells anywhere below `cells`.
pub(super) fn spread_cells(item: Fingerprint, cells: u64, count: u8) -> impl Iterator<Item = u64> {
    (0..u64::from(count)).map(move |draw| scale(mix(item.low().wrapping_add(draw)), cells))
}
