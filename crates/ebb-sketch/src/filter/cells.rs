//! Many small numbers side by side, in memory that large arrays get in huge pages.
//!
//! [`Memory`] is zeroed bytes; [`Width`] reads and writes cells of 1, 2, 4 or 8 bits in them. Neither knows what a cell
//! means or which cells belong to an item ([`super::places`]).

use std::fmt;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Below this the allocator serves as well as a mapping of its own.
const MAPPED_FROM_BYTES: usize = 1 << 20;

enum Store {
    Heap(Vec<u8>),
    Mapped(MmapMut),
}

/// Zeroed bytes. Large ones are page-aligned and asked into huge pages: a random access then misses the cache, not the
/// address translation too.
pub struct Memory(Store);

impl Memory {
    pub fn zeroed(bytes: usize) -> Self {
        if bytes >= MAPPED_FROM_BYTES
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            // Advice: where it is refused the pages are small and the answers the same.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Self(Store::Mapped(map));
        }
        Self(Store::Heap(vec![0; bytes]))
    }

    pub fn copied(bytes: &[u8]) -> Self {
        let mut memory = Self::zeroed(bytes.len());
        memory.copy_from_slice(bytes);
        memory
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Store::Heap(bytes) => bytes,
            Store::Mapped(map) => map,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Store::Heap(bytes) => bytes,
            Store::Mapped(map) => map,
        }
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self::copied(self)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.len())
    }
}

/// Cells of 1, 2, 4 or 8 bits, packed from the lowest bits of each byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    log_bits: u8,
}

impl Width {
    pub const BIT: Self = Self { log_bits: 0 };

    /// The narrowest cell that holds `most`.
    pub fn holding(most: u8) -> Self {
        let log_bits = match most {
            0..=1 => 0,
            2..=3 => 1,
            4..=15 => 2,
            16..=255 => 3,
        };
        Self { log_bits }
    }

    pub fn bits(self) -> u32 {
        1 << self.log_bits
    }

    /// The largest value a cell holds.
    pub fn most(self) -> u8 {
        (u16::MAX >> (16 - self.bits())) as u8
    }

    pub fn bytes_for(self, cells: u64) -> usize {
        cells.div_ceil(8 >> self.log_bits) as usize
    }

    /// The byte of a cell, and how far its lowest bit is shifted in it.
    #[inline]
    pub fn locate(self, cell: u64) -> (usize, u32) {
        let log_cells_a_byte = 3 - self.log_bits;
        let within = cell as u32 & ((1 << log_cells_a_byte) - 1);
        ((cell >> log_cells_a_byte) as usize, within << self.log_bits)
    }

    #[inline]
    pub fn get(self, bytes: &[u8], cell: u64) -> u8 {
        let (byte, shift) = self.locate(cell);
        (bytes[byte] >> shift) & self.most()
    }

    #[inline]
    pub fn put(self, bytes: &mut [u8], cell: u64, value: u8) {
        let (byte, shift) = self.locate(cell);
        let cleared = bytes[byte] & !(self.most() << shift);
        bytes[byte] = cleared | ((value & self.most()) << shift);
    }
}

/// Whole numbers and floats kept as little-endian bytes, so that state bytes need no translation.
pub mod words {
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
    fn cells_of_every_width_keep_their_values_and_leave_their_neighbours_alone() {
        for most in [1, 3, 7, 15, 16, 255] {
            let width = Width::holding(most);
            assert!(width.most() >= most && (most == 1 || width.most() / 16 < most));
            let (mut bytes, mut naive) = (vec![0; width.bytes_for(203)], [0u8; 203]);
            let mut random = Random::new(u64::from(most));
            for _ in 0..2_000 {
                let (cell, value) = (random.below(203), random.below(u64::from(most) + 1) as u8);
                width.put(&mut bytes, cell, value);
                naive[cell as usize] = value;
            }
            assert!((0..203).all(|cell| width.get(&bytes, cell) == naive[cell as usize]), "{width:?}");
        }
    }

    #[test]
    fn large_and_small_memory_are_zeroed_and_cloned_alike() {
        for bytes in [0, 1, 4096, MAPPED_FROM_BYTES + 5] {
            let mut memory = Memory::zeroed(bytes);
            assert!(memory.len() == bytes && memory.iter().all(|byte| *byte == 0));
            if let Some(last) = memory.last_mut() {
                *last = 7;
            }
            assert_eq!(*memory.clone(), *memory);
        }
    }

    #[test]
    fn words_are_little_endian_in_place() {
        let mut bytes = [0; 24];
        words::put_f64(&mut bytes, 1, 1.5);
        words::put_u32(&mut bytes, 5, 0xA1B2_C3D4);
        assert_eq!((words::get_f64(&bytes, 1), words::get_u32(&bytes, 5)), (1.5, 0xA1B2_C3D4));
        assert_eq!((bytes[15], bytes[20], bytes[23]), (0x3F, 0xD4, 0xA1));
    }
}
