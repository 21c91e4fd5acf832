//! Ages in a timing filter.

use crate::question::{AgeRange, Span};
use ebb_sketch::filter::structure::timing::{ClockSpec, Reading, TimingFilter};

/// Whether part of the window before `time_ms` has already expired, so that not finding an item proves nothing.
pub(super) fn is_late(filter: &TimingFilter, time_ms: i64) -> bool {
    match (filter.spec().clock(), filter.now()) {
        (ClockSpec::Time { lateness_ms, .. }, Some(now)) => now.saturating_sub_unsigned(lateness_ms) > time_ms,
        (ClockSpec::Time { .. }, None) | (ClockSpec::Count { .. }, _) => false,
    }
}

/// The ages, at `time_ms`, of the block in which the item's oldest timer was written. If events of that block may be later
/// than `time_ms`, their age is 0.
pub(super) fn age_range(filter: &TimingFilter, reading: &Reading, time_ms: i64) -> Option<AgeRange> {
    let clock = filter.spec().clock();
    let (age, now) = (i64::from(reading.age?), filter.now()?);
    let behind = match clock {
        ClockSpec::Time { .. } => now.saturating_sub(time_ms).max(0),
        ClockSpec::Count { .. } => 0,
    };
    let length = i64::try_from(clock.block()).ok()?;
    let start = (now.div_euclid(length).saturating_sub(age)).saturating_mul(length);
    let until_end = now.saturating_sub(start.saturating_add(length)).saturating_add(1);
    let min = until_end.saturating_sub(behind).max(0) as u64;
    let below = now.saturating_sub(start).saturating_add(1).saturating_sub(behind).max(1) as u64;
    Some(match clock {
        ClockSpec::Time { .. } => AgeRange { min: Span::Milliseconds(min), below: Span::Milliseconds(below) },
        ClockSpec::Count { .. } => AgeRange { min: Span::Events(min), below: Span::Events(below) },
    })
}
