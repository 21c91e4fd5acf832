//! Reading a journal: every record in order, or an error that names the missing offsets.

use std::collections::VecDeque;

use super::journal_entry::{ReplayedRecord, StoredEntries};
use super::keys::{self, ShardKey};
use super::{CHUNK_BYTES, JournalBounds, LostRange, NextOffset, ShardId, Store, StoreError, lock};

/// Approximate payload bytes read ahead.
const PAGE_BYTES: usize = 1 << 20;

impl Store {
    /// The records of `shard` from offset `from` on. The caller has everything before `from`, so a journal that is absent or
    /// ends earlier continues at `from`.
    pub fn replay(&self, shard: &ShardId, from: NextOffset) -> Result<JournalReplay<'_>, StoreError> {
        let key = keys::shard(shard);
        let mut journals = lock(&self.journals);
        let bounds = journals.bounds.get(&key).copied().filter(|bounds| bounds.next >= from);
        let bounds = match bounds {
            Some(bounds) => bounds,
            None => {
                let bounds = JournalBounds { first: from, next: from };
                self.acknowledge(&mut journals, shard, bounds)?;
                bounds
            }
        };
        Ok(JournalReplay { store: self, shard: shard.clone(), next: from, bounds, page: VecDeque::new(), gap: None })
    }
}

/// An iterator over the records of a journal. It ends after the last record or after the first error; it never skips one.
#[derive(Debug)]
pub struct JournalReplay<'a> {
    store: &'a Store,
    shard: ShardId,
    next: NextOffset,
    bounds: JournalBounds,
    page: VecDeque<ReplayedRecord>,
    gap: Option<JournalGap>,
}

/// Missing or unreadable entries after the records of a page.
#[derive(Debug)]
struct JournalGap {
    /// The first offset after the gap.
    to: u64,
    cause: String,
}

impl JournalReplay<'_> {
    fn read_page(&mut self) -> Result<(), StoreError> {
        let (key, from, end) = (keys::shard(&self.shard), self.next.0, self.bounds.next.0);
        let (records, gap) = match self.store.reads.read(move |db| Ok(read_page(db, &key, from, end))) {
            Err(StoreError::Damaged(cause)) => (Vec::new(), Some(JournalGap { to: end, cause })),
            page => page?,
        };
        self.page = records.into();
        self.gap = gap;
        Ok(())
    }

    /// Ends the replay with the error for a gap.
    fn end_at(&mut self, gap: JournalGap) -> StoreError {
        let range = LostRange { shard: self.shard.clone(), from: self.next, to: NextOffset(gap.to) };
        self.next = self.bounds.next;
        StoreError::RecordsLost { range, cause: gap.cause }
    }
}

impl Iterator for JournalReplay<'_> {
    type Item = Result<ReplayedRecord, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.is_empty() && self.next < self.bounds.next && self.gap.is_none() {
            if self.next < self.bounds.first {
                let cause = "truncated behind checkpoints".to_owned();
                let gap = JournalGap { to: self.bounds.first.0, cause };
                return Some(Err(self.end_at(gap)));
            }
            if let Err(error) = self.read_page() {
                self.next = self.bounds.next;
                return Some(Err(error));
            }
        }
        if let Some(record) = self.page.pop_front() {
            self.next = NextOffset(record.offset + 1);
            return Some(Ok(record));
        }
        self.gap.take().map(|gap| Err(self.end_at(gap)))
    }
}

/// About a page of records in `from..end`, and the gap behind them, if there is one.
fn read_page(db: &sled::Db, key: &ShardKey, from: u64, end: u64) -> (Vec<ReplayedRecord>, Option<JournalGap>) {
    let mut records: Vec<ReplayedRecord> = Vec::new();
    let (mut next, mut bytes) = (from, 0);
    let first = match first_of_entry_with(db, key, NextOffset(from)) {
        Ok(first) => first,
        Err(error) => return (records, Some(unreadable_gap(db, key, from..end, error.to_string()))),
    };
    for entry in StoredEntries::from(db, key, first) {
        if next >= end || bytes >= PAGE_BYTES {
            return (records, None);
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return (records, Some(unreadable_gap(db, key, next..end, error.to_string()))),
        };
        if entry.first > next {
            return (records, Some(JournalGap { to: entry.first.min(end), cause: "entry is missing".to_owned() }));
        }
        match entry.decode(key) {
            Err(error) => return (records, Some(unreadable_gap(db, key, next..end, error.to_string()))),
            Ok(decoded) => {
                let decoded = decoded.into_iter().filter(|record| (next..end).contains(&record.offset));
                records.extend(decoded.inspect(|read| bytes += read.record.payload.len() + CHUNK_BYTES / 64));
            }
        }
        next = records.last().map_or(next, |last| last.offset + 1);
    }
    let gap = (next < end).then(|| JournalGap { to: end, cause: "journal ends early".to_owned() });
    (records, gap)
}

/// A gap from the start of `range` to the next readable entry. Probes at doubling distances, because damaged pages make a
/// scan stop.
fn unreadable_gap(db: &sled::Db, key: &ShardKey, range: std::ops::Range<u64>, cause: String) -> JournalGap {
    let probes = (0..64).map(|shift| range.start.saturating_add(1 << shift)).take_while(|probe| *probe < range.end);
    let readable = |probe| StoredEntries::from(db, key, probe).next()?.ok();
    let to = probes.filter_map(readable).map(|entry| entry.first).find(|first| *first > range.start);
    JournalGap { to: to.unwrap_or(range.end).min(range.end), cause }
}

/// The first offset of the entry that contains `offset`, or `offset` itself if there is none.
pub(super) fn first_of_entry_with(db: &sled::Db, key: &ShardKey, offset: NextOffset) -> sled::Result<u64> {
    if db.contains_key(keys::entry(key, offset.0, 0))? {
        return Ok(offset.0);
    }
    let before = db.range(keys::entry(key, 0, 0)..keys::entry(key, offset.0, 0)).next_back().transpose()?;
    Ok(before.and_then(|(before, _)| keys::parse(&before)).map_or(offset.0, |(_, first, _)| first))
}
