//! The thread that polls the consumer: answers rebalances after the workers have acted, and hands them what is fetched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use super::Feed;
use super::log::FailureReport;
use super::watchdog::Watchdog;
use crate::kafka::{Consumer, ConsumerEvent, Fetched, TopicPartition};
use crate::metrics::Metrics;
use crate::workers::partition_cell::PartitionCell;
use crate::workers::stream::Readiness;
use ebb_core::NextOffset;
use ebb_core::partition::{ConsumerAction, Epoch, PartitionEvent, Revocation};

/// How long to wait for events if no partition had records.
const POLL_TIMEOUT: Duration = Duration::from_millis(2);
/// How often positions are reported if there are no records.
const POSITION_INTERVAL: Duration = Duration::from_millis(20);
/// How often unreachable brokers are tried.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// Set by whoever stops the service.
#[derive(Debug, Clone, Default)]
pub(in crate::workers) struct ShutdownFlags {
    /// Nothing more is handed to the workers.
    pub(in crate::workers) is_stopping: Arc<AtomicBool>,
    /// The workers have ended: leave the group.
    pub(in crate::workers) workers_ended: Arc<AtomicBool>,
}

/// A partition as the poll thread knows it.
#[derive(Debug)]
pub(super) struct PolledPartition {
    pub(super) partition: TopicPartition,
    pub(super) cell: Arc<PartitionCell>,
    pub(super) worker: usize,
    pub(super) slot: usize,
    /// The epoch and offset up to which its worker knows the log.
    pub(super) reported: (Epoch, NextOffset),
}

/// The poll thread.
#[derive(Debug)]
pub(super) struct PollLoop {
    consumer: Consumer,
    partitions: Vec<PolledPartition>,
    index: BTreeMap<TopicPartition, usize>,
    /// One bounded queue for each worker.
    feeds: Vec<Sender<Feed>>,
    failures: FailureReport,
    shutdown: ShutdownFlags,
    metrics: Metrics,
    /// The partition that is served first in the next round: a full queue must not starve the later ones.
    first: usize,
    unreachable_since: Option<Instant>,
    positions_reported: Instant,
    /// When the brokers were last known not to answer.
    last_unreachable: Instant,
}

impl PollLoop {
    pub(super) fn new(
        consumer: Consumer,
        partitions: Vec<PolledPartition>,
        feeds: Vec<Sender<Feed>>,
        failures: FailureReport,
        shutdown: ShutdownFlags,
        metrics: Metrics,
    ) -> Self {
        let index = partitions.iter().enumerate().map(|(index, one)| (one.partition.clone(), index)).collect();
        Self {
            consumer,
            partitions,
            index,
            feeds,
            failures,
            shutdown,
            metrics,
            first: 0,
            unreachable_since: None,
            positions_reported: Instant::now(),
            last_unreachable: Instant::now(),
        }
    }

    pub(super) fn run(mut self) {
        let watchdog = match Watchdog::start() {
            Ok(watchdog) => watchdog,
            Err(error) => return self.failures.fail(format!("starting a thread: {error}")),
        };
        let mut was_busy = false;
        while !self.shutdown.workers_ended.load(Ordering::Acquire) {
            let timeout = if was_busy { Duration::ZERO } else { POLL_TIMEOUT };
            let event = watchdog.during("polling", || self.consumer.poll(timeout));
            self.handle(event);
            self.seek_restored();
            self.release_refused();
            was_busy = !self.shutdown.is_stopping.load(Ordering::Acquire) && self.dispatch();
            if !was_busy && self.positions_reported.elapsed() >= POSITION_INTERVAL {
                self.report_positions();
            }
            self.check_brokers();
            self.check_coordinator();
        }
        watchdog.during("leaving the group", || self.consumer.close());
    }

