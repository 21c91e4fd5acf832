//! The snapshot topic: states in a compacted topic, for the next owner of a partition.
//!
//! A snapshot is a series of chunks followed by a manifest with their length and hash. Two keys alternate, so that an
//! unfinished snapshot never replaces a complete one. A snapshot carries its next offset: an old one costs time, never
//! correctness. They are written outside of transactions, so that a dead writer leaves none open.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::time::Duration;

use crate::kafka::{
    Fault, Output, Producer, Remedy, SendOutcome, Settings, TopicPartition, TopicRecord, read_partition,
};
use crate::store::{CheckpointIdentity, ShardId};
use ebb_core::NextOffset;
use ebb_sketch::codec::{CodecError, Reader, Writer};

/// The compacted topic.
#[derive(Debug, Clone)]
pub struct SnapshotTopic {
    pub name: String,
    pub partitions: u32,
    /// How often the snapshot of each shard is written.
    pub every: Duration,
}

const CHUNK_BYTES: usize = 512 << 10;
const MAX_RECORD_BYTES: usize = 900_000;
const KIND: ebb_sketch::codec::Kind = *b"ksnp";
const VERSION: u16 = 1;
const GENERATION: &str = "ebb-generation";
/// Longest time a new owner reads the topic before it replays instead.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Unfinished snapshots that are kept in memory while reading.
const MAX_UNFINISHED: usize = 3;
/// The last part of a manifest's key.
const MANIFEST: &str = "manifest";

/// A snapshot read from the topic.
#[derive(Debug)]
pub(super) struct StoredSnapshot {
    pub(super) next: NextOffset,
    pub(super) bytes: Vec<u8>,
}

/// Writes the snapshots of one worker.
#[derive(Default)]
pub(super) struct SnapshotWriter {
    producer: Option<Producer>,
    /// Number of snapshots of each shard that this process wrote.
    written: BTreeMap<ShardId, u64>,
}

fn partition_of(topic: &SnapshotTopic, shard: &ShardId) -> TopicPartition {
    TopicPartition { topic: topic.name.as_str().into(), partition: shard.partition % topic.partitions.max(1) }
}

impl SnapshotWriter {
    /// Queues a snapshot; it is written in the background.
    pub(super) fn write(
        &mut self,
        settings: &Settings,
        topic: &SnapshotTopic,
        subject: (&ShardId, &CheckpointIdentity, NextOffset),
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let (shard, identity, next) = subject;
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => Producer::idempotent(settings, MAX_RECORD_BYTES)?,
        };
        let producer = self.producer.insert(producer);
        let count = self.written.entry(shard.clone()).or_default();
        *count += 1;
        let (slot, hash) = (*count % 2, blake3::hash(bytes));
        let generation = blake3::hash(&[&next.0.to_be_bytes()[..], &count.to_be_bytes(), hash.as_bytes()].concat());
        let name = CString::new(topic.name.as_str()).map_err(|error| Fault::new("producing", Remedy::End, error))?;
        let partition = partition_of(topic, shard).partition as i32;
        let mut send = |last: &str, payload: &[u8]| {
            let key = format!("{shard}/{slot}/{last}");
            let sent = producer.send(&Output {
                topic: &name,
                partition,
                key: Some(key.as_bytes()),
                payload: Some(payload),
                timestamp_ms: 0,
                source: None,
                headers: &[(GENERATION, generation.as_bytes())],
                tag: 0,
            })?;
            match sent {
                SendOutcome::Queued => Ok(()),
                SendOutcome::TooLarge => {
                    Err(Fault::new("producing", Remedy::Retry, "a chunk is larger than the snapshot topic allows"))
                }
            }
        };
        for (index, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
            send(&index.to_string(), chunk)?;
        }
        send(MANIFEST, &encode(shard, identity, next, bytes))
    }

    pub(super) fn poll(&self) {
        self.producer.iter().for_each(Producer::poll);
    }

    /// Waits until everything is written.
    pub(super) fn flush(&self) -> Result<(), Fault> {
        self.producer.as_ref().map_or(Ok(()), Producer::flush)
    }
}

pub(super) fn encode(shard: &ShardId, identity: &CheckpointIdentity, next: NextOffset, bytes: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(KIND, VERSION);
    writer.bytes(shard.stream.as_bytes());
    writer.u32(shard.partition);
    writer.raw(&identity.config_hash);
    writer.raw(&identity.key_digest.0);
    writer.bytes(identity.log.as_bytes());
    writer.u32(u32::from(identity.schema));
    writer.u64(next.0);
    writer.u64(bytes.len() as u64);
    writer.raw(blake3::hash(bytes).as_bytes());
    writer.seal()
}

