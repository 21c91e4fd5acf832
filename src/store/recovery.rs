//! Opening sled after it may have been killed, damaged or locked.
//!
//! A store that does not open is quarantined and replaced by an empty one. A store that opens but cannot be read completely
//! is replaced by a copy of its readable values. A store far larger than its contents is replaced by a copy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use super::acknowledged::{AcknowledgedContents, AcknowledgedFile, StoreId};
use super::directory::{self, LOCK_RETRY_INTERVAL, LOCK_TIMEOUT};
use super::generations::Generations;
use super::sled_thread::catch_panic;
use super::{OpenReport, QuarantinedStore, StoreError, StoreOptions, keys, rescue};

/// An open sled and the lock on its directory, released in this order.
#[derive(Debug)]
pub(super) struct SledHandle {
    pub db: sled::Db,
    /// sled's log file, synced after each flush: sled's own flush may end in the device's cache.
    log: fs::File,
    /// Created when damage is found, so that the next `open` reads every value.
    pub suspect: PathBuf,
    _lock: fs::File,
}

impl SledHandle {
    /// Makes everything applied so far survive the death of the process and, if the disk honours syncs, of the machine.
    pub fn flush(&self) -> sled::Result<()> {
        self.db.flush()?;
        self.log.sync_data().map_err(sled::Error::Io)
    }
}

/// The parts of a store after opening.
#[derive(Debug)]
pub(super) struct OpenedStore {
    pub sled: SledHandle,
    pub generations: Generations,
    pub acknowledged: AcknowledgedFile,
    pub contents: AcknowledgedContents,
    pub report: OpenReport,
}

/// Result of one attempt to open sled.
enum OpenOutcome {
    Usable(Box<UsableSled>),
    /// sled does not open, or its files belong to another store.
    Unopenable(String),
    /// sled opens but cannot be read completely; its readable values were copied.
    Damaged {
        reason: String,
        rescued: usize,
    },
    /// sled is intact but far larger than its contents; a copy was made.
    Bloated,
}

struct UsableSled {
    db: sled::Db,
    store_id: StoreId,
    generations: Generations,
}

/// Result of inspecting an open sled.
enum Inspection {
    Usable(StoreId, Generations),
    Rejected(OpenOutcome),
}

/// Parameters of an attempt to open sled.
#[derive(Clone)]
struct OpenAttempt {
    dir: PathBuf,
    options: StoreOptions,
    store_id: Option<StoreId>,
    /// Damage was found before: read every value.
    is_suspect: bool,
    may_compact: bool,
}

