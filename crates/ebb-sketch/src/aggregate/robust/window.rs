//! One copy of the any-window sketch: each element once, in the list of the highest level at which it is sampled.
//!
//! Level i consists of the lists i and above, as far as their elements are newer than its floor. In exact form, over all
//! distinct elements ever offered whose highest level is at least i (invariant R1):
//! floor i is the (tau + 1)-th largest time, or none while there are at most tau; what is newer than it is kept.
//! Between compactions floors lag and lists hold more, which is harmless: [`WindowStore::settle`] restores R1, and what it
//! leaves is a function of the set of elements alone, whatever their order, repetition and division before merges.

use std::sync::Arc;

use super::element::Element;
use super::near::NearRepeats;
use super::sampling::SampleHash;

/// A floor below every time: nothing was ever dropped.
pub const NO_FLOOR: i64 = i64::MIN;

/// Elements and floors under one hash.
#[derive(Debug, Clone)]
pub struct WindowStore {
    hash: Arc<SampleHash>,
    tau: usize,
    floors: Vec<i64>,
    lists: Vec<List>,
    /// Elements pushed since the last compaction, and how many may be.
    loose: usize,
    room: usize,
    near: NearRepeats,
}

/// Newest first up to `sorted`, then as they came.
#[derive(Debug, Clone, Default)]
struct List {
    elements: Vec<Element>,
    sorted: usize,
}

impl WindowStore {
    pub fn new(hash: Arc<SampleHash>, tau: u32) -> Self {
        let levels = usize::from(hash.top_level()) + 1;
        let tau = tau as usize;
        Self {
            hash,
            tau,
            floors: vec![NO_FLOOR; levels],
            lists: vec![List::default(); levels],
            loose: 0,
            room: least_room(tau),
            near: NearRepeats::default(),
        }
    }

    pub fn hash(&self) -> &Arc<SampleHash> {
        &self.hash
    }

    /// Takes a checked element.
    #[inline]
    pub fn insert(&mut self, element: Element) {
        let start = self.hash.start(element.id);
        if let Some((list, position)) = self.near.place(start)
            && self.lists.get(list).and_then(|list| list.elements.get(position)) == Some(&element)
        {
            return;
        }
        let level = usize::from(self.hash.highest_level(start, element.weight));
        if element.time_ms > self.floors[level] {
            let list = &mut self.lists[level];
            self.near.note(start, level, list.elements.len());
            list.elements.push(element);
            self.loose += 1;
            if self.loose >= self.room {
                self.settle();
                self.near.open();
            }
        }
    }

    /// Restores R1.
    pub fn settle(&mut self) {
        if self.loose == 0 {
            return;
        }
        self.loose = 0;
        let mut newest = Newest::new(self.tau);
        for (list, floor) in self.lists.iter_mut().zip(&mut self.floors).rev() {
            list.sort();
            newest.add(&list.elements);
            *floor = (*floor).max(newest.beyond_tau());
            list.keep_newer_than(*floor);
        }
        self.room = self.stored().max(least_room(self.tau));
    }

    /// Forgets everything up to and including `time_ms`, at every level.
    pub fn forget_to(&mut self, time_ms: i64) {
        // The last floor is the lowest: when it stands above, all do.
        if time_ms <= self.oldest_floor() {
            return;
        }
        for floor in &mut self.floors {
            *floor = (*floor).max(time_ms);
        }
        self.loose += 1;
    }

    /// Becomes the sketch of both sets of elements. `other` must be made with the same hash and tau.
    pub fn merge(&mut self, other: &Self) {
        self.absorb(other);
        self.settle();
    }

    /// As [`WindowStore::merge`], but compacted only when there is much to compact: many small ones cost little.
    pub fn absorb(&mut self, other: &Self) {
        for (floor, others) in self.floors.iter_mut().zip(&other.floors) {
            *floor = (*floor).max(*others);
        }
        for (list, others) in self.lists.iter_mut().zip(&other.lists) {
            list.elements.extend_from_slice(&others.elements);
        }
        self.loose += 1 + other.stored();
        if self.loose >= self.room {
            self.settle();
        }
    }

    pub fn is_settled(&self) -> bool {
        self.loose == 0
    }

    /// The floors of all levels, highest first; exact when settled.
    pub fn floors(&self) -> &[i64] {
        &self.floors
    }

    /// Nothing at or before this time can be asked for.
    pub fn oldest_floor(&self) -> i64 {
        self.floors.last().copied().unwrap_or(NO_FLOOR)
    }

    /// Elements held; distinct when settled.
    pub fn stored(&self) -> usize {
        self.lists.iter().map(|list| list.elements.len()).sum()
    }

    /// Elements counted at every level that holds them, on a settled store: what one copy per level would store.
    pub fn nodes(&self) -> usize {
        let at = |(level, floor): (usize, &i64)| self.within(level, *floor, i64::MAX).count();
        self.floors.iter().enumerate().map(at).sum()
    }

    /// Every element held.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.lists.iter().flat_map(|list| &list.elements)
    }

    /// The elements of a level with `after` < time <= `until`, on a settled store with `after` not below the level's floor.
    pub fn within(&self, level: usize, after: i64, until: i64) -> impl Iterator<Item = &Element> {
        self.lists[level..].iter().flat_map(move |list| {
            let from = list.elements.partition_point(|element| element.time_ms > until);
            let to = list.elements.partition_point(|element| element.time_ms > after);
            &list.elements[from..to.max(from)]
        })
    }

    /// Rebuilds a settled store; `None` when the parts are not the exact form of any set of elements.
    pub(super) fn from_parts(
        hash: Arc<SampleHash>,
        tau: u32,
        floors: Vec<i64>,
        elements: Vec<Element>,
    ) -> Option<Self> {
        let mut store = Self::new(hash, tau);
        if floors.len() != store.floors.len() {
            return None;
        }
        let count = elements.len();
        for element in elements {
            let level = usize::from(store.hash.highest_level(store.hash.start(element.id), element.weight));
            store.lists[level].elements.push(element);
        }
        store.floors.clone_from(&floors);
        store.loose = 1;
        store.settle();
        (store.floors == floors && store.stored() == count).then_some(store)
    }
}

fn least_room(tau: usize) -> usize {
    2 * tau + 64
}

impl List {
    fn sort(&mut self) {
        if self.sorted < self.elements.len() {
            let newest_first = |a: &Element, b: &Element| b.cmp(a);
            self.elements[self.sorted..].sort_unstable_by(newest_first);
            // A stable sort merges the two runs instead of sorting them again.
            self.elements.sort_by(newest_first);
            self.elements.dedup();
            self.sorted = self.elements.len();
        }
    }

    /// For a sorted list.
    fn keep_newer_than(&mut self, floor: i64) {
        let keep = self.elements.partition_point(|element| element.time_ms > floor);
        self.elements.truncate(keep);
        self.sorted = keep;
    }
}

/// The tau + 1 newest times of a growing union of lists.
struct Newest {
    tau: usize,
    times: Vec<i64>,
    spare: Vec<i64>,
}

impl Newest {
    fn new(tau: usize) -> Self {
        Self { tau, times: Vec::new(), spare: Vec::new() }
    }

    /// `elements` are sorted newest first.
    fn add(&mut self, elements: &[Element]) {
        let bar = self.beyond_tau();
        let newer = &elements[..elements.partition_point(|element| element.time_ms > bar)];
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
