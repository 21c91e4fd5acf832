//! One worker: restores its shards, then folds, answers and checkpoints until it is stopped. The same loop runs over the
//! journal and over Kafka ([`Log`]).

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::checkpointer::CheckpointJob;
use super::log::{Log, Wake};
use super::messages::{Message, PartitionStatus, Reply, ShardQuery};
use super::pool::WorkersOptions;
use super::shard_metrics;
use super::slot::{Handover, PartitionSlot};
use ebb_core::partition::WorkerAction;

/// Messages that are handled together: their records share one write to the log, their replies one task.
const MAX_GROUP: usize = 256;

/// A worker and the partitions it may own.
pub(super) struct Worker<L: Log> {
    name: String,
    pub(super) slots: Vec<PartitionSlot<L>>,
    pub(super) log: L,
    pub(super) options: WorkersOptions,
    /// Queries that wait for an offset that is not folded yet.
    deferred: Vec<ShardQuery>,
    /// Replies that are not sent yet.
    pub(super) replies: Vec<Reply>,
    /// The runtime of the clients that wait for replies.
    runtime: Handle,
    /// Slots whose checkpoint is due, oldest request first.
    checkpoints_due: VecDeque<usize>,
    checkpointer: SyncSender<CheckpointJob>,
}

impl<L: Log> Worker<L> {
    pub(super) fn new(
        index: usize,
        slots: Vec<PartitionSlot<L>>,
        log: L,
        options: WorkersOptions,
        checkpointer: SyncSender<CheckpointJob>,
    ) -> Self {
        Self {
            name: index.to_string(),
            slots,
            log,
            options,
            deferred: Vec::new(),
            replies: Vec::new(),
            runtime: Handle::current(),
            checkpoints_due: VecDeque::new(),
            checkpointer,
        }
    }

