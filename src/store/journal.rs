//! The journal: the log of a service that has no Kafka. Appended before anything is answered, replayed after a restart,
//! truncated behind the oldest kept checkpoint.

use std::collections::BTreeMap;

use super::entry::{self, Entries};
use super::keys::{self, ShardKey};
use super::lane::Lane;
use super::manifest::Manifest;
use super::marks::{Marks, Noted};
use super::replay::first_needed;
use super::{Lost, NextOffset, OpenReport, Record, ShardId, Store, StoreError, lock};

/// The largest payload of one record.
const RECORD_BYTES: usize = 2 << 20;
/// The most one append may carry: it is one batch in memory.
const APPEND_BYTES: usize = 64 << 20;
/// Chunks removed in one step.
const STEP_CHUNKS: usize = 512;

/// Records of one shard that follow its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalBatch {
    pub shard: ShardId,
    /// Where the first record stands.
    pub first: NextOffset,
    pub records: Vec<Record>,
}

/// What a journal covers: `first` is the oldest position kept, `next` where it continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub first: NextOffset,
    pub next: NextOffset,
}

/// The bounds of all journals, and the file that remembers them.
#[derive(Debug)]
pub(super) struct Journals {
    marks: Marks,
    pub bounds: BTreeMap<ShardKey, Bounds>,
}

impl Journals {
    /// Compares what was acknowledged with what is there.
    pub fn open(marks: Marks, noted: Noted, reads: &Lane, report: &mut OpenReport) -> Result<Self, StoreError> {
        let mut bounds = BTreeMap::new();
        for (key, shard, noted) in noted.marks {
            let found = found_bounds(reads, key)?;
            let (first, end) = found.map_or((noted.next, noted.next), |found| (found.first, found.next));
            let mut lose = |from, to| {
                if from < to {
                    report.lost.push(Lost { shard: shard.clone(), from, to });
                }
            };
            match found {
                None => lose(noted.first, noted.next),
                Some(_) => {
                    lose(noted.first, first.min(noted.next));
                    lose(end.max(noted.first), noted.next);
                }
            }
            bounds.insert(key, Bounds { first: noted.first, next: noted.next.max(end) });
        }
        for (key, found) in unmarked(reads, &bounds)? {
            report.unreadable_marks += 1;
            bounds.insert(key, found);
        }
        Ok(Self { marks, bounds })
    }
}

/// An append that may be made: the bounds after it, and what sled is given.
struct Prepared {
    bounds: BTreeMap<ShardId, Bounds>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What sled holds of a shard's journal, by its first and last entries; what cannot be read is not there.
fn found_bounds(reads: &Lane, key: ShardKey) -> Result<Option<Bounds>, StoreError> {
    let found = reads.read(move |db| {
        let Some(first) = Entries::from(db, &key, 0).next().transpose()? else { return Ok(None) };
        let last = db.range(keys::entry(&key, 0, 0)..=keys::entry(&key, u64::MAX, u32::MAX)).next_back().transpose()?;
        let last = last.and_then(|(last, _)| keys::parse(&last)).map_or(first.first, |(_, last, _)| last);
        let entry = Entries::from(db, &key, last).next().transpose()?;
        let records = entry.and_then(|entry| entry.decode(&key).ok()).map_or(0, |records| records.len());
        Ok(Some(Bounds { first: NextOffset(first.first), next: NextOffset(last.saturating_add(records as u64)) }))
    });
    match found {
        Err(StoreError::Damaged(_)) => Ok(None),
        found => found,
    }
}

/// Journals that are there though nothing notes them.
fn unmarked(reads: &Lane, known: &BTreeMap<ShardKey, Bounds>) -> Result<Vec<(ShardKey, Bounds)>, StoreError> {
    let keys = reads.read(move |db| {
        let mut found = Vec::new();
        let mut from = keys::all_entries().to_vec();
        while let Some(item) = db.range(from..).next() {
            let (key, _) = item?;
            let Some((shard, _, _)) = keys::parse(&key).filter(|_| key.starts_with(&keys::all_entries())) else {
                break;
            };
            found.push(shard);
            from = keys::entry(&shard, u64::MAX, u32::MAX);
        }
        Ok(found)
    });
    let keys = match keys {
        Err(StoreError::Damaged(_)) => return Ok(Vec::new()),
        keys => keys?,
    };
    let mut found = Vec::new();
    for key in keys.into_iter().filter(|key| !known.contains_key(key)) {
        found.extend(found_bounds(reads, key)?.map(|bounds| (key, bounds)));
    }
    Ok(found)
}

impl Store {
    /// Appends to the journals of any number of shards, all or nothing; on disk when this returns.
    pub fn append(&self, batches: &[JournalBatch]) -> Result<(), StoreError> {
        let mut journals = lock(&self.journals);
        let Prepared { bounds, pairs } = self.prepare(&journals, batches)?;
        for (shard, after) in &bounds {
            // The slot must exist before there is anything to acknowledge: later the disk may have no room for it.
            if !journals.bounds.contains_key(&keys::shard(shard)) {
                self.note(&mut journals, shard, Bounds { first: after.first, next: after.first })?;
            }
        }
        self.writes.commit(|batch| {
            for (key, chunk) in pairs {
                batch.insert(key, chunk);
            }
        })?;
        for (shard, after) in bounds {
            self.note(&mut journals, &shard, after)?;
        }
        Ok(())
    }

