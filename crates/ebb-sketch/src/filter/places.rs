//! Which cells belong to an item.
//!
//! Two ways, chosen by [`Size`]. *Lines*: all cells of an item lie in one 64-byte line, so that an observation costs one
//! cache miss; the upper half of the fingerprint chooses the line, the lower half the cells. *Cells*: each of them
//! anywhere in the array, as the papers have it. An item's cells may coincide: [`CellList::distinct`] drops repeats.

use super::spec_error::{SpecError, within};
use crate::codec::{CodecError, Reader, Writer};
use crate::hash::Fingerprint;
use crate::random::mix;

pub const LINE_BYTES: u64 = 64;
pub const MOST_HASHES: u8 = 16;
/// A terabyte of one-bit cells: beyond it a parameter is a slip of the pen.
const MOST_CELLS: u64 = 1 << 43;

/// How many cells there are, and whether an item's are kept together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Lines of 64 bytes; an item's cells share one.
    Lines(u64),
    /// Single cells; an item's lie anywhere.
    Cells(u64),
}

impl Size {
    /// As many lines as fit.
    pub fn in_memory(bytes: u64) -> Result<Self, SpecError> {
        within("memory", bytes, LINE_BYTES..=MOST_CELLS / 8, "a filter takes at least one line of 64 bytes")?;
        Ok(Self::Lines(bytes / LINE_BYTES))
    }

    pub fn encode(self, writer: &mut Writer) {
        let (tag, count) = match self {
            Self::Lines(lines) => (0, lines),
            Self::Cells(cells) => (1, cells),
        };
        writer.u8(tag);
        writer.varint(count);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        match (reader.u8()?, reader.varint()?) {
            (0, lines) => Ok(Self::Lines(lines)),
            (1, cells) => Ok(Self::Cells(cells)),
            (tag, _) => Err(CodecError::invalid("size", format!("tag {tag}"))),
        }
    }
}

/// The cells of one item, in the order its fingerprint names them.
#[derive(Debug, Clone, Copy)]
pub struct CellList {
    at: [u64; MOST_HASHES as usize],
    len: u8,
}

impl CellList {
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.at[..usize::from(self.len)]
    }

    /// Each cell once, first mention first.
    #[inline]
    pub fn distinct(&self) -> Self {
        let mut once = Self { at: [0; MOST_HASHES as usize], len: 0 };
        for cell in self.as_slice() {
            if !once.as_slice().contains(cell) {
                once.at[usize::from(once.len)] = *cell;
                once.len += 1;
            }
        }
        once
    }
}

/// From fingerprints to cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    size: Size,
    cells: u64,
    cells_a_line: u32,
    hashes: u8,
}

impl Places {
    pub fn new(size: Size, cell_bits: u32, hashes: u8) -> Result<Self, SpecError> {
        let cells_a_line = 512 / cell_bits;
        within("hashes", hashes, 1..=MOST_HASHES, "an item needs a cell, and more than 16 buy nothing")?;
        let cells = match size {
            Size::Lines(lines) => {
                let most = MOST_CELLS / u64::from(cells_a_line);
                within("lines", lines, 1..=most, "the filter would hold nothing, or more than a terabyte")?
                    * u64::from(cells_a_line)
            }
            Size::Cells(cells) => {
                within("cells", cells, 1..=MOST_CELLS, "the filter would hold nothing, or more than a terabyte")?
            }
        };
        Ok(Self { size, cells, cells_a_line, hashes })
    }

    pub fn size(&self) -> Size {
        self.size
    }

    pub fn cells(&self) -> u64 {
        self.cells
    }

    pub fn hashes(&self) -> u8 {
        self.hashes
    }

    #[inline]
    pub fn of(&self, item: Fingerprint) -> CellList {
        match self.size {
            Size::Lines(lines) => self.in_line(item, lines),
            Size::Cells(cells) => self.anywhere(item, cells),
        }
    }

    /// The cells of the line an item falls into, where lines are in use.
    pub fn line_of(&self, item: Fingerprint) -> Option<std::ops::Range<u64>> {
        match self.size {
            Size::Cells(_) => None,
            Size::Lines(lines) => {
                let width = u64::from(self.cells_a_line);
                let base = scale(item.high(), lines) * width;
                Some(base..base + width)
            }
        }
    }

