//! The published insertion into a q-digest: a range gets descendants only when it is full.
//!
//! Of a path from the root a prefix is present and the rest absent, so the deepest present range is found by bisection. The
//! number of nodes never exceeds 2 · weight / capacity + one per root. Nodes are kept in post-order (by right end, narrow
//! ranges first), the order in which replicated levels drop them.

use std::collections::BTreeMap;

use crate::aggregate::qdigest::Mass;
use crate::aggregate::qdigest::tree::{DyadicRange, Forest, Node};

/// The last position of a range, then its width as a power of two.
type PostOrderKey = (u64, u8);

/// A forest of dyadic ranges that fills from the top. Every range but the leaves has the same capacity.
///
/// ```
/// use ebb_sketch::aggregate::paper::fill_tree::FillTree;
///
/// let mut tree = FillTree::new(8, 10.0);
/// (0..30).for_each(|_| tree.insert(77, 1.0));
/// // The root and its child are full; the grandchild holds the rest.
/// let weights: Vec<f64> = tree.ranges().map(|(_, _, weight)| *weight).collect();
/// assert_eq!((tree.weight(), weights), (30.0, vec![10.0, 10.0, 10.0]));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FillTree<M> {
    height: u8,
    range_capacity: f64,
    nodes: BTreeMap<PostOrderKey, M>,
}

fn key_of(position: u64, width: u8) -> PostOrderKey {
    (position | ((1 << width) - 1), width)
}

impl<M: Mass> FillTree<M> {
    /// An empty tree over positions below 2^`height` (and further roots beyond).
    pub fn new(height: u8, range_capacity: f64) -> Self {
        Self { height, range_capacity, nodes: BTreeMap::new() }
    }

    /// The weight at which a range is full.
    pub fn range_capacity(&self) -> f64 {
        self.range_capacity
    }

    /// The number of ranges.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no range.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Low end, high end and mass of every range, in post-order.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, &M)> {
        self.nodes.iter().map(|(&(high, width), mass)| (high - ((1 << width) - 1), high, mass))
    }

    /// The weight of all ranges.
    pub fn weight(&self) -> f64 {
        self.nodes.values().map(Mass::weight).sum()
    }

    /// Fills the deepest present range around `position`, then moves the rest down.
    pub fn insert(&mut self, position: u64, mut mass: M) {
        let (mut present, mut absent) = (0, self.height + 1);
        while present < absent {
            let middle = (present + absent) / 2;
            let key = key_of(position, self.height - middle);
            if self.nodes.contains_key(&key) { present = middle + 1 } else { absent = middle }
        }
        let mut width = self.height - present.saturating_sub(1);
        loop {
            let key = key_of(position, width);
            let filled = self.nodes.get(&key).map_or(0.0, Mass::weight);
            let room = self.range_capacity - filled;
            if width == 0 || room >= mass.weight() {
                self.add(key, mass);
                return;
            }
            if room > 0.0 {
                let part = mass.split_off(room);
                self.add(key, part);
            }
            width -= 1;
        }
    }

    fn add(&mut self, key: PostOrderKey, mass: M) {
        match self.nodes.get_mut(&key) {
            Some(present) => present.merge(mass),
            None => {
                self.nodes.insert(key, mass);
            }
        }
    }

    /// The right end of the last range to remove so that `keep` remain.
    pub fn cut_keeping(&self, keep: usize) -> Option<u64> {
        let last_removed = self.nodes.len().checked_sub(keep)?.checked_sub(1)?;
        self.nodes.keys().nth(last_removed).map(|(high, _)| *high)
    }

    /// Removes the ranges that end at or before `cut`.
    pub fn remove_through(&mut self, cut: u64) {
        if let Some(next) = cut.checked_add(1) {
            self.nodes = self.nodes.split_off(&(next, 0));
        }
    }

    /// The same mass in ranges of a larger capacity.
    pub fn compressed(&self, range_capacity: f64) -> Self {
        let mut forest = self.forest();
        forest.compress(range_capacity);
        Self::from_forest(forest, range_capacity)
    }

    pub(crate) fn forest(&self) -> Forest<M> {
        let node = |(&(high, width), mass): (&PostOrderKey, &M)| Node {
            range: DyadicRange::new(self.height - width, high - ((1 << width) - 1)),
            mass: mass.clone(),
        };
        let mut nodes: Vec<Node<M>> = self.nodes.iter().map(node).collect();
        nodes.sort_by_key(|node| node.range);
        Forest { height: self.height, nodes }
    }

    pub(crate) fn from_forest(forest: Forest<M>, range_capacity: f64) -> Self {
        let height = forest.height;
        let key = |range: DyadicRange| (range.high(height), height - range.depth());
        Self { height, range_capacity, nodes: forest.nodes.into_iter().map(|n| (key(n.range), n.mass)).collect() }
    }
}
