//! The body of a decide request. Events stay the text they were sent as: the journal stores exactly those bytes.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::parse_json;
use super::fields::{AnyEvent, AtLeastField, EventBatch, ExactNumber, body_partition};
use super::problem::{Problem, ProblemKind};
use crate::workers::{AtLeast, Detail};
use ebb_core::{ArrivalShare, Penalties, QuestionError, Span};
use ebb_sketch::units::{DurationMs, parse_duration_ms};

/// Maximum number of events of a batch with `explain`: an explanation is as long as dozens of decisions.
pub const MAX_EXPLAINED_EVENTS: usize = 1_000;

/// One event or a batch, and what to do with it. [`super::decide_schema`] describes the accepted combinations of
/// fields.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DecideRequest<'a> {
    /// The event as its producers write it. A question needs only the fields of the item and the key; a recorded event
    /// needs every configured field.
    #[serde(borrow)]
    #[schema(value_type = AnyEvent, required = false)]
    event: Option<&'a RawValue>,
    /// A batch of events.
    #[serde(borrow)]
    #[schema(value_type = EventBatch, required = false)]
    events: Option<EventBatch<'a>>,
    /// Whether to record the events.
    #[serde(default)]
    #[schema(required = false)]
    record: bool,
    /// A duration or a number of events, up to the configured window, which is the default.
    #[schema(format = "ebb-span", example = "10m")]
    window: Option<String>,
    /// Replaces the configured penalties.
    penalty: Option<PenaltyRequest>,
    /// The item's share of all events; replaces the configured or learned prior.
    #[schema(value_type = Option<f64>, exclusive_minimum = 0.0, exclusive_maximum = 1.0)]
    prior: Option<ExactNumber>,
    at_least: Option<AtLeastField>,
    /// The only partition to ask, or the partition to record the events in.
    #[serde(default, deserialize_with = "body_partition")]
    #[schema(maximum = 2147483647)]
    partition: Option<u32>,
    /// Whether to add the probability of each age to the decision.
    #[serde(default)]
    #[schema(required = false)]
    explain: bool,
}

/// The costs of wrong verdicts.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PenaltyRequest {
    /// The cost of calling a new event a duplicate.
    #[schema(value_type = f64, minimum = 0.0)]
    false_duplicate: ExactNumber,
    /// The cost of calling a duplicate unique.
    #[schema(value_type = f64, minimum = 0.0)]
    missed_duplicate: ExactNumber,
}

/// A validated decide request.
#[derive(Debug)]
pub(super) struct DecideCommand<'a> {
    pub(super) events: DecideEvents<'a>,
    pub(super) action: DecideAction,
    pub(super) partition: Option<u32>,
}

/// What to do with the events of a decide request.
#[derive(Debug)]
pub(super) enum DecideAction {
    Record,
    Ask(QuestionOptions),
}

/// What a question specifies besides its events.
#[derive(Debug)]
pub(super) struct QuestionOptions {
    pub(super) window: Option<Span>,
    pub(super) penalties: Option<Penalties>,
    pub(super) share: Option<ArrivalShare>,
    pub(super) at_least: AtLeast,
    pub(super) depth: Detail,
}

