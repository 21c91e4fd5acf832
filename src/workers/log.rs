//! The log that a worker folds: the journal of the embedded service, or the partitions of Kafka topics.

use tokio::sync::mpsc;

use super::messages::{Message, RecordRequest};
use super::slot::{LoadedShard, PartitionSlot};
use super::worker::Worker;
use ebb_core::partition::Epoch;

/// What differs between logs. Everything else a worker does is in [`Worker`].
pub(super) trait Log: Sized {
    /// What is known about a partition across assignments.
    type Source;
    /// Position of a loaded shard in the log.
    type Cursor;
    /// What arrives besides messages.
    type Input;
    /// Outcome of appending the records of a group of messages.
    type Appended;

    /// Version of the checkpointed bytes, as the store knows it.
    const SCHEMA: u16;

    /// Names the log in the identity of checkpoints.
    fn log_name(slot: &PartitionSlot<Self>) -> String;

    /// The bytes of a checkpoint.
    fn encode(loaded: &LoadedShard<Self::Cursor>) -> Vec<u8>;

    /// Whether everything that is folded is durable in the log, so that a checkpoint may be taken (K4).
    fn is_durable(&self, loaded: &LoadedShard<Self::Cursor>) -> bool;

    /// Records that are not folded yet, if the end of the log is known.
    fn lag(&self, slot: &PartitionSlot<Self>, loaded: &LoadedShard<Self::Cursor>) -> Option<u64>;

    /// Waits for something to do.
    fn wait(worker: &mut Worker<Self>, inbox: &mut mpsc::Receiver<Message>) -> Wake<Self::Input>;

    /// Handles an input of the log.
    fn handle(worker: &mut Worker<Self>, input: Self::Input);

    /// Loads a partition's state, under the epoch that the state machine asked for, and reports the outcome to it.
    fn restore(worker: &mut Worker<Self>, slot: usize, epoch: Epoch);

    /// Writes the records of a group of messages to the log, if the log wants them before they are folded.
    fn append(worker: &mut Worker<Self>, group: &mut [Message]) -> Self::Appended;

    /// Records events; their reply is sent now or once the log returns them.
    fn record(worker: &mut Worker<Self>, request: RecordRequest, appended: &Self::Appended);

    /// Ends a round: commits if that is due.
    fn end_round(worker: &mut Worker<Self>);

    /// Makes everything that is folded durable, before the last checkpoints.
    fn stop(worker: &mut Worker<Self>);
}

/// What woke a worker.
pub(super) enum Wake<I> {
    Message(Message),
    Input(I),
    Timeout,
    /// Nobody can send any more.
    Closed,
}
