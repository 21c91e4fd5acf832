//! Acknowledged offsets, kept outside sled: a file with one slot per shard, overwritten in place after each append.
//!
//! sled recovers a prefix of its log. If the tail was damaged, that prefix is consistent but too short, and nothing in it
//! says so. The slots do: a shard's journal must cover `first..next`, or acknowledged records are lost. The first slot holds
//! the id of the store, so that the sled files of another store are not mistaken for this one's.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::keys::{self, ShardKey};
use super::{JournalBounds, NextOffset, ShardId};

const SLOT_BYTES: usize = 512;
const CHECKSUM_BYTES: usize = 16;
/// Checksum, shard key, two offsets, partition, length of the name.
const HEADER_BYTES: usize = CHECKSUM_BYTES + 16 + 8 + 8 + 4 + 2;

/// A random number drawn when the store was created.
pub(super) type StoreId = [u8; 16];

/// The open file and the slot of each shard.
#[derive(Debug)]
pub(super) struct AcknowledgedFile {
    file: File,
    store_id: Option<StoreId>,
    slots: BTreeMap<ShardKey, u64>,
    /// Unreadable slots, which may be reused.
    free: Vec<u64>,
    slot_count: u64,
}

/// What the file held when it was opened.
#[derive(Debug)]
pub(super) struct AcknowledgedContents {
    pub journals: Vec<(ShardKey, ShardId, JournalBounds)>,
    pub unreadable_slots: usize,
}

impl AcknowledgedFile {
    pub fn open(path: &Path) -> io::Result<(Self, AcknowledgedContents)> {
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut slots = bytes.chunks_exact(SLOT_BYTES);
        let head = slots.next();
        let store_id = head.and_then(decode_store_id);
        let unreadable_slots = usize::from(head.is_some() && store_id.is_none());
        let mut opened = Self { file, store_id, slots: BTreeMap::new(), free: Vec::new(), slot_count: 1 };
        let mut contents = AcknowledgedContents { journals: Vec::new(), unreadable_slots };
        for slot in slots {
            let index = opened.slot_count;
            opened.slot_count += 1;
            match decode(slot) {
                Some((key, shard, bounds)) if !opened.slots.contains_key(&key) => {
                    opened.slots.insert(key, index);
                    contents.journals.push((key, shard, bounds));
                }
                Some(_) | None => {
                    opened.free.push(index);
                    contents.unreadable_slots += 1;
                }
            }
        }
        Ok((opened, contents))
    }

    pub fn store_id(&self) -> Option<StoreId> {
        self.store_id
    }

    pub fn set_store_id(&mut self, store_id: StoreId) -> io::Result<()> {
        if self.store_id != Some(store_id) {
            self.file.write_all_at(&seal(&store_id), 0)?;
            self.store_id = Some(store_id);
        }
        Ok(())
    }

    /// Writes the bounds of a shard's journal. A kill leaves the old slot or the new one.
    pub fn set(&mut self, shard: &ShardId, bounds: JournalBounds) -> io::Result<()> {
        let key = keys::shard(shard);
        let index = match self.slots.get(&key) {
            Some(index) => *index,
            None => self.free.pop().unwrap_or(self.slot_count),
        };
        self.file.write_all_at(&encode(&key, shard, bounds), index * SLOT_BYTES as u64)?;
        self.slot_count = self.slot_count.max(index + 1);
        self.slots.insert(key, index);
        Ok(())
    }
}

fn checksum(slot: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(&slot[CHECKSUM_BYTES..]);
    std::array::from_fn(|i| hash.as_bytes()[i])
}

fn encode(key: &ShardKey, shard: &ShardId, bounds: JournalBounds) -> [u8; SLOT_BYTES] {
    // The name only serves people who read the file; the key identifies the shard.
    let length = shard.stream.len().min(SLOT_BYTES - HEADER_BYTES);
    let name = &shard.stream.as_bytes()[..length];
    let mut body = Vec::with_capacity(SLOT_BYTES);
    body.extend_from_slice(key);
    body.extend_from_slice(&bounds.first.0.to_le_bytes());
    body.extend_from_slice(&bounds.next.0.to_le_bytes());
    body.extend_from_slice(&shard.partition.to_le_bytes());
    body.extend_from_slice(&(length as u16).to_le_bytes());
    body.extend_from_slice(name);
    seal(&body)
}

fn seal(body: &[u8]) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[CHECKSUM_BYTES..CHECKSUM_BYTES + body.len()].copy_from_slice(body);
    let checksum = checksum(&slot);
    slot[..CHECKSUM_BYTES].copy_from_slice(&checksum);
    slot
}

fn unseal(slot: &[u8]) -> Option<&[u8]> {
    let (stored, body) = slot.split_first_chunk::<CHECKSUM_BYTES>()?;
    (*stored == checksum(slot)).then_some(body)
}

fn decode_store_id(slot: &[u8]) -> Option<StoreId> {
    unseal(slot)?.first_chunk().copied()
}

fn decode(slot: &[u8]) -> Option<(ShardKey, ShardId, JournalBounds)> {
    let (key, rest) = unseal(slot)?.split_first_chunk::<16>()?;
    let (first, rest) = rest.split_first_chunk::<8>()?;
    let (next, rest) = rest.split_first_chunk::<8>()?;
    let (partition, rest) = rest.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let name = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
    let stream = String::from_utf8_lossy(name).into_owned();
    let shard = ShardId { stream, partition: u32::from_le_bytes(*partition) };
    let (first, next) = (NextOffset(u64::from_le_bytes(*first)), NextOffset(u64::from_le_bytes(*next)));
    Some((*key, shard, JournalBounds { first, next }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(first: u64, next: u64) -> JournalBounds {
        JournalBounds { first: NextOffset(first), next: NextOffset(next) }
    }

    #[test]
    fn bounds_survive_reopening_and_a_damaged_slot_is_counted_and_reused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acknowledged");
        // The names are longer than a slot and are truncated; the keys still differ.
        let shards = [0, 1, 2].map(|partition| ShardId { stream: "s".repeat(400 * partition + 1), partition: 7 });
        let (mut file, contents) = AcknowledgedFile::open(&path).unwrap();
        assert!(contents.journals.is_empty() && contents.unreadable_slots == 0 && file.store_id().is_none());
        file.set_store_id([5; 16]).unwrap();
        for (index, shard) in shards.iter().enumerate() {
            file.set(shard, bounds(0, 1)).unwrap();
            file.set(shard, bounds(index as u64, 100)).unwrap();
        }
        let (file, contents) = AcknowledgedFile::open(&path).unwrap();
        assert_eq!(file.store_id(), Some([5; 16]));
        let found: Vec<_> = contents.journals.iter().map(|(key, _, bounds)| (*key, *bounds)).collect();
        let expected = [0, 1, 2].map(|index| (keys::shard(&shards[index]), bounds(index as u64, 100)));
        assert_eq!((found.as_slice(), contents.unreadable_slots), (&expected[..], 0));

        let length = std::fs::metadata(&path).unwrap().len();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[2 * SLOT_BYTES + 40] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let (mut file, contents) = AcknowledgedFile::open(&path).unwrap();
        assert_eq!((contents.journals.len(), contents.unreadable_slots), (2, 1));
        file.set(&shards[1], bounds(3, 4)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
        assert_eq!(AcknowledgedFile::open(&path).unwrap().1.unreadable_slots, 0);
    }
}
