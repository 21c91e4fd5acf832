//! The number of different values, from the samples of all copies.

use super::accuracy::DistinctAccuracy;
use super::store::DistinctStore;
use crate::aggregate::answer::{Estimate, Evidence, Guarantee};
use crate::aggregate::robust::NO_FLOOR;
use crate::decay::Decay;

/// What one copy knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CopyCount {
    value: f64,
    lower: f64,
    upper: f64,
    /// The highest level that was used. At level 0 nothing was sampled away.
    level: u8,
    elements: u64,
    incomplete: bool,
}

/// What all copies know at one time under one decay.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctReading {
    accuracy: DistinctAccuracy,
    copies: Vec<CopyCount>,
}

impl DistinctReading {
    pub(super) fn new(accuracy: DistinctAccuracy, copies: Vec<CopyCount>) -> Self {
        Self { accuracy, copies }
    }

    /// The decayed number of different values. Where more than half of the copies keep their bounds, so do the medians.
    pub fn count(&self) -> Estimate {
        let is_exact = self.copies.iter().all(|copy| copy.level == 0);
        let (epsilon, delta) = (self.accuracy.epsilon(), self.accuracy.delta());
        let guarantee = if is_exact { Guarantee::Exact } else { Guarantee::Probabilistic { epsilon, delta } };
        let level = self.copies.iter().map(|copy| copy.level).max().unwrap_or(0);
        let elements = self.copies.iter().map(|copy| copy.elements).sum();
        Estimate {
            value: self.median(|copy| copy.value),
            lower: self.median(|copy| copy.lower),
            upper: self.median(|copy| copy.upper),
            guarantee,
            incomplete: self.copies.iter().any(|copy| copy.incomplete),
            evidence: Evidence::Level { level, elements },
        }
    }

    fn median(&self, number: impl Fn(&CopyCount) -> f64) -> f64 {
        let mut numbers: Vec<f64> = self.copies.iter().map(number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
    }
}

impl DistinctStore {
    /// Reads a compacted store at `now_ms`, which is not before any sighting.
    pub(super) fn read(&self, now_ms: i64, decay: &Decay, accuracy: DistinctAccuracy) -> CopyCount {
        match decay.width() {
            Some(width_ms) => self.read_window(now_ms.saturating_sub_unsigned(width_ms), accuracy),
            None => self.read_decayed(now_ms, decay, accuracy),
        }
    }

    /// The values seen after `begin_ms`.
    fn read_window(&self, begin_ms: i64, accuracy: DistinctAccuracy) -> CopyCount {
        let lowest_ms = self.floors().last().copied().unwrap_or(NO_FLOOR);
        let after_ms = begin_ms.max(lowest_ms);
        let level = self.floors().partition_point(|floor| *floor > after_ms);
        let seen = self.times_after(level, after_ms).count() as u64;
        let scale = self.hash().scale(level as u8);
        let (lower, upper) = if level == 0 { (seen as f64, seen as f64) } else { accuracy.mean_bounds(seen) };
        CopyCount {
            value: seen as f64 * scale,
            lower: lower * scale,
            upper: upper * scale,
            level: level as u8,
            elements: seen,
            incomplete: lowest_ms > begin_ms,
        }
    }

    /// A mixture of windows: level i answers for those that begin between its floor and the floor of the level below. The
    /// first level that reaches back as far as any level does answers for everything older, too.
    fn read_decayed(&self, now_ms: i64, decay: &Decay, accuracy: DistinctAccuracy) -> CopyCount {
        let weight = |time_ms: i64| decay.weight(now_ms.saturating_sub(time_ms).max(0) as u64);
        let lowest_ms = self.floors().last().copied().unwrap_or(NO_FLOOR);
        let incomplete = lowest_ms != NO_FLOOR && weight(lowest_ms) > 0.0;
        let (mut exact, mut sampled) = (0.0, 0.0);
        let (mut highest, mut elements) = (0, 0);
        let mut newer_ms = i64::MAX;
        for (level, floor_ms) in self.floors().iter().copied().enumerate() {
            let is_last = floor_ms == lowest_ms;
            let above = if is_last { 0.0 } else { weight(floor_ms) };
            let mut sum = 0.0;
            for time_ms in self.times_after(level, floor_ms) {
                sum += weight(time_ms.min(newer_ms)) - above;
                elements += 1;
            }
            let part = if level == 0 { &mut exact } else { &mut sampled };
            *part += sum * self.hash().scale(level as u8);
            highest = level as u8;
            if is_last {
                break;
            }
            newer_ms = floor_ms;
        }
        let epsilon = accuracy.epsilon();
        let (lower, upper) = (exact + sampled / (1.0 + epsilon), exact + sampled / (1.0 - epsilon));
        CopyCount { value: exact + sampled, lower, upper, level: highest, elements, incomplete }
    }
}
