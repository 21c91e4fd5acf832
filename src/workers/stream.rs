//! Streams as the outside sees them: events and questions in, decisions out, whichever shards hold the memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot, watch};

use super::message::{
    AggregateAskError, Answered, Ask, AskError, Message, RecordError, Recorded, ShardStatus, Submission,
};
use super::owned::Restored;
use super::residency::Residents;
use super::worker::Workers;
use crate::hash::Fingerprint;
use crate::random::mix;
use crate::shard::{
    AggregateAnswer, AggregateQuestion, Answer, AsOf, NextOffset, Plan, Question, QuestionError, Reader, Reason,
    Verdict,
};
use crate::store::{Health, Store};

/// One stream and the way to its shards.
#[derive(Debug, Clone)]
pub struct Stream {
    plan: Arc<Plan>,
    /// By partition.
    shards: Vec<Route>,
    /// Which of them are here, where that can change.
    residents: Option<Residents>,
    /// The only partition that is meant.
    only: Option<usize>,
}

#[derive(Debug, Clone)]
struct Route {
    worker: mpsc::Sender<Message>,
    /// The shard's place in its worker.
    shard: usize,
}

/// Where the answer to each question of a list stands.
#[derive(Debug)]
pub struct Answers {
    pub answers: Vec<(Result<Answer, QuestionError>, AsOf)>,
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

    /// The partition that holds an item's memory. Other bits decide here than within a filter.
    fn partition_of(&self, item: Fingerprint) -> usize {
        let mixed = mix(item.high() ^ mix(item.low()));
        ((u128::from(mixed) * self.shards.len() as u128) >> 64) as usize
    }

    /// The same stream, narrowed to one partition where one is named.
    pub fn narrowed(&self, partition: Option<u32>) -> Result<Self, AskError> {
        let only = partition.map(|partition| partition as usize);
        if only.is_some_and(|only| only >= self.shards.len()) {
            return Err(AskError::NoPartition { partitions: self.shards.len() });
        }
        Ok(Self { only, ..self.clone() })
    }

    fn is_here(&self, partition: usize) -> bool {
        self.residents.as_ref().is_none_or(|residents| residents.has(partition))
    }

    /// Where an item is asked for. In a topic its writers choose the partition: unless one is named, all that are here.
    fn asked(&self, item: Fingerprint) -> Vec<usize> {
        match (self.only, &self.residents) {
            (Some(only), _) => vec![only],
            (None, None) => vec![self.partition_of(item)],
            (None, Some(_)) => (0..self.shards.len()).collect(),
        }
    }

    /// Reads one payload into what [`Stream::record`] takes.
    pub fn submission(&self, payload: Vec<u8>) -> Result<Submission, Reason> {
        let event = self.plan.reader.read(&payload)?;
        Ok(Submission { payload, event })
    }

