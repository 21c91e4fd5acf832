//! Keys in sled: a letter for the kind, 16 bytes for the shard, then big-endian numbers, so that keys sort by generation or
//! offset and then by chunk.

use super::ShardId;

/// A hash that identifies a shard in keys. Its length does not depend on the stream's name.
pub(super) type ShardKey = [u8; 16];

const CHUNK: u8 = b'c';
const JOURNAL: u8 = b'j';
const METADATA: u8 = b'k';
const MANIFEST: u8 = b'm';
const STORE_ID: u8 = b'n';

pub(super) fn shard(id: &ShardId) -> ShardKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&id.partition.to_be_bytes());
    hasher.update(id.stream.as_bytes());
    let hash = hasher.finalize();
    std::array::from_fn(|i| hash.as_bytes()[i])
}

fn numbered(kind: u8, shard: &ShardKey, number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(29);
    key.push(kind);
    key.extend_from_slice(shard);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn chunked(kind: u8, shard: &ShardKey, number: u64, index: u32) -> Vec<u8> {
    let mut key = numbered(kind, shard, number);
    key.extend_from_slice(&index.to_be_bytes());
    key
}

pub(super) fn manifest(shard: &ShardKey, generation: u64) -> Vec<u8> {
    numbered(MANIFEST, shard, generation)
}

pub(super) fn chunk(shard: &ShardKey, generation: u64, index: u32) -> Vec<u8> {
    chunked(CHUNK, shard, generation, index)
}

pub(super) fn entry(shard: &ShardKey, first: u64, index: u32) -> Vec<u8> {
    chunked(JOURNAL, shard, first, index)
}

pub(super) fn metadata(name: &str) -> Vec<u8> {
    let mut key = vec![METADATA];
    key.extend_from_slice(name.as_bytes());
    key
}

pub(super) fn store_id() -> [u8; 1] {
    [STORE_ID]
}

/// The prefixes of all kinds of keys.
pub(super) fn kinds() -> [[u8; 1]; 5] {
    [[STORE_ID], [METADATA], [MANIFEST], [JOURNAL], [CHUNK]]
}

pub(super) fn all_chunks() -> [u8; 1] {
    [CHUNK]
}

pub(super) fn all_manifests() -> [u8; 1] {
    [MANIFEST]
}

pub(super) fn all_entries() -> [u8; 1] {
    [JOURNAL]
}

/// Shard, generation or offset, and chunk index (0 for a manifest) of a manifest, chunk or journal key.
pub(super) fn parse(key: &[u8]) -> Option<(ShardKey, u64, u32)> {
    let (_, rest) = key.split_first()?;
    let (shard, rest) = rest.split_first_chunk::<16>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let index = if rest.is_empty() { 0 } else { u32::from_be_bytes(rest.try_into().ok()?) };
    Some((*shard, u64::from_be_bytes(*number), index))
}
