//! Positions in a log.
//!
//! A leaf module: every other module may use it, and it uses none of them. Partition numbers are plain `u32`.

/// A position in the log of one partition, exclusive: the offset of the next record to read.
///
/// ```
/// use ebb_core::NextOffset;
///
/// let next = NextOffset::after(41);
/// assert_eq!(next, NextOffset(42));
/// assert!(next > NextOffset::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NextOffset(pub u64);

impl NextOffset {
    /// The position after the record at `offset`.
    pub fn after(offset: u64) -> Self {
        Self(offset.saturating_add(1))
    }
}

/// The position in the log and the event time up to which an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf {
    /// The partition that answered.
    pub partition: u32,
    /// All records before this offset are part of the answer.
    pub next: NextOffset,
    /// The largest accepted event time; absent before the first accepted event.
    pub time_ms: Option<i64>,
}
