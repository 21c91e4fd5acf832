//! States to the disk and to the snapshot topic: only what is committed goes there (K4).

use std::time::{Duration, Instant};

use super::super::faults;
use super::tenant::Owned;
use super::worker::KafkaWorker;

impl KafkaWorker {
    /// Takes the checkpoints that are wanted, as far as the disk keeps up. Only what is committed goes into one (K4).
    pub(super) fn checkpoint(&mut self) {
        for tenant in &mut self.tenants {
            if tenant.owned().is_some_and(|owned| owned.wants_checkpoint && !owned.is_dirty()) {
                tenant.checkpoint(&self.links.jobs);
            }
        }
        if let Some(every) = self.links.options.snapshots.as_ref().map(|topic| topic.every) {
            (0..self.tenants.len()).for_each(|shard| self.snapshot(shard, every));
        }
    }

    /// Leaves a state for the next owner, unless the last one is newer than `age`. Only what is committed, as above.
    pub(super) fn snapshot(&mut self, shard: usize, age: Duration) {
        let Some(topic) = &self.links.options.snapshots else { return };
        let tenant = &mut self.tenants[shard];
        let (id, identity) = (tenant.id.clone(), tenant.identity());
        let Some(owned) = tenant.owned().filter(|owned| !owned.is_dirty() && owned.last.is_some()) else { return };
        let next = owned.shard.next();
        if owned.snapshot.0.elapsed() < age || owned.snapshot.1 == next {
            return;
        }
        faults::pass("before_snapshot");
        owned.snapshot = (Instant::now(), next);
        let (settings, bytes) = (&self.links.options.settings, owned.encode());
        match self.snapshots.write(settings, topic, (&id, &identity, next), &bytes) {
            Ok(()) => self.links.metrics.snapshots.inc(),
            Err(fault) => tracing::warn!(shard = %id, %fault, "snapshot not written"),
        }
        faults::pass("after_snapshot");
    }

    /// Takes one checkpoint of everything, one after the other.
    pub(super) fn last_checkpoints(&mut self) {
        for tenant in &mut self.tenants {
            if tenant.owned().is_some_and(|owned| !owned.is_dirty()) {
                tenant.checkpoint(&self.links.jobs);
                tenant.owned().into_iter().for_each(Owned::await_checkpoint);
            }
        }
    }
}
