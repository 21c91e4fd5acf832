//! Questions to a shard, and its answers.

use super::event::{NextOffset, Verdict};
use super::reader::Subject;

/// How far back: by event time or by arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Milliseconds(u64),
    Events(u64),
}

/// Was this seen within the window?
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    pub subject: Subject,
    /// At most the configured window, which counts when this is absent.
    pub window: Option<Span>,
}

/// Up to where in the log, and when in event time, an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf {
    pub partition: u32,
    pub next: NextOffset,
    /// Absent before the first accepted event.
    pub time_ms: Option<i64>,
}

/// What the memory says about an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    pub verdict: Verdict,
    /// How long ago it was last recorded, as far as the memory can tell; absent when it is not remembered.
    pub age: Option<AgeRange>,
}

/// Ages from `least` (inclusive) to `below` (exclusive), in the unit of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeRange {
    pub least: Span,
    pub below: Span,
}

/// Why a question cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    #[error("a window of {asked:?} was asked for, the memory reaches back {most:?}")]
    WindowTooLong { asked: Span, most: Span },
    #[error("the window {asked:?} is of another kind than the configured {most:?}")]
    WindowKind { asked: Span, most: Span },
    #[error("a window must be longer than nothing")]
    EmptyWindow,
}
