//! Weight on dyadic ranges: the tree under every q-digest, over values or over time.
//!
//! A forest of `height` halvings keeps its ranges in pre-order (by first position, wide ranges first) in one sorted vector.
//! Mass only moves up, into a wider range: mass at a range always belongs to positions within it, so bounds read from a
//! forest stay valid. A forest does not know what its positions mean.

use super::trie::Trie;

/// Bits of a position; the rest of the word is the depth.
pub(crate) const POSITION_BITS: u32 = 58;

const DEPTH_BITS: u32 = u64::BITS - POSITION_BITS;

/// A dyadic range, encoded as first position and depth, so that ranges sort in pre-order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DyadicRange(u64);

impl DyadicRange {
    pub(crate) fn new(depth: u8, low: u64) -> Self {
        Self(low << DEPTH_BITS | u64::from(depth))
    }

    pub(crate) fn from_code(code: u64) -> Self {
        Self(code)
    }

    pub(crate) fn code(self) -> u64 {
        self.0
    }

    /// Halvings between the root and the range.
    pub fn depth(self) -> u8 {
        (self.0 & ((1 << DEPTH_BITS) - 1)) as u8
    }

    /// The first position of the range.
    pub fn low(self) -> u64 {
        self.0 >> DEPTH_BITS
    }

    /// The last position of the range, in a tree of `height`.
    pub fn high(self, height: u8) -> u64 {
        self.low() + ((1 << (height - self.depth())) - 1)
    }

    /// The number of the range in a single tree whose root is 1 and whose node v has the children 2v and 2v + 1.
    pub fn heap_id(self, height: u8) -> u64 {
        (1 << self.depth()) + (self.low() >> (height - self.depth()))
    }
}

/// The content of a range: it has a weight, merges, and splits.
pub trait Mass: Clone {
    /// The weight.
    fn weight(&self) -> f64;

    /// Adds other mass of the same range.
    fn merge(&mut self, other: Self);

    /// Splits off mass of this weight, which is below the whole. Both parts together are what was there.
    fn split_off(&mut self, weight: f64) -> Self;
}

impl Mass for f64 {
    fn weight(&self) -> f64 {
        *self
    }

    fn merge(&mut self, other: Self) {
        *self += other;
    }

    fn split_off(&mut self, weight: f64) -> Self {
        *self -= weight;
        weight
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node<M> {
    pub range: DyadicRange,
    pub mass: M,
}

/// Nodes in pre-order, each range at most once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forest<M> {
    pub height: u8,
    pub nodes: Vec<Node<M>>,
}

impl<M: Mass> Forest<M> {
    pub fn new(height: u8) -> Self {
        Self { height, nodes: Vec::new() }
    }

    pub fn weight(&self) -> f64 {
        self.nodes.iter().map(|node| node.mass.weight()).sum()
    }

    /// Adds nodes that are sorted in pre-order.
    pub fn add_sorted(&mut self, added: Vec<Node<M>>) {
        let Some(first) = added.first() else { return };
        let start = self.nodes.partition_point(|node| node.range < first.range);
        if start == self.nodes.len() {
            self.nodes.extend(added);
            return;
        }
        let tail = self.nodes.split_off(start);
        self.nodes.reserve(tail.len() + added.len());
        let (mut old, mut new) = (tail.into_iter().peekable(), added.into_iter().peekable());
        while let (Some(a), Some(b)) = (old.peek(), new.peek()) {
            let order = a.range.cmp(&b.range);
            let next = if order.is_le() { old.next() } else { new.next() };
            self.nodes.extend(next);
            if order.is_eq()
                && let (Some(node), Some(twin)) = (self.nodes.last_mut(), new.next())
            {
                node.mass.merge(twin.mass);
            }
        }
        self.nodes.extend(old);
        self.nodes.extend(new);
    }

    /// Removes and returns the ranges that end at or before `cut`, in order.
    pub fn remove_through(&mut self, cut: u64) -> Vec<Node<M>> {
        let height = self.height;
        self.nodes.extract_if(.., |node| node.range.high(height) <= cut).collect()
    }

    /// Moves mass up until every range with descendants holds `range_capacity`. Takes linear time and is deterministic: the
    /// debt of a range is charged to its left child first.
    pub fn compress(&mut self, range_capacity: f64) {
        let trie = Trie::new(self);
        self.nodes = trie.compress(std::mem::take(&mut self.nodes), range_capacity);
    }
}