    fn handle(&mut self, event: ConsumerEvent) {
        let count = |change: &'static str| self.metrics.rebalances.with_label_values(&[change]).inc();
        match event {
            ConsumerEvent::Idle => {}
            ConsumerEvent::Assigned(partitions) => {
                count("assigned");
                tracing::info!(partitions = partitions.len(), "partitions assigned");
                self.assign(&partitions);
                self.failures.membership.send_replace(Readiness::Ready);
            }
            ConsumerEvent::Revoked(partitions) => {
                count("revoked");
                self.revoke(&partitions, Revocation::Graceful);
            }
            ConsumerEvent::Lost(partitions) => {
                count("lost");
                self.failures.membership.send_replace(Readiness::Restoring);
                self.revoke(&partitions, Revocation::Lost);
            }
            ConsumerEvent::MemberIdChanged => {
                tracing::warn!("the group gave this instance a new member id, restoring all partitions");
                self.roll_back_all();
            }
            ConsumerEvent::StrayRecord(partition) => {
                tracing::warn!(%partition, "the client recreated the partition, reading it again from the committed offset");
                if let Some(one) = self.find(&partition) {
                    // A worker that has ended needs nothing.
                    let _ = self.feeds[one.worker].blocking_send(Feed::Reread { slot: one.slot });
                }
            }
            ConsumerEvent::BrokersDown(reason) => {
                if self.unreachable_since.is_none() {
                    tracing::warn!(reason, "no broker can be reached, retrying");
                }
                self.unreachable_since.get_or_insert_with(Instant::now);
                self.failures.membership.send_replace(Readiness::Waiting(reason));
            }
            ConsumerEvent::Failed(fault) => self.failures.fail(fault.to_string()),
        }
    }

    fn find(&self, partition: &TopicPartition) -> Option<&PolledPartition> {
        self.index.get(partition).map(|index| &self.partitions[*index])
    }

    /// Has the workers restore what the group assigns, then holds it: restored partitions at their offset, others without.
    fn assign(&mut self, partitions: &[TopicPartition]) {
        if let Some(partition) = partitions.iter().find(|partition| !self.index.contains_key(partition)) {
            return self.failures.fail(format!(
                "{partition} is new: partitions were added to the topic, so that items may be in other partitions than \
                 before; start with a new group and an empty data_dir"
            ));
        }
        let assigned: Vec<&PolledPartition> = partitions.iter().filter_map(|one| self.find(one)).collect();
        assigned.iter().for_each(|one| _ = one.cell.step(PartitionEvent::Assigned));
        // Every worker gets the message, even without partitions: it may have to end transactions of an earlier process.
        self.send_and_wait(0..self.feeds.len(), |reply| Feed::Assigned { reply });
        let holds: Vec<_> = assigned
            .iter()
            .filter_map(|one| match one.cell.actions().consumer? {
                ConsumerAction::Hold(epoch, start) => Some((*one, epoch, start)),
                ConsumerAction::Seek(..) | ConsumerAction::Release => None,
            })
            .collect();
        let starts: Vec<_> = holds.iter().map(|(one, _, start)| (one.partition.clone(), *start)).collect();
        let held: Vec<_> = holds.iter().map(|(one, epoch, _)| (one.cell.clone(), *epoch)).collect();
        if let Err(fault) = self.consumer.assign(&starts) {
            return self.failures.fail(fault.to_string());
        }
        held.into_iter().for_each(|(cell, epoch)| _ = cell.step(PartitionEvent::Positioned(epoch)));
    }

    /// Sends a message to each of these workers and waits until they have handled it, or have ended.
    fn send_and_wait(&self, workers: impl Iterator<Item = usize>, message: impl Fn(mpsc::Sender<()>) -> Feed) {
        let (reply, done) = mpsc::channel();
        for worker in workers {
            let _ = self.feeds[worker].blocking_send(message(reply.clone()));
        }
        drop(reply);
        done.iter().for_each(drop);
    }

    /// Has the workers let go of partitions, then gives them up.
    fn revoke(&mut self, partitions: &[TopicPartition], revocation: Revocation) {
        let mut slots: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for one in partitions.iter().filter_map(|partition| self.find(partition)) {
            tracing::info!(partition = %one.partition, ?revocation, "partition revoked");
            one.cell.step(PartitionEvent::Revoked(revocation));
            slots.entry(one.worker).or_default().push(one.slot);
        }
        let (reply, done) = mpsc::channel();
        for (worker, slots) in slots {
            let _ = self.feeds[worker].blocking_send(Feed::Revoked { slots, reply: reply.clone() });
        }
        drop(reply);
        done.iter().for_each(drop);
        self.release(|one| partitions.contains(&one.partition));
    }

    /// Gives up held partitions. One that is not held is left out: librdkafka would give up none of them, and wait for an
    /// answer for ever.
    fn release(&mut self, is_chosen: impl Fn(&PolledPartition) -> bool) {
        let chosen: Vec<&PolledPartition> =
            self.partitions.iter().filter(|one| one.cell.is_held() && is_chosen(one)).collect();
        let names: Vec<TopicPartition> = chosen.iter().map(|one| one.partition.clone()).collect();
        chosen.iter().for_each(|one| _ = one.cell.step(PartitionEvent::Released));
        if let Err(fault) = self.consumer.unassign(&names) {
            tracing::warn!(%fault, "unassigning failed, the assignment has changed meanwhile");
        }
    }

