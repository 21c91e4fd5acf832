//! Membership in the consumer group and the records of assigned partitions.
//!
//! One thread owns the [`Consumer`] and polls it. A rebalance becomes a [`ConsumerEvent`]; nothing is assigned until that
//! thread answers it. Meanwhile the owners of partitions read and commit offsets through [`Group`]. Which callbacks are
//! believed, and when offsets may be committed, is decided by [`MembershipTracker`](ebb_core::partition::MembershipTracker).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};

use super::context::{Context, lock, topic_partition};
use super::event::{ConsumerEvent, Fetched, Notice, TopicPartition};
use super::fault::{self, Fault, Remedy};
use super::group::Group;
use super::raw::{self, PartitionQueue};
use super::settings::Settings;
use ebb_core::NextOffset;
use ebb_core::partition::{GroupEvent, Membership};

/// Records fetched at once from a partition's queue.
const BATCH_RECORDS: usize = 1000;
const SEEK_TIMEOUT: Duration = Duration::from_secs(5);
/// How soon the owners may commit again after a rebalance that changed nothing for this instance.
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

/// A member of the group and the partitions it holds.
pub struct Consumer {
    // Declared before the client: a queue must not outlive it.
    queues: BTreeMap<TopicPartition, PartitionQueue>,
    /// Partitions that returned an error since their last record. librdkafka counts the error as a record, so that their
    /// position is not known.
    position_unknown: BTreeSet<TopicPartition>,
    inner: Arc<BaseConsumer<Context>>,
    coordinator_timeout: Duration,
    last_settled: Instant,
    uses_classic_protocol: bool,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("assigned", &self.queues.keys()).finish()
    }
}

impl Consumer {
    pub fn subscribe(settings: &Settings, topics: &[&str]) -> Result<Self, Fault> {
        let end = |error: KafkaError| Fault::new("subscribing", Remedy::End, error);
        let inner: BaseConsumer<Context> = settings.consumer().create_with_context(Context::default()).map_err(end)?;
        inner.subscribe(topics).map_err(end)?;
        Ok(Self {
            queues: BTreeMap::new(),
            position_unknown: BTreeSet::new(),
            inner: Arc::new(inner),
            coordinator_timeout: settings.coordinator_timeout(),
            last_settled: Instant::now(),
            uses_classic_protocol: settings.uses_classic_protocol(),
        })
    }

    pub fn group(&self) -> Group {
        Group { inner: self.inner.clone() }
    }

    /// Serves the group membership for up to `timeout`. To be called regularly, whatever else there is to do.
    pub fn poll(&mut self, timeout: Duration) -> ConsumerEvent {
        if let Some(event) = self.next_event() {
            return event;
        }
        self.poll_once(timeout);
        if let Some(event) = self.next_event() {
            return event;
        }
        if self.last_settled.elapsed() >= SETTLE_INTERVAL {
            self.last_settled = Instant::now();
            // In this order: callbacks of a membership read here are in the queue that is looked at next.
            let now = self.membership();
            let queue_is_empty = !self.has_queued_events();
            lock(&self.inner.context().tracker).settle(now, !self.queues.is_empty(), queue_is_empty);
        }
        ConsumerEvent::Idle
    }

    fn next_event(&mut self) -> Option<ConsumerEvent> {
        if !lock(&self.inner.context().tracker).has_pending() {
            return None;
        }
        let now = self.membership();
        let event = lock(&self.inner.context().tracker).next(now, !self.queues.is_empty());
        event.map(ConsumerEvent::from)
    }

    /// Whether librdkafka has events that were not polled. A poll that returns nothing may have served a statistic.
    fn has_queued_events(&self) -> bool {
        raw::queued_events(self.inner.client().native_ptr()) > 0
    }

