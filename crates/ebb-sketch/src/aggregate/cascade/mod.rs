//! Cascade: any window and any decay, chosen by the query, from one copy of every observation.
//!
//! Guarantees, for any order of arrival: the true number always lies within the bounds; a count is within epsilon of itself
//! for every window up to the horizon and every decay; ranks and label shares are within epsilon of the total plus the error
//! of their summary. Sketches do not merge, because the errors of their levels would add up. Their readings do.

mod codec;
mod store;

use super::error::{MergeError, ObservationError, QueryError, ShapeError};
use super::observation::{MAX_TIME_MS, Observation};
use super::qdigest::tree::Node;
use super::reading::{Labels, Totals, Values};
use super::robust::ElementId;
use super::sketch::{DecayedSketch, SpecEncoding, expect_spec};
use super::summary::{RangeSummary, Summary, SummaryShape, Tally};
use super::timeline::{Timeline, TimelineShape, TimelineStore, time_of};
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::Decay;
use store::CascadeStore;

/// Ranges of a level per halving of time and per 1 / epsilon.
const RANGES: f64 = 4.0;

/// Decayed aggregates for any window or decay, with deterministic bounds.
///
/// ```
/// use ebb_sketch::aggregate::{DecayedSketch, Observation, SummaryShape, cascade::CascadeSketch};
/// use ebb_sketch::decay::Decay;
///
/// let mut sketch = CascadeSketch::new(CascadeSketch::shape(0.01, 3_600_000, SummaryShape::totals())?);
/// for time_ms in 0..10_000 {
///     sketch.insert(&Observation { time_ms, value: 1, label: 0, weight: 1.0 })?;
/// }
/// let last_second = sketch.totals(9_999, &Decay::window(1_000)?)?.count();
/// assert!((last_second.value - 1_000.0).abs() <= 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CascadeSketch {
    timeline: Timeline<CascadeStore<Tally>, CascadeStore<Summary>>,
}

/// A read-only view of one level.
#[derive(Debug, Clone, PartialEq)]
pub struct CascadeLevelView {
    /// The weight at which a range of the level is full.
    pub range_capacity: f64,
    /// The level keeps nothing that ends at or before this time.
    pub floor_ms: Option<i64>,
    /// First time, last time and weight of every range.
    pub ranges: Vec<(i64, i64, f64)>,
}

impl CascadeSketch {
    /// The shape for counts within `epsilon` in windows up to `horizon_ms`. Weights below the minimum of `summary` are
    /// rejected.
    pub fn shape(epsilon: f64, horizon_ms: u64, summary: SummaryShape) -> Result<TimelineShape, ShapeError> {
        TimelineShape::new(epsilon, horizon_ms, summary, RANGES)
    }

    /// An empty sketch of a shape from [`CascadeSketch::shape`].
    pub fn new(shape: TimelineShape) -> Self {
        Self { timeline: Timeline::new(shape) }
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
    #[inline]
    pub fn insert(&mut self, observation: &Observation) -> Result<(), ObservationError> {
        let (_, newest_ms) = self.timeline.accept(observation)?;
        self.timeline.insert(observation, newest_ms);
        Ok(())
    }

    /// Weight that was dropped because it is outside the horizon.
    pub fn expired(&self) -> f64 {
        match &self.timeline.store {
            TimelineStore::Totals(store) => store.expired,
            TimelineStore::Summaries(store) => store.expired,
        }
    }

    /// The levels, newest first.
    pub fn levels(&self) -> Vec<CascadeLevelView> {
        match &self.timeline.store {
            TimelineStore::Totals(store) => level_views(&self.timeline.shape, store),
            TimelineStore::Summaries(store) => level_views(&self.timeline.shape, store),
        }
    }

    /// The observations that are not yet in a level.
    pub fn raw(&self) -> &[Observation] {
        match &self.timeline.store {
            TimelineStore::Totals(store) => &store.raw,
            TimelineStore::Summaries(store) => &store.raw,
        }
    }

    /// Raw observations and digest nodes with their buffers folded in: the size that the papers report.
    pub fn node_count(&self) -> usize {
        self.timeline.node_count()
    }
}

impl DecayedSketch for CascadeSketch {
    type Spec = TimelineShape;
    const MERGES: bool = false;

    fn from_spec(spec: &TimelineShape) -> Self {
        Self::new(*spec)
    }

    #[inline]
    fn observe(&mut self, _: ElementId, observation: &Observation) -> Result<(), ObservationError> {
        self.insert(observation)
    }

    fn advance(&mut self, now_ms: i64) {
        let now_ms = now_ms.clamp(-MAX_TIME_MS, MAX_TIME_MS);
        self.timeline.expire(self.newest_ms().map_or(now_ms, |newest| newest.max(now_ms)));
    }

    fn merge(&mut self, _: Self) -> Result<(), MergeError> {
        Err(MergeError::Unsupported("cascade"))
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

fn level_views<M: RangeSummary>(shape: &TimelineShape, store: &CascadeStore<M>) -> Vec<CascadeLevelView> {
    let levels = store.levels.iter().enumerate().map(|(index, level)| {
        let height = level.forest.height;
        let range = |n: &Node<M>| (time_of(n.range.low()), time_of(n.range.high(height)), n.mass.weight());
        let ranges = level.forest.nodes.iter().map(range).collect();
        CascadeLevelView { range_capacity: store::range_capacity(shape, index), floor_ms: level.floor_ms, ranges }
    });
    levels.collect()
}

#[cfg(test)]
mod tests;
