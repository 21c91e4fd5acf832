//! Which partition holds an item's memory.

use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::mix;

/// The partition that an item routes to. Uses other bits of the fingerprint than the filters do.
pub fn partition_of(route: Fingerprint, partitions: usize) -> usize {
    let mixed = mix(route.high() ^ mix(route.low()));
    ((u128::from(mixed) * partitions as u128) >> 64) as usize
}
