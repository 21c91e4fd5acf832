//! One thread that stores checkpoints: the fold never waits for the disk.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use super::faults;
use super::message::Stored;
use crate::metrics::Metrics;
use crate::store::{CheckpointIdentity, ShardId, Store};
use ebb_core::NextOffset;

/// A copy of a shard's state, to be stored.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) shard: ShardId,
    pub(super) identity: CheckpointIdentity,
    pub(super) next: NextOffset,
    pub(super) bytes: Vec<u8>,
    /// Told once it is stored; dropped when it could not be.
    pub(super) stored: oneshot::Sender<Stored>,
}

/// The thread and the way to it.
#[derive(Debug)]
pub(super) struct Checkpoints {
    jobs: mpsc::SyncSender<Job>,
    thread: JoinHandle<()>,
}

impl Checkpoints {
    /// `depth` jobs may wait; each holds a copy of a shard.
    pub fn start(store: Arc<Store>, metrics: Metrics, depth: usize) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::sync_channel::<Job>(depth);
        let thread = thread::Builder::new().name("checkpoints".into()).spawn(move || {
            for job in inbox {
                save(&store, &metrics, job);
            }
        })?;
        Ok(Self { jobs, thread })
    }

    pub(super) fn sender(&self) -> mpsc::SyncSender<Job> {
        self.jobs.clone()
    }

    /// Returns when all senders are gone and the last job is done.
    pub fn join(self) {
        drop(self.jobs);
        if self.thread.join().is_err() {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

fn save(store: &Store, metrics: &Metrics, job: Job) {
    let started = Instant::now();
    match store.save(&job.shard, &job.identity, job.next, &job.bytes) {
        Ok(saved) => {
            faults::pass("after_checkpoint_write");
            let partition = job.shard.partition.to_string();
            let labels = [job.shard.stream.as_str(), partition.as_str()];
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            metrics.checkpoint_time.with_label_values(&labels).set(since_epoch.as_secs_f64());
            metrics.checkpoint_bytes.with_label_values(&labels).set(job.bytes.len() as i64);
            metrics.checkpoint_seconds.observe(started.elapsed().as_secs_f64());
            tracing::debug!(shard = %job.shard, next = job.next.0, generation = saved.generation, "checkpoint stored");
            // The journal stays from the oldest kept checkpoint on, so that any of them can be brought up to date.
            if let Err(error) = store.truncate(&job.shard, job.next) {
                tracing::error!(shard = %job.shard, %error, "the journal was not truncated");
            }
            metrics.store_bytes.set(store.disk_bytes() as i64);
            faults::pass("after_checkpoint");
            // Nobody may be waiting any more: that is fine.
            let time_ms = i64::try_from(since_epoch.as_millis()).ok();
            let _ = job.stored.send(Stored { next: job.next, time_ms, bytes: job.bytes.len() as u64 });
        }
        Err(error) => {
            metrics.checkpoint_failures.inc();
            tracing::error!(shard = %job.shard, next = job.next.0, %error, "checkpoint not stored");
        }
    }
}
