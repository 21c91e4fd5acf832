//! What a call of the store may end in, by what the caller does next.

use std::path::PathBuf;

use thiserror::Error;

use super::{Lost, NextOffset, ShardId};

#[derive(Debug, Error)]
pub enum StoreError {
    /// Try again later: nothing was written and nothing is broken.
    #[error("the disk is full: {needed} bytes must be free, {free} are")]
    DiskFull { needed: u64, free: u64 },
    /// Go on without the store; it will not come back in this process.
    #[error("the store has failed: {0}")]
    Failed(String),
    /// Acknowledged records are gone. Replaying from `to` continues behind the gap, if that is acceptable.
    #[error("the journal of {} lost positions {} to {} (exclusive): {why}", lost.shard, lost.from.0, lost.to.0)]
    Lost { lost: Lost, why: String },
    /// Something small that was stored cannot be read.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The caller's records do not follow the journal.
    #[error("the journal of {shard} continues at {expected}, not at {given}", expected = expected.0, given = given.0)]
    OutOfOrder { shard: ShardId, expected: NextOffset, given: NextOffset },
    #[error("{what} of {bytes} bytes is too large: at most {most}")]
    TooLarge { what: &'static str, bytes: usize, most: usize },
    /// Another process has it, or this one still does.
    #[error("the store in {0} is in use by another process")]
    InUse(PathBuf),
    /// The place itself is at fault (absent disk, permissions), not what is stored there.
    #[error("cannot use {path}: {source}")]
    Place { path: PathBuf, source: std::io::Error },
}
