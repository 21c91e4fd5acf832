//! The threads of the workers: how they start and stop, and what happens when one fails.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};

use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

use super::checkpointer::{CheckpointJob, Checkpointer};
use super::journal::Journal;
use super::kafka::ShutdownFlags;
use super::log::Log;
use super::messages::Message;
use super::partition_cell::{PartitionCell, PhaseChanges};
use super::slot::PartitionSlot;
use super::stream::Readiness;
use super::worker::Worker;
use crate::metrics::Metrics;
use crate::store::{ShardId, Store};
use ebb_core::Plan;
use ebb_core::partition::PartitionEvent;

/// Messages that may wait for one worker.
const QUEUE_CAPACITY: usize = 1024;

/// Why the workers did not start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("starting a worker thread failed: {0}")]
    Thread(#[from] std::io::Error),
    #[error(transparent)]
    Kafka(#[from] crate::kafka::Fault),
}

/// What all workers share.
#[derive(Debug, Clone)]
pub struct WorkersOptions {
    pub store: Arc<Store>,
    pub metrics: Metrics,
}

/// The running threads. Dropping it without [`Workers::stop`] loses nothing that was answered: the log has it.
#[derive(Debug)]
pub struct Workers {
    senders: Vec<mpsc::Sender<Message>>,
    threads: Vec<JoinHandle<()>>,
    checkpointer: Checkpointer,
    store: Arc<Store>,
    /// All partitions, by shard, in the order in which they were added.
    pub(super) cells: Vec<Arc<PartitionCell>>,
    pub(super) phase_changes: PhaseChanges,
    panics: (mpsc::Sender<String>, tokio::sync::Mutex<mpsc::Receiver<String>>),
    /// The thread that polls Kafka, if records come from there.
    pub(super) poller: Option<Poller>,
}

/// The thread that polls Kafka.
#[derive(Debug)]
pub(super) struct Poller {
    pub(super) shutdown: ShutdownFlags,
    pub(super) thread: JoinHandle<()>,
    /// The state of the membership in the group.
    pub(super) membership: watch::Receiver<Readiness>,
    /// Why polling ended, once it has.
    pub(super) failure: watch::Receiver<Option<String>>,
}

/// Reports its thread when that panics.
struct PanicGuard {
    thread: String,
    panics: mpsc::Sender<String>,
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            // Full means that another panic is reported already.
            let _ = self.panics.try_send(std::mem::take(&mut self.thread));
        }
    }
}

impl Workers {
    pub(super) fn without_threads(options: &WorkersOptions) -> Result<Self, StartError> {
        let checkpointer = Checkpointer::start(options.store.clone(), options.metrics.clone(), 1)?;
        let (panicked, panics) = mpsc::channel(1);
        Ok(Self {
            senders: Vec::new(),
            threads: Vec::new(),
            checkpointer,
            store: options.store.clone(),
            cells: Vec::new(),
            phase_changes: PhaseChanges::default(),
            panics: (panicked, tokio::sync::Mutex::new(panics)),
            poller: None,
        })
    }

    /// Starts one worker over the journal for each list of shards; they are restored in the background. Has to be called
    /// within the runtime of the clients.
    pub fn start(options: &WorkersOptions, lists: Vec<Vec<(ShardId, Arc<Plan>)>>) -> Result<Self, StartError> {
        let mut workers = Self::without_threads(options)?;
        for list in lists {
            let mut slots = Vec::new();
            for (id, plan) in list {
                let cell = workers.add_cell(id.clone());
                cell.step(PartitionEvent::Assigned);
                slots.push(PartitionSlot { id, plan, cell, source: (), loaded: None });
            }
            workers.spawn_worker(options, slots, Journal)?;
        }
        Ok(workers)
    }

    pub(super) fn add_cell(&mut self, id: ShardId) -> Arc<PartitionCell> {
        let cell = PartitionCell::new(id, self.phase_changes.clone());
        self.cells.push(cell.clone());
        cell
    }

