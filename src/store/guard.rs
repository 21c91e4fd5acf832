//! Opening sled where it may have been killed, damaged or locked, and asking the disk for space.
//!
//! Layout of a store's directory: `lock` (held while open), `db/` (sled), `acknowledged` (see `marks`), `db.bad-<n>/`
//! (stores that could not be read, the newest few).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use super::checkpoint::Generations;
use super::keys;
use super::lane::contain;
use super::marks::{Marks, Noted, StoreName};
use super::{OpenReport, SetAside, StoreError, StoreOptions};

/// How long a lock of a process, or of a store just dropped, is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// An open sled and the lock on its directory, released in this order.
#[derive(Debug)]
pub(super) struct Disk {
    pub db: sled::Db,
    pub path: PathBuf,
    _lock: File,
}

pub(super) fn marks_path(dir: &Path) -> PathBuf {
    dir.join("acknowledged")
}

fn db_path(dir: &Path) -> PathBuf {
    dir.join("db")
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

pub(super) fn open(dir: &Path, options: &StoreOptions) -> Result<Opened, StoreError> {
    let place = |source| StoreError::Place { path: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(place)?;
    let lock = take_lock(dir)?;
    let path = db_path(dir);
    let mut report = OpenReport { stale_files: remove_half_snapshots(&path).map_err(place)?, ..OpenReport::default() };
    let (mut marks, noted) = Marks::open(&marks_path(dir)).map_err(place)?;
    report.unreadable_marks = noted.unreadable;
    let mut found = open_sled(&path, options, marks.name())?;
    if found.is_err() && hide_what_is_derived(&path).map_err(place)? > 0 {
        found = open_sled(&path, options, marks.name())?;
    }
    let found = match found {
        Ok(found) => found,
        Err(reason) => {
            let aside = set_aside(dir, options.set_aside).map_err(place)?;
            report.set_aside = Some(SetAside { path: aside, reason });
            open_sled(&path, options, marks.name())?.map_err(StoreError::Failed)?
        }
    };
    marks.set_name(found.name).map_err(place)?;
    report.orphan_chunks = found.generations.orphan_chunks;
    let disk = Disk { db: found.db, path, _lock: lock };
    Ok(Opened { disk, generations: found.generations, marks, noted, report })
}

/// Two processes must never rename or open the same store, so the directory has a lock of its own beside sled's.
fn take_lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let place = |source| StoreError::Place { path: path.clone(), source };
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(place)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(dir.to_owned())),
            Err(TryLockError::Error(source)) => return Err(place(source)),
        }
    }
}

