//! Mapping of items to partitions, for streams without Kafka's own partitioner.

use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::mix;

/// The partition of an item with this [`crate::Event::route`].
///
/// Uses other bits of the fingerprint than the filters, so that the items of one partition spread over its whole filter.
///
/// ```
/// use ebb_sketch::hash::Fingerprint;
///
/// let partition = ebb_core::partition_of(Fingerprint(7), 12);
/// assert!(partition < 12);
/// assert_eq!(partition, ebb_core::partition_of(Fingerprint(7), 12));
/// ```
pub fn partition_of(route: Fingerprint, partitions: usize) -> usize {
    let mixed = mix(route.high() ^ mix(route.low()));
    ((u128::from(mixed) * partitions as u128) >> 64) as usize
}