pub(super) struct SnapshotManifest {
    next: NextOffset,
    length: u64,
    hash: [u8; 32],
}

/// The manifest, unless it belongs to another shard or another configuration.
pub(super) fn decode(
    shard: &ShardId,
    identity: &CheckpointIdentity,
    bytes: &[u8],
) -> Result<Option<SnapshotManifest>, CodecError> {
    let mut reader = Reader::open(KIND, VERSION, bytes)?;
    let is_shard = (reader.bytes()?, reader.u32()?) == (shard.stream.as_bytes(), shard.partition);
    let is_config = reader.raw(32)? == identity.config_hash;
    let is_key = reader.raw(identity.key_digest.0.len())? == identity.key_digest.0;
    let is_log = (reader.bytes()?, reader.u32()?) == (identity.log.as_bytes(), u32::from(identity.schema));
    let (next, length) = (NextOffset(reader.u64()?), reader.u64()?);
    let mut hash = [0; 32];
    hash.copy_from_slice(reader.raw(32)?);
    reader.finish()?;
    Ok((is_shard && is_config && is_key && is_log).then_some(SnapshotManifest { next, length, hash }))
}

/// The newest complete snapshot that is not ahead of `limit`.
pub(super) fn find(
    settings: &Settings,
    topic: &SnapshotTopic,
    shard: &ShardId,
    identity: &CheckpointIdentity,
    limit: NextOffset,
) -> Result<Option<StoredSnapshot>, Fault> {
    let prefix = format!("{shard}/");
    let mut chunks: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    let mut best: Option<StoredSnapshot> = None;
    let visit = |read: TopicRecord<'_>| {
        let Some(rest) = read.key.strip_prefix(prefix.as_bytes()) else { return };
        let (Some(payload), Some(at)) = (read.payload, rest.iter().position(|byte| *byte == b'/')) else { return };
        if &rest[at + 1..] != MANIFEST.as_bytes() {
            chunks.entry(read.header.to_vec()).or_default().push(payload.to_vec());
            // Chunks that accumulate were never finished, or compaction removed some of them.
            if chunks.len() > MAX_UNFINISHED {
                chunks.retain(|generation, _| generation == read.header);
            }
            return;
        }
        let bytes = chunks.remove(read.header).unwrap_or_default().concat();
        match decode(shard, identity, payload) {
            Ok(Some(manifest))
                if manifest.next <= limit
                    && manifest.length == bytes.len() as u64
                    && manifest.hash == *blake3::hash(&bytes).as_bytes()
                    && best.as_ref().is_none_or(|best| best.next < manifest.next) =>
            {
                best = Some(StoredSnapshot { next: manifest.next, bytes });
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%shard, %error, "snapshot not readable, trying another"),
        }
    };
    read_partition(settings, &partition_of(topic, shard), READ_TIMEOUT, visit)?;
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_sketch::hash::KeyDigest;

    fn identity() -> CheckpointIdentity {
        CheckpointIdentity {
            config_hash: [7; 32],
            key_digest: KeyDigest([1; 8]),
            log: "kafka:clicks".into(),
            schema: 2,
        }
    }

    #[test]
    fn manifest_is_only_valid_for_its_shard_and_configuration() {
        let shard = ShardId { stream: "clicks".into(), partition: 3 };
        let bytes = encode(&shard, &identity(), NextOffset(40), b"state");
        let read = decode(&shard, &identity(), &bytes).unwrap().unwrap();
        assert_eq!((read.next, read.length, read.hash), (NextOffset(40), 5, *blake3::hash(b"state").as_bytes()));
        let other = ShardId { partition: 4, ..shard.clone() };
        assert!(decode(&other, &identity(), &bytes).unwrap().is_none());
        for changed in [
            CheckpointIdentity { config_hash: [8; 32], ..identity() },
            CheckpointIdentity { key_digest: KeyDigest([2; 8]), ..identity() },
            CheckpointIdentity { log: "kafka:other".into(), ..identity() },
            CheckpointIdentity { schema: 3, ..identity() },
        ] {
            assert!(decode(&shard, &changed, &bytes).unwrap().is_none(), "{changed:?}");
        }
        assert!(decode(&shard, &identity(), &bytes[1..]).is_err());
    }
}
