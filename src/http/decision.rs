//! Decisions as JSON.

use serde::Serialize;

use crate::shard::{self, AgeRange, Answer, Reason, Span, Verdict};
use crate::workers::Recorded;

/// The answer to a batch.
#[derive(Debug, Serialize)]
pub(super) struct Decisions {
    pub(super) decisions: Vec<Decision>,
}

/// What was decided about one event.
#[derive(Debug, Serialize)]
pub(super) struct Decision {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<Age>,
    /// Where in the log it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// Absent when the event was rejected before it met the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<AsOf>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Age {
    Time { least_ms: u64, below_ms: u64 },
    Count { least_events: u64, below_events: u64 },
}

#[derive(Debug, Serialize)]
pub(super) struct AsOf {
    partition: u32,
    next: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<i64>,
}

impl Decision {
    fn of(verdict: Verdict) -> Self {
        let reason = match verdict {
            Verdict::Rejected(reason) => Some(reason),
            Verdict::Unique | Verdict::Duplicate | Verdict::Late => None,
        };
        Self {
            verdict: verdict.name(),
            reason: reason.map(Reason::name),
            detail: reason.map(explain),
            age: None,
            offset: None,
            as_of: None,
        }
    }

    pub(super) fn rejected(reason: Reason) -> Self {
        Self::of(Verdict::Rejected(reason))
    }

    pub(super) fn recorded(recorded: &Recorded) -> Self {
        let age = recorded.outcome.answer.and_then(|answer| answer.age).and_then(age);
        let as_of = Some(recorded.as_of.into());
        Self { age, offset: Some(recorded.offset), as_of, ..Self::of(recorded.outcome.verdict) }
    }

    pub(super) fn answered(answer: &Answer, as_of: shard::AsOf) -> Self {
        Self { age: answer.age.and_then(age), as_of: Some(as_of.into()), ..Self::of(answer.verdict) }
    }
}

/// Both ends are in the unit of the stream's window.
fn age(range: AgeRange) -> Option<Age> {
    match (range.least, range.below) {
        (Span::Milliseconds(least_ms), Span::Milliseconds(below_ms)) => Some(Age::Time { least_ms, below_ms }),
        (Span::Events(least_events), Span::Events(below_events)) => Some(Age::Count { least_events, below_events }),
        (Span::Milliseconds(_), Span::Events(_)) | (Span::Events(_), Span::Milliseconds(_)) => None,
    }
}

impl From<shard::AsOf> for AsOf {
    fn from(as_of: shard::AsOf) -> Self {
        Self { partition: as_of.partition, next: as_of.next.0, time_ms: as_of.time_ms }
    }
}

fn explain(reason: Reason) -> &'static str {
    match reason {
        Reason::Empty => "the event has no content",
        Reason::Encoding => "a text of the event is not valid Unicode, or contains NUL",
        Reason::Parse => "the event is not one JSON document, or a number in it is out of range",
        Reason::Limits => "the event is too large, too deep, or has too many or too long field names",
        Reason::DuplicateKey => "the same name stands twice in one object of the event",
        Reason::Schema => "a configured field is missing from the event, or is not of the type it must be",
        Reason::Future => "the event is dated further in the future than the stream allows",
    }
}
