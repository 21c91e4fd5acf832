//! Entries of the journal: runs of records of one shard, sealed, and cut into chunks that sled can take.

use ebb_sketch::codec::{CodecError, Kind, Reader, Writer};

use super::keys::{self, ShardKey};
use super::{CHUNK_BYTES, NextOffset};

const ENTRY: Kind = *b"sjnl";
const VERSION: u16 = 1;
/// Records are put together up to about this size.
const ENTRY_BYTES: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;

/// One thing that was recorded: when it arrived and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub timestamp_ms: i64,
    pub payload: Vec<u8>,
}

/// A record and its position in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    pub offset: u64,
    pub record: Record,
}

/// What sled is given for `records`, whose first has position `first`.
pub(super) fn encode(key: &ShardKey, first: NextOffset, records: &[Record]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let mut begin = 0;
    while begin < records.len() {
        let mut bytes = 0;
        let fitting = records[begin..].iter().take_while(|record| {
            let fits = bytes == 0 || bytes + record.payload.len() <= ENTRY_BYTES;
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

fn seal(key: &ShardKey, first: u64, records: &[Record]) -> Vec<u8> {
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

/// The chunks that sled holds for the entry at `first`.
#[derive(Debug)]
pub(super) struct Found {
    pub first: u64,
    framed: Vec<u8>,
    chunks: u32,
    whole: bool,
}

impl Found {
    #[cfg(fuzzing)]
    pub fn of(first: u64, framed: Vec<u8>) -> Self {
        Self { first, framed, chunks: 1, whole: true }
    }

    /// The records, or what is wrong with the entry.
    pub fn decode(&self, key: &ShardKey) -> Result<Vec<Logged>, CodecError> {
        let (length, sealed) = self.framed.split_first_chunk::<LENGTH_BYTES>().ok_or(CodecError::Short)?;
        if !self.whole || u32::from_le_bytes(*length) as usize != sealed.len() {
            return Err(CodecError::Short);
        }
        let mut r = Reader::open(ENTRY, VERSION, sealed)?;
        if r.raw(key.len())? != key || r.u64()? != self.first {
            return Err(CodecError::invalid("entry", "it belongs elsewhere"));
        }
        let count = r.count(9)?;
        let mut records = Vec::with_capacity(count);
        for index in 0..count as u64 {
            let offset = self.first.saturating_add(index);
            let record = Record { timestamp_ms: r.i64()?, payload: r.bytes()?.to_vec() };
            records.push(Logged { offset, record });
        }
        r.finish()?;
        Ok(records)
    }
}

/// Puts the chunks of consecutive entries together again.
pub(super) struct Entries {
    items: sled::Iter,
    begun: Option<Found>,
    failed: Option<sled::Error>,
}

impl Entries {
    /// The entries of a shard from the one at `first` on.
    pub fn from(db: &sled::Db, key: &ShardKey, first: u64) -> Self {
        let items = db.range(keys::entry(key, first, 0)..=keys::entry(key, u64::MAX, u32::MAX));
        Self { items, begun: None, failed: None }
    }
}

impl Iterator for Entries {
    type Item = sled::Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.failed.is_none() {
            let Some(item) = self.items.next() else { break };
            let (key, chunk) = match item {
                Ok(pair) => pair,
                Err(error) => {
                    // The entry before the damage may be whole; its checksum will tell.
                    self.failed = Some(error);
                    break;
                }
            };
            let Some((_, first, index)) = keys::parse(&key) else { continue };
            match &mut self.begun {
                Some(found) if found.first == first => {
                    found.whole &= index == found.chunks;
                    found.chunks += 1;
                    found.framed.extend_from_slice(&chunk);
                }
                begun => {
                    let next = Found { first, framed: chunk.to_vec(), chunks: 1, whole: index == 0 };
                    if let Some(found) = begun.replace(next) {
                        return Some(Ok(found));
                    }
                }
            }
        }
        self.begun.take().map(Ok).or_else(|| self.failed.take().map(Err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunks_of_an_entry_never_change_and_none_is_too_large() {
        let sizes = [0, 1, 5000, 70_000, 3];
        let record = |bytes: &usize| Record { timestamp_ms: -5, payload: vec![7; *bytes] };
        let records: Vec<Record> = sizes.iter().map(record).collect();
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
