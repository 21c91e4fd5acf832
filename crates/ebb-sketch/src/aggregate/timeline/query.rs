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
    /// The newest time, if that is after `now_ms`: later observations are left out.
    newest_ms: Option<i64>,
    /// The oldest accepted time.
    oldest_ms: i64,
}

impl<'a> TimelineQuery<'a> {
    /// As of `now_ms`, over observations since `oldest_ms`.
    pub fn new(shape: TimelineShape, decay: &'a Decay, now_ms: i64, oldest_ms: i64) -> Result<Self, QueryError> {
        check_query_time(now_ms)?;
        let horizon_ms = shape.horizon_ms;
        match decay.width() {
            Some(window_ms) if window_ms > horizon_ms => Err(QueryError::WindowBeyondHorizon { window_ms, horizon_ms }),
            _ => Ok(Self { shape, decay, now_ms, newest_ms: None, oldest_ms }),
        }
    }

    /// Answers as of a time that may be before `newest_ms`, but not before everything that is kept.
    pub fn since(self, newest_ms: Option<i64>) -> Result<Self, QueryError> {
        let newest_ms = newest_ms.filter(|newest| *newest > self.now_ms);
        match newest_ms.map(|newest| newest.saturating_sub_unsigned(self.shape.horizon_ms)) {
            Some(floor_ms) if floor_ms >= self.now_ms => Err(QueryError::Expired { floor_ms }),
            _ => Ok(Self { newest_ms, ..self }),
        }
    }

    /// Bounds of the decay of observations between `low_ms` and `high_ms`; `None` if none of them has weight.
    pub fn range_factor(&self, low_ms: i64, high_ms: i64) -> Option<DecayFactor> {
        if low_ms > self.now_ms && self.newest_ms.is_some() {
            return None;
        }
        let is_cut = high_ms > self.now_ms && self.newest_ms.is_some();
        let upper = self.weight(if is_cut { self.now_ms } else { high_ms });
        let lower = match () {
            () if is_cut => 0.0,
            () if low_ms == high_ms => upper,
            () => self.least_weight(low_ms).min(upper),
        };
        (upper > 0.0).then(|| DecayFactor::between(lower, upper))
    }

    /// The decayed weight of a unit observed at `time_ms`; zero beyond the horizon, and after the time of a query for the
    /// past.
    pub fn weight(&self, time_ms: i64) -> f64 {
        if self.newest_ms.is_some() && time_ms > self.now_ms {
            return 0.0;
        }
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
        let newest_ms = self.newest_ms.unwrap_or(self.now_ms);
        let expired = span_ms.is_some_and(|(oldest_ms, _)| newest_ms.saturating_sub(oldest_ms) as u64 >= horizon_ms);
        let oldest_age = horizon_ms.saturating_sub(newest_ms.abs_diff(self.now_ms));
        Assurance {
            // Ranges are as wide as the newest time allows, so a query for the past has its bounds only.
            epsilon: Some(self.shape.epsilon).filter(|_| self.shape.is_guaranteed && self.newest_ms.is_none()),
            incomplete: expired && self.decay.weight(oldest_age) > 0.0,
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
