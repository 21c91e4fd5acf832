//! The part of a sampling sketch that does not depend on its decay: independent copies of a sample.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use super::accuracy::Accuracy;
use super::element::{Element, is_extreme};
use super::hash::SampleHash;
use super::reading::SampleReading;
use crate::aggregate::error::{MergeError, ObservationError, QueryError};
use crate::codec::{CodecError, Kind, Writer};
use crate::decay::Decay;
use crate::random;

/// What a sampling sketch is built from. Sketches of equal specifications merge.
pub trait SampleSpec: Clone + PartialEq + Debug {
    /// One copy of the sample.
    type Store: SampleStore;

    /// The kind of the state bytes.
    const KIND: Kind;

    /// The guaranteed error and its probability.
    fn accuracy(&self) -> Accuracy;

    /// The largest accepted weight of an element.
    fn max_weight(&self) -> u32;

    /// Rejects elements that a sketch of this specification cannot hold.
    #[inline]
    fn check(&self, element: &Element) -> Result<(), ObservationError> {
        element.check(self.max_weight())
    }

    /// One hash per copy; at least one.
    fn hashes(&self) -> &[Arc<SampleHash>];

    /// An empty copy of the sample under one of the hashes.
    fn empty_copy(&self, hash: &Arc<SampleHash>) -> Self::Store;

    /// The element in the units of the store.
    fn to_stored(&self, element: Element) -> Element;

    /// Whether a decoded element can come from [`Self::to_stored`].
    fn check_stored(&self, element: &Element) -> Result<(), CodecError>;

    /// The same hashes with a sample that is halved this many times more.
    fn coarsened(&self, halvings: u8) -> Self;

    /// How often the sample was halved.
    fn coarseness(&self) -> u8;

    /// The floor that a watermark raises the levels to.
    fn floor_at(&self, watermark_ms: i64) -> i64;

    /// Whether [`SampleSketch::advance`] is worthwhile: it makes answers incomplete, so it should drop something.
    fn has_expired_at(&self, copies: &[Self::Store], watermark_ms: i64) -> bool;

    /// Reads compacted copies as of `as_of_ms`.
    fn read(&self, copies: &[Self::Store], as_of_ms: i64, decay: &Decay) -> Result<SampleReading, QueryError>;

    /// Writes what distinguishes it from other specifications, beside accuracy and hashes.
    fn write_parameters(&self, writer: &mut Writer);
}

/// One copy of a sample: elements, and the floors of its levels.
///
/// Insertions defer work. [`compact`](Self::compact) applies it and leaves a state that is a function of the set of elements
/// alone.
pub trait SampleStore: Clone + Debug {
    /// Adds a checked element.
    fn insert(&mut self, element: Element);

    /// Applies deferred work.
    fn compact(&mut self);

    /// Whether no work is deferred.
    fn is_compact(&self) -> bool;

    /// Raises all floors to `floor`.
    fn drop_through(&mut self, floor: i64);

    /// Adds another store of the same parameters, and compacts only when much work is deferred.
    fn merge_lazily(&mut self, other: &Self);

    /// Adds another store of the same parameters.
    fn merge(&mut self, other: &Self) {
        self.merge_lazily(other);
        self.compact();
    }

    /// Keeps at most `tau` elements per level from now on, and compacts.
    fn shrink(&mut self, tau: u32);

    /// Does without the cache of recent elements, which speeds up repeats.
    fn disable_cache(&mut self);

    /// An upper bound of the memory of the store, including elements that the next compaction removes.
    fn memory_bytes(&self) -> usize;

    /// The hash that chooses the sample.
    fn hash(&self) -> &Arc<SampleHash>;

    /// The floors of all levels, highest first; exact when compacted.
    fn floors(&self) -> &[i64];

    /// All elements; distinct when compacted.
    fn elements(&self) -> impl Iterator<Item = &Element>;

    /// The number of elements.
    fn entry_count(&self) -> usize;

    /// Fills an empty store. `None` if the parts are not the compacted state of any set of elements.
    fn with_parts(self, floors: &[i64], elements: Vec<Element>) -> Option<Self>;
}

/// A sampling sketch of one value per element.
///
/// The state is a function of the set of distinct elements and of the watermark: order, repeats, batching and partitioning
/// before a merge leave no trace.
#[derive(Debug, Clone)]
pub struct SampleSketch<P: SampleSpec> {
    spec: P,
    copies: Vec<P::Store>,
}

impl<P: SampleSpec> SampleSketch<P> {
    /// An empty sketch.
    pub fn new(spec: &P) -> Self {
        let copies = spec.hashes().iter().map(|hash| spec.empty_copy(hash)).collect();
        Self { spec: spec.clone(), copies }
    }

    pub(super) fn from_copies(spec: &P, copies: Vec<P::Store>) -> Self {
        Self { spec: spec.clone(), copies }
    }

