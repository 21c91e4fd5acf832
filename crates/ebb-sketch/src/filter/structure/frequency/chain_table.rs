//! Maps a cell to the first node of its chain: a fixed-size hash table with linear probing and a fixed hash.

use crate::random::mix;

const EMPTY: u32 = u32::MAX;

/// At most as many entries as it was created for, in at most four of five slots.
#[derive(Debug, Clone)]
pub struct ChainTable {
    /// (cell, node); a node is never `EMPTY`.
    slots: Vec<(u32, u32)>,
}

impl ChainTable {
    pub fn with_capacity(entries: u32) -> Self {
        let slots = (entries as usize * 5).div_ceil(4) + 1;
        Self { slots: vec![(0, EMPTY); slots] }
    }

    pub fn bytes(&self) -> usize {
        self.slots.len() * 8
    }

    fn home(&self, cell: u32) -> usize {
        ((u128::from(mix(u64::from(cell))) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// Forward distance between two slots.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }

    /// The slot of a cell, or the empty slot for it; there always is one.
    fn find(&self, cell: u32) -> usize {
        let mut slot = self.home(cell);
        while self.slots[slot].1 != EMPTY && self.slots[slot].0 != cell {
            slot = self.after(slot);
        }
        slot
    }

    pub fn get(&self, cell: u32) -> Option<u32> {
        let (_, node) = self.slots[self.find(cell)];
        (node != EMPTY).then_some(node)
    }

    pub fn insert(&mut self, cell: u32, node: u32) {
        let slot = self.find(cell);
        self.slots[slot] = (cell, node);
    }

    /// Removes a cell and shifts later entries back, so that no search ends early.
    pub fn remove(&mut self, cell: u32) {
        let mut gap = self.find(cell);
        let mut slot = gap;
        loop {
            self.slots[gap].1 = EMPTY;
            loop {
                slot = self.after(slot);
                let (other, node) = self.slots[slot];
                if node == EMPTY {
                    return;
                }
                if self.distance(self.home(other), slot) >= self.distance(gap, slot) {
                    break;
                }
            }
            self.slots[gap] = self.slots[slot];
            gap = slot;
        }
    }

    /// Every (cell, node), cells ascending.
    pub fn sorted(&self) -> Vec<(u32, u32)> {
        let mut entries: Vec<(u32, u32)> = self.slots.iter().copied().filter(|(_, node)| *node != EMPTY).collect();
        entries.sort_unstable();
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_table_matches_a_map(steps in prop::collection::vec((0u32..40, any::<bool>()), 1..400)) {
            let (mut table, mut map) = (ChainTable::with_capacity(24), BTreeMap::new());
            for (index, (cell, put)) in steps.into_iter().enumerate() {
                if put && (map.len() < 24 || map.contains_key(&cell)) {
                    table.insert(cell, index as u32);
                    map.insert(cell, index as u32);
                } else {
                    table.remove(cell);
                    map.remove(&cell);
                }
                prop_assert!((0..40).all(|cell| table.get(cell) == map.get(&cell).copied()));
            }
            prop_assert_eq!(table.sorted(), map.into_iter().collect::<Vec<_>>());
        }
    }
}
