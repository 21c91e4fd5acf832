//! One cell of a division, and the bounds of its decay.

use crate::aggregate::observation::Observation;
use crate::aggregate::qdigest::Mass;
use crate::aggregate::reading::DecayFactor;
use crate::aggregate::summary::{Summary, SummaryShape};
use crate::decay::Decay;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct DivisionCell {
    pub summary: Summary,
    /// Sum of weight · (time − begin of the cell). Relative to the begin, doubles represent it exactly.
    pub delay: f64,
    /// Sum of weight · value · (time − begin of the cell).
    pub sum_delay: f64,
    pub oldest_ms: i64,
    pub newest_ms: i64,
}

impl DivisionCell {
    pub fn new(shape: SummaryShape) -> Self {
        let summary = Summary::new(shape);
        Self { summary, delay: 0.0, sum_delay: 0.0, oldest_ms: i64::MAX, newest_ms: i64::MIN }
    }

    #[inline]
    pub fn insert(&mut self, observation: &Observation, begin_ms: i64) {
        let since = (observation.time_ms - begin_ms) as f64;
        self.delay += observation.weight * since;
        self.sum_delay += observation.weight * observation.value as f64 * since;
        self.oldest_ms = self.oldest_ms.min(observation.time_ms);
        self.newest_ms = self.newest_ms.max(observation.time_ms);
        self.summary.insert(observation.value, observation.label, observation.weight);
    }

    /// Moves the begin of the cell back by `earlier_ms`.
    pub fn move_begin(&mut self, earlier_ms: i64) {
        self.delay += self.summary.tally.weight * earlier_ms as f64;
        self.sum_delay += self.summary.tally.sum * earlier_ms as f64;
    }

    pub fn merge(&mut self, other: Self) {
        self.delay += other.delay;
        self.sum_delay += other.sum_delay;
        self.oldest_ms = self.oldest_ms.min(other.oldest_ms);
        self.newest_ms = self.newest_ms.max(other.newest_ms);
        self.summary.merge(other.summary);
    }
}

/// A decay at one time, applied to cells.
pub(super) struct CellQuery<'a> {
    pub decay: &'a Decay,
    pub now_ms: i64,
    pub horizon_ms: u64,
}

impl CellQuery<'_> {
    fn age(&self, time_ms: i64) -> u64 {
        self.now_ms.saturating_sub(time_ms).max(0) as u64
    }

    /// Whether the oldest observation of the cell is outside the horizon.
    pub fn reaches_horizon(&self, cell: &DivisionCell) -> bool {
        self.age(cell.oldest_ms) >= self.horizon_ms
    }

    /// Whether the oldest observation of the cell is outside the horizon and the newest is not.
    pub fn straddles_horizon(&self, cell: &DivisionCell) -> bool {
        self.reaches_horizon(cell) && self.age(cell.newest_ms) < self.horizon_ms
    }

    /// Bounds for each single observation of the cell: the weights at its ends.
    pub fn factor(&self, cell: &DivisionCell) -> DecayFactor {
        let newest_age = self.age(cell.newest_ms);
        let upper = if newest_age < self.horizon_ms { self.decay.weight(newest_age) } else { 0.0 };
        if self.straddles_horizon(cell) {
            return DecayFactor::between(0.0, upper);
        }
        let lower = if upper > 0.0 { self.decay.weight(self.age(cell.oldest_ms)) } else { 0.0 };
        if lower > 0.0 { DecayFactor::harmonic(lower, upper) } else { DecayFactor::between(lower, upper) }
    }

    /// Tighter bounds for the cell as a whole, from its mean age: a convex decay lies between its value there and the chord.
    pub fn mean_factor(&self, cell: &DivisionCell, begin_ms: i64, mass: f64, delay: f64) -> DecayFactor {
        let ends = self.factor(cell);
        let is_convex = self.decay.rate().is_some() || self.decay.power().is_some();
        if !is_convex || self.straddles_horizon(cell) || cell.oldest_ms == cell.newest_ms || mass <= 0.0 {
            return ends;
        }
        let mean_ms = delay / mass;
        let (newest, oldest) = ((cell.newest_ms - begin_ms) as f64, (cell.oldest_ms - begin_ms) as f64);
        let share_old = ((newest - mean_ms) / (newest - oldest)).clamp(0.0, 1.0);
        let upper = ends.upper + (ends.lower - ends.upper) * share_old;
        let age = (self.now_ms - begin_ms) as f64 - mean_ms;
        let lower = self.weight_at(age).clamp(ends.lower, ends.upper);
        DecayFactor::harmonic(lower.min(upper), upper)
    }

    /// The decay at a fractional age.
    fn weight_at(&self, age_ms: f64) -> f64 {
        match (self.decay.rate(), self.decay.power()) {
            (Some(rate), _) => libm::exp(-rate * age_ms),
            (_, Some((alpha, unit))) => libm::exp(-alpha * libm::log1p(age_ms / unit)),
            (None, None) => self.decay.weight(age_ms as u64),
        }
    }
}