    /// The specification it was built with.
    pub fn spec(&self) -> &P {
        &self.spec
    }

    pub(crate) fn copies(&self) -> &[P::Store] {
        &self.copies
    }

    /// Adds an element, or rejects it without changing anything.
    #[inline]
    pub fn insert(&mut self, element: Element) -> Result<(), ObservationError> {
        self.spec.check(&element)?;
        let stored = self.spec.to_stored(element);
        self.copies.iter_mut().for_each(|copy| copy.insert(stored));
        Ok(())
    }

    /// Drops what no query at `watermark_ms` or later can reach.
    pub fn advance(&mut self, watermark_ms: i64) -> Result<(), QueryError> {
        if is_extreme(watermark_ms) {
            return Err(QueryError::Time { time_ms: watermark_ms });
        }
        let floor = self.spec.floor_at(watermark_ms);
        self.copies.iter_mut().for_each(|copy| copy.drop_through(floor));
        Ok(())
    }

    /// Whether [`SampleSketch::advance`] would drop an element. The sketch must be compacted.
    pub fn has_expired_at(&self, watermark_ms: i64) -> bool {
        self.spec.has_expired_at(&self.copies, watermark_ms)
    }

    /// Becomes the sketch of both sets of elements.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        self.merge_lazily(other)?;
        self.compact();
        Ok(())
    }

    /// Like [`SampleSketch::merge`], but compacts only when much work is deferred: merging many small sketches is cheap.
    pub fn merge_lazily(&mut self, other: &Self) -> Result<(), MergeError> {
        self.check_same_spec(other)?;
        self.copies.iter_mut().zip(&other.copies).for_each(|(copy, others)| copy.merge_lazily(others));
        Ok(())
    }

    /// Halves the sample until it was halved `coarseness` times. The result is the sketch that a specification with the
    /// smaller sample would have built from the same elements.
    pub fn coarsen(&mut self, coarseness: u8) {
        let halvings = coarseness.saturating_sub(self.spec.coarseness());
        if halvings > 0 {
            self.spec = self.spec.coarsened(halvings);
            let tau = self.spec.accuracy().tau();
            self.copies.iter_mut().for_each(|copy| copy.shrink(tau));
        }
    }

    /// Does without the cache of recent elements.
    pub fn disable_cache(&mut self) {
        self.copies.iter_mut().for_each(P::Store::disable_cache);
    }

    /// An upper bound of the memory of the sketch.
    pub fn memory_bytes(&self) -> usize {
        SKETCH_BYTES + self.copies.iter().map(P::Store::memory_bytes).sum::<usize>()
    }

    pub(super) fn check_same_spec(&self, other: &Self) -> Result<(), MergeError> {
        match self.spec == other.spec {
            true => Ok(()),
            false => Err(MergeError::Different("accuracy, weights, horizon or decay, or seed")),
        }
    }

    /// The values of all elements; some more than once.
    pub fn values(&self) -> impl Iterator<Item = u64> {
        self.copies.iter().flat_map(P::Store::elements).map(|element| element.value)
    }

    /// Applies deferred work. State bytes and answers are always those of the compacted sketch.
    pub fn compact(&mut self) {
        self.copies.iter_mut().for_each(P::Store::compact);
    }

    /// The sketch itself if no work is deferred, otherwise a compacted copy.
    pub(crate) fn compacted(&self) -> Cow<'_, Self> {
        if self.copies.iter().all(P::Store::is_compact) {
            return Cow::Borrowed(self);
        }
        let mut compacted = self.clone();
        compacted.compact();
        Cow::Owned(compacted)
    }

    pub(crate) fn read(&self, as_of_ms: i64, decay: &Decay) -> Result<SampleReading, QueryError> {
        self.spec.read(&self.compacted().copies, as_of_ms, decay)
    }

    /// Elements in all copies, including those that the next compaction removes.
    pub fn entry_count(&self) -> usize {
        self.copies.iter().map(P::Store::entry_count).sum()
    }
}

/// The memory of a sketch without its copies, rounded up.
const SKETCH_BYTES: usize = 512;

/// The memory of a store without elements, rounded up: its fields, floors and lists.
pub(crate) const STORE_BYTES: usize = 3072;

/// The memory per element: a vector that grows may be half empty.
pub const ELEMENT_BYTES: usize = 2 * size_of::<Element>();

/// One hash per copy.
pub(crate) fn draw_hashes(accuracy: Accuracy, max_weight: u32, seed: u64) -> Vec<Arc<SampleHash>> {
    copy_seeds(accuracy, seed).map(|seed| Arc::new(SampleHash::from_seed(seed, max_weight))).collect()
}

/// One seed per copy.
pub(super) fn copy_seeds(accuracy: Accuracy, seed: u64) -> impl Iterator<Item = u64> {
    (0..accuracy.copies()).map(move |copy| random::mix(seed ^ random::mix(u64::from(copy))))
}
