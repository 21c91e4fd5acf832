//! Durable state on the local disk: checkpoints of shards, and the journal that is the log when there is no Kafka.
//!
//! The only module that names sled. It stores bytes and offsets. It does not know what a shard contains, when a checkpoint
//! is due, or what to do about a lost record.
//!
//! Guarantees once `save` or `append` has returned `Ok`. They hold when the process dies (tested by killing it) and when the
//! machine dies, as far as `fdatasync` after sled's own flush guarantees it (not tested here):
//! - S1 `load` returns the checkpoint unchanged under the identity it was saved with, or an older kept one, or none. It never
//!   returns bytes that were not saved.
//! - S2 `replay` returns every appended record in order, or [`StoreError::RecordsLost`] with the missing offsets. Acknowledged
//!   offsets are also kept in a file beside sled, so that a log tail dropped by sled is detected.
//! - S3 No call blocks longer than its deadline and no call panics: only the store's own threads touch sled. After an error,
//!   a panic or a timeout while writing the store is [`StoreHealth::Failed`], and every later call returns that at once.
//! - S4 On a full disk a write returns [`StoreError::DiskFull`] before sled sees it, and the next write may succeed. A reserve
//!   file keeps enough space to open the store on a full disk.
//! - S5 The disk holds the kept generations, the journal from the oldest of them on, and a few quarantined stores.

mod acknowledged;
mod checkpoint;
mod directory;
mod error;
#[cfg(fuzzing)]
pub mod fuzzed;
mod generations;
mod journal;
mod journal_entry;
mod keys;
mod manifest;
mod metadata;
mod recovery;
mod replay;
mod report;
mod rescue;
mod sled_thread;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use checkpoint::{CheckpointReceipt, LoadOutcome, LoadedCheckpoint};
pub use error::StoreError;
pub use journal::{JournalBatch, JournalBounds};
pub use journal_entry::{JournalRecord, ReplayedRecord};
pub use manifest::{CheckpointIdentity, CheckpointRefusal};
pub use replay::JournalReplay;
pub use report::{LostRange, OpenReport, QuarantinedStore, StoreHealth};

pub use ebb_core::NextOffset;

use generations::Generations;
use journal::Journals;
use recovery::OpenedStore;
use sled_thread::SledThread;

/// The largest value given to sled. Larger values would leave its log and become files that it neither syncs nor frees.
pub(crate) const CHUNK_BYTES: usize = 4096;

/// One partition of one stream: the owner of a state and a journal.
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

/// Limits and deadlines of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Checkpoints kept per shard (at least 1).
    pub generations: usize,
    /// Longest wait for sled in one call.
    pub deadline: Duration,
    /// Longest wait for recovery in `open`. A store that takes longer is left untouched.
    pub open_deadline: Duration,
    /// Size of sled's page cache.
    pub cache_bytes: u64,
    /// Free disk space that appends never use.
    pub reserve_bytes: u64,
    /// A write needs this many times its size free on the disk. 0 disables the check.
    pub headroom: u64,
    /// Unreadable stores kept for inspection.
    pub max_quarantined: usize,
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
            max_quarantined: 2,
        }
    }
}

/// An open store, shared by reference. Journal and checkpoints may be written by two threads at once; an append waits for
/// at most one batch of a checkpoint.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    options: StoreOptions,
    // Declared, and therefore dropped, before the values behind mutexes: the threads must release sled first.
    writes: SledThread,
    reads: SledThread,
    generations: Mutex<Generations>,
    journals: Mutex<Journals>,
}

impl Store {
    /// Opens the store in `dir`, which is created if absent and locked against other processes.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<(Self, OpenReport), StoreError> {
        let OpenedStore { sled, generations, acknowledged, contents, mut report } = recovery::open(dir, &options)?;
        let (writes, reads) = SledThread::start_pair(sled, options.deadline)?;
        let journals = Journals::open(acknowledged, contents, &reads, &mut report)?;
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

    /// Disk space occupied by the store, without quarantined stores.
    pub fn disk_bytes(&self) -> u64 {
        directory::disk_bytes(&self.dir)
    }

    pub fn health(&self) -> StoreHealth {
        self.writes.health()
    }

    fn require_space(&self, bytes: usize, reserve: u64) -> Result<(), StoreError> {
        if self.options.headroom == 0 {
            return Ok(());
        }
        let needed = (bytes as u64).saturating_mul(self.options.headroom).saturating_add(reserve);
        let free = directory::free_bytes(&self.dir)?;
        if free < needed { Err(StoreError::DiskFull { needed, free }) } else { Ok(()) }
    }
}

/// Locks a mutex and ignores poisoning: the guarded values are only changed by steps that cannot panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
