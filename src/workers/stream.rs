//! Streams as the outside sees them: events in, decisions out, whichever shards hold the memory. What can be asked of them
//! stands in [`super::asking`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot, watch};

use super::message::{AskError, Message, RecordError, Recorded, Submission};
use super::owned::Restored;
use super::residency::Residents;
use super::worker::Workers;
use crate::store::{Store, StoreHealth};
use ebb_core::{LogDigest, Plan, Reader, Reason};
use ebb_sketch::hash::Fingerprint;

/// One stream and the way to its shards.
#[derive(Debug, Clone)]
pub struct Stream {
    plan: Arc<Plan>,
    /// By partition.
    pub(super) shards: Arc<[Route]>,
    /// Which of them are here, where that can change.
    pub(super) residents: Option<Residents>,
    /// The only partition that is meant.
    pub(super) only: Option<usize>,
    /// Tells its log from those of other streams and, where it is a journal, of other services.
    log: LogDigest,
}

#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) worker: mpsc::Sender<Message>,
    /// The shard's place in its worker.
    pub(super) shard: usize,
}

impl Stream {
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub fn reader(&self) -> &Reader {
        &self.plan.reader
    }

    pub fn partitions(&self) -> usize {
        self.shards.len()
    }

    /// Whether partitions can be another instance's.
    pub fn is_shared(&self) -> bool {
        self.residents.is_some()
    }

    pub fn log(&self) -> LogDigest {
        self.log
    }

    pub(super) fn partition_of(&self, route: Fingerprint) -> usize {
        ebb_core::partition_of(route, self.shards.len())
    }

    /// The same stream, narrowed to one partition where one is named.
    pub fn narrowed(&self, partition: Option<u32>) -> Result<Self, AskError> {
        let only = partition.map(|partition| partition as usize);
        if only.is_some_and(|only| only >= self.shards.len()) {
            return Err(AskError::NoPartition { partitions: self.shards.len() });
        }
        Ok(Self { only, ..self.clone() })
    }

    pub(super) fn is_here(&self, partition: usize) -> bool {
        self.residents.as_ref().is_none_or(|residents| residents.has(partition))
    }

    /// Reads one payload into what [`Stream::record`] takes.
    pub fn submission(&self, payload: Vec<u8>) -> Result<Submission, Reason> {
        let event = self.plan.reader.read(&payload)?;
        Ok(Submission { payload, event })
    }

    /// Records events in order, each in the shard of its item; all of a shard together, at one position.
    pub async fn record(&self, submissions: Vec<Submission>) -> Result<Vec<Recorded>, RecordError> {
        let count = submissions.len();
        let partition = |one: &Submission| self.only.unwrap_or_else(|| self.partition_of(one.event.route));
        let routed: Vec<_> = submissions.into_iter().map(|one| (partition(&one), one)).collect();
        if let Some((elsewhere, _)) = routed.iter().find(|(partition, _)| !self.is_here(*partition)) {
            return Err(RecordError::Elsewhere { partition: *elsewhere });
        }
        let mut replies = Vec::new();
        for (partition, (places, events)) in grouped(routed.into_iter()) {
            let (reply, recorded) = oneshot::channel();
            let route = &self.shards[partition];
            let message = Message::Record { shard: route.shard, events, reply };
            route.worker.send(message).await.map_err(|_| RecordError::Stopping)?;
            replies.push((places, recorded));
        }
        let mut all = vec![None; count];
        for (places, recorded) in replies {
            let recorded = recorded.await.map_err(|_| RecordError::Stopping)??;
            places.into_iter().zip(recorded).for_each(|(place, one)| all[place] = Some(one));
        }
        Ok(all.into_iter().map(|one| one.expect("every place was given to one shard")).collect())
    }
}

/// Keeps the order within each partition and remembers the places in the whole.
fn grouped<T>(routed: impl Iterator<Item = (usize, T)>) -> BTreeMap<usize, (Vec<usize>, Vec<T>)> {
    let mut groups: BTreeMap<usize, (Vec<usize>, Vec<T>)> = BTreeMap::new();
    for (place, (partition, one)) in routed.enumerate() {
        let (places, ones) = groups.entry(partition).or_default();
        places.push(place);
        ones.push(one);
    }
    groups
}

/// A stream and where its shards are, by partition.
#[derive(Debug, Clone)]
pub struct Placed {
    pub plan: Arc<Plan>,
    pub shards: Vec<Place>,
}

/// Which worker owns a shard, and the shard's place among that worker's.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub worker: usize,
    pub shard: usize,
}

