//! Questions as JSON. Events stay the text they came in: what is journalled is what was sent.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::problem::{Kind, Problem};
use crate::shard::{Penalties, QuestionError, Share, Span};
use crate::units::{DurationMs, parse_duration_ms};

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
    penalty: Option<Penalty>,
    prior: Option<f64>,
    at_least: Option<u64>,
    partition: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Penalty {
    false_duplicate: f64,
    missed_duplicate: f64,
}

/// What is to be done with the events of an envelope.
#[derive(Debug, Clone, Copy)]
pub(super) enum Intent {
    Record,
    Ask(Asked),
}

/// What a question brings besides its events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) window: Option<Span>,
    pub(super) penalties: Option<Penalties>,
    pub(super) share: Option<Share>,
    pub(super) at_least: Option<u64>,
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
    pub(super) fn parse(body: &'a [u8]) -> Result<(Events<'a>, Intent, Option<u32>), Problem> {
        let text = std::str::from_utf8(body).map_err(|error| {
            let detail = format!("byte {} of the body does not belong to UTF-8 text", error.valid_up_to());
            Problem::new(Kind::InvalidUtf8, detail)
        })?;
        let envelope: Envelope<'a> = serde_json::from_str(text).map_err(|error| misread(&error))?;
        let intent = envelope.intent()?;
        let partition = envelope.partition;
        Ok((envelope.events()?, intent, partition))
    }

    fn intent(&self) -> Result<Intent, Problem> {
        let Self { record, window, penalty, prior, at_least, .. } = self;
        if *record {
            let asks = window.is_some() || penalty.is_some() || prior.is_some() || at_least.is_some();
            let detail = "a recorded event is judged at the end of the log as configured: leave out `window`, `penalty`, \
                          `prior` and `at_least`, or ask with \"record\": false";
            return if asks { Err(Problem::new(Kind::ConflictingFields, detail)) } else { Ok(Intent::Record) };
        }
        let refused = |error: &dyn fmt::Display| Problem::new(Kind::InvalidQuestion, error.to_string());
        let penalties = penalty.map(|penalty| Penalties::new(penalty.false_duplicate, penalty.missed_duplicate));
        Ok(Intent::Ask(Asked {
            window: window.as_deref().map(parse_span).transpose()?,
            penalties: penalties.transpose().map_err(|error| refused(&error))?,
            share: prior.map(Share::new).transpose().map_err(|error| refused(&error))?,
            at_least: *at_least,
        }))
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
                Kind::OtherWindow,
                format!("{} was asked for, the stream's window is {}", span_text(asked), span_text(most)),
            ),
            QuestionError::EmptyWindow | QuestionError::NoWindow => {
                Problem::new(Kind::InvalidWindow, error.to_string())
            }
            QuestionError::Penalty(error) => Problem::new(Kind::InvalidQuestion, error.to_string()),
        }
    }
}
