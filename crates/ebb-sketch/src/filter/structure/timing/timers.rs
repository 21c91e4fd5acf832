//! Timers of 3 to 8 bits packed into 64-bit words.
//!
//! A word holds as many whole cells as fit, lowest bits first; the remaining bits stay 0. The memory is mapped, so that
//! huge pages can be requested and a fresh mapping clears everything at once.

use memmap2::MmapMut;

use super::spec::{TimingError, TimingSpec};
use crate::filter::structure::cells::map_huge;

#[derive(Debug)]
pub(super) struct TimerArray {
    map: MmapMut,
    bits: u8,
    cells: u64,
}

fn map(bytes: u64) -> Result<MmapMut, TimingError> {
    let no_memory = |reason: String| TimingError::NoMemory { bytes, reason };
    let length = usize::try_from(bytes).map_err(|error| no_memory(error.to_string()))?;
    map_huge(length).map_err(|error| no_memory(error.to_string()))
}

impl TimerArray {
    pub(super) fn new(spec: &TimingSpec) -> Result<Self, TimingError> {
        Ok(Self { map: map(spec.memory_bytes())?, bits: spec.timer_bits(), cells: spec.cells() })
    }

    pub(super) fn try_clone(&self) -> Result<Self, TimingError> {
        let mut copy = map(self.map.len() as u64)?;
        copy.copy_from_slice(&self.map);
        Ok(Self { map: copy, bits: self.bits, cells: self.cells })
    }

    pub(super) fn len(&self) -> u64 {
        self.cells
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }

    /// The cache lines; only meaningful for a layout in lines.
    pub(super) fn lines(&self) -> &[[u8; 64]] {
        self.map.as_chunks::<64>().0
    }

    pub(super) fn lines_mut(&mut self) -> &mut [[u8; 64]] {
        self.map.as_chunks_mut::<64>().0
    }

    fn words(&self) -> &[[u8; 8]] {
        self.map.as_chunks::<8>().0
    }

    /// Word and shift of a cell. Constant divisors let the compiler avoid the division.
    fn position(&self, cell: u64) -> (usize, u32) {
        let (word, lane) = match self.bits {
            3 => (cell / 21, cell % 21),
            4 => (cell / 16, cell % 16),
            5 => (cell / 12, cell % 12),
            6 => (cell / 10, cell % 10),
            7 => (cell / 9, cell % 9),
            _ => (cell / 8, cell % 8),
        };
        (word as usize, lane as u32 * u32::from(self.bits))
    }

    fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    pub(super) fn get(&self, cell: u64) -> u8 {
        let (word, shift) = self.position(cell);
        ((u64::from_le_bytes(self.words()[word]) >> shift) & self.mask()) as u8
    }

    pub(super) fn set(&mut self, cell: u64, value: u8) {
        let (word, shift) = self.position(cell);
        let mask = self.mask();
        let bytes = &mut self.map.as_chunks_mut::<8>().0[word];
        let old = u64::from_le_bytes(*bytes);
        *bytes = ((old & !(mask << shift)) | (u64::from(value) << shift)).to_le_bytes();
    }

    /// Clears every cell of `from..to` that holds one of `values` (none of them 0) and reports `cleared(value, count)`.
    pub(super) fn clear_values(&mut self, from: u64, to: u64, values: &[u8], mut cleared: impl FnMut(u8, u64)) {
        if from >= to {
            return;
        }
        let lanes = WordLanes::new(self.bits);
        let ((first, start), (last, end)) = (self.position(from), self.position(to));
        let head = u64::MAX << start;
        let tail = (1u64 << end) - 1;
        let words = self.map.as_chunks_mut::<8>().0;
        for &value in values {
            let count = if first == last {
                lanes.clear(&mut words[first..=first], value, head & tail)
            } else {
                let mut count = lanes.clear(&mut words[first..=first], value, head);
                count += lanes.clear(&mut words[first + 1..last], value, u64::MAX);
                count + if end == 0 { 0 } else { lanes.clear(&mut words[last..=last], value, tail) }
            };
            cleared(value, count);
        }
    }

    /// Clears all cells.
    pub(super) fn clear(&mut self) {
        match map(self.map.len() as u64) {
            Ok(fresh) => self.map = fresh,
            Err(_) => self.map.fill(0),
        }
    }
}

/// Counts the timers of a line whose age is exactly `age`, and those that are younger.
pub(super) fn count_ages(line: &[u8; 64], bits: u8, ages: &[u8; 256], age: u8) -> (u8, u8) {
    let (mask, lanes) = ((1u64 << bits) - 1, 64 / u32::from(bits));
    // A line has at most 168 timers, so no count wraps.
    let (mut exactly, mut younger) = (0u8, 0u8);
    for word in line.as_chunks::<8>().0 {
        let mut word = u64::from_le_bytes(*word);
        for _ in 0..lanes {
            let found = ages[(word & mask) as usize];
            exactly = exactly.wrapping_add(u8::from(found == age));
            younger = younger.wrapping_add(u8::from(found < age));
            word >>= bits;
        }
    }
    (exactly, younger)
}

/// SIMD within a word: every cell is a lane, and no sum or difference crosses into another lane.
struct WordLanes {
    bits: u32,
    /// The lowest bit of each lane.
    ones: u64,
}

impl WordLanes {
    fn new(bits: u8) -> Self {
        let bits = u32::from(bits);
        Self { bits, ones: (0..64 / bits).fold(0, |ones, lane| ones | 1 << (lane * bits)) }
    }

    /// Clears every lane that holds `value` and whose lowest bit is in `within`; returns how many.
    fn clear(&self, words: &mut [[u8; 8]], value: u8, within: u64) -> u64 {
        let (ones, top) = (self.ones, self.bits - 1);
        let low = ones.wrapping_mul((1 << top) - 1);
        let pattern = ones.wrapping_mul(u64::from(value));
        // The lanes of `counts` can count the matches of 2^bits - 1 words.
        words
            .chunks_mut((1 << self.bits) - 1)
            .map(|words| {
                let mut counts = 0u64;
                for word in words {
                    let old = u64::from_le_bytes(*word);
                    let difference = old ^ pattern;
                    // The sum sets a lane's top bit exactly if its lower bits are not all 0.
                    let occupied = (difference & low).wrapping_add(low) | difference;
                    let found = (!occupied >> top) & ones & within;
                    counts = counts.wrapping_add(found);
                    *word = (old & !((found << self.bits).wrapping_sub(found))).to_le_bytes();
                }
                self.sum(counts)
            })
            .sum()
    }

    fn sum(&self, lanes: u64) -> u64 {
        (0..64 / self.bits).map(|lane| (lanes >> (lane * self.bits)) & ((1 << self.bits) - 1)).sum()
    }
}