/// One event, answered with an object, or a batch, answered with a list.
#[derive(Debug)]
pub(super) enum DecideEvents<'a> {
    One(&'a RawValue),
    Batch(Vec<&'a RawValue>),
}

impl<'a> DecideEvents<'a> {
    pub(super) fn as_slice(&self) -> &[&'a RawValue] {
        match self {
            DecideEvents::One(event) => std::slice::from_ref(event),
            DecideEvents::Batch(events) => events,
        }
    }
}

impl<'a> DecideRequest<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<DecideCommand<'a>, Problem> {
        let Self { event, events, record, window, penalty, prior, at_least, partition, explain } = parse_json(body)?;
        let action = if record {
            if window.is_some() || penalty.is_some() || prior.is_some() || at_least.is_some() || explain {
                let detail = "an event is recorded with the configured window and penalties: omit `window`, `penalty`, \
                              `prior`, `at_least` and `explain`, or ask with \"record\": false";
                return Err(Problem::new(ProblemKind::ConflictingFields, detail));
            }
            DecideAction::Record
        } else {
            let invalid = |error: &dyn fmt::Display| Problem::new(ProblemKind::InvalidQuestion, error.to_string());
            let penalties = penalty.map(|given| Penalties::new(given.false_duplicate.0, given.missed_duplicate.0));
            DecideAction::Ask(QuestionOptions {
                window: window.as_deref().map(parse_window).transpose()?,
                penalties: penalties.transpose().map_err(|error| invalid(&error))?,
                share: prior.map(|prior| ArrivalShare::new(prior.0)).transpose().map_err(|error| invalid(&error))?,
                at_least: AtLeastField::or_anywhere(at_least),
                depth: if explain { Detail::Full } else { Detail::Verdict },
            })
        };
        let events = one_or_batch(event, events)?;
        let count = events.as_slice().len();
        if explain && count > MAX_EXPLAINED_EVENTS {
            let detail = format!(
                "the batch has {count} events, the limit with `explain` is {MAX_EXPLAINED_EVENTS}; send several batches"
            );
            return Err(Problem::new(ProblemKind::BatchTooLarge, detail));
        }
        Ok(DecideCommand { events, action, partition })
    }
}

fn one_or_batch<'a>(event: Option<&'a RawValue>, events: Option<EventBatch<'a>>) -> Result<DecideEvents<'a>, Problem> {
    match (event, events) {
        (Some(event), None) => Ok(DecideEvents::One(event)),
        (None, Some(batch)) => Ok(DecideEvents::Batch(batch.into_events()?)),
        (Some(_), Some(_)) => {
            Err(Problem::new(ProblemKind::ConflictingFields, "send either `event` or `events`, not both"))
        }
        (None, None) => Err(Problem::new(
            ProblemKind::InvalidQuestion,
            "send {\"event\": {…}} for one event or {\"events\": [{…}, …]} for a batch",
        )),
    }
}

fn parse_window(text: &str) -> Result<Span, Problem> {
    let events = ["events", "event"].iter().find_map(|unit| text.trim().strip_suffix(unit));
    let span = match events {
        Some(count) => count.trim().parse().ok().map(Span::Events),
        None => parse_duration_ms(text).ok().map(Span::Milliseconds),
    };
    span.ok_or_else(|| {
        let detail = "a window is a duration such as \"10m\" or a number of events such as \"500 events\"";
        Problem::new(ProblemKind::InvalidWindow, detail)
    })
}

/// A window as requests and configurations write it.
pub(super) fn format_window(span: Span) -> String {
    match span {
        Span::Milliseconds(ms) => DurationMs(ms).to_string(),
        Span::Events(count) => format!("{count} events"),
    }
}

impl From<QuestionError> for Problem {
    fn from(error: QuestionError) -> Self {
        let configured = |requested, max| {
            format!("{} was requested, the configured window is {}", format_window(requested), format_window(max))
        };
        match error {
            QuestionError::WindowTooLong { requested, max } => {
                Problem::new(ProblemKind::WindowTooLong, configured(requested, max))
            }
            QuestionError::WindowKind { requested, max } => {
                Problem::new(ProblemKind::OtherWindow, configured(requested, max))
            }
            QuestionError::NoWindow => Problem::new(ProblemKind::OtherWindow, error.to_string()),
            QuestionError::NoPosterior => Problem::new(ProblemKind::InvalidQuestion, error.to_string()),
            QuestionError::EmptyWindow => Problem::new(ProblemKind::InvalidWindow, error.to_string()),
            QuestionError::Penalty(error) => Problem::new(ProblemKind::InvalidQuestion, error.to_string()),
            QuestionError::Share(error) => Problem::new(ProblemKind::InvalidQuestion, error.to_string()),
        }
    }
}
