//! Streams as the rest of the service sees them: events in, decisions out, whichever shards hold the state. Queries are in
//! [`super::queries`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot, watch};

use super::messages::{Message, QueryError, RecordError, RecordReceipt, RecordRequest, Submission};
use super::partition_cell::{PartitionCell, PhaseChanges};
use super::pool::Workers;
use crate::store::{Store, StoreHealth};
use ebb_core::partition::Phase;
use ebb_core::{LogDigest, Plan, Reader, Reason};
use ebb_sketch::hash::Fingerprint;

/// One stream and the routes to its shards.
#[derive(Debug, Clone)]
pub struct Stream {
    plan: Arc<Plan>,
    /// By partition.
    pub(super) routes: Arc<[Route]>,
    /// Whether other instances may own partitions of the stream.
    is_shared: bool,
    /// The only partition that is queried, if one was named.
    pub(super) only: Option<usize>,
    /// Distinguishes its log from those of other streams and, if it is a journal, of other services.
    log: LogDigest,
}

#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) worker: mpsc::Sender<Message>,
    /// The partition's index among those of the worker.
    pub(super) slot: usize,
    cell: Arc<PartitionCell>,
}

impl Stream {
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub fn reader(&self) -> &Reader {
        &self.plan.reader
    }

    pub fn partitions(&self) -> usize {
        self.routes.len()
    }

    /// Whether other instances may own partitions of the stream.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    pub fn log(&self) -> LogDigest {
        self.log
    }

    pub(super) fn partition_of(&self, route: Fingerprint) -> usize {
        ebb_core::partition_of(route, self.routes.len())
    }

    /// The same stream, restricted to one partition if one is named.
    pub fn restricted_to(&self, partition: Option<u32>) -> Result<Self, QueryError> {
        let only = partition.map(|partition| partition as usize);
        if only.is_some_and(|only| only >= self.routes.len()) {
            return Err(QueryError::NoSuchPartition { partitions: self.routes.len() });
        }
        Ok(Self { only, ..self.clone() })
    }

    /// Whether this instance owns the partition and can answer for it.
    pub(super) fn is_owned(&self, partition: usize) -> bool {
        !self.is_shared || self.routes[partition].cell.phase() == Phase::Live
    }

    /// Reads one payload into what [`Stream::record`] takes.
    pub fn submission(&self, payload: Vec<u8>) -> Result<Submission, Reason> {
        let event = self.plan.reader.read(&payload)?;
        Ok(Submission { payload, event })
    }

    /// Records events in order, each in the partition of its item.
    pub async fn record(&self, submissions: Vec<Submission>) -> Result<Vec<RecordReceipt>, RecordError> {
        let count = submissions.len();
        let partition = |one: &Submission| self.only.unwrap_or_else(|| self.partition_of(one.event.route));
        let routed: Vec<_> = submissions.into_iter().map(|one| (partition(&one), one)).collect();
        if let Some((partition, _)) = routed.iter().find(|(partition, _)| !self.is_owned(*partition)) {
            return Err(RecordError::NotOwned { partition: *partition });
        }
        let mut pending = Vec::new();
        for (partition, (indexes, events)) in group_by_partition(routed.into_iter()) {
            let (reply, receipts) = oneshot::channel();
            let route = &self.routes[partition];
            let request = RecordRequest { slot: route.slot, events, reply };
            route.worker.send(Message::Record(request)).await.map_err(|_| RecordError::Stopping)?;
            pending.push((indexes, receipts));
        }
        let mut all = vec![None; count];
        for (indexes, receipts) in pending {
            let receipts = receipts.await.map_err(|_| RecordError::Stopping)??;
            indexes.into_iter().zip(receipts).for_each(|(index, receipt)| all[index] = Some(receipt));
        }
        Ok(all.into_iter().map(|one| one.expect("every index belongs to one partition")).collect())
    }
}

/// Groups by partition. Keeps the order within each partition and the index in the whole.
fn group_by_partition<T>(routed: impl Iterator<Item = (usize, T)>) -> BTreeMap<usize, (Vec<usize>, Vec<T>)> {
    let mut groups: BTreeMap<usize, (Vec<usize>, Vec<T>)> = BTreeMap::new();
    for (index, (partition, one)) in routed.enumerate() {
        let (indexes, ones) = groups.entry(partition).or_default();
        indexes.push(index);
        ones.push(one);
    }
    groups
}

/// A stream and the workers of its partitions.
#[derive(Debug, Clone)]
pub struct StreamLayout {
    pub plan: Arc<Plan>,
    /// By partition.
    pub shards: Vec<ShardPlacement>,
}

/// The worker that may own a shard, and the shard's index among those of that worker.
#[derive(Debug, Clone, Copy)]
pub struct ShardPlacement {
    pub worker: usize,
    pub slot: usize,
}

/// All streams of the service, by name.
#[derive(Debug, Clone)]
pub struct Streams {
    streams: BTreeMap<String, Stream>,
    /// Progress of what is needed besides the partitions: the connection to the brokers, the membership in the group.
    preconditions: Vec<watch::Receiver<Readiness>>,
    phase_changes: PhaseChanges,
    store: Arc<Store>,
    stopping: Arc<AtomicBool>,
}

/// Whether every partition of this instance answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    Restoring,
    /// Something outside has to change first.
    Waiting(String),
    Stopping,
    Failed(String),
}

