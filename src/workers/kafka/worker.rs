//! One worker: folds what the poll thread hands it, emits, commits, answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use super::super::checkpoints::Job;
use super::super::faults::{self, Mutant};
use super::super::message::{Answered, Ask, Message, RecordError, Recorded};
use super::super::owned::{Restored, count};
use super::super::residency::Residency;
use super::ingest::Ingest;
use super::outputs::Emitter;
use super::snapshots::Snapshots;
use super::tenant::{Mark, Owned, State, Tenant};
use super::watchdog::Watchdog;
use super::{Command, Delivery, Feed, KafkaOptions, Leaving};
use crate::kafka::{self, Committed, Fault, Group, Part, Producer, Remedy, Taken};
use crate::metrics::Metrics;
use crate::shard::{AsOf, NextOffset, Outcome, Record, Shard};
use crate::store::Store;

/// A transaction with this many outputs is committed before its time.
const MOST_EMITTED: usize = 50_000;
/// How long a worker with nothing to do sleeps.
const IDLE: Duration = Duration::from_millis(500);

/// As above, while somebody waits for a write.
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
    pub(in crate::workers) stopping: Arc<AtomicBool>,
    pub(in crate::workers) residency: Residency,
}

impl Links {
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// See the module.
pub(in crate::workers) struct KafkaWorker {
    pub(super) tenants: Vec<Tenant>,
    pub(super) links: Links,
    pub(super) producers: BTreeMap<Delivery, Producer>,
    pub(super) transactional_id: String,
    pub(super) watchdog: Watchdog,
    /// For the mutant that does not go back.
    pub(super) kept: BTreeMap<usize, Shard>,
    emitter: Emitter,
    ingest: Ingest,
    snapshots: Snapshots,
    restored: watch::Sender<Restored>,
    /// Questions about a part of the log that is not folded yet.
    waiting: Vec<Ask>,
    outcomes: Vec<Outcome>,
    emitted: usize,
    dirty_since: Option<Instant>,
}

/// What woke a worker.
enum Wake {
    Feed(Feed),
    Message(Message),
    Tick,
    /// Nobody can send any more.
    Alone,
}

/// Why records could not be folded and emitted.
enum Stumble {
    Fault(Fault),
    Refused(String),
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
            watchdog: Watchdog::start()?,
            kept: BTreeMap::new(),
            emitter: Emitter::default(),
            ingest: Ingest::default(),
            snapshots: Snapshots::default(),
            restored,
            waiting: Vec::new(),
            outcomes: Vec::new(),
            emitted: 0,
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
        loop {
            let idle = if self.ingest.is_busy() { BUSY } else { IDLE };
            let commit_every = self.links.options.commit_every;
            let wait = self.dirty_since.map_or(idle, |since| commit_every.saturating_sub(since.elapsed()).min(idle));
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
            self.producers.values().for_each(Producer::serve);
            self.ingest.serve();
            self.snapshots.serve();
            if self.is_commit_due() {
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
        self.emitted >= MOST_EMITTED || self.dirty_since.is_some_and(|since| since.elapsed() >= commit_every)
    }

    fn take(&mut self, shard: usize, epoch: u64, taken: Taken) {
        let tenant = &mut self.tenants[shard];
        let delivery = tenant.stream.delivery;
        let part = tenant.part.clone();
        let Some(owned) = tenant.owned().filter(|owned| owned.epoch == epoch) else { return };
        let result = match taken {
            Taken::Records(messages) => self.fold(shard, &messages),
            Taken::End(next) => match owned.expected {
                Some(mark) => Err(Stumble::Refused(not_the_same(&part, mark.offset))),
                None => {
                    owned.position = owned.position.max(next);
                    Ok(())
                }
            },
            Taken::OutOfRange => Err(Stumble::Refused(format!(
                "the log of {part} no longer holds position {}: retention removed it, or the topic was made anew",
                owned.position.0
            ))),
            Taken::Trouble(fault) if fault.remedy == Remedy::End => Err(Stumble::Fault(fault)),
            Taken::Trouble(fault) => {
                tracing::warn!(%part, %fault, "fetching");
                Ok(())
            }
        };
        match result {
            Ok(()) => self.notice_progress(shard),
            Err(Stumble::Refused(why)) => {
                let _ = self.links.commands.send(Command::Drop(part));
                self.refuse(shard, why);
            }
            Err(Stumble::Fault(fault)) if fault.remedy == Remedy::End => self.end(&fault),
            Err(Stumble::Fault(fault)) => self.start_over(delivery, &fault),
        }
    }

    fn notice_progress(&mut self, shard: usize) {
        self.notice_caught_up(shard);
        if self.tenants[shard].owned().is_some_and(|owned| owned.is_dirty()) {
            self.dirty_since.get_or_insert_with(Instant::now);
        }
    }

    /// Folds records and emits those that were not emitted before.
    fn fold(&mut self, shard: usize, messages: &[kafka::Message]) -> Result<(), Stumble> {
        let tenant = &mut self.tenants[shard];
        let (part, stream) = (tenant.part.clone(), tenant.stream.clone());
        let Some(owned) = tenant.owned() else { return Ok(()) };
        let known = messages.partition_point(|message| message.offset() < owned.shard.next().0);
        if let Some(mark) = owned.expected.take() {
            let seen = messages[..known].iter().find(|message| message.offset() == mark.offset);
            if seen.map(Mark::of) != Some(mark) {
                return Err(Stumble::Refused(not_the_same(&part, mark.offset)));
            }
        }
        let fresh = &messages[known..];
        let Some(last) = fresh.last() else { return Ok(()) };
        let begun = Instant::now();
        let records: Vec<Record<'_>> = fresh.iter().map(record).collect();
        self.outcomes.clear();
        owned.shard.apply_batch(&records, &mut self.outcomes);
        (owned.last, owned.position) = (Some(Mark::of(last)), NextOffset(last.offset() + 1));
        let emit_from = if Mutant::EmitDuringReplay.is_on() { NextOffset(0) } else { owned.emit_from };
        let silent = fresh.partition_point(|message| message.offset() < emit_from.0);
        if silent > 0 {
            faults::pass("mid_replay");
        }
        if self.ingest.is_busy() {
            let as_of = owned.shard.as_of();
            for (message, outcome) in fresh.iter().zip(&self.outcomes) {
                let offset = message.offset();
                let as_of = AsOf { next: NextOffset(offset + 1), ..as_of };
                self.ingest.see(shard, Recorded { outcome: *outcome, offset, as_of });
            }
        }
        count(&tenant.id.stream, self.outcomes[silent..].iter(), &self.links.metrics);
        if !stream.outputs.is_empty() && silent < fresh.len() {
            self.emit(&part, &stream, &fresh[silent..], silent).map_err(Stumble::Fault)?;
        }
        self.links.metrics.apply_seconds.observe(begun.elapsed().as_secs_f64());
        if Mutant::CheckpointBeforeCommit.is_on() {
            self.tenants[shard].checkpoint(&self.links.jobs);
        }
        Ok(())
    }

    fn emit(
        &mut self,
        part: &Part,
        stream: &super::StreamSpec,
        messages: &[kafka::Message],
        silent: usize,
    ) -> Result<(), Fault> {
        faults::pass("before_produce");
        let careless = Mutant::NoTransaction.is_on();
        if careless {
            self.require_producer(Delivery::AtLeastOnce)?;
        }
        let used = if careless { Delivery::AtLeastOnce } else { stream.delivery };
        let missing = || Fault::new("producing", Remedy::StartOver, "the producer was given up");
        let producer = self.producers.get_mut(&used).ok_or_else(missing)?;
        if used == Delivery::ExactlyOnce {
            producer.begin()?;
        }
        for (message, outcome) in messages.iter().zip(&self.outcomes[silent..]) {
            self.emitter.emit(producer, &stream.outputs, part, message, outcome)?;
        }
        producer.serve();
        self.emitted += messages.len();
        faults::pass("after_produce");
        Ok(())
    }

    /// Commits everything that is folded, one kind of delivery after the other.
    pub(super) fn commit(&mut self) {
        for delivery in Delivery::ALL {
            let positions = self.positions(delivery);
            if positions.is_empty() {
                continue;
            }
            let begun = Instant::now();
            let watchdog = self.watchdog.clone();
            let result = watchdog.during("committing", || self.commit_positions(delivery, &positions));
            self.links.metrics.transaction_seconds.observe(begun.elapsed().as_secs_f64());
            match result {
                Ok(committed) => self.settle(delivery, committed),
                Err(fault) if fault.remedy == Remedy::End => self.end(&fault),
                Err(_) if Mutant::IgnoreCommitError.is_on() => {
                    self.producers.remove(&delivery);
                    self.settle(delivery, Committed::WithDoubt);
                }
                Err(fault) => self.start_over(delivery, &fault),
            }
        }
        (self.emitted, self.dirty_since) = (0, None);
        self.checkpoint();
    }

    fn positions(&mut self, delivery: Delivery) -> Vec<(Part, NextOffset)> {
        let dirty = self.tenants.iter_mut().filter(|tenant| tenant.stream.delivery == delivery);
        let position = |tenant: &mut Tenant| {
            let part = tenant.part.clone();
            let owned = tenant.owned().filter(|owned| owned.is_dirty())?;
            let next = match () {
                () if Mutant::OffsetNotPlusOne.is_on() => NextOffset(owned.position.0.saturating_sub(1)),
                () if Mutant::OffsetPlusTwo.is_on() => NextOffset(owned.position.0 + 1),
                () => owned.position,
            };
            Some((part, next))
        };
        dirty.filter_map(position).collect()
    }

    fn commit_positions(&mut self, delivery: Delivery, positions: &[(Part, NextOffset)]) -> Result<Committed, Fault> {
        let group = self.links.group.clone();
        if Mutant::OffsetsFirst.is_on() {
            group.commit(positions)?;
        }
        if Mutant::NoTransaction.is_on()
            && let Some(plain) = self.producers.get(&Delivery::AtLeastOnce)
        {
            plain.drain()?;
        }
        let missing = || Fault::new("committing", Remedy::StartOver, "the producer was given up");
        match delivery {
            Delivery::Nothing => group.commit(positions).map(|()| Committed::Surely),
            Delivery::AtLeastOnce => {
                self.producers.get(&delivery).ok_or_else(missing)?.drain()?;
                group.commit(positions).map(|()| Committed::Surely)
            }
            Delivery::ExactlyOnce => {
                let producer = self.producers.get_mut(&delivery).ok_or_else(missing)?;
                producer.begin()?;
                producer.drain()?;
                faults::pass("before_offsets");
                producer.add_offsets(&group, positions)?;
                faults::pass("after_offsets");
                let committed = faults::pass_during("during_commit", || producer.commit())?;
                faults::pass("after_commit");
                Ok(committed)
            }
        }
    }

    /// What was sent to the group is committed.
    fn settle(&mut self, delivery: Delivery, committed: Committed) {
        self.links.metrics.commits.inc();
        for owned in self.owned_of(delivery) {
            (owned.committed, owned.is_unknown) = (owned.position.max(owned.committed), false);
        }
        if committed == Committed::WithDoubt {
            self.renew(delivery);
        }
    }

    fn owned_of(&mut self, delivery: Delivery) -> impl Iterator<Item = &mut Owned> {
        self.tenants.iter_mut().filter(move |tenant| tenant.stream.delivery == delivery).filter_map(Tenant::owned)
    }

    /// Replaces a producer that may still have a request on its way, and looks whether the commit held (K3).
    fn renew(&mut self, delivery: Delivery) {
        tracing::info!(?delivery, "replacing the producer after a doubtful commit");
        self.producers.remove(&delivery);
        if let Err(fault) = self.require_producer(delivery) {
            return self.start_over(delivery, &fault);
        }
        if Mutant::IgnoreCommitError.is_on() {
            return;
        }
        let group = self.links.group.clone();
        let mine = self.tenants.iter_mut().filter(|tenant| tenant.stream.delivery == delivery);
        let differs = |tenant: &mut Tenant| {
            let part = tenant.part.clone();
            tenant
                .owned()
                .is_some_and(|owned| !matches!(group.committed(&part), Ok(Some(told)) if told == owned.committed))
        };
        if mine.into_iter().any(differs) {
            self.start_over(delivery, &Fault::new("looking after a commit", Remedy::StartOver, "it did not hold"));
        }
    }

    /// Gives up what is not committed: the partitions come back, restored, under a new producer (K3).
    fn start_over(&mut self, delivery: Delivery, fault: &Fault) {
        tracing::warn!(?delivery, %fault, "going back to what is committed");
        self.links.metrics.aborts.inc();
        self.producers.remove(&delivery);
        let mut parts = Vec::new();
        for (shard, tenant) in self.tenants.iter_mut().enumerate() {
            if tenant.stream.delivery != delivery || tenant.owned().is_none() {
                continue;
            }
            if let State::Owned(owned) = std::mem::replace(&mut tenant.state, State::Returning)
                && Mutant::KeepStateAfterAbort.is_on()
            {
                self.kept.insert(shard, owned.shard);
            }
            parts.push(tenant.part.clone());
        }
        self.tell_restored();
        // A closed channel means that the service stops: nothing is committed any more.
        let _ = self.links.commands.send(Command::Return(parts));
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
            Message::Aggregate { shard, question, reply } => {
                if let Some(owned) = self.tenants[shard].owned().filter(|owned| owned.is_caught_up) {
                    let _ = reply.send(owned.shard.aggregate_part(&question));
                }
            }
            Message::Status { shard, reply } => {
                if let Some(owned) = self.tenants[shard].owned() {
                    let _ = reply.send(owned.status());
                }
            }
            Message::Checkpoint { reply } => {
                self.tenants.iter_mut().filter_map(Tenant::owned).for_each(|owned| owned.wants_checkpoint = true);
                self.report();
                if let Some(reply) = reply {
                    let _ = reply.send(());
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

    /// Takes the checkpoints that are wanted, as far as the disk keeps up. Only what is committed goes into one (K4).
    fn checkpoint(&mut self) {
        for tenant in &mut self.tenants {
            if tenant.owned().is_some_and(|owned| owned.wants_checkpoint && !owned.is_dirty()) {
                tenant.checkpoint(&self.links.jobs);
            }
        }
        if let Some(every) = self.links.options.snapshots.as_ref().map(|topic| topic.every) {
            (0..self.tenants.len()).for_each(|shard| self.snapshot(shard, every));
        }
    }

    /// Leaves a state for the next owner, unless the last one is newer than `age`. Only what is committed, as above.
    fn snapshot(&mut self, shard: usize, age: Duration) {
        let Some(topic) = &self.links.options.snapshots else { return };
        let tenant = &mut self.tenants[shard];
        let (id, identity) = (tenant.id.clone(), tenant.identity());
        let Some(owned) = tenant.owned().filter(|owned| !owned.is_dirty() && owned.last.is_some()) else { return };
        let next = owned.shard.next();
        if owned.snapshot.0.elapsed() < age || owned.snapshot.1 == next {
            return;
        }
        faults::pass("before_snapshot");
        owned.snapshot = (Instant::now(), next);
        let (settings, bytes) = (&self.links.options.settings, owned.encode());
        match self.snapshots.write(settings, topic, (&id, &identity, next), &bytes) {
            Ok(()) => self.links.metrics.snapshots.inc(),
            Err(fault) => tracing::warn!(shard = %id, %fault, "snapshot not written"),
        }
        faults::pass("after_snapshot");
    }

    /// Takes one checkpoint of everything, one after the other.
    fn last_checkpoints(&mut self) {
        for tenant in &mut self.tenants {
            if tenant.owned().is_some_and(|owned| !owned.is_dirty()) {
                tenant.checkpoint(&self.links.jobs);
                tenant.owned().into_iter().for_each(Owned::await_checkpoint);
            }
        }
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
        let answers = ask.questions.iter().map(|question| shard.ask(question)).collect();
        self.links.metrics.answer_seconds.observe(ask.asked.elapsed().as_secs_f64());
        let _ = ask.reply.send(Answered { answers, as_of: shard.as_of() });
    }

    /// Looks again at the questions that waited; those whose asker gave up are dropped.
    fn answer_waiting(&mut self) {
        for ask in std::mem::take(&mut self.waiting) {
            if !ask.reply.is_closed() {
                self.answer(ask);
            }
        }
    }
}

/// No value and an empty value are both no event.
fn record(message: &kafka::Message) -> Record<'_> {
    let payload = message.payload().unwrap_or_default();
    Record { offset: message.offset(), timestamp_ms: message.timestamp_ms(), payload }
}

fn not_the_same(part: &Part, offset: u64) -> String {
    format!(
        "record {offset} of {part} is not the one that was folded last: the topic was made anew; give the group new \
         offsets and remove data_dir if that is meant"
    )
}
