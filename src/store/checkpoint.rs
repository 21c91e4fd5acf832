//! Checkpoints: the chunks of a new generation first, its manifest last, then the generations beyond the kept ones go.
//!
//! A state that fits in one batch is one batch. A larger one is written in steps, each flushed, so that an append never
//! waits for more than a step; until the manifest is there nobody looks at the chunks, and what a killed process leaves of
//! them is swept when the store is opened.

use std::collections::BTreeMap;

use super::keys::{self, ShardKey};
use super::manifest::{Identity, Manifest, Refusal};
use super::{CHUNK_BYTES, NextOffset, ShardId, Store, StoreError, lock};

/// States up to this size are written as one atomic batch.
const ONE_BATCH_CHUNKS: usize = 256;
/// Chunks written, or removed, in one step of something larger.
const STEP_CHUNKS: usize = 64;
/// Chunks read in one turn of the reading thread.
const READ_CHUNKS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    pub generation: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    pub next: NextOffset,
    pub state: Vec<u8>,
    pub generation: u64,
}

/// The newest generation that could be used, and why newer ones could not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    pub checkpoint: Option<Checkpoint>,
    pub refused: Vec<(u64, Refusal)>,
}

/// The newest generation number in use by each shard: a number is never given twice by one process.
#[derive(Debug, Default)]
pub(super) struct Generations {
    newest: BTreeMap<ShardKey, u64>,
    pub orphan_chunks: usize,
    /// What all kept generations together hold.
    pub kept_bytes: u64,
}

impl Generations {
    /// Learns the numbers in use and removes chunks that no manifest claims.
    pub fn sweep(db: &sled::Db) -> sled::Result<Self> {
        let mut found = Self::default();
        for item in db.scan_prefix(keys::all_manifests()) {
            let (key, manifest) = item?;
            if let Some((shard, generation, _)) = keys::parse(&key) {
                found.note(shard, generation);
                let bytes = Manifest::decode(&manifest).map_or(0, |manifest| manifest.bytes);
                found.kept_bytes = found.kept_bytes.saturating_add(bytes);
            }
        }
        let mut from = keys::all_chunks().to_vec();
        while let Some(item) = db.range(from..).next() {
            let (key, _) = item?;
            if !key.starts_with(&keys::all_chunks()) {
                break;
            }
            let Some((shard, generation, _)) = keys::parse(&key) else { break };
            if db.get(keys::manifest(&shard, generation))?.is_none() {
                found.orphan_chunks += remove_chunks(db, &shard, generation)?;
            }
            from = keys::chunk(&shard, generation, u32::MAX);
        }
        Ok(found)
    }

    fn note(&mut self, shard: ShardKey, generation: u64) {
        let newest = self.newest.entry(shard).or_default();
        *newest = generation.max(*newest);
    }

    fn begin(&mut self, shard: ShardKey) -> u64 {
        let newest = self.newest.entry(shard).or_default();
        *newest += 1;
        *newest
    }
}

fn remove_chunks(db: &sled::Db, shard: &ShardKey, generation: u64) -> sled::Result<usize> {
    let mut removed = 0;
    loop {
        let step = remove_step(db, shard, generation)?;
        removed += step;
        if step < STEP_CHUNKS {
            return Ok(removed);
        }
    }
}

/// Removes up to a step's worth of chunks; fewer means that none are left.
fn remove_step(db: &sled::Db, shard: &ShardKey, generation: u64) -> sled::Result<usize> {
    let mut batch = sled::Batch::default();
    let mut count = 0;
    for item in db.range(keys::chunk(shard, generation, 0)..=keys::chunk(shard, generation, u32::MAX)).take(STEP_CHUNKS)
    {
        batch.remove(item?.0);
        count += 1;
    }
    if count > 0 {
        db.apply_batch(batch)?;
        db.flush()?;
    }
    Ok(count)
}

impl Store {
    /// Saves `state`, which includes everything before `next`, as the newest generation of `shard`.
    pub fn save(
        &self,
        shard: &ShardId,
        identity: &Identity,
        next: NextOffset,
        state: &[u8],
    ) -> Result<Saved, StoreError> {
        // One checkpoint at a time: two would only share the disk.
        let mut generations = lock(&self.generations);
        let key = keys::shard(shard);
        let generation = generations.begin(key);
        let (bytes, hash) = (state.len() as u64, *blake3::hash(state).as_bytes());
        let manifest = Manifest { shard: shard.clone(), generation, identity: identity.clone(), next, bytes, hash };
        let manifest = manifest.encode();
        if manifest.len() > CHUNK_BYTES {
            let what = "a manifest (the names of stream and log)";
            return Err(StoreError::TooLarge { what, bytes: manifest.len(), most: CHUNK_BYTES });
        }
        self.require_space(state.len() + manifest.len(), 0)?;
        let chunks: Vec<&[u8]> = state.chunks(CHUNK_BYTES).collect();
        let in_one = chunks.len() <= ONE_BATCH_CHUNKS;
        if !in_one && let Err(error) = self.write_steps(&key, generation, &chunks) {
            if matches!(error, StoreError::DiskFull { .. }) {
                self.prune_chunks(&key, generation)?;
            }
            return Err(error);
        }
        self.writes.commit(|batch| {
            for (index, chunk) in chunks.iter().enumerate().filter(|_| in_one) {
                batch.insert(keys::chunk(&key, generation, index as u32), *chunk);
            }
            batch.insert(keys::manifest(&key, generation), manifest);
        })?;
        self.prune(&key)?;
        Ok(Saved { generation, bytes })
    }

