//! Status and checkpoints of a stream's partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::oneshot;

use super::messages::{CheckpointProgress, Message, PartitionStatus, QueryError, StoredCheckpoint};
use super::stream::Stream;
use ebb_core::NextOffset;

/// A partition and its newest checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct PartitionCheckpoint {
    pub partition: u32,
    /// None if there is nothing to store.
    pub stored: Option<StoredCheckpoint>,
}

/// Delay between checks whether a checkpoint is stored.
const CHECK_INTERVAL: std::ops::Range<Duration> = Duration::from_millis(2)..Duration::from_millis(200);

impl Stream {
    /// Status of the partitions of this instance.
    pub async fn status(&self) -> Result<Vec<PartitionStatus>, QueryError> {
        let statuses =
            self.each(|slot, reply| Message::Status { slot, reply }, self.owned_partitions().collect()).await?;
        Ok(statuses.into_iter().map(|(_, status)| status).collect())
    }

    /// Checkpoints every partition of this instance at its present position or later; returns when all are stored.
    pub async fn save(&self) -> Result<Vec<PartitionCheckpoint>, QueryError> {
        let mut targets: BTreeMap<usize, Option<NextOffset>> = BTreeMap::new();
        let mut missing: BTreeSet<usize> = self.owned_partitions().collect();
        let mut all = BTreeMap::new();
        let mut delay = CHECK_INTERVAL.start;
        loop {
            let partitions = missing.iter().copied().collect();
            let progress = self.each(|slot, reply| Message::Save { slot, reply }, partitions).await?;
            missing.retain(|partition| progress.iter().any(|(owned, _)| owned == partition));
            for (partition, CheckpointProgress { next, stored }) in progress {
                let target = *targets.entry(partition).or_insert(next);
                if target <= stored.map(|stored| stored.next) {
                    missing.remove(&partition);
                }
                all.insert(partition, PartitionCheckpoint { partition: partition as u32, stored });
            }
            if missing.is_empty() {
                return Ok(all.into_values().collect());
            }
            tokio::time::sleep(delay).await;
            delay = (2 * delay).min(CHECK_INTERVAL.end);
        }
    }

    /// Sends a message to each of these partitions and collects the replies.
    async fn each<T>(
        &self,
        message: impl Fn(usize, oneshot::Sender<T>) -> Message,
        partitions: Vec<usize>,
    ) -> Result<Vec<(usize, T)>, QueryError> {
        let mut replies = Vec::new();
        for partition in partitions {
            let (reply, received) = oneshot::channel();
            let route = &self.routes[partition];
            route.worker.send(message(route.slot, reply)).await.map_err(|_| QueryError::Stopping)?;
            replies.push((partition, received));
        }
        let mut all = Vec::new();
        for (partition, received) in replies {
            match received.await {
                Ok(reply) => all.push((partition, reply)),
                Err(_) if self.is_shared() && !self.is_owned(partition) => {}
                Err(_) => return Err(QueryError::Stopping),
            }
        }
        Ok(all)
    }
}
