//! From a cell to the first of its extra digits: a table of fixed size, probed in line, always laid out by the same hash.

use crate::random::mix;

const EMPTY: u32 = u32::MAX;

/// At most as many entries as it was made for; at most four of five slots are taken.
#[derive(Debug, Clone)]
pub struct Lookup {
    /// (cell, node); a node is never `EMPTY`.
    slots: Vec<(u32, u32)>,
}

impl Lookup {
    pub fn with_room(entries: u32) -> Self {
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

    /// Steps from one slot on to another.
    fn steps(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }

    /// The slot of a cell, or the empty one where it would go: there always is one.
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

    /// Closes the gap, so that no later search ends at it too early.
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
                if self.steps(self.home(other), slot) >= self.steps(gap, slot) {
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
        fn the_table_does_what_a_map_does(steps in prop::collection::vec((0u32..40, any::<bool>()), 1..400)) {
            let (mut table, mut map) = (Lookup::with_room(24), BTreeMap::new());
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
