//! Membership in the group and the records of assigned partitions.
//!
//! [`Consumer`] belongs to one thread, which polls it. A rebalance becomes an [`Event`]; nothing is assigned until that
//! thread has asked the partitions' owners where to begin. [`Group`] is what those owners may do meanwhile: read and
//! commit positions.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};

use super::context::{Context, lock, topic_partition};
use super::event::{Event, Taken, TopicPartition};
use super::fault::{self, Fault, Remedy};
use super::group::Group;
use super::raw::{self, Membership, PartitionQueue};
use super::settings::Settings;
use ebb_core::NextOffset;

/// Records taken at once.
const BATCH: usize = 1000;
/// How long it may take until reading goes on somewhere else.
const SOUGHT_WITHIN: Duration = Duration::from_secs(5);
/// How long it may take until the owners know that the group has changed although nothing of theirs has.
const NOTED_WITHIN: Duration = Duration::from_millis(20);

/// See the module.
pub struct Consumer {
    // Before the consumer: a queue must not outlive it.
    queues: BTreeMap<TopicPartition, PartitionQueue>,
    /// Partitions that told of an error since the last record: librdkafka counts it as one.
    doubtful: BTreeSet<TopicPartition>,
    inner: Arc<BaseConsumer<Context>>,
    /// With the group's coordinator.
    patience: Duration,
    /// When the membership was last noted, and as whom.
    noted: Instant,
    member: Option<CString>,
    /// As whom partitions were last reassigned, until the group has met again.
    reassigned: Option<Option<Membership>>,
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
            doubtful: BTreeSet::new(),
            inner: Arc::new(inner),
            patience: settings.coordinator_timeout(),
            noted: Instant::now(),
            member: None,
            reassigned: None,
            uses_classic_protocol: settings.uses_classic_protocol(),
        })
    }

    pub fn group(&self) -> Group {
        Group { inner: self.inner.clone() }
    }

    /// Serves the membership for up to `wait`; called again and again, whatever else there is to do.
    pub fn poll(&mut self, wait: Duration) -> Event {
        if let Some(change) = self.change() {
            return change;
        }
        self.serve(wait);
        if let Some(change) = self.change() {
            return change;
        }
        // Nothing is asked that was not answered, and nothing will be that matters.
        if self.noted.elapsed() >= NOTED_WITHIN && !self.has_unheard() && !self.is_another() && !self.has_met() {
            self.note_membership();
        }
        Event::Quiet
    }

    /// Whether librdkafka has something to say. A poll that gives nothing does not tell: it may have served a statistic.
    fn has_unheard(&self) -> bool {
        raw::unheard(self.inner.client().native_ptr()) > 0
    }

    /// Puts what comes behind what waits; changes of the assignment put themselves there.
    fn serve(&self, wait: Duration) {
        let part = |message: &BorrowedMessage<'_>| TopicPartition {
            topic: message.topic().into(),
            partition: message.partition().max(0) as u32,
        };
        let Some(polled) = self.inner.poll(wait) else { return };
        let event = match polled.as_ref().map(part).map_err(KafkaError::clone) {
            Ok(part) if self.queues.contains_key(&part) => Event::Stray(part),
            // Fetched for an assignment that has ended.
            Ok(_) | Err(KafkaError::PartitionEOF(_)) => Event::Quiet,
            Err(error) => self.judge(&error),
        };
        lock(&self.inner.context().changes).push_back(event);
    }

    fn change(&mut self) -> Option<Event> {
        let is_asked = |event: &Event| matches!(event, Event::Assign(_) | Event::Revoke(_) | Event::Lost(_));
        let (change, is_last) = {
            let mut changes = lock(&self.inner.context().changes);
            (changes.pop_front()?, !changes.iter().any(is_asked))
        };
        let change = match change {
            Event::Assign(_) | Event::Revoke(_) if self.has_met() => {
                self.reassigned = None;
                change.distrusted()
            }
            other => other,
        };
        match change {
            Event::Assign(_) | Event::Revoke(_) if self.is_another() => {
                self.member = None;
                lock(&self.inner.context().changes).push_front(change.distrusted());
                return Some(Event::MemberIdChanged);
            }
            Event::Assign(_) | Event::Revoke(_) if is_last => self.note_membership(),
            // What is lost may be another's in the membership that librdkafka has now.
            Event::Lost(_) => self.member = None,
            _ => {}
        }
        Some(change)
    }

    /// Whether librdkafka is another member than the one that what is held was given to. It tells those who have no name of
    /// their own that they lost everything; others it lets join anew without a word.
    fn is_another(&self) -> bool {
        let is_other = |now: Membership| Some(now.member) != self.member;
        !self.queues.is_empty() && self.member.is_some() && self.membership().is_some_and(is_other)
    }

    /// Whether the group has met since partitions were reassigned. What it decided of them is asked, or will be.
    fn has_met(&self) -> bool {
        self.reassigned.as_ref().is_some_and(|then| *then != self.membership())
    }

    fn membership(&self) -> Option<Membership> {
        raw::membership(self.inner.client().native_ptr())
    }

    /// Lets the owners commit under the membership that librdkafka has now. Only while everything that it asked is answered
    /// or about to be: it is a member anew only after an answer.
    fn note_membership(&mut self) {
        let now = self.membership();
        self.member = now.as_ref().map(|now| now.member.clone()).or(self.member.take());
        (self.noted, *lock(&self.inner.context().known)) = (Instant::now(), now);
    }

    /// librdkafka takes whatever is assigned or released for the answer to what it asks at that moment, forgets that
    /// partitions were lost, and becomes a member anew. So what it asked by then is not an orderly request any more.
    fn distrust_what_waits(&self) {
        while self.has_unheard() {
            self.serve(Duration::ZERO);
        }
        let mut changes = lock(&self.inner.context().changes);
        *changes = changes.drain(..).map(Event::distrusted).collect();
    }

    fn judge(&self, error: &KafkaError) -> Event {
        if let Some((code, reason)) = self.inner.client().fatal_error() {
            return Event::Failed(Fault::new("polling", Remedy::End, format!("{reason} ({code})")));
        }
        match error.rdkafka_error_code() {
            Some(code) if fault::is_permanent(code) => Event::Failed(Fault::new("polling", Remedy::End, error)),
            Some(RDKafkaErrorCode::AllBrokersDown) => Event::Down(error.to_string()),
            _ => {
                tracing::warn!(%error, "polling");
                Event::Quiet
            }
        }
    }

    /// Takes the partitions on, each from its position: the answer to [`Event::Assign`]. One without a position is held, so
    /// that the group gives it to nobody else, and read from where [`Consumer::seek`] says.
    pub fn assign(&mut self, starts: &[(TopicPartition, Option<NextOffset>)]) -> Result<(), Fault> {
        let end = |error: KafkaError| Fault::new("assigning", Remedy::End, error);
        let mut list = TopicPartitionList::with_capacity(starts.len());
        for (part, start) in starts {
            self.split(part)?;
            let start = start.map_or(Offset::End, |start| Offset::Offset(start.0 as i64));
            list.add_partition_offset(&part.topic, part.partition as i32, start).map_err(end)?;
        }
        let assigned = self.inner.incremental_assign(&list).map_err(end);
        self.distrust_what_waits();
        assigned
    }

    /// Reads partitions that are held from these positions on, and nothing that was fetched before; returns those that it
    /// cannot be done for now.
    ///
    /// They are not released for it: while they were, the group could give them to another, and nobody would be told.
    pub fn seek(&mut self, starts: &[(TopicPartition, NextOffset)]) -> Result<Vec<TopicPartition>, Fault> {
        let end = |error: KafkaError| Fault::new("seeking", Remedy::End, error);
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        let mut list = TopicPartitionList::with_capacity(starts.len());
        for (part, start) in starts {
            self.doubtful.remove(part);
            // It is another queue when librdkafka has made the partition anew.
            self.split(part)?;
            let offset = Offset::Offset(start.0 as i64);
            list.add_partition_offset(&part.topic, part.partition as i32, offset).map_err(end)?;
        }
        let sought = match self.inner.seek_partitions(list, SOUGHT_WITHIN) {
            Ok(sought) => sought,
            Err(error) => {
                tracing::warn!(%error, "seeking");
                return Ok(starts.iter().map(|(part, _)| part.clone()).collect());
            }
        };
        let code = |one: &TopicPartitionListElem<'_>| one.error().err().and_then(|error| error.rdkafka_error_code());
        let failed = sought
            .elements()
            .iter()
            .filter_map(|one| Some((topic_partition(one), code(one)?)))
            .collect::<BTreeMap<_, _>>();
        let is_stopped = |part: &TopicPartition| failed.get(part) == Some(&RDKafkaErrorCode::State);
        let (stopped, failed): (Vec<TopicPartition>, Vec<TopicPartition>) =
            failed.keys().cloned().partition(is_stopped);
        self.reassign(starts.iter().filter(|(part, _)| stopped.contains(part)))?;
        Ok(failed)
    }

    /// As above, for those that librdkafka does not read any more after an error.
    ///
    /// For a moment they are not held. Should librdkafka join anew in it, they are not among what it claims, and the group
    /// may give them to another at once: what it asks at its next meeting is then no orderly request.
    fn reassign<'a>(&mut self, starts: impl Iterator<Item = &'a (TopicPartition, NextOffset)>) -> Result<(), Fault> {
        let starts: Vec<_> = starts.map(|(part, start)| (part.clone(), Some(*start))).collect();
        if starts.is_empty() {
            return Ok(());
        }
        let before = self.membership();
        self.release(&starts.iter().map(|(part, _)| part.clone()).collect::<Vec<_>>())?;
        self.assign(&starts)?;
        if self.uses_classic_protocol && self.membership() != before {
            return Err(Fault::new("assigning again", Remedy::End, "the group has met meanwhile"));
        }
        self.reassigned = self.uses_classic_protocol.then_some(before);
        Ok(())
    }

    /// Has the partition's records come to a queue of their own.
    fn split(&mut self, part: &TopicPartition) -> Result<(), Fault> {
        let (client, partition) = (self.inner.client().native_ptr(), part.partition as i32);
        let queue = PartitionQueue::of(client, &part.topic, partition, BATCH)
            .ok_or_else(|| Fault::new("assigning", Remedy::End, format!("{part} has no queue")))?;
        self.queues.insert(part.clone(), queue);
        Ok(())
    }

    /// Lets the partitions go.
    pub fn release(&mut self, parts: &[TopicPartition]) -> Result<(), Fault> {
        let mut list = TopicPartitionList::with_capacity(parts.len());
        for part in parts {
            self.queues.remove(part);
            self.doubtful.remove(part);
            list.add_partition(&part.topic, part.partition as i32);
        }
        let released = self.inner.incremental_unassign(&list);
        self.distrust_what_waits();
        released.map_err(|error| Fault::new("releasing", Remedy::End, error))
    }

    /// What has been fetched of an assigned partition.
    pub fn take(&mut self, part: &TopicPartition) -> Vec<Taken> {
        let Some(queue) = self.queues.get_mut(part) else { return Vec::new() };
        let (mut all, mut records) = (Vec::new(), Vec::new());
        for message in queue.take() {
            let other = match message.error() {
                None => {
                    self.doubtful.remove(part);
                    records.push(message);
                    continue;
                }
                Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => Taken::OutOfRange,
                Some(code) if is_damage(code) => Taken::Damaged(code.to_string()),
                Some(code) if fault::is_permanent(code) => Taken::Trouble(Fault::new("fetching", Remedy::End, code)),
                Some(code) => Taken::Trouble(Fault::new("fetching", Remedy::Retry, code)),
            };
            self.doubtful.insert(part.clone());
            if !records.is_empty() {
                all.push(Taken::Records(std::mem::take(&mut records)));
            }
            all.push(other);
        }
        if !records.is_empty() {
            all.push(Taken::Records(records));
        }
        all
    }

    /// Where reading goes on, in every assigned partition that something was taken of: behind the last record, and behind
    /// what is no record. Not known of one whose last word was an error.
    pub fn positions(&self) -> Vec<(TopicPartition, NextOffset)> {
        // The list must be gone before the consumer is: librdkafka waits for it.
        let Ok(list) = self.inner.position() else { return Vec::new() };
        let position = |one: &TopicPartitionListElem<'_>| match one.offset() {
            Offset::Offset(next) if next >= 0 => Some((topic_partition(one), NextOffset(next as u64))),
            _ => None,
        };
        let known = list.elements().iter().filter_map(position).collect::<Vec<_>>();
        known.into_iter().filter(|(part, _)| !self.doubtful.contains(part)).collect()
    }

    /// For how long after `then` the coordinator of the group is not there, when that is longer than waiting is of any use:
    /// librdkafka looks for a coordinator that is another broker now, but not for the same broker at another address.
    pub fn missed_since(&self, then: Instant) -> Option<Duration> {
        let missed_for = lock(&self.inner.context().missed_since).map(|since| since.max(then).elapsed());
        missed_for.filter(|missed_for| *missed_for > self.patience && self.is_reachable())
    }

    /// Whether a broker answers.
    pub fn is_reachable(&self) -> bool {
        self.inner.client().fetch_metadata(None, Duration::from_millis(500)).is_ok()
    }

    /// Leaves the group. Every [`Group`] must be gone.
    pub fn close(self) {
        drop(self);
    }
}

/// librdkafka waits for its last answers, however polling has ended.
impl Drop for Consumer {
    fn drop(&mut self) {
        self.inner.context().is_closing.store(true, Ordering::Release);
    }
}

/// Errors of reading what was fetched: librdkafka goes on behind it as if nothing had been there.
fn is_damage(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::BadMessage | Code::BadCompression | Code::NotImplemented)
}
