//! Entry points for the fuzz targets: bytes that only these workers decode.

use std::hint::black_box;
use std::sync::Arc;

use super::{cursor, snapshots};
use crate::store::{CheckpointIdentity, ShardId};
use ebb_core::{NextOffset, Plan, Shard};
use ebb_sketch::codec::CodecError;
use ebb_sketch::hash::KeyDigest;

fn about() -> (ShardId, CheckpointIdentity) {
    let identity = CheckpointIdentity {
        config_hash: [7; 32],
        key_digest: KeyDigest([1; 8]),
        log: "kafka:clicks".into(),
        schema: 2,
    };
    (ShardId { stream: "clicks".into(), partition: 3 }, identity)
}

pub fn manifest_seeds() -> Vec<Vec<u8>> {
    let (shard, identity) = about();
    vec![snapshots::encode(&shard, &identity, NextOffset(40), b"state")]
}

pub fn manifest(bytes: &[u8]) {
    let (shard, identity) = about();
    black_box(snapshots::decode(&shard, &identity, bytes).is_ok());
}

pub fn checkpoint_seed(snapshot: &[u8]) -> Vec<u8> {
    cursor::encode(None, snapshot)
}

pub fn checkpoint(plan: Arc<Plan>, bytes: &[u8]) -> Result<Shard, CodecError> {
    cursor::decode(plan, 0, bytes).map(|(shard, _)| shard)
}