    /// What was folded is discarded: other members may have folded and committed the same records.
    fn roll_back_all(&mut self) {
        let held = self.partitions.iter().filter(|one| one.cell.is_held());
        held.for_each(|one| _ = one.cell.step(PartitionEvent::RolledBack));
        self.send_and_wait(0..self.feeds.len(), |reply| Feed::RolledBack { reply });
    }

    /// Positions the consumer where partitions were restored after a rollback or a retry.
    fn seek_restored(&mut self) {
        let mut seeks = Vec::new();
        for one in &self.partitions {
            if let Some(ConsumerAction::Seek(epoch, start)) = one.cell.actions().consumer {
                seeks.push((one.cell.clone(), epoch, (one.partition.clone(), start)));
            }
        }
        if seeks.is_empty() {
            return;
        }
        let starts: Vec<_> = seeks.iter().map(|(_, _, start)| start.clone()).collect();
        let failed = match self.consumer.seek(&starts) {
            Ok(failed) => failed,
            Err(fault) => return self.failures.fail(fault.to_string()),
        };
        if !failed.is_empty() {
            tracing::warn!(partitions = failed.len(), "partitions could not be positioned, retrying");
        }
        for (cell, epoch, (partition, _)) in seeks {
            cell.step(match failed.contains(&partition) {
                true => PartitionEvent::PositionFailed(epoch),
                false => PartitionEvent::Positioned(epoch),
            });
        }
    }

    /// Stops reading partitions whose log was refused.
    fn release_refused(&mut self) {
        let is_refused = |one: &PolledPartition| one.cell.actions().consumer == Some(ConsumerAction::Release);
        if self.partitions.iter().any(is_refused) {
            self.release(is_refused);
        }
    }

    /// Hands fetched records to the workers; returns whether there were any. What does not fit into a worker's queue stays
    /// in librdkafka's.
    fn dispatch(&mut self) -> bool {
        let (mut any, count) = (false, self.partitions.len());
        for offset in 0..count {
            let one = &mut self.partitions[(self.first + offset) % count];
            let Some(epoch) = one.cell.fetch_epoch() else { continue };
            let Ok(permit) = self.feeds[one.worker].try_reserve() else { continue };
            let batch = self.consumer.fetch(&one.partition);
            if batch.is_empty() {
                continue;
            }
            any = true;
            if let Some(last) = batch.iter().rev().find_map(last_offset) {
                one.reported = (epoch, NextOffset(last + 1));
            }
            permit.send(Feed::Fetched { slot: one.slot, epoch, batch });
        }
        self.first = (self.first + 1) % count.max(1);
        any
    }

    /// Tells the workers how far the log is read where no record says so: transaction markers take up offsets.
    fn report_positions(&mut self) {
        self.positions_reported = Instant::now();
        for (partition, next) in self.consumer.positions() {
            let Some(one) = self.index.get(&partition).map(|index| &mut self.partitions[*index]) else { continue };
            let Some(epoch) = one.cell.fetch_epoch() else { continue };
            if one.reported.0 == epoch && one.reported.1 >= next {
                continue;
            }
            if let Ok(permit) = self.feeds[one.worker].try_reserve() {
                one.reported = (epoch, next);
                permit.send(Feed::Fetched { slot: one.slot, epoch, batch: vec![Fetched::UpTo(next)] });
            }
        }
    }

    fn check_brokers(&mut self) {
        if self.unreachable_since.is_some_and(|since| since.elapsed() >= RECONNECT_INTERVAL) {
            self.unreachable_since = (!self.consumer.is_reachable()).then(Instant::now);
            self.last_unreachable = self.unreachable_since.unwrap_or(self.last_unreachable);
            if self.unreachable_since.is_none() {
                tracing::info!("brokers can be reached again");
                self.failures.membership.send_replace(Readiness::Ready);
            }
        }
    }

    /// A new process finds the coordinator where this client never will (K7).
    fn check_coordinator(&mut self) {
        if let Some(missing_for) = self.consumer.coordinator_missing_for(self.last_unreachable) {
            self.failures.fail(format!(
                "brokers answer, but the group's coordinator was not found for {} s: its address has changed",
                missing_for.as_secs()
            ));
        }
    }
}

fn last_offset(fetched: &Fetched) -> Option<u64> {
    match fetched {
        Fetched::Records(records) => records.last().map(|record| record.offset()),
        Fetched::UpTo(_) | Fetched::OutOfRange | Fetched::Corrupt(_) | Fetched::Error(_) => None,
    }
}
