//! One copy of the sample: each value once, with its latest time, in the list of the highest level that samples it.
//!
//! Level i consists of the lists i and above, as far as their times are after its floor. When compacted (invariant D1), over
//! all values ever inserted whose highest level is at least i, each with its latest time: floor i is the (tau + 1)-th latest
//! time, or none while there are at most tau values; the later ones are kept. Latest times only rise, so a value that was
//! dropped returns when it is seen again after the floor, and the result of a compaction is a function of the latest times
//! alone. Between compactions floors lag behind and lists hold more.

use std::sync::Arc;

use crate::aggregate::robust::hash::SampleHash;
use crate::aggregate::robust::{ElementId, LevelFloors, NO_FLOOR, STORE_BYTES};

/// The memory per value: a vector that grows may be half empty.
pub const SIGHTING_BYTES: usize = 2 * size_of::<Sighting>();

/// A value and when it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sighting {
    pub value: ElementId,
    pub time_ms: i64,
}

#[derive(Debug, Clone)]
pub(super) struct DistinctStore {
    hash: Arc<SampleHash>,
    tau: usize,
    floors: LevelFloors,
    /// Sorted by value when compacted.
    lists: Vec<Vec<Sighting>>,
    /// Sightings added since the last compaction.
    deferred: usize,
    /// How many deferred sightings trigger a compaction.
    max_deferred: usize,
}

impl DistinctStore {
    pub fn new(hash: Arc<SampleHash>, tau: u32) -> Self {
        let levels = usize::from(hash.top_level()) + 1;
        let tau = tau as usize;
        Self {
            hash,
            tau,
            floors: LevelFloors::new(levels),
            lists: vec![Vec::new(); levels],
            deferred: 0,
            max_deferred: min_deferred(tau),
        }
    }

    pub fn hash(&self) -> &SampleHash {
        &self.hash
    }

    pub fn shared_hash(&self) -> Arc<SampleHash> {
        self.hash.clone()
    }

    pub fn floors(&self) -> &[i64] {
        self.floors.as_slice()
    }

    pub fn is_compact(&self) -> bool {
        self.deferred == 0
    }

    pub fn entry_count(&self) -> usize {
        self.lists.iter().map(Vec::len).sum()
    }

    pub fn memory_bytes(&self) -> usize {
        STORE_BYTES + self.entry_count() * SIGHTING_BYTES
    }

    pub fn sightings(&self) -> impl Iterator<Item = &Sighting> {
        self.lists.iter().flatten()
    }

    pub fn newest_ms(&self) -> Option<i64> {
        self.sightings().map(|sighting| sighting.time_ms).max()
    }

    fn level_of(&self, value: ElementId) -> usize {
        usize::from(self.hash.highest_level(self.hash.start(value), 1))
    }

    #[inline]
    pub fn insert(&mut self, sighting: Sighting) {
        let level = self.level_of(sighting.value);
        if sighting.time_ms > self.floors.of(level) {
            self.lists[level].push(sighting);
            self.deferred += 1;
            if self.deferred >= self.max_deferred {
                self.compact();
            }
        }
    }

    /// Restores D1.
    pub fn compact(&mut self) {
        if self.deferred == 0 {
            return;
        }
        self.deferred = 0;
        let mut latest = LatestTimes { tau: self.tau, times: Vec::new() };
        for (list, floor) in self.lists.iter_mut().zip(self.floors.iter_mut()).rev() {
            keep_latest(list);
            latest.add(list);
            *floor = (*floor).max(latest.beyond_tau());
            list.retain(|sighting| sighting.time_ms > *floor);
        }
        self.max_deferred = self.entry_count().max(min_deferred(self.tau));
    }

    /// Whether a value was last seen at or before `time_ms`.
    pub fn has_through(&self, time_ms: i64) -> bool {
        self.sightings().any(|sighting| sighting.time_ms <= time_ms)
    }

    pub fn drop_through(&mut self, time_ms: i64) {
        if self.floors.raise(time_ms) {
            self.deferred += 1;
        }
    }

    pub fn merge_lazily(&mut self, other: &Self) {
        self.floors.merge(&other.floors);
        for (list, others) in self.lists.iter_mut().zip(&other.lists) {
            list.extend_from_slice(others);
        }
        self.deferred += 1 + other.entry_count();
        if self.deferred >= self.max_deferred {
            self.compact();
        }
    }

    /// Keeps at most `tau` values per level from now on.
    pub fn shrink(&mut self, tau: u32) {
        self.tau = tau as usize;
        self.deferred += 1;
        self.compact();
        self.lists.iter_mut().for_each(Vec::shrink_to_fit);
    }

    /// The latest times of the values of a level within `after` < time, on a compacted store.
    pub fn times_after(&self, level: usize, after: i64) -> impl Iterator<Item = i64> {
        let times = self.lists[level..].iter().flatten().map(|sighting| sighting.time_ms);
        times.filter(move |time_ms| *time_ms > after)
    }

    /// Fills an empty store. `None` if the parts are not the compacted state of any sequence of sightings.
    pub fn with_parts(mut self, floors: &[i64], sightings: Vec<Sighting>) -> Option<Self> {
        if !self.floors.replace(floors) {
            return None;
        }
        let count = sightings.len();
        for sighting in sightings {
            let level = self.level_of(sighting.value);
            self.lists[level].push(sighting);
        }
        self.deferred = 1;
        self.compact();
        (self.floors.as_slice() == floors && self.entry_count() == count).then_some(self)
    }
}

fn min_deferred(tau: usize) -> usize {
    2 * tau + 64
}

/// Sorts by value and keeps the latest sighting of each.
fn keep_latest(list: &mut Vec<Sighting>) {
    // Mostly sorted after the last compaction: a stable sort merges the runs.
    list.sort();
    list.dedup_by(|later, kept| {
        let same = later.value == kept.value;
        if same {
            kept.time_ms = later.time_ms;
        }
        same
    });
}

/// The tau + 1 latest times of a growing union of lists.
struct LatestTimes {
    tau: usize,
    times: Vec<i64>,
}

impl LatestTimes {
    fn add(&mut self, list: &[Sighting]) {
        let threshold = self.beyond_tau();
        self.times.extend(list.iter().map(|sighting| sighting.time_ms).filter(|time_ms| *time_ms > threshold));
        if self.times.len() > self.tau {
            self.times.select_nth_unstable_by(self.tau, |a, b| b.cmp(a));
            self.times.truncate(self.tau + 1);
        }
    }

    /// The (tau + 1)-th latest time, which is the last one.
    fn beyond_tau(&self) -> i64 {
        self.times.get(self.tau).copied().unwrap_or(NO_FLOOR)
    }
}