pub(super) fn open(dir: &Path, options: &StoreOptions) -> Result<OpenedStore, StoreError> {
    let fault = |source| StoreError::Directory { path: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(fault)?;
    let lock = directory::lock_directory(dir)?;
    directory::adopt_rescued_store(dir, options.max_quarantined).map_err(fault)?;
    let path = directory::db_path(dir);
    let removed_files = directory::remove_partial_snapshots(&path).map_err(fault)?;
    let (mut acknowledged, contents) = AcknowledgedFile::open(&directory::acknowledged_path(dir)).map_err(fault)?;
    let suspect = directory::suspect_path(dir);
    let attempt = OpenAttempt {
        dir: dir.to_owned(),
        options: options.clone(),
        store_id: acknowledged.store_id(),
        is_suspect: suspect.exists(),
        may_compact: true,
    };
    let mut report = OpenReport { removed_files, unreadable_slots: contents.unreadable_slots, ..OpenReport::default() };
    let outcome = attempt.run()?;
    let usable = attempt.resolve(outcome, &mut report)?;
    acknowledged.set_store_id(usable.store_id).map_err(fault)?;
    if attempt.is_suspect {
        fs::remove_file(&suspect).map_err(fault)?;
    }
    directory::allocate_reserve(dir);
    report.orphan_chunks = usable.generations.orphan_chunks;
    let log = fs::File::open(path.join("db")).map_err(fault)?;
    let sled = SledHandle { db: usable.db, log, suspect, _lock: lock };
    Ok(OpenedStore { sled, generations: usable.generations, acknowledged, contents, report })
}

impl OpenAttempt {
    fn fault(&self) -> impl Fn(io::Error) -> StoreError + use<> {
        let path = self.dir.clone();
        move |source| StoreError::Directory { path: path.clone(), source }
    }

    /// Opens sled. Retries without the reserve on a full disk, and without derived files if sled does not open.
    fn run(&self) -> Result<OpenOutcome, StoreError> {
        let outcome = match self.open_when_unlocked() {
            Err(StoreError::Directory { .. }) if directory::release_reserve(&self.dir) => self.open_when_unlocked()?,
            outcome => outcome?,
        };
        let is_unopenable = matches!(outcome, OpenOutcome::Unopenable(_));
        let path = directory::db_path(&self.dir);
        if is_unopenable && directory::hide_derived_files(&path).map_err(self.fault())? > 0 {
            return self.open_when_unlocked();
        }
        Ok(outcome)
    }

    /// Replaces a store that cannot be used as it is, and opens the replacement.
    fn resolve(&self, outcome: OpenOutcome, report: &mut OpenReport) -> Result<Box<UsableSled>, StoreError> {
        let (dir, keep) = (&self.dir, self.options.max_quarantined);
        match outcome {
            OpenOutcome::Usable(usable) => return Ok(usable),
            OpenOutcome::Unopenable(reason) => {
                let path = directory::quarantine(dir, keep).map_err(self.fault())?;
                report.quarantined = Some(QuarantinedStore { path, reason, rescued: 0 });
            }
            OpenOutcome::Bloated => {
                report.compacted_from = Some(directory::disk_bytes(dir));
                let original = directory::adopt_rescued_store(dir, keep).map_err(self.fault())?;
                original.map_or(Ok(()), fs::remove_dir_all).map_err(self.fault())?;
            }
            OpenOutcome::Damaged { reason, rescued } => {
                let path = directory::adopt_rescued_store(dir, keep).map_err(self.fault())?.unwrap_or_default();
                report.quarantined = Some(QuarantinedStore { path, reason, rescued });
            }
        }
        match (Self { is_suspect: false, may_compact: false, ..self.clone() }).open_when_unlocked()? {
            OpenOutcome::Usable(usable) => Ok(usable),
            OpenOutcome::Unopenable(reason) | OpenOutcome::Damaged { reason, .. } => Err(StoreError::Failed(reason)),
            OpenOutcome::Bloated => Err(StoreError::Failed("bloated directly after it was rewritten".to_owned())),
        }
    }

    /// Waits for sled's lock. On an error the contents are not at fault and stay untouched.
    fn open_when_unlocked(&self) -> Result<OpenOutcome, StoreError> {
        let path = directory::db_path(&self.dir);
        let begun = Instant::now();
        loop {
            let outcome = self.open_with_deadline()?;
            let OpenOutcome::Unopenable(reason) = &outcome else { return Ok(outcome) };
            if !reason.contains("could not acquire lock") {
                if directory::is_writable(&path) {
                    return Ok(outcome);
                }
                return Err(StoreError::Directory { path, source: io::Error::other(reason.clone()) });
            }
            if begun.elapsed() > LOCK_TIMEOUT {
                return Err(StoreError::InUse(path));
            }
            thread::sleep(LOCK_RETRY_INTERVAL);
        }
    }

    fn open_with_deadline(&self) -> Result<OpenOutcome, StoreError> {
        let (attempt, path, deadline) = (self.clone(), directory::db_path(&self.dir), self.options.open_deadline);
        let (reply, answer) = sync_channel(1);
        let run = move || {
            let _ = reply.send(attempt.open_and_inspect());
        };
        let fault = |source| StoreError::Directory { path: path.clone(), source };
        thread::Builder::new().name("store-open".to_owned()).spawn(run).map_err(fault)?;
        let late = |_| StoreError::Failed(format!("sled did not open {} within {deadline:?}", path.display()));
        answer.recv_timeout(deadline).map_err(late)
    }

    fn open_and_inspect(self) -> OpenOutcome {
        let db = match catch_panic(|| open_sled(&directory::db_path(&self.dir), &self.options)) {
            Ok(db) => db,
            Err(reason) => return OpenOutcome::Unopenable(reason),
        };
        let inspection = self.inspect(&db).unwrap_or_else(|reason| {
            Inspection::Rejected(match rescue::rescue(&db, &self.dir, &self.options) {
                Ok(rescued) => OpenOutcome::Damaged { reason, rescued },
                Err(cause) => OpenOutcome::Unopenable(format!("{reason}; copying readable values failed: {cause}")),
            })
        });
        match inspection {
            Inspection::Usable(store_id, generations) => {
                OpenOutcome::Usable(Box::new(UsableSled { db, store_id, generations }))
            }
            Inspection::Rejected(outcome) => {
                let _ = catch_panic(|| {
                    drop(db);
                    Ok(())
                });
                outcome
            }
        }
    }

    /// Reads the store and compacts it if needed. An error means damage.
    fn inspect(&self, db: &sled::Db) -> Result<Inspection, String> {
        let (store_id, generations) = match catch_panic(|| self.read_contents(db))? {
            Ok(contents) => contents,
            Err(reason) => return Ok(Inspection::Rejected(OpenOutcome::Unopenable(reason))),
        };
        if self.may_compact && rescue::compact(db, &self.dir, &self.options, generations.kept_bytes)? {
            return Ok(Inspection::Rejected(OpenOutcome::Bloated));
        }
        Ok(Inspection::Usable(store_id, generations))
    }

    /// Reads the contents. The inner error means that sled is intact but belongs to another store.
    fn read_contents(&self, db: &sled::Db) -> sled::Result<Result<(StoreId, Generations), String>> {
        let stored = db.get(keys::store_id())?.and_then(|store_id| StoreId::try_from(&*store_id).ok());
        if let (Some(expected), Some(stored)) = (self.store_id, stored)
            && expected != stored
        {
            return Ok(Err("the files belong to another store".to_owned()));
        }
        if self.is_suspect {
            db.iter().try_for_each(|pair| pair.map(drop))?;
        }
        let store_id = match stored.or(self.store_id) {
            Some(store_id) => store_id,
            None => draw_store_id()?,
        };
        if stored.is_none() {
            db.insert(keys::store_id(), &store_id)?;
            db.flush()?;
        }
        Ok(Ok((store_id, Generations::sweep(db)?)))
    }
}

pub(super) fn open_sled(path: &Path, options: &StoreOptions) -> sled::Result<sled::Db> {
    let config = sled::Config::new().path(path).cache_capacity(options.cache_bytes);
    config.flush_every_ms(None).use_compression(false).open()
}

fn draw_store_id() -> sled::Result<StoreId> {
    let mut store_id = StoreId::default();
    getrandom::fill(&mut store_id).map_err(|error| sled::Error::Io(io::Error::other(error.to_string())))?;
    Ok(store_id)
}
