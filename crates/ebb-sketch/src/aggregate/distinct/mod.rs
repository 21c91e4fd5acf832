//! How many different values there were, over any window or decay chosen by the query.
//!
//! A value counts by its latest sighting: in a window if that is inside, under a decay with the weight of its age. Repeats,
//! order and partitioning leave no trace, and sketches merge into the sketch of both streams.
//!
//! A hash samples values at levels of halving probability. Each level keeps the tau values that were seen last and knows the
//! time at or below which it has dropped some (`store`). A window is answered by the first level that reaches back to its
//! beginning; its count times the inverse of the probability is the estimate. `accuracy` derives the bounds: they need
//! nothing but pairwise independence of the hash, so no sequence of values can break them.
//!
//! Another decay is a mixture of windows, and its error the same mixture of theirs. Its bounds use the error of a window; the
//! theorem states it for each window alone.
//!
//! There is no answer for the past: a value that was seen again later has lost its earlier time.

mod accuracy;
mod codec;
mod reading;
mod store;

use std::borrow::Cow;
use std::sync::Arc;

use super::error::{MergeError, ObservationError, QueryError};
use super::observation::Observation;
use super::reading::{Labels, Totals, Values};
use super::robust::hash::SampleHash;
use super::robust::{ElementId, MAX_ELEMENT_TIME_MS, WindowSpecError, is_extreme};
use super::sketch::{DecayedSketch, SpecEncoding};
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::Decay;
use crate::random;
pub use accuracy::DistinctAccuracy;
pub use reading::DistinctReading;
pub use store::SIGHTING_BYTES;
use store::{DistinctStore, Sighting};

/// Longer horizons exceed any clock.
const MAX_HORIZON_MS: u64 = 1 << 60;

/// The specification of a [`DistinctSketch`]. Clones share the hashes.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctSpec {
    accuracy: DistinctAccuracy,
    horizon_ms: u64,
    hashes: Vec<Arc<SampleHash>>,
    coarseness: u8,
}

impl DistinctSpec {
    /// Windows up to `horizon_ms`. `seed` selects the hashes.
    pub fn new(accuracy: DistinctAccuracy, horizon_ms: u64, seed: u64) -> Result<Self, WindowSpecError> {
        if !(1..=MAX_HORIZON_MS).contains(&horizon_ms) {
            return Err(WindowSpecError::Horizon { horizon_ms, max_ms: MAX_HORIZON_MS });
        }
        let copy_seed = |copy: u8| random::mix(!seed ^ random::mix(u64::from(copy)));
        let hashes = (0..accuracy.copies()).map(|copy| Arc::new(SampleHash::from_seed(copy_seed(copy), 1)));
        Ok(Self { accuracy, horizon_ms, hashes: hashes.collect(), coarseness: 0 })
    }

    /// The error of windows and its probability.
    pub fn accuracy(&self) -> DistinctAccuracy {
        self.accuracy
    }

    /// The longest window that can be queried.
    pub fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    /// The levels of a sample.
    pub fn levels(&self) -> u64 {
        self.hashes.first().map_or(0, |hash| u64::from(hash.top_level()) + 1)
    }

    /// The same hashes with a sample that is halved this many times more.
    pub fn coarsened(&self, halvings: u8) -> Self {
        let accuracy = (0..halvings).fold(self.accuracy, |accuracy, _| accuracy.halved());
        Self { accuracy, coarseness: self.coarseness + halvings, ..self.clone() }
    }
}

/// The number of different values over any window or decay.
///
/// ```
/// use ebb_sketch::aggregate::distinct::{DistinctAccuracy, DistinctSketch, DistinctSpec};
/// use ebb_sketch::aggregate::robust::ElementId;
/// use ebb_sketch::decay::Decay;
///
/// let spec = DistinctSpec::new(DistinctAccuracy::new(0.1, 0.05)?, 3_600_000, 7)?;
/// let mut sketch = DistinctSketch::new(&spec);
/// for time_ms in 0..3_000i64 {
///     sketch.insert(ElementId::from_bits(time_ms as u128 % 100), time_ms)?; // 100 values, each 30 times
/// }
/// assert_eq!(sketch.count(2_999, &Decay::window(1_000)?)?.value, 100.0);
/// assert_eq!(sketch.count(2_999, &Decay::window(10)?)?.value, 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct DistinctSketch {
    spec: DistinctSpec,
    copies: Vec<DistinctStore>,
}

impl DistinctSketch {
    /// An empty sketch.
    pub fn new(spec: &DistinctSpec) -> Self {
        let store = |hash: &Arc<SampleHash>| DistinctStore::new(hash.clone(), spec.accuracy.tau());
        Self { spec: spec.clone(), copies: spec.hashes.iter().map(store).collect() }
    }

    /// The specification it was built with.
    pub fn spec(&self) -> &DistinctSpec {
        &self.spec
    }

