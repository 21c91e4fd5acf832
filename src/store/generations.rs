//! Generation numbers of checkpoints, and the removal of their chunks.

use std::collections::BTreeMap;

use super::keys::{self, ShardKey};
use super::manifest::CheckpointManifest;

/// Chunks removed in one batch.
pub(super) const REMOVAL_BATCH: usize = 64;

/// The newest generation of each shard. A process never uses a number twice.
#[derive(Debug, Default)]
pub(super) struct Generations {
    newest: BTreeMap<ShardKey, u64>,
    pub orphan_chunks: usize,
    /// Size of all kept states together.
    pub kept_bytes: u64,
}

impl Generations {
    /// Reads the numbers in use and removes chunks without a manifest.
    pub fn sweep(db: &sled::Db) -> sled::Result<Self> {
        let mut generations = Self::default();
        for item in db.scan_prefix(keys::all_manifests()) {
            let (key, manifest) = item?;
            if let Some((shard, generation, _)) = keys::parse(&key) {
                let newest = generations.newest.entry(shard).or_default();
                *newest = generation.max(*newest);
                let bytes = CheckpointManifest::decode(&manifest).map_or(0, |manifest| manifest.bytes);
                generations.kept_bytes = generations.kept_bytes.saturating_add(bytes);
            }
        }
        generations.orphan_chunks = remove_orphans(db)?;
        Ok(generations)
    }

    /// The number of a new checkpoint.
    pub fn begin(&mut self, shard: ShardKey) -> u64 {
        let newest = self.newest.entry(shard).or_default();
        *newest += 1;
        *newest
    }
}

fn remove_orphans(db: &sled::Db) -> sled::Result<usize> {
    let mut removed = 0;
    let mut from = keys::all_chunks().to_vec();
    while let Some(item) = db.range(from..).next() {
        let (key, _) = item?;
        if !key.starts_with(&keys::all_chunks()) {
            break;
        }
        let Some((shard, generation, _)) = keys::parse(&key) else { break };
        if db.get(keys::manifest(&shard, generation))?.is_none() {
            removed += remove_all_chunks(db, &shard, generation)?;
        }
        from = keys::chunk(&shard, generation, u32::MAX);
    }
    Ok(removed)
}

fn remove_all_chunks(db: &sled::Db, shard: &ShardKey, generation: u64) -> sled::Result<usize> {
    let mut removed = 0;
    loop {
        let count = remove_chunks(db, shard, generation)?;
        removed += count;
        if count < REMOVAL_BATCH {
            return Ok(removed);
        }
    }
}

/// Removes up to `REMOVAL_BATCH` chunks of a generation; fewer means that none are left.
pub(super) fn remove_chunks(db: &sled::Db, shard: &ShardKey, generation: u64) -> sled::Result<usize> {
    let range = keys::chunk(shard, generation, 0)..=keys::chunk(shard, generation, u32::MAX);
    remove_keys(db, db.range(range).take(REMOVAL_BATCH))
}

/// Removes the given keys as one flushed batch and returns their number.
pub(super) fn remove_keys(
    db: &sled::Db,
    pairs: impl Iterator<Item = sled::Result<(sled::IVec, sled::IVec)>>,
) -> sled::Result<usize> {
    let mut batch = sled::Batch::default();
    let mut count = 0;
    for pair in pairs {
        batch.remove(pair?.0);
        count += 1;
    }
    if count > 0 {
        db.apply_batch(batch)?;
        db.flush()?;
    }
    Ok(count)
}
