//! The directory of a store and the disk under it.
//!
//! Layout: `lock` (held while open), `db/` (sled), `acknowledged` (acknowledged offsets), `suspect` (exists after damage or a
//! failure), `db.bad-<n>/` (quarantined stores, newest few), `db.new/` and `db.rescued/` (a store being rewritten, and the
//! finished copy), `room` (a reserve that is deleted when the disk is full, because sled writes when it opens).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::StoreError;

/// Longest wait for a lock held by another process or by a store that was just dropped.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Many times what sled writes when it opens.
const RESERVE_BYTES: usize = 4 << 20;

pub(super) fn acknowledged_path(dir: &Path) -> PathBuf {
    dir.join("acknowledged")
}

pub(super) fn db_path(dir: &Path) -> PathBuf {
    dir.join("db")
}

/// The copy being written, and its path once it is complete.
pub(super) fn rescue_paths(dir: &Path) -> (PathBuf, PathBuf) {
    (dir.join("db.new"), dir.join("db.rescued"))
}

pub(super) fn suspect_path(dir: &Path) -> PathBuf {
    dir.join("suspect")
}

fn reserve_path(dir: &Path) -> PathBuf {
    dir.join("room")
}

/// Deletes the reserve for a full disk; returns whether there was one.
pub(super) fn release_reserve(dir: &Path) -> bool {
    fs::remove_file(reserve_path(dir)).is_ok()
}

/// Creates the reserve for a full disk, if the disk has space for it.
pub(super) fn allocate_reserve(dir: &Path) {
    let path = reserve_path(dir);
    let is_allocated = fs::metadata(&path).is_ok_and(|reserve| reserve.len() == RESERVE_BYTES as u64);
    let has_space = || free_bytes(dir).is_ok_and(|free| free > 4 * RESERVE_BYTES as u64);
    // Not zeros: some file systems do not allocate blocks for them.
    if !is_allocated && has_space() && fs::write(&path, vec![0xEB; RESERVE_BYTES]).is_err() {
        release_reserve(dir);
    }
}

/// Locks the directory. sled's own lock does not cover the renaming of its directory.
pub(super) fn lock_directory(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("lock");
    let fault = |source| StoreError::Directory { path: path.clone(), source };
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(fault)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIMEOUT => thread::sleep(LOCK_RETRY_INTERVAL),
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(dir.to_owned())),
            Err(TryLockError::Error(source)) => return Err(fault(source)),
        }
    }
}

/// Waits until sled has released `db`, which happens shortly after it was dropped.
pub(super) fn wait_for_release(db: &Path) -> io::Result<()> {
    let file = File::open(db.join("db"))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIMEOUT => thread::sleep(LOCK_RETRY_INTERVAL),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes half-written snapshot files of sled, which would make every later open fail.
pub(super) fn remove_partial_snapshots(db: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for name in file_names(db)? {
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(db.join(name))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Renames the files that sled can rebuild from its log: without them a damaged sled may open.
pub(super) fn hide_derived_files(db: &Path) -> io::Result<usize> {
    let mut hidden = 0;
    for name in file_names(db)? {
        if name == "conf" || name.starts_with("snap.") {
            fs::rename(db.join(&name), db.join(format!("hidden-{name}")))?;
            hidden += 1;
        }
    }
    Ok(hidden)
}

fn file_names(dir: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect(),
    }
}

/// Whether a file can be written beside `path`. If not, the contents of the store are not at fault.
pub(super) fn is_writable(path: &Path) -> bool {
    let probe = path.with_extension("probe");
    let written = fs::write(&probe, [0; 512]).and_then(|()| fs::remove_file(&probe));
    written.is_ok()
}

/// Moves `db` to the next `db.bad-<n>` and removes the oldest of those beyond `keep`.
pub(super) fn quarantine(dir: &Path, keep: usize) -> io::Result<PathBuf> {
    let mut numbers: Vec<u64> =
        file_names(dir)?.iter().filter_map(|name| name.strip_prefix("db.bad-")?.parse().ok()).collect();
    numbers.sort_unstable();
    let next = numbers.last().map_or(1, |last| last + 1);
    let path = |number: u64| dir.join(format!("db.bad-{number}"));
    fs::rename(db_path(dir), path(next))?;
    numbers.push(next);
    for number in &numbers[..numbers.len().saturating_sub(keep.max(1))] {
        fs::remove_dir_all(path(*number))?;
    }
    Ok(path(next))
}

/// Replaces the store with its finished copy, if there is one, and returns the path of the quarantined original.
pub(super) fn adopt_rescued_store(dir: &Path, keep: usize) -> io::Result<Option<PathBuf>> {
    let (_, rescued) = rescue_paths(dir);
    if !rescued.exists() {
        return Ok(None);
    }
    // A process killed between the two renames leaves a copy and no store; the next `open` does the second rename.
    let quarantined = if db_path(dir).exists() { Some(quarantine(dir, keep)?) } else { None };
    fs::rename(rescued, db_path(dir))?;
    Ok(quarantined)
}

/// Syncs a directory tree to the device, which sled's own flush does not guarantee.
pub(super) fn sync_all(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        file_names(path)?.iter().try_for_each(|name| sync_all(&path.join(name)))?;
    }
    File::open(path)?.sync_all()
}

/// Space available to this process on the disk that holds `dir`.
pub(super) fn free_bytes(dir: &Path) -> Result<u64, StoreError> {
    let fault = |error: rustix::io::Errno| StoreError::Directory { path: dir.to_owned(), source: error.into() };
    let stat = rustix::fs::statvfs(dir).map_err(fault)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Disk blocks allocated for sled and for the acknowledged offsets.
pub(super) fn disk_bytes(dir: &Path) -> u64 {
    allocated_bytes(&db_path(dir)) + allocated_bytes(&acknowledged_path(dir))
}

fn allocated_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(data) = fs::symlink_metadata(path) else { return 0 };
    let own = data.blocks() * 512;
    let Ok(names) = file_names(path) else { return own };
    own + names.iter().map(|name| allocated_bytes(&path.join(name))).sum::<u64>()
}
