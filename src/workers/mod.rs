//! Threads that own shards.
//!
//! W1: a shard is touched by its worker alone; everything else is a message to it. W2: queues are bounded: who sends
//! waits. W3: questions are answered between batches, with the position up to which they hold. W4: an event is recorded
//! only after the journal has it; what is answered survives a kill. W5: a thread that panics ends the process: what it
//! owned would have no owner.

mod asking;
mod checkpoints;
mod ending;
mod faults;
mod kafka;
mod message;
mod owned;
mod report;
mod residency;
mod stream;
mod topics;
mod worker;

pub use asking::{Answers, AtLeast, Checkpointed, Counted, MergedAnswer};
pub use faults::{Mutant, POINTS};
#[cfg(fuzzing)]
pub use kafka::fuzzed;
pub use kafka::{Beginning, Delivery, KafkaOptions, OVERSIZE, Outputs, SnapshotTopic, StreamSpec, Target};
pub use message::{
    AggregateAskError, AskError, Decided, Depth, PartitionStatus, RecordError, Recorded, Stored, Submission,
};
pub use stream::{Expectation, Place, Placed, Readiness, Stream, Streams};
pub use worker::{StartError, Workers, WorkersOptions};