    /// Records events in order, each in the shard of its item; all of a shard together, at one position.
    pub async fn record(&self, submissions: Vec<Submission>) -> Result<Vec<Recorded>, RecordError> {
        let count = submissions.len();
        let partition = |one: &Submission| self.only.unwrap_or_else(|| self.partition_of(one.event.item));
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

    /// Answers questions in order, once the shards have folded up to `at_least` of theirs.
    pub async fn ask(&self, questions: Vec<Question>, at_least: NextOffset) -> Result<Answers, AskError> {
        let count = questions.len();
        let mut groups: BTreeMap<usize, (Vec<usize>, Vec<Question>)> = BTreeMap::new();
        for (place, question) in questions.into_iter().enumerate() {
            for partition in self.asked(question.subject.item).into_iter().filter(|one| self.is_here(*one)) {
                let (places, questions) = groups.entry(partition).or_default();
                places.push(place);
                questions.push(question.clone());
            }
        }
        let mut replies = Vec::new();
        for (partition, (places, questions)) in groups {
            let (reply, answered) = oneshot::channel();
            let route = &self.shards[partition];
            let ask = Ask { shard: route.shard, questions, at_least, asked: Instant::now(), reply };
            route.worker.send(Message::Ask(ask)).await.map_err(|_| AskError::Stopping)?;
            replies.push((places, answered));
        }
        let mut all = vec![None; count];
        for (places, answered) in replies {
            let Answered { answers, as_of } = answered.await.map_err(|_| AskError::Stopping)?;
            for (place, one) in places.into_iter().zip(answers) {
                let found: &mut Option<(_, AsOf)> = &mut all[place];
                if found.as_ref().is_none_or(|(other, _)| weight(&one) > weight(other)) {
                    *found = Some((one, as_of));
                }
            }
        }
        let all: Option<Vec<_>> = all.into_iter().collect();
        Ok(Answers { answers: all.ok_or(AskError::Elsewhere)? })
    }

    /// Asks an aggregate of all shards that are here together, each as of where it stands.
    pub async fn aggregate(&self, question: AggregateQuestion) -> Result<AggregateAnswer, AggregateAskError> {
        let place = self.plan.aggregate(&question.aggregate)?.0;
        let question = Arc::new(question);
        let mut replies = Vec::new();
        for (_, route) in self.shards.iter().enumerate().filter(|(partition, _)| self.is_here(*partition)) {
            let (reply, part) = oneshot::channel();
            let message = Message::Aggregate { shard: route.shard, question: question.clone(), reply };
            route.worker.send(message).await.map_err(|_| AggregateAskError::Stopping)?;
            replies.push(part);
        }
        let mut parts = Vec::new();
        for part in replies {
            parts.push(part.await.map_err(|_| AggregateAskError::Stopping)??);
        }
        let plan = self.plan.clone();
        // Merging large sketches takes long enough to hold up other requests.
        let answer = tokio::task::spawn_blocking(move || plan.aggregates[place].answer(&question, parts));
        Ok(answer.await.map_err(|_| AggregateAskError::Stopping)??)
    }

    /// The shards in figures, by partition.
    pub async fn status(&self) -> Result<Vec<ShardStatus>, AskError> {
        let mut replies = Vec::new();
        for (_, route) in self.shards.iter().enumerate().filter(|(partition, _)| self.is_here(*partition)) {
            let (reply, status) = oneshot::channel();
            let message = Message::Status { shard: route.shard, reply };
            route.worker.send(message).await.map_err(|_| AskError::Stopping)?;
            replies.push(status);
        }
        let mut all = Vec::new();
        for status in replies {
            all.push(status.await.map_err(|_| AskError::Stopping)?);
        }
        Ok(all)
    }
}

/// Which of two partitions' answers about an item counts: the one that has seen it.
fn weight(answer: &Result<Answer, QuestionError>) -> u8 {
    match answer.as_ref().map(|answer| answer.verdict) {
        Err(_) => 3,
        Ok(Verdict::Duplicate) => 2,
        Ok(Verdict::Late) => 1,
        Ok(Verdict::Unique | Verdict::Rejected(_)) => 0,
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
    Stopping,
    Failed(String),
}

impl Streams {
    /// The streams served by `workers`, by name.
    pub fn new(workers: &Workers, streams: BTreeMap<String, Placed>) -> Self {
        let route = |place: Place| Route { worker: workers.sender(place.worker), shard: place.shard };
        let stream = |name: &str, placed: Placed| Stream {
            plan: placed.plan,
            shards: placed.shards.into_iter().map(route).collect(),
            residents: workers.residency().map(|residency| residency.of_stream(name)),
            only: None,
        };
        Self {
            streams: streams.into_iter().map(|(name, parts)| (name.clone(), stream(&name, parts))).collect(),
            restored: workers.restored(),
            store: workers.store(),
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
            (Readiness::Restoring, _) | (_, Restored::Working) => Readiness::Restoring,
            (readiness @ (Readiness::Ready | Readiness::Stopping), Restored::Done) => readiness,
        })
    }

    /// Whether new work should be sent here: restored, able to record, and not about to stop. Questions are answered for as
    /// long as there is somebody to answer them.
    pub fn fitness(&self) -> Readiness {
        match (self.readiness(), self.store.health()) {
            (Readiness::Ready, Health::Failed(why)) => Readiness::Failed(format!("events cannot be recorded: {why}")),
            (Readiness::Ready, Health::Healthy) if self.stopping.load(Ordering::Relaxed) => Readiness::Stopping,
            (readiness, _) => readiness,
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
            let _ = restored.clone().wait_for(|state| *state != Restored::Working).await;
        }
        self.readiness()
    }
}
