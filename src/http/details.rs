//! What can be said about an item's last sighting, as JSON.

use serde::Serialize;
use utoipa::ToSchema;

use ebb_core::{AgeRange, ExpectedAge, Span};

/// How likely the item was, and was not, seen within the window.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Posterior {
    pub(super) seen: f64,
    pub(super) unseen: f64,
}

/// What either answer is expected to cost.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ExpectedPenalty {
    pub(super) duplicate: f64,
    pub(super) unique: f64,
}

/// From `least` to below `below`, in the unit of the stream's window.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Age {
    Time { least_ms: u64, below_ms: u64 },
    Count { least_events: u64, below_events: u64 },
}

/// A mean age: by the clock, or in events that came since.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Mean {
    Time { ms: f64 },
    Count { events: f64 },
}

/// One of the ages that the memory tells apart.
#[derive(Debug, Serialize, ToSchema)]
struct Block {
    #[serde(flatten)]
    age: Age,
    probability: f64,
}

/// Everything that can be said about the item's last sighting, whatever the verdict rests on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Explanation {
    posterior: Posterior,
    /// Where there are penalties.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_penalty: Option<ExpectedPenalty>,
    /// The likeliest age; absent where "older or never" is likelier.
    #[serde(skip_serializing_if = "Option::is_none")]
    likely_age: Option<Age>,
    expected_age: Mean,
    /// Youngest first.
    blocks: Vec<Block>,
    /// What the blocks lack to 1.
    older_or_never: f64,
    /// With a learned prior: not within its horizon.
    never: f64,
}

impl Age {
    /// Both ends are in the unit of the stream's window.
    pub(super) fn of(range: AgeRange) -> Option<Self> {
        match (range.min, range.below) {
            (Span::Milliseconds(least_ms), Span::Milliseconds(below_ms)) => Some(Age::Time { least_ms, below_ms }),
            (Span::Events(least_events), Span::Events(below_events)) => Some(Age::Count { least_events, below_events }),
            (Span::Milliseconds(_), Span::Events(_)) | (Span::Events(_), Span::Milliseconds(_)) => None,
        }
    }
}

impl From<&ebb_core::AnswerDetails> for Explanation {
    fn from(details: &ebb_core::AnswerDetails) -> Self {
        let block =
            |(range, probability): &(AgeRange, f64)| Some(Block { age: Age::of(*range)?, probability: *probability });
        let known: f64 = details.blocks.iter().map(|(_, chance)| chance).sum();
        Self {
            posterior: Posterior { seen: details.belief.inside, unseen: details.belief.outside },
            expected_penalty: details
                .decision
                .map(|d| ExpectedPenalty { duplicate: d.if_duplicate, unique: d.if_unique }),
            likely_age: details.likely.and_then(Age::of),
            expected_age: match details.expected_age {
                ExpectedAge::Milliseconds(ms) => Mean::Time { ms },
                ExpectedAge::Events(events) => Mean::Count { events },
            },
            blocks: details.blocks.iter().filter_map(block).collect(),
            older_or_never: (1.0 - known).max(0.0),
            never: details.never,
        }
    }
}
