//! One worker: folds what the poll thread hands it, emits, commits, answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, SyncSender};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use super::super::checkpoints::Job;
use super::super::message::{Ask, Message, RecordError};
use super::super::owned::Restored;
use super::super::residency::Residency;
use super::ingest::Ingest;
use super::outputs::Emitter;
use super::snapshots::Snapshots;
use super::tenant::{Owned, State, Tenant};
use super::watchdog::Watchdog;
use super::{Command, Delivery, Feed, KafkaOptions, Leaving};
use crate::kafka::{Fault, Group, Producer, Remedy, TailReader};
use crate::metrics::Metrics;
use crate::store::Store;
use ebb_core::{Outcome, Shard};

/// A transaction with this much in it is committed before its time: it must be written within its timeout, however slow
/// the brokers are.
const MOST_EMITTED: Emitted = Emitted { records: 50_000, bytes: 16 << 20 };
/// How long a worker with nothing to do sleeps.
const IDLE: Duration = Duration::from_millis(500);

/// As above, while somebody waits for a write, or a commit for the group.
const BUSY: Duration = Duration::from_millis(2);

/// The way from one worker to everything else.
#[derive(Debug, Clone)]
pub(in crate::workers) struct Links {
    pub(in crate::workers) options: Arc<KafkaOptions>,
    pub(in crate::workers) group: Group,
    pub(in crate::workers) store: Arc<Store>,
    pub(in crate::workers) metrics: Metrics,
    pub(in crate::workers) jobs: SyncSender<Job>,
    pub(in crate::workers) commands: Sender<Command>,
    pub(in crate::workers) residency: Residency,
}

/// What was emitted since the last commit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Emitted {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

/// See the module.
pub(in crate::workers) struct KafkaWorker {
    pub(super) tenants: Vec<Tenant>,
    pub(super) links: Links,
    pub(super) producers: BTreeMap<Delivery, Producer>,
    /// What earlier lives left open is given up.
    pub(super) has_fenced: bool,
    /// While partitions are restored.
    pub(super) tail: Option<TailReader>,
    pub(super) transactional_id: String,
    pub(super) watchdog: Watchdog,
    /// For the mutant that does not go back.
    pub(super) kept: BTreeMap<usize, Shard>,
    pub(super) emitter: Emitter,
    pub(super) ingest: Ingest,
    pub(super) snapshots: Snapshots,
    restored: watch::Sender<Restored>,
    /// Questions about a part of the log that is not folded yet.
    waiting: Vec<Ask>,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) emitted: Emitted,
    pub(super) dirty_since: Option<Instant>,
}

/// What woke a worker.
enum Wake {
    Feed(Feed),
    Message(Message),
    Tick,
    /// Nobody can send any more.
    Alone,
}

impl KafkaWorker {
    pub(in crate::workers) fn new(
        index: usize,
        tenants: Vec<Tenant>,
        links: Links,
        restored: watch::Sender<Restored>,
    ) -> std::io::Result<Self> {
        let KafkaOptions { settings, instance, .. } = &*links.options;
        Ok(Self {
            transactional_id: format!("{}-{instance}-{index}", settings.group),
            tenants,
            links,
            producers: BTreeMap::new(),
            has_fenced: false,
            tail: None,
            watchdog: Watchdog::start()?,
            kept: BTreeMap::new(),
            emitter: Emitter::default(),
            ingest: Ingest::default(),
            snapshots: Snapshots::default(),
            restored,
            waiting: Vec::new(),
            outcomes: Vec::new(),
            emitted: Emitted::default(),
            dirty_since: None,
        })
    }

