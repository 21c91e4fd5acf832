//! The thread that polls: answers rebalances after asking the workers, and hands them what is fetched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::super::owned::Restored;
use super::tenancy::Tenancy;
use super::watchdog::Watchdog;
use super::{Command, Feed, Leaving, Start};
use crate::kafka::{Consumer, Event, Taken, TopicPartition};
use crate::metrics::Metrics;
use ebb_core::NextOffset;

/// How long to wait for events when no partition had anything.
const WAIT: Duration = Duration::from_millis(2);
/// Batches of one partition that wait for its worker; more stay in the partition's queue (K6).
const MOST_WAITING: usize = 4;
/// How often positions are looked at when there are no records.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often unreachable brokers are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Told by whoever stops the service.
#[derive(Debug, Clone, Default)]
pub(in crate::workers) struct Running {
    /// Nothing more is handed out.
    pub(in crate::workers) is_stopping: Arc<AtomicBool>,
    /// The workers have ended: leave the group.
    pub(in crate::workers) is_over: Arc<AtomicBool>,
}

/// See the module.
#[derive(Debug)]
pub(in crate::workers) struct Poll {
    consumer: Consumer,
    tenancies: BTreeMap<TopicPartition, Tenancy>,
    feeds: Vec<UnboundedSender<Feed>>,
    commands: Receiver<Command>,
    joined: watch::Sender<Restored>,
    ended: watch::Sender<Option<String>>,
    running: Running,
    metrics: Metrics,
    epoch: u64,
    unreachable_since: Option<Instant>,
    looked: Instant,
    /// When brokers were last known not to answer.
    silent_at: Instant,
}

/// The ends of the channels that the poll thread holds.
pub(in crate::workers) struct Ends {
    pub(in crate::workers) feeds: Vec<UnboundedSender<Feed>>,
    pub(in crate::workers) commands: Receiver<Command>,
    pub(in crate::workers) joined: watch::Sender<Restored>,
    pub(in crate::workers) ended: watch::Sender<Option<String>>,
}

impl Poll {
    /// `places` says for each partition its worker and its place there.
    pub(in crate::workers) fn new(
        consumer: Consumer,
        places: BTreeMap<TopicPartition, (usize, usize)>,
        ends: Ends,
        running: Running,
        metrics: Metrics,
    ) -> Self {
        let Ends { feeds, commands, joined, ended } = ends;
        Self {
            consumer,
            tenancies: places.into_iter().map(|(part, place)| (part, Tenancy::at(place))).collect(),
            feeds,
            commands,
            joined,
            ended,
            running,
            metrics,
            epoch: 0,
            unreachable_since: None,
            looked: Instant::now(),
            silent_at: Instant::now(),
        }
    }

    pub(in crate::workers) fn run(mut self) {
        let watchdog = match Watchdog::start() {
            Ok(watchdog) => watchdog,
            Err(error) => return self.fail(format!("starting a thread: {error}")),
        };
        let mut was_busy = false;
        while !self.running.is_over.load(Ordering::Acquire) {
            self.obey();
            let wait = if was_busy { Duration::ZERO } else { WAIT };
            let event = watchdog.during("polling", || self.consumer.poll(wait));
            self.answer(event);
            self.try_again();
            was_busy = !self.running.is_stopping.load(Ordering::Acquire) && self.hand_out();
            if !was_busy && self.looked.elapsed() >= LOOK_EVERY {
                self.tell_positions();
            }
            self.look_for_brokers();
            self.look_for_coordinator();
        }
        watchdog.during("leaving the group", || self.consumer.close());
    }

    /// Does what the workers have asked for by now: what they ask for meanwhile waits until the group had its turn.
    fn obey(&mut self) {
        for command in self.commands.try_iter().collect::<Vec<_>>() {
            match command {
                Command::Return(parts) => self.begin_again(parts),
                Command::Drop(part) => self.release(&[part]),
                Command::End(why) => self.fail(why),
            }
        }
    }

