//! A partition's position in its topic: what is folded, what is committed, how its state was restored.
//!
//! Three positions, in this order: the newest checkpoint, the committed offset (C), and what is folded. Records before C are
//! folded without output. The last folded record is remembered by its hash and read again after a restart: a topic that
//! was recreated under the same name is not the log that the state belongs to.

use std::sync::Arc;
use std::time::Instant;

use super::StreamSpec;
use super::log::KafkaLog;
use super::output_ledger::OutputLedger;
use crate::kafka::{LogRange, Message, TopicId, TopicPartition};
use crate::workers::messages::StoredCheckpoint;
use crate::workers::slot::{LoadedShard, PartitionSlot};
use ebb_core::partition::Epoch;
use ebb_core::{NextOffset, Plan, Shard};
use ebb_sketch::codec::{self, CodecError, Reader, Writer};

const KIND: codec::Kind = *b"kchk";
const VERSION: u16 = 1;

/// What is known about a partition across assignments.
#[derive(Debug)]
pub(in crate::workers) struct KafkaSource {
    pub(super) partition: TopicPartition,
    pub(super) stream: Arc<StreamSpec>,
    /// The topic that this process reads; a later one of the same name is another log.
    pub(super) topic_id: Option<TopicId>,
    /// Where records could not be decoded, and how often in a row.
    pub(super) undecodable: Option<(NextOffset, u32)>,
    /// The restore that is being retried.
    pub(super) attempt: RestoreAttempt,
}

/// A restore that did not succeed yet.
#[derive(Debug, Default)]
pub(super) struct RestoreAttempt {
    pub(super) since: Option<Instant>,
    /// End offsets of the outputs when they were first looked at.
    pub(super) output_ends: Option<Vec<u64>>,
}

impl KafkaSource {
    pub(super) fn new(partition: TopicPartition, stream: Arc<StreamSpec>) -> Self {
        Self { partition, stream, topic_id: None, undecodable: None, attempt: RestoreAttempt::default() }
    }

    /// Notes which topic is read; returns why it cannot be read if it is not the one that was read before.
    pub(super) fn note_topic(&mut self, topic_id: TopicId) -> Option<String> {
        let is_other = *self.topic_id.get_or_insert(topic_id) != topic_id;
        is_other.then(|| {
            format!(
                "the topic of {} was recreated while it was read; if that is intended, reset the group's offsets, remove \
                 data_dir and restart",
                self.partition
            )
        })
    }

    /// Why the log cannot be the one that the committed offset belongs to, if so.
    pub(super) fn log_mismatch(&self, committed: Option<NextOffset>, range: LogRange) -> Option<String> {
        let committed = committed?;
        if committed > range.end {
            return Some(format!(
                "the group has committed offset {}, but the log of {} ends at {}: the topic was recreated or truncated; if \
                 that is intended, reset the group's offsets and remove data_dir",
                committed.0, self.partition, range.end.0
            ));
        }
        (committed < range.start).then(|| {
            format!(
                "the log of {} starts at {}, but only records before {} were processed: retention deleted the records in \
                 between; to continue without them, reset the group's offsets and remove data_dir",
                self.partition, range.start.0, committed.0
            )
        })
    }
}

/// Identifies a record by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workers) struct RecordMark {
    pub(super) offset: u64,
    hash: [u8; 32],
}

impl RecordMark {
    pub(super) fn of(message: &Message) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&message.offset().to_be_bytes());
        hasher.update(&message.timestamp_ms().to_be_bytes());
        for bytes in [message.key(), message.payload()] {
            hasher.update(&bytes.map_or(u64::MAX, |bytes| bytes.len() as u64).to_be_bytes());
            hasher.update(bytes.unwrap_or_default());
        }
        Self { offset: message.offset(), hash: *hasher.finalize().as_bytes() }
    }
}

/// The position of a loaded shard.
#[derive(Debug)]
pub(in crate::workers) struct KafkaCursor {
    /// C: the offset that the group has committed.
    pub(super) committed: NextOffset,
    pub(super) ledger: OutputLedger,
    /// The next offset to commit: behind the last record and behind transaction markers.
    pub(super) position: NextOffset,
    /// The record that must be read first, because the state says that it was folded last.
    pub(super) expected: Option<RecordMark>,
    pub(super) last: Option<RecordMark>,
    /// The group has no committed offset of the partition yet.
    pub(super) is_new_to_group: bool,
    pub(super) restore_started: Instant,
    /// When the last snapshot was written to the snapshot topic, and its next offset.
    pub(super) snapshot: (Instant, NextOffset),
}

/// A saved state.
#[derive(Debug)]
pub(in crate::workers) struct SavedState {
    pub(in crate::workers) shard: Shard,
    pub(in crate::workers) last: Option<RecordMark>,
    pub(in crate::workers) stored: Option<StoredCheckpoint>,
}

impl SavedState {
    /// The shard with its position, before anything was read.
    pub(super) fn load(
        self,
        committed: NextOffset,
        ledger: OutputLedger,
        epoch: Epoch,
        restore_started: Instant,
    ) -> LoadedShard<KafkaCursor> {
        let next = self.shard.next();
        let cursor = KafkaCursor {
            committed,
            ledger,
            position: next,
            expected: self.last,
            last: self.last,
            is_new_to_group: false,
            restore_started,
            snapshot: (Instant::now(), next),
        };
        LoadedShard::new(epoch, self.shard, cursor, self.stored)
    }
}

impl KafkaCursor {
    /// Whether there is something to commit.
    pub(super) fn is_dirty(&self) -> bool {
        self.position > self.committed
            || self.is_new_to_group
            || self.ledger.needs_commit && self.position >= self.committed
    }

    /// Whether everything up to the committed offset is folded.
    pub(super) fn is_caught_up(&self) -> bool {
        self.expected.is_none() && self.position >= self.committed
    }
}

impl PartitionSlot<KafkaLog> {
    pub(super) fn is_dirty(&self) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.cursor.is_dirty())
    }

    pub(super) fn cursor(&mut self) -> Option<&mut KafkaCursor> {
        self.loaded.as_deref_mut().map(|loaded| &mut loaded.cursor)
    }

    /// Decodes a checkpoint or a snapshot of this partition.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<(Shard, Option<RecordMark>), CodecError> {
        decode(self.plan.clone(), self.id.partition, bytes)
    }
}

/// The state and the mark of its last record.
pub(super) fn encode(last: Option<RecordMark>, snapshot: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(KIND, VERSION);
    writer.u8(u8::from(last.is_some()));
    let last = last.unwrap_or(RecordMark { offset: 0, hash: [0; 32] });
    writer.u64(last.offset);
    writer.raw(&last.hash);
    writer.bytes(snapshot);
    writer.seal()
}

/// The inverse of [`encode`].
pub(super) fn decode(plan: Arc<Plan>, partition: u32, bytes: &[u8]) -> Result<(Shard, Option<RecordMark>), CodecError> {
    let mut reader = Reader::open(KIND, VERSION, bytes)?;
    let (is_some, offset) = (reader.u8()?, reader.u64()?);
    let mut hash = [0; 32];
    hash.copy_from_slice(reader.raw(32)?);
    let shard = Shard::restore(plan, partition, reader.bytes()?)?;
    reader.finish()?;
    let last = match is_some {
        0 => None,
        1 => Some(RecordMark { offset, hash }),
        _ => return Err(CodecError::invalid("last record", "neither absent nor present")),
    };
    Ok((shard, last))
}