    fn prepare(&self, journals: &Journals, batches: &[JournalBatch]) -> Result<Prepared, StoreError> {
        let mut bounds: BTreeMap<ShardId, Bounds> = BTreeMap::new();
        let mut pairs = Vec::new();
        for JournalBatch { shard, first, records } in batches {
            let key = keys::shard(shard);
            let known = bounds.get(shard).or_else(|| journals.bounds.get(&key)).copied();
            let before = known.unwrap_or(Bounds { first: *first, next: *first });
            if before.next != *first {
                return Err(StoreError::OutOfOrder { shard: shard.clone(), expected: before.next, given: *first });
            }
            if let Some(large) = records.iter().map(|record| record.payload.len()).find(|bytes| *bytes > RECORD_BYTES) {
                return Err(StoreError::TooLarge { what: "a record", bytes: large, most: RECORD_BYTES });
            }
            pairs.extend(entry::encode(&key, *first, records));
            let next = NextOffset(first.0.saturating_add(records.len() as u64));
            bounds.insert(shard.clone(), Bounds { next, ..before });
        }
        let bytes = pairs.iter().map(|(key, chunk)| key.len() + chunk.len()).sum();
        if bytes > APPEND_BYTES {
            return Err(StoreError::TooLarge { what: "an append", bytes, most: APPEND_BYTES });
        }
        self.require_space(bytes, self.options.reserve_bytes)?;
        Ok(Prepared { bounds, pairs })
    }

    pub(super) fn note(&self, journals: &mut Journals, shard: &ShardId, bounds: Bounds) -> Result<(), StoreError> {
        let noted = journals.marks.set(shard, bounds);
        noted.map_err(|error| self.writes.fail(format!("cannot note what was acknowledged: {error}")))?;
        journals.bounds.insert(keys::shard(shard), bounds);
        Ok(())
    }

    /// What the journal of `shard` covers, if it ever had one.
    pub fn journal_bounds(&self, shard: &ShardId) -> Option<Bounds> {
        lock(&self.journals).bounds.get(&keys::shard(shard)).copied()
    }

    /// Forgets the journal before `before`, but nothing that the oldest kept checkpoint would need. Returns where the
    /// journal now begins.
    pub fn truncate(&self, shard: &ShardId, before: NextOffset) -> Result<Option<NextOffset>, StoreError> {
        let key = keys::shard(shard);
        let manifests = self.manifests(&key)?;
        let oldest = manifests.iter().filter_map(|(_, bytes)| Manifest::decode(bytes).ok()).map(|kept| kept.next).min();
        let mut journals = lock(&self.journals);
        let Some(bounds) = journals.bounds.get(&key).copied() else { return Ok(None) };
        let Some(first) = oldest.map(|oldest| oldest.min(before).min(bounds.next)).filter(|to| *to > bounds.first)
        else {
            return Ok(Some(bounds.first));
        };
        // Noted before anything is removed: entries too many are harmless, too few would look like a loss.
        self.note(&mut journals, shard, Bounds { first, ..bounds })?;
        drop(journals);
        let ends = first == bounds.next;
        let keep = self.reads.read(move |db| first_needed(db, &key, first, ends))?;
        while self.writes.call_within(self.options.deadline, move |db| remove_step(db, &key, keep))? == STEP_CHUNKS {}
        Ok(Some(first))
    }
}

fn remove_step(db: &sled::Db, key: &ShardKey, keep: u64) -> sled::Result<usize> {
    let mut batch = sled::Batch::default();
    let mut count = 0;
    for item in db.range(keys::entry(key, 0, 0)..keys::entry(key, keep, 0)).take(STEP_CHUNKS) {
        batch.remove(item?.0);
        count += 1;
    }
    if count > 0 {
        db.apply_batch(batch)?;
        db.flush()?;
    }
    Ok(count)
}
