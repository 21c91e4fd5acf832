//! How readings are collected from observations and ranges under any decay.

use super::TimelineShape;
use crate::aggregate::error::QueryError;
use crate::aggregate::observation::{Observation, check_query_time};
use crate::aggregate::reading::{Assurance, CellLabels, CellTotals, DecayFactor, ValueRange};
use crate::aggregate::summary::RangeSummary;
use crate::decay::Decay;

/// A decay at one time, cut off at the horizon.
pub(crate) struct TimelineQuery<'a> {
    shape: TimelineShape,
    decay: &'a Decay,
    now_ms: i64,
    /// The oldest accepted time.
    oldest_ms: i64,
}

impl<'a> TimelineQuery<'a> {
    /// As of `now_ms`, or as of the newest time of `span_ms` if that is later.
    pub fn new(
        shape: TimelineShape,
        decay: &'a Decay,
        now_ms: i64,
        span_ms: Option<(i64, i64)>,
    ) -> Result<Self, QueryError> {
        let (oldest_ms, newest_ms) = span_ms.unwrap_or((now_ms, now_ms));
        let now_ms = now_ms.max(newest_ms);
        check_query_time(now_ms)?;
        let horizon_ms = shape.horizon_ms;
        match decay.width() {
            Some(window_ms) if window_ms > horizon_ms => Err(QueryError::WindowBeyondHorizon { window_ms, horizon_ms }),
            _ => Ok(Self { shape, decay, now_ms, oldest_ms }),
        }
    }

    /// The decayed weight of a unit observed at `time_ms`; zero beyond the horizon.
    pub fn weight(&self, time_ms: i64) -> f64 {
        let age = self.now_ms.saturating_sub(time_ms).max(0) as u64;
        if age < self.shape.horizon_ms { self.decay.weight(age) } else { 0.0 }
    }

    /// The smallest decayed weight of a unit in a range that begins at `low_ms`. Ranges are aligned, so the first one may begin
    /// before the oldest observation.
    pub fn least_weight(&self, low_ms: i64) -> f64 {
        self.weight(low_ms.max(self.oldest_ms))
    }

    /// What supports a count over observations from the oldest to the newest time of `span_ms`.
    pub fn count_assurance(&self, span_ms: Option<(i64, i64)>, cells: usize) -> Assurance {
        let horizon_ms = self.shape.horizon_ms;
        let expired = span_ms.is_some_and(|(oldest_ms, _)| self.now_ms.saturating_sub(oldest_ms) as u64 >= horizon_ms);
        Assurance {
            epsilon: Some(self.shape.epsilon).filter(|_| self.shape.is_guaranteed),
            incomplete: expired && self.decay.weight(horizon_ms) > 0.0,
            cells: cells as u64,
        }
    }

    /// What supports a share if the summaries err by `summary_error` of the total: numerator and denominator both err.
    pub fn share_assurance(&self, summary_error: f64, span_ms: Option<(i64, i64)>, cells: usize) -> Assurance {
        let assurance = self.count_assurance(span_ms, cells);
        let epsilon = assurance.epsilon.map(|epsilon| (epsilon + summary_error) / (1.0 - epsilon));
        Assurance { epsilon, ..assurance }
    }
}

/// Accumulates a reading from single observations and from ranges.
pub(crate) trait RangeCollector {
    fn add_observation(&mut self, observation: &Observation, weight: f64);

    fn add_range<M: RangeSummary>(&mut self, content: &M, factor: DecayFactor);
}

impl RangeCollector for CellTotals {
    fn add_observation(&mut self, observation: &Observation, weight: f64) {
        self.count.add(observation.weight, DecayFactor::exact(weight));
        self.sum.add(observation.weight * observation.value as f64, DecayFactor::exact(weight));
    }

    fn add_range<M: RangeSummary>(&mut self, content: &M, factor: DecayFactor) {
        self.count.add(content.tally().weight, factor);
        self.sum.add(content.tally().sum, factor);
    }
}

impl RangeCollector for Vec<ValueRange> {
    fn add_observation(&mut self, observation: &Observation, weight: f64) {
        let factor = DecayFactor::exact(weight);
        self.push(ValueRange::new(observation.value, observation.value, observation.weight, factor));
    }

    fn add_range<M: RangeSummary>(&mut self, content: &M, factor: DecayFactor) {
        content.summary().into_iter().for_each(|summary| summary.read_values(factor, self));
    }
}

impl RangeCollector for CellLabels {
    fn add_observation(&mut self, observation: &Observation, weight: f64) {
        self.add_one(observation.label, observation.weight, DecayFactor::exact(weight));
    }

    fn add_range<M: RangeSummary>(&mut self, content: &M, factor: DecayFactor) {
        content.summary().into_iter().for_each(|summary| summary.read_labels(factor, self));
    }
}
