//! Replicated levels of q-digests over time: the published sliding-window structure, corrected.
//!
//! An observation is copied into every level that reaches back to it. Two corrections: the raw observations are added to the
//! answer of the level (the published query omits them), and ranges that straddle the edge of the window count half.

mod codec;
mod store;

use crate::aggregate::error::{MergeError, ObservationError, QueryError, ShapeError};
use crate::aggregate::observation::Observation;
use crate::aggregate::reading::{Labels, Totals, Values};
use crate::aggregate::robust::ElementId;
use crate::aggregate::sketch::{DecayedSketch, SpecEncoding, expect_spec};
use crate::aggregate::summary::{RangeSummary, Summary, SummaryShape, Tally};
use crate::aggregate::timeline::{Timeline, TimelineShape, TimelineStore, time_of};
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::Decay;
use store::ReplicatedStore;

/// Ranges of a level per halving of time and per 1 / epsilon.
const RANGES: f64 = 2.0;

/// Decayed aggregates for any window or decay, in replicated levels.
///
/// ```
/// use ebb_sketch::aggregate::{DecayedSketch, Observation, SummaryShape, paper::levels::LevelsSketch};
/// use ebb_sketch::decay::Decay;
///
/// let mut sketch = LevelsSketch::new(LevelsSketch::shape(0.1, 3_600_000, SummaryShape::totals())?);
/// for time_ms in 0..5_000 {
///     sketch.insert(&Observation { time_ms, value: 1, label: 0, weight: 1.0 })?;
/// }
/// assert!(sketch.totals(4_999, &Decay::window(1_000)?)?.count().covers(1_000.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LevelsSketch {
    timeline: Timeline<ReplicatedStore<Tally>, ReplicatedStore<Summary>>,
    /// The newest time at the last expiry.
    expired_at_ms: Option<i64>,
}

/// A read-only view of one level.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicatedLevelView {
    /// The level keeps nothing that ends at or before this time.
    pub floor_ms: Option<i64>,
    /// First time, last time and weight of every range, by last time.
    pub ranges: Vec<(i64, i64, f64)>,
}

impl LevelsSketch {
    /// The shape for counts within `epsilon` in windows up to `horizon_ms`. Weights below the minimum of `summary` are
    /// rejected.
    pub fn shape(epsilon: f64, horizon_ms: u64, summary: SummaryShape) -> Result<TimelineShape, ShapeError> {
        TimelineShape::new(epsilon, horizon_ms, summary, RANGES)
    }

    /// An empty sketch of a shape from [`LevelsSketch::shape`].
    pub fn new(shape: TimelineShape) -> Self {
        Self { timeline: Timeline::new(shape), expired_at_ms: None }
    }

    /// The shape it was built with.
    pub fn timeline(&self) -> TimelineShape {
        self.timeline.shape
    }

    /// The newest accepted time.
    pub fn newest_ms(&self) -> Option<i64> {
        self.timeline.newest_ms()
    }

    /// Adds an observation, or rejects it without changing anything.
    pub fn insert(&mut self, observation: &Observation) -> Result<(), ObservationError> {
        let (oldest_ms, newest_ms) = self.timeline.accept(observation)?;
        self.expire_in_steps(oldest_ms, newest_ms);
        self.timeline.insert(observation, newest_ms);
        Ok(())
    }

    /// Expires sixteen times per horizon, and not before anything is outside the horizon.
    fn expire_in_steps(&mut self, oldest_ms: i64, newest_ms: i64) {
        let (horizon_ms, last_ms) = (self.timeline.shape.horizon_ms, *self.expired_at_ms.get_or_insert(newest_ms));
        let is_old = newest_ms.abs_diff(oldest_ms) >= horizon_ms;
        if is_old && newest_ms > last_ms && newest_ms.abs_diff(last_ms) >= (horizon_ms / 16).max(1) {
            self.expired_at_ms = Some(newest_ms);
            self.timeline.expire(newest_ms);
        }
    }

    /// The number of raw observations, their floor, and the levels from the finest.
    pub fn levels(&self) -> (usize, Option<i64>, Vec<ReplicatedLevelView>) {
        match &self.timeline.store {
            TimelineStore::Totals(store) => (store.raw_len, store.raw_floor_ms, level_views(store)),
            TimelineStore::Summaries(store) => (store.raw_len, store.raw_floor_ms, level_views(store)),
        }
    }

    /// Raw observations and digest nodes with their buffers folded in: the size that the papers report.
    pub fn node_count(&self) -> usize {
        self.timeline.node_count()
    }
}

impl DecayedSketch for LevelsSketch {
    type Spec = TimelineShape;
    const MERGES: bool = false;

    fn from_spec(spec: &TimelineShape) -> Self {
        Self::new(*spec)
    }

    fn observe(&mut self, _: ElementId, observation: &Observation) -> Result<(), ObservationError> {
        self.insert(observation)
    }

    /// Does nothing: insertions expire old ranges.
    fn advance(&mut self, _: i64) {}

    fn merge(&mut self, _: Self) -> Result<(), MergeError> {
        Err(MergeError::Unsupported("levels"))
    }

    fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QueryError> {
        self.timeline.totals(now_ms, decay)
    }

    fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QueryError> {
        self.timeline.values(now_ms, decay)
    }

    fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QueryError> {
        self.timeline.labels(now_ms, decay)
    }

    fn collect_labels(&self, into: &mut Vec<u128>) {
        self.timeline.collect_labels(into);
    }

    fn entry_count(&self) -> usize {
        self.timeline.entry_count()
    }

    fn encode_into(&self, writer: &mut Writer, _: SpecEncoding) {
        writer.bytes(&self.encode());
    }

    fn decode_from(spec: &TimelineShape, reader: &mut Reader<'_>, _: SpecEncoding) -> Result<Self, CodecError> {
        expect_spec(Self::decode(reader.bytes()?)?, |sketch| sketch.timeline.shape == *spec)
    }
}

fn level_views<M: RangeSummary>(store: &ReplicatedStore<M>) -> Vec<ReplicatedLevelView> {
    let view = |level: &store::ReplicatedLevel<M>| ReplicatedLevelView {
        floor_ms: level.floor_ms,
        ranges: level.tree.ranges().map(|(low, high, mass)| (time_of(low), time_of(high), mass.weight())).collect(),
    };
    store.levels.iter().map(view).collect()
}

#[cfg(test)]
mod tests;
