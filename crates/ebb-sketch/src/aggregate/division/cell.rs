//! One cell of a division: what it holds, and between which weights it may have decayed.

use crate::aggregate::content::{Content, ContentShape, Factor, Observation};
use crate::aggregate::qdigest::Mass;
use crate::decay::Decay;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub content: Content,
    /// Sum of weight · (time − begin of the cell): kept small, so that doubles stay exact.
    pub delay: f64,
    /// The same of weight · value.
    pub sum_delay: f64,
    pub oldest_ms: i64,
    pub newest_ms: i64,
}

impl Cell {
    pub fn new(shape: ContentShape) -> Self {
        let content = Content::new(shape);
        Self { content, delay: 0.0, sum_delay: 0.0, oldest_ms: i64::MAX, newest_ms: i64::MIN }
    }

    #[inline]
    pub fn insert(&mut self, observation: &Observation, begin_ms: i64) {
        let since = (observation.time_ms - begin_ms) as f64;
        self.delay += observation.weight * since;
        self.sum_delay += observation.weight * observation.value as f64 * since;
        self.oldest_ms = self.oldest_ms.min(observation.time_ms);
        self.newest_ms = self.newest_ms.max(observation.time_ms);
        self.content.insert(observation.value, observation.label, observation.weight);
    }

    /// The same cell, seen from an earlier begin.
    pub fn widen(&mut self, earlier_ms: i64) {
        self.delay += self.content.tally.weight * earlier_ms as f64;
        self.sum_delay += self.content.tally.sum * earlier_ms as f64;
    }

    pub fn absorb(&mut self, other: Self) {
        self.delay += other.delay;
        self.sum_delay += other.sum_delay;
        self.oldest_ms = self.oldest_ms.min(other.oldest_ms);
        self.newest_ms = self.newest_ms.max(other.newest_ms);
        self.content.absorb(other.content);
    }
}

/// The decay of one question, as seen by cells.
pub(super) struct Fading<'a> {
    pub decay: &'a Decay,
    pub now_ms: i64,
    pub horizon_ms: u64,
}

impl Fading<'_> {
    fn age(&self, time_ms: i64) -> u64 {
        self.now_ms.saturating_sub(time_ms).max(0) as u64
    }

    /// Whether something in the cell is past the horizon.
    pub fn outlived(&self, cell: &Cell) -> bool {
        self.age(cell.oldest_ms) >= self.horizon_ms
    }

    /// Whether the oldest of the cell is past the horizon while its newest is not.
    pub fn straddles(&self, cell: &Cell) -> bool {
        self.outlived(cell) && self.age(cell.newest_ms) < self.horizon_ms
    }

    /// Bounds for every observation of the cell alone: the weights of its ends.
    pub fn ends(&self, cell: &Cell) -> Factor {
        let upper =
            if self.age(cell.newest_ms) < self.horizon_ms { self.decay.weight(self.age(cell.newest_ms)) } else { 0.0 };
        if self.straddles(cell) {
            return Factor::between(0.0, upper);
        }
        let lower = if upper > 0.0 { self.decay.weight(self.age(cell.oldest_ms)) } else { 0.0 };
        if lower > 0.0 { Factor::harmonic(lower, upper) } else { Factor::between(lower, upper) }
    }

    /// Bounds for the cell as a whole, from its mean age: a convex decay lies between its value there and the chord.
    pub fn whole(&self, cell: &Cell, begin_ms: i64, mass: f64, delay: f64) -> Factor {
        let ends = self.ends(cell);
        let convex = self.decay.rate().is_some() || self.decay.power().is_some();
        if !convex || self.straddles(cell) || cell.oldest_ms == cell.newest_ms || mass <= 0.0 {
            return ends;
        }
        let mean_ms = delay / mass;
        let (newest, oldest) = ((cell.newest_ms - begin_ms) as f64, (cell.oldest_ms - begin_ms) as f64);
        let share_old = ((newest - mean_ms) / (newest - oldest)).clamp(0.0, 1.0);
        let upper = ends.upper + (ends.lower - ends.upper) * share_old;
        let age = (self.now_ms - begin_ms) as f64 - mean_ms;
        let lower = self.weight_at(age).clamp(ends.lower, ends.upper);
        Factor::harmonic(lower.min(upper), upper)
    }

    /// The decay at an age between ticks.
    fn weight_at(&self, age_ms: f64) -> f64 {
        match (self.decay.rate(), self.decay.power()) {
            (Some(rate), _) => libm::exp(-rate * age_ms),
            (_, Some((alpha, unit))) => libm::exp(-alpha * libm::log1p(age_ms / unit)),
            (None, None) => self.decay.weight(age_ms as u64),
        }
    }
}
