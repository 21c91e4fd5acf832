//! Decisions about one event or a batch, with or without recording it.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;

use super::auth;
use super::body::{self, json};
use super::deadline::RequestDeadline;
use super::decide_request::{DecideAction, DecideCommand, DecideEvents, DecideRequest, QuestionOptions};
use super::decide_response::{BatchResponse, DecideResponse, DecisionResponse};
use super::edge::EdgeRejections;
use super::openapi::ProblemResponses;
use super::position::{PartitionCoverage, answer_timeout};
use super::problem::{Problem, ProblemKind};
use super::routes::Api;
use crate::workers::{QueryError, RecordError, Stream};
use ebb_core::{Question, Reason};

/// Decide whether events are duplicates
///
/// Answers whether an item was seen within the window and which verdict has the lower expected penalty. With
/// `"record": true` the event is also recorded. A rejected event is a decision too, and does not affect the other events
/// of its batch.
#[utoipa::path(
    post,
    path = "/v1/streams/{stream}/decide",
    tag = "decisions",
    params(("stream" = String, Path, description = "Name of a stream", example = "clicks")),
    request_body(content = DecideRequest, examples(
        ("ask" = (summary = "Ask about an event", value = json!({"event": {"ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1"}}))),
        ("explain" = (summary = "Ask with an explanation", value = json!({
            "event": {"ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1"},
            "window": "10m",
            "penalty": {"false_duplicate": 0.4, "missed_duplicate": 0.05},
            "prior": 0.001,
            "explain": true
        }))),
        ("record" = (summary = "Record an event", value = json!({
            "event": {
                "click_id": "c-1", "ts": 1700000000000i64, "ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1",
                "tier": 2, "cost": 0.25
            }, "record": true
        }))),
        ("batch" = (summary = "Record a batch", value = json!({
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
    responses((status = 200, description = "The decision, or one for each event of the batch", body = DecideResponse), ProblemResponses),
)]
pub(super) async fn decide(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let (name, stream) = api.stream(name)?;
    api.require_ready()?;
    let scope = auth::scope(&request);
    let body = body::read_json(request, api.limits.max_body_bytes, &mut deadline).await?;
    let command = DecideRequest::parse(&body)?;
    if let DecideAction::Record = command.action {
        scope.require_write()?;
    }
    let stream = &stream.restricted_to(command.partition)?;
    let mut call = DecideCall { stream, rejections: api.edge_rejections(&name), deadline };
    call.run(command).await
}

/// One decide request to one stream.
struct DecideCall<'a> {
    stream: &'a Stream,
    rejections: &'a EdgeRejections,
    deadline: RequestDeadline,
}

impl DecideCall<'_> {
    async fn run(&mut self, command: DecideCommand<'_>) -> Result<Response, Problem> {
        let DecideCommand { events, action, .. } = command;
        let (mut decisions, answered) = match action {
            DecideAction::Record => (self.record(&events).await?, None),
            DecideAction::Ask(options) => self.ask(&events, options).await?,
        };
        let partitions = answered.map(|answered| PartitionCoverage::new(answered, self.stream));
        Ok(match events {
            DecideEvents::Batch(_) => json(&DecideResponse::Batch(BatchResponse { decisions, partitions })),
            DecideEvents::One(_) => {
                let mut one = decisions.pop().expect("one event has one decision");
                one.partitions = partitions;
                json(&DecideResponse::One(Box::new(one)))
            }
        })
    }

    async fn record(&mut self, events: &DecideEvents<'_>) -> Result<Vec<DecisionResponse>, Problem> {
        let read = events.as_slice().iter().map(|event| self.stream.submission(event.get().as_bytes().to_vec()));
        let (submissions, readable) = split(read);
        let recorded = match self.deadline.run(self.stream.record(submissions)).await {
            Some(recorded) => recorded?,
            None => return Err(Problem::new(ProblemKind::AnswerTimeout, UNCERTAIN)),
        };
        self.rejections.add(readable.iter().filter_map(|read| read.err()));
        merge(readable, recorded.iter().map(|recorded| Ok(DecisionResponse::recorded(recorded))))
    }

    /// The decisions and, on Kafka, the partitions that were asked.
    async fn ask(
        &mut self,
        events: &DecideEvents<'_>,
        options: QuestionOptions,
    ) -> Result<(Vec<DecisionResponse>, Option<Vec<u32>>), Problem> {
        let QuestionOptions { window, penalties, share, at_least, depth } = options;
        self.stream.plan().dedup.requested_window(window)?;
        let reader = self.stream.reader();
        let subjects = events.as_slice().iter().map(|event| reader.read_subject(event.get().as_bytes()));
        let question = |subject| Question { subject, window, penalties, share };
        let (questions, readable) = split(subjects.map(|read| read.map(question)));
        let Some(answers) = self.deadline.run(self.stream.ask(questions, depth, &at_least)).await else {
            return Err(answer_timeout(&at_least));
        };
        let answers = answers?;
        let answered = self.stream.is_shared().then_some(answers.answered);
        let decided =
            answers.answers.into_iter().map(|(answer, as_of)| Ok(DecisionResponse::answered(&answer?, as_of)));
        Ok((merge(readable, decided)?, answered))
    }
}

const UNCERTAIN: &str =
    "the events may or may not have been recorded; send them again: events that were recorded become duplicates";

/// Separates readable events from the rejected ones; the second list has an entry for each event, in order.
fn split<T>(read: impl Iterator<Item = Result<T, Reason>>) -> (Vec<T>, Vec<Result<(), Reason>>) {
    let mut readable = Vec::with_capacity(read.size_hint().0);
    let all = read.map(|one| one.map(|one| readable.push(one))).collect();
    (readable, all)
}

/// Restores the order of the events: decisions for the readable ones, rejections for the others.
fn merge(
    events: Vec<Result<(), Reason>>,
    mut decided: impl Iterator<Item = Result<DecisionResponse, Problem>>,
) -> Result<Vec<DecisionResponse>, Problem> {
    let decision = |event| match event {
        Err(reason) => Ok(DecisionResponse::rejected(reason)),
        Ok(()) => decided.next().expect("every readable event has a decision"),
    };
    events.into_iter().map(decision).collect()
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Log(_) => Problem::new(
                ProblemKind::JournalUnavailable,
                "retry later: events of this request that were recorded become duplicates",
            ),
            RecordError::NotOwned { partition } => Problem::new(
                ProblemKind::Elsewhere,
                format!("partition {partition} is assigned to another instance; send the events there"),
            ),
            RecordError::Stopping => {
                Problem::new(ProblemKind::Stopping, "send the events to another instance or retry")
            }
        }
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::NotOwned => Problem::new(
                ProblemKind::Elsewhere,
                "the partition is assigned to another instance or is being restored; ask another instance or retry",
            ),
            QueryError::NoSuchPartition { partitions } => Problem::new(
                ProblemKind::UnknownPartition,
                format!("the stream has {partitions} partitions, numbered from 0"),
            ),
            QueryError::Stopping => Problem::new(ProblemKind::Stopping, "ask another instance or retry"),
        }
    }
}
