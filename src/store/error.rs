//! Errors of the store, one variant for each reaction of the caller.

use std::path::PathBuf;

use thiserror::Error;

use super::{LostRange, NextOffset, ShardId};

#[derive(Debug, Error)]
pub enum StoreError {
    /// Nothing was written; the caller may retry later.
    #[error("disk full: {needed} bytes must be free, only {free} are")]
    DiskFull { needed: u64, free: u64 },
    /// The store is unusable until the process is restarted.
    #[error("store failed, restart the service: {0}")]
    Failed(String),
    /// Acknowledged records are missing. The caller may accept the loss and replay from the end of the range.
    #[error("journal of {} lost offsets {} to {} (exclusive): {cause}", range.shard, range.from.0, range.to.0)]
    RecordsLost { range: LostRange, cause: String },
    /// One stored value cannot be read.
    #[error("stored value is damaged: {0}")]
    Damaged(String),
    /// The appended records do not continue the journal.
    #[error("journal of {shard} continues at offset {expected}, not {actual}", expected = expected.0, actual = actual.0)]
    OutOfOrder { shard: ShardId, expected: NextOffset, actual: NextOffset },
    #[error("{what} has {bytes} bytes, the limit is {max}")]
    TooLarge { what: &'static str, bytes: usize, max: usize },
    /// The directory is locked, by another process or by a store of this one.
    #[error("store in {0} is in use by another process")]
    InUse(PathBuf),
    /// The directory is unusable (missing disk, permissions); its contents are not at fault.
    #[error("cannot use {path}: {source}")]
    Directory { path: PathBuf, source: std::io::Error },
}
