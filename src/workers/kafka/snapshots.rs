//! States in a compacted topic, for whoever owns the partition next.
//!
//! A snapshot is chunks and, last, a manifest that names their number and hash. Two slots take turns, so that one that
//! is half written never replaces one that is whole. A snapshot says up to where it holds: a stale one costs time, never
//! correctness. They are written outside of transactions: a dead writer leaves nothing open.

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
    /// How often each shard is written.
    pub every: Duration,
}

const CHUNK_BYTES: usize = 512 << 10;
const MOST_BYTES: usize = 900_000;
const KIND: ebb_sketch::codec::Kind = *b"ksnp";
const VERSION: u16 = 1;
const GENERATION: &str = "ebb-generation";
/// The longest a new owner waits for the topic; then it replays.
const PATIENCE: Duration = Duration::from_secs(30);
/// Snapshots without a manifest that are kept in mind while reading.
const MOST_UNFINISHED: usize = 3;
/// The last part of a manifest's key.
const MANIFEST: &str = "manifest";

/// A state that was found.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) next: NextOffset,
    pub(super) bytes: Vec<u8>,
}

/// Writes the snapshots of one worker.
#[derive(Default)]
pub(super) struct Snapshots {
    producer: Option<Producer>,
    /// Numbers the snapshots of each shard in this process.
    turns: BTreeMap<ShardId, u64>,
}

fn part_of(topic: &SnapshotTopic, shard: &ShardId) -> TopicPartition {
    TopicPartition { topic: topic.name.as_str().into(), partition: shard.partition % topic.partitions.max(1) }
}

impl Snapshots {
    /// Queues a snapshot; it is written when the producer is drained, or later.
    pub(super) fn write(
        &mut self,
        settings: &Settings,
        topic: &SnapshotTopic,
        about: (&ShardId, &CheckpointIdentity, NextOffset),
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let (shard, identity, next) = about;
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => Producer::idempotent(settings, MOST_BYTES)?,
        };
        let producer = self.producer.insert(producer);
        let turn = self.turns.entry(shard.clone()).or_default();
        *turn += 1;
        let (slot, hash) = (*turn % 2, blake3::hash(bytes));
        let generation = blake3::hash(&[&next.0.to_be_bytes()[..], &turn.to_be_bytes(), hash.as_bytes()].concat());
        let name = CString::new(topic.name.as_str()).map_err(|error| Fault::new("producing", Remedy::End, error))?;
        let partition = part_of(topic, shard).partition as i32;
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
                    Err(Fault::new("producing", Remedy::Retry, "a chunk is larger than the topic takes"))
                }
            }
        };
        for (index, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
            send(&index.to_string(), chunk)?;
        }
        send(MANIFEST, &encode(shard, identity, next, bytes))
    }

    pub(super) fn serve(&self) {
        self.producer.iter().for_each(Producer::poll);
    }

    /// Waits until everything is written.
    pub(super) fn drain(&self) -> Result<(), Fault> {
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

pub(super) struct Manifest {
    next: NextOffset,
    length: u64,
    hash: [u8; 32],
}

/// The manifest, unless it belongs to another shard or another configuration.
pub(super) fn decode(
    shard: &ShardId,
    identity: &CheckpointIdentity,
    bytes: &[u8],
) -> Result<Option<Manifest>, CodecError> {
    let mut reader = Reader::open(KIND, VERSION, bytes)?;
    let is_shard = (reader.bytes()?, reader.u32()?) == (shard.stream.as_bytes(), shard.partition);
    let is_config = reader.raw(32)? == identity.config_hash;
    let is_key = reader.raw(identity.key_digest.0.len())? == identity.key_digest.0;
    let is_log = (reader.bytes()?, reader.u32()?) == (identity.log.as_bytes(), u32::from(identity.schema));
    let (next, length) = (NextOffset(reader.u64()?), reader.u64()?);
    let mut hash = [0; 32];
    hash.copy_from_slice(reader.raw(32)?);
    reader.finish()?;
    Ok((is_shard && is_config && is_key && is_log).then_some(Manifest { next, length, hash }))
}

/// The newest whole snapshot that is not ahead of `at_most`.
pub(super) fn find(
    settings: &Settings,
    topic: &SnapshotTopic,
    shard: &ShardId,
    identity: &CheckpointIdentity,
    at_most: NextOffset,
) -> Result<Option<Snapshot>, Fault> {
    let prefix = format!("{shard}/");
    let mut chunks: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    let mut best: Option<Snapshot> = None;
    let see = |read: TopicRecord<'_>| {
        let Some(rest) = read.key.strip_prefix(prefix.as_bytes()) else { return };
        let (Some(payload), Some(at)) = (read.payload, rest.iter().position(|byte| *byte == b'/')) else { return };
        if &rest[at + 1..] != MANIFEST.as_bytes() {
            chunks.entry(read.header.to_vec()).or_default().push(payload.to_vec());
            // Whatever gathers was never finished, or has lost parts to compaction.
            if chunks.len() > MOST_UNFINISHED {
                chunks.retain(|generation, _| generation == read.header);
            }
            return;
        }
        let bytes = chunks.remove(read.header).unwrap_or_default().concat();
        match decode(shard, identity, payload) {
            Ok(Some(manifest))
                if manifest.next <= at_most
                    && manifest.length == bytes.len() as u64
                    && manifest.hash == *blake3::hash(&bytes).as_bytes()
                    && best.as_ref().is_none_or(|best| best.next < manifest.next) =>
            {
                best = Some(Snapshot { next: manifest.next, bytes });
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%shard, %error, "a snapshot cannot be read"),
        }
    };
    read_partition(settings, &part_of(topic, shard), PATIENCE, see)?;
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
    fn a_manifest_serves_only_the_shard_and_the_configuration_it_was_written_for() {
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
