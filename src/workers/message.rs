//! What a worker can be told: one closed enum, one `match`.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::store::StoreError;
use ebb_core::{
    AggregateError, AggregateQuestion, Answer, AnswerDetails, AsOf, Event, NextOffset, Outcome, PREFETCH_BATCH,
    PartialAggregate, Question, QuestionError, Shard, ShardStatus, Subject,
};
use ebb_sketch::filter::structure::frequency::DecayedCount;

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

/// An answer and, where they were asked for and the filter has them, its details.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    pub answer: Answer,
    pub details: Option<Box<AnswerDetails>>,
}

/// What became of a list of questions: answered together, at one position.
#[derive(Debug)]
pub struct Answered<T> {
    pub answers: Vec<T>,
    pub as_of: AsOf,
}

/// A shard in figures.
#[derive(Debug, Clone)]
pub struct PartitionStatus {
    pub status: ShardStatus,
    /// Records of the log that are not folded yet, where the end of the log is known.
    pub lag: Option<u64>,
    /// The newest stored checkpoint.
    pub checkpoint: Option<Stored>,
}

/// A checkpoint that is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Up to where it reaches.
    pub next: NextOffset,
    /// By the wall clock; unknown of one that was there before the service started.
    pub time_ms: Option<i64>,
    pub bytes: u64,
}

/// Where a shard stands, and up to where it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saved {
    /// None where nothing was folded that could be stored.
    pub(super) next: Option<NextOffset>,
    pub(super) stored: Option<Stored>,
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
    #[error(transparent)]
    Unasked(#[from] AskError),
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
    Status {
        shard: usize,
        reply: oneshot::Sender<PartitionStatus>,
    },
    /// Take a checkpoint of every shard that changed.
    Checkpoint,
    /// Take a checkpoint of the shard as soon as may be, unless there is one; tell where it stands.
    Save {
        shard: usize,
        reply: oneshot::Sender<Saved>,
    },
    /// Take the last checkpoints and end.
    Stop {
        reply: oneshot::Sender<()>,
    },
}

impl Message {
    /// Takes so little time that those before it may wait for it.
    pub(super) fn is_brief(&self) -> bool {
        match self {
            Self::Record { events, .. } => events.len() <= 1,
            Self::Ask(ask) => match &ask.inquiry {
                Inquiry::Decide { questions, depth, .. } => questions.len() <= 1 && *depth == Depth::Verdict,
                Inquiry::Count { subjects, .. } => subjects.len() <= 1,
                Inquiry::Aggregate { .. } => false,
            },
            Self::Status { .. } | Self::Checkpoint | Self::Save { .. } | Self::Stop { .. } => false,
        }
    }
}

/// Something to be answered once the log is folded up to a position.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) shard: usize,
    pub(super) at_least: NextOffset,
    pub(super) asked: Instant,
    pub(super) inquiry: Inquiry,
}

/// How much of an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    Verdict,
    /// With everything that can be said about the item's last sighting.
    Details,
}

/// What is asked, and whom to tell.
#[derive(Debug)]
pub(super) enum Inquiry {
    Decide {
        questions: Vec<Question>,
        depth: Depth,
        reply: oneshot::Sender<Answered<Result<Decided, QuestionError>>>,
    },
    /// How often, of late; nothing where the stream keeps no counts.
    Count {
        subjects: Vec<Subject>,
        reply: oneshot::Sender<Answered<Option<DecayedCount>>>,
    },
    /// What the shard has to say to a question that all shards answer together.
    Aggregate {
        question: Arc<AggregateQuestion>,
        reply: oneshot::Sender<Result<PartialAggregate, AggregateError>>,
    },
}

/// An answer and whom to tell it.
#[derive(Debug)]
pub(super) enum Reply {
    Recorded(oneshot::Sender<Result<Vec<Recorded>, RecordError>>, Result<Vec<Recorded>, RecordError>),
    Decided(oneshot::Sender<Answered<Result<Decided, QuestionError>>>, Answered<Result<Decided, QuestionError>>),
    Counted(oneshot::Sender<Answered<Option<DecayedCount>>>, Answered<Option<DecayedCount>>),
    Part(oneshot::Sender<Result<PartialAggregate, AggregateError>>, Result<PartialAggregate, AggregateError>),
}

impl Reply {
    /// Whoever asked may be gone; what was recorded is recorded all the same.
    pub(super) fn send(self) {
        match self {
            Self::Recorded(reply, recorded) => drop(reply.send(recorded)),
            Self::Decided(reply, answered) => drop(reply.send(answered)),
            Self::Counted(reply, answered) => drop(reply.send(answered)),
            Self::Part(reply, part) => drop(reply.send(part)),
        }
    }
}

impl Inquiry {
    /// Answers from what is folded.
    pub(super) fn answer(self, shard: &Shard) -> Reply {
        let as_of = shard.as_of();
        match self {
            Self::Decide { questions, depth, reply } => {
                let mut answers = Vec::with_capacity(questions.len());
                for stretch in questions.chunks(PREFETCH_BATCH) {
                    shard.prefetch(stretch);
                    answers.extend(stretch.iter().map(|question| decide(shard, question, depth)));
                }
                Reply::Decided(reply, Answered { answers, as_of })
            }
            Self::Count { subjects, reply } => {
                let answers = subjects.iter().map(|subject| shard.frequency(subject)).collect();
                Reply::Counted(reply, Answered { answers, as_of })
            }
            Self::Aggregate { question, reply } => {
                let part = shard.partial_aggregate(&question);
                Reply::Part(reply, part)
            }
        }
    }

    /// Nobody waits for the answer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Decide { reply, .. } => reply.is_closed(),
            Self::Count { reply, .. } => reply.is_closed(),
            Self::Aggregate { reply, .. } => reply.is_closed(),
        }
    }
}

fn decide(shard: &Shard, question: &Question, depth: Depth) -> Result<Decided, QuestionError> {
    let details = match depth {
        Depth::Verdict => None,
        Depth::Details => shard.explain(question)?.map(Box::new),
    };
    Ok(Decided { answer: shard.ask(question)?, details })
}
