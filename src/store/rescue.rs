//! Carrying what can still be read out of a sled that cannot be read everywhere.
//!
//! sled meets damage page by page. A walk from either end of a range reaches everything but what lies between its first and
//! its last bad page, so ranges are kept small: one generation, one journal. What is carried over is judged later by its own
//! hashes, like everything that is read.

use std::fs;
use std::path::Path;

use super::guard::open_sled;
use super::keys;
use super::lane::contain;
use super::{StoreOptions, place};

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
    let _ = contain(|| Ok(drop(fresh)));
    let rescued = rescued?;
    place::wait_for_release(&path).and_then(|()| fs::rename(path, whole)).map_err(|error| error.to_string())?;
    Ok(rescued)
}

/// First and last key, both included.
type Range = (Vec<u8>, Vec<u8>);

fn prefix(kind: [u8; 1]) -> Range {
    (kind.to_vec(), [kind[0]; 1].iter().copied().chain([0xFF; 32]).collect())
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
