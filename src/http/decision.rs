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
    /// Why the answer is what it is; absent when the memory was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    posterior: Option<Posterior>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_penalty: Option<ExpectedPenalty>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age: Option<Age>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency: Option<Frequency>,
    /// Where in the log it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// Absent when the event was rejected before it met the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<AsOf>,
}

/// How likely the item was, and was not, seen within the window.
#[derive(Debug, Serialize)]
struct Posterior {
    seen: f64,
    unseen: f64,
}

/// What either answer is expected to cost.
#[derive(Debug, Serialize)]
struct ExpectedPenalty {
    duplicate: f64,
    unique: f64,
}

/// The item's decayed count before this event.
#[derive(Debug, Serialize)]
struct Frequency {
    count: f64,
    /// The truth may be higher: counters ran out of room.
    lower_bound: bool,
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
            basis: None,
            posterior: None,
            expected_penalty: None,
            age: None,
            frequency: None,
            offset: None,
            as_of: None,
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

    pub(super) fn answered(answer: &Answer, as_of: shard::AsOf) -> Self {
        Self { as_of: Some(as_of.into()), ..Self::remembered(answer) }
    }

    fn remembered(answer: &Answer) -> Self {
        let belief = answer.belief.map(|belief| Posterior { seen: belief.inside, unseen: belief.outside });
        let expected = answer.decision.map(|d| ExpectedPenalty { duplicate: d.if_duplicate, unique: d.if_unique });
        let frequency = answer.frequency.map(|f| Frequency { count: f.value, lower_bound: f.lower_bound });
        Self {
            basis: Some(answer.basis.name()),
            posterior: belief,
            expected_penalty: expected,
            age: answer.age.and_then(age),
            frequency,
            ..Self::of(answer.verdict)
        }
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
