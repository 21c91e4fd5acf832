//! What the owners of partitions may do while another thread polls for them: read and commit positions.

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

/// The longest a question to the brokers takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest an undecided transaction is waited for at once: whoever waits has others waiting for it.
const DECIDED_WITHIN: Duration = Duration::from_secs(2);

/// What is committed of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    pub next: NextOffset,
    /// What whoever committed it wrote beside it.
    pub note: String,
}

/// What is to be committed of a partition.
#[derive(Debug, Clone)]
pub struct Position {
    pub part: TopicPartition,
    pub next: NextOffset,
    pub note: String,
}

/// One topic among all that ever had its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicId(pub u128);

/// The positions of a log that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub first: NextOffset,
    pub next: NextOffset,
}

/// What an owner of partitions may ask and tell the group.
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
    /// Up to where the partition's records are processed, for good: a transaction that is not decided yet is waited for.
    pub fn committed(&self, part: &TopicPartition) -> Result<Option<CommittedOffset>, Fault> {
        let mut list = TopicPartitionList::new();
        list.add_partition(&part.topic, part.partition as i32);
        let asked = self.inner.committed_offsets(list, DECIDED_WITHIN).and_then(|found| committed_offset(&found));
        asked.map_err(|error| Fault::idempotent("reading the committed offset", &error))
    }

    pub fn extent(&self, part: &TopicPartition) -> Result<Extent, Fault> {
        let asked = self.inner.fetch_watermarks(&part.topic, part.partition as i32, PATIENCE);
        let (first, next) = asked.map_err(|error| Fault::idempotent("reading the ends of the log", &error))?;
        Ok(Extent { first: NextOffset(first.max(0) as u64), next: NextOffset(next.max(0) as u64) })
    }

    /// Which topic of this name there is now. librdkafka goes on in a new one where it stood in the old one.
    pub fn topic_id(&self, topic: &str) -> Result<TopicId, Fault> {
        let told = raw::topic_id(self.inner.client().native_ptr(), topic, PATIENCE.as_millis() as i32);
        told.map(TopicId).map_err(|code| {
            let remedy = if fault::is_permanent(code) { Remedy::End } else { Remedy::Retry };
            Fault::new("asking for a topic", remedy, code)
        })
    }

    /// How far the log reaches, as far as fetching has told; asks nobody.
    pub fn known_end(&self, part: &TopicPartition) -> Option<NextOffset> {
        raw::known_end(self.inner.client().native_ptr(), &part.topic, part.partition as i32).map(NextOffset)
    }

    /// Whether the polling thread has dealt with everything that the group decided. Otherwise what is processed here may be
    /// another's already, and the brokers, who only see that we are a member, would take it (K2).
    pub fn is_settled(&self) -> bool {
        let now = raw::membership(self.inner.client().native_ptr());
        now.is_some() && *lock(&self.inner.context().known) == now
    }

    pub(super) fn require_settled(&self) -> Result<(), Fault> {
        let changed = || Fault::new("committing", Remedy::StartOver, "the group has changed meanwhile");
        self.is_settled().then_some(()).ok_or_else(changed)
    }

    /// Commits positions outside of a transaction.
    pub fn commit(&self, positions: &[Position]) -> Result<(), Fault> {
        self.require_settled()?;
        let list = list_of(positions).map_err(|error| Fault::new("committing offsets", Remedy::StartOver, error))?;
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

pub(super) fn list_of(positions: &[Position]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(positions.len());
    for Position { part, next, note } in positions {
        let mut element = list.add_partition(&part.topic, part.partition as i32);
        element.set_offset(Offset::Offset(next.0 as i64))?;
        if !note.is_empty() {
            element.set_metadata(note);
        }
    }
    Ok(list)
}
