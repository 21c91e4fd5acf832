//! Topics as the log of a worker: what it holds besides its partitions, and when it commits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::cursor::{self, KafkaCursor, KafkaSource, RestoreAttempt};
use super::ingest::Ingest;
use super::outputs::Emitter;
use super::recovery_rules::RecoveryRules;
use super::snapshots::SnapshotWriter;
use super::watchdog::Watchdog;
use super::{Delivery, Feed, KafkaOptions, Producers};
use crate::kafka::{Fault, Group, Producer, Remedy, TailReader};
use crate::workers::log::{Log, Wake};
use crate::workers::messages::{Message, RecordError, RecordRequest};
use crate::workers::shard_metrics;
use crate::workers::slot::{LoadedShard, PartitionSlot};
use crate::workers::stream::Readiness;
use crate::workers::worker::Worker;
use ebb_core::Outcome;
use ebb_core::partition::{Epoch, PartitionEvent, WorkerAction};

/// A transaction with this much in it is committed early: it must be written within its timeout, however slow the brokers
/// are.
const MAX_TRANSACTION: Emitted = Emitted { records: 50_000, bytes: 16 << 20 };
/// How long a worker with nothing to do sleeps.
const IDLE_WAIT: Duration = Duration::from_millis(500);
/// The same while a client waits for a write, or a commit waits for the group.
const BUSY_WAIT: Duration = Duration::from_millis(2);

/// How workers and the poll thread report that the service cannot go on.
#[derive(Debug, Clone)]
pub(super) struct FailureReport {
    /// The state of the membership in the group.
    pub(super) membership: Arc<watch::Sender<Readiness>>,
    pub(super) failure: Arc<watch::Sender<Option<String>>>,
}

impl FailureReport {
    pub(super) fn fail(&self, reason: String) {
        tracing::error!(reason, "Kafka failed permanently, stopping");
        self.membership.send_replace(Readiness::Failed(reason.clone()));
        self.failure.send_replace(Some(reason));
    }
}

/// What was emitted since the last commit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Emitted {
    pub(super) records: usize,
    pub(super) bytes: usize,
}

/// The Kafka side of one worker.
pub(in crate::workers) struct KafkaLog {
    pub(super) options: Arc<KafkaOptions>,
    pub(super) group: Group,
    pub(super) failures: FailureReport,
    feed: mpsc::Receiver<Feed>,
    /// Waits on channels and timers.
    timer: tokio::runtime::Runtime,
    pub(super) producers: Producers,
    pub(super) transactional_id: String,
    /// Whether transactions of an earlier process with the same id are aborted.
    pub(super) has_fenced: bool,
    /// Reads outputs back while partitions are restored.
    pub(super) tail_reader: Option<TailReader>,
    pub(super) watchdog: Watchdog,
    pub(super) rules: RecoveryRules,
    pub(super) emitter: Emitter,
    pub(super) ingest: Ingest,
    pub(super) snapshots: SnapshotWriter,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) emitted: Emitted,
    pub(super) dirty_since: Option<Instant>,
    /// A commit that is due waits until the poll thread has dealt with a rebalance.
    is_commit_postponed: bool,
}

impl KafkaLog {
    pub(super) fn new(
        index: usize,
        options: Arc<KafkaOptions>,
        group: Group,
        failures: FailureReport,
        feed: mpsc::Receiver<Feed>,
    ) -> std::io::Result<Self> {
        let KafkaOptions { settings, instance, .. } = &*options;
        Ok(Self {
            transactional_id: format!("{}-{instance}-{index}", settings.group),
            options,
            group,
            failures,
            feed,
            timer: tokio::runtime::Builder::new_current_thread().enable_time().build()?,
            producers: Producers::new(),
            has_fenced: false,
            tail_reader: None,
            watchdog: Watchdog::start()?,
            rules: RecoveryRules::new(),
            emitter: Emitter::default(),
            ingest: Ingest::default(),
            snapshots: SnapshotWriter::default(),
            outcomes: Vec::new(),
            emitted: Emitted::default(),
            dirty_since: None,
            is_commit_postponed: false,
        })
    }

    fn is_commit_due(&self) -> bool {
        let is_full = self.emitted.records >= MAX_TRANSACTION.records || self.emitted.bytes >= MAX_TRANSACTION.bytes;
        is_full || self.dirty_since.is_some_and(|since| since.elapsed() >= self.options.commit_every)
    }

    fn wait_time(&self) -> Duration {
        if self.is_commit_postponed {
            return BUSY_WAIT;
        }
        let idle = if self.ingest.is_busy() { BUSY_WAIT } else { IDLE_WAIT };
        self.dirty_since.map_or(idle, |since| self.options.commit_every.saturating_sub(since.elapsed()).min(idle))
    }
}

impl Log for KafkaLog {
    type Source = KafkaSource;
    type Cursor = KafkaCursor;
    type Input = Feed;
    type Appended = ();

    const SCHEMA: u16 = 2;

    fn log_name(slot: &PartitionSlot<Self>) -> String {
        format!("kafka:{}", slot.source.partition.topic)
    }

    fn encode(loaded: &LoadedShard<KafkaCursor>) -> Vec<u8> {
        cursor::encode(loaded.cursor.last, &loaded.shard.snapshot())
    }

    fn is_durable(&self, loaded: &LoadedShard<KafkaCursor>) -> bool {
        self.rules.may_checkpoint(!loaded.cursor.is_dirty())
    }

    fn lag(&self, slot: &PartitionSlot<Self>, loaded: &LoadedShard<KafkaCursor>) -> Option<u64> {
        let end = self.group.known_end(&slot.source.partition)?;
        Some(end.0.saturating_sub(loaded.cursor.position.0))
    }

