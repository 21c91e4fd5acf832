//! Journal entries: consecutive records of one shard, encoded with a checksum and split into chunks for sled.

use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};

use super::keys::{self, ShardKey};
use super::{CHUNK_BYTES, NextOffset};

const ENTRY: Kind = *b"sjnl";
const VERSION: u16 = 1;
/// Approximate size up to which records share an entry.
const TARGET_ENTRY_BYTES: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;

/// A record as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRecord {
    pub timestamp_ms: i64,
    pub payload: Vec<u8>,
}

/// A record with its offset, read back from the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedRecord {
    pub offset: u64,
    pub record: JournalRecord,
}

/// The keys and values that store `records`, the first of which has offset `first`.
pub(super) fn encode(key: &ShardKey, first: NextOffset, records: &[JournalRecord]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let mut begin = 0;
    while begin < records.len() {
        let mut bytes = 0;
        let fitting = records[begin..].iter().take_while(|record| {
            let fits = bytes == 0 || bytes + record.payload.len() <= TARGET_ENTRY_BYTES;
            bytes += record.payload.len() + 16;
            fits
        });
        let end = begin + fitting.count();
        let first = first.0 + begin as u64;
        let sealed = seal(key, first, &records[begin..end]);
        let mut framed = Vec::with_capacity(LENGTH_BYTES + sealed.len());
        framed.extend_from_slice(&(sealed.len() as u32).to_le_bytes());
        framed.extend_from_slice(&sealed);
        let chunks = framed.chunks(CHUNK_BYTES).enumerate();
        pairs.extend(chunks.map(|(index, chunk)| (keys::entry(key, first, index as u32), chunk.to_vec())));
        begin = end;
    }
    pairs
}

fn seal(key: &ShardKey, first: u64, records: &[JournalRecord]) -> Vec<u8> {
    let mut w = Writer::new(ENTRY, VERSION);
    w.raw(key);
    w.u64(first);
    w.varint(records.len() as u64);
    for record in records {
        w.i64(record.timestamp_ms);
        w.bytes(&record.payload);
    }
    w.seal()
}

/// The chunks in sled of the entry that begins at offset `first`.
#[derive(Debug)]
pub(super) struct StoredEntry {
    pub first: u64,
    framed: Vec<u8>,
    chunks: u32,
    is_contiguous: bool,
}

impl StoredEntry {
    #[cfg(fuzzing)]
    pub fn new(first: u64, framed: Vec<u8>) -> Self {
        Self { first, framed, chunks: 1, is_contiguous: true }
    }

    pub fn decode(&self, key: &ShardKey) -> Result<Vec<ReplayedRecord>, CodecError> {
        let (length, sealed) = self.framed.split_first_chunk::<LENGTH_BYTES>().ok_or(CodecError::Truncated)?;
        if !self.is_contiguous || u32::from_le_bytes(*length) as usize != sealed.len() {
            return Err(CodecError::Truncated);
        }
        let mut r = Reader::open(ENTRY, VERSION, sealed)?;
        if r.raw(key.len())? != key || r.u64()? != self.first {
            return Err(CodecError::invalid("entry", "belongs to another shard or offset"));
        }
        let count = r.count(9)?;
        let mut records = Vec::with_capacity(count);
        for index in 0..count as u64 {
            let offset = self.first.saturating_add(index);
            let record = JournalRecord { timestamp_ms: r.i64()?, payload: r.bytes()?.to_vec() };
            records.push(ReplayedRecord { offset, record });
        }
        r.finish()?;
        Ok(records)
    }
}

/// Iterates over stored entries and joins their chunks.
pub(super) struct StoredEntries {
    items: sled::Iter,
    current: Option<StoredEntry>,
    error: Option<sled::Error>,
}

impl StoredEntries {
    /// The entries of a shard from offset `first` on.
    pub fn from(db: &sled::Db, key: &ShardKey, first: u64) -> Self {
        let items = db.range(keys::entry(key, first, 0)..=keys::entry(key, u64::MAX, u32::MAX));
        Self { items, current: None, error: None }
    }
}

impl Iterator for StoredEntries {
    type Item = sled::Result<StoredEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.error.is_none() {
            let Some(item) = self.items.next() else { break };
            let (key, chunk) = match item {
                Ok(pair) => pair,
                Err(error) => {
                    // The entry before the damage may be complete; its checksum decides.
                    self.error = Some(error);
                    break;
                }
            };
            let Some((_, first, index)) = keys::parse(&key) else { continue };
            match &mut self.current {
                Some(entry) if entry.first == first => {
                    entry.is_contiguous &= index == entry.chunks;
                    entry.chunks += 1;
                    entry.framed.extend_from_slice(&chunk);
                }
                current => {
                    let next = StoredEntry { first, framed: chunk.to_vec(), chunks: 1, is_contiguous: index == 0 };
                    if let Some(entry) = current.replace(next) {
                        return Some(Ok(entry));
                    }
                }
            }
        }
        self.current.take().map(Ok).or_else(|| self.error.take().map(Err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_chunks_match_the_golden_hash_and_respect_the_chunk_size() {
        let sizes = [0, 1, 5000, 70_000, 3];
        let record = |bytes: &usize| JournalRecord { timestamp_ms: -5, payload: vec![7; *bytes] };
        let records: Vec<JournalRecord> = sizes.iter().map(record).collect();
        let pairs = encode(&[9; 16], NextOffset(40), &records);
        assert!(pairs.iter().all(|(_, chunk)| chunk.len() <= CHUNK_BYTES));
        let firsts: Vec<u64> =
            pairs.iter().filter_map(|(key, _)| keys::parse(key)).map(|(_, first, _)| first).collect();
        assert_eq!((firsts.first(), firsts.last()), (Some(&40), Some(&44)));
        let mut hasher = blake3::Hasher::new();
        for (key, chunk) in &pairs {
            hasher.update(key);
            hasher.update(chunk);
        }
        assert_eq!(
            hasher.finalize().to_hex().as_str(),
            "d2a1d8d9d73def31e27be0ac213a533078e251e4e15e27bdc9a08cede6680668"
        );
    }
}
