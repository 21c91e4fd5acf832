//! A record of the log, and the event that the reader makes of its payload.

use smallvec::SmallVec;

use ebb_sketch::hash::Fingerprint;

/// One record of the log, unparsed.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The record's offset in its partition.
    pub offset: u64,
    /// When the broker or, in embedded mode, the journal appended the record.
    pub timestamp_ms: i64,
    /// The record's value.
    pub payload: &'a [u8],
}

/// The configured fields of a payload.
///
/// Items, keys and ids are hashed here, once; no view sees their bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Identity for deduplication; includes the key.
    pub item: Fingerprint,
    /// The key whose state the event belongs to.
    pub key: Option<Fingerprint>,
    /// Event time; the record's timestamp counts where it is absent.
    pub time_ms: Option<i64>,
    /// Identity of this observation; the record's position counts where it is absent.
    pub id: Option<Fingerprint>,
    /// The number that aggregates measure by default.
    pub value: Option<f64>,
    /// How often the event counts in aggregates.
    pub weight: Option<f64>,
    /// Importance class for filters that forget by importance.
    pub importance: Option<f64>,
    /// Further numbers, in the order of [`crate::EventSpec::numbers`].
    pub numbers: Numbers,
    /// Texts that aggregates list by name, in the order of [`crate::EventSpec::labels`].
    pub labels: Vec<Box<str>>,
    /// Present while the hash key is being rotated.
    pub previous_key: Option<PreviousKey>,
    /// Fingerprint that [`crate::partition_of`] maps to a partition.
    pub route: Fingerprint,
}

/// The fingerprints of an event's item and key under the previous hash key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousKey {
    /// [`Event::item`] under the previous hash key.
    pub item: Fingerprint,
    /// [`Event::key`] under the previous hash key.
    pub key: Option<Fingerprint>,
}

/// Numbers of an event that the configuration names by their paths: costs, and measures of aggregates.
pub type Numbers = SmallVec<[Option<f64>; 4]>;
