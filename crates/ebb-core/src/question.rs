//! Questions to a shard, and its answers.

use super::event::{NextOffset, Verdict};
use super::reader::Subject;
use ebb_sketch::filter::decision::{Decision, Penalties, PenaltyError};
use ebb_sketch::filter::frequency::Count;
use ebb_sketch::filter::inference::Basis;
use ebb_sketch::filter::posterior::{Belief, Share};

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

/// Everything that can be said about an item's last sighting.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// How likely the item was seen within the window, whatever the answer rests on.
    pub belief: Belief,
    /// What either answer is expected to cost under that belief, where there are penalties.
    pub decision: Option<Decision>,
    /// The ages that the memory tells apart and the chance of each, youngest first. What is missing to 1 is older or never.
    pub blocks: Vec<(AgeRange, f64)>,
    /// The likeliest of them, unless "older or never" is likelier.
    pub likely: Option<AgeRange>,
    pub expected_age: ExpectedAge,
    /// Chance that it was never seen; with a learned prior, not within its horizon.
    pub never: f64,
}

/// A mean age, in what the prior counts ages in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExpectedAge {
    Milliseconds(f64),
    Events(f64),
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
