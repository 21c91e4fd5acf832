//! Questions about an item, and their answers.

use super::frequency::ItemCount;
use super::reader::Subject;
use super::verdict::Verdict;
use ebb_sketch::filter::belief::{ArrivalShare, ArrivalShareError, Belief};
use ebb_sketch::filter::inference::Basis;
use ebb_sketch::filter::inference::decision::{Decision, Penalties, PenaltyError};

/// A length of time or a number of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Milliseconds of event time.
    Milliseconds(u64),
    /// Events of the partition.
    Events(u64),
}

/// Was this item seen within the window, and which answer costs less if it is wrong?
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The item.
    pub subject: Subject,
    /// A window up to the configured one; without it the window of the key's rule or of the view applies.
    pub window: Option<Span>,
    /// Overrides the configured penalties.
    pub penalties: Option<Penalties>,
    /// The item's share of all events, where the caller knows it.
    pub share: Option<ArrivalShare>,
}

impl Question {
    /// A question with the configured window, penalties and prior.
    pub fn about(subject: Subject) -> Self {
        Self { subject, window: None, penalties: None, share: None }
    }
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The decision.
    pub verdict: Verdict,
    /// What the decision is based on.
    pub basis: Basis,
    /// Probability that the item was seen within the window; absent without penalties and while it is being learned.
    pub belief: Option<Belief>,
    /// Expected penalty of either verdict; absent without penalties and while the prior is being learned.
    pub decision: Option<Decision>,
    /// Age of the item's last recorded event at the time of the question, as precisely as the filter knows it; absent when
    /// the item is unknown.
    pub age: Option<AgeRange>,
    /// The item's decayed count before this event, where the stream has a frequency view.
    pub frequency: Option<ItemCount>,
    /// Whether the filter takes the item for a duplicate and was overruled because "unique" costs less.
    pub is_overruled: bool,
}

impl Answer {
    /// A verdict that no filter was asked for.
    pub(super) fn plain(verdict: Verdict) -> Self {
        Self {
            verdict,
            basis: Basis::Standard,
            belief: None,
            decision: None,
            age: None,
            frequency: None,
            is_overruled: false,
        }
    }
}

/// Ages from `min` (inclusive) to `below` (exclusive), in the unit of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeRange {
    /// The smallest age of the range.
    pub min: Span,
    /// The smallest age above the range.
    pub below: Span,
}

/// What is known about the age of an item's last event.
#[derive(Debug, Clone, PartialEq)]
pub enum AgeExplanation {
    /// The prior is still being learned, so that nothing can be said in probabilities.
    Learning,
    /// The posterior distribution.
    Posterior(AnswerDetails),
}

/// The whole posterior distribution behind an [`Answer`]. Ages count from the time of the question.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerDetails {
    /// Probability that the item was seen within the window, whatever the answer is based on.
    pub belief: Belief,
    /// Expected penalty of either verdict under that belief, where penalties are known.
    pub decision: Option<Decision>,
    /// The ages that the filter distinguishes, youngest first, with their probabilities. The rest up to 1 is "older or
    /// never".
    pub blocks: Vec<(AgeRange, f64)>,
    /// The most probable block; absent when "older or never" is more probable.
    pub likely: Option<AgeRange>,
    /// Mean age.
    pub expected_age: ExpectedAge,
    /// Probability that the item was never seen; with a learned prior, not within the horizon of the prior.
    pub never: f64,
}

/// A mean age, in the unit of the prior.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExpectedAge {
    /// Milliseconds of event time.
    Milliseconds(f64),
    /// Events of the partition.
    Events(f64),
}

/// Why a question cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The window is longer than the filter remembers.
    #[error("the requested window {requested:?} is longer than the configured window {max:?}")]
    WindowTooLong {
        /// The window of the question.
        requested: Span,
        /// The configured window.
        max: Span,
    },
    /// The window is in events where the configured one is in time, or the other way round.
    #[error("the requested window {requested:?} has another unit than the configured window {max:?}")]
    WindowKind {
        /// The window of the question.
        requested: Span,
        /// The configured window.
        max: Span,
    },
    /// The window is zero.
    #[error("window must be greater than zero")]
    EmptyWindow,
    /// The filter forgets at random, so that it has no window.
    #[error("this stream's filter has no window; omit window from the question")]
    NoWindow,
    /// The filter has no prior, so that it cannot weigh penalties.
    #[error(
        "this stream's filter computes no posterior, so that penalties have no effect; omit penalty from the question, or \
         configure dedup.penalty and dedup.prior"
    )]
    NoPosterior,
    /// The penalties are not valid.
    #[error(transparent)]
    Penalty(#[from] PenaltyError),
    /// The prior is not valid.
    #[error(transparent)]
    Share(#[from] ArrivalShareError),
}