    pub(super) fn spawn_worker<L: Log + Send + 'static>(
        &mut self,
        options: &WorkersOptions,
        slots: Vec<PartitionSlot<L>>,
        log: L,
    ) -> Result<(), StartError>
    where
        PartitionSlot<L>: Send,
    {
        let (sender, inbox) = mpsc::channel(QUEUE_CAPACITY);
        let index = self.senders.len();
        let worker = Worker::new(index, slots, log, options.clone(), self.checkpointer());
        let thread = self.spawn(format!("worker-{index}"), move || worker.run(inbox))?;
        self.threads.push(thread);
        self.senders.push(sender);
        Ok(())
    }

    /// Starts a thread whose panic ends the service: what it owns would have no owner (W5).
    pub(super) fn spawn(&self, name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
        let guard = PanicGuard { thread: name.clone(), panics: self.panics.0.clone() };
        thread::Builder::new().name(name).spawn(move || {
            let _guard = guard;
            run();
        })
    }

    fn checkpointer(&self) -> SyncSender<CheckpointJob> {
        self.checkpointer.sender()
    }

    pub(super) fn sender(&self, worker: usize) -> mpsc::Sender<Message> {
        self.senders[worker].clone()
    }

    pub(super) fn cell(&self, stream: &str, partition: u32) -> Arc<PartitionCell> {
        let cell = self.cells.iter().find(|cell| cell.id().stream == stream && cell.id().partition == partition);
        cell.expect("every placed shard has a cell").clone()
    }

    pub(super) fn store(&self) -> Arc<Store> {
        self.store.clone()
    }

    /// Requests checkpoints from every worker; does not wait for them.
    pub async fn request_checkpoints(&self) {
        for sender in &self.senders {
            // A closed queue means that the worker has ended, and the service is about to.
            let _ = sender.send(Message::Checkpoint).await;
        }
    }

    /// Resolves when the workers cannot go on, with the reason.
    pub async fn ended(&self) -> String {
        tokio::select! {
            reason = self.polling_failed() => reason,
            thread = self.thread_panicked() => format!("thread {thread} panicked; its partitions have no owner"),
        }
    }

    async fn polling_failed(&self) -> String {
        let Some(poller) = &self.poller else { return std::future::pending().await };
        let mut failure = poller.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => format!("kafka: {}", reason.as_deref().unwrap_or_default()),
            Err(_) => std::future::pending().await,
        }
    }

    async fn thread_panicked(&self) -> String {
        match self.panics.1.lock().await.recv().await {
            Some(thread) => thread,
            None => std::future::pending().await,
        }
    }

    /// Takes the last checkpoints and ends the threads. Messages sent before are still handled.
    pub async fn stop(self) {
        if let Some(poller) = &self.poller {
            poller.shutdown.is_stopping.store(true, Ordering::Release);
        }
        let mut replies = Vec::new();
        for sender in &self.senders {
            let (reply, done) = oneshot::channel();
            if sender.send(Message::Stop { reply }).await.is_ok() {
                replies.push(done);
            }
        }
        for done in replies {
            let _ = done.await;
        }
        let Self { senders, mut threads, checkpointer, poller, .. } = self;
        drop(senders);
        let joined = tokio::task::spawn_blocking(move || {
            let mut panicked = threads.drain(..).map(JoinHandle::join).filter(Result::is_err).count();
            if let Some(poller) = poller {
                poller.shutdown.workers_ended.store(true, Ordering::Release);
                panicked += usize::from(poller.thread.join().is_err());
            }
            checkpointer.join();
            panicked
        });
        if !matches!(joined.await, Ok(0)) {
            tracing::error!("a worker panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::StoreOptions;

    #[tokio::test]
    async fn panic_of_a_thread_ends_the_service_and_a_regular_end_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, _) = Store::open(folder.path(), StoreOptions::default()).expect("a store");
        let options = WorkersOptions { store: Arc::new(store), metrics: Metrics::new() };
        let workers = Workers::without_threads(&options).expect("started");
        let ended = || tokio::time::timeout(Duration::from_millis(300), workers.ended());
        workers.spawn("regular".into(), || {}).expect("a thread").join().expect("no panic");
        assert!(ended().await.is_err(), "a thread that returns is no failure");
        let panicking = workers.spawn("owner".into(), || panic!("on purpose")).expect("a thread");
        assert!(panicking.join().is_err());
        assert_eq!(ended().await.expect("reported"), "thread owner panicked; its partitions have no owner");
        workers.stop().await;
    }
}
