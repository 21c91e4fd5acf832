//! The part of a timeline that does not depend on how its ranges are stored.

use super::{RangeCollector, TimelineQuery, TimelineShape};
use crate::aggregate::codec::{read_span, write_span};
use crate::aggregate::error::{ObservationError, QueryError};
use crate::aggregate::observation::Observation;
use crate::aggregate::reading::{CellLabels, CellTotals, CellValues, Labels, Totals, ValueRange, Values};
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::Decay;

/// The observations and ranges of a timeline.
pub(crate) trait RangeStore: Sized {
    /// Whether observations after the time of a query can be left out.
    const ANSWERS_PAST: bool;

    fn new(shape: &TimelineShape) -> Self;

    /// Adds a checked observation. `newest_ms` is the newest time, this observation included.
    fn insert(&mut self, shape: &TimelineShape, observation: Observation, newest_ms: i64);

    /// Drops what is outside the horizon at `now_ms`.
    fn expire(&mut self, shape: &TimelineShape, now_ms: i64);

    /// Collects everything that still has weight; returns how many observations and ranges that was.
    fn collect<C: RangeCollector>(&self, query: &TimelineQuery<'_>, into: &mut C) -> usize;

    fn collect_labels(&self, into: &mut Vec<u128>);

    fn entry_count(&self) -> usize;

    /// Raw observations and folded digest nodes.
    fn node_count(&self) -> usize;

    fn write(&self, shape: &TimelineShape, w: &mut Writer);

    fn read(shape: &TimelineShape, r: &mut Reader<'_>) -> Result<Self, CodecError>;
}

/// `T` stores ranges of totals, which are much smaller than the ranges of whole summaries in `S`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TimelineStore<T, S> {
    Totals(T),
    Summaries(S),
}

/// Evaluates an expression on whichever store is there.
macro_rules! each_store {
    ($store:expr, $name:ident => $body:expr) => {
        match $store {
            TimelineStore::Totals($name) => $body,
            TimelineStore::Summaries($name) => $body,
        }
    };
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline<T, S> {
    pub shape: TimelineShape,
    /// The oldest and the newest accepted time.
    pub span_ms: Option<(i64, i64)>,
    pub store: TimelineStore<T, S>,
}

impl<T: RangeStore, S: RangeStore> Timeline<T, S> {
    pub fn new(shape: TimelineShape) -> Self {
        let store = if shape.summary.is_totals_only() {
            TimelineStore::Totals(T::new(&shape))
        } else {
            TimelineStore::Summaries(S::new(&shape))
        };
        Self { shape, span_ms: None, store }
    }

    pub fn newest_ms(&self) -> Option<i64> {
        self.span_ms.map(|(_, newest)| newest)
    }

    /// Checks an observation and extends the span by it.
    #[inline]
    pub fn accept(&mut self, observation: &Observation) -> Result<(i64, i64), ObservationError> {
        self.shape.summary.check(observation)?;
        let time_ms = observation.time_ms;
        let (oldest_ms, newest_ms) = self.span_ms.map_or((time_ms, time_ms), |(o, n)| (o.min(time_ms), n.max(time_ms)));
        let horizon_ms = self.shape.horizon_ms;
        if newest_ms.abs_diff(time_ms) >= horizon_ms {
            return Err(ObservationError::Late { time_ms, now_ms: newest_ms, horizon_ms });
        }
        self.span_ms = Some((oldest_ms, newest_ms));
        Ok((oldest_ms, newest_ms))
    }

    /// Stores an accepted observation.
    #[inline]
    pub fn insert(&mut self, observation: &Observation, newest_ms: i64) {
        let kept = self.shape.summary.project(observation);
        each_store!(&mut self.store, store => store.insert(&self.shape, kept, newest_ms));
    }

    pub fn expire(&mut self, now_ms: i64) {
        each_store!(&mut self.store, store => store.expire(&self.shape, now_ms));
    }

    fn collect<C: RangeCollector>(&self, query: &TimelineQuery<'_>, into: &mut C) -> usize {
        each_store!(&self.store, store => store.collect(query, into))
    }

    fn query<'a>(&self, now_ms: i64, decay: &'a Decay) -> Result<TimelineQuery<'a>, QueryError> {
        let (oldest_ms, newest_ms) = self.span_ms.unwrap_or((now_ms, now_ms));
        if T::ANSWERS_PAST {
            return TimelineQuery::new(self.shape, decay, now_ms, oldest_ms)?.since(self.newest_ms());
        }
        TimelineQuery::new(self.shape, decay, now_ms.max(newest_ms), oldest_ms)
    }

    pub fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QueryError> {
        let query = self.query(now_ms, decay)?;
        let mut totals = CellTotals::new();
        let used = self.collect(&query, &mut totals);
        totals.assurance = query.count_assurance(self.span_ms, used);
        Ok(Totals::Cells(totals))
    }

    pub fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QueryError> {
        let query = self.query(now_ms, decay)?;
        let digest = self.shape.summary.values().ok_or(QueryError::NotKept("values"))?;
        let mut ranges: Vec<ValueRange> = Vec::new();
        let used = self.collect(&query, &mut ranges);
        let assurance = query.share_assurance(digest.beta() / 2.0, self.span_ms, used);
        let rank_epsilon = self.shape.epsilon + digest.beta() / 2.0 * (1.0 + self.shape.epsilon);
        Ok(Values::Cells(CellValues::new(ranges, digest.max_value(), assurance, rank_epsilon)))
    }

    pub fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QueryError> {
        let query = self.query(now_ms, decay)?;
        let counters = self.shape.summary.counters().ok_or(QueryError::NotKept("labels"))?;
        let mut labels = CellLabels::new();
        let used = self.collect(&query, &mut labels);
        let assurance = query.share_assurance(1.0 / f64::from(counters), self.span_ms, used);
        Ok(Labels::Cells(labels.finish(assurance)))
    }

    pub fn collect_labels(&self, into: &mut Vec<u128>) {
        if let TimelineStore::Summaries(store) = &self.store {
            store.collect_labels(into);
        }
    }

    pub fn entry_count(&self) -> usize {
        each_store!(&self.store, store => store.entry_count())
    }

    pub fn node_count(&self) -> usize {
        match &self.store {
            TimelineStore::Totals(store) => store.entry_count(),
            TimelineStore::Summaries(store) => store.node_count(),
        }
    }

    /// The head of the state bytes.
    pub fn write_head(&self, w: &mut Writer) {
        self.shape.write(w);
        write_span(w, self.span_ms);
    }

    /// An empty timeline with the head of the state bytes; `ranges` as for [`TimelineShape::new`].
    pub fn read_head(ranges: f64, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut timeline = Self::new(TimelineShape::read(ranges, r)?);
        timeline.span_ms = read_span(r)?;
        Ok(timeline)
    }

    pub fn write_store(&self, w: &mut Writer) {
        each_store!(&self.store, store => store.write(&self.shape, w));
    }

    pub fn read_store(&mut self, r: &mut Reader<'_>) -> Result<(), CodecError> {
        match &mut self.store {
            TimelineStore::Totals(store) => *store = T::read(&self.shape, r)?,
            TimelineStore::Summaries(store) => *store = S::read(&self.shape, r)?,
        }
        Ok(())
    }
}
