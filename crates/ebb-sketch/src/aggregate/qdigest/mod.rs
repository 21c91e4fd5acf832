//! q-digest: the distribution of weight over the values `0 .. 2^bits`, in bounded space.
//!
//! Guarantees: the rank of any value always lies within its bounds, which are at most `beta` of the total weight apart.
//! Digests merge (their errors add up) and scale. A digest knows nothing of time. Values are buffered, sorted and folded
//! into the tree in batches; the published insertion is [`paper::fill_tree`](super::paper::fill_tree).

mod codec;
pub(crate) mod tree;
mod trie;

pub use tree::{DyadicRange, Mass};
use tree::{Forest, Node};

use super::error::ShapeError;
use super::reading::{Assurance, CellValues, DecayFactor, ValueRange, Values};

/// The most bits of a value.
pub const MAX_VALUE_BITS: u8 = 32;

/// The domain and the accuracy of a digest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DigestShape {
    bits: u8,
    beta: f64,
}

impl DigestShape {
    /// Values below 2^`bits`, with bounds of a rank at most `beta` of the total apart (half of it around the estimate).
    pub fn new(bits: u8, beta: f64) -> Result<Self, ShapeError> {
        if !(1..=MAX_VALUE_BITS).contains(&bits) {
            return Err(ShapeError::Bits { bits, nearest: bits.clamp(1, MAX_VALUE_BITS) });
        }
        Ok(Self { bits, beta: ShapeError::check_share("beta", beta)? })
    }

    /// Bits of a value.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// The distance of the bounds of a rank, as a share of the total.
    pub fn beta(self) -> f64 {
        self.beta
    }

    /// The largest value of the domain.
    pub fn max_value(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// The number of nodes above which the tree is compressed; at most half of them remain.
    pub fn max_nodes(self) -> usize {
        (4.0 * f64::from(self.bits) / self.beta) as usize + 2
    }

    /// Values that are buffered before they are folded into the tree.
    fn batch(self) -> usize {
        self.max_nodes().clamp(64, 2048)
    }
}

/// A q-digest. Weights must be finite and above 0, values within the domain; sketches that own digests check this.
///
/// ```
/// use ebb_sketch::aggregate::qdigest::{DigestShape, QDigest};
///
/// let mut digest = QDigest::new(DigestShape::new(10, 0.02)?);
/// (0..1_000).for_each(|value| digest.insert(value, 1.0));
/// let median = digest.reading().quantile(0.5)?.expect("not empty");
/// assert!((490..=510).contains(&median.value));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct QDigest {
    shape: DigestShape,
    forest: Forest<f64>,
    /// The weight of the forest.
    folded: f64,
    buffer: Vec<(u32, f64)>,
}

impl QDigest {
    /// An empty digest.
    pub fn new(shape: DigestShape) -> Self {
        Self { shape, forest: Forest::new(shape.bits), folded: 0.0, buffer: Vec::new() }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> DigestShape {
        self.shape
    }

    /// The total weight.
    pub fn weight(&self) -> f64 {
        self.folded + self.buffer.iter().map(|(_, weight)| weight).sum::<f64>()
    }

    /// Nodes and buffered values.
    pub fn len(&self) -> usize {
        self.forest.nodes.len() + self.buffer.len()
    }

    /// Whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of nodes with the buffer folded in: the size that the papers report.
    pub fn folded_len(&self) -> usize {
        let mut folded = self.clone();
        folded.fold();
        folded.forest.nodes.len()
    }

    /// Adds weight to a value.
    pub fn insert(&mut self, value: u64, weight: f64) {
        debug_assert!(value <= self.shape.max_value() && weight > 0.0 && weight.is_finite());
        self.buffer.push((value as u32, weight));
        if self.buffer.len() >= self.shape.batch() {
            self.fold();
        }
    }

    /// Folds the buffer into the tree, and compresses the tree if it exceeds its limit.
    fn fold(&mut self) {
        self.fold_buffer();
        if self.forest.nodes.len() > self.shape.max_nodes() {
            self.compress();
        }
    }

    fn fold_buffer(&mut self) {
        self.buffer.sort_unstable_by_key(|(value, weight)| (*value, weight.to_bits()));
        let mut leaves: Vec<Node<f64>> = Vec::with_capacity(self.buffer.len());
        for (value, weight) in self.buffer.drain(..) {
            let range = DyadicRange::new(self.shape.bits, u64::from(value));
            match leaves.last_mut() {
                Some(leaf) if leaf.range == range => leaf.mass += weight,
                _ => leaves.push(Node { range, mass: weight }),
            }
        }
        self.forest.add_sorted(leaves);
        // Recomputed each time: rounding would make a running total drift from the nodes.
        self.folded = self.forest.weight();
    }

    /// Moves weight up until at most 2 · bits / beta + 1 nodes remain, unless that would create nodes.
    pub fn compress(&mut self) {
        self.fold_buffer();
        self.compress_forest(self.shape.beta * self.folded / f64::from(self.shape.bits), Growth::Rejected);
    }

    /// Compresses at a given range capacity, even if that creates nodes.
    pub fn compress_at(&mut self, range_capacity: f64) {
        self.fold_buffer();
        self.compress_forest(range_capacity, Growth::Accepted);
    }

    fn compress_forest(&mut self, range_capacity: f64, growth: Growth) {
        let before = self.forest.nodes.clone();
        self.forest.compress(range_capacity);
        if growth == Growth::Rejected && self.forest.nodes.len() >= before.len() {
            self.forest.nodes = before;
        }
        self.folded = self.forest.weight();
    }

    /// Adds another digest of the same domain. The errors add up.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!(self.shape, other.shape);
        if !other.forest.nodes.is_empty() {
            self.forest.add_sorted(other.forest.nodes);
            self.folded = self.forest.weight();
        }
        // Buffers stay unsorted: sorting on every merge of small digests would cost more than the whole stream.
        if self.buffer.is_empty() {
            self.buffer = other.buffer;
        } else {
            self.buffer.extend_from_slice(&other.buffer);
        }
        if self.buffer.len() >= self.shape.batch() || self.forest.nodes.len() > self.shape.max_nodes() {
            self.fold();
        }
    }

