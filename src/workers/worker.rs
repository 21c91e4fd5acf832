//! One worker: restores its shards, then folds, answers and checkpoints until it is told to stop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::checkpoints::{Checkpoints, Job};
use super::kafka::Running;
use super::message::{Ask, Message, RecordError, Recorded, Reply, Submission};
use super::owned::{Handed, OwnedShard, Restored};
use super::residency::Residency;
use crate::metrics::Metrics;
use crate::store::{JournalBatch, JournalRecord, ShardId, Store};
use ebb_core::{NextOffset, Plan};

/// How many messages may wait for one worker.
pub(super) const QUEUE: usize = 1024;
/// How many messages are taken together: their records share one journal write.
const GROUP: usize = 256;

/// Why a worker did not start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("the thread of a worker could not be started: {0}")]
    Thread(#[from] std::io::Error),
    #[error("shard {shard} cannot be restored: {why}")]
    Restore { shard: ShardId, why: String },
    #[error(transparent)]
    Kafka(#[from] crate::kafka::Fault),
}

/// What all workers share.
#[derive(Debug, Clone)]
pub struct WorkersOptions {
    pub store: Arc<Store>,
    pub metrics: Metrics,
}

/// The running threads. Dropping it without [`Workers::stop`] loses nothing that was answered: the journal has it.
#[derive(Debug)]
pub struct Workers {
    senders: Vec<mpsc::Sender<Message>>,
    threads: Vec<JoinHandle<()>>,
    restored: Vec<watch::Receiver<Restored>>,
    checkpoints: Checkpoints,
    store: Arc<Store>,
    /// Where records come from, when it is not the journal.
    pub(super) followed: Option<Followed>,
}

/// The thread that follows topics.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) running: Running,
    pub(super) thread: JoinHandle<()>,
    pub(super) has_ended: watch::Receiver<Option<String>>,
    pub(super) residency: Residency,
}

impl Workers {
    pub(super) fn without_threads(options: &WorkersOptions) -> Result<Self, StartError> {
        let checkpoints = Checkpoints::start(options.store.clone(), options.metrics.clone(), 1)?;
        let store = options.store.clone();
        let (senders, threads, restored) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { senders, threads, restored, checkpoints, store, followed: None })
    }

    pub(super) fn jobs(&self) -> SyncSender<Job> {
        self.checkpoints.sender()
    }

    pub(super) fn add(
        &mut self,
        thread: JoinHandle<()>,
        sender: mpsc::Sender<Message>,
        restored: watch::Receiver<Restored>,
    ) {
        self.threads.push(thread);
        self.senders.push(sender);
        self.also_wait_for(restored);
    }

    pub(super) fn also_wait_for(&mut self, restored: watch::Receiver<Restored>) {
        self.restored.push(restored);
    }

    /// Which shards are owned, where that can change.
    pub(super) fn residency(&self) -> Option<Residency> {
        self.followed.as_ref().map(|followed| followed.residency.clone())
    }

    /// Starts one thread for each list of shards; restoring goes on in the background. To be called within the runtime that
    /// those who ask run on.
    pub fn start(options: &WorkersOptions, lists: Vec<Vec<(ShardId, Arc<Plan>)>>) -> Result<Self, StartError> {
        let mut workers = Self::without_threads(options)?;
        for (index, list) in lists.into_iter().enumerate() {
            let (sender, inbox) = mpsc::channel(QUEUE);
            let (report, restored) = watch::channel(Restored::Working);
            let worker = Worker {
                name: index.to_string(),
                shards: Vec::new(),
                inbox,
                waiting: Vec::new(),
                replies: Vec::new(),
                runtime: Handle::current(),
                due: VecDeque::new(),
                options: options.clone(),
                jobs: workers.jobs(),
            };
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            workers.add(thread.spawn(move || worker.run(list, &report))?, sender, restored);
        }
        Ok(workers)
    }

    pub(super) fn sender(&self, worker: usize) -> mpsc::Sender<Message> {
        self.senders[worker].clone()
    }

    pub(super) fn store(&self) -> Arc<Store> {
        self.store.clone()
    }

    pub(super) fn restored(&self) -> Vec<watch::Receiver<Restored>> {
        self.restored.clone()
    }

    /// Asks every worker for checkpoints; does not wait for them.
    pub async fn request_checkpoints(&self) {
        for sender in &self.senders {
            // A closed queue means that the worker is gone, and the service about to end.
            let _ = sender.send(Message::Checkpoint).await;
        }
    }

    /// Takes the last checkpoints and ends the threads. Messages sent before are still served.
    pub async fn stop(self) {
        if let Some(followed) = &self.followed {
            followed.running.is_stopping.store(true, Ordering::Release);
        }
        let mut replies = Vec::new();
        for sender in &self.senders {
            let (reply, done) = oneshot::channel();
            if sender.send(Message::Stop { reply }).await.is_ok() {
                replies.push(done);
            }
        }
        for done in replies {
            let _ = done.await;
        }
        let Self { senders, mut threads, checkpoints, followed, .. } = self;
        drop(senders);
        let joined = tokio::task::spawn_blocking(move || {
            let mut panicked = threads.drain(..).map(JoinHandle::join).filter(Result::is_err).count();
            if let Some(followed) = followed {
                followed.running.is_over.store(true, Ordering::Release);
                panicked += usize::from(followed.thread.join().is_err());
            }
            checkpoints.join();
            panicked
        });
        if !matches!(joined.await, Ok(0)) {
            tracing::error!("a worker panicked");
        }
    }
}