/// A process killed while sled wrote its snapshot leaves a file that makes every later open fail.
fn remove_half_snapshots(db: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for name in names(db)? {
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(db.join(name))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// sled makes these anew from its log: without them it may open where it did not with them.
fn hide_what_is_derived(db: &Path) -> io::Result<usize> {
    let mut hidden = 0;
    for name in names(db)? {
        if name == "conf" || name.starts_with("snap.") {
            fs::rename(db.join(&name), db.join(format!("hidden-{name}")))?;
            hidden += 1;
        }
    }
    Ok(hidden)
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
    }
}

/// A sled that opened and was looked through.
struct FoundSled {
    db: sled::Db,
    name: StoreName,
    generations: Generations,
}

/// Outer error: not the store's fault, leave it alone. Inner error: what is stored there is unreadable.
fn open_sled(
    path: &Path,
    options: &StoreOptions,
    name: Option<StoreName>,
) -> Result<Result<FoundSled, String>, StoreError> {
    let begun = Instant::now();
    loop {
        let outcome = try_open(path, options, name)?;
        let Err(reason) = &outcome else { return Ok(outcome) };
        if !reason.contains("could not acquire lock") {
            return if place_is_sound(path) { Ok(outcome) } else { Err(place_error(path, reason)) };
        }
        if begun.elapsed() > LOCK_PATIENCE {
            return Err(StoreError::InUse(path.to_owned()));
        }
        thread::sleep(LOCK_PAUSE);
    }
}

fn try_open(
    path: &Path,
    options: &StoreOptions,
    name: Option<StoreName>,
) -> Result<Result<FoundSled, String>, StoreError> {
    let config =
        sled::Config::new().path(path).cache_capacity(options.cache_bytes).flush_every_ms(None).use_compression(false);
    let (reply, answer) = sync_channel(1);
    let run = move || {
        let _ = reply.send(contain(|| look_through(config.open()?, name)));
    };
    let place = |source| StoreError::Place { path: path.to_owned(), source };
    thread::Builder::new().name("store-open".to_owned()).spawn(run).map_err(place)?;
    let late =
        |_| StoreError::Failed(format!("sled did not open {} within {:?}", path.display(), options.open_deadline));
    answer.recv_timeout(options.open_deadline).map_err(late)
}

fn look_through(db: sled::Db, name: Option<StoreName>) -> sled::Result<FoundSled> {
    let found = db.get(keys::store_name())?.and_then(|name| StoreName::try_from(&*name).ok());
    if let (Some(name), Some(found)) = (name, found)
        && name != found
    {
        return Err(sled::Error::Unsupported("these are the files of another store".to_owned()));
    }
    let name = match found.or(name) {
        Some(name) => name,
        None => draw_name()?,
    };
    if found.is_none() {
        db.insert(keys::store_name(), &name)?;
        db.flush()?;
    }
    let generations = Generations::sweep(&db)?;
    Ok(FoundSled { db, name, generations })
}

fn draw_name() -> sled::Result<StoreName> {
    let mut name = StoreName::default();
    getrandom::fill(&mut name).map_err(|error| sled::Error::Io(io::Error::other(error.to_string())))?;
    Ok(name)
}

/// Whether a file can be made and written beside the store: if not, its contents are not to blame.
fn place_is_sound(path: &Path) -> bool {
    let probe = path.with_extension("probe");
    let written = fs::write(&probe, [0; 512]).and_then(|()| fs::remove_file(&probe));
    written.is_ok()
}

fn place_error(path: &Path, reason: &str) -> StoreError {
    StoreError::Place { path: path.to_owned(), source: io::Error::other(reason.to_owned()) }
}

/// Moves `db` to the next `db.bad-<n>` and removes the oldest of those beyond `keep`.
fn set_aside(dir: &Path, keep: usize) -> io::Result<PathBuf> {
    let mut numbers: Vec<u64> =
        names(dir)?.iter().filter_map(|name| name.strip_prefix("db.bad-")?.parse().ok()).collect();
    numbers.sort_unstable();
    let next = numbers.last().map_or(1, |last| last + 1);
    let bad = |number: u64| dir.join(format!("db.bad-{number}"));
    fs::rename(db_path(dir), bad(next))?;
    numbers.push(next);
    for number in &numbers[..numbers.len().saturating_sub(keep.max(1))] {
        fs::remove_dir_all(bad(*number))?;
    }
    Ok(bad(next))
}

/// Free for this process on the disk that holds `dir`.
pub(super) fn free_bytes(dir: &Path) -> Result<u64, StoreError> {
    let place = |error: rustix::io::Errno| StoreError::Place { path: dir.to_owned(), source: error.into() };
    let stat = rustix::fs::statvfs(dir).map_err(place)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Blocks really occupied by sled and by the marks.
pub(super) fn disk_bytes(dir: &Path) -> u64 {
    occupied(&db_path(dir)) + occupied(&marks_path(dir))
}

fn occupied(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(data) = fs::symlink_metadata(path) else { return 0 };
    let own = data.blocks() * 512;
    let Ok(names) = names(path) else { return own };
    own + names.iter().map(|name| occupied(&path.join(name))).sum::<u64>()
}