    /// Multiplies every weight.
    pub fn scale(&mut self, factor: f64) {
        self.forest.nodes.iter_mut().for_each(|node| node.mass *= factor);
        self.buffer.iter_mut().for_each(|(_, weight)| *weight *= factor);
        // A very small factor may underflow weights to zero.
        self.forest.nodes.retain(|node| node.mass > 0.0);
        self.buffer.retain(|(_, weight)| *weight > 0.0);
        self.folded = self.forest.weight();
    }

    /// Splits off this much weight: buffered values and leaves first, so that whole weights stay whole. A compressed tree is
    /// split proportionally, so that the error of neither side exceeds its own `beta`.
    pub(crate) fn split_off(&mut self, weight: f64) -> Self {
        let mut other = Self::new(self.shape);
        let mut missing = weight;
        while missing > 0.0
            && let Some((value, available)) = self.buffer.pop()
        {
            let part = available.min(missing);
            other.buffer.push((value, part));
            missing -= part;
            if part < available {
                self.buffer.push((value, available - part));
            }
        }
        if missing > 0.0 && self.folded > 0.0 {
            other.forest = if self.forest.nodes.iter().all(|node| node.range.depth() == self.shape.bits) {
                self.split_off_leaves(missing)
            } else {
                self.split_off_share((missing / self.folded).min(1.0))
            };
        }
        other.folded = other.forest.weight();
        self.folded = self.forest.weight();
        other
    }

    fn split_off_leaves(&mut self, mut missing: f64) -> Forest<f64> {
        let mut other = Forest::new(self.shape.bits);
        while missing > 0.0
            && let Some(node) = self.forest.nodes.pop()
        {
            let part = node.mass.min(missing);
            other.nodes.push(Node { range: node.range, mass: part });
            missing -= part;
            if part < node.mass {
                self.forest.nodes.push(Node { range: node.range, mass: node.mass - part });
            }
        }
        other.nodes.reverse();
        other
    }

    fn split_off_share(&mut self, share: f64) -> Forest<f64> {
        let mut other = self.forest.clone();
        for (rest, part) in self.forest.nodes.iter_mut().zip(&mut other.nodes) {
            part.mass *= share;
            rest.mass -= part.mass;
        }
        self.forest.nodes.retain(|node| node.mass > 0.0);
        other.nodes.retain(|node| node.mass > 0.0);
        other
    }

    /// Heap id and weight of every node (root 1, children 2v and 2v + 1, leaf 2^bits + value), by id.
    pub fn nodes(&self) -> Vec<(u64, f64)> {
        let numbered = self.forest.nodes.iter().map(|node| (node.range.heap_id(self.shape.bits), node.mass));
        let mut nodes: Vec<(u64, f64)> = numbered.collect();
        nodes.sort_by_key(|(id, _)| *id);
        nodes
    }

    /// Bounds of the weight of the values below `value`.
    pub fn rank_below(&self, value: u64) -> (f64, f64) {
        let bits = self.shape.bits;
        let raw: f64 = self.buffer.iter().filter(|(v, _)| u64::from(*v) < value).map(|(_, weight)| weight).sum();
        let mut bounds = (raw, raw);
        for node in self.forest.nodes.iter().filter(|node| node.range.low() < value) {
            bounds.1 += node.mass;
            if node.range.high(bits) < value {
                bounds.0 += node.mass;
            }
        }
        bounds
    }

    /// Bounds of the weight of one value.
    pub fn frequency(&self, value: u64) -> (f64, f64) {
        let bits = self.shape.bits;
        let mut bounds = (0.0, 0.0);
        let raw = self.buffer.iter().filter(|(v, _)| u64::from(*v) == value).map(|(_, weight)| (bits, *weight));
        let around = self.forest.nodes.iter().filter(|n| (n.range.low()..=n.range.high(bits)).contains(&value));
        for (depth, weight) in raw.chain(around.map(|n| (n.range.depth(), n.mass))) {
            bounds.1 += weight;
            if depth == bits {
                bounds.0 += weight;
            }
        }
        bounds
    }

    /// Ranks, quantiles, frequent values and shares.
    pub fn reading(&self) -> Values {
        let mut ranges = Vec::new();
        self.read(DecayFactor::exact(1.0), &mut ranges);
        let epsilon = self.shape.beta / 2.0;
        let assurance = Assurance { epsilon: Some(epsilon), incomplete: false, cells: ranges.len() as u64 };
        Values::Cells(CellValues::new(ranges, self.shape.max_value(), assurance, epsilon))
    }

    /// Appends the content, decayed by `factor`.
    pub(crate) fn read(&self, factor: DecayFactor, ranges: &mut Vec<ValueRange>) {
        let bits = self.shape.bits;
        let node = |n: &Node<f64>| ValueRange::new(n.range.low(), n.range.high(bits), n.mass, factor);
        ranges.extend(self.forest.nodes.iter().map(node));
        let single = |(v, weight): &(u32, f64)| ValueRange::new(u64::from(*v), u64::from(*v), *weight, factor);
        ranges.extend(self.buffer.iter().map(single));
    }
}

/// Whether a compression may create nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Growth {
    Accepted,
    Rejected,
}

#[cfg(test)]
mod tests;
