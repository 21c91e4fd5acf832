//! Opening sled where it may have been killed, damaged or locked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use super::checkpoint::Generations;
use super::lane::contain;
use super::marks::{Marks, Noted, StoreName};
use super::place::{self, LOCK_PATIENCE, LOCK_PAUSE};
use super::{OpenReport, SetAside, StoreError, StoreOptions, keys, rescue};

/// An open sled and the lock on its directory, released in this order.
#[derive(Debug)]
pub(super) struct Disk {
    pub db: sled::Db,
    /// sled's log, to sync it through to the device: sled's own flush ends in the device's cache.
    log: fs::File,
    /// Made when damage is met, so that the next opening looks at everything.
    pub suspect: PathBuf,
    _lock: fs::File,
}

impl Disk {
    /// After this everything applied before survives the death of the process, and of the machine as far as its disk
    /// keeps what it says.
    pub fn flush(&self) -> sled::Result<()> {
        self.db.flush()?;
        self.log.sync_data().map_err(sled::Error::Io)
    }
}

/// What is known once a store is open.
#[derive(Debug)]
pub(super) struct Opened {
    pub disk: Disk,
    pub generations: Generations,
    pub marks: Marks,
    pub noted: Noted,
    pub report: OpenReport,
}

/// What was met where sled's files are.
enum Met {
    Sound(Box<FoundSled>),
    /// sled does not open, or not as this store.
    Closed(String),
    /// sled opens and cannot be read everywhere; what could be read was rescued.
    Torn {
        reason: String,
        rescued: usize,
    },
    /// Sound, but far larger than what it holds; a copy was made.
    Bloated,
}

/// A sled that opened and was looked through.
struct FoundSled {
    db: sled::Db,
    name: StoreName,
    generations: Generations,
}

/// What looking through an open sled came to.
enum Judged {
    Sound(StoreName, Generations),
    Else(Met),
}

/// What an attempt to open needs to know.
#[derive(Clone)]
struct Attempt {
    dir: PathBuf,
    options: StoreOptions,
    name: Option<StoreName>,
    /// Damage was met before: every value is read.
    suspect: bool,
    /// Whether a bloated store is written anew.
    compact: bool,
}