    fn write_steps(&self, key: &ShardKey, generation: u64, chunks: &[&[u8]]) -> Result<(), StoreError> {
        for (step, chunks) in chunks.chunks(STEP_CHUNKS).enumerate() {
            self.require_space(chunks.len() * CHUNK_BYTES, 0)?;
            self.writes.step(|batch| {
                for (index, chunk) in chunks.iter().enumerate() {
                    batch.insert(keys::chunk(key, generation, (step * STEP_CHUNKS + index) as u32), *chunk);
                }
            })?;
        }
        Ok(())
    }

    /// Removes all generations but the kept ones: manifest first, so that no manifest ever lacks chunks.
    fn prune(&self, key: &ShardKey) -> Result<(), StoreError> {
        // What cannot be pruned would grow for ever.
        let manifests = self.manifests(key).map_err(|error| self.writes.fail(error.to_string()))?;
        let generations: Vec<u64> = manifests.into_iter().map(|(generation, _)| generation).collect();
        let beyond = generations.len().saturating_sub(self.options.generations.max(1));
        for &generation in &generations[..beyond] {
            self.writes.step(|batch| batch.remove(keys::manifest(key, generation)))?;
            self.prune_chunks(key, generation)?;
        }
        Ok(())
    }

    fn prune_chunks(&self, key: &ShardKey, generation: u64) -> Result<(), StoreError> {
        let key = *key;
        while self.writes.call_within(self.options.deadline, move |db| remove_step(db, &key, generation))?
            == STEP_CHUNKS
        {}
        Ok(())
    }

    /// The manifests of a shard as they are stored, oldest first.
    pub(super) fn manifests(&self, key: &ShardKey) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let (first, last) = (keys::manifest(key, 0), keys::manifest(key, u64::MAX));
        self.reads.read(move |db| {
            let mut found = Vec::new();
            for item in db.range(first..=last) {
                let (key, value) = item?;
                if let Some((_, generation, _)) = keys::parse(&key) {
                    found.push((generation, value.to_vec()));
                }
            }
            Ok(found)
        })
    }

    /// The newest generation of `shard` that is whole, was saved under `identity` and is not ahead of `at_most`.
    pub fn load(
        &self,
        shard: &ShardId,
        identity: &Identity,
        at_most: Option<NextOffset>,
    ) -> Result<Loaded, StoreError> {
        let key = keys::shard(shard);
        let mut loaded = Loaded::default();
        for (generation, manifest) in self.manifests(&key)?.into_iter().rev() {
            let usable = match Manifest::decode(&manifest) {
                Err(error) => Err(Refusal::Damaged(error.to_string())),
                Ok(manifest) => match manifest.refusal(shard, generation, identity, at_most) {
                    Some(refusal) => Err(refusal),
                    None => self.read_state(&key, &manifest)?.map(|state| (manifest.next, state)),
                },
            };
            match usable {
                Err(refusal) => loaded.refused.push((generation, refusal)),
                Ok((next, state)) => {
                    loaded.checkpoint = Some(Checkpoint { next, state, generation });
                    break;
                }
            }
        }
        Ok(loaded)
    }

    /// The bytes a manifest describes. Only a failed store is an error: everything else is one generation's damage.
    fn read_state(&self, key: &ShardKey, manifest: &Manifest) -> Result<Result<Vec<u8>, Refusal>, StoreError> {
        let damaged = |why: String| Ok(Err(Refusal::Damaged(why)));
        let mut state = Vec::new();
        let mut hasher = blake3::Hasher::new();
        while (state.len() as u64) < manifest.bytes {
            let part = match self.read_chunks(key, manifest.generation, state.len() / CHUNK_BYTES) {
                Err(StoreError::Damaged(why)) => return damaged(why),
                part => part?,
            };
            let whole = part.len() == READ_CHUNKS * CHUNK_BYTES;
            let length = (state.len() + part.len()) as u64;
            if part.is_empty() || length > manifest.bytes || (!whole && length < manifest.bytes) {
                return damaged(format!("{length} of {} bytes are there", manifest.bytes));
            }
            hasher.update(&part);
            state.extend_from_slice(&part);
        }
        if *hasher.finalize().as_bytes() != manifest.hash {
            return damaged("the hash of the state differs".to_owned());
        }
        Ok(Ok(state))
    }

    /// Consecutive chunks from `index` on, up to a turn's worth; ends early at the first that is missing or short.
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
