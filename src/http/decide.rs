//! Decisions: one event or a batch, asked about or recorded.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use tokio::time::{Instant, timeout_at};

use super::body::{self, json};
use super::decision::{Decision, Decisions};
use super::problem::{Kind, Problem};
use super::question::{Asked, Envelope, Events, Intent};
use super::routes::Api;
use crate::metrics::Metrics;
use crate::shard::{NextOffset, Question, Reason};
use crate::workers::{AskError, RecordError, Stream};

pub(super) async fn decide(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let deadline = Instant::now() + api.limits.request_timeout;
    let (name, stream) = api.stream(name)?;
    api.require_ready()?;
    let body = body::read_json(request, api.limits.max_body_bytes, deadline).await?;
    let (events, intent, partition) = Envelope::parse(&body)?;
    let stream = &stream.narrowed(partition)?;
    let call = Call { name: &name, stream, metrics: &api.metrics, deadline };
    call.decide(events, intent).await
}

/// One request to one stream.
struct Call<'a> {
    name: &'a str,
    stream: &'a Stream,
    metrics: &'a Metrics,
    deadline: Instant,
}

impl Call<'_> {
    async fn decide(&self, events: Events<'_>, intent: Intent) -> Result<Response, Problem> {
        let mut decisions = match intent {
            Intent::Record => self.record(&events).await?,
            Intent::Ask(asked) => self.ask(&events, asked).await?,
        };
        match events {
            Events::Batch(_) => Ok(json(&Decisions { decisions })),
            Events::One(_) => Ok(json(&decisions.pop().expect("as many decisions as events, and there is one event"))),
        }
    }

    async fn record(&self, events: &Events<'_>) -> Result<Vec<Decision>, Problem> {
        let read = events.as_slice().iter().map(|event| self.stream.submission(event.get().as_bytes().to_vec()));
        let (submissions, verdicts) = split(read);
        self.count_rejected(&verdicts);
        let recorded = match timeout_at(self.deadline, self.stream.record(submissions)).await {
            Ok(recorded) => recorded?,
            Err(_) => return Err(Problem::new(Kind::AnswerTimeout, UNCERTAIN)),
        };
        Ok(merge(verdicts, recorded.iter().map(Decision::recorded)))
    }

    async fn ask(&self, events: &Events<'_>, asked: Asked) -> Result<Vec<Decision>, Problem> {
        let Asked { window, penalties, share, at_least } = asked;
        self.stream.plan().dedup.window_of(window)?;
        let reader = self.stream.reader();
        let subjects = events.as_slice().iter().map(|event| reader.read_subject(event.get().as_bytes()));
        let question = |subject| Question { subject, window, penalties, share };
        let (questions, verdicts) = split(subjects.map(|read| read.map(question)));
        // Who wrote offset n wants it folded: the position behind it.
        let position = NextOffset(at_least.map_or(0, |offset| offset.saturating_add(1)));
        let answers = match timeout_at(self.deadline, self.stream.ask(questions, position)).await {
            Ok(answers) => answers?.answers,
            Err(_) if at_least.is_some() => return Err(Problem::new(Kind::AnswerTimeout, NOT_REACHED)),
            Err(_) => return Err(Problem::new(Kind::AnswerTimeout, "the service is overloaded; ask again later")),
        };
        let answers = answers
            .into_iter()
            .map(|(answer, as_of)| answer.map(|answer| Decision::answered(&answer, as_of)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(merge(verdicts, answers.into_iter()))
    }

    /// What is refused at the edge never reaches a worker, which counts the rest.
    fn count_rejected(&self, verdicts: &[Result<(), Reason>]) {
        for reason in verdicts.iter().filter_map(|read| read.err()) {
            self.metrics.rejected.with_label_values(&[self.name, reason.name()]).inc();
            self.metrics.events.with_label_values(&[self.name, "rejected"]).inc();
        }
    }
}

const UNCERTAIN: &str = "the events may or may not have been recorded; send them again: those that were are duplicates";
const NOT_REACHED: &str = "the log did not reach `at_least` in time; it is the offset that a record was answered with";

/// Separates what could be read from why the rest could not, and remembers the places.
fn split<T>(read: impl Iterator<Item = Result<T, Reason>>) -> (Vec<T>, Vec<Result<(), Reason>>) {
    let mut good = Vec::with_capacity(read.size_hint().0);
    let places = read.map(|one| one.map(|one| good.push(one))).collect();
    (good, places)
}

/// Puts decisions back in the places of the events they are about.
fn merge(places: Vec<Result<(), Reason>>, mut decided: impl Iterator<Item = Decision>) -> Vec<Decision> {
    let place = |place| match place {
        Err(reason) => Decision::rejected(reason),
        Ok(()) => decided.next().expect("each event that could be read was decided"),
    };
    places.into_iter().map(place).collect()
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Journal(_) => Problem::new(
                Kind::JournalUnavailable,
                "the journal does not take events now; send them again later: those that were recorded are duplicates",
            ),
            RecordError::Elsewhere { partition } => Problem::new(
                Kind::Elsewhere,
                format!("partition {partition} is another instance's; send the events there"),
            ),
            RecordError::Stopping => Problem::new(Kind::Stopping, "send the events again, elsewhere or later"),
        }
    }
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Elsewhere => {
                Problem::new(Kind::Elsewhere, "the partition is another instance's, or is being restored; ask there")
            }
            AskError::NoPartition { partitions } => {
                Problem::new(Kind::InvalidQuestion, format!("the stream has {partitions} partitions, from 0 on"))
            }
            AskError::Stopping => Problem::new(Kind::Stopping, "ask again, elsewhere or later"),
        }
    }
}
