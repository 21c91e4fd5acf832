//! q-digest: how weight is spread over the values `0 .. 2^bits`, in space that does not grow.
//!
//! Promises: the rank of any value lies within its bounds, always, and they are at most `beta` of the total weight apart;
//! digests add up (their errors with them) and scale. It does not know about time. Values go leaf-first into a buffer
//! that is sorted and folded in at once; the paper's own insertion is [`FillTree`].

mod codec;
mod fill;
pub(crate) mod tree;
mod trie;

pub use fill::FillTree;
use tree::{Forest, Node};
pub use tree::{Mass, Range};

use super::content::{Band, Factor, ShapeError, Standing, Values};

/// The most bits a value may have.
pub const BITS_MOST: u8 = 32;

/// The domain and the accuracy of a digest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DigestShape {
    bits: u8,
    beta: f64,
}

impl DigestShape {
    /// Values below 2^`bits`, ranks within `beta` of the total (half of it around the estimate).
    pub fn new(bits: u8, beta: f64) -> Result<Self, ShapeError> {
        if !(1..=BITS_MOST).contains(&bits) {
            return Err(ShapeError::Bits { given: bits, nearest: bits.clamp(1, BITS_MOST) });
        }
        let nearest = ShapeError::share("beta", beta)?;
        Ok(Self { bits, beta: nearest })
    }

    pub fn bits(self) -> u8 {
        self.bits
    }

    pub fn beta(self) -> f64 {
        self.beta
    }

    /// The largest value of the domain.
    pub fn value_most(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// After a compress at most half of this many nodes remain.
    pub fn nodes_most(self) -> usize {
        (4.0 * f64::from(self.bits) / self.beta) as usize + 2
    }

    /// Raw values that are kept before they are sorted and folded in.
    fn batch(self) -> usize {
        self.nodes_most().clamp(64, 2048)
    }
}

/// One digest. Weights must be finite and above 0, values in the domain: the methods that own digests see to it.
#[derive(Debug, Clone, PartialEq)]
pub struct QDigest {
    shape: DigestShape,
    forest: Forest<f64>,
    folded: f64,
    buffer: Vec<(u32, f64)>,
}

impl QDigest {
    pub fn new(shape: DigestShape) -> Self {
        Self { shape, forest: Forest::new(shape.bits), folded: 0.0, buffer: Vec::new() }
    }

    pub fn shape(&self) -> DigestShape {
        self.shape
    }

    pub fn weight(&self) -> f64 {
        self.folded + self.buffer.iter().map(|(_, weight)| weight).sum::<f64>()
    }

