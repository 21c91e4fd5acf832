//! Decisions: one event or a batch, asked about or recorded.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;

use super::body::{self, json};
use super::deadline::Deadline;
use super::decision::{DecideAnswer, Decision, Decisions};
use super::forms::DecideBody;
use super::guard;
use super::openapi::Common;
use super::position::{Partitions, late};
use super::problem::{Kind, Problem};
use super::question::{Asked, Envelope, Events, Intent};
use super::routes::Api;
use crate::metrics::Metrics;
use crate::workers::{AskError, RecordError, Stream};
use ebb_core::{Question, Reason};

/// Was it seen within the window, and which answer costs less if it is wrong?
///
/// With `"record": true` the event is also remembered. A rejected event is a decision, too: one bad event of a batch spoils
/// no other.
#[utoipa::path(
    post,
    path = "/v1/streams/{stream}/decide",
    tag = "decisions",
    params(("stream" = String, Path, description = "A stream's name", example = "clicks")),
    request_body(content = DecideBody, examples(
        ("ask" = (summary = "Was it seen?", value = json!({"event": {"ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1"}}))),
        ("explain" = (summary = "With all that is known", value = json!({
            "event": {"ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1"},
            "window": "10m",
            "penalty": {"false_duplicate": 0.4, "missed_duplicate": 0.05},
            "prior": 0.001,
            "explain": true
        }))),
        ("record" = (summary = "And remember it", value = json!({
            "event": {
                "click_id": "c-1", "ts": 1700000000000i64, "ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1",
                "tier": 2, "cost": 0.25
            }, "record": true
        }))),
        ("batch" = (summary = "Many at once", value = json!({
            "events": [
                {
                "click_id": "c-1", "ts": 1700000000000i64, "ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1",
                "tier": 2, "cost": 0.25
            },
                {
                "click_id": "c-2", "ts": 1700000000000i64, "ip": "10.1.2.4", "ad": "ad-7", "user": "u-2", "campaign": "c2",
                "tier": 1, "cost": 0.5
            }
            ],
            "record": true
        }))),
    )),
    responses((status = 200, description = "The decision, or one for each event", body = DecideAnswer), Common),
)]
pub(super) async fn decide(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let mut deadline = Deadline::of(&api.limits);
    let (name, stream) = api.stream(name)?;
    api.require_ready()?;
    let scope = guard::scope(&request);
    let body = body::read_json(request, api.limits.max_body_bytes, &mut deadline).await?;
    let (events, intent, partition) = Envelope::parse(&body)?;
    if let Intent::Record = intent {
        scope.require_write()?;
    }
    let stream = &stream.narrowed(partition)?;
    let mut call = Call { name: &name, stream, metrics: &api.metrics, deadline };
    call.decide(events, intent).await
}

/// One request to one stream.
struct Call<'a> {
    name: &'a str,
    stream: &'a Stream,
    metrics: &'a Metrics,
    deadline: Deadline,
}

impl Call<'_> {
    async fn decide(&mut self, events: Events<'_>, intent: Intent) -> Result<Response, Problem> {
        let (mut decisions, answered) = match intent {
            Intent::Record => (self.record(&events).await?, None),
            Intent::Ask(asked) => self.ask(&events, asked).await?,
        };
        let partitions = answered.map(|answered| Partitions::new(answered, self.stream));
        Ok(match events {
            Events::Batch(_) => json(&DecideAnswer::Batch(Decisions { decisions, partitions })),
            Events::One(_) => {
                let mut one = decisions.pop().expect("as many decisions as events, and there is one event");
                one.partitions = partitions;
                json(&DecideAnswer::One(Box::new(one)))
            }
        })
    }

    async fn record(&mut self, events: &Events<'_>) -> Result<Vec<Decision>, Problem> {
        let read = events.as_slice().iter().map(|event| self.stream.submission(event.get().as_bytes().to_vec()));
        let (submissions, verdicts) = split(read);
        self.count_rejected(&verdicts);
        let recorded = match self.deadline.wait_for(self.stream.record(submissions)).await {
            Some(recorded) => recorded?,
            None => return Err(Problem::new(Kind::AnswerTimeout, UNCERTAIN)),
        };
        merge(verdicts, recorded.iter().map(|recorded| Ok(Decision::recorded(recorded))))
    }

    /// The decisions and, where partitions can be another instance's, those that were asked.
    async fn ask(&mut self, events: &Events<'_>, asked: Asked) -> Result<(Vec<Decision>, Option<Vec<u32>>), Problem> {
        let Asked { window, penalties, share, at_least, depth } = asked;
        self.stream.plan().dedup.requested_window(window)?;
        let reader = self.stream.reader();
        let subjects = events.as_slice().iter().map(|event| reader.read_subject(event.get().as_bytes()));
        let question = |subject| Question { subject, window, penalties, share };
        let (questions, verdicts) = split(subjects.map(|read| read.map(question)));
        let Some(answers) = self.deadline.wait_for(self.stream.ask(questions, depth, &at_least)).await else {
            return Err(late(&at_least));
        };
        let answers = answers?;
        let answered = self.stream.is_shared().then_some(answers.answered);
        let decided = answers.answers.into_iter().map(|(answer, as_of)| Ok(Decision::answered(&answer?, as_of)));
        Ok((merge(verdicts, decided)?, answered))
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

/// Separates what could be read from why the rest could not, and remembers the places.
fn split<T>(read: impl Iterator<Item = Result<T, Reason>>) -> (Vec<T>, Vec<Result<(), Reason>>) {
    let mut good = Vec::with_capacity(read.size_hint().0);
    let places = read.map(|one| one.map(|one| good.push(one))).collect();
    (good, places)
}

/// Puts decisions back in the places of the events they are about.
fn merge(
    places: Vec<Result<(), Reason>>,
    mut decided: impl Iterator<Item = Result<Decision, Problem>>,
) -> Result<Vec<Decision>, Problem> {
    let place = |place| match place {
        Err(reason) => Ok(Decision::rejected(reason)),
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
                Problem::new(Kind::UnknownPartition, format!("the stream has {partitions} partitions, from 0 on"))
            }
            AskError::Stopping => Problem::new(Kind::Stopping, "ask again, elsewhere or later"),
        }
    }
}