    /// Has partitions restored and reads them from there, as far as they are still ours.
    fn begin_again(&mut self, mut parts: Vec<TopicPartition>) {
        parts.retain(|part| self.tenancies.get(part).is_some_and(|tenancy| tenancy.is_held));
        let mut starts = Vec::new();
        for (part, start) in self.ask(parts) {
            match start {
                Start::At(start) => starts.push((part, start)),
                Start::Later => self.later(&part),
                Start::Nowhere => self.release(&[part]),
            }
        }
        let failed = match self.consumer.seek(&starts) {
            Ok(failed) => failed,
            Err(fault) => return self.fail(fault.to_string()),
        };
        for (part, _) in starts.iter().filter(|(part, _)| !failed.contains(part)) {
            self.read(part);
        }
        if !failed.is_empty() {
            tracing::warn!(partitions = failed.len(), "cannot be read from there yet");
            self.tell_leave(&failed, Leaving::Lost);
            failed.iter().for_each(|part| self.later(part));
        }
    }

    /// Asks again where partitions begin that could not be restored (K9).
    fn try_again(&mut self) {
        let is_stopping = self.running.is_stopping.load(Ordering::Acquire);
        let due = self.tenancies.iter().filter(|(_, tenancy)| !is_stopping && tenancy.is_due());
        let due: Vec<TopicPartition> = due.map(|(part, _)| part.clone()).collect();
        if !due.is_empty() {
            self.begin_again(due);
        }
    }

    /// Whatever was made of the partitions is forgotten: others may have made the same.
    fn begin_all_again(&mut self) {
        let held = self.tenancies.iter().filter(|(_, tenancy)| tenancy.is_held);
        let held: Vec<TopicPartition> = held.map(|(part, _)| part.clone()).collect();
        self.tell_leave(&held, Leaving::Lost);
        held.iter().for_each(|part| self.later(part));
    }

    fn answer(&mut self, event: Event) {
        let named = |change: &'static str| self.metrics.rebalances.with_label_values(&[change]).inc();
        match event {
            Event::Quiet => {}
            Event::Assign(parts) => {
                named("assigned");
                tracing::info!(partitions = parts.len(), "partitions assigned");
                self.assign(parts);
                self.joined.send_replace(Restored::Done);
            }
            Event::Revoke(parts) => {
                named("revoked");
                self.leave(parts, Leaving::Orderly);
            }
            Event::Lost(parts) => {
                named("lost");
                self.joined.send_replace(Restored::Working);
                self.leave(parts, Leaving::Lost);
            }
            Event::MemberIdChanged => {
                tracing::warn!("another member than before: beginning again");
                self.begin_all_again();
            }
            Event::Stray(part) => {
                tracing::warn!(%part, "reading it again from what is committed");
                self.begin_again(vec![part]);
            }
            Event::Down(why) => {
                if self.unreachable_since.is_none() {
                    tracing::warn!(why, "no broker can be reached");
                }
                self.unreachable_since.get_or_insert_with(Instant::now);
                self.joined.send_replace(Restored::Waiting(why));
            }
            Event::Failed(fault) => self.fail(fault.to_string()),
        }
    }

    /// Takes on what the group gives us.
    fn assign(&mut self, parts: Vec<TopicPartition>) {
        if let Some(part) = parts.iter().find(|part| !self.tenancies.contains_key(part)) {
            return self.fail(format!(
                "{part} is new: partitions were added to the topic, and items may now be found in others than before; \
                 begin with a new group and an empty data_dir"
            ));
        }
        let mut starts = Vec::new();
        for (part, start) in self.ask(parts) {
            match start {
                Start::At(start) => starts.push((part, Some(start))),
                Start::Later => starts.push((part, None)),
                Start::Nowhere => {}
            }
        }
        if let Err(fault) = self.consumer.assign(&starts) {
            return self.fail(fault.to_string());
        }
        for (part, start) in &starts {
            if let Some(tenancy) = self.tenancies.get_mut(part) {
                tenancy.is_held = true;
            }
            match start {
                Some(_) => self.read(part),
                None => self.later(part),
            }
        }
    }

    /// Asks the workers where to begin.
    fn ask(&mut self, parts: Vec<TopicPartition>) -> Vec<(TopicPartition, Start)> {
        self.epoch += 1;
        // Every worker is asked, also for nothing: it may have to end what it left open in an earlier life.
        let mut asked: BTreeMap<usize, Vec<(usize, TopicPartition)>> =
            (0..self.feeds.len()).map(|worker| (worker, Vec::new())).collect();
        for part in parts {
            if let Some(tenancy) = self.tenancies.get_mut(&part) {
                tenancy.begin(self.epoch);
                asked.entry(tenancy.worker).or_default().push((tenancy.shard, part));
            }
        }
        let mut replies = Vec::new();
        for (worker, shards) in asked {
            let (reply, starts) = mpsc::channel();
            let wanted = shards.iter().map(|(shard, _)| (*shard, self.epoch)).collect();
            // A worker that has ended gives no replies.
            let _ = self.feeds[worker].send(Feed::Assign { shards: wanted, reply });
            replies.push((BTreeMap::from_iter(shards), starts));
        }
        let told = |(shards, starts): (BTreeMap<usize, TopicPartition>, Receiver<(usize, Start)>)| {
            starts.into_iter().filter_map(move |(shard, start)| Some((shards.get(&shard)?.clone(), start)))
        };
        replies.into_iter().flat_map(told).collect()
    }