pub(super) fn open(dir: &Path, options: &StoreOptions) -> Result<Opened, StoreError> {
    let fault = |source| StoreError::Place { path: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(fault)?;
    let lock = place::take_lock(dir)?;
    place::adopt_rescue(dir, options.set_aside).map_err(fault)?;
    let path = place::db_path(dir);
    let stale_files = place::remove_half_snapshots(&path).map_err(fault)?;
    let (mut marks, noted) = Marks::open(&place::marks_path(dir)).map_err(fault)?;
    let suspect = place::suspect_path(dir);
    let attempt = Attempt {
        dir: dir.to_owned(),
        options: options.clone(),
        name: marks.name(),
        suspect: suspect.exists(),
        compact: true,
    };
    let mut report = OpenReport { stale_files, unreadable_marks: noted.unreadable, ..OpenReport::default() };
    let mut met = match attempt.patiently() {
        Err(StoreError::Place { .. }) if place::give_room(dir) => attempt.patiently()?,
        met => met?,
    };
    if matches!(met, Met::Closed(_)) && place::hide_what_is_derived(&path).map_err(fault)? > 0 {
        met = attempt.patiently()?;
    }
    let found = match met {
        Met::Sound(found) => found,
        Met::Closed(reason) => {
            let path = place::set_aside(dir, options.set_aside).map_err(fault)?;
            report.set_aside = Some(SetAside { path, reason, rescued: 0 });
            attempt.afresh()?
        }
        Met::Bloated => {
            report.compacted_from = Some(place::disk_bytes(dir));
            let copied = place::adopt_rescue(dir, options.set_aside).map_err(fault)?;
            copied.map_or(Ok(()), fs::remove_dir_all).map_err(fault)?;
            attempt.afresh()?
        }
        Met::Torn { reason, rescued } => {
            let path = place::adopt_rescue(dir, options.set_aside).map_err(fault)?.unwrap_or_default();
            report.set_aside = Some(SetAside { path, reason, rescued });
            attempt.afresh()?
        }
    };
    marks.set_name(found.name).map_err(fault)?;
    if attempt.suspect {
        fs::remove_file(&suspect).map_err(fault)?;
    }
    place::keep_room(dir);
    report.orphan_chunks = found.generations.orphan_chunks;
    let log = fs::File::open(path.join("db")).map_err(fault)?;
    let disk = Disk { db: found.db, log, suspect, _lock: lock };
    Ok(Opened { disk, generations: found.generations, marks, noted, report })
}

impl Attempt {
    /// After the unreadable store was replaced: now anything but a sound one is an error.
    fn afresh(&self) -> Result<Box<FoundSled>, StoreError> {
        match (Self { suspect: false, compact: false, ..self.clone() }).patiently()? {
            Met::Sound(found) => Ok(found),
            Met::Closed(reason) | Met::Torn { reason, .. } => Err(StoreError::Failed(reason)),
            Met::Bloated => Err(StoreError::Failed("bloated, though it was just written".to_owned())),
        }
    }

    /// An error is not the fault of what is stored: it is left alone.
    fn patiently(&self) -> Result<Met, StoreError> {
        let path = place::db_path(&self.dir);
        let begun = Instant::now();
        loop {
            let met = self.once()?;
            let Met::Closed(reason) = &met else { return Ok(met) };
            if !reason.contains("could not acquire lock") {
                return if place::place_is_sound(&path) { Ok(met) } else { Err(place::place_error(&path, reason)) };
            }
            if begun.elapsed() > LOCK_PATIENCE {
                return Err(StoreError::InUse(path));
            }
            thread::sleep(LOCK_PAUSE);
        }
    }

    fn once(&self) -> Result<Met, StoreError> {
        let (attempt, path, deadline) = (self.clone(), place::db_path(&self.dir), self.options.open_deadline);
        let (reply, answer) = sync_channel(1);
        let run = move || {
            let _ = reply.send(attempt.on_own_thread());
        };
        let fault = |source| StoreError::Place { path: path.clone(), source };
        thread::Builder::new().name("store-open".to_owned()).spawn(run).map_err(fault)?;
        let late = |_| StoreError::Failed(format!("sled did not open {} within {deadline:?}", path.display()));
        answer.recv_timeout(deadline).map_err(late)
    }

    fn on_own_thread(self) -> Met {
        let db = match contain(|| open_sled(&place::db_path(&self.dir), &self.options)) {
            Ok(db) => db,
            Err(reason) => return Met::Closed(reason),
        };
        let met = self.judge(&db);
        let met = met.unwrap_or_else(|reason| match rescue::rescue(&db, &self.dir, &self.options) {
            Ok(rescued) => Judged::Else(Met::Torn { reason, rescued }),
            Err(why) => Judged::Else(Met::Closed(format!("{reason}; nothing could be rescued: {why}"))),
        });
        match met {
            Judged::Sound(name, generations) => Met::Sound(Box::new(FoundSled { db, name, generations })),
            Judged::Else(met) => {
                let _ = contain(|| {
                    drop(db);
                    Ok(())
                });
                met
            }
        }
    }

    /// An error is damage.
    fn judge(&self, db: &sled::Db) -> Result<Judged, String> {
        let (name, generations) = match contain(|| self.look_through(db))? {
            Ok(found) => found,
            Err(foreign) => return Ok(Judged::Else(Met::Closed(foreign))),
        };
        if self.compact && rescue::compact(db, &self.dir, &self.options, generations.kept_bytes)? {
            return Ok(Judged::Else(Met::Bloated));
        }
        Ok(Judged::Sound(name, generations))
    }

    /// The inner error: sound, but not this store's.
    fn look_through(&self, db: &sled::Db) -> sled::Result<Result<(StoreName, Generations), String>> {
        let found = db.get(keys::store_name())?.and_then(|name| StoreName::try_from(&*name).ok());
        if let (Some(name), Some(found)) = (self.name, found)
            && name != found
        {
            return Ok(Err("these are the files of another store".to_owned()));
        }
        if self.suspect {
            db.iter().try_for_each(|pair| pair.map(drop))?;
        }
        let name = match found.or(self.name) {
            Some(name) => name,
            None => draw_name()?,
        };
        if found.is_none() {
            db.insert(keys::store_name(), &name)?;
            db.flush()?;
        }
        Ok(Ok((name, Generations::sweep(db)?)))
    }
}

pub(super) fn open_sled(path: &Path, options: &StoreOptions) -> sled::Result<sled::Db> {
    let config = sled::Config::new().path(path).cache_capacity(options.cache_bytes);
    config.flush_every_ms(None).use_compression(false).open()
}

fn draw_name() -> sled::Result<StoreName> {
    let mut name = StoreName::default();
    getrandom::fill(&mut name).map_err(|error| sled::Error::Io(io::Error::other(error.to_string())))?;
    Ok(name)
}
