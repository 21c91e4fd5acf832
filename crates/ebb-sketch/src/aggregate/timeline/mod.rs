//! Shared by the methods that answer any window: [`cascade`](super::cascade) and [`paper::levels`](super::paper::levels).
//!
//! Both keep the newest observations as they are and older ones in dyadic ranges of absolute time. They differ in the store
//! of those ranges; shape, checks, queries and the frame of the state bytes are the same.

mod query;
mod shape;
mod sketch;

pub(crate) use query::{RangeCollector, TimelineQuery};
pub use shape::TimelineShape;
pub(crate) use sketch::{RangeStore, Timeline, TimelineStore};

/// Maps times to positions; a multiple of every block.
const ORIGIN_MS: i64 = 1 << 57;

pub(crate) fn position_of(time_ms: i64) -> u64 {
    (time_ms + ORIGIN_MS) as u64
}

pub(crate) fn time_of(position: u64) -> i64 {
    position as i64 - ORIGIN_MS
}
