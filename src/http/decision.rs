//! Decisions as JSON.

use serde::Serialize;
use utoipa::ToSchema;

use super::details::{Age, ExpectedPenalty, Explanation, Posterior};
use super::position::{AsOf, Partitions};
use crate::workers::{Decided, Recorded};
use ebb_core::{Answer, Reason, Verdict};

/// The answer to one event, or to a batch.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum DecideAnswer {
    One(Box<Decision>),
    Batch(Decisions),
}

/// The answer to a batch: as many decisions as events, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Decisions {
    pub(super) decisions: Vec<Decision>,
    /// Of how many partitions each decision speaks, where partitions can be another instance's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partitions: Option<Partitions>,
}

/// What was decided about one event.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Decision {
    #[schema(value_type = VerdictName)]
    verdict: &'static str,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReasonName>)]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
    /// Why the answer is what it is; absent when the memory was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BasisName>)]
    basis: Option<&'static str>,
    /// With the basis `posterior`.
    #[serde(skip_serializing_if = "Option::is_none")]
    posterior: Option<Posterior>,
    /// With the basis `posterior`.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_penalty: Option<ExpectedPenalty>,
    /// How long ago the item was last accepted, as far as the memory can tell; absent when it is not remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<Age>,
    /// With `explain`, where the filter keeps ages.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Box<Explanation>>,
    /// The item's decayed count before this event, where the stream keeps one.
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency: Option<Frequency>,
    /// Where in the log it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// Absent when the event was rejected before it met the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<AsOf>,
    /// Of how many partitions it speaks, where partitions can be another instance's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partitions: Option<Partitions>,
}

/// A decayed count.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Frequency {
    pub(super) count: f64,
    /// The truth may be higher: counters ran out of room. Otherwise it may only be lower.
    pub(super) lower_bound: bool,
}

/// Declares the texts that a field can be, as an enumeration of the description.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident: $all:expr) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some($all))
                    .build()
                    .into()
            }
        }

        impl ToSchema for $name {}
    };
}

names!(VerdictName: ["unique", "duplicate", "late", "rejected"]);
names!(ReasonName: Reason::ALL.map(Reason::name));
names!(BasisName: ebb_core::Basis::ALL.map(ebb_core::Basis::name));

impl Decision {
    fn of(verdict: Verdict) -> Self {
        let reason = match verdict {
            Verdict::Rejected(reason) => Some(reason),
            Verdict::Unique | Verdict::Duplicate | Verdict::Late => None,
        };
        Self {
            verdict: verdict.name(),
            reason: reason.map(Reason::name),
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
        Self::of(Verdict::Rejected(reason))
    }

    pub(super) fn recorded(recorded: &Recorded) -> Self {
        let decision = match &recorded.outcome.answer {
            Some(answer) => Self::remembered(answer),
            None => Self::of(recorded.outcome.verdict),
        };
        Self { offset: Some(recorded.offset), as_of: Some(recorded.as_of.into()), ..decision }
    }

    pub(super) fn answered(decided: &Decided, as_of: ebb_core::AsOf) -> Self {
        let explanation = decided.details.as_deref().map(|details| Box::new(details.into()));
        Self { explanation, as_of: Some(as_of.into()), ..Self::remembered(&decided.answer) }
    }

    fn remembered(answer: &Answer) -> Self {
        let belief = answer.belief.map(|belief| Posterior { seen: belief.inside, unseen: belief.outside });
        let expected = answer.decision.map(|d| ExpectedPenalty { duplicate: d.if_duplicate, unique: d.if_unique });
        let frequency = answer.frequency.map(|f| Frequency { count: f.value, lower_bound: f.lower_bound });
        Self {
            basis: Some(answer.basis.name()),
            posterior: belief,
            expected_penalty: expected,
            age: answer.age.and_then(Age::of),
            frequency,
            ..Self::of(answer.verdict)
        }
    }
}