    /// Runs until it is stopped or nobody can send to it any more.
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let queue_depth = self.options.metrics.queue_depth.with_label_values(&[&self.name]);
        let mut group = Vec::with_capacity(MAX_GROUP);
        self.restore_due();
        loop {
            match L::wait(&mut self, &mut inbox) {
                Wake::Closed => return,
                Wake::Timeout => {}
                Wake::Input(input) => L::handle(&mut self, input),
                Wake::Message(first) => {
                    group.push(first);
                    // Lets clients that are about to send go first: what arrives together is appended and answered together.
                    thread::yield_now();
                    while group.len() < MAX_GROUP
                        && let Ok(more) = inbox.try_recv()
                    {
                        group.push(more);
                    }
                    queue_depth.set(inbox.len() as i64);
                    if let Some(stopped) = self.handle_group(&mut group) {
                        // What the worker holds is released before whoever waits believes that it has ended.
                        drop(self);
                        let _ = stopped.send(());
                        return;
                    }
                }
            }
            L::end_round(&mut self);
            self.restore_due();
            self.answer_deferred();
            self.send_replies();
            self.take_due_checkpoints();
        }
    }

    /// Handles messages in order; returns the reply channel of the last one, if it was to stop.
    fn handle_group(&mut self, group: &mut Vec<Message>) -> Option<oneshot::Sender<()>> {
        let appended = L::append(self, group);
        for message in group.drain(..) {
            if !message.is_quick() {
                self.send_replies();
            }
            match message {
                Message::Record(request) => L::record(self, request, &appended),
                Message::Query(query) => self.answer(query),
                Message::Status { slot, reply } => self.reply_status(slot, reply),
                Message::Checkpoint => {
                    self.report();
                    (0..self.slots.len()).for_each(|slot| self.request_checkpoint(slot));
                }
                Message::Save { slot, reply } => {
                    self.request_checkpoint(slot);
                    if let Some(loaded) = &mut self.slots[slot].loaded {
                        // The client may have given up.
                        let _ = reply.send(loaded.checkpoint_progress());
                    }
                }
                Message::Stop { reply } => {
                    L::stop(self);
                    self.checkpoint_all();
                    self.send_replies();
                    return Some(reply);
                }
            }
        }
        None
    }

    /// Restores the partitions whose state machine asks for it.
    pub(super) fn restore_due(&mut self) {
        for slot in 0..self.slots.len() {
            if let Some(WorkerAction::Restore(epoch)) = self.slots[slot].cell.actions().worker {
                L::restore(self, slot, epoch);
            }
        }
    }

    /// Sends the replies of a group from one task: sent one by one, each would wake the runtime, which on a busy core means
    /// a switch to its thread and back.
    fn send_replies(&mut self) {
        if self.replies.len() <= 1 {
            self.replies.drain(..).for_each(Reply::send);
        } else {
            let replies = std::mem::take(&mut self.replies);
            self.runtime.spawn(async { replies.into_iter().for_each(Reply::send) });
        }
    }

    /// Answers a query, or defers it until its offset is folded. Dropping it tells the client that the partition is not
    /// here.
    fn answer(&mut self, query: ShardQuery) {
        let Some(loaded) = self.slots[query.slot].live() else { return };
        if loaded.shard.next() < query.at_least {
            self.deferred.push(query);
            return;
        }
        let reply = query.kind.answer(&loaded.shard);
        self.replies.push(reply);
        self.options.metrics.answer_seconds.observe(query.received.elapsed().as_secs_f64());
    }

    fn answer_deferred(&mut self) {
        for query in std::mem::take(&mut self.deferred) {
            if !query.kind.is_abandoned() {
                self.answer(query);
            }
        }
    }

    fn reply_status(&mut self, slot: usize, reply: oneshot::Sender<PartitionStatus>) {
        let slot = &mut self.slots[slot];
        let Some(loaded) = slot.loaded.as_deref() else { return };
        let (lag, status) = (self.log.lag(slot, loaded), loaded.shard.status());
        let checkpoint = slot.loaded.as_deref_mut().and_then(|loaded| loaded.stored());
        // The client may have given up.
        let _ = reply.send(PartitionStatus { status, lag, checkpoint });
    }

    fn report(&self) {
        for slot in &self.slots {
            if let Some(loaded) = slot.loaded.as_deref() {
                let lag = self.log.lag(slot, loaded);
                let figures = shard_metrics::ShardFigures {
                    id: &slot.id,
                    status: &loaded.shard.status(),
                    lag,
                    timestamp_ms: loaded.timestamp_ms,
                };
                shard_metrics::report(&figures, &self.options.metrics);
            }
        }
    }

    pub(super) fn request_checkpoint(&mut self, slot: usize) {
        if !self.checkpoints_due.contains(&slot) {
            self.checkpoints_due.push_back(slot);
        }
    }

    /// Takes the checkpoints that are due, as far as the disk keeps up. One that was postponed comes first the next time;
    /// one whose shard is not durable yet waits for the next commit.
    pub(super) fn take_due_checkpoints(&mut self) {
        for _ in 0..self.checkpoints_due.len() {
            let Some(index) = self.checkpoints_due.pop_front() else { return };
            let slot = &mut self.slots[index];
            if slot.loaded.as_deref().is_some_and(|loaded| !self.log.is_durable(loaded)) {
                self.checkpoints_due.push_back(index);
            } else if slot.checkpoint(&self.checkpointer) == Handover::Postponed {
                return self.checkpoints_due.push_front(index);
            }
        }
    }

    /// Hands the state to the checkpoint thread now, if it is durable.
    pub(super) fn checkpoint_now(&mut self, slot: usize) -> Handover {
        let slot = &mut self.slots[slot];
        match &slot.loaded {
            Some(loaded) if self.log.is_durable(loaded) => slot.checkpoint(&self.checkpointer),
            Some(_) | None => Handover::Done,
        }
    }

    /// Takes the last checkpoint of every shard and waits until they are stored.
    fn checkpoint_all(&mut self) {
        self.checkpoints_due.clear();
        for slot in &mut self.slots {
            if slot.loaded.as_deref().is_some_and(|loaded| self.log.is_durable(loaded)) {
                slot.checkpoint_and_wait(&self.checkpointer);
            }
        }
    }
}
