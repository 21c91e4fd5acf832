//! Which shards this instance owns and can answer for, told by the workers, read by everybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::ShardId;

/// One switch for each shard that this instance may come to own.
#[derive(Debug, Clone, Default)]
pub(super) struct Residency {
    shards: Arc<BTreeMap<ShardId, AtomicBool>>,
}

impl Residency {
    pub(super) fn of(shards: impl Iterator<Item = ShardId>) -> Self {
        Self { shards: Arc::new(shards.map(|shard| (shard, AtomicBool::new(false))).collect()) }
    }

    pub(super) fn set(&self, shard: &ShardId, is_here: bool) {
        if let Some(here) = self.shards.get(shard) {
            here.store(is_here, Ordering::Release);
        }
    }

    pub(super) fn is_here(&self, shard: &ShardId) -> bool {
        self.shards.get(shard).is_some_and(|here| here.load(Ordering::Acquire))
    }
}