    fn wait(worker: &mut Worker<Self>, inbox: &mut mpsc::Receiver<Message>) -> Wake<Feed> {
        let retry_at = worker.slots.iter().filter_map(|slot| slot.cell.retry_at()).min();
        let until_retry = retry_at.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        let log = &mut worker.log;
        let wait = log.wait_time().min(until_retry);
        log.timer.block_on(async {
            tokio::select! {
                Some(feed) = log.feed.recv() => Wake::Input(feed),
                Some(message) = inbox.recv() => Wake::Message(message),
                () = tokio::time::sleep(wait) => Wake::Timeout,
                else => Wake::Closed,
            }
        })
    }

    fn handle(worker: &mut Worker<Self>, input: Feed) {
        match input {
            Feed::Assigned { reply } => {
                worker.restore_assigned();
                // The poll thread waits for it, or has ended.
                let _ = reply.send(());
            }
            Feed::Revoked { slots, reply } => {
                worker.let_go(&slots);
                let _ = reply.send(());
            }
            Feed::RolledBack { reply } => {
                worker.discard_outdated();
                let _ = reply.send(());
            }
            Feed::Reread { slot } => {
                worker.commit();
                worker.roll_back(slot);
            }
            Feed::Fetched { slot, epoch, batch } => {
                batch.into_iter().for_each(|fetched| worker.take_fetched(slot, epoch, fetched));
            }
        }
    }

    fn restore(worker: &mut Worker<Self>, slot: usize, epoch: Epoch) {
        worker.restore_partition(slot, epoch);
    }

    fn append(_: &mut Worker<Self>, _: &mut [Message]) {}

    /// Writes the events to the topic; they are answered once they were read back and decided.
    fn record(worker: &mut Worker<Self>, request: RecordRequest, (): &()) {
        let RecordRequest { slot, events, reply } = request;
        let PartitionSlot { id, source, loaded, .. } = &worker.slots[slot];
        match loaded {
            Some(_) => {
                let KafkaLog { ingest, options, .. } = &mut worker.log;
                ingest.send(&options.settings, &source.partition, slot, &events, reply);
            }
            None => {
                // The client may have given up.
                let _ = reply.send(Err(RecordError::NotOwned { partition: id.partition as usize }));
            }
        }
    }

    fn end_round(worker: &mut Worker<Self>) {
        let log = &mut worker.log;
        log.producers.values().for_each(Producer::poll);
        log.ingest.poll();
        log.snapshots.poll();
        let is_due = log.is_commit_due();
        log.is_commit_postponed = is_due && !log.group.is_settled();
        if is_due && !log.is_commit_postponed {
            worker.commit();
        }
    }

    fn stop(worker: &mut Worker<Self>) {
        worker.commit();
    }
}

impl Worker<KafkaLog> {
    /// Ends the service: this client cannot do anything any more.
    pub(super) fn fail(&mut self, fault: &Fault) {
        self.log.failures.fail(fault.to_string());
    }

    /// Lets go of partitions that were revoked, after a commit, or lost, without one.
    fn let_go(&mut self, slots: &[usize]) {
        let action_of = |slot: usize| self.slots[slot].cell.actions().worker;
        let with = |action| slots.iter().copied().filter(|slot| action_of(*slot) == Some(action)).collect::<Vec<_>>();
        let (drained, lost) = (with(WorkerAction::Drain), with(WorkerAction::Discard));
        if !drained.is_empty() {
            self.drain(&drained);
        }
        self.abort_transactions_of(&lost);
        for slot in drained.into_iter().chain(lost) {
            let PartitionSlot { id, plan, cell, source, loaded } = &mut self.slots[slot];
            tracing::info!(shard = %id, "partition released");
            (*loaded, source.attempt) = (None, RestoreAttempt::default());
            shard_metrics::remove(id, plan, &self.options.metrics);
            cell.step(PartitionEvent::Drained);
            self.log.ingest.abandon(slot);
        }
    }

    /// Commits, and leaves the state of these partitions for their next owner.
    fn drain(&mut self, slots: &[usize]) {
        self.commit();
        for slot in slots {
            self.checkpoint_now(*slot);
            self.write_snapshot(*slot, Duration::ZERO);
        }
        if let Err(fault) = self.log.snapshots.flush() {
            tracing::warn!(%fault, "snapshots not written, the next owner replays instead");
        }
    }

    /// Discards what was folded under epochs that have ended.
    fn discard_outdated(&mut self) {
        let is_outdated = |slot: &PartitionSlot<KafkaLog>| {
            slot.loaded.as_ref().is_some_and(|loaded| !slot.cell.is_current(loaded.epoch))
        };
        let outdated: Vec<usize> = (0..self.slots.len()).filter(|slot| is_outdated(&self.slots[*slot])).collect();
        self.abort_transactions_of(&outdated);
        outdated.into_iter().for_each(|slot| self.slots[slot].loaded = None);
    }

    /// What was sent for lost partitions must not be committed: everything of the same producers is rolled back.
    fn abort_transactions_of(&mut self, lost: &[usize]) {
        for delivery in Delivery::ALL {
            let uses_it = |slot: &PartitionSlot<KafkaLog>| slot.source.stream.delivery == delivery;
            let is_affected = lost.iter().any(|slot| uses_it(&self.slots[*slot]));
            if is_affected && self.slots.iter().any(|slot| uses_it(slot) && slot.is_dirty()) {
                self.start_over(delivery, &Fault::new("polling", Remedy::StartOver, "partitions were lost"));
            }
        }
    }
}
