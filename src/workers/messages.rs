//! Messages to a worker: one closed enum, handled by one `match`.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::store::StoreError;
use ebb_core::{
    AgeExplanation, AggregateError, AggregateQuestion, Answer, AsOf, Event, ItemCount, NextOffset, Outcome,
    PREFETCH_BATCH, PartialAggregate, Question, QuestionError, Shard, ShardStatus, Subject,
};

/// An event to record: its payload for the log, and the event that was read from it.
#[derive(Debug)]
pub struct Submission {
    pub payload: Vec<u8>,
    pub event: Event,
}

/// The outcome of a recorded event.
#[derive(Debug, Clone, Copy)]
pub struct RecordReceipt {
    pub outcome: Outcome,
    pub offset: u64,
    pub as_of: AsOf,
}

/// An answer and, if they were requested and the filter has them, its details.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub answer: Answer,
    pub details: Option<Box<AgeExplanation>>,
}

/// Answers of one shard to several questions, all at one position.
#[derive(Debug)]
pub struct ShardAnswers<T> {
    pub answers: Vec<T>,
    pub as_of: AsOf,
}

/// The status of a partition that this instance owns.
#[derive(Debug, Clone)]
pub struct PartitionStatus {
    pub status: ShardStatus,
    /// Records of the log that are not folded yet, if the end of the log is known.
    pub lag: Option<u64>,
    /// The newest stored checkpoint.
    pub checkpoint: Option<StoredCheckpoint>,
}

/// A checkpoint on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// The next offset of its state.
    pub next: NextOffset,
    /// Wall-clock time of the write; unknown if it was written before the service started.
    pub time_ms: Option<i64>,
    pub bytes: u64,
}

/// How far a shard is folded and how far it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckpointProgress {
    /// None if nothing was folded that could be stored.
    pub(super) next: Option<NextOffset>,
    pub(super) stored: Option<StoredCheckpoint>,
}

/// Why events were not recorded. None of them was folded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    #[error("the event could not be written to the log: {0}")]
    Log(String),
    #[error("partition {partition} is not owned by this instance")]
    NotOwned { partition: usize },
    #[error("the service is stopping")]
    Stopping,
}

impl From<&StoreError> for RecordError {
    fn from(error: &StoreError) -> Self {
        RecordError::Log(error.to_string())
    }
}

/// Why questions were not answered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueryError {
    #[error("the service is stopping")]
    Stopping,
    #[error("the partition is not owned by this instance")]
    NotOwned,
    #[error("the stream has {partitions} partitions")]
    NoSuchPartition { partitions: usize },
}

/// Why an aggregate was not answered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AggregateQueryError {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Aggregate(#[from] AggregateError),
}

/// A message to a worker. `slot` is the partition's index among those of the worker.
#[derive(Debug)]
pub(super) enum Message {
    Record(RecordRequest),
    Query(ShardQuery),
    Status {
        slot: usize,
        reply: oneshot::Sender<PartitionStatus>,
    },
    /// Take a checkpoint of every shard that changed.
    Checkpoint,
    /// Take a checkpoint of one shard as soon as possible, unless it is stored; reply how far it is.
    Save {
        slot: usize,
        reply: oneshot::Sender<CheckpointProgress>,
    },
    /// Take the last checkpoints and end.
    Stop {
        reply: oneshot::Sender<()>,
    },
}

/// Events to record in one partition.
#[derive(Debug)]
pub(super) struct RecordRequest {
    pub(super) slot: usize,
    pub(super) events: Vec<Submission>,
    pub(super) reply: oneshot::Sender<Result<Vec<RecordReceipt>, RecordError>>,
}

