//! The distribution of an item's age, as JSON.

use serde::Serialize;
use utoipa::ToSchema;

use ebb_core::{AgeExplanation, AgeRange, AnswerDetails, ExpectedAge, Span};

/// The probability that the item was seen within the window, and that it was not.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PosteriorResponse {
    pub(super) seen: f64,
    pub(super) unseen: f64,
}

/// The expected penalty of either verdict.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ExpectedPenaltyResponse {
    pub(super) duplicate: f64,
    pub(super) unique: f64,
}

/// An interval of ages, in the unit of the stream's window; the upper end is exclusive.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum AgeIntervalResponse {
    Time { least_ms: u64, below_ms: u64 },
    Count { least_events: u64, below_events: u64 },
}

/// A mean age, in the unit of the stream's window.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum MeanAgeResponse {
    Time { ms: f64 },
    Count { events: f64 },
}

/// The probability of one age interval.
#[derive(Debug, Serialize, ToSchema)]
struct AgeBlockResponse {
    #[serde(flatten)]
    age: AgeIntervalResponse,
    probability: f64,
}

/// What is known about the item's age.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum ExplanationResponse {
    /// The prior is still being learned, so that no probability can be stated.
    Learning,
    /// The distribution of the item's age at the time of the event, whatever the verdict is based on.
    Posterior(Box<AgeDistributionResponse>),
}

/// The distribution of the item's age.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgeDistributionResponse {
    posterior: PosteriorResponse,
    /// Present if penalties apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_penalty: Option<ExpectedPenaltyResponse>,
    /// The most likely age; absent if "older or never" is more likely.
    #[serde(skip_serializing_if = "Option::is_none")]
    likely_age: Option<AgeIntervalResponse>,
    expected_age: MeanAgeResponse,
    /// Youngest first.
    blocks: Vec<AgeBlockResponse>,
    /// The probability that is missing from the blocks.
    older_or_never: f64,
    /// With a learned prior: the probability that the item was not seen within the horizon of the prior.
    never: f64,
}

impl AgeIntervalResponse {
    /// `None` if the ends have different units, which the shards never produce.
    pub(super) fn from_range(range: AgeRange) -> Option<Self> {
        match (range.min, range.below) {
            (Span::Milliseconds(least_ms), Span::Milliseconds(below_ms)) => Some(Self::Time { least_ms, below_ms }),
            (Span::Events(least_events), Span::Events(below_events)) => {
                Some(Self::Count { least_events, below_events })
            }
            (Span::Milliseconds(_), Span::Events(_)) | (Span::Events(_), Span::Milliseconds(_)) => None,
        }
    }
}

impl From<&AgeExplanation> for ExplanationResponse {
    fn from(explanation: &AgeExplanation) -> Self {
        match explanation {
            AgeExplanation::Learning => Self::Learning,
            AgeExplanation::Posterior(details) => Self::Posterior(Box::new(details.into())),
        }
    }
}

impl From<&AnswerDetails> for AgeDistributionResponse {
    fn from(details: &AnswerDetails) -> Self {
        let block = |(range, probability): &(AgeRange, f64)| {
            Some(AgeBlockResponse { age: AgeIntervalResponse::from_range(*range)?, probability: *probability })
        };
        let known: f64 = details.blocks.iter().map(|(_, probability)| probability).sum();
        Self {
            posterior: PosteriorResponse { seen: details.belief.inside, unseen: details.belief.outside },
            expected_penalty: details
                .decision
                .map(|d| ExpectedPenaltyResponse { duplicate: d.if_duplicate, unique: d.if_unique }),
            likely_age: details.likely.and_then(AgeIntervalResponse::from_range),
            expected_age: match details.expected_age {
                ExpectedAge::Milliseconds(ms) => MeanAgeResponse::Time { ms },
                ExpectedAge::Events(events) => MeanAgeResponse::Count { events },
            },
            blocks: details.blocks.iter().filter_map(block).collect(),
            older_or_never: (1.0 - known).max(0.0),
            never: details.never,
        }
    }
}
