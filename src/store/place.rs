//! The directory of a store and the disk under it.
//!
//! Layout: `lock` (held while open), `db/` (sled), `acknowledged` (see `marks`), `suspect` (there when damage was met or
//! the store failed), `db.bad-<n>/` (stores that could not be read, the newest few), `db.new/` and `db.rescued/` (see `rescue`),
//! `room` (given up when the disk is full: sled writes when it opens).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::StoreError;

/// How long a lock of a process, or of a store just dropped, is waited for.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(5);
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// What sled may write when it opens, many times over.
const ROOM_BYTES: usize = 4 << 20;

pub(super) fn marks_path(dir: &Path) -> PathBuf {
    dir.join("acknowledged")
}

pub(super) fn db_path(dir: &Path) -> PathBuf {
    dir.join("db")
}

/// Where a rescue is being written, and where it stands when it is whole.
pub(super) fn rescue_paths(dir: &Path) -> (PathBuf, PathBuf) {
    (dir.join("db.new"), dir.join("db.rescued"))
}

pub(super) fn suspect_path(dir: &Path) -> PathBuf {
    dir.join("suspect")
}

fn room_path(dir: &Path) -> PathBuf {
    dir.join("room")
}

/// Gives up the room that was kept for a full disk; whether there was any.
pub(super) fn give_room(dir: &Path) -> bool {
    fs::remove_file(room_path(dir)).is_ok()
}

/// Keeps room for a full disk, as far as the disk is not full already.
pub(super) fn keep_room(dir: &Path) {
    let path = room_path(dir);
    let is_kept = fs::metadata(&path).is_ok_and(|kept| kept.len() == ROOM_BYTES as u64);
    let has_plenty = || free_bytes(dir).is_ok_and(|free| free > 4 * ROOM_BYTES as u64);
    // Zeros would take no room where the file system does not write them.
    if !is_kept && has_plenty() && fs::write(&path, vec![0xEB; ROOM_BYTES]).is_err() {
        give_room(dir);
    }
}

/// Two processes must never rename or open the same store, so the directory has a lock of its own beside sled's.
pub(super) fn take_lock(dir: &Path) -> Result<File, StoreError> {
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

/// Waits until sled has let go of `db`, which it does a little after it was dropped.
pub(super) fn wait_for_release(db: &Path) -> io::Result<()> {
    let file = File::open(db.join("db"))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A process killed while sled wrote its snapshot leaves a file that makes every later open fail.
pub(super) fn remove_half_snapshots(db: &Path) -> io::Result<usize> {
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
pub(super) fn hide_what_is_derived(db: &Path) -> io::Result<usize> {
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

/// Whether a file can be made and written beside the store: if not, its contents are not to blame.
pub(super) fn place_is_sound(path: &Path) -> bool {
    let probe = path.with_extension("probe");
    let written = fs::write(&probe, [0; 512]).and_then(|()| fs::remove_file(&probe));
    written.is_ok()
}

pub(super) fn place_error(path: &Path, reason: &str) -> StoreError {
    StoreError::Place { path: path.to_owned(), source: io::Error::other(reason.to_owned()) }
}

/// Moves `db` to the next `db.bad-<n>` and removes the oldest of those beyond `keep`.
pub(super) fn set_aside(dir: &Path, keep: usize) -> io::Result<PathBuf> {
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

/// Through to the device, which sled's own flush does not promise.
pub(super) fn sync_all(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        names(path)?.iter().try_for_each(|name| sync_all(&path.join(name)))?;
    }
    File::open(path)?.sync_all()
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

/// Puts a whole rescue in the place of the store it was made from; says where that went.
pub(super) fn adopt_rescue(dir: &Path, keep: usize) -> io::Result<Option<PathBuf>> {
    let (_, rescued) = rescue_paths(dir);
    if !rescued.exists() {
        return Ok(None);
    }
    // A process killed between these two steps leaves a rescue and no store: the next one takes the second step.
    let aside = if db_path(dir).exists() { Some(set_aside(dir, keep)?) } else { None };
    fs::rename(rescued, db_path(dir))?;
    Ok(aside)
}
