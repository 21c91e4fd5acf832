//! What was acknowledged, noted outside sled: a plain file with one slot a shard, overwritten in place after each append.
//!
//! sled recovers a prefix of its log. When the tail was damaged, that prefix is sound and too short, and nothing in it says
//! so. The slots do: the journal of a shard must cover `first..next`, or something acknowledged is gone. The slot in front
//! names the store, so that sled's files of another store are not taken for this one's.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::keys::{self, ShardKey};
use super::{Bounds, NextOffset, ShardId};

const SLOT_BYTES: usize = 512;
const CHECK_BYTES: usize = 16;
/// Check, shard key, two positions, partition, length of the name.
const HEAD_BYTES: usize = CHECK_BYTES + 16 + 8 + 8 + 4 + 2;

/// What makes this store this store: drawn when it was made.
pub(super) type StoreName = [u8; 16];

#[derive(Debug)]
pub(super) struct Marks {
    file: File,
    name: Option<StoreName>,
    places: BTreeMap<ShardKey, u64>,
    /// Slots that hold nothing readable and may be used.
    free: Vec<u64>,
    slots: u64,
}

/// What the file said when it was opened.
#[derive(Debug)]
pub(super) struct Noted {
    pub marks: Vec<(ShardKey, ShardId, Bounds)>,
    pub unreadable: usize,
}

impl Marks {
    pub fn open(path: &Path) -> io::Result<(Self, Noted)> {
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut slots = bytes.chunks_exact(SLOT_BYTES);
        let front = slots.next();
        let name = front.and_then(decode_name);
        let mut marks = Self { file, name, places: BTreeMap::new(), free: Vec::new(), slots: 1 };
        let mut noted = Noted { marks: Vec::new(), unreadable: usize::from(front.is_some() && name.is_none()) };
        for slot in slots {
            let place = marks.slots;
            marks.slots += 1;
            match decode(slot) {
                Some((key, shard, bounds)) if !marks.places.contains_key(&key) => {
                    marks.places.insert(key, place);
                    noted.marks.push((key, shard, bounds));
                }
                _ => {
                    marks.free.push(place);
                    noted.unreadable += 1;
                }
            }
        }
        Ok((marks, noted))
    }

    pub fn name(&self) -> Option<StoreName> {
        self.name
    }

    pub fn set_name(&mut self, name: StoreName) -> io::Result<()> {
        if self.name != Some(name) {
            self.file.write_all_at(&seal(&name), 0)?;
            self.name = Some(name);
        }
        Ok(())
    }

    /// Notes the bounds of a shard's journal. A kill leaves the old slot or the new one.
    pub fn set(&mut self, shard: &ShardId, bounds: Bounds) -> io::Result<()> {
        let key = keys::shard(shard);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => self.free.pop().unwrap_or(self.slots),
        };
        self.file.write_all_at(&encode(&key, shard, bounds), place * SLOT_BYTES as u64)?;
        self.slots = self.slots.max(place + 1);
        self.places.insert(key, place);
        Ok(())
    }
}

fn check(slot: &[u8]) -> [u8; CHECK_BYTES] {
    let hash = blake3::hash(&slot[CHECK_BYTES..]);
    std::array::from_fn(|i| hash.as_bytes()[i])
}

fn encode(key: &ShardKey, shard: &ShardId, bounds: Bounds) -> [u8; SLOT_BYTES] {
    // The name is for people only; the key is what identifies.
    let length = shard.stream.len().min(SLOT_BYTES - HEAD_BYTES);
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
    slot[CHECK_BYTES..CHECK_BYTES + body.len()].copy_from_slice(body);
    let check = check(&slot);
    slot[..CHECK_BYTES].copy_from_slice(&check);
    slot
}

fn unseal(slot: &[u8]) -> Option<&[u8]> {
    let (found, body) = slot.split_first_chunk::<CHECK_BYTES>()?;
    (*found == check(slot)).then_some(body)
}

fn decode_name(slot: &[u8]) -> Option<StoreName> {
    unseal(slot)?.first_chunk().copied()
}

fn decode(slot: &[u8]) -> Option<(ShardKey, ShardId, Bounds)> {
    let (key, rest) = unseal(slot)?.split_first_chunk::<16>()?;
    let (first, rest) = rest.split_first_chunk::<8>()?;
    let (next, rest) = rest.split_first_chunk::<8>()?;
    let (partition, rest) = rest.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let name = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
    let shard =
        ShardId { stream: String::from_utf8_lossy(name).into_owned(), partition: u32::from_le_bytes(*partition) };
    let bounds = Bounds { first: NextOffset(u64::from_le_bytes(*first)), next: NextOffset(u64::from_le_bytes(*next)) };
    Some((*key, shard, bounds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(first: u64, next: u64) -> Bounds {
        Bounds { first: NextOffset(first), next: NextOffset(next) }
    }

    #[test]
    fn what_is_noted_is_read_and_a_damaged_slot_is_counted_and_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acknowledged");
        // A name longer than its place is cut; the key still tells them apart.
        let shards = [0, 1, 2].map(|partition| ShardId { stream: "s".repeat(400 * partition + 1), partition: 7 });
        let (mut marks, noted) = Marks::open(&path).unwrap();
        assert!(noted.marks.is_empty() && noted.unreadable == 0 && marks.name().is_none());
        marks.set_name([5; 16]).unwrap();
        for (index, shard) in shards.iter().enumerate() {
            marks.set(shard, bounds(0, 1)).unwrap();
            marks.set(shard, bounds(index as u64, 100)).unwrap();
        }
        let (marks, noted) = Marks::open(&path).unwrap();
        assert_eq!(marks.name(), Some([5; 16]));
        let found: Vec<_> = noted.marks.iter().map(|(key, _, bounds)| (*key, *bounds)).collect();
        let expected = [0, 1, 2].map(|index| (keys::shard(&shards[index]), bounds(index as u64, 100)));
        assert_eq!((found.as_slice(), noted.unreadable), (&expected[..], 0));

        let length = std::fs::metadata(&path).unwrap().len();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[2 * SLOT_BYTES + 40] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let (mut marks, noted) = Marks::open(&path).unwrap();
        assert_eq!((noted.marks.len(), noted.unreadable), (2, 1));
        marks.set(&shards[1], bounds(3, 4)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
        assert_eq!(Marks::open(&path).unwrap().1.unreadable, 0);
    }
}