    /// Polls once and appends the event to the pending ones. Rebalances are appended by their callback.
    fn poll_once(&self, timeout: Duration) {
        let source = |message: &BorrowedMessage<'_>| TopicPartition {
            topic: message.topic().into(),
            partition: message.partition().max(0) as u32,
        };
        let Some(polled) = self.inner.poll(timeout) else { return };
        let notice = match polled.as_ref().map(source).map_err(KafkaError::clone) {
            Ok(partition) if self.queues.contains_key(&partition) => Some(Notice::StrayRecord(partition)),
            // Fetched for an assignment that has ended.
            Ok(_) | Err(KafkaError::PartitionEOF(_)) => None,
            Err(error) => self.classify(&error),
        };
        if let Some(notice) = notice {
            lock(&self.inner.context().tracker).push(GroupEvent::Other(notice));
        }
    }

    fn classify(&self, error: &KafkaError) -> Option<Notice> {
        if let Some((code, reason)) = self.inner.client().fatal_error() {
            return Some(Notice::Failed(Fault::new("polling", Remedy::End, format!("{reason} ({code})"))));
        }
        match error.rdkafka_error_code() {
            Some(code) if fault::is_permanent(code) => Some(Notice::Failed(Fault::new("polling", Remedy::End, error))),
            Some(RDKafkaErrorCode::AllBrokersDown) => Some(Notice::BrokersDown(error.to_string())),
            _ => {
                tracing::warn!(%error, "polling failed, retrying");
                None
            }
        }
    }

    fn membership(&self) -> Option<Membership> {
        raw::membership(self.inner.client().native_ptr())
    }

    /// librdkafka takes every call that assigns or releases for the answer to all pending rebalances.
    fn distrust_pending(&self) {
        while self.has_queued_events() {
            self.poll_once(Duration::ZERO);
        }
        let now = self.membership();
        lock(&self.inner.context().tracker).distrust_pending(now);
    }

    /// Answers [`ConsumerEvent::Assigned`]: holds the partitions and reads each from its offset. One without an offset is held,
    /// so that the group gives it to nobody else, until [`Consumer::seek`] names its offset.
    pub fn assign(&mut self, starts: &[(TopicPartition, Option<NextOffset>)]) -> Result<(), Fault> {
        let end = |error: KafkaError| Fault::new("assigning", Remedy::End, error);
        let mut list = TopicPartitionList::with_capacity(starts.len());
        for (partition, start) in starts {
            self.open_queue(partition)?;
            let start = start.map_or(Offset::End, |start| Offset::Offset(start.0 as i64));
            list.add_partition_offset(&partition.topic, partition.partition as i32, start).map_err(end)?;
        }
        let earlier_answer = lock(&self.inner.context().tracker).take_earlier_answer();
        let assigned = self.inner.incremental_assign(&list).map_err(end);
        if let Some(before) = earlier_answer {
            self.require_unchanged(before)?;
        }
        self.distrust_pending();
        assigned
    }

    /// Partitions were not held for a moment in which the client may have joined again without claiming them. If it has,
    /// they may belong to another member and nobody will say so; if it has not, the next rebalance is not trusted.
    fn require_unchanged(&self, before: Option<Membership>) -> Result<(), Fault> {
        if !self.uses_classic_protocol {
            return Ok(());
        }
        if self.membership() != before {
            return Err(Fault::new("assigning", Remedy::End, "the group rebalanced meanwhile"));
        }
        lock(&self.inner.context().tracker).reassigned(before);
        Ok(())
    }

    /// Reads held partitions from these offsets on and discards what was fetched before. Returns the partitions that could
    /// not be positioned yet.
    ///
    /// They stay assigned meanwhile: the group could give an unassigned partition to another member without telling us.
    pub fn seek(&mut self, starts: &[(TopicPartition, NextOffset)]) -> Result<Vec<TopicPartition>, Fault> {
        let end = |error: KafkaError| Fault::new("seeking", Remedy::End, error);
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        let mut list = TopicPartitionList::with_capacity(starts.len());
        for (partition, start) in starts {
            self.position_unknown.remove(partition);
            // The queue is another one if librdkafka has recreated the partition.
            self.open_queue(partition)?;
            let offset = Offset::Offset(start.0 as i64);
            list.add_partition_offset(&partition.topic, partition.partition as i32, offset).map_err(end)?;
        }
        let sought = match self.inner.seek_partitions(list, SEEK_TIMEOUT) {
            Ok(sought) => sought,
            Err(error) => {
                tracing::warn!(%error, "seek failed, retrying");
                return Ok(starts.iter().map(|(partition, _)| partition.clone()).collect());
            }
        };
        let code = |one: &TopicPartitionListElem<'_>| one.error().err().and_then(|error| error.rdkafka_error_code());
        let failed: BTreeMap<_, _> =
            sought.elements().iter().filter_map(|one| Some((topic_partition(one), code(one)?))).collect();
        let is_stopped = |partition: &TopicPartition| failed.get(partition) == Some(&RDKafkaErrorCode::State);
        let (stopped, failed): (Vec<_>, Vec<_>) = failed.keys().cloned().partition(is_stopped);
        self.reassign(starts.iter().filter(|(partition, _)| stopped.contains(partition)))?;
        Ok(failed)
    }

    /// Releases and assigns partitions whose fetcher librdkafka has stopped after an error; those cannot be sought.
    ///
    /// They are unassigned for a moment. If librdkafka joins in that moment it does not claim them, and the group may give
    /// them to another member at once, so the next rebalance is not trusted.
    fn reassign<'a>(&mut self, starts: impl Iterator<Item = &'a (TopicPartition, NextOffset)>) -> Result<(), Fault> {
        let starts: Vec<_> = starts.map(|(partition, start)| (partition.clone(), Some(*start))).collect();
        if starts.is_empty() {
            return Ok(());
        }
        let before = self.membership();
        self.unassign(&starts.iter().map(|(partition, _)| partition.clone()).collect::<Vec<_>>())?;
        self.assign(&starts)?;
        self.require_unchanged(before)
    }

    /// Has the partition's records delivered to a queue of their own.
    fn open_queue(&mut self, partition: &TopicPartition) -> Result<(), Fault> {
        let client = self.inner.client().native_ptr();
        let queue = PartitionQueue::of(client, &partition.topic, partition.partition as i32, BATCH_RECORDS)
            .ok_or_else(|| Fault::new("assigning", Remedy::End, format!("{partition} has no queue")))?;
        self.queues.insert(partition.clone(), queue);
        Ok(())
    }

    /// Gives up partitions that are held.
    pub fn unassign(&mut self, partitions: &[TopicPartition]) -> Result<(), Fault> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            self.queues.remove(partition);
            self.position_unknown.remove(partition);
            list.add_partition(&partition.topic, partition.partition as i32);
        }
        let released = self.inner.incremental_unassign(&list);
        self.distrust_pending();
        released.map_err(|error| Fault::new("unassigning", Remedy::End, error))
    }

    /// What has been fetched of a held partition since the last call.
    pub fn fetch(&mut self, partition: &TopicPartition) -> Vec<Fetched> {
        let Some(queue) = self.queues.get_mut(partition) else { return Vec::new() };
        let (mut all, mut records) = (Vec::new(), Vec::new());
        for message in queue.take() {
            let other = match message.error() {
                None => {
                    self.position_unknown.remove(partition);
                    records.push(message);
                    continue;
                }
                Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => Fetched::OutOfRange,
                Some(code) if is_corruption(code) => Fetched::Corrupt(code.to_string()),
                Some(code) if fault::is_permanent(code) => Fetched::Error(Fault::new("fetching", Remedy::End, code)),
                Some(code) => Fetched::Error(Fault::new("fetching", Remedy::Retry, code)),
            };
            self.position_unknown.insert(partition.clone());
            if !records.is_empty() {
                all.push(Fetched::Records(std::mem::take(&mut records)));
            }
            all.push(other);
        }
        if !records.is_empty() {
            all.push(Fetched::Records(records));
        }
        all
    }

    /// The next offset to fetch in every held partition that something was fetched of: behind the last record and behind
    /// transaction markers. Unknown for a partition that returned an error since its last record.
    pub fn positions(&self) -> Vec<(TopicPartition, NextOffset)> {
        // The list must be dropped before the client, which waits for it.
        let Ok(list) = self.inner.position() else { return Vec::new() };
        let position = |one: &TopicPartitionListElem<'_>| match one.offset() {
            Offset::Offset(next) if next >= 0 => Some((topic_partition(one), NextOffset(next as u64))),
            _ => None,
        };
        let known = list.elements().iter().filter_map(position).collect::<Vec<_>>();
        known.into_iter().filter(|(partition, _)| !self.position_unknown.contains(partition)).collect()
    }

    /// How long the group's coordinator has been missing since `then`, once that is longer than waiting can help: librdkafka
    /// finds a coordinator that moved to another broker, but not the same broker at another address.
    pub fn coordinator_missing_for(&self, then: Instant) -> Option<Duration> {
        let missing_for =
            lock(&self.inner.context().coordinator_missing_since).map(|since| since.max(then).elapsed())?;
        (missing_for > self.coordinator_timeout && self.is_reachable()).then_some(missing_for)
    }

    /// Whether a broker answers.
    pub fn is_reachable(&self) -> bool {
        self.inner.client().fetch_metadata(None, Duration::from_millis(500)).is_ok()
    }

    /// Leaves the group. Every [`Group`] must have been dropped.
    pub fn close(self) {
        drop(self);
    }
}

/// librdkafka waits for its last rebalance to be answered, however polling has ended.
impl Drop for Consumer {
    fn drop(&mut self) {
        self.inner.context().is_closing.store(true, Ordering::Release);
    }
}

/// Errors of decoding fetched records: librdkafka continues behind them as if nothing had been there.
fn is_corruption(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::BadMessage | Code::BadCompression | Code::NotImplemented)
}
