//! One copy of the any-window sample: each element once, in the list of the highest level at which it is sampled.
//!
//! Level i consists of the lists i and above, as far as their elements are newer than its floor. When compacted (invariant
//! R1), over all distinct elements ever inserted whose highest level is at least i: floor i is the (tau + 1)-th largest time,
//! or none while there are at most tau elements; the newer ones are kept. Between compactions floors lag behind and lists
//! hold more. [`WindowStore::compact`](SampleStore::compact) restores R1, and its result is a function of the set of
//! elements alone.

use std::sync::Arc;

use super::element::Element;
use super::floors::{LevelFloors, NO_FLOOR};
use super::hash::SampleHash;
use super::recent::RecentElements;
use super::sketch::{ELEMENT_BYTES, STORE_BYTES, SampleStore};

/// Elements and floors under one hash.
#[derive(Debug, Clone)]
pub struct WindowStore {
    hash: Arc<SampleHash>,
    tau: usize,
    floors: LevelFloors,
    lists: Vec<LevelList>,
    /// Elements added since the last compaction.
    deferred: usize,
    /// How many deferred elements trigger a compaction.
    max_deferred: usize,
    recent: RecentElements,
}

/// Newest first up to `sorted`, then in order of arrival.
#[derive(Debug, Clone, Default)]
struct LevelList {
    elements: Vec<Element>,
    sorted: usize,
}

impl WindowStore {
    /// An empty store that keeps `tau` elements per level.
    pub fn new(hash: Arc<SampleHash>, tau: u32) -> Self {
        let levels = usize::from(hash.top_level()) + 1;
        let tau = tau as usize;
        Self {
            hash,
            tau,
            floors: LevelFloors::new(levels),
            lists: vec![LevelList::default(); levels],
            deferred: 0,
            max_deferred: min_deferred(tau),
            recent: RecentElements::default(),
        }
    }

    /// The newest time, on a compacted store.
    pub fn newest_ms(&self) -> Option<i64> {
        self.lists.iter().filter_map(|list| list.elements.first()).map(|element| element.time_ms).max()
    }

    /// Queries must be for later times than this.
    pub fn lowest_floor(&self) -> i64 {
        self.floors.lowest()
    }

    /// Elements counted at every level that holds them, on a compacted store: the size of the published structure.
    pub fn node_count(&self) -> usize {
        let at = |(level, floor): (usize, &i64)| self.within(level, *floor, i64::MAX).count();
        self.floors.as_slice().iter().enumerate().map(at).sum()
    }

    /// The elements of a level with `after` < time <= `until`, on a compacted store with `after` not below the level's floor.
    pub fn within(&self, level: usize, after: i64, until: i64) -> impl Iterator<Item = &Element> {
        self.lists[level..].iter().flat_map(move |list| {
            let from = list.elements.partition_point(|element| element.time_ms > until);
            let to = list.elements.partition_point(|element| element.time_ms > after);
            &list.elements[from..to.max(from)]
        })
    }
}

impl SampleStore for WindowStore {
    #[inline]
    fn insert(&mut self, element: Element) {
        let start = self.hash.start(element.id);
        if let Some((list, index)) = self.recent.find(start)
            && self.lists.get(list).and_then(|list| list.elements.get(index)) == Some(&element)
        {
            return;
        }
        let level = usize::from(self.hash.element_level(start, &element));
        if element.time_ms > self.floors.of(level) {
            let list = &mut self.lists[level];
            self.recent.note(start, level, list.elements.len());
            list.elements.push(element);
            self.deferred += 1;
            if self.deferred >= self.max_deferred {
                self.compact();
                self.recent.enable();
            }
        }
    }

    fn compact(&mut self) {
        if self.deferred == 0 {
            return;
        }
        self.deferred = 0;
        let mut newest = NewestTimes::new(self.tau);
        for (list, floor) in self.lists.iter_mut().zip(self.floors.iter_mut()).rev() {
            list.sort();
            newest.add(&list.elements);
            *floor = (*floor).max(newest.beyond_tau());
            list.keep_newer_than(*floor);
        }
        self.max_deferred = self.entry_count().max(min_deferred(self.tau));
    }

