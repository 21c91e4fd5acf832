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

    pub(super) fn of_stream(&self, stream: &str) -> Residents {
        Residents { residency: self.clone(), stream: stream.into() }
    }
}

/// The shards of one stream.
#[derive(Debug, Clone)]
pub(super) struct Residents {
    residency: Residency,
    stream: Arc<str>,
}

impl Residents {
    pub(super) fn has(&self, partition: usize) -> bool {
        let Ok(partition) = u32::try_from(partition) else { return false };
        let shard = ShardId { stream: self.stream.to_string(), partition };
        self.residency.shards.get(&shard).is_some_and(|here| here.load(Ordering::Acquire))
    }
}