impl Readiness {
    fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed(reason), _) | (_, Self::Failed(reason)) => Self::Failed(reason),
            (Self::Waiting(reason), _) | (_, Self::Waiting(reason)) => Self::Waiting(reason),
            (Self::Restoring, _) | (_, Self::Restoring) => Self::Restoring,
            (Self::Stopping, _) | (_, Self::Stopping) => Self::Stopping,
            (Self::Ready, Self::Ready) => Self::Ready,
        }
    }

    fn of(cell: &PartitionCell) -> Self {
        match cell.phase() {
            Phase::Refused => Self::Failed(cell.refusal().as_deref().unwrap_or("refused").to_owned()),
            Phase::Restoring | Phase::Replaying => Self::Restoring,
            Phase::Unassigned | Phase::Live | Phase::Draining => Self::Ready,
        }
    }
}

/// Reports what the service waits for before its streams exist.
#[derive(Debug)]
pub struct StartupProgress {
    status: watch::Sender<Readiness>,
}

impl StartupProgress {
    /// Reports the reason for waiting; returns whether it is a new one.
    pub fn waiting_for(&self, reason: String) -> bool {
        let reason = Readiness::Waiting(reason);
        self.status.send_if_modified(|status| {
            let is_new = *status != reason;
            *status = reason;
            is_new
        })
    }
}

impl Streams {
    /// No streams yet: never ready.
    pub fn starting(store: Arc<Store>) -> (Self, StartupProgress) {
        let (status, progress) = watch::channel(Readiness::Restoring);
        let none = Self {
            streams: BTreeMap::new(),
            preconditions: vec![progress],
            phase_changes: PhaseChanges::default(),
            store,
            stopping: Arc::default(),
        };
        (none, StartupProgress { status })
    }

    /// The streams served by `workers`, by name.
    pub fn new(workers: &Workers, layouts: BTreeMap<String, StreamLayout>) -> Self {
        let (store, is_shared) = (workers.store(), workers.poller.is_some());
        // Instances of a group share the topic; a journal belongs to one service.
        let owner = if is_shared { Vec::new() } else { journal_id(&store) };
        let stream = |name: &str, layout: StreamLayout| {
            let route = |(partition, placement): (usize, ShardPlacement)| Route {
                worker: workers.sender(placement.worker),
                slot: placement.slot,
                cell: workers.cell(name, partition as u32),
            };
            Stream {
                plan: layout.plan,
                routes: layout.shards.into_iter().enumerate().map(route).collect(),
                is_shared,
                only: None,
                log: log_digest(&owner, name),
            }
        };
        Self {
            streams: layouts.into_iter().map(|(name, layout)| (name.clone(), stream(&name, layout))).collect(),
            preconditions: workers.poller.iter().map(|poller| poller.membership.clone()).collect(),
            phase_changes: workers.phase_changes.clone(),
            store,
            stopping: Arc::default(),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Stream> {
        self.streams.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Stream)> {
        self.streams.iter().map(|(name, stream)| (name.as_str(), stream))
    }

    /// Whether every partition of this instance answers.
    pub fn readiness(&self) -> Readiness {
        let preconditions = self.preconditions.iter().map(|one| one.borrow().clone());
        let cells =
            self.streams.values().flat_map(|stream| stream.routes.iter()).map(|route| Readiness::of(&route.cell));
        preconditions.chain(cells).fold(Readiness::Ready, Readiness::worse)
    }

    /// Whether new work should be sent here: restored, able to record, and not about to stop. Questions are answered for as
    /// long as the shards are here.
    pub fn serving_readiness(&self) -> Readiness {
        match (self.readiness(), self.store.health()) {
            (Readiness::Ready, StoreHealth::Failed(reason)) => {
                Readiness::Failed(format!("events cannot be recorded: {reason}"))
            }
            (Readiness::Ready, StoreHealth::Healthy) if self.stopping.load(Ordering::Relaxed) => Readiness::Stopping,
            (readiness, _) => readiness,
        }
    }

    /// Why nothing can be stored, if so.
    pub fn store_failure(&self) -> Option<String> {
        match self.store.health() {
            StoreHealth::Failed(reason) => Some(reason),
            StoreHealth::Healthy => None,
        }
    }

    /// From now on new work should go elsewhere.
    pub fn announce_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns once no shard is being restored any more.
    pub async fn settled(&self) -> Readiness {
        for precondition in &self.preconditions {
            // An error means that the sender is gone: its last value stands.
            let is_settled = |status: &Readiness| matches!(status, Readiness::Ready | Readiness::Failed(_));
            let _ = precondition.clone().wait_for(is_settled).await;
        }
        let mut changes = self.phase_changes.subscribe();
        loop {
            match self.readiness() {
                Readiness::Restoring => {}
                settled => return settled,
            }
            if changes.changed().await.is_err() {
                return self.readiness();
            }
        }
    }
}

/// Identifies the journal of this service for as long as it exists.
fn journal_id(store: &Store) -> Vec<u8> {
    const NAME: &str = "journal-id";
    if let Ok(Some(id)) = store.get_metadata(NAME) {
        return id;
    }
    let mut id = [0; 16];
    if getrandom::fill(&mut id).is_err() || store.put_metadata(NAME, &id).is_err() {
        tracing::warn!(
            "the journal's id could not be stored; exports from before and after a restart cannot be merged"
        );
    }
    id.to_vec()
}

fn log_digest(owner: &[u8], stream: &str) -> LogDigest {
    let hash = blake3::derive_key("ebb log", &[owner, stream.as_bytes()].concat());
    LogDigest(std::array::from_fn(|index| hash[index]))
}
