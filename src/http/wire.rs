//! Questions and decisions as JSON. Events stay the text they came in: what is journalled is what was sent.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::problem::{Kind, Problem};
use crate::shard::{self, AgeRange, Answer, QuestionError, Reason, Span, Verdict};
use crate::units::{DurationMs, parse_duration_ms};
use crate::workers::Recorded;

/// How many events one batch may have.
pub const MOST_EVENTS: usize = 10_000;

/// The body of a decision: one event or a batch, and what is asked about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    events: Option<Batch<'a>>,
    #[serde(default)]
    record: bool,
    window: Option<String>,
    at_least: Option<u64>,
}

/// What is to be done with the events of an envelope.
#[derive(Debug, Clone, Copy)]
pub(super) enum Intent {
    Record,
    Ask { window: Option<Span>, at_least: Option<u64> },
}

/// One event answered alone, or a batch answered as a list.
#[derive(Debug)]
pub(super) enum Events<'a> {
    One(&'a RawValue),
    Batch(Vec<&'a RawValue>),
}

impl<'a> Events<'a> {
    pub(super) fn as_slice(&self) -> &[&'a RawValue] {
        match self {
            Events::One(event) => std::slice::from_ref(event),
            Events::Batch(events) => events,
        }
    }
}

impl<'a> Envelope<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<(Events<'a>, Intent), Problem> {
        let text = std::str::from_utf8(body).map_err(|error| {
            let detail = format!("byte {} of the body does not belong to UTF-8 text", error.valid_up_to());
            Problem::new(Kind::InvalidUtf8, detail)
        })?;
        let envelope: Envelope<'a> = serde_json::from_str(text).map_err(|error| misread(&error))?;
        let intent = envelope.intent()?;
        Ok((envelope.events()?, intent))
    }

    fn intent(&self) -> Result<Intent, Problem> {
        let Self { record, window, at_least, .. } = self;
        if *record && (window.is_some() || at_least.is_some()) {
            let detail = "a recorded event is judged at the end of the log by the configured window: leave out `window` \
                          and `at_least`, or ask with \"record\": false";
            return Err(Problem::new(Kind::ConflictingFields, detail));
        }
        if *record {
            return Ok(Intent::Record);
        }
        Ok(Intent::Ask { window: window.as_deref().map(parse_span).transpose()?, at_least: *at_least })
    }

    fn events(self) -> Result<Events<'a>, Problem> {
        match (self.event, self.events) {
            (Some(event), None) => Ok(Events::One(event)),
            (None, Some(batch)) if batch.count <= MOST_EVENTS => Ok(Events::Batch(batch.events)),
            (None, Some(batch)) => Err(Problem::new(
                Kind::BatchTooLarge,
                format!("{} events were sent, a batch may have {MOST_EVENTS}; send several", batch.count),
            )),
            (Some(_), Some(_)) => {
                Err(Problem::new(Kind::ConflictingFields, "send either `event` or `events`, not both"))
            }
            (None, None) => Err(Problem::new(
                Kind::InvalidQuestion,
                "send {\"event\": {…}} for one event or {\"events\": [{…}, …]} for a batch",
            )),
        }
    }
}

/// The events of a batch. What is beyond the limit is counted, not kept.
#[derive(Debug)]
struct Batch<'a> {
    events: Vec<&'a RawValue>,
    count: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for Batch<'a> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Batch<'de>, S::Error> {
                let mut events = Vec::new();
                while events.len() < MOST_EVENTS
                    && let Some(event) = list.next_element::<&'de RawValue>()?
                {
                    events.push(event);
                }
                let mut count = events.len();
                while count >= MOST_EVENTS && list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Batch { events, count })
            }
        }

        json.deserialize_seq(List)
    }
}

fn misread(error: &serde_json::Error) -> Problem {
    let kind = if error.is_data() { Kind::InvalidQuestion } else { Kind::InvalidJson };
    // serde_json says the position in its message too; here it has fields of its own.
    let detail = error.to_string();
    let detail = detail.split(" at line ").next().unwrap_or_default().to_owned();
    Problem::new(kind, detail).at(error.line(), error.column())
}

fn parse_span(text: &str) -> Result<Span, Problem> {
    let events = ["events", "event"].iter().find_map(|unit| text.trim().strip_suffix(unit));
    let span = match events {
        Some(count) => count.trim().parse().ok().map(Span::Events),
        None => parse_duration_ms(text).ok().map(Span::Milliseconds),
    };
    span.ok_or_else(|| {
        Problem::new(
            Kind::InvalidWindow,
            "a window is a time such as \"10m\" or a number of events such as \"500 events\"",
        )
    })
}

/// A span as people write it.
pub(super) fn span_text(span: Span) -> String {
    match span {
        Span::Milliseconds(ms) => DurationMs(ms).to_string(),
        Span::Events(count) => format!("{count} events"),
    }
}

impl From<QuestionError> for Problem {
    fn from(error: QuestionError) -> Self {
        match error {
            QuestionError::WindowTooLong { asked, most } => Problem::new(
                Kind::WindowTooLong,
                format!("{} was asked for, the stream remembers {}", span_text(asked), span_text(most)),
            ),
            QuestionError::WindowKind { asked, most } => Problem::new(
                Kind::WindowKind,
                format!("{} was asked for, the stream's window is {}", span_text(asked), span_text(most)),
            ),
            QuestionError::EmptyWindow | QuestionError::NoWindow => {
                Problem::new(Kind::InvalidWindow, error.to_string())
            }
            QuestionError::Penalty(error) => Problem::new(Kind::InvalidQuestion, error.to_string()),
        }
    }
}

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
