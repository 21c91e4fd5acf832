//! The paper's insertion: a range gets descendants only when it is full.
//!
//! Every prefix of a path from the root is present or absent as a whole, so the deepest present range is found by
//! bisection. Nodes never exceed 2 · weight / gamma + one per root. Kept in post-order (by right end, narrow ranges first),
//! the order in which replicated levels forget.

use std::collections::BTreeMap;

use super::tree::{Forest, Mass, Node, Range};

/// Post-order place of a range: its last position, then its width as a power of two.
type Place = (u64, u8);

/// A forest filled from the top, with a fixed capacity `gamma` for every range but the leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct FillTree<M> {
    height: u8,
    gamma: f64,
    nodes: BTreeMap<Place, M>,
}

impl<M: Mass> FillTree<M> {
    pub fn new(height: u8, gamma: f64) -> Self {
        Self { height, gamma, nodes: BTreeMap::new() }
    }

    pub fn gamma(&self) -> f64 {
        self.gamma
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Low end, high end and mass of every range, in post-order.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, &M)> {
        self.nodes.iter().map(|(&(high, width), mass)| (high - ((1 << width) - 1), high, mass))
    }

    pub fn weight(&self) -> f64 {
        self.nodes.values().map(Mass::weight).sum()
    }

    fn place(&self, position: u64, width: u8) -> Place {
        (position | ((1 << width) - 1), width)
    }

    /// Fills the deepest present range around `position`, then splits what is left downward.
    pub fn insert(&mut self, position: u64, mut mass: M) {
        let (mut present, mut absent) = (0, self.height + 1);
        while present < absent {
            let middle = (present + absent) / 2;
            let place = self.place(position, self.height - middle);
            if self.nodes.contains_key(&place) { present = middle + 1 } else { absent = middle }
        }
        let mut width = self.height - present.saturating_sub(1);
        loop {
            let place = self.place(position, width);
            let held = self.nodes.get(&place).map_or(0.0, Mass::weight);
            let room = self.gamma - held;
            if width == 0 || room >= mass.weight() {
                self.add(place, mass);
                return;
            }
            if room > 0.0 {
                let part = mass.take(room);
                self.add(place, part);
            }
            width -= 1;
        }
    }

    fn add(&mut self, place: Place, mass: M) {
        match self.nodes.get_mut(&place) {
            Some(held) => held.absorb(mass),
            None => {
                self.nodes.insert(place, mass);
            }
        }
    }

    /// The right end of the last range that must go so that `keep` remain, in post-order.
    pub fn cut_keeping(&self, keep: usize) -> Option<u64> {
        let going = self.nodes.len().checked_sub(keep)?.checked_sub(1)?;
        self.nodes.keys().nth(going).map(|(high, _)| *high)
    }

    /// Forgets the ranges that end at or before `cut`.
    pub fn drop_through(&mut self, cut: u64) {
        if let Some(next) = cut.checked_add(1) {
            self.nodes = self.nodes.split_off(&(next, 0));
        }
    }

    /// The same mass in ranges of a larger capacity.
    pub fn raised(&self, gamma: f64) -> Self {
        let mut forest = self.forest();
        forest.compress(gamma);
        Self::from_forest(forest, gamma)
    }

    pub(crate) fn forest(&self) -> Forest<M> {
        let node = |(&(high, width), mass): (&Place, &M)| Node {
            range: Range::new(self.height - width, high - ((1 << width) - 1)),
            mass: mass.clone(),
        };
        let mut nodes: Vec<Node<M>> = self.nodes.iter().map(node).collect();
        nodes.sort_by_key(|node| node.range);
        Forest { height: self.height, nodes }
    }

    pub(crate) fn from_forest(forest: Forest<M>, gamma: f64) -> Self {
        let height = forest.height;
        let place = |range: Range| (range.high(height), height - range.depth());
        Self { height, gamma, nodes: forest.nodes.into_iter().map(|n| (place(n.range), n.mass)).collect() }
    }
}
