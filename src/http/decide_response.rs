//! Decisions as JSON.

use serde::Serialize;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::explanation::{AgeIntervalResponse, ExpectedPenaltyResponse, ExplanationResponse, PosteriorResponse};
use super::position::{AsOfResponse, PartitionCoverage};
use crate::workers::{Decision, RecordReceipt};
use ebb_core::{Answer, Basis, ItemCount, Reason, Verdict};

/// The decision about one event, or the decisions about a batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum DecideResponse {
    One(Box<DecisionResponse>),
    Batch(BatchResponse),
}

/// The decisions about a batch, in the order of its events.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BatchResponse {
    pub(super) decisions: Vec<DecisionResponse>,
    /// The partitions that the decisions cover; absent without Kafka, where every instance has all partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partitions: Option<PartitionCoverage>,
}

/// The decision about one event.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DecisionResponse {
    verdict: VerdictName,
    /// Why the event was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<ReasonName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
    /// What the verdict is based on; absent if the filter was not consulted.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<BasisName>,
    /// If penalties apply; absent with the basis `learning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    posterior: Option<PosteriorResponse>,
    /// If penalties apply; absent with the basis `learning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_penalty: Option<ExpectedPenaltyResponse>,
    /// Estimated time between the item's last accepted event and this one; absent if the filter does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<AgeIntervalResponse>,
    /// With `explain`, if the filter keeps ages.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Box<ExplanationResponse>>,
    /// The item's decayed count before this event, if the stream has a frequency view.
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency: Option<DecayedCountResponse>,
    /// The offset of the recorded event.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// Absent if the event was rejected before it reached a shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<AsOfResponse>,
    /// The partitions that the decision covers; absent without Kafka, where every instance has all partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partitions: Option<PartitionCoverage>,
}

/// A decayed count.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DecayedCountResponse {
    /// The decayed number of events, each counted as often as its weight says.
    count: f64,
    /// With `answer: normalised`: 1 - λ times the count, where λ is the share of a count that remains after an epoch.
    /// This is the decayed average number of events per epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    normalised: Option<f64>,
    /// True if counters overflowed, so that the true count may be higher. Otherwise the true count is at most `count`.
    lower_bound: bool,
}

impl From<ItemCount> for DecayedCountResponse {
    fn from(item: ItemCount) -> Self {
        Self { count: item.value, normalised: item.normalised, lower_bound: item.lower_bound }
    }
}

/// Declares a response field whose values are the names of a domain enum.
macro_rules! name_of {
    ($name:ident($of:ty): $all:expr) => {
        #[derive(Debug, Clone, Copy, Serialize)]
        pub(super) struct $name(&'static str);

        impl From<$of> for $name {
            fn from(value: $of) -> Self {
                Self(value.name())
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some($all)).build().into()
            }
        }

        impl ToSchema for $name {}
    };
}

name_of!(VerdictName(Verdict): ["unique", "duplicate", "late", "rejected"]);
name_of!(ReasonName(Reason): Reason::ALL.map(Reason::name));
name_of!(BasisName(Basis): Basis::ALL.map(Basis::name));

impl DecisionResponse {
    fn from_verdict(verdict: Verdict) -> Self {
        let reason = match verdict {
            Verdict::Rejected(reason) => Some(reason),
            Verdict::Unique | Verdict::Duplicate | Verdict::Late => None,
        };
        Self {
            verdict: verdict.into(),
            reason: reason.map(ReasonName::from),
            detail: reason.map(Reason::description),
            basis: None,
            posterior: None,
            expected_penalty: None,
            age: None,
            explanation: None,
            frequency: None,
            offset: None,
            as_of: None,
            partitions: None,
        }
    }

    pub(super) fn rejected(reason: Reason) -> Self {
        Self::from_verdict(Verdict::Rejected(reason))
    }

    pub(super) fn recorded(recorded: &RecordReceipt) -> Self {
        let decision = match &recorded.outcome.answer {
            Some(answer) => Self::from_answer(answer),
            None => Self::from_verdict(recorded.outcome.verdict),
        };
        Self { offset: Some(recorded.offset), as_of: Some(recorded.as_of.into()), ..decision }
    }

    pub(super) fn answered(decided: &Decision, as_of: ebb_core::AsOf) -> Self {
        let explanation = decided.details.as_deref().map(|details| Box::new(details.into()));
        Self { explanation, as_of: Some(as_of.into()), ..Self::from_answer(&decided.answer) }
    }

    fn from_answer(answer: &Answer) -> Self {
        Self {
            basis: Some(answer.basis.into()),
            posterior: answer.belief.map(|belief| PosteriorResponse { seen: belief.inside, unseen: belief.outside }),
            expected_penalty: answer
                .decision
                .map(|d| ExpectedPenaltyResponse { duplicate: d.if_duplicate, unique: d.if_unique }),
            age: answer.age.and_then(AgeIntervalResponse::from_range),
            frequency: answer.frequency.map(DecayedCountResponse::from),
            ..Self::from_verdict(answer.verdict)
        }
    }
}
