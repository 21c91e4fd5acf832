//! Offsets of the consumer group, for the owners of partitions: read and commit them while another thread polls.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use super::context::{Context, lock};
use super::event::TopicPartition;
use super::fault::{self, Fault, Remedy};
use super::raw;
use ebb_core::NextOffset;

/// Longest wait for an answer of the brokers.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for an open transaction to be decided. The worker that waits has other partitions to serve.
const PENDING_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The committed offset of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    pub next: NextOffset,
    /// The metadata string that was committed with the offset.
    pub note: String,
}

/// An offset to commit.
#[derive(Debug, Clone)]
pub struct OffsetCommit {
    pub partition: TopicPartition,
    pub next: NextOffset,
    pub note: String,
}

/// Distinguishes a topic from earlier and later topics of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicId(pub u128);

/// The offsets that a log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    pub start: NextOffset,
    pub end: NextOffset,
}

/// The group as seen by the owners of partitions.
#[derive(Clone)]
pub struct Group {
    pub(super) inner: Arc<BaseConsumer<Context>>,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Group")
    }
}

impl Group {
    /// The committed offset. Waits for an open transaction to be decided.
    pub fn committed(&self, partition: &TopicPartition) -> Result<Option<CommittedOffset>, Fault> {
        let mut list = TopicPartitionList::new();
        list.add_partition(&partition.topic, partition.partition as i32);
        let response =
            self.inner.committed_offsets(list, PENDING_TRANSACTION_TIMEOUT).and_then(|found| committed_offset(&found));
        response.map_err(|error| Fault::idempotent("reading the committed offset", &error))
    }

    pub fn log_range(&self, partition: &TopicPartition) -> Result<LogRange, Fault> {
        let response = self.inner.fetch_watermarks(&partition.topic, partition.partition as i32, REQUEST_TIMEOUT);
        let (first, next) =
            response.map_err(|error| Fault::idempotent("reading the log's start and end offsets", &error))?;
        Ok(LogRange { start: NextOffset(first.max(0) as u64), end: NextOffset(next.max(0) as u64) })
    }

    /// The id of the topic that has this name now. librdkafka continues in a recreated topic at the old position.
    pub fn topic_id(&self, topic: &str) -> Result<TopicId, Fault> {
        let id = raw::topic_id(self.inner.client().native_ptr(), topic, REQUEST_TIMEOUT.as_millis() as i32);
        id.map(TopicId).map_err(|code| {
            let remedy = if fault::is_permanent(code) { Remedy::End } else { Remedy::Retry };
            Fault::new("describing a topic", remedy, code)
        })
    }

    /// The end of the log as of the last fetch; makes no request.
    pub fn known_end(&self, partition: &TopicPartition) -> Option<NextOffset> {
        raw::known_end(self.inner.client().native_ptr(), &partition.topic, partition.partition as i32).map(NextOffset)
    }

    /// Whether the polling thread has dealt with everything that the group decided. If not, partitions may belong to other
    /// members already, and the brokers would still accept a commit: they check the membership, not the owner (K2).
    pub fn is_settled(&self) -> bool {
        let now = raw::membership(self.inner.client().native_ptr());
        lock(&self.inner.context().tracker).is_settled(now.as_ref())
    }

    pub(super) fn require_settled(&self) -> Result<(), Fault> {
        let changed = || Fault::new("committing", Remedy::StartOver, "the group has rebalanced");
        self.is_settled().then_some(()).ok_or_else(changed)
    }

    /// Commits offsets outside of a transaction.
    pub fn commit(&self, offsets: &[OffsetCommit]) -> Result<(), Fault> {
        self.require_settled()?;
        let list = list_of(offsets).map_err(|error| Fault::new("committing offsets", Remedy::StartOver, error))?;
        self.inner.commit(&list, CommitMode::Sync).map_err(|error| {
            let remedy = match error.rdkafka_error_code() {
                Some(code) if fault::is_permanent(code) => Remedy::End,
                _ => Remedy::StartOver,
            };
            Fault::new("committing offsets", remedy, error)
        })
    }
}

pub(super) fn committed_offset(list: &TopicPartitionList) -> KafkaResult<Option<CommittedOffset>> {
    let Some(element) = list.elements().into_iter().next() else { return Ok(None) };
    element.error()?;
    Ok(match element.offset() {
        Offset::Offset(offset) if offset >= 0 => {
            Some(CommittedOffset { next: NextOffset(offset as u64), note: element.metadata().to_owned() })
        }
        _ => None,
    })
}

pub(super) fn list_of(offsets: &[OffsetCommit]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for OffsetCommit { partition, next, note } in offsets {
        let mut element = list.add_partition(&partition.topic, partition.partition as i32);
        element.set_offset(Offset::Offset(next.0 as i64))?;
        if !note.is_empty() {
            element.set_metadata(note);
        }
    }
    Ok(list)
}
