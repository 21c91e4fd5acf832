//! Small numbers packed into 64-bit words: the memory of a timing filter.
//!
//! A word holds as many whole cells as fit, lowest bits first; what is left over stays 0. The memory is mapped, not
//! allocated: huge pages are asked for, and a fresh map is how everything is forgotten at once.

use memmap2::MmapMut;

use super::spec::{TimingError, TimingSpec};

#[derive(Debug)]
pub(super) struct Cells {
    map: MmapMut,
    bits: u8,
    cells: u64,
}

fn map(bytes: u64) -> Result<MmapMut, TimingError> {
    let no_memory = |why: String| TimingError::NoMemory { bytes, why };
    let length = usize::try_from(bytes).map_err(|e| no_memory(e.to_string()))?;
    let map = MmapMut::map_anon(length).map_err(|e| no_memory(e.to_string()))?;
    // A refusal costs speed, never an answer.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

impl Cells {
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

    /// The cache lines: only meaningful when the layout is in lines.
    pub(super) fn lines(&self) -> &[[u8; 64]] {
        self.map.as_chunks::<64>().0
    }

    pub(super) fn lines_mut(&mut self) -> &mut [[u8; 64]] {
        self.map.as_chunks_mut::<64>().0
    }

    fn words(&self) -> &[[u8; 8]] {
        self.map.as_chunks::<8>().0
    }

    /// Word and shift of a cell. The divisors are constants, so that no division is left.
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

    /// Sets every cell of `from..to` that holds one of `values` (none of them 0) to 0 and calls `cleared(value, count)`.
    pub(super) fn clear_values(&mut self, from: u64, to: u64, values: &[u8], mut cleared: impl FnMut(u8, u64)) {
        if from >= to || values.is_empty() {
            return;
        }
        let (lanes, mask) = (Lanes::new(self.bits), self.mask());
        let ((first, start), (last, end)) = (self.position(from), self.position(to));
        let words = self.map.as_chunks_mut::<8>().0;
        let end_of_words = if end == 0 { last } else { last + 1 };
        let mut counts = [0u64; 256];
        for (index, word) in words[first..end_of_words].iter_mut().enumerate() {
            let mut within = u64::MAX;
            if index == 0 {
                within &= u64::MAX << start;
            }
            if end != 0 && first + index == last {
                within &= (1 << end) - 1;
            }
            let old = u64::from_le_bytes(*word);
            if old == 0 {
                continue;
            }
            let mut new = old;
            for &value in values {
                let found = lanes.equal(old, value) & within;
                if found != 0 {
                    counts[usize::from(value)] += u64::from(found.count_ones());
                    new &= !(found * mask);
                }
            }
            if new != old {
                *word = new.to_le_bytes();
            }
        }
        values.iter().for_each(|&value| cleared(value, counts[usize::from(value)]));
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        match map(self.map.len() as u64) {
            Ok(fresh) => self.map = fresh,
            Err(_) => self.map.fill(0),
        }
    }
}

/// Constants for looking at all cells of a word at once.
struct Lanes {
    bits: u32,
    /// The lowest bit of each cell.
    ones: u64,
}

impl Lanes {
    fn new(bits: u8) -> Self {
        let bits = u32::from(bits);
        Self { bits, ones: (0..64 / bits).fold(0, |ones, lane| ones | 1 << (lane * bits)) }
    }

    /// The lowest bit of every cell that holds `value`.
    fn equal(&self, word: u64, value: u8) -> u64 {
        let top = self.bits - 1;
        let low = self.ones * ((1 << top) - 1);
        let difference = word ^ (self.ones * u64::from(value));
        // The sum carries into the top bit of a cell exactly when its lower bits are not all 0, and never further.
        let occupied = ((difference & low) + low) | difference;
        (!occupied >> top) & self.ones
    }
}