    pub(in crate::workers) fn run(
        mut self,
        mut feeds: mpsc::UnboundedReceiver<Feed>,
        mut inbox: mpsc::Receiver<Message>,
    ) {
        let clock = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(clock) => clock,
            Err(error) => return self.end(&Fault::new("starting a worker", Remedy::End, error)),
        };
        // A commit waits until the polling thread has dealt with what the group decided.
        let mut is_postponed = false;
        loop {
            let idle = if self.ingest.is_busy() { BUSY } else { IDLE };
            let commit_every = self.links.options.commit_every;
            let wait = self.dirty_since.map_or(idle, |since| commit_every.saturating_sub(since.elapsed()).min(idle));
            let wait = if is_postponed { BUSY } else { wait };
            let wake = clock.block_on(async {
                tokio::select! {
                    Some(feed) = feeds.recv() => Wake::Feed(feed),
                    Some(message) = inbox.recv() => Wake::Message(message),
                    () = tokio::time::sleep(wait) => Wake::Tick,
                    else => Wake::Alone,
                }
            });
            match wake {
                Wake::Feed(feed) => self.feed(feed),
                Wake::Message(message) => {
                    if let Some(stopped) = self.serve(message) {
                        // The producers close before whoever waits believes that all is done.
                        drop(self);
                        let _ = stopped.send(());
                        return;
                    }
                }
                Wake::Tick if self.dirty_since.is_none() => self.checkpoint(),
                Wake::Tick => {}
                Wake::Alone => return,
            }
            self.producers.values().for_each(Producer::poll);
            self.ingest.serve();
            self.snapshots.serve();
            let is_due = self.is_commit_due();
            is_postponed = is_due && !self.links.group.is_settled();
            if is_due && !is_postponed {
                self.commit();
            }
            self.answer_waiting();
        }
    }

    fn feed(&mut self, feed: Feed) {
        match feed {
            Feed::Assign { shards, reply } => self.assign(shards, &reply),
            Feed::Revoke { shards, how, reply } => {
                self.leave(&shards, how);
                // The poll thread waits for it, or is gone.
                let _ = reply.send(());
            }
            Feed::Taken { shard, epoch, taken, waiting } => {
                self.take(shard, epoch, taken);
                waiting.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn is_commit_due(&self) -> bool {
        let commit_every = self.links.options.commit_every;
        let is_full = self.emitted.records >= MOST_EMITTED.records || self.emitted.bytes >= MOST_EMITTED.bytes;
        is_full || self.dirty_since.is_some_and(|since| since.elapsed() >= commit_every)
    }

    /// Stops work on a partition whose log cannot be trusted (K5).
    pub(super) fn refuse(&mut self, shard: usize, why: String) {
        tracing::error!(shard = %self.tenants[shard].id, %why, "partition refused");
        self.tenants[shard].state = State::Refused(why);
        self.tell_restored();
    }

    pub(super) fn end(&mut self, fault: &Fault) {
        tracing::error!(%fault, "cannot go on");
        self.restored.send_replace(Restored::Failed(fault.to_string()));
        let _ = self.links.commands.send(Command::End(fault.to_string()));
    }

    fn leave(&mut self, shards: &[usize], how: Leaving) {
        match how {
            Leaving::Orderly => {
                self.commit();
                for shard in shards {
                    let is_settled = self.tenants[*shard].owned().is_some_and(|owned| !owned.is_dirty());
                    if is_settled {
                        self.tenants[*shard].checkpoint(&self.links.jobs);
                        self.snapshot(*shard, Duration::ZERO);
                    }
                }
                if let Err(fault) = self.snapshots.drain() {
                    tracing::warn!(%fault, "snapshots not written");
                }
            }
            // What was sent for them must not be committed: everything of the same producers goes back.
            Leaving::Lost => {
                for delivery in Delivery::ALL {
                    let is_hit = shards.iter().any(|shard| self.tenants[*shard].stream.delivery == delivery);
                    if is_hit && self.owned_of(delivery).any(|owned| owned.is_dirty()) {
                        self.start_over(delivery, &Fault::new("polling", Remedy::StartOver, "partitions were lost"));
                    }
                }
            }
        }
        for shard in shards {
            tracing::info!(shard = %self.tenants[*shard].id, ?how, "partition given up");
            self.tenants[*shard].state = State::Away;
            self.tenants[*shard].forget_trying();
            self.tenants[*shard].forget_figures(&self.links.metrics);
            self.ingest.leave(*shard);
        }
        self.tell_restored();
    }

    pub(super) fn notice_caught_up(&mut self, shard: usize) {
        let metrics = self.links.metrics.clone();
        let tenant = &mut self.tenants[shard];
        let id = tenant.id.clone();
        if let Some(owned) = tenant.owned().filter(|owned| !owned.is_caught_up)
            && owned.expected.is_none()
            && owned.position >= owned.committed
        {
            owned.is_caught_up = true;
            metrics.restore_seconds.observe(owned.began.elapsed().as_secs_f64());
            tracing::info!(shard = %id, next = owned.position.0, seconds = owned.began.elapsed().as_secs_f64(), "shard restored");
            self.tell_restored();
        }
    }

    /// Tells the world which partitions answer, and whether all of ours do.
    pub(super) fn tell_restored(&mut self) {
        let mut told = Restored::Done;
        for tenant in &self.tenants {
            let is_ready = matches!(&tenant.state, State::Owned(owned) if owned.is_caught_up);
            self.links.residency.set(&tenant.id, is_ready);
            match &tenant.state {
                State::Refused(why) => told = Restored::Failed(why.clone()),
                State::Returning if told == Restored::Done => told = Restored::Working,
                State::Owned(_) if !is_ready && told == Restored::Done => told = Restored::Working,
                State::Away | State::Returning | State::Owned(_) => {}
            }
        }
        self.restored.send_if_modified(|before| {
            let changed = *before != told;
            *before = told;
            changed
        });
    }

    /// Serves one message; returns whom to tell when it was the last.
    fn serve(&mut self, message: Message) -> Option<oneshot::Sender<()>> {
        match message {
            Message::Record { shard, events, reply } => match self.tenants[shard].owned() {
                Some(_) => {
                    let (settings, part) = (&self.links.options.settings, &self.tenants[shard].part);
                    self.ingest.send(settings, part, shard, &events, reply);
                }
                None => {
                    let partition = self.tenants[shard].id.partition as usize;
                    let _ = reply.send(Err(RecordError::Elsewhere { partition }));
                }
            },
            Message::Ask(ask) => self.answer(ask),
            Message::Status { shard, reply } => {
                let end = self.links.group.known_end(&self.tenants[shard].part);
                if let Some(owned) = self.tenants[shard].owned() {
                    let _ = reply.send(owned.status(end));
                }
            }
            Message::Checkpoint => {
                self.tenants.iter_mut().filter_map(Tenant::owned).for_each(|owned| owned.wants_checkpoint = true);
                self.report();
            }
            Message::Save { shard, reply } => {
                if let Some(owned) = self.tenants[shard].owned() {
                    owned.wants_checkpoint = true;
                    let _ = reply.send(owned.saved());
                    // What is not committed waits for its commit, which takes the checkpoint too.
                    if !owned.is_dirty() {
                        self.tenants[shard].checkpoint(&self.links.jobs);
                    }
                }
            }
            Message::Stop { reply } => {
                self.tenants.iter_mut().filter_map(Tenant::owned).for_each(Owned::await_checkpoint);
                self.commit();
                self.last_checkpoints();
                self.tenants.iter_mut().filter_map(Tenant::owned).for_each(Owned::await_checkpoint);
                return Some(reply);
            }
        }
        None
    }

    fn report(&mut self) {
        for tenant in &mut self.tenants {
            let (end, id) = (self.links.group.known_end(&tenant.part), tenant.id.clone());
            if let Some(owned) = tenant.owned() {
                owned.report(&id, end, &self.links.metrics);
            }
        }
    }

    fn answer(&mut self, ask: Ask) {
        let Some(owned) = self.tenants[ask.shard].owned().filter(|owned| owned.is_caught_up) else { return };
        let shard = &owned.shard;
        if shard.next() < ask.at_least {
            self.waiting.push(ask);
            return;
        }
        ask.inquiry.answer(shard).send();
        self.links.metrics.answer_seconds.observe(ask.asked.elapsed().as_secs_f64());
    }

    /// Looks again at the questions that waited; those whose asker gave up are dropped.
    fn answer_waiting(&mut self) {
        for ask in std::mem::take(&mut self.waiting) {
            if !ask.inquiry.is_abandoned() {
                self.answer(ask);
            }
        }
    }
}
