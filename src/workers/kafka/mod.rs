//! Workers over the partitions of Kafka topics: outputs and offsets are committed together.
//!
//! One thread polls the consumer ([`poll`]): it alone talks to the group and hands fetched records to the workers. Each
//! worker owns partitions ([`cursor`]) and one producer for each kind of delivery ([`log`]). Guarantees:
//!
//! - K1: on assignment the order is: fence, read the committed offset C, restore a checkpoint that is not ahead of C,
//!   replay up to C without output, emit.
//! - K2: the outputs of a record and its offset are in one transaction.
//! - K3: after any doubt about a transaction its producer is replaced, C is read again, and the partitions are restored.
//! - K4: a checkpoint holds only what is committed.
//! - K5: a log that changed (recreated, truncated, more partitions) is refused, never silently started over.
//! - K6: what a worker cannot take yet stays in its partition's queue, which librdkafka bounds; nothing is dropped, and
//!   nothing is skipped because it could not be read.
//! - K7: a call that hangs ends the process.
//! - K8: the outputs that consumers can read are counted, not inferred from the offset ([`output_ledger`]).
//! - K9: a partition that cannot be restored yet does not delay others: it is retried.
//! - K10: an assigned partition is held until it is revoked, restored or not; a partition that the group assigned to nobody
//!   is found ([`orphan_detector`]).

mod commit;
pub(in crate::workers) mod cursor;
mod fold;
#[cfg(fuzzing)]
pub mod fuzzed;
mod ingest;
mod log;
mod orphan_detector;
pub(in crate::workers) mod output_ledger;
mod outputs;
mod poll;
#[cfg(not(feature = "mutants"))]
mod recovery_rules;
mod restore;
mod snapshots;
mod start;
mod watchdog;

#[cfg(feature = "mutants")]
use super::fault_injection::mutants as recovery_rules;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

pub use outputs::{OVERSIZE, OutputTopics, Target};
pub(super) use poll::ShutdownFlags;
pub use snapshots::SnapshotTopic;
pub use start::StreamLayouts;

use crate::kafka::{Fetched, Producer, Settings};
use ebb_core::Plan;
use ebb_core::partition::Epoch;

/// What consumers of a stream's outputs can rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// Outputs and offsets are committed in one transaction.
    ExactlyOnce,
    /// Outputs are written first, then offsets: a crash may repeat outputs.
    AtLeastOnce,
    /// There are no outputs.
    OffsetsOnly,
}

impl Delivery {
    const ALL: [Delivery; 3] = [Delivery::ExactlyOnce, Delivery::AtLeastOnce, Delivery::OffsetsOnly];
}

/// The producers of a worker. Offsets without outputs need none.
pub(in crate::workers) type Producers = BTreeMap<Delivery, Producer>;

/// A stream as its workers see it.
#[derive(Debug, Clone)]
pub struct StreamSpec {
    pub plan: Arc<Plan>,
    pub topic: Arc<str>,
    pub partitions: u32,
    pub delivery: Delivery,
    pub outputs: OutputTopics,
}

/// Where a partition without a committed offset starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartPosition {
    Refuse,
    Earliest,
    Latest,
}

/// What all Kafka workers share.
#[derive(Debug, Clone)]
pub struct KafkaOptions {
    pub settings: Settings,
    /// Names the producers of this instance; the same after a restart.
    pub instance: String,
    pub commit_every: Duration,
    pub start: StartPosition,
    /// Where states are written for the next owner.
    pub snapshots: Option<SnapshotTopic>,
    /// The largest record that every output topic accepts.
    pub max_output_bytes: usize,
}

/// Batches that may wait for one worker; more stay in librdkafka's queues (K6).
const FEED_CAPACITY: usize = 8;

/// What the poll thread sends to a worker.
#[derive(Debug)]
pub(in crate::workers) enum Feed {
    /// The group assigned partitions to this instance, possibly none of this worker: restore those that are due and reply.
    Assigned { reply: Sender<()> },
    /// These partitions were revoked or lost, as their state says: let go of them and reply.
    Revoked { slots: Vec<usize>, reply: Sender<()> },
    /// Partitions were rolled back by the poll thread: discard what was folded under earlier epochs and reply.
    RolledBack { reply: Sender<()> },
    /// Commit what is folded, and read the partition again from there.
    Reread { slot: usize },
    /// What was fetched of a partition.
    Fetched { slot: usize, epoch: Epoch, batch: Vec<Fetched> },
}
