//! The journal: the log of a service without Kafka. Records are appended before the request is answered, replayed after a
//! restart, and truncated behind the oldest kept checkpoint.

use std::collections::BTreeMap;

use super::acknowledged::{AcknowledgedContents, AcknowledgedFile};
use super::generations::remove_keys;
use super::journal_entry::{self, StoredEntries};
use super::keys::{self, ShardKey};
use super::manifest::CheckpointManifest;
use super::replay::first_of_entry_with;
use super::sled_thread::SledThread;
use super::{JournalRecord, LostRange, NextOffset, OpenReport, ShardId, Store, StoreError, lock};

/// Largest payload of one record.
const MAX_RECORD_BYTES: usize = 2 << 20;
/// Largest append, which is one batch in memory.
const MAX_APPEND_BYTES: usize = 64 << 20;
/// Chunks removed in one batch.
const REMOVAL_BATCH: usize = 512;

/// Records to append to the journal of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalBatch {
    pub shard: ShardId,
    /// Offset of the first record.
    pub first: NextOffset,
    pub records: Vec<JournalRecord>,
}

/// The offsets in a journal: `first` is the oldest one kept, `next` the one of the next append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalBounds {
    pub first: NextOffset,
    pub next: NextOffset,
}

/// The bounds of all journals, and the file that keeps them.
#[derive(Debug)]
pub(super) struct Journals {
    acknowledged: AcknowledgedFile,
    pub bounds: BTreeMap<ShardKey, JournalBounds>,
}

impl Journals {
    /// Compares the acknowledged offsets with the stored entries and reports missing ranges.
    pub fn open(
        acknowledged: AcknowledgedFile,
        contents: AcknowledgedContents,
        reads: &SledThread,
        report: &mut OpenReport,
    ) -> Result<Self, StoreError> {
        let mut bounds = BTreeMap::new();
        for (key, shard, expected) in contents.journals {
            let stored = stored_bounds(reads, key)?;
            let mut report_lost = |from, to| {
                if from < to {
                    report.lost.push(LostRange { shard: shard.clone(), from, to });
                }
            };
            match stored {
                None => report_lost(expected.first, expected.next),
                Some(stored) => {
                    report_lost(expected.first, stored.first.min(expected.next));
                    report_lost(stored.next.max(expected.first), expected.next);
                }
            }
            let next = stored.map_or(expected.next, |stored| stored.next.max(expected.next));
            bounds.insert(key, JournalBounds { first: expected.first, next });
        }
        for (key, stored) in journals_without_slot(reads, &bounds)? {
            report.unreadable_slots += 1;
            bounds.insert(key, stored);
        }
        Ok(Self { acknowledged, bounds })
    }
}

/// A validated append: the new bounds, and the keys and values for sled.
struct PreparedAppend {
    bounds: BTreeMap<ShardId, JournalBounds>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The bounds of a shard's journal by its first and last entries in sled; `None` if they cannot be read.
fn stored_bounds(reads: &SledThread, key: ShardKey) -> Result<Option<JournalBounds>, StoreError> {
    let bounds = reads.read(move |db| {
        let Some(first) = StoredEntries::from(db, &key, 0).next().transpose()? else { return Ok(None) };
        let last = db.range(keys::entry(&key, 0, 0)..=keys::entry(&key, u64::MAX, u32::MAX)).next_back().transpose()?;
        let last = last.and_then(|(last, _)| keys::parse(&last)).map_or(first.first, |(_, last, _)| last);
        let entry = StoredEntries::from(db, &key, last).next().transpose()?;
        let records = entry.and_then(|entry| entry.decode(&key).ok()).map_or(0, |records| records.len());
        let next = NextOffset(last.saturating_add(records as u64));
        Ok(Some(JournalBounds { first: NextOffset(first.first), next }))
    });
    match bounds {
        Err(StoreError::Damaged(_)) => Ok(None),
        bounds => bounds,
    }
}

/// Journals in sled that have no readable slot in the file of acknowledged offsets.
fn journals_without_slot(
    reads: &SledThread,
    known: &BTreeMap<ShardKey, JournalBounds>,
) -> Result<Vec<(ShardKey, JournalBounds)>, StoreError> {
    let keys = reads.read(move |db| {
        let mut shards = Vec::new();
        let mut from = keys::all_entries().to_vec();
        while let Some(item) = db.range(from..).next() {
            let (key, _) = item?;
            let Some((shard, _, _)) = keys::parse(&key).filter(|_| key.starts_with(&keys::all_entries())) else {
                break;
            };
            shards.push(shard);
            from = keys::entry(&shard, u64::MAX, u32::MAX);
        }
        Ok(shards)
    });
    let keys = match keys {
        Err(StoreError::Damaged(_)) => return Ok(Vec::new()),
        keys => keys?,
    };
    let mut journals = Vec::new();
    for key in keys.into_iter().filter(|key| !known.contains_key(key)) {
        journals.extend(stored_bounds(reads, key)?.map(|bounds| (key, bounds)));
    }
    Ok(journals)
}

impl Store {
    /// Appends to the journals of any number of shards, all or nothing. The records are on disk when this returns.
    pub fn append(&self, batches: &[JournalBatch]) -> Result<(), StoreError> {
        let mut journals = lock(&self.journals);
        let PreparedAppend { bounds, pairs } = self.prepare(&journals, batches)?;
        for (shard, after) in &bounds {
            // Allocate the slot before there is anything to acknowledge: later the disk may be full.
            if !journals.bounds.contains_key(&keys::shard(shard)) {
                self.acknowledge(&mut journals, shard, JournalBounds { first: after.first, next: after.first })?;
            }
        }
        self.writes.commit(|batch| {
            for (key, chunk) in pairs {
                batch.insert(key, chunk);
            }
        })?;
        for (shard, after) in bounds {
            self.acknowledge(&mut journals, &shard, after)?;
        }
        Ok(())
    }

