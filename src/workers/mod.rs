//! Threads that own shards.
//!
//! W1: a shard is touched by its worker alone; everything else is a message to it. W2: queues are bounded: who sends
//! waits. W3: questions are answered between batches, with the position up to which they hold. W4: an event is recorded
//! only after the journal has it; what is answered survives a kill.

mod checkpoints;
mod faults;
mod kafka;
mod message;
mod owned;
mod residency;
mod stream;
mod topics;
mod worker;

pub use faults::{Mutant, POINTS};
pub use kafka::{Beginning, Delivery, KafkaOptions, OVERSIZE, Outputs, SnapshotTopic, StreamSpec, Target};
pub use message::{AggregateAskError, Answered, AskError, RecordError, Recorded, ShardStatus, Submission};
pub use stream::{Answers, Place, Placed, Readiness, Stream, Streams};
pub use worker::{StartError, Workers, WorkersOptions};
