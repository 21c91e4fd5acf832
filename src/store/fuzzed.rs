//! Entry points for the fuzz targets in `fuzz/`: decoders that are private to the store.

use std::hint::black_box;

use super::journal_entry::{self, StoredEntry};
use super::manifest::{CheckpointIdentity, CheckpointManifest};
use super::{JournalRecord, NextOffset, ShardId, metadata};
use ebb_sketch::hash::KeyDigest;

const KEY: [u8; 16] = [5; 16];

pub fn manifest_seeds() -> Vec<Vec<u8>> {
    let identity =
        CheckpointIdentity { config_hash: [1; 32], key_digest: KeyDigest([2; 8]), log: "journal".into(), schema: 1 };
    let shard = ShardId { stream: "clicks".into(), partition: 3 };
    let manifest =
        CheckpointManifest { shard, generation: 7, identity, next: NextOffset(99), bytes: 5000, hash: [6; 32] };
    vec![manifest.encode(), metadata::encode(b"value")]
}

pub fn manifest(bytes: &[u8]) {
    if let Ok(manifest) = CheckpointManifest::decode(bytes) {
        let again = CheckpointManifest::decode(&manifest.encode());
        assert_eq!(again.as_ref(), Ok(&manifest));
        black_box(manifest.refusal(&manifest.shard, 7, &manifest.identity, Some(NextOffset(1))));
    }
    black_box(metadata::decode(bytes).ok());
}

pub fn entry_seeds() -> Vec<Vec<u8>> {
    let records: Vec<JournalRecord> =
        (0..3).map(|at| JournalRecord { timestamp_ms: at, payload: vec![at as u8; 9] }).collect();
    journal_entry::encode(&KEY, NextOffset(4), &records).into_iter().map(|(_, framed)| framed).collect()
}

pub fn entry(framed: &[u8]) {
    black_box(StoredEntry::new(4, framed.to_vec()).decode(&KEY).ok());
}
