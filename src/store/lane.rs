//! Threads that touch sled so that nobody else has to: work goes in, an answer comes back within a deadline.
//!
//! sled may wait for ever (a full disk), and may panic (a damaged file). Here a wait ends at the deadline and a panic
//! becomes an error; after either on the writing side the store has failed, because what sled holds is then unknown.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use super::guard::Disk;
use super::{Health, StoreError, lock};

type Work = Box<dyn FnOnce(&Disk) + Send>;

/// One thread with sled in its hands.
#[derive(Debug)]
pub(super) struct Lane {
    work: Option<Sender<Work>>,
    /// Only listened to when the lane is dropped; the mutex makes the lane shareable.
    ended: Mutex<Receiver<()>>,
    failed: Arc<OnceLock<String>>,
    suspect: PathBuf,
    deadline: Duration,
}

impl Lane {
    /// One lane for writing and one for reading: a restore does not stand in the way of an append.
    pub fn pair(disk: Disk, deadline: Duration) -> Result<(Self, Self), StoreError> {
        let (disk, failed) = (Arc::new(disk), Arc::new(OnceLock::new()));
        let writes = Self::start("store-write", disk.clone(), failed.clone(), deadline)?;
        Ok((writes, Self::start("store-read", disk, failed, deadline)?))
    }

    fn start(
        name: &str,
        disk: Arc<Disk>,
        failed: Arc<OnceLock<String>>,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        let (work, todo) = channel::<Work>();
        let (end, ended) = sync_channel(1);
        let suspect = disk.suspect.clone();
        let run = move || {
            for work in todo {
                work(&disk);
            }
            // Letting go of sled flushes it, and may panic like any other touch.
            let _ = catch_unwind(AssertUnwindSafe(move || drop(disk)));
            let _ = end.send(());
        };
        let fault = |source| StoreError::Place { path: suspect.clone(), source };
        thread::Builder::new().name(name.to_owned()).spawn(run).map_err(fault)?;
        Ok(Self { work: Some(work), ended: Mutex::new(ended), failed, suspect, deadline })
    }

    pub fn health(&self) -> Health {
        self.failed.get().map_or(Health::Healthy, |reason| Health::Failed(reason.clone()))
    }

    /// Marks the store failed for good; the first reason stays.
    pub fn fail(&self, reason: String) -> StoreError {
        self.suspect_damage();
        StoreError::Failed(self.failed.get_or_init(|| reason).clone())
    }

    /// Best effort: without the file the next opening only looks less closely.
    fn suspect_damage(&self) {
        let _ = File::create(&self.suspect);
    }

    /// Runs `work` on the lane's thread. An error or a panic of sled comes back as text.
    fn run<T: Send + 'static>(
        &self,
        deadline: Duration,
        work: impl FnOnce(&Disk) -> sled::Result<T> + Send + 'static,
    ) -> Result<Result<T, String>, StoreError> {
        if let Some(reason) = self.failed.get() {
            return Err(StoreError::Failed(reason.clone()));
        }
        let (reply, answer) = sync_channel(1);
        let work: Work = Box::new(move |disk| {
            let _ = reply.send(contain(|| work(disk)));
        });
        let sent = self.work.as_ref().is_some_and(|lane| lane.send(work).is_ok());
        match answer.recv_timeout(deadline) {
            Ok(outcome) if sent => Ok(outcome),
            Err(RecvTimeoutError::Timeout) => Err(self.fail(format!("no answer from sled within {deadline:?}"))),
            _ => Err(self.fail("the store's thread has ended".to_owned())),
        }
    }

    /// For steps after which a failure leaves sled in doubt.
    pub fn call_within<T: Send + 'static>(
        &self,
        deadline: Duration,
        work: impl FnOnce(&sled::Db) -> sled::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run(deadline, |disk| work(&disk.db))?.map_err(|reason| self.fail(reason))
    }

    /// For reading: damage that is met is the caller's to judge, the store goes on.
    pub fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&sled::Db) -> sled::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run(self.deadline, |disk| work(&disk.db))?.map_err(|reason| {
            self.suspect_damage();
            StoreError::Damaged(reason)
        })
    }

    /// One atomic batch, and everything before it, on disk when this returns.
    pub fn commit(&self, fill: impl FnOnce(&mut sled::Batch)) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        fill(&mut batch);
        let work = move |disk: &Disk| {
            disk.db.apply_batch(batch)?;
            disk.flush()
        };
        self.run(self.deadline, work)?.map_err(|reason| self.fail(reason))
    }

    /// One atomic batch of something larger, which a later `commit` makes durable.
    pub fn step(&self, fill: impl FnOnce(&mut sled::Batch)) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        fill(&mut batch);
        self.call_within(self.deadline, move |db| {
            db.apply_batch(batch)?;
            db.flush().map(drop)
        })
    }
}

impl Drop for Lane {
    /// Waits until the thread has let go of sled, unless it hangs.
    fn drop(&mut self) {
        self.work = None;
        if self.failed.get().is_none() {
            let _ = lock(&self.ended).recv_timeout(self.deadline);
        }
    }
}

/// Runs something that touches sled: its errors and panics become text.
pub(super) fn contain<T>(work: impl FnOnce() -> sled::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
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
    use super::super::guard;
    use super::*;

    fn lanes(deadline: Duration) -> (tempfile::TempDir, Lane, Lane) {
        let dir = tempfile::tempdir().unwrap();
        let disk = guard::open(dir.path(), &StoreOptions::default()).unwrap().disk;
        let (writes, reads) = Lane::pair(disk, deadline).unwrap();
        (dir, writes, reads)
    }

    #[test]
    fn work_that_never_ends_fails_the_store_at_the_deadline_and_every_later_call_at_once() {
        let deadline = Duration::from_millis(100);
        let (_dir, writes, reads) = lanes(deadline);
        let (release, blocked) = channel::<()>();
        let begun = Instant::now();
        let hung = writes.call_within(deadline, move |_| Ok(blocked.recv().is_ok()));
        assert!(matches!(&hung, Err(StoreError::Failed(why)) if why.contains("no answer")), "{hung:?}");
        assert!(begun.elapsed() >= deadline);
        let begun = Instant::now();
        assert!(matches!(writes.commit(|_| ()), Err(StoreError::Failed(_))));
        assert!(matches!(reads.read(|_| Ok(())), Err(StoreError::Failed(_))));
        assert!(matches!(reads.health(), Health::Failed(_)));
        drop((writes, reads));
        assert!(begun.elapsed() < deadline, "nobody waits for a thread that hangs");
        drop(release);
    }

    #[test]
    fn a_panic_while_reading_is_damage_and_while_writing_a_failure() {
        let (_dir, writes, reads) = lanes(Duration::from_secs(5));
        let damaged = reads.read(|_| -> sled::Result<()> { panic!("on purpose") });
        assert!(matches!(&damaged, Err(StoreError::Damaged(why)) if why.contains("on purpose")), "{damaged:?}");
        assert_eq!(writes.health(), Health::Healthy);
        let failed = writes.call_within(Duration::from_secs(5), |_| -> sled::Result<()> { panic!("on purpose") });
        assert!(matches!(failed, Err(StoreError::Failed(_))));
        assert!(matches!(reads.read(|_| Ok(())), Err(StoreError::Failed(_))));
    }
}