    fn is_compact(&self) -> bool {
        self.deferred == 0
    }

    fn drop_through(&mut self, time_ms: i64) {
        if self.floors.raise(time_ms) {
            self.deferred += 1;
        }
    }

    fn merge_lazily(&mut self, other: &Self) {
        self.floors.merge(&other.floors);
        for (list, others) in self.lists.iter_mut().zip(&other.lists) {
            list.elements.extend_from_slice(&others.elements);
        }
        self.deferred += 1 + other.entry_count();
        if self.deferred >= self.max_deferred {
            self.compact();
        }
    }

    fn shrink(&mut self, tau: u32) {
        self.tau = tau as usize;
        self.deferred += 1;
        self.compact();
        self.lists.iter_mut().for_each(|list| list.elements.shrink_to_fit());
    }

    fn disable_cache(&mut self) {
        self.recent.disable();
    }

    fn memory_bytes(&self) -> usize {
        STORE_BYTES + self.recent.max_bytes() + self.entry_count() * ELEMENT_BYTES
    }

    fn hash(&self) -> &Arc<SampleHash> {
        &self.hash
    }

    fn floors(&self) -> &[i64] {
        self.floors.as_slice()
    }

    fn elements(&self) -> impl Iterator<Item = &Element> {
        self.lists.iter().flat_map(|list| &list.elements)
    }

    fn entry_count(&self) -> usize {
        self.lists.iter().map(|list| list.elements.len()).sum()
    }

    fn with_parts(mut self, floors: &[i64], elements: Vec<Element>) -> Option<Self> {
        if !self.floors.replace(floors) {
            return None;
        }
        let count = elements.len();
        for element in elements {
            let level = usize::from(self.hash.element_level(self.hash.start(element.id), &element));
            self.lists[level].elements.push(element);
        }
        self.deferred = 1;
        self.compact();
        (self.floors.as_slice() == floors && self.entry_count() == count).then_some(self)
    }
}

fn min_deferred(tau: usize) -> usize {
    2 * tau + 64
}

impl LevelList {
    fn sort(&mut self) {
        if self.sorted < self.elements.len() {
            let newest_first = |a: &Element, b: &Element| b.cmp(a);
            self.elements[self.sorted..].sort_unstable_by(newest_first);
            // A stable sort merges the two sorted runs.
            self.elements.sort_by(newest_first);
            self.elements.dedup();
            self.sorted = self.elements.len();
        }
    }

    /// Truncates a sorted list.
    fn keep_newer_than(&mut self, floor: i64) {
        let keep = self.elements.partition_point(|element| element.time_ms > floor);
        self.elements.truncate(keep);
        self.sorted = keep;
    }
}

/// The tau + 1 newest times of a growing union of lists.
struct NewestTimes {
    tau: usize,
    times: Vec<i64>,
    spare: Vec<i64>,
}

impl NewestTimes {
    fn new(tau: usize) -> Self {
        Self { tau, times: Vec::new(), spare: Vec::new() }
    }

    /// Adds elements that are sorted newest first.
    fn add(&mut self, elements: &[Element]) {
        let threshold = self.beyond_tau();
        let newer = &elements[..elements.partition_point(|element| element.time_ms > threshold)];
        if newer.is_empty() {
            return;
        }
        self.spare.clear();
        let mut old = self.times.iter().copied().peekable();
        let mut new = newer.iter().map(|element| element.time_ms).peekable();
        while self.spare.len() <= self.tau {
            let from_old = match (old.peek(), new.peek()) {
                (Some(old), Some(new)) => old >= new,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            self.spare.extend(if from_old { old.next() } else { new.next() });
        }
        std::mem::swap(&mut self.times, &mut self.spare);
    }

    /// The (tau + 1)-th newest time.
    fn beyond_tau(&self) -> i64 {
        self.times.get(self.tau).copied().unwrap_or(NO_FLOOR)
    }
}
