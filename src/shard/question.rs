//! Questions to a shard, and its answers.

use super::event::{NextOffset, Verdict};
use super::reader::Subject;
use crate::filter::decision::{Decision, Penalties, PenaltyError};
use crate::filter::frequency::Count;
use crate::filter::inference::Basis;
use crate::filter::posterior::{Belief, Share};

/// How far back: by event time or by arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Milliseconds(u64),
    Events(u64),
}

/// Was this seen within the window, and which answer costs less if it is wrong?
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub subject: Subject,
    /// At most the configured window, which counts (or that of the key's rule) when this is absent.
    pub window: Option<Span>,
    /// Instead of the configured penalties.
    pub penalties: Option<Penalties>,
    /// The item's own share of the arrivals, where the asker knows it.
    pub share: Option<Share>,
}

impl Question {
    pub fn about(subject: Subject) -> Self {
        Self { subject, window: None, penalties: None, share: None }
    }
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
    /// Why the answer is what it is.
    pub basis: Basis,
    /// How likely the item was seen within the window; with [`Basis::Posterior`].
    pub belief: Option<Belief>,
    /// What either answer is expected to cost; with [`Basis::Posterior`].
    pub decision: Option<Decision>,
    /// How long ago it was last recorded, as far as the memory can tell; absent when it is not remembered.
    pub age: Option<AgeRange>,
    /// Its decayed count before this event, where the stream keeps one.
    pub frequency: Option<Count>,
}

impl Answer {
    /// A verdict that needed no memory.
    pub(super) fn plain(verdict: Verdict) -> Self {
        Self { verdict, basis: Basis::Standard, belief: None, decision: None, age: None, frequency: None }
    }
}

/// Ages from `least` (inclusive) to `below` (exclusive), in the unit of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeRange {
    pub least: Span,
    pub below: Span,
}

/// Why a question cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum QuestionError {
    #[error("a window of {asked:?} was asked for, the memory reaches back {most:?}")]
    WindowTooLong { asked: Span, most: Span },
    #[error("the window {asked:?} is of another kind than the configured {most:?}")]
    WindowKind { asked: Span, most: Span },
    #[error("a window must be longer than nothing")]
    EmptyWindow,
    #[error("this stream's filter forgets at random and has no window; ask without one")]
    NoWindow,
    #[error(transparent)]
    Penalty(#[from] PenaltyError),
}
