//! Copying a store that is partly unreadable, or far larger than its contents, into a new one.
//!
//! sled detects damage page by page. A scan from both ends of a range reaches everything outside the first and the last
//! damaged page, so ranges are kept small: one generation, one journal. Copied values are verified by their own hashes when
//! they are read.
//!
//! Every killed process leaves pages in sled's log that are never freed (about 10 MiB for a hundred kills), so a store that
//! is opened again and again must be rewritten from time to time. Without kills sled reuses its log and does not grow.

use std::fs;
use std::path::Path;

use super::keys;
use super::recovery::open_sled;
use super::sled_thread::catch_panic;
use super::{StoreOptions, directory};

/// A store is rewritten when it is this many times larger than its contents ...
const BLOAT_FACTOR: u64 = 5;
/// ... plus this much, because a small store consists mostly of sled's segments.
const BLOAT_FLOOR: u64 = 8 << 20;
const BATCH_PAIRS: usize = 256;

/// Copies everything readable from `old` into a new sled in `dir`, and moves the finished copy to where
/// `directory::adopt_rescued_store` expects it. Returns the number of copied values.
pub(super) fn rescue(old: &sled::Db, dir: &Path, options: &StoreOptions) -> Result<usize, String> {
    let (path, finished) = directory::rescue_paths(dir);
    if path.exists() {
        fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
    }
    let copy = catch_panic(|| open_sled(&path, options))?;
    let rescued = catch_panic(|| {
        for range in keys::kinds().into_iter().filter(|kind| *kind != keys::all_chunks()).map(range_of_kind) {
            copy_range(old, &copy, range)?;
        }
        for range in ranges_by_manifest(&copy)? {
            copy_range(old, &copy, range)?;
        }
        copy.flush()?;
        Ok(copy.len())
    });
    let _ = catch_panic(|| {
        drop(copy);
        Ok(())
    });
    let rescued = rescued?;
    // The old store may be on the device already, so the copy must be too before it replaces it.
    let moved = directory::wait_for_release(&path)
        .and_then(|()| directory::sync_all(&path))
        .and_then(|()| fs::rename(path, finished));
    moved.map_err(|error| error.to_string())?;
    Ok(rescued)
}

/// Copies a bloated store as `rescue` does, if the disk has space for it. Returns whether it did.
pub(super) fn compact(old: &sled::Db, dir: &Path, options: &StoreOptions, kept_bytes: u64) -> Result<bool, String> {
    let disk = directory::disk_bytes(dir);
    let is_bloated = |live: u64| disk > live.saturating_mul(BLOAT_FACTOR).saturating_add(BLOAT_FLOOR);
    if !is_bloated(kept_bytes) {
        return Ok(false);
    }
    let (pairs, live) = catch_panic(|| {
        old.iter().try_fold((0, 0), |(pairs, live), pair| {
            let (key, value) = pair?;
            Ok((pairs + 1, live + (key.len() + value.len()) as u64))
        })
    })?;
    let free = directory::free_bytes(dir).map_err(|error| error.to_string())?;
    if !is_bloated(live) || free < live.saturating_mul(options.headroom) {
        return Ok(false);
    }
    // Everything was readable above: an incomplete copy is discarded and the store is kept.
    let is_complete = rescue(old, dir, options).is_ok_and(|copied| copied == pairs);
    if !is_complete {
        let (partial, finished) = directory::rescue_paths(dir);
        for path in [partial, finished].iter().filter(|path| path.exists()) {
            fs::remove_dir_all(path).map_err(|error| error.to_string())?;
        }
    }
    Ok(is_complete)
}

/// First and last key, both included.
type KeyRange = (Vec<u8>, Vec<u8>);

fn range_of_kind(kind: [u8; 1]) -> KeyRange {
    // Keys with numbers are shorter than this, and names of metadata are UTF-8, which has no byte 0xFF.
    (kind.to_vec(), [&kind[..], &[0xFF; 32]].concat())
}

/// The chunks of each generation and the journal of each shard whose manifest was copied.
fn ranges_by_manifest(copy: &sled::Db) -> sled::Result<Vec<KeyRange>> {
    let mut ranges = Vec::new();
    for pair in copy.scan_prefix(keys::all_manifests()) {
        if let Some((shard, generation, _)) = keys::parse(&pair?.0) {
            ranges.push((keys::chunk(&shard, generation, 0), keys::chunk(&shard, generation, u32::MAX)));
            ranges.push((keys::entry(&shard, 0, 0), keys::entry(&shard, u64::MAX, u32::MAX)));
        }
    }
    ranges.dedup();
    Ok(ranges)
}

/// Copies a range from both ends. Returns errors of `copy`; errors of `old` only end a scan.
fn copy_range(old: &sled::Db, copy: &sled::Db, (first, last): KeyRange) -> sled::Result<()> {
    let mut write_error = None;
    let stopped_at = copy_until_error(old.range(first.clone()..=last.clone()), copy, &mut write_error);
    if let Some(stopped_at) = stopped_at {
        let from = if stopped_at.is_empty() { first } else { stopped_at };
        copy_until_error(old.range(from..=last).rev(), copy, &mut write_error);
    }
    write_error.map_or(Ok(()), Err)
}

/// Copies until the scan ends or fails. After a failure returns the last copied key, empty if there was none.
fn copy_until_error(
    pairs: impl Iterator<Item = sled::Result<(sled::IVec, sled::IVec)>>,
    copy: &sled::Db,
    write_error: &mut Option<sled::Error>,
) -> Option<Vec<u8>> {
    let (mut last_key, mut batch, mut count) = (Vec::new(), sled::Batch::default(), 0);
    let scanned = catch_panic(|| {
        for pair in pairs {
            let (key, value) = pair?;
            last_key = key.to_vec();
            batch.insert(key, value);
            count += 1;
            if count % BATCH_PAIRS == 0 {
                copy.apply_batch(std::mem::take(&mut batch)).inspect_err(|error| *write_error = Some(error.clone()))?;
            }
        }
        Ok(())
    });
    if let Err(error) = copy.apply_batch(batch) {
        *write_error = Some(error);
    }
    scanned.err().map(|_| last_key)
}