    fn read(&mut self, part: &TopicPartition) {
        if let Some(tenancy) = self.tenancies.get_mut(part) {
            (tenancy.is_read, tenancy.alone) = (true, Duration::ZERO);
        }
    }

    /// Asks again later where a partition begins.
    fn later(&mut self, part: &TopicPartition) {
        if let Some(tenancy) = self.tenancies.get_mut(part).filter(|tenancy| tenancy.is_held) {
            tenancy.put_off();
        }
    }

    fn leave(&mut self, parts: Vec<TopicPartition>, how: Leaving) {
        self.tell_leave(&parts, how);
        self.release(&parts);
    }

    fn tell_leave(&mut self, parts: &[TopicPartition], how: Leaving) {
        let mut told: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for tenancy in parts.iter().filter_map(|part| self.tenancies.get(part)) {
            told.entry(tenancy.worker).or_default().push(tenancy.shard);
        }
        let (reply, done) = mpsc::channel();
        for (worker, shards) in told {
            let _ = self.feeds[worker].send(Feed::Revoke { shards, how, reply: reply.clone() });
        }
        drop(reply);
        // Ends when every worker has let go, or is gone.
        done.iter().for_each(drop);
    }

    /// Lets these go. One that was not held is left out: librdkafka would let none of them go, and wait for an answer for
    /// ever.
    fn release(&mut self, parts: &[TopicPartition]) {
        let mut held: Vec<TopicPartition> = Vec::new();
        for part in parts {
            if let Some(tenancy) = self.tenancies.get_mut(part) {
                held.extend(tenancy.is_held.then(|| part.clone()));
                tenancy.end();
            }
        }
        if let Err(fault) = self.consumer.release(&held) {
            tracing::warn!(%fault, "the assignment has changed meanwhile");
        }
    }

    /// Tells the workers how far the log is read where no records say so: transactions leave marks between them.
    fn tell_positions(&mut self) {
        self.looked = Instant::now();
        for (part, next) in self.consumer.positions() {
            if let Some(tenancy) = self.tenancies.get_mut(&part).filter(|one| one.is_read && one.told < next) {
                tenancy.told = next;
                tenancy.hand(&self.feeds, Taken::End(next));
            }
        }
    }

    /// Hands over what was fetched; returns whether there was anything.
    fn hand_out(&mut self) -> bool {
        let mut any = false;
        for (part, tenancy) in self.tenancies.iter_mut().filter(|(_, tenancy)| tenancy.is_read) {
            if tenancy.waiting.load(Ordering::Acquire) >= MOST_WAITING {
                continue;
            }
            for taken in self.consumer.take(part) {
                any = true;
                if let Taken::Records(records) = &taken
                    && let Some(last) = records.last()
                {
                    tenancy.told = NextOffset(last.offset() + 1);
                }
                tenancy.hand(&self.feeds, taken);
            }
        }
        any
    }

    fn look_for_brokers(&mut self) {
        if self.unreachable_since.is_some_and(|since| since.elapsed() >= ASK_EVERY) {
            self.unreachable_since = (!self.consumer.is_reachable()).then(Instant::now);
            self.silent_at = self.unreachable_since.unwrap_or(self.silent_at);
            if self.unreachable_since.is_none() {
                tracing::info!("the brokers can be reached again");
                self.joined.send_replace(Restored::Done);
            }
        }
    }

    /// A new process finds the coordinator where this one never will (K7).
    fn look_for_coordinator(&mut self) {
        if let Some(missed_for) = self.consumer.missed_since(self.silent_at) {
            self.fail(format!(
                "brokers answer, but the coordinator of the group is not found for {} s: it has another address now",
                missed_for.as_secs()
            ));
        }
    }

    fn fail(&self, why: String) {
        tracing::error!(why, "Kafka: cannot go on");
        self.joined.send_replace(Restored::Failed(why.clone()));
        self.ended.send_replace(Some(why));
    }
}