impl Message {
    /// Whether replies that are ready may wait until this message is handled too.
    pub(super) fn is_quick(&self) -> bool {
        match self {
            Self::Record(request) => request.events.len() <= 1,
            Self::Query(query) => match &query.kind {
                QueryKind::Decide { questions, detail, .. } => questions.len() <= 1 && *detail == Detail::Verdict,
                QueryKind::Count { subjects, .. } => subjects.len() <= 1,
                QueryKind::Aggregate { .. } => false,
            },
            Self::Status { .. } | Self::Checkpoint | Self::Save { .. } | Self::Stop { .. } => false,
        }
    }
}

/// A query, answered once the log is folded up to an offset.
#[derive(Debug)]
pub(super) struct ShardQuery {
    pub(super) slot: usize,
    pub(super) at_least: NextOffset,
    pub(super) received: Instant,
    pub(super) kind: QueryKind,
}

/// How much a decision says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Verdict,
    /// With everything that is known about the item's last occurrence.
    Full,
}

/// What is queried, and where the answer goes.
#[derive(Debug)]
pub(super) enum QueryKind {
    Decide {
        questions: Vec<Question>,
        detail: Detail,
        reply: oneshot::Sender<ShardAnswers<Result<Decision, QuestionError>>>,
    },
    /// Decayed counts; none if the stream keeps no counts.
    Count { subjects: Vec<Subject>, reply: oneshot::Sender<ShardAnswers<Option<ItemCount>>> },
    /// The shard's part of an aggregate that is merged over all shards.
    Aggregate { question: Arc<AggregateQuestion>, reply: oneshot::Sender<Result<PartialAggregate, AggregateError>> },
}

/// An answer and the channel it goes to.
#[derive(Debug)]
pub(super) enum Reply {
    Record(oneshot::Sender<Result<Vec<RecordReceipt>, RecordError>>, Result<Vec<RecordReceipt>, RecordError>),
    Decide(
        oneshot::Sender<ShardAnswers<Result<Decision, QuestionError>>>,
        ShardAnswers<Result<Decision, QuestionError>>,
    ),
    Count(oneshot::Sender<ShardAnswers<Option<ItemCount>>>, ShardAnswers<Option<ItemCount>>),
    Aggregate(oneshot::Sender<Result<PartialAggregate, AggregateError>>, Result<PartialAggregate, AggregateError>),
}

impl Reply {
    /// The client may have given up; what was recorded stays recorded.
    pub(super) fn send(self) {
        match self {
            Self::Record(reply, receipts) => drop(reply.send(receipts)),
            Self::Decide(reply, answers) => drop(reply.send(answers)),
            Self::Count(reply, answers) => drop(reply.send(answers)),
            Self::Aggregate(reply, partial) => drop(reply.send(partial)),
        }
    }
}

impl QueryKind {
    /// Answers from what is folded.
    pub(super) fn answer(self, shard: &Shard) -> Reply {
        let as_of = shard.as_of();
        match self {
            Self::Decide { questions, detail, reply } => {
                let mut answers = Vec::with_capacity(questions.len());
                for batch in questions.chunks(PREFETCH_BATCH) {
                    shard.prefetch(batch);
                    answers.extend(batch.iter().map(|question| decide(shard, question, detail)));
                }
                Reply::Decide(reply, ShardAnswers { answers, as_of })
            }
            Self::Count { subjects, reply } => {
                let answers = subjects.iter().map(|subject| shard.frequency(subject)).collect();
                Reply::Count(reply, ShardAnswers { answers, as_of })
            }
            Self::Aggregate { question, reply } => {
                let partial = shard.partial_aggregate(&question);
                Reply::Aggregate(reply, partial)
            }
        }
    }

    /// Whether the client has given up.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Decide { reply, .. } => reply.is_closed(),
            Self::Count { reply, .. } => reply.is_closed(),
            Self::Aggregate { reply, .. } => reply.is_closed(),
        }
    }
}

fn decide(shard: &Shard, question: &Question, detail: Detail) -> Result<Decision, QuestionError> {
    let details = match detail {
        Detail::Verdict => None,
        Detail::Full => shard.explain(question)?.map(Box::new),
    };
    Ok(Decision { answer: shard.ask(question)?, details })
}
