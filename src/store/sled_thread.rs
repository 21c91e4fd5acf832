//! The threads that call sled, so that no other thread can block or panic in it.
//!
//! sled may block for ever on a full disk and may panic on a damaged file. Here a wait ends at the deadline and a panic
//! becomes an error. After either one in a write the store has failed, because the contents of sled are then unknown.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use super::recovery::SledHandle;
use super::{StoreError, StoreHealth, lock};

type SledTask = Box<dyn FnOnce(&SledHandle) + Send>;

/// A thread that runs tasks on sled, one after the other.
#[derive(Debug)]
pub(super) struct SledThread {
    tasks: Option<Sender<SledTask>>,
    /// Signalled when the thread has released sled. Read only in `drop`; the mutex makes the type `Sync`.
    ended: Mutex<Receiver<()>>,
    failure: Arc<OnceLock<String>>,
    suspect: PathBuf,
    deadline: Duration,
}

impl SledThread {
    /// One thread for writing and one for reading, so that a restore does not delay an append.
    pub fn start_pair(sled: SledHandle, deadline: Duration) -> Result<(Self, Self), StoreError> {
        let (sled, failure) = (Arc::new(sled), Arc::new(OnceLock::new()));
        let writes = Self::start("store-write", sled.clone(), failure.clone(), deadline)?;
        Ok((writes, Self::start("store-read", sled, failure, deadline)?))
    }

    fn start(
        name: &str,
        sled: Arc<SledHandle>,
        failure: Arc<OnceLock<String>>,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        let (tasks, queue) = channel::<SledTask>();
        let (end, ended) = sync_channel(1);
        let suspect = sled.suspect.clone();
        let run = move || {
            for task in queue {
                task(&sled);
            }
            // Dropping sled flushes it and may panic.
            let _ = catch_unwind(AssertUnwindSafe(move || drop(sled)));
            let _ = end.send(());
        };
        let fault = |source| StoreError::Directory { path: suspect.clone(), source };
        thread::Builder::new().name(name.to_owned()).spawn(run).map_err(fault)?;
        Ok(Self { tasks: Some(tasks), ended: Mutex::new(ended), failure, suspect, deadline })
    }

    pub fn health(&self) -> StoreHealth {
        self.failure.get().map_or(StoreHealth::Healthy, |reason| StoreHealth::Failed(reason.clone()))
    }

    /// Marks the store as failed until the process ends. Only the first reason is kept.
    pub fn mark_failed(&self, reason: String) -> StoreError {
        self.mark_suspect();
        StoreError::Failed(self.failure.get_or_init(|| reason).clone())
    }

    /// Makes the next `open` read every value. Best effort: without the file `open` only checks less.
    fn mark_suspect(&self) {
        let _ = File::create(&self.suspect);
    }

    /// Runs `task` on the thread. The inner error is the text of an error or panic of sled.
    fn call<T: Send + 'static>(
        &self,
        task: impl FnOnce(&SledHandle) -> sled::Result<T> + Send + 'static,
    ) -> Result<Result<T, String>, StoreError> {
        if let Some(reason) = self.failure.get() {
            return Err(StoreError::Failed(reason.clone()));
        }
        let (reply, answer) = sync_channel(1);
        let task: SledTask = Box::new(move |sled| {
            let _ = reply.send(catch_panic(|| task(sled)));
        });
        let is_sent = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
        match answer.recv_timeout(self.deadline) {
            Ok(outcome) if is_sent => Ok(outcome),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.mark_failed(format!("no answer from sled within {:?}", self.deadline)))
            }
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                Err(self.mark_failed("the store's thread has ended".to_owned()))
            }
        }
    }

    /// Runs a task whose failure leaves the contents of sled unknown, and so fails the store.
    pub fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce(&sled::Db) -> sled::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(|sled| task(&sled.db))?.map_err(|reason| self.mark_failed(reason))
    }

    /// Runs a task that only reads. An error means damage, which the caller handles; the store stays usable.
    pub fn read<T: Send + 'static>(
        &self,
        task: impl FnOnce(&sled::Db) -> sled::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call(|sled| task(&sled.db))?.map_err(|reason| {
            self.mark_suspect();
            StoreError::Damaged(reason)
        })
    }

    /// Applies one atomic batch. It and everything before it is on disk when this returns.
    pub fn commit(&self, fill: impl FnOnce(&mut sled::Batch)) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        fill(&mut batch);
        let task = move |sled: &SledHandle| {
            sled.db.apply_batch(batch)?;
            sled.flush()
        };
        self.call(task)?.map_err(|reason| self.mark_failed(reason))
    }

    /// Applies one atomic batch that a later `commit` makes durable.
    pub fn write(&self, fill: impl FnOnce(&mut sled::Batch)) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        fill(&mut batch);
        self.run(move |db| {
            db.apply_batch(batch)?;
            db.flush().map(drop)
        })
    }
}

impl Drop for SledThread {
    /// Waits until the thread has released sled, unless the thread hangs.
    fn drop(&mut self) {
        self.tasks = None;
        if self.failure.get().is_none() {
            let _ = lock(&self.ended).recv_timeout(self.deadline);
        }
    }
}

/// Runs a call of sled and returns its errors and panics as text.
pub(super) fn catch_panic<T>(task: impl FnOnce() -> sled::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(task)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(format!("sled panicked: {text}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::StoreOptions;
    use super::super::recovery;
    use super::*;

    fn threads(deadline: Duration) -> (tempfile::TempDir, SledThread, SledThread) {
        let dir = tempfile::tempdir().unwrap();
        let sled = recovery::open(dir.path(), &StoreOptions::default()).unwrap().sled;
        let (writes, reads) = SledThread::start_pair(sled, deadline).unwrap();
        (dir, writes, reads)
    }

    #[test]
    fn hanging_write_fails_the_store_at_the_deadline_and_later_calls_at_once() {
        let deadline = Duration::from_millis(100);
        let (_dir, writes, reads) = threads(deadline);
        let (release, blocked) = channel::<()>();
        let begun = Instant::now();
        let hung = writes.run(move |_| Ok(blocked.recv().is_ok()));
        assert!(matches!(&hung, Err(StoreError::Failed(reason)) if reason.contains("no answer")), "{hung:?}");
        assert!(begun.elapsed() >= deadline);
        let begun = Instant::now();
        assert!(matches!(writes.commit(|_| ()), Err(StoreError::Failed(_))));
        assert!(matches!(reads.read(|_| Ok(())), Err(StoreError::Failed(_))));
        assert!(matches!(reads.health(), StoreHealth::Failed(_)));
        drop((writes, reads));
        assert!(begun.elapsed() < deadline, "drop waits for a hanging thread");
        drop(release);
    }

    #[test]
    fn panic_while_reading_is_damage_and_while_writing_a_failure() {
        let (_dir, writes, reads) = threads(Duration::from_secs(5));
        let damaged = reads.read(|_| -> sled::Result<()> { panic!("on purpose") });
        assert!(matches!(&damaged, Err(StoreError::Damaged(cause)) if cause.contains("on purpose")), "{damaged:?}");
        assert_eq!(writes.health(), StoreHealth::Healthy);
        let failed = writes.run(|_| -> sled::Result<()> { panic!("on purpose") });
        assert!(matches!(failed, Err(StoreError::Failed(_))));
        assert!(matches!(reads.read(|_| Ok(())), Err(StoreError::Failed(_))));
    }
}
