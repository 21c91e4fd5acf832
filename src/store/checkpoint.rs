//! Saving and loading checkpoints. The chunks of a new generation are written first, its manifest last, then generations
//! beyond the kept ones are removed.
//!
//! A small state is one atomic batch. A large one is written in flushed batches, so that an append waits for at most one of
//! them. Chunks are invisible until their manifest exists; chunks left by a killed process are removed when the store opens.

use super::generations::{REMOVAL_BATCH, remove_chunks};
use super::keys::{self, ShardKey};
use super::manifest::{CheckpointIdentity, CheckpointManifest, CheckpointRefusal};
use super::{CHUNK_BYTES, NextOffset, ShardId, Store, StoreError, lock};

/// Larger states are written in several batches.
const MAX_SINGLE_BATCH_CHUNKS: usize = 256;
/// Chunks in one batch of a large state.
const BATCH_CHUNKS: usize = 64;
/// Chunks read in one call to the reading thread.
const READ_CHUNKS: usize = 1024;

/// Generation and size of a checkpoint that was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointReceipt {
    pub generation: u64,
    pub bytes: u64,
}

/// A checkpoint that was read from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedCheckpoint {
    pub next: NextOffset,
    pub state: Vec<u8>,
    pub generation: u64,
}

/// The newest usable checkpoint, and the newer generations that were refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOutcome {
    pub checkpoint: Option<LoadedCheckpoint>,
    pub refused: Vec<(u64, CheckpointRefusal)>,
}

impl Store {
    /// Saves `state`, the fold of everything before `next`, as the newest generation of `shard`.
    pub fn save(
        &self,
        shard: &ShardId,
        identity: &CheckpointIdentity,
        next: NextOffset,
        state: &[u8],
    ) -> Result<CheckpointReceipt, StoreError> {
        // Held throughout: parallel checkpoints would only compete for the disk.
        let mut generations = lock(&self.generations);
        let key = keys::shard(shard);
        let generation = generations.begin(key);
        let (bytes, hash) = (state.len() as u64, *blake3::hash(state).as_bytes());
        let identity = identity.clone();
        let manifest = CheckpointManifest { shard: shard.clone(), generation, identity, next, bytes, hash }.encode();
        if manifest.len() > CHUNK_BYTES {
            let what = "checkpoint manifest (with the names of stream and log)";
            return Err(StoreError::TooLarge { what, bytes: manifest.len(), max: CHUNK_BYTES });
        }
        self.require_space(state.len() + manifest.len(), 0)?;
        let chunks: Vec<&[u8]> = state.chunks(CHUNK_BYTES).collect();
        let is_single_batch = chunks.len() <= MAX_SINGLE_BATCH_CHUNKS;
        if !is_single_batch && let Err(error) = self.write_chunks(&key, generation, &chunks) {
            if matches!(error, StoreError::DiskFull { .. }) {
                self.prune_chunks(&key, generation)?;
            }
            return Err(error);
        }
        self.writes.commit(|batch| {
            for (index, chunk) in chunks.iter().enumerate().filter(|_| is_single_batch) {
                batch.insert(keys::chunk(&key, generation, index as u32), *chunk);
            }
            batch.insert(keys::manifest(&key, generation), manifest);
        })?;
        self.prune(&key)?;
        Ok(CheckpointReceipt { generation, bytes })
    }

    fn write_chunks(&self, key: &ShardKey, generation: u64, chunks: &[&[u8]]) -> Result<(), StoreError> {
        for (number, chunks) in chunks.chunks(BATCH_CHUNKS).enumerate() {
            self.require_space(chunks.len() * CHUNK_BYTES, 0)?;
            self.writes.write(|batch| {
                for (index, chunk) in chunks.iter().enumerate() {
                    batch.insert(keys::chunk(key, generation, (number * BATCH_CHUNKS + index) as u32), *chunk);
                }
            })?;
        }
        Ok(())
    }

    /// Removes all generations but the kept ones, the manifest first, so that a manifest never lacks chunks.
    fn prune(&self, key: &ShardKey) -> Result<(), StoreError> {
        // A store that cannot be pruned would fill the disk.
        let manifests = self.manifests(key).map_err(|error| self.writes.mark_failed(error.to_string()))?;
        let generations: Vec<u64> = manifests.into_iter().map(|(generation, _)| generation).collect();
        let excess = generations.len().saturating_sub(self.options.generations.max(1));
        for &generation in &generations[..excess] {
            self.writes.write(|batch| batch.remove(keys::manifest(key, generation)))?;
            self.prune_chunks(key, generation)?;
        }
        Ok(())
    }

