//! Reading a journal: every record in order, or the positions that are gone.

use std::collections::VecDeque;

use super::entry::{Entries, Logged};
use super::keys::{self, ShardKey};
use super::{Bounds, CHUNK_BYTES, Lost, NextOffset, ShardId, Store, StoreError, lock};

/// Payload read ahead by a replay.
const PAGE_BYTES: usize = 1 << 20;

impl Store {
    /// The records of `shard` from position `from` on. The caller has everything before `from`: a journal that ends
    /// earlier, or is not there, continues at `from`.
    pub fn replay(&self, shard: &ShardId, from: NextOffset) -> Result<Replay<'_>, StoreError> {
        let key = keys::shard(shard);
        let mut journals = lock(&self.journals);
        let bounds = journals.bounds.get(&key).copied().filter(|bounds| bounds.next >= from);
        let bounds = match bounds {
            Some(bounds) => bounds,
            None => {
                let bounds = Bounds { first: from, next: from };
                self.note(&mut journals, shard, bounds)?;
                bounds
            }
        };
        Ok(Replay { store: self, shard: shard.clone(), at: from, bounds, ahead: VecDeque::new(), gap: None })
    }
}

/// Records in order. Ends after the last, or after the first [`StoreError`]: nothing is ever skipped.
#[derive(Debug)]
pub struct Replay<'a> {
    store: &'a Store,
    shard: ShardId,
    at: NextOffset,
    bounds: Bounds,
    ahead: VecDeque<Logged>,
    gap: Option<Gap>,
}

/// Where a page of records ends too early.
#[derive(Debug)]
struct Gap {
    to: u64,
    why: String,
}

impl Replay<'_> {
    fn read_ahead(&mut self) -> Result<(), StoreError> {
        let (key, at, end) = (keys::shard(&self.shard), self.at.0, self.bounds.next.0);
        let (records, gap) = match self.store.reads.read(move |db| Ok(read_page(db, &key, at, end))) {
            Err(StoreError::Damaged(why)) => (Vec::new(), Some(Gap { to: end, why })),
            page => page?,
        };
        self.ahead = records.into();
        self.gap = gap;
        Ok(())
    }

    fn lose(&mut self, gap: Gap) -> StoreError {
        let lost = Lost { shard: self.shard.clone(), from: self.at, to: NextOffset(gap.to) };
        self.at = self.bounds.next;
        StoreError::Lost { lost, why: gap.why }
    }
}

impl Iterator for Replay<'_> {
    type Item = Result<Logged, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ahead.is_empty() && self.at < self.bounds.next && self.gap.is_none() {
            if self.at < self.bounds.first {
                let gap = Gap { to: self.bounds.first.0, why: "truncated behind checkpoints".to_owned() };
                return Some(Err(self.lose(gap)));
            }
            if let Err(error) = self.read_ahead() {
                self.at = self.bounds.next;
                return Some(Err(error));
            }
        }
        if let Some(logged) = self.ahead.pop_front() {
            self.at = NextOffset(logged.offset + 1);
            return Some(Ok(logged));
        }
        self.gap.take().map(|gap| Err(self.lose(gap)))
    }
}

/// Records from `at` on, about a page of them, and the gap they end at, if so. Stops at `end`.
fn read_page(db: &sled::Db, key: &ShardKey, at: u64, end: u64) -> (Vec<Logged>, Option<Gap>) {
    let mut records: Vec<Logged> = Vec::new();
    let (mut position, mut bytes) = (at, 0);
    let first = match first_needed(db, key, NextOffset(at), false) {
        Ok(first) => first,
        Err(error) => return (records, Some(behind(db, key, at, end, error.to_string()))),
    };
    for found in Entries::from(db, key, first) {
        if position >= end || bytes >= PAGE_BYTES {
            return (records, None);
        }
        let found = match found {
            Ok(found) => found,
            Err(error) => return (records, Some(behind(db, key, position, end, error.to_string()))),
        };
        if found.first > position {
            return (records, Some(Gap { to: found.first.min(end), why: "no entry is there".to_owned() }));
        }
        match found.decode(key) {
            Err(error) => return (records, Some(behind(db, key, position, end, error.to_string()))),
            Ok(logged) => {
                let wanted = logged.into_iter().filter(|logged| (position..end).contains(&logged.offset));
                records.extend(wanted.inspect(|logged| bytes += logged.record.payload.len() + CHUNK_BYTES / 64));
            }
        }
        position = records.last().map_or(position, |last| last.offset + 1);
    }
    let gap = (position < end).then(|| Gap { to: end, why: "the journal ends early".to_owned() });
    (records, gap)
}

/// The gap at `position`, up to the next entry that can be found behind it.
fn behind(db: &sled::Db, key: &ShardKey, position: u64, end: u64, why: String) -> Gap {
    let probes = (0..64).map(|shift| position.saturating_add(1 << shift)).take_while(|probe| *probe < end);
    let readable = |probe| Entries::from(db, key, probe).next()?.ok();
    let to = probes.filter_map(readable).map(|found| found.first).find(|first| *first > position);
    Gap { to: to.unwrap_or(end).min(end), why }
}

/// The entry that holds position `at`: an entry begins before it, unless one begins there or the journal `ends` there.
pub(super) fn first_needed(db: &sled::Db, key: &ShardKey, at: NextOffset, ends: bool) -> sled::Result<u64> {
    if ends || db.contains_key(keys::entry(key, at.0, 0))? {
        return Ok(at.0);
    }
    let before = db.range(keys::entry(key, 0, 0)..keys::entry(key, at.0, 0)).next_back().transpose()?;
    Ok(before.and_then(|(before, _)| keys::parse(&before)).map_or(at.0, |(_, first, _)| first))
}
