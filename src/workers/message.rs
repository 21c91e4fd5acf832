//! What a worker can be told: one closed enum, one `match`.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::shard::{
    AggregateError, AggregatePart, AggregateQuestion, Answer, AsOf, Event, NextOffset, Outcome, Question,
    QuestionError, Status,
};
use crate::store::StoreError;

/// An event to be recorded: its payload for the journal, and what the edge read from it.
#[derive(Debug)]
pub struct Submission {
    pub payload: Vec<u8>,
    pub event: Event,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy)]
pub struct Recorded {
    pub outcome: Outcome,
    pub offset: u64,
    pub as_of: AsOf,
}

/// What became of a list of questions: answered together, at one position.
#[derive(Debug)]
pub struct Answered {
    pub answers: Vec<Result<Answer, QuestionError>>,
    pub as_of: AsOf,
}

/// A shard in figures.
#[derive(Debug, Clone)]
pub struct ShardStatus {
    pub status: Status,
    /// Up to where the newest stored checkpoint reaches.
    pub checkpoint: Option<NextOffset>,
}

/// Why events were not recorded. None of them was folded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    #[error("the journal does not take the event: {0}")]
    Journal(String),
    #[error("partition {partition} is another instance's")]
    Elsewhere { partition: usize },
    #[error("the service is stopping")]
    Stopping,
}

impl From<&StoreError> for RecordError {
    fn from(error: &StoreError) -> Self {
        RecordError::Journal(error.to_string())
    }
}

/// Why questions were not answered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AskError {
    #[error("the service is stopping")]
    Stopping,
    #[error("the partition is another instance's")]
    Elsewhere,
    #[error("the stream has {partitions} partitions")]
    NoPartition { partitions: usize },
}

/// Why an aggregate was not answered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AggregateAskError {
    #[error("the service is stopping")]
    Stopping,
    #[error(transparent)]
    Refused(#[from] AggregateError),
}

/// See the module. Shards are named by their place in the worker that owns them.
#[derive(Debug)]
pub(super) enum Message {
    Record {
        shard: usize,
        events: Vec<Submission>,
        reply: oneshot::Sender<Result<Vec<Recorded>, RecordError>>,
    },
    Ask(Ask),
    /// What the shard has to say to a question that all shards answer together.
    Aggregate {
        shard: usize,
        question: Arc<AggregateQuestion>,
        reply: oneshot::Sender<Result<AggregatePart, AggregateError>>,
    },
    Status {
        shard: usize,
        reply: oneshot::Sender<ShardStatus>,
    },
    /// Take a checkpoint of every shard that changed; with `reply`, tell when they are stored.
    Checkpoint {
        reply: Option<oneshot::Sender<()>>,
    },
    /// Take the last checkpoints and end.
    Stop {
        reply: oneshot::Sender<()>,
    },
}

#[derive(Debug)]
pub(super) struct Ask {
    pub(super) shard: usize,
    pub(super) questions: Vec<Question>,
    /// Wait until the log is folded up to here.
    pub(super) at_least: NextOffset,
    pub(super) asked: Instant,
    pub(super) reply: oneshot::Sender<Answered>,
}
