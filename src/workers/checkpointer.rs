//! The thread that stores checkpoints, so that folding never waits for the disk.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use super::hooks;
use super::messages::StoredCheckpoint;
use crate::metrics::Metrics;
use crate::store::{CheckpointIdentity, ShardId, Store};
use ebb_core::NextOffset;

/// A copy of a shard's state to store.
#[derive(Debug)]
pub(super) struct CheckpointJob {
    pub(super) shard: ShardId,
    pub(super) identity: CheckpointIdentity,
    pub(super) next: NextOffset,
    pub(super) bytes: Vec<u8>,
    /// Receives the result; dropped if the checkpoint could not be stored.
    pub(super) stored: oneshot::Sender<StoredCheckpoint>,
}

/// The checkpoint thread and its queue.
#[derive(Debug)]
pub(super) struct Checkpointer {
    jobs: mpsc::SyncSender<CheckpointJob>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// Starts the thread; `capacity` jobs may wait, each with a copy of a shard.
    pub fn start(store: Arc<Store>, metrics: Metrics, capacity: usize) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::sync_channel::<CheckpointJob>(capacity);
        let thread = thread::Builder::new().name("checkpoints".into()).spawn(move || {
            for job in inbox {
                save(&store, &metrics, job);
            }
        })?;
        Ok(Self { jobs, thread })
    }

    pub(super) fn sender(&self) -> mpsc::SyncSender<CheckpointJob> {
        self.jobs.clone()
    }

    /// Waits until all senders are dropped and the last job is done.
    pub fn join(self) {
        drop(self.jobs);
        if self.thread.join().is_err() {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

fn save(store: &Store, metrics: &Metrics, job: CheckpointJob) {
    let started = Instant::now();
    match store.save(&job.shard, &job.identity, job.next, &job.bytes) {
        Ok(saved) => {
            hooks::reached("after_checkpoint_write");
            let partition = job.shard.partition.to_string();
            let labels = [job.shard.stream.as_str(), partition.as_str()];
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            metrics.checkpoint_time.with_label_values(&labels).set(since_epoch.as_secs_f64());
            metrics.checkpoint_bytes.with_label_values(&labels).set(job.bytes.len() as i64);
            metrics.checkpoint_seconds.observe(started.elapsed().as_secs_f64());
            tracing::debug!(shard = %job.shard, next = job.next.0, generation = saved.generation, "checkpoint stored");
            // The journal is kept from the oldest checkpoint on, so that every kept checkpoint can be replayed.
            if let Err(error) = store.truncate(&job.shard, job.next) {
                tracing::error!(shard = %job.shard, %error, "truncating the journal failed, it keeps growing");
            }
            metrics.store_bytes.set(store.disk_bytes() as i64);
            hooks::reached("after_checkpoint");
            // The worker may have let go of the shard.
            let time_ms = i64::try_from(since_epoch.as_millis()).ok();
            let _ = job.stored.send(StoredCheckpoint { next: job.next, time_ms, bytes: job.bytes.len() as u64 });
        }
        Err(error) => {
            metrics.checkpoint_failures.inc();
            tracing::error!(shard = %job.shard, next = job.next.0, %error, "storing a checkpoint failed, the previous one stays");
        }
    }
}
