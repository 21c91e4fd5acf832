//! The digits beyond the first of each cell, in one open-addressing table of fixed size.
//!
//! An entry is a digit under the key (cell, place). The key takes the place of the paper's lookup table and of its next
//! pointers: the digit at place 2 of a cell is found by its key, not through the digit at place 1. Linear probing with a
//! fixed hash; a removal shifts later entries back. Where an entry lies is not part of the state.

use super::packed::PackedArray;
use crate::filter::structure::layout::scale;
use crate::random::mix;

/// The number of bits of the largest value of a cell, digits of the pool included.
pub const VALUE_BITS: u32 = 48;

/// How the entries of a pool are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PoolShape {
    digit_bits: u32,
    /// Digits of the largest value beyond its first.
    places: u64,
    /// Bits of a key; the key 0 marks an empty slot.
    key_bits: u32,
    /// At least one slot is always empty, so that every search ends.
    slots: u64,
}

impl PoolShape {
    fn new(cells: u64, digit_bits: u32, digits: u32) -> Self {
        let places = u64::from(VALUE_BITS.div_ceil(digit_bits) - 1);
        let key_bits = u64::BITS - (cells * places).leading_zeros();
        Self { digit_bits, places, key_bits, slots: (u64::from(digits) * 5).div_ceil(4) + 1 }
    }

    fn entry_bits(&self) -> u32 {
        self.key_bits + self.digit_bits
    }
}

/// At most `digits` digits, in four of five slots.
#[derive(Debug, Clone)]
pub struct DigitPool {
    shape: PoolShape,
    /// Key and, in the low bits, digit.
    entries: PackedArray,
    digits: u32,
    used: u32,
}

impl DigitPool {
    /// Room for `digits` digits of `digit_bits` bits, shared by `cells` cells.
    pub fn new(cells: u64, digit_bits: u32, digits: u32) -> Self {
        let shape = PoolShape::new(cells, digit_bits, digits);
        Self { shape, entries: PackedArray::zeroed(shape.slots, shape.entry_bits()), digits, used: 0 }
    }

    /// Bytes of a pool.
    pub fn bytes_for(cells: u64, digit_bits: u32, digits: u32) -> u64 {
        let shape = PoolShape::new(cells, digit_bits, digits);
        PackedArray::bytes_for(shape.slots, shape.entry_bits())
    }

    pub fn bytes(&self) -> u64 {
        self.entries.bytes()
    }

    pub fn capacity(&self) -> u32 {
        self.digits
    }

    pub fn used(&self) -> u32 {
        self.used
    }

    /// The digit of a cell at `place`, which starts at 1.
    #[inline]
    pub fn get(&self, cell: u64, place: u32) -> Option<u64> {
        let key = self.key(cell, place)?;
        let entry = self.entries.get(self.find(key));
        (entry != 0).then_some(entry & self.max_digit())
    }

    /// Replaces or adds a digit; an added one must have room.
    pub fn put(&mut self, cell: u64, place: u32, digit: u64) {
        let Some(key) = self.key(cell, place) else { return };
        let slot = self.find(key);
        self.used += u32::from(self.entries.get(slot) == 0);
        debug_assert!(self.used <= self.digits, "the pool is exhausted");
        self.entries.put(slot, key << self.shape.digit_bits | digit);
    }

    /// Removes a digit and shifts later entries back, so that no search ends early.
    pub fn remove(&mut self, cell: u64, place: u32) {
        let Some(mut gap) = self.key(cell, place).map(|key| self.find(key)) else { return };
        if self.entries.get(gap) == 0 {
            return;
        }
        self.used -= 1;
        let mut slot = gap;
        loop {
            self.entries.put(gap, 0);
            loop {
                slot = self.after(slot);
                let entry = self.entries.get(slot);
                if entry == 0 {
                    return;
                }
                let home = self.home(entry >> self.shape.digit_bits);
                if self.distance(home, slot) >= self.distance(gap, slot) {
                    break;
                }
            }
            let moved = self.entries.get(slot);
            self.entries.put(gap, moved);
            gap = slot;
        }
    }

    /// The cells with a digit at place 1, in no particular order.
    pub fn cells(&self) -> impl Iterator<Item = u64> {
        let keys = (0..self.shape.slots).map(|slot| self.entries.get(slot) >> self.shape.digit_bits);
        keys.filter(|key| *key > 0 && (key - 1) % self.shape.places == 0).map(|key| (key - 1) / self.shape.places)
    }

    fn max_digit(&self) -> u64 {
        (1 << self.shape.digit_bits) - 1
    }

    /// None for a place that no value reaches.
    #[inline]
    fn key(&self, cell: u64, place: u32) -> Option<u64> {
        let place = u64::from(place);
        (place <= self.shape.places).then(|| cell * self.shape.places + place)
    }

    fn home(&self, key: u64) -> u64 {
        scale(mix(key), self.shape.slots)
    }

    fn after(&self, slot: u64) -> u64 {
        if slot + 1 == self.shape.slots { 0 } else { slot + 1 }
    }

    /// Forward distance between two slots.
    fn distance(&self, from: u64, to: u64) -> u64 {
        if to >= from { to - from } else { to + self.shape.slots - from }
    }

    /// The slot of a key, or the empty slot for it.
    #[inline]
    fn find(&self, key: u64) -> u64 {
        let mut slot = self.home(key);
        loop {
            let found = self.entries.get(slot) >> self.shape.digit_bits;
            if found == key || found == 0 {
                return slot;
            }
            slot = self.after(slot);
        }
    }

    #[cfg(test)]
    pub(super) fn occupied_slots(&self) -> u64 {
        (0..self.shape.slots).filter(|slot| self.entries.get(*slot) != 0).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_pool_matches_a_map(
            steps in prop::collection::vec((0u64..10, 1u32..4, any::<bool>()), 1..400), digit_bits in 9u32..16,
        ) {
            let (mut pool, mut map) = (DigitPool::new(10, digit_bits, 24), BTreeMap::new());
            for (index, (cell, place, put)) in steps.into_iter().enumerate() {
                let digit = index as u64 % 500;
                if put && (map.len() < 24 || map.contains_key(&(cell, place))) {
                    pool.put(cell, place, digit);
                    map.insert((cell, place), digit);
                } else {
                    pool.remove(cell, place);
                    map.remove(&(cell, place));
                }
                prop_assert_eq!(pool.used() as usize, map.len());
                let all = (0..10).flat_map(|cell| (1..4).map(move |place| (cell, place)));
                prop_assert!(all.clone().all(|(cell, place)| pool.get(cell, place) == map.get(&(cell, place)).copied()));
            }
            let mut cells: Vec<u64> = pool.cells().collect();
            cells.sort_unstable();
            let first: Vec<u64> = map.keys().filter(|(_, place)| *place == 1).map(|(cell, _)| *cell).collect();
            prop_assert_eq!(cells, first);
        }
    }

    #[test]
    fn entries_of_the_largest_arrays_fit_into_a_word() {
        for digit_bits in 1..=16 {
            let shape = PoolShape::new(1 << 32, digit_bits, u32::MAX);
            assert!(shape.entry_bits() <= super::super::packed::MAX_BITS, "{digit_bits}: {shape:?}");
        }
    }
}
