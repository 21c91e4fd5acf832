//! Which cells belong to an item.
//!
//! [`CellLayout::Lines`] keeps all cells of an item in one 64-byte cache line: an access costs one cache miss. The upper
//! half of the fingerprint selects the line, the lower half the cells in it. [`CellLayout::Spread`] draws each cell from
//! the whole array, as in the papers. Two cells of an item may coincide: [`CellList::distinct`] removes repeats.

use crate::codec::{CodecError, Reader, Writer};
use crate::filter::parameter::{ParameterError, check_range};
use crate::hash::Fingerprint;
use crate::random::mix;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// The largest number of cells per item.
pub const MAX_HASHES: u8 = 16;
/// A terabyte of one-bit cells. A larger request is taken for a typing error.
const MAX_CELLS: u64 = 1 << 43;

/// Where the cells of one item lie, and how many there are in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellLayout {
    /// This many 64-byte lines; all cells of an item share one line.
    Lines(u64),
    /// This many cells; each cell of an item may lie anywhere.
    Spread(u64),
}

impl CellLayout {
    /// As many lines as fit into `bytes`.
    pub fn in_memory(bytes: u64) -> Result<Self, ParameterError> {
        check_range("memory", bytes, LINE_BYTES..=MAX_CELLS / 8, "a filter needs at least one line of 64 bytes")?;
        Ok(Self::Lines(bytes / LINE_BYTES))
    }

    /// Appends a tag and the count.
    pub fn encode(self, writer: &mut Writer) {
        let (tag, count) = match self {
            Self::Lines(lines) => (0, lines),
            Self::Spread(cells) => (1, cells),
        };
        writer.u8(tag);
        writer.varint(count);
    }

    /// Reads what [`CellLayout::encode`] wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        match (reader.u8()?, reader.varint()?) {
            (0, lines) => Ok(Self::Lines(lines)),
            (1, cells) => Ok(Self::Spread(cells)),
            (tag, _) => Err(CodecError::invalid("layout", format!("unknown tag {tag}"))),
        }
    }
}

/// The cells of one item, in the order in which its fingerprint selects them.
#[derive(Debug, Clone, Copy)]
pub struct CellList {
    cells: [u64; MAX_HASHES as usize],
    len: u8,
}

impl CellList {
    const fn zeroed(len: u8) -> Self {
        Self { cells: [0; MAX_HASHES as usize], len }
    }

    /// Collects at most [`MAX_HASHES`] cells, without repeats.
    #[inline]
    pub(super) fn distinct_from(cells: impl Iterator<Item = u64>) -> Self {
        let mut list = Self::zeroed(0);
        for cell in cells {
            if !list.as_slice().contains(&cell) {
                list.cells[usize::from(list.len)] = cell;
                list.len += 1;
            }
        }
        list
    }

    /// The cells as a slice.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.cells[..usize::from(self.len)]
    }

    /// The same cells without repeats, in order of first occurrence.
    #[inline]
    pub fn distinct(&self) -> Self {
        Self::distinct_from(self.as_slice().iter().copied())
    }
}

/// Maps fingerprints to cells.
///
/// ```
/// use ebb_sketch::filter::structure::layout::{CellHasher, CellLayout};
/// use ebb_sketch::hash::HashKey;
///
/// let hasher = CellHasher::new(CellLayout::in_memory(4096).unwrap(), 4, 5).unwrap();
/// let item = HashKey::new([7; 16]).fingerprint(b"click-1");
/// let line = hasher.line_of(item).unwrap();
/// assert!(hasher.cells_of(item).as_slice().iter().all(|cell| line.contains(cell)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellHasher {
    layout: CellLayout,
    cells: u64,
    cells_per_line: u32,
    hashes: u8,
}

impl CellHasher {
    /// `hashes` cells per item, each `cell_bits` wide (a power of two up to 64).
    pub fn new(layout: CellLayout, cell_bits: u32, hashes: u8) -> Result<Self, ParameterError> {
        const REASON: &str = "the filter would be empty, or larger than a terabyte";
        let cells_per_line = 512 / cell_bits;
        check_range("hashes", hashes, 1..=MAX_HASHES, "an item needs a cell, and more than 16 do not pay off")?;
        let cells = match layout {
            CellLayout::Lines(lines) => {
                let max = MAX_CELLS / u64::from(cells_per_line);
                check_range("lines", lines, 1..=max, REASON)? * u64::from(cells_per_line)
            }
            CellLayout::Spread(cells) => check_range("cells", cells, 1..=MAX_CELLS, REASON)?,
        };
        Ok(Self { layout, cells, cells_per_line, hashes })
    }

    /// Where the cells lie.
    #[inline]
    pub fn layout(&self) -> CellLayout {
        self.layout
    }

    /// Total number of cells.
    #[inline]
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// Cells per item, repeats included.
    #[inline]
    pub fn hashes(&self) -> u8 {
        self.hashes
    }

    /// The cells of an item; some may coincide.
    #[inline]
    pub fn cells_of(&self, item: Fingerprint) -> CellList {
        match self.layout {
            CellLayout::Lines(lines) => self.cells_in_line(item, lines),
            CellLayout::Spread(cells) => self.spread_cells(item, cells),
        }
    }

