//! Threads that own shards.
//!
//! - W1: a shard is touched only by its worker; everything else sends messages to it.
//! - W2: queues are bounded: senders wait.
//! - W3: questions are answered between batches, with the position up to which the answer holds.
//! - W4: an event is folded and answered only after the log has it; what is answered survives a kill.
//! - W5: a thread that panics ends the process, because what it owned would have no owner.
//!
//! `worker` is the loop of one worker, over a `log`: the journal of the embedded service or Kafka. `partition_cell`
//! holds the state machine of each partition. `stream` and `queries` are what the rest of the service uses.

mod checkpointer;
#[cfg(any(feature = "fault-points", feature = "mutants"))]
mod fault_injection;
mod hooks;
mod journal;
mod kafka;
mod log;
mod maintenance;
mod messages;
mod partition_cell;
mod pool;
mod queries;
mod shard_metrics;
mod slot;
mod stream;
mod worker;

#[cfg(fuzzing)]
pub use kafka::fuzzed;
pub use kafka::{
    Delivery, KafkaOptions, OVERSIZE, OutputTopics, SnapshotTopic, StartPosition, StreamLayouts, StreamSpec, Target,
};
pub use maintenance::PartitionCheckpoint;
pub use messages::{
    AggregateQueryError, Decision, Detail, PartitionStatus, QueryError, RecordError, RecordReceipt, StoredCheckpoint,
    Submission,
};
pub use pool::{StartError, Workers, WorkersOptions};
pub use queries::{AtLeast, CountBatch, DecisionBatch, MergedAnswer};
pub use stream::{Readiness, ShardPlacement, StartupProgress, Stream, StreamLayout, Streams};
