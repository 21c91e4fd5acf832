//! Workers that fold the partitions of topics, and commit what they emit together with what they have read.
//!
//! One thread polls ([`poll`]): it alone talks to the group, and hands records to the workers. Each worker owns some
//! partitions ([`tenant`]) and one producer for each kind of delivery ([`worker`]). Promises:
//!
//! K1: on assignment the order is fence, read what is committed (C), restore a checkpoint that is not ahead of C, fold up
//! to C without emitting, emit. K2: the outputs of a record and its offset are in one transaction. K3: after any doubt
//! about a transaction its producer is replaced, C is read again, and the partitions are restored anew: nothing is
//! guessed. K4: a checkpoint holds only what is committed. K5: a log that is not what it was (made anew, cut off, more
//! partitions) is refused, never begun again in silence. K6: what a worker cannot take yet stays in its partition's
//! queue, which librdkafka bounds; nothing is dropped, nor passed over because it could not be read. K7: a call that
//! hangs ends the process. K8: what readers have of the outputs is counted, not taken from the offset ([`proof`]). K9: a
//! partition that cannot be restored yet keeps nobody else waiting: it is tried again between polls. K10: what the group
//! gave is held until it is taken back, restored or not; what it gave to nobody is found ([`lookout`]).

mod commit;
mod fold;
#[cfg(fuzzing)]
pub mod fuzzed;
mod ingest;
mod lookout;
mod outputs;
mod poll;
mod proof;
mod restore;
mod saves;
mod snapshots;
mod tenancy;
mod tenant;
mod watchdog;
mod worker;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use std::time::Duration;

pub(super) use lookout::look_out;
pub use outputs::{OVERSIZE, Outputs, Target};
pub(super) use poll::{Ends, Poll, Running};
pub use snapshots::SnapshotTopic;
pub(super) use tenant::Tenant;
pub(super) use worker::{KafkaWorker, Links};

use crate::kafka::{Settings, Taken, TopicPartition};
use ebb_core::{NextOffset, Plan};

/// What readers of a stream's outputs may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// Outputs and offsets in one transaction.
    ExactlyOnce,
    /// Outputs first, then offsets: a crash may repeat outputs.
    AtLeastOnce,
    /// There are no outputs.
    Nothing,
}

impl Delivery {
    const ALL: [Delivery; 3] = [Delivery::ExactlyOnce, Delivery::AtLeastOnce, Delivery::Nothing];
}

/// A stream as its workers see it.
#[derive(Debug, Clone)]
pub struct StreamSpec {
    pub plan: Arc<Plan>,
    pub topic: Arc<str>,
    pub partitions: u32,
    pub delivery: Delivery,
    pub outputs: Outputs,
}

/// Where a partition without a committed offset begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
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
    pub beginning: Beginning,
    /// Where states are left for the next owner.
    pub snapshots: Option<SnapshotTopic>,
    /// The largest output that every output topic takes.
    pub most_bytes: usize,
}

/// What the poll thread tells a worker.
#[derive(Debug)]
pub(super) enum Feed {
    /// Restore these, and say where each begins.
    Assign { shards: Vec<(usize, u64)>, reply: Sender<(usize, Start)> },
    /// Give these up.
    Revoke { shards: Vec<usize>, how: Leaving, reply: Sender<()> },
    /// Something of a partition, under the number of its assignment.
    Taken { shard: usize, epoch: u64, taken: Taken, waiting: Arc<AtomicUsize> },
}

/// Where an assigned partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    At(NextOffset),
    /// It cannot be restored yet: ask again.
    Later,
    /// It is not to be read; the worker has said why.
    Nowhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// What is folded can still be committed.
    Orderly,
    /// Another may have it already.
    Lost,
}

/// What a worker asks of the poll thread.
#[derive(Debug)]
pub(super) enum Command {
    /// Assign these again, from where the worker will say.
    Return(Vec<TopicPartition>),
    /// Read no more of this.
    Drop(TopicPartition),
    /// The service cannot go on.
    End(String),
}
