//! The condition of a store: what `open` found and repaired, and whether the store still works.

use std::path::PathBuf;

use super::{NextOffset, ShardId};

/// Problems that `open` found. Anything but the default value should be logged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The store could not be read and was replaced.
    pub quarantined: Option<QuarantinedStore>,
    /// Size on disk before the store was rewritten because it had grown far beyond its contents.
    pub compacted_from: Option<u64>,
    /// Temporary files of a killed process that were removed.
    pub removed_files: usize,
    /// Chunks without a manifest that were removed: their checkpoint was never finished, or already pruned.
    pub orphan_chunks: usize,
    /// Acknowledged journal offsets that are missing.
    pub lost: Vec<LostRange>,
    /// Unreadable slots in the file of acknowledged offsets. Losses in those journals cannot be detected.
    pub unreadable_slots: usize,
}

/// A store that could not be opened, or not be read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedStore {
    pub path: PathBuf,
    pub reason: String,
    /// Values copied into the new store. 0 means that the new store began empty.
    pub rescued: usize,
}

/// Acknowledged offsets of a journal that cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRange {
    pub shard: ShardId,
    /// The first lost offset.
    pub from: NextOffset,
    /// The first offset after the gap.
    pub to: NextOffset,
}

/// Whether the store accepts calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreHealth {
    Healthy,
    /// Until the process ends. sled's locks are global to the process, so another store may not open either.
    Failed(String),
}