    /// Notes that a value was seen, or rejects the time without changing anything. `value` identifies the value.
    #[inline]
    pub fn insert(&mut self, value: ElementId, time_ms: i64) -> Result<(), ObservationError> {
        if is_extreme(time_ms) {
            return Err(ObservationError::Time { time_ms, max_ms: MAX_ELEMENT_TIME_MS });
        }
        self.copies.iter_mut().for_each(|copy| copy.insert(Sighting { value, time_ms }));
        Ok(())
    }

    /// The number of different values under `decay` at `now_ms`, or at the newest sighting if that is later.
    pub fn count(&self, now_ms: i64, decay: &Decay) -> Result<super::answer::Estimate, QueryError> {
        Ok(self.read(now_ms, decay)?.count())
    }

    /// What all copies know under `decay` at `now_ms`, or at the newest sighting if that is later.
    pub fn read(&self, now_ms: i64, decay: &Decay) -> Result<DistinctReading, QueryError> {
        if is_extreme(now_ms) {
            return Err(QueryError::Time { time_ms: now_ms });
        }
        let horizon_ms = self.spec.horizon_ms;
        if let Some(window_ms) = decay.width().filter(|width| *width > horizon_ms) {
            return Err(QueryError::WindowBeyondHorizon { window_ms, horizon_ms });
        }
        let compacted = self.compacted();
        let newest_ms = compacted.copies.iter().filter_map(DistinctStore::newest_ms).max();
        let now_ms = newest_ms.map_or(now_ms, |newest| newest.max(now_ms));
        let copies = compacted.copies.iter().map(|copy| copy.read(now_ms, decay, self.spec.accuracy));
        Ok(DistinctReading::new(self.spec.accuracy, copies.collect()))
    }

    /// The sketch itself if no work is deferred, otherwise a compacted copy.
    fn compacted(&self) -> Cow<'_, Self> {
        if self.copies.iter().all(DistinctStore::is_compact) {
            return Cow::Borrowed(self);
        }
        let mut compacted = self.clone();
        compacted.compact();
        Cow::Owned(compacted)
    }
}

impl DecayedSketch for DistinctSketch {
    type Spec = DistinctSpec;
    const MERGES: bool = true;

    fn from_spec(spec: &DistinctSpec) -> Self {
        Self::new(spec)
    }

    /// `id` identifies the value.
    #[inline]
    fn observe(&mut self, id: ElementId, observation: &Observation) -> Result<(), ObservationError> {
        self.insert(id, observation.time_ms)
    }

    /// Compacts, too.
    fn advance(&mut self, now_ms: i64) {
        self.compact();
        let floor_ms = now_ms.saturating_sub_unsigned(self.spec.horizon_ms);
        // A raised floor makes long decays incomplete, so it must drop something.
        if !is_extreme(now_ms) && self.copies.iter().any(|copy| copy.has_through(floor_ms)) {
            self.copies.iter_mut().for_each(|copy| copy.drop_through(floor_ms));
            self.compact();
        }
    }

    fn compact(&mut self) {
        self.copies.iter_mut().for_each(DistinctStore::compact);
    }

    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        if self.spec != other.spec {
            return Err(MergeError::Different("accuracy, horizon or seed"));
        }
        self.copies.iter_mut().zip(&other.copies).for_each(|(copy, others)| copy.merge_lazily(others));
        Ok(())
    }

    fn totals(&self, _: i64, _: &Decay) -> Result<Totals, QueryError> {
        Err(QueryError::NotKept("events, only different values"))
    }

    fn values(&self, _: i64, _: &Decay) -> Result<Values, QueryError> {
        Err(QueryError::NotKept("events, only different values"))
    }

    fn labels(&self, _: i64, _: &Decay) -> Result<Labels, QueryError> {
        Err(QueryError::NotKept("events, only different values"))
    }

    fn collect_labels(&self, _: &mut Vec<u128>) {}

    fn entry_count(&self) -> usize {
        self.copies.iter().map(DistinctStore::entry_count).sum()
    }

    fn memory_bytes(&self) -> usize {
        512 + self.copies.iter().map(DistinctStore::memory_bytes).sum::<usize>()
    }

    fn coarseness(&self) -> u8 {
        self.spec.coarseness
    }

    fn coarsen(&mut self, coarseness: u8) {
        let halvings = coarseness.saturating_sub(self.spec.coarseness);
        if halvings > 0 {
            self.spec = self.spec.coarsened(halvings);
            let tau = self.spec.accuracy.tau();
            self.copies.iter_mut().for_each(|copy| copy.shrink(tau));
        }
    }

    fn encode_into(&self, writer: &mut Writer, encoding: SpecEncoding) {
        writer.bytes(&self.encode_with(encoding));
    }

    fn decode_from(spec: &DistinctSpec, reader: &mut Reader<'_>, encoding: SpecEncoding) -> Result<Self, CodecError> {
        Self::decode_with(spec, reader.bytes()?, encoding)
    }
}
