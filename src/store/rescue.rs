//! Carrying what can still be read out of a sled that cannot be read everywhere, or that has grown far beyond what it holds.
//!
//! sled meets damage page by page. A walk from either end of a range reaches everything but what lies between its first and
//! its last bad page, so ranges are kept small: one generation, one journal. What is carried over is judged later by its own
//! hashes, like everything that is read.
//!
//! Growth: each killed process leaves pages in sled's log that nothing frees (a hundred kills cost about 10 MiB), so a store
//! that is opened again and again must sometimes be written anew. Without kills sled reuses its log and does not grow.

use std::fs;
use std::path::Path;

use super::guard::open_sled;
use super::keys;
use super::lane::contain;
use super::{StoreOptions, place};

/// A store is written anew when it is this many times larger than what it holds ...
const BLOAT_FACTOR: u64 = 5;
/// ... and this much more: below, sled's segments are all there is to it.
const BLOAT_FLOOR: u64 = 8 << 20;
const BATCH_PAIRS: usize = 256;

/// Writes a new sled in `dir` with all that can be read from `old`, and moves it to where `place::adopt_rescue` finds it
/// when it is whole. Returns how many values it holds.
pub(super) fn rescue(old: &sled::Db, dir: &Path, options: &StoreOptions) -> Result<usize, String> {
    let (path, whole) = place::rescue_paths(dir);
    if path.exists() {
        fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
    }
    let fresh = contain(|| open_sled(&path, options))?;
    let rescued = contain(|| {
        for range in keys::kinds().into_iter().filter(|kind| *kind != keys::all_chunks()).map(prefix) {
            carry(old, &fresh, range)?;
        }
        for range in ranges(&fresh)? {
            carry(old, &fresh, range)?;
        }
        fresh.flush()?;
        Ok(fresh.len())
    });
    let _ = contain(|| {
        drop(fresh);
        Ok(())
    });
    let rescued = rescued?;
    // The old store may have reached the disk's platters: so must the new one, before it takes its place.
    let moved =
        place::wait_for_release(&path).and_then(|()| place::sync_all(&path)).and_then(|()| fs::rename(path, whole));
    moved.map_err(|error| error.to_string())?;
    Ok(rescued)
}

/// Writes the store anew, as `rescue` does, when it is bloated and there is room for it. Returns whether it did.
pub(super) fn compact(old: &sled::Db, dir: &Path, options: &StoreOptions, kept_bytes: u64) -> Result<bool, String> {
    let disk = place::disk_bytes(dir);
    let bloated = |live: u64| disk > live.saturating_mul(BLOAT_FACTOR).saturating_add(BLOAT_FLOOR);
    if !bloated(kept_bytes) {
        return Ok(false);
    }
    let (pairs, live) = contain(|| {
        old.iter().try_fold((0, 0), |(pairs, live), pair| {
            let (key, value) = pair?;
            Ok((pairs + 1, live + (key.len() + value.len()) as u64))
        })
    })?;
    let free = place::free_bytes(dir).map_err(|error| error.to_string())?;
    if !bloated(live) || free < live.saturating_mul(options.headroom) {
        return Ok(false);
    }
    // Damage was ruled out by reading everything: a copy that fails or lacks something is thrown away, and the store kept.
    let copied = rescue(old, dir, options).is_ok_and(|copied| copied == pairs);
    if !copied {
        let (part, whole) = place::rescue_paths(dir);
        [part, whole]
            .iter()
            .filter(|path| path.exists())
            .try_for_each(fs::remove_dir_all)
            .map_err(|e| e.to_string())?;
    }
    Ok(copied)
}

/// First and last key, both included.
type Range = (Vec<u8>, Vec<u8>);

fn prefix(kind: [u8; 1]) -> Range {
    // No key of the numbered kinds is longer, and names of facts are UTF-8, which has no such byte.
    (kind.to_vec(), [&kind[..], &[0xFF; 32]].concat())
}

/// The chunks of each generation and the journal of each shard whose manifests were carried over.
fn ranges(fresh: &sled::Db) -> sled::Result<Vec<Range>> {
    let mut ranges = Vec::new();
    for pair in fresh.scan_prefix(keys::all_manifests()) {
        if let Some((shard, generation, _)) = keys::parse(&pair?.0) {
            ranges.push((keys::chunk(&shard, generation, 0), keys::chunk(&shard, generation, u32::MAX)));
            ranges.push((keys::entry(&shard, 0, 0), keys::entry(&shard, u64::MAX, u32::MAX)));
        }
    }
    ranges.dedup();
    Ok(ranges)
}

/// Errors are those of `fresh`; those of `old` only end a walk.
fn carry(old: &sled::Db, fresh: &sled::Db, (first, last): Range) -> sled::Result<()> {
    let mut write_error = None;
    let reached = walk(old.range(first.clone()..=last.clone()), fresh, &mut write_error);
    if let Some(reached) = reached {
        let from = if reached.is_empty() { first } else { reached };
        walk(old.range(from..=last).rev(), fresh, &mut write_error);
    }
    write_error.map_or(Ok(()), Err)
}

/// Copies until the walk ends or fails; when it failed, the last key copied (empty when there was none).
fn walk(
    pairs: impl Iterator<Item = sled::Result<(sled::IVec, sled::IVec)>>,
    fresh: &sled::Db,
    write_error: &mut Option<sled::Error>,
) -> Option<Vec<u8>> {
    let (mut reached, mut batch, mut count) = (Vec::new(), sled::Batch::default(), 0);
    let walked = contain(|| {
        for pair in pairs {
            let (key, value) = pair?;
            reached = key.to_vec();
            batch.insert(key, value);
            count += 1;
            if count % BATCH_PAIRS == 0 {
                fresh
                    .apply_batch(std::mem::take(&mut batch))
                    .inspect_err(|error| *write_error = Some(error.clone()))?;
            }
        }
        Ok(())
    });
    if let Err(error) = fresh.apply_batch(batch) {
        *write_error = Some(error);
    }
    walked.err().map(|_| reached)
}
