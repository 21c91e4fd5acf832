//! Questions as JSON. Events stay the text they came in: what is journalled is what was sent.

use std::fmt;

use serde::de::{IgnoredAny, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::position::parse_at_least;
use super::problem::{Kind, Problem};
use crate::workers::{AtLeast, Depth};
use ebb_core::{Penalties, QuestionError, Share, Span};
use ebb_sketch::units::{DurationMs, parse_duration_ms};

/// How many events one batch may have.
pub const MOST_EVENTS: usize = 10_000;
/// How many when each is to be explained: an explanation is as long as dozens of decisions.
pub const MOST_EXPLAINED: usize = 1_000;

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
    prior: Option<Exact>,
    at_least: Option<Place>,
    #[serde(default, deserialize_with = "partition")]
    partition: Option<u32>,
    #[serde(default)]
    explain: bool,
}

/// `at_least`, as a number or as text.
#[derive(Debug)]
pub(super) enum Place {
    Offset(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Place;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an offset, or a text such as 0:17")
            }

            fn visit_u64<E>(self, offset: u64) -> Result<Place, E> {
                Ok(Place::Offset(offset))
            }

            fn visit_f64<E: serde::de::Error>(self, offset: f64) -> Result<Place, E> {
                whole(offset).map(Place::Offset).ok_or_else(|| E::invalid_type(Unexpected::Float(offset), &self))
            }

            fn visit_str<E>(self, text: &str) -> Result<Place, E> {
                Ok(Place::Text(text.to_owned()))
            }
        }

        json.deserialize_any(Either)
    }
}

/// What JSON takes for a whole number, whatever it was written as: 3.0 is 3.
fn whole(number: f64) -> Option<u64> {
    (number >= 0.0 && number < u64::MAX as f64 && number.trunc() == number).then_some(number as u64)
}

/// A partition's number.
pub(super) fn partition<'de, D: Deserializer<'de>>(json: D) -> Result<Option<u32>, D::Error> {
    match Option::<Place>::deserialize(json)? {
        None => Ok(None),
        Some(Place::Offset(number)) if u32::try_from(number).is_ok() => Ok(Some(number as u32)),
        Some(Place::Offset(_) | Place::Text(_)) => {
            Err(serde::de::Error::custom("a partition is a whole number below 2^32"))
        }
    }
}

impl Place {
    pub(super) fn read(place: Option<&Self>) -> Result<AtLeast, Problem> {
        let at_least = match place {
            None => Ok(AtLeast::Anywhere),
            Some(Place::Offset(offset)) => Ok(AtLeast::Offset(*offset)),
            Some(Place::Text(text)) => parse_at_least(text),
        };
        at_least.map_err(|detail| Problem::new(Kind::InvalidQuestion, detail))
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Penalty {
    false_duplicate: Exact,
    missed_duplicate: Exact,
}

/// A number as it is written. serde_json's own reading may be off in the last place, which makes a 1 of the largest
/// number below it.
#[derive(Debug, Clone, Copy)]
struct Exact(f64);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(json)?.get();
        // Of all JSON only numbers can be read so, and 1e999 is read as infinite: those who take it know their bounds.
        text.parse().map(Self).map_err(|_| serde::de::Error::custom("a penalty or a prior must be a number"))
    }
}

/// What is to be done with the events of an envelope.
#[derive(Debug)]
pub(super) enum Intent {
    Record,
    Ask(Asked),
}

/// What a question brings besides its events.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) window: Option<Span>,
    pub(super) penalties: Option<Penalties>,
    pub(super) share: Option<Share>,
    pub(super) at_least: AtLeast,
    pub(super) depth: Depth,
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
        let envelope: Envelope<'a> = parse_json(body)?;
        let intent = envelope.intent()?;
        let (partition, explain) = (envelope.partition, envelope.explain);
        let events = envelope.events()?;
        match events.as_slice().len() {
            count if explain && count > MOST_EXPLAINED => Err(Problem::new(
                Kind::BatchTooLarge,
                format!("{count} events were sent, with `explain` a batch may have {MOST_EXPLAINED}; send several"),
            )),
            _ => Ok((events, intent, partition)),
        }
    }

    fn intent(&self) -> Result<Intent, Problem> {
        let Self { record, window, penalty, prior, at_least, explain, .. } = self;
        if *record {
            let asks = window.is_some() || penalty.is_some() || prior.is_some() || at_least.is_some() || *explain;
            let detail = "a recorded event is judged at the end of the log as configured: leave out `window`, `penalty`, \
                          `prior`, `at_least` and `explain`, or ask with \"record\": false";
            return if asks { Err(Problem::new(Kind::ConflictingFields, detail)) } else { Ok(Intent::Record) };
        }
        let refused = |error: &dyn fmt::Display| Problem::new(Kind::InvalidQuestion, error.to_string());
        let penalties = penalty.map(|given| Penalties::new(given.false_duplicate.0, given.missed_duplicate.0));
        Ok(Intent::Ask(Asked {
            window: window.as_deref().map(parse_span).transpose()?,
            penalties: penalties.transpose().map_err(|error| refused(&error))?,
            share: prior.map(|prior| Share::new(prior.0)).transpose().map_err(|error| refused(&error))?,
            at_least: Place::read(at_least.as_ref())?,
            depth: if *explain { Depth::Details } else { Depth::Verdict },
        }))
    }

    fn events(self) -> Result<Events<'a>, Problem> {
        match (self.event, self.events) {
            (Some(event), None) => Ok(Events::One(event)),
            (None, Some(batch)) => Ok(Events::Batch(batch.whole()?)),
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
pub(super) struct Batch<'a> {
    pub(super) events: Vec<&'a RawValue>,
    pub(super) count: usize,
}

impl<'a> Batch<'a> {
    /// All of them, if they are not too many.
    pub(super) fn whole(self) -> Result<Vec<&'a RawValue>, Problem> {
        if self.count <= MOST_EVENTS {
            return Ok(self.events);
        }
        let detail = format!("{} events were sent, a batch may have {MOST_EVENTS}; send several", self.count);
        Err(Problem::new(Kind::BatchTooLarge, detail))
    }
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

/// Reads a body that is one JSON document of a known form.
pub(super) fn parse_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let detail = format!("byte {} of the body does not belong to UTF-8 text", error.valid_up_to());
        Problem::new(Kind::InvalidUtf8, detail)
    })?;
    serde_json::from_str(text).map_err(|error| misread(&error))
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
            QuestionError::WindowTooLong { requested: asked, max: most } => Problem::new(
                Kind::WindowTooLong,
                format!("{} was asked for, the stream remembers {}", span_text(asked), span_text(most)),
            ),
            QuestionError::WindowKind { requested: asked, max: most } => Problem::new(
                Kind::OtherWindow,
                format!("{} was asked for, the stream's window is {}", span_text(asked), span_text(most)),
            ),
            QuestionError::NoWindow => Problem::new(Kind::OtherWindow, error.to_string()),
            QuestionError::EmptyWindow => Problem::new(Kind::InvalidWindow, error.to_string()),
            QuestionError::Penalty(error) => Problem::new(Kind::InvalidQuestion, error.to_string()),
        }
    }
}