    /// Nodes and buffered values together.
    pub fn len(&self) -> usize {
        self.forest.nodes.len() + self.buffer.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many nodes there would be with the buffer folded in: what the papers count.
    pub fn folded_len(&self) -> usize {
        let mut folded = self.clone();
        folded.fold();
        folded.forest.nodes.len()
    }

    pub fn insert(&mut self, value: u64, weight: f64) {
        debug_assert!(value <= self.shape.value_most() && weight > 0.0 && weight.is_finite());
        self.buffer.push((value as u32, weight));
        if self.buffer.len() >= self.shape.batch() {
            self.fold();
        }
    }

    /// Sorts the buffer into the tree, and compresses the tree when it has outgrown its bound.
    fn fold(&mut self) {
        self.absorb_buffer();
        if self.forest.nodes.len() > self.shape.nodes_most() {
            self.compress();
        }
    }

    fn absorb_buffer(&mut self) {
        self.buffer.sort_unstable_by_key(|(value, weight)| (*value, weight.to_bits()));
        let mut leaves: Vec<Node<f64>> = Vec::with_capacity(self.buffer.len());
        for (value, weight) in self.buffer.drain(..) {
            let range = Range::new(self.shape.bits, u64::from(value));
            match leaves.last_mut() {
                Some(leaf) if leaf.range == range => leaf.mass += weight,
                _ => leaves.push(Node { range, mass: weight }),
            }
        }
        self.forest.add_sorted(leaves);
        // Summed anew each time: a running total would drift away from its nodes.
        self.folded = self.forest.weight();
    }

    /// Moves weight up until at most 2 · bits / beta + 1 nodes remain, unless that would make more of them.
    pub fn compress(&mut self) {
        self.absorb_buffer();
        self.compress_to(self.shape.beta * self.folded / f64::from(self.shape.bits), Growth::Refused);
    }

    /// Debt compress at a given capacity, even if paths make more nodes than the leaves were.
    pub fn compress_at(&mut self, gamma: f64) {
        self.absorb_buffer();
        self.compress_to(gamma, Growth::Accepted);
    }

    fn compress_to(&mut self, gamma: f64, growth: Growth) {
        let before = self.forest.nodes.clone();
        self.forest.compress(gamma);
        if growth == Growth::Refused && self.forest.nodes.len() >= before.len() {
            self.forest.nodes = before;
        }
        self.folded = self.forest.weight();
    }

    /// Adds another digest of the same domain; the errors add up.
    pub fn merge(&mut self, other: Self) {
        debug_assert_eq!(self.shape, other.shape);
        if !other.forest.nodes.is_empty() {
            self.forest.add_sorted(other.forest.nodes);
            self.folded = self.forest.weight();
        }
        // Small digests stay raw: sorting on every merge would cost more than the whole stream.
        if self.buffer.is_empty() {
            self.buffer = other.buffer;
        } else {
            self.buffer.extend_from_slice(&other.buffer);
        }
        if self.buffer.len() >= self.shape.batch() || self.forest.nodes.len() > self.shape.nodes_most() {
            self.fold();
        }
    }

    /// Multiplies every weight.
    pub fn scale(&mut self, factor: f64) {
        self.forest.nodes.iter_mut().for_each(|node| node.mass *= factor);
        self.buffer.iter_mut().for_each(|(_, weight)| *weight *= factor);
        // Weights that a very small factor flushed to zero say nothing any more.
        self.forest.nodes.retain(|node| node.mass > 0.0);
        self.buffer.retain(|(_, weight)| *weight > 0.0);
        self.folded = self.forest.weight();
    }

    /// Splits off this much weight: single values first, so that whole weights stay whole. Once a tree is compressed both
    /// sides keep the same share of every range, so that neither side's error exceeds its own `beta`.
    pub(crate) fn take(&mut self, weight: f64) -> Self {
        let mut taken = Self::new(self.shape);
        let mut wanted = weight;
        while wanted > 0.0
            && let Some((value, held)) = self.buffer.pop()
        {
            let part = held.min(wanted);
            taken.buffer.push((value, part));
            wanted -= part;
            if part < held {
                self.buffer.push((value, held - part));
            }
        }
        if wanted > 0.0 && self.folded > 0.0 {
            taken.forest = if self.forest.nodes.iter().all(|node| node.range.depth() == self.shape.bits) {
                self.take_leaves(wanted)
            } else {
                self.take_share((wanted / self.folded).min(1.0))
            };
        }
        taken.folded = taken.forest.weight();
        self.folded = self.forest.weight();
        taken
    }

    fn take_leaves(&mut self, mut wanted: f64) -> Forest<f64> {
        let mut taken = Forest::new(self.shape.bits);
        while wanted > 0.0
            && let Some(node) = self.forest.nodes.pop()
        {
            let part = node.mass.min(wanted);
            taken.nodes.push(Node { range: node.range, mass: part });
            wanted -= part;
            if part < node.mass {
                self.forest.nodes.push(Node { range: node.range, mass: node.mass - part });
            }
        }
        taken.nodes.reverse();
        taken
    }

    fn take_share(&mut self, share: f64) -> Forest<f64> {
        let mut taken = self.forest.clone();
        for (mine, theirs) in self.forest.nodes.iter_mut().zip(&mut taken.nodes) {
            theirs.mass *= share;
            mine.mass -= theirs.mass;
        }
        self.forest.nodes.retain(|node| node.mass > 0.0);
        taken.nodes.retain(|node| node.mass > 0.0);
        taken
    }

    /// Heap id and weight of every node (root 1, children 2v and 2v + 1, leaf 2^bits + value), in order.
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

    /// Ranks, quantiles, frequent values and shares of this digest alone.
    pub fn reading(&self) -> Values {
        let mut bands = Vec::new();
        self.spread(Factor::exact(1.0), &mut bands);
        let epsilon = self.shape.beta / 2.0;
        let standing = Standing { epsilon: Some(epsilon), incomplete: false, cells: bands.len() as u64 };
        Values::new(bands, self.shape.value_most(), standing, epsilon)
    }

    /// Adds what is known here, under a decay factor, to what is known elsewhere.
    pub(crate) fn spread(&self, factor: Factor, bands: &mut Vec<Band>) {
        let bits = self.shape.bits;
        bands.extend(self.forest.nodes.iter().map(|n| Band::new(n.range.low(), n.range.high(bits), n.mass, factor)));
        bands.extend(self.buffer.iter().map(|(v, weight)| Band::new(u64::from(*v), u64::from(*v), *weight, factor)));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Growth {
    Accepted,
    Refused,
}

#[cfg(test)]
mod tests;