    #[inline]
    fn in_line(&self, item: Fingerprint, lines: u64) -> CellList {
        let base = scale(item.high(), lines) * u64::from(self.cells_a_line);
        let (mask, bits) = (u64::from(self.cells_a_line) - 1, self.cells_a_line.trailing_zeros());
        let mut list = CellList { at: [0; MOST_HASHES as usize], len: self.hashes };
        let (mut pool, mut left) = (item.low(), 64);
        for cell in &mut list.at[..usize::from(self.hashes)] {
            if left < bits {
                (pool, left) = (mix(pool ^ item.low()), 64);
            }
            *cell = base + (pool & mask);
            pool >>= bits;
            left -= bits;
        }
        list
    }

    #[inline]
    fn anywhere(&self, item: Fingerprint, cells: u64) -> CellList {
        let mut list = CellList { at: [0; MOST_HASHES as usize], len: self.hashes };
        for (index, cell) in list.at[..usize::from(self.hashes)].iter_mut().enumerate() {
            *cell = scale(mix(item.low().wrapping_add(index as u64)), cells);
        }
        list
    }

    /// The chance that one item touches one given cell.
    pub fn touch_chance(&self) -> f64 {
        let among = |cells: f64| -libm::expm1(f64::from(self.hashes) * libm::log1p(-1.0 / cells));
        match self.size {
            Size::Lines(lines) => among(f64::from(self.cells_a_line)) / lines as f64,
            Size::Cells(cells) => among(cells as f64),
        }
    }
}

/// A 64-bit hash to `0..n` without a division.
#[inline]
fn scale(hash: u64, n: u64) -> u64 {
    ((u128::from(hash) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn items(count: u64) -> impl Iterator<Item = Fingerprint> {
        let mut random = Random::new(5);
        (0..count).map(move |_| Fingerprint(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())))
    }

    #[test]
    fn the_cells_of_an_item_share_its_line_and_fill_the_array_evenly() {
        for (bits, hashes) in [(1, 16), (4, 7), (64, 4)] {
            let places = Places::new(Size::Lines(10), bits, hashes).unwrap();
            let mut hits = vec![0u32; places.cells() as usize];
            for item in items(60_000) {
                let line = places.line_of(item).unwrap();
                for cell in places.of(item).as_slice() {
                    assert!(line.contains(cell));
                    hits[*cell as usize] += 1;
                }
            }
            let mean = 60_000.0 * f64::from(hashes) / places.cells() as f64;
            let worst = hits.iter().map(|hit| (f64::from(*hit) - mean).abs() / libm::sqrt(mean)).fold(0.0, f64::max);
            assert!(worst < 5.0, "a cell is {worst} standard deviations off at {bits} bits");
        }
    }

    #[test]
    fn the_touch_chance_is_what_is_counted() {
        for size in [Size::Lines(3), Size::Cells(37)] {
            let places = Places::new(size, 32, 4).unwrap();
            let touched = items(100_000).filter(|item| places.of(*item).as_slice().contains(&5)).count() as f64 / 1e5;
            let expected = places.touch_chance();
            assert!((touched - expected).abs() < 5.0 * libm::sqrt(expected / 1e5), "{touched} {expected}");
        }
    }

    #[test]
    fn distinct_keeps_the_first_of_each() {
        let list = CellList { at: std::array::from_fn(|i| [5, 3, 5, 9, 3, 1].get(i).copied().unwrap_or(0)), len: 6 };
        assert_eq!(list.distinct().as_slice(), [5, 3, 9, 1]);
    }

    #[test]
    fn impossible_sizes_are_refused_with_the_nearest() {
        assert_eq!(Places::new(Size::Cells(0), 1, 3).unwrap_err().nearest, "1");
        assert_eq!(Places::new(Size::Lines(0), 1, 3).unwrap_err().nearest, "1");
        assert_eq!(Places::new(Size::Cells(9), 1, 0).unwrap_err().nearest, "1");
        assert_eq!(Places::new(Size::Cells(9), 1, 17).unwrap_err().nearest, "16");
        assert_eq!(Size::in_memory(63).unwrap_err().nearest, "64");
        assert_eq!(Size::in_memory(130), Ok(Size::Lines(2)));
        assert!(Places::new(Size::Lines(u64::MAX), 1, 3).is_err());
    }
}
