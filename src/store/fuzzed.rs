//! Ways in for the fuzz targets (`fuzz/`): bytes that only the store itself reads.

use std::hint::black_box;

use super::entry::{self, Found};
use super::manifest::{self, Identity, Manifest};
use super::{NextOffset, Record, ShardId};
use ebb_sketch::hash::KeyPrint;

const KEY: [u8; 16] = [5; 16];

pub fn manifest_seeds() -> Vec<Vec<u8>> {
    let identity = Identity { config_hash: [1; 32], key_print: KeyPrint([2; 8]), log: "journal".into(), schema: 1 };
    let shard = ShardId { stream: "clicks".into(), partition: 3 };
    let manifest = Manifest { shard, generation: 7, identity, next: NextOffset(99), bytes: 5000, hash: [6; 32] };
    vec![manifest.encode(), manifest::seal_fact(b"a fact")]
}

pub fn manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        let again = Manifest::decode(&manifest.encode());
        assert_eq!(again.as_ref(), Ok(&manifest));
        black_box(manifest.refusal(&manifest.shard, 7, &manifest.identity, Some(NextOffset(1))));
    }
    black_box(manifest::open_fact(bytes).ok());
}

pub fn entry_seeds() -> Vec<Vec<u8>> {
    let records: Vec<Record> = (0..3).map(|at| Record { timestamp_ms: at, payload: vec![at as u8; 9] }).collect();
    entry::encode(&KEY, NextOffset(4), &records).into_iter().map(|(_, framed)| framed).collect()
}

pub fn entry(framed: &[u8]) {
    black_box(Found::of(4, framed.to_vec()).decode(&KEY).ok());
}