/// All streams of the service, by name.
#[derive(Debug, Clone)]
pub struct Streams {
    streams: BTreeMap<String, Stream>,
    restored: Vec<watch::Receiver<Restored>>,
    store: Arc<Store>,
    stopping: Arc<AtomicBool>,
}

/// Whether every shard answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    Restoring,
    /// Nothing can be done before somebody else has done something.
    Waiting(String),
    Stopping,
    Failed(String),
}

/// Who connects the streams says here what they wait for.
#[derive(Debug)]
pub struct Expectation {
    told: watch::Sender<Restored>,
}

impl Expectation {
    /// Whether that is news.
    pub fn note(&self, why: String) -> bool {
        let why = Restored::Waiting(why);
        self.told.send_if_modified(|told| {
            let is_news = *told != why;
            *told = why;
            is_news
        })
    }
}

impl Streams {
    /// No streams yet: never ready.
    pub fn awaited(store: Arc<Store>) -> (Self, Expectation) {
        let (told, restored) = watch::channel(Restored::Working);
        let none = Self { streams: BTreeMap::new(), restored: vec![restored], store, stopping: Arc::default() };
        (none, Expectation { told })
    }

    /// The streams served by `workers`, by name.
    pub fn new(workers: &Workers, streams: BTreeMap<String, Placed>) -> Self {
        let route = |place: Place| Route { worker: workers.sender(place.worker), shard: place.shard };
        let store = workers.store();
        let keeper = match workers.residency() {
            // Instances of a group share the topic.
            Some(_) => Vec::new(),
            None => journal_id(&store),
        };
        let stream = |name: &str, placed: Placed| Stream {
            plan: placed.plan,
            shards: placed.shards.into_iter().map(route).collect(),
            residents: workers.residency().map(|residency| residency.of_stream(name)),
            only: None,
            log: log_print(&keeper, name),
        };
        Self {
            streams: streams.into_iter().map(|(name, parts)| (name.clone(), stream(&name, parts))).collect(),
            restored: workers.restored(),
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

    pub fn readiness(&self) -> Readiness {
        let states = self.restored.iter().map(|restored| restored.borrow().clone());
        states.fold(Readiness::Ready, |worst, state| match (worst, state) {
            (Readiness::Failed(why), _) | (_, Restored::Failed(why)) => Readiness::Failed(why),
            (Readiness::Waiting(why), _) | (_, Restored::Waiting(why)) => Readiness::Waiting(why),
            (Readiness::Restoring, _) | (_, Restored::Working) => Readiness::Restoring,
            (readiness @ (Readiness::Ready | Readiness::Stopping), Restored::Done) => readiness,
        })
    }

    /// Whether new work should be sent here: restored, able to record, and not about to stop. Questions are answered for as
    /// long as there is somebody to answer them.
    pub fn fitness(&self) -> Readiness {
        match (self.readiness(), self.store.health()) {
            (Readiness::Ready, StoreHealth::Failed(why)) => {
                Readiness::Failed(format!("events cannot be recorded: {why}"))
            }
            (Readiness::Ready, StoreHealth::Healthy) if self.stopping.load(Ordering::Relaxed) => Readiness::Stopping,
            (readiness, _) => readiness,
        }
    }

    /// Why nothing can be stored, if so.
    pub fn store_failure(&self) -> Option<String> {
        match self.store.health() {
            StoreHealth::Failed(why) => Some(why),
            StoreHealth::Healthy => None,
        }
    }

    /// From now on new work should go elsewhere.
    pub fn announce_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns once no shard is being restored any more.
    pub async fn settled(&self) -> Readiness {
        for restored in &self.restored {
            // An error means that the worker is gone: its last word stands.
            let _ = restored.clone().wait_for(|state| matches!(state, Restored::Done | Restored::Failed(_))).await;
        }
        self.readiness()
    }
}

/// Names the journal of this service, for as long as there is one.
fn journal_id(store: &Store) -> Vec<u8> {
    const NAME: &str = "journal-id";
    if let Ok(Some(kept)) = store.get_metadata(NAME) {
        return kept;
    }
    let mut made = [0; 16];
    if getrandom::fill(&mut made).is_err() || store.put_metadata(NAME, &made).is_err() {
        tracing::warn!("exports made before and after a restart will not be known as of one log");
    }
    made.to_vec()
}

fn log_print(keeper: &[u8], stream: &str) -> LogDigest {
    let hash = blake3::derive_key("ebb log", &[keeper, stream.as_bytes()].concat());
    LogDigest(std::array::from_fn(|place| hash[place]))
}