struct Worker {
    name: String,
    shards: Vec<OwnedShard>,
    inbox: mpsc::Receiver<Message>,
    /// Questions about a part of the log that is not folded yet.
    waiting: Vec<Ask>,
    /// Answers that are not told yet.
    replies: Vec<Reply>,
    /// Where those who ask run.
    runtime: Handle,
    /// Shards whose checkpoint is due, by their places.
    due: VecDeque<usize>,
    options: WorkersOptions,
    jobs: SyncSender<Job>,
}

impl Worker {
    fn run(mut self, list: Vec<(ShardId, Arc<Plan>)>, report: &watch::Sender<Restored>) {
        for (id, plan) in list {
            match OwnedShard::restore(id.clone(), plan, &self.options) {
                Ok(owned) => self.shards.push(owned),
                Err(why) => {
                    tracing::error!(shard = %id, %why, "shard not restored");
                    report.send_replace(Restored::Failed(StartError::Restore { shard: id, why }.to_string()));
                    return;
                }
            }
        }
        report.send_replace(Restored::Done);
        let depth = self.options.metrics.queue_depth.with_label_values(&[&self.name]);
        let mut group = Vec::with_capacity(GROUP);
        while let Some(first) = self.inbox.blocking_recv() {
            group.push(first);
            // Who is about to send gets its turn first: what comes together is journalled and answered together.
            thread::yield_now();
            while group.len() < GROUP
                && let Ok(more) = self.inbox.try_recv()
            {
                group.push(more);
            }
            depth.set(self.inbox.len() as i64);
            let journalled = self.journal(&mut group);
            for message in group.drain(..) {
                if !message.is_brief() {
                    self.tell();
                }
                if let Some(stopped) = self.serve(message, &journalled) {
                    // The last thing a worker does; whoever waits for it may have given up.
                    let _ = stopped.send(());
                    return;
                }
            }
            self.answer_waiting();
            self.tell();
            self.checkpoint_due();
        }
    }

    /// Tells the answers of a group by one task: told one by one, each would wake the runtime anew, which on a busy core is
    /// a switch to its thread and back.
    fn tell(&mut self) {
        if self.replies.len() <= 1 {
            self.replies.drain(..).for_each(Reply::send);
        } else {
            let replies = std::mem::take(&mut self.replies);
            self.runtime.spawn(async { replies.into_iter().for_each(Reply::send) });
        }
    }