    fn prune_chunks(&self, key: &ShardKey, generation: u64) -> Result<(), StoreError> {
        let key = *key;
        while self.writes.run(move |db| remove_chunks(db, &key, generation))? == REMOVAL_BATCH {}
        Ok(())
    }

    /// The encoded manifests of a shard by generation, oldest first.
    pub(super) fn manifests(&self, key: &ShardKey) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let (first, last) = (keys::manifest(key, 0), keys::manifest(key, u64::MAX));
        self.reads.read(move |db| {
            let mut manifests = Vec::new();
            for item in db.range(first..=last) {
                let (key, value) = item?;
                if let Some((_, generation, _)) = keys::parse(&key) {
                    manifests.push((generation, value.to_vec()));
                }
            }
            Ok(manifests)
        })
    }

    /// The newest generation of `shard` that is intact, was saved under `identity` and is not ahead of `max_next`.
    pub fn load(
        &self,
        shard: &ShardId,
        identity: &CheckpointIdentity,
        max_next: Option<NextOffset>,
    ) -> Result<LoadOutcome, StoreError> {
        let key = keys::shard(shard);
        let mut outcome = LoadOutcome::default();
        for (generation, manifest) in self.manifests(&key)?.into_iter().rev() {
            let state = match CheckpointManifest::decode(&manifest) {
                Err(error) => Err(CheckpointRefusal::Damaged(error.to_string())),
                Ok(manifest) => match manifest.refusal(shard, generation, identity, max_next) {
                    Some(refusal) => Err(refusal),
                    None => self.read_state(&key, &manifest)?.map(|state| (manifest.next, state)),
                },
            };
            match state {
                Err(refusal) => outcome.refused.push((generation, refusal)),
                Ok((next, state)) => {
                    outcome.checkpoint = Some(LoadedCheckpoint { next, state, generation });
                    break;
                }
            }
        }
        Ok(outcome)
    }

    /// The state that a manifest describes. The outer error means that the store failed, the inner one that this generation
    /// is damaged.
    fn read_state(
        &self,
        key: &ShardKey,
        manifest: &CheckpointManifest,
    ) -> Result<Result<Vec<u8>, CheckpointRefusal>, StoreError> {
        let damaged = |cause: String| Ok(Err(CheckpointRefusal::Damaged(cause)));
        let mut state = Vec::new();
        let mut hasher = blake3::Hasher::new();
        while (state.len() as u64) < manifest.bytes {
            let part = match self.read_chunks(key, manifest.generation, state.len() / CHUNK_BYTES) {
                Err(StoreError::Damaged(cause)) => return damaged(cause),
                part => part?,
            };
            let is_full = part.len() == READ_CHUNKS * CHUNK_BYTES;
            let length = (state.len() + part.len()) as u64;
            if part.is_empty() || length > manifest.bytes || (!is_full && length < manifest.bytes) {
                return damaged(format!("found {length} of {} bytes", manifest.bytes));
            }
            hasher.update(&part);
            state.extend_from_slice(&part);
        }
        if *hasher.finalize().as_bytes() != manifest.hash {
            return damaged("hash mismatch".to_owned());
        }
        Ok(Ok(state))
    }

    /// Up to `READ_CHUNKS` consecutive chunks from `index` on; ends after a short chunk or before a missing one.
    fn read_chunks(&self, key: &ShardKey, generation: u64, index: usize) -> Result<Vec<u8>, StoreError> {
        let key = *key;
        self.reads.read(move |db| {
            let mut part = Vec::new();
            let indices = index as u32..=u32::MAX;
            let range = keys::chunk(&key, generation, *indices.start())..=keys::chunk(&key, generation, u32::MAX);
            for (item, expected) in db.range(range).take(READ_CHUNKS).zip(indices) {
                let (found, chunk) = item?;
                if keys::parse(&found).is_none_or(|(_, _, index)| index != expected) {
                    break;
                }
                part.extend_from_slice(&chunk);
                if chunk.len() < CHUNK_BYTES {
                    break;
                }
            }
            Ok(part)
        })
    }
}
