//! Small integers packed into bytes.
//!
//! [`CellMemory`] is zeroed bytes, in huge pages where it is large; [`CellWidth`] reads and writes cells of 1, 2, 4 or 8 bits
//! in them. Neither knows what a cell means or which cells belong to an item ([`super::layout`] does).

use std::fmt;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Smaller arrays are allocated on the heap.
const MIN_MAPPED_BYTES: usize = 1 << 20;
const PAGE_BYTES: u64 = 4096;

/// Maps zeroed memory and requests huge pages, so that a random access misses the cache but not the TLB.
pub(super) fn map_huge(bytes: usize) -> std::io::Result<MmapMut> {
    let map = MmapMut::map_anon(bytes)?;
    // Without huge pages the filter is slower, not wrong.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

enum Backing {
    Heap(Vec<u8>),
    Mapped(MmapMut),
}

/// Zeroed bytes, mapped in huge pages from 1 MiB on.
pub struct CellMemory(Backing);

impl CellMemory {
    /// This many zero bytes.
    pub fn zeroed(bytes: usize) -> Self {
        if bytes >= MIN_MAPPED_BYTES
            && let Ok(map) = map_huge(bytes)
        {
            return Self(Backing::Mapped(map));
        }
        Self(Backing::Heap(vec![0; bytes]))
    }

    /// Bytes that [`CellMemory::zeroed`] takes for `bytes`: mapped memory comes in pages.
    pub fn allocated(bytes: u64) -> u64 {
        if bytes >= MIN_MAPPED_BYTES as u64 { bytes.next_multiple_of(PAGE_BYTES) } else { bytes }
    }

    /// A copy of `bytes`.
    pub fn copied(bytes: &[u8]) -> Self {
        let mut memory = Self::zeroed(bytes.len());
        memory.copy_from_slice(bytes);
        memory
    }
}

impl Deref for CellMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Backing::Heap(bytes) => bytes,
            Backing::Mapped(map) => map,
        }
    }
}

impl DerefMut for CellMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Backing::Heap(bytes) => bytes,
            Backing::Mapped(map) => map,
        }
    }
}

impl Clone for CellMemory {
    fn clone(&self) -> Self {
        Self::copied(self)
    }
}

impl fmt::Debug for CellMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CellMemory({} bytes)", self.len())
    }
}

/// The width of a cell: 1, 2, 4 or 8 bits, packed from the lowest bits of each byte.
///
/// ```
/// use ebb_sketch::filter::structure::cells::{CellMemory, CellWidth};
///
/// let width = CellWidth::holding(15); // four bits
/// let mut memory = CellMemory::zeroed(width.bytes_for(100));
/// width.put(&mut memory, 7, 9);
/// assert_eq!((width.get(&memory, 7), width.get(&memory, 8), memory.len()), (9, 0, 50));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellWidth {
    log_bits: u8,
}

impl CellWidth {
    /// One bit.
    pub const BIT: Self = Self { log_bits: 0 };

    /// The narrowest width that holds `max`.
    pub fn holding(max: u8) -> Self {
        let log_bits = match max {
            0..=1 => 0,
            2..=3 => 1,
            4..=15 => 2,
            16..=255 => 3,
        };
        Self { log_bits }
    }

    /// Bits per cell.
    pub fn bits(self) -> u32 {
        1 << self.log_bits
    }

    /// The largest value of a cell.
    pub fn max_value(self) -> u8 {
        (u16::MAX >> (16 - self.bits())) as u8
    }

    /// Bytes that hold `cells` cells.
    pub fn bytes_for(self, cells: u64) -> usize {
        cells.div_ceil(8 >> self.log_bits) as usize
    }

    /// The byte of a cell, and the position of its lowest bit in it.
    #[inline]
    pub fn locate(self, cell: u64) -> (usize, u32) {
        let log_cells_per_byte = 3 - self.log_bits;
        let within = cell as u32 & ((1 << log_cells_per_byte) - 1);
        ((cell >> log_cells_per_byte) as usize, within << self.log_bits)
    }

    /// The value of a cell.
    #[inline]
    pub fn get(self, bytes: &[u8], cell: u64) -> u8 {
        let (byte, shift) = self.locate(cell);
        (bytes[byte] >> shift) & self.max_value()
    }

    /// Sets the value of a cell.
    #[inline]
    pub fn put(self, bytes: &mut [u8], cell: u64, value: u8) {
        let (byte, shift) = self.locate(cell);
        let cleared = bytes[byte] & !(self.max_value() << shift);
        bytes[byte] = cleared | ((value & self.max_value()) << shift);
    }
}

/// Integers and floats stored as little-endian bytes, so that the cells are their own encoding.
pub(in crate::filter) mod words {
    #[inline]
    pub fn get_f64(bytes: &[u8], cell: u64) -> f64 {
        f64::from_le_bytes(array(bytes, cell))
    }

    #[inline]
    pub fn put_f64(bytes: &mut [u8], cell: u64, value: f64) {
        put(bytes, cell, value.to_le_bytes());
    }

    #[inline]
    pub fn get_u32(bytes: &[u8], cell: u64) -> u32 {
        u32::from_le_bytes(array(bytes, cell))
    }

    #[inline]
    pub fn put_u32(bytes: &mut [u8], cell: u64, value: u32) {
        put(bytes, cell, value.to_le_bytes());
    }

    #[inline]
    fn array<const N: usize>(bytes: &[u8], cell: u64) -> [u8; N] {
        let at = cell as usize * N;
        let mut out = [0; N];
        out.copy_from_slice(&bytes[at..at + N]);
        out
    }

    #[inline]
    fn put<const N: usize>(bytes: &mut [u8], cell: u64, value: [u8; N]) {
        let at = cell as usize * N;
        bytes[at..at + N].copy_from_slice(&value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn cells_keep_their_values_and_do_not_affect_neighbours() {
        for max in [1, 3, 7, 15, 16, 255] {
            let width = CellWidth::holding(max);
            assert!(width.max_value() >= max && (max == 1 || width.max_value() / 16 < max));
            let (mut bytes, mut naive) = (vec![0; width.bytes_for(203)], [0u8; 203]);
            let mut random = Random::new(u64::from(max));
            for _ in 0..2_000 {
                let (cell, value) = (random.below(203), random.below(u64::from(max) + 1) as u8);
                width.put(&mut bytes, cell, value);
                naive[cell as usize] = value;
            }
            assert!((0..203).all(|cell| width.get(&bytes, cell) == naive[cell as usize]), "{width:?}");
        }
    }

    #[test]
    fn heap_and_mapped_memory_are_zeroed_and_cloned() {
        for bytes in [0, 1, 4096, MIN_MAPPED_BYTES + 5] {
            let mut memory = CellMemory::zeroed(bytes);
            assert!(memory.len() == bytes && memory.iter().all(|byte| *byte == 0));
            if let Some(last) = memory.last_mut() {
                *last = 7;
            }
            assert_eq!(*memory.clone(), *memory);
        }
    }

    #[test]
    fn words_are_stored_little_endian() {
        let mut bytes = [0; 24];
        words::put_f64(&mut bytes, 1, 1.5);
        words::put_u32(&mut bytes, 5, 0xA1B2_C3D4);
        assert_eq!((words::get_f64(&bytes, 1), words::get_u32(&bytes, 5)), (1.5, 0xA1B2_C3D4));
        assert_eq!((bytes[15], bytes[20], bytes[23]), (0x3F, 0xD4, 0xA1));
    }
}