    /// Writes all records of the group to the journal at once: one flush for all of them (W4).
    fn journal(&mut self, group: &mut [Message]) -> Result<(), RecordError> {
        let mut batches: Vec<JournalBatch> = Vec::new();
        let now_ms = wall_clock_ms();
        let mut next: Vec<NextOffset> = self.shards.iter().map(|owned| owned.shard.next()).collect();
        for message in group {
            let Message::Record { shard, events, .. } = message else { continue };
            let timestamp_ms = self.shards[*shard].stamp(now_ms);
            let records = events
                .iter_mut()
                .map(|event| JournalRecord { timestamp_ms, payload: std::mem::take(&mut event.payload) });
            let records: Vec<JournalRecord> = records.collect();
            let first = next[*shard];
            next[*shard] = NextOffset(first.0 + records.len() as u64);
            batches.push(JournalBatch { shard: self.shards[*shard].id.clone(), first, records });
        }
        if batches.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let appended = self.options.store.append(&batches);
        self.options.metrics.journal_seconds.observe(started.elapsed().as_secs_f64());
        appended.map_err(|error| {
            self.options.metrics.journal_failures.inc();
            tracing::error!(%error, "events not journalled");
            RecordError::from(&error)
        })
    }

    /// Serves one message; returns whom to tell when it was the last.
    fn serve(&mut self, message: Message, journalled: &Result<(), RecordError>) -> Option<oneshot::Sender<()>> {
        match message {
            Message::Record { shard, events, reply } => {
                let recorded = journalled.clone().map(|()| self.record(shard, &events));
                self.replies.push(Reply::Recorded(reply, recorded));
            }
            Message::Ask(ask) => self.answer(ask),
            Message::Status { shard, reply } => {
                let _ = reply.send(self.shards[shard].status());
            }
            Message::Checkpoint => self.report_and_make_due(),
            Message::Save { shard, reply } => {
                if self.shards[shard].checkpoint(&self.jobs) == Handed::PutOff && !self.due.contains(&shard) {
                    self.due.push_front(shard);
                }
                let _ = reply.send(self.shards[shard].saved());
            }
            Message::Stop { reply } => {
                self.checkpoint_all();
                return Some(reply);
            }
        }
        None
    }

    fn record(&mut self, shard: usize, events: &[Submission]) -> Vec<Recorded> {
        let started = Instant::now();
        let recorded = self.shards[shard].record(events, &self.options.metrics);
        self.options.metrics.apply_seconds.observe(started.elapsed().as_secs_f64());
        recorded
    }

    fn answer(&mut self, ask: Ask) {
        let shard = &self.shards[ask.shard].shard;
        if shard.next() < ask.at_least {
            self.waiting.push(ask);
            return;
        }
        let reply = ask.inquiry.answer(shard);
        self.replies.push(reply);
        self.options.metrics.answer_seconds.observe(ask.asked.elapsed().as_secs_f64());
    }

    /// Looks again at the questions that waited; those whose asker gave up are dropped.
    fn answer_waiting(&mut self) {
        for ask in std::mem::take(&mut self.waiting) {
            if !ask.inquiry.is_abandoned() {
                self.answer(ask);
            }
        }
    }

    fn report_and_make_due(&mut self) {
        for (place, owned) in self.shards.iter().enumerate() {
            owned.report(&self.options.metrics);
            if !self.due.contains(&place) {
                self.due.push_back(place);
            }
        }
    }

    /// Takes the checkpoints that are due, in turn, as far as the disk keeps up: a shard that was put off comes first the
    /// next time.
    fn checkpoint_due(&mut self) {
        while let Some(place) = self.due.front().copied()
            && self.shards[place].checkpoint(&self.jobs) == Handed::Over
        {
            self.due.pop_front();
        }
    }

    /// Takes every checkpoint and waits until they are stored.
    fn checkpoint_all(&mut self) {
        self.shards.iter_mut().for_each(|owned| owned.checkpoint_finally(&self.jobs));
        self.due.clear();
    }
}

fn wall_clock_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