    /// The cells of the line that an item maps to; `None` for a spread layout.
    pub fn line_of(&self, item: Fingerprint) -> Option<std::ops::Range<u64>> {
        match self.layout {
            CellLayout::Spread(_) => None,
            CellLayout::Lines(lines) => {
                let width = u64::from(self.cells_per_line);
                let start = scale(item.high(), lines) * width;
                Some(start..start + width)
            }
        }
    }

    #[inline]
    fn cells_in_line(&self, item: Fingerprint, lines: u64) -> CellList {
        let start = scale(item.high(), lines) * u64::from(self.cells_per_line);
        let (mask, bits) = (u64::from(self.cells_per_line) - 1, self.cells_per_line.trailing_zeros());
        let mut list = CellList::zeroed(self.hashes);
        let (mut random, mut bits_left) = (item.low(), 64);
        for cell in &mut list.cells[..usize::from(self.hashes)] {
            if bits_left < bits {
                (random, bits_left) = (mix(random ^ item.low()), 64);
            }
            *cell = start + (random & mask);
            random >>= bits;
            bits_left -= bits;
        }
        list
    }

    #[inline]
    fn spread_cells(&self, item: Fingerprint, cells: u64) -> CellList {
        let mut list = CellList::zeroed(self.hashes);
        for (index, cell) in list.cells[..usize::from(self.hashes)].iter_mut().enumerate() {
            *cell = spread_cell(item, index as u64, cells);
        }
        list
    }

    /// The probability that one item maps to one given cell.
    pub fn touch_probability(&self) -> f64 {
        let among = |cells: f64| -libm::expm1(f64::from(self.hashes) * libm::log1p(-1.0 / cells));
        match self.layout {
            CellLayout::Lines(lines) => among(f64::from(self.cells_per_line)) / lines as f64,
            CellLayout::Spread(cells) => among(cells as f64),
        }
    }
}

/// Maps a 64-bit hash to `0..n` without a division.
#[inline]
pub(super) fn scale(hash: u64, n: u64) -> u64 {
    ((u128::from(hash) * u128::from(n)) >> 64) as u64
}

/// The cell that draw number `index` of an item selects among `cells`.
#[inline]
pub(super) fn spread_cell(item: Fingerprint, index: u64, cells: u64) -> u64 {
    scale(mix(item.low().wrapping_add(index)), cells)
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
    fn cells_of_an_item_share_a_line_and_use_all_cells_evenly() {
        for (bits, hashes) in [(1, 16), (4, 7), (64, 4)] {
            let hasher = CellHasher::new(CellLayout::Lines(10), bits, hashes).unwrap();
            let mut hits = vec![0u32; hasher.cells() as usize];
            for item in items(60_000) {
                let line = hasher.line_of(item).unwrap();
                for cell in hasher.cells_of(item).as_slice() {
                    assert!(line.contains(cell));
                    hits[*cell as usize] += 1;
                }
            }
            let mean = 60_000.0 * f64::from(hashes) / hasher.cells() as f64;
            let worst = hits.iter().map(|hit| (f64::from(*hit) - mean).abs() / libm::sqrt(mean)).fold(0.0, f64::max);
            assert!(worst < 5.0, "a cell is {worst} standard deviations off at {bits} bits");
        }
    }

    #[test]
    fn touch_probability_matches_the_observed_frequency() {
        for size in [CellLayout::Lines(3), CellLayout::Spread(37)] {
            let hasher = CellHasher::new(size, 32, 4).unwrap();
            let touched =
                items(100_000).filter(|item| hasher.cells_of(*item).as_slice().contains(&5)).count() as f64 / 1e5;
            let expected = hasher.touch_probability();
            assert!((touched - expected).abs() < 5.0 * libm::sqrt(expected / 1e5), "{touched} {expected}");
        }
    }

    #[test]
    fn distinct_keeps_first_occurrences() {
        let list = CellList { cells: std::array::from_fn(|i| [5, 3, 5, 9, 3, 1].get(i).copied().unwrap_or(0)), len: 6 };
        assert_eq!(list.distinct().as_slice(), [5, 3, 9, 1]);
    }

    #[test]
    fn invalid_layouts_report_the_nearest_valid_value() {
        assert_eq!(CellHasher::new(CellLayout::Spread(0), 1, 3).unwrap_err().nearest, "1");
        assert_eq!(CellHasher::new(CellLayout::Lines(0), 1, 3).unwrap_err().nearest, "1");
        assert_eq!(CellHasher::new(CellLayout::Spread(9), 1, 0).unwrap_err().nearest, "1");
        assert_eq!(CellHasher::new(CellLayout::Spread(9), 1, 17).unwrap_err().nearest, "16");
        assert_eq!(CellLayout::in_memory(63).unwrap_err().nearest, "64");
        assert_eq!(CellLayout::in_memory(130), Ok(CellLayout::Lines(2)));
        assert!(CellHasher::new(CellLayout::Lines(u64::MAX), 1, 3).is_err());
    }
}