    fn prepare(&self, journals: &Journals, batches: &[JournalBatch]) -> Result<PreparedAppend, StoreError> {
        let mut bounds: BTreeMap<ShardId, JournalBounds> = BTreeMap::new();
        let mut pairs = Vec::new();
        for JournalBatch { shard, first, records } in batches {
            let key = keys::shard(shard);
            let known = bounds.get(shard).or_else(|| journals.bounds.get(&key)).copied();
            let before = known.unwrap_or(JournalBounds { first: *first, next: *first });
            if before.next != *first {
                return Err(StoreError::OutOfOrder { shard: shard.clone(), expected: before.next, actual: *first });
            }
            let mut sizes = records.iter().map(|record| record.payload.len());
            if let Some(bytes) = sizes.find(|bytes| *bytes > MAX_RECORD_BYTES) {
                return Err(StoreError::TooLarge { what: "record", bytes, max: MAX_RECORD_BYTES });
            }
            pairs.extend(journal_entry::encode(&key, *first, records));
            let next = NextOffset(first.0.saturating_add(records.len() as u64));
            bounds.insert(shard.clone(), JournalBounds { next, ..before });
        }
        let bytes = pairs.iter().map(|(key, chunk)| key.len() + chunk.len()).sum();
        if bytes > MAX_APPEND_BYTES {
            return Err(StoreError::TooLarge { what: "append", bytes, max: MAX_APPEND_BYTES });
        }
        self.require_space(bytes, self.options.reserve_bytes)?;
        Ok(PreparedAppend { bounds, pairs })
    }

    /// Writes the bounds of a journal to the file of acknowledged offsets.
    pub(super) fn acknowledge(
        &self,
        journals: &mut Journals,
        shard: &ShardId,
        bounds: JournalBounds,
    ) -> Result<(), StoreError> {
        let written = journals.acknowledged.set(shard, bounds);
        written.map_err(|error| self.writes.mark_failed(format!("cannot write acknowledged offsets: {error}")))?;
        journals.bounds.insert(keys::shard(shard), bounds);
        Ok(())
    }

    /// The bounds of a shard's journal, if it ever had one.
    pub fn journal_bounds(&self, shard: &ShardId) -> Option<JournalBounds> {
        lock(&self.journals).bounds.get(&keys::shard(shard)).copied()
    }

    /// Removes journal entries before `before`, except those that the oldest kept checkpoint needs. Returns the new first
    /// offset.
    pub fn truncate(&self, shard: &ShardId, before: NextOffset) -> Result<Option<NextOffset>, StoreError> {
        let key = keys::shard(shard);
        let manifests = self.manifests(&key)?;
        let manifests = manifests.iter().filter_map(|(_, bytes)| CheckpointManifest::decode(bytes).ok());
        let oldest = manifests.map(|manifest| manifest.next).min();
        let mut journals = lock(&self.journals);
        let Some(bounds) = journals.bounds.get(&key).copied() else { return Ok(None) };
        let Some(first) = oldest.map(|oldest| oldest.min(before).min(bounds.next)).filter(|to| *to > bounds.first)
        else {
            return Ok(Some(bounds.first));
        };
        // Recorded before the removal: surplus entries are harmless, missing ones would be reported as lost.
        self.acknowledge(&mut journals, shard, JournalBounds { first, ..bounds })?;
        drop(journals);
        let keep = if first == bounds.next {
            first.0
        } else {
            self.reads.read(move |db| first_of_entry_with(db, &key, first))?
        };
        while self.writes.run(move |db| remove_entries(db, &key, keep))? == REMOVAL_BATCH {}
        Ok(Some(first))
    }
}

/// Removes up to `REMOVAL_BATCH` chunks of entries before the one at offset `keep`; fewer means that none are left.
fn remove_entries(db: &sled::Db, key: &ShardKey, keep: u64) -> sled::Result<usize> {
    remove_keys(db, db.range(keys::entry(key, 0, 0)..keys::entry(key, keep, 0)).take(REMOVAL_BATCH))
}
