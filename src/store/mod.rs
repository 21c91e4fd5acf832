//! What outlives the process: checkpoints of shards, and the journal that is the log when there is no Kafka.
//!
//! The only module that names sled. It knows bytes and positions; what a shard is made of, when a checkpoint is due and
//! what a lost record means is for others to know.
//!
//! Promises, after `save` or `append` has returned `Ok`, for any death of the process (tested by killing it), and for a death
//! of the machine as far as `fdatasync` after sled's own flush can carry it (not tested here):
//! - S1 the checkpoint loads again, whole, under the identity it was saved with, or an older kept one does, or none; bytes
//!   that were not saved are never returned;
//! - S2 every appended record is replayed, in order, or [`StoreError::Lost`] says which positions are gone; what was
//!   acknowledged is noted in a file beside sled, so that a tail that sled forgot is noticed too;
//! - S3 no call waits longer than its deadline and none panics: sled is only touched by the store's own threads, and when
//!   one of them gives no answer, an error or a panic, the store is [`Health::Failed`] and says so at once to every later call;
//! - S4 a full disk refuses the call ([`StoreError::DiskFull`]) before sled sees it, and the next call may succeed; room is
//!   kept for opening the store on a full disk;
//! - S5 the disk holds the kept generations, the journal behind none of them, and at most a few stores set aside.

mod checkpoint;
mod entry;
mod error;
#[cfg(fuzzing)]
pub mod fuzzed;
mod guard;
mod journal;
mod keys;
mod lane;
mod manifest;
mod marks;
mod place;
mod replay;
mod rescue;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use checkpoint::{Checkpoint, Loaded, Saved};
pub use entry::{Logged, Record};
pub use error::StoreError;
pub use journal::{Bounds, JournalBatch};
pub use manifest::{Identity, Refusal};
pub use replay::Replay;

pub use ebb_core::NextOffset;

use checkpoint::Generations;
use guard::Opened;
use journal::Journals;
use lane::Lane;

/// The largest value sled is given: larger log items would leave its log and become files that it neither syncs nor frees.
pub(crate) const CHUNK_BYTES: usize = 4096;

/// Whose bytes: the state or the journal of one partition of one stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId {
    pub stream: String,
    pub partition: u32,
}

impl std::fmt::Display for ShardId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.stream, self.partition)
    }
}

/// How the store behaves; the defaults suit a service.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Checkpoints kept of each shard (at least 1).
    pub generations: usize,
    /// The longest a call waits for sled.
    pub deadline: Duration,
    /// The longest `open` waits for recovery. A store that takes longer is left where it is.
    pub open_deadline: Duration,
    /// Memory sled may use for pages.
    pub cache_bytes: u64,
    /// Free space that appends leave to others.
    pub reserve_bytes: u64,
    /// How many times the bytes of a write must be free before it begins. 0 asks nothing of the disk.
    pub headroom: u64,
    /// Unreadable stores kept for inspection.
    pub set_aside: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            generations: 3,
            deadline: Duration::from_secs(10),
            open_deadline: Duration::from_secs(120),
            cache_bytes: 64 << 20,
            reserve_bytes: 16 << 20,
            headroom: 3,
            set_aside: 2,
        }
    }
}

/// What `open` met. Anything but the default deserves a line in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Why the store that was there could not be read, where it went, and what could be carried over.
    pub set_aside: Option<SetAside>,
    /// What the disk held before the store was written anew, because it had grown far beyond its contents.
    pub compacted_from: Option<u64>,
    /// Half-written files of a killed process that were removed.
    pub stale_files: usize,
    /// Chunks of checkpoints that were never finished, or already pruned, and are now removed.
    pub orphan_chunks: usize,
    /// Acknowledged journal positions that are gone.
    pub lost: Vec<Lost>,
    /// Notes of acknowledged positions that could not be read: losses there would go unnoticed.
    pub unreadable_marks: usize,
}

/// A store that could not be opened, or not be read everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    pub path: PathBuf,
    pub reason: String,
    /// Values that could still be read and were carried over; with none the open store began empty.
    pub rescued: usize,
}

/// Acknowledged positions of a journal that cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub shard: ShardId,
    /// The first position lost.
    pub from: NextOffset,
    /// Where the journal may be read again.
    pub to: NextOffset,
}

/// Whether the store still takes calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    Healthy,
    /// For the rest of the process. sled's locks are global to the process: another store in it may not open either.
    Failed(String),
}

/// An open store. Shared by reference: journal and checkpoints may be written from two threads at once, and an append waits
/// for one step of a checkpoint at most.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    options: StoreOptions,
    // Lanes before the locks' owners: their threads let go of sled when the store is dropped.
    writes: Lane,
    reads: Lane,
    generations: Mutex<Generations>,
    journals: Mutex<Journals>,
}

impl Store {
    /// Opens the store in `dir`, which it creates when absent and shares with nobody.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<(Self, OpenReport), StoreError> {
        let Opened { disk, generations, marks, noted, mut report } = guard::open(dir, &options)?;
        let (writes, reads) = Lane::pair(disk, options.deadline)?;
        let journals = Journals::open(marks, noted, &reads, &mut report)?;
        let store = Self {
            dir: dir.to_owned(),
            options,
            writes,
            reads,
            generations: Mutex::new(generations),
            journals: Mutex::new(journals),
        };
        Ok((store, report))
    }

    /// A small fact under a name, as last put.
    pub fn meta_get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = keys::meta(name);
        let value = self.reads.read(move |db| db.get(key))?;
        value.map(|value| manifest::open_fact(&value)).transpose()
    }

    /// Remembers a small fact; it is on disk when this returns.
    pub fn meta_put(&self, name: &str, fact: &[u8]) -> Result<(), StoreError> {
        let value = manifest::seal_fact(fact);
        let bytes = name.len() + value.len();
        if bytes > CHUNK_BYTES {
            return Err(StoreError::TooLarge { what: "a fact and its name", bytes, most: CHUNK_BYTES });
        }
        self.require_space(bytes, self.options.reserve_bytes)?;
        let key = keys::meta(name);
        self.writes.commit(move |batch| batch.insert(key, value))
    }

    /// What the store occupies, without the stores set aside.
    pub fn disk_bytes(&self) -> u64 {
        place::disk_bytes(&self.dir)
    }

    pub fn health(&self) -> Health {
        self.writes.health()
    }

    fn require_space(&self, bytes: usize, reserve: u64) -> Result<(), StoreError> {
        if self.options.headroom == 0 {
            return Ok(());
        }
        let needed = (bytes as u64).saturating_mul(self.options.headroom).saturating_add(reserve);
        let free = place::free_bytes(&self.dir)?;
        if free < needed { Err(StoreError::DiskFull { needed, free }) } else { Ok(()) }
    }
}

/// The guarded values are only changed by steps that cannot panic half-way, so a poisoned lock still holds sound ones.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
