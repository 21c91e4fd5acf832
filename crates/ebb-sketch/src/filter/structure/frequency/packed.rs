//! Unsigned integers of a fixed number of bits, packed without gaps.

use crate::filter::structure::cells::CellMemory;

/// Bytes after the last value, so that each value can be read with one load of eight bytes.
const PADDING: u64 = 7;
/// With more bits a value would not fit into eight bytes at every bit position.
pub const MAX_BITS: u32 = 57;

/// A fixed number of values, all of the same width; zero at first.
#[derive(Debug, Clone)]
pub struct PackedArray {
    bytes: CellMemory,
    bits: u32,
    mask: u64,
}

impl PackedArray {
    /// `len` values of `bits` bits.
    pub fn zeroed(len: u64, bits: u32) -> Self {
        Self::holding(CellMemory::zeroed((Self::value_bytes(len, bits) + PADDING) as usize), bits)
    }

    /// The values that [`PackedArray::values`] returned, in memory of their own.
    pub fn from_values(values: &[u8], bits: u32) -> Self {
        let mut bytes = CellMemory::zeroed(values.len() + PADDING as usize);
        bytes[..values.len()].copy_from_slice(values);
        Self::holding(bytes, bits)
    }

    fn holding(bytes: CellMemory, bits: u32) -> Self {
        debug_assert!((1..=MAX_BITS).contains(&bits), "{bits} bits");
        Self { bytes, bits, mask: u64::MAX >> (64 - bits) }
    }

    /// Bytes of the values alone.
    pub fn value_bytes(len: u64, bits: u32) -> u64 {
        (len * u64::from(bits)).div_ceil(8)
    }

    /// Bytes that an array takes.
    pub fn bytes_for(len: u64, bits: u32) -> u64 {
        CellMemory::allocated(Self::value_bytes(len, bits) + PADDING)
    }

    pub fn bytes(&self) -> u64 {
        CellMemory::allocated(self.bytes.len() as u64)
    }

    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The largest value.
    #[inline]
    pub fn max(&self) -> u64 {
        self.mask
    }

    /// The values as bytes, from the lowest bit of the first byte.
    pub fn values(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - PADDING as usize]
    }

    /// The bytes of the values, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [u8] {
        let values = self.bytes.len() - PADDING as usize;
        &mut self.bytes[..values]
    }

    #[inline]
    fn locate(&self, index: u64) -> (usize, u32) {
        let bit = index * u64::from(self.bits);
        ((bit >> 3) as usize, bit as u32 & 7)
    }

    #[inline]
    pub fn get(&self, index: u64) -> u64 {
        let (at, shift) = self.locate(index);
        load(&self.bytes, at) >> shift & self.mask
    }

    /// Replaces a value; `value` is at most [`PackedArray::max`].
    #[inline]
    pub fn put(&mut self, index: u64, value: u64) {
        debug_assert!(value <= self.mask, "{value} has more than {} bits", self.bits);
        let (at, shift) = self.locate(index);
        let word = load(&self.bytes, at) & !(self.mask << shift) | value << shift;
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}

#[inline]
fn load(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn values_are_read_back_and_do_not_affect_neighbours() {
        for bits in 1..=MAX_BITS {
            let (mut packed, mut naive) = (PackedArray::zeroed(203, bits), [0u64; 203]);
            let mut random = Random::new(u64::from(bits));
            for _ in 0..2_000 {
                let (index, value) = (random.below(203), random.next_u64() & packed.max());
                packed.put(index, value);
                naive[index as usize] = value;
            }
            assert!((0..203).all(|index| packed.get(index) == naive[index as usize]), "{bits} bits");
            let copy = PackedArray::from_values(packed.values(), bits);
            assert!((0..203).all(|index| copy.get(index) == naive[index as usize]), "{bits} bits");
            assert_eq!(packed.bytes(), PackedArray::bytes_for(203, bits));
        }
    }

    #[test]
    fn four_bit_values_are_packed_from_the_lowest_bits() {
        let mut packed = PackedArray::zeroed(3, 4);
        (0..3).for_each(|index| packed.put(index, index + 9));
        assert_eq!(packed.values(), [0xa9, 0x0b]);
    }
}
