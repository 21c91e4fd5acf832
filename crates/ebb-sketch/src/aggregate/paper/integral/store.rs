//! One copy of the integral sample: a pool of elements, each once, and the floors of all levels.
//!
//! An element's key at a level is the tick at which its first sampled integer dies. When compacted (invariant R2), over all
//! distinct elements ever inserted with a sampled integer at level i: floor i is the (tau + 1)-th largest key, or none while
//! there are at most tau; elements with a key above the floor of some level are kept. Between compactions floors lag behind
//! and the pool holds more. [`IntegralStore::compact`](SampleStore::compact) restores R2. Times are in ticks.

use std::sync::Arc;

use super::decay::IntegralDecay;
use crate::aggregate::robust::hash::SampleHash;
use crate::aggregate::robust::{
    ELEMENT_BYTES, Element, LevelFloors, RecentElements, STORE_BYTES, Sample, SampleRow, SampleStore,
};

/// Elements and floors under one hash and one decay.
#[derive(Debug, Clone)]
pub struct IntegralStore {
    hash: Arc<SampleHash>,
    decay: Arc<IntegralDecay>,
    tau: usize,
    floors: LevelFloors,
    /// Sorted up to `sorted`, then in order of arrival.
    pool: Vec<Element>,
    sorted: usize,
    /// Elements added since the last compaction.
    deferred: usize,
    /// How many deferred elements trigger a compaction.
    max_deferred: usize,
    recent: RecentElements,
}

/// The keys of all elements.
struct LevelKeys {
    by_level: Vec<Vec<i64>>,
    /// The distinct keys of each element in turn, with the highest level of each.
    groups: Vec<(i64, u8)>,
    /// Where the groups of each element end.
    ends: Vec<usize>,
}

impl IntegralStore {
    /// An empty store that keeps `tau` elements per level.
    pub fn new(hash: Arc<SampleHash>, decay: Arc<IntegralDecay>, tau: u32) -> Self {
        let floors = LevelFloors::new(usize::from(hash.top_level()) + 1);
        let tau = tau as usize;
        Self {
            hash,
            decay,
            tau,
            floors,
            pool: Vec::new(),
            sorted: 0,
            deferred: 0,
            max_deferred: min_deferred(tau),
            recent: RecentElements::default(),
        }
    }

    /// Whether some level keeps the element, because its key there is above the floor. Of the levels that share a first hit
    /// the highest has the lowest floor. A key is above a floor if more integers than the first hit are alive at the floor,
    /// so the key need not be computed.
    #[inline]
    fn is_relevant(&self, start: u64, element: &Element) -> bool {
        let mut is_kept = false;
        self.hash.first_hits(start, element.weight, |hit| {
            is_kept = outlives(&self.decay, element, hit.first_hit, self.floors.of(usize::from(hit.to)));
            !is_kept
        });
        is_kept
    }

    /// The keys of all elements that are above the floors.
    fn find_keys(&self) -> LevelKeys {
        let levels = self.floors.as_slice().len();
        let mut keys = LevelKeys { by_level: vec![Vec::new(); levels], groups: Vec::new(), ends: Vec::new() };
        for element in &self.pool {
            self.hash.first_hits(self.hash.start(element.id), element.weight, |hit| {
                if outlives(&self.decay, element, hit.first_hit, self.floors.of(usize::from(hit.to))) {
                    let key = element.time_ms.saturating_add_unsigned(self.decay.death(element.weight, hit.first_hit));
                    let levels = usize::from(hit.from)..=usize::from(hit.to);
                    let above = levels.rev().take_while(|level| key > self.floors.of(*level));
                    above.for_each(|level| keys.by_level[level].push(key));
                    keys.groups.push((key, hit.to));
                }
                true
            });
            keys.ends.push(keys.groups.len());
        }
        keys
    }

    /// Queries must not be for earlier ticks than this.
    pub fn lowest_floor(&self) -> i64 {
        self.floors.lowest()
    }

    /// The elements of a level with their keys, on a compacted store.
    pub fn members(&self, level: u8) -> Vec<(i64, Element)> {
        let mut members = Vec::new();
        for element in &self.pool {
            self.hash.first_hits(self.hash.start(element.id), element.weight, |hit| {
                if (hit.from..=hit.to).contains(&level) {
                    let key = element.time_ms.saturating_add_unsigned(self.decay.death(element.weight, hit.first_hit));
                    members.extend((key > self.floors.of(usize::from(level))).then_some((key, *element)));
                }
                hit.to < level
            });
        }
        members
    }

    /// The sample of what is alive at `as_of`, which must not be below the lowest floor, on a compacted store.
    pub fn sample(&self, as_of: i64, weight_scale: u32) -> Sample {
        let level = self.floors.as_slice().partition_point(|floor| *floor > as_of) as u8;
        let rows = self.pool.iter().filter(|element| element.time_ms <= as_of).filter_map(|element| {
            let live = self.decay.live(element.weight, as_of.abs_diff(element.time_ms));
            let start = self.hash.start(element.id);
            if live == 0 || self.hash.highest_level(start, live) < level {
                return None;
            }
            let share = self.hash.hits_share(start, live, level);
            Some(SampleRow { value: element.value, weight: element.weight, live, share, level, band: 1.0 })
        });
        let later = self.pool.iter().filter(|element| element.time_ms > as_of);
        let later = later.map(|element| self.hash.level_share(element, level).estimate).sum();
        let rows: Vec<SampleRow> = rows.collect();
        let cluster = self.hash.cluster(rows.iter().map(|row| row.live), level);
        Sample { hash: self.hash.clone(), rows, level, incomplete: false, weight_scale, cluster, later }
    }
}

impl SampleStore for IntegralStore {
    #[inline]
    fn insert(&mut self, element: Element) {
        let start = self.hash.start(element.id);
        if let Some((_, index)) = self.recent.find(start)
            && self.pool.get(index) == Some(&element)
        {
            return;
        }
        if self.is_relevant(start, &element) {
            self.recent.note(start, 0, self.pool.len());
            self.pool.push(element);
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
        self.pool[self.sorted..].sort_unstable();
        // A stable sort merges the two sorted runs.
        self.pool.sort();
        self.pool.dedup();
        let found = self.find_keys();
        for (floor, mut keys) in self.floors.iter_mut().zip(found.by_level) {
            if keys.len() > self.tau {
                *floor = *keys.select_nth_unstable_by(self.tau, |a, b| b.cmp(a)).1;
            }
        }
        let mut from = 0;
        let mut is_kept = found.ends.iter().map(|end| {
            let own = &found.groups[from..*end];
            from = *end;
            own.iter().any(|(key, level)| *key > self.floors.of(usize::from(*level)))
        });
        self.pool.retain(|_| is_kept.next().unwrap_or(false));
        self.sorted = self.pool.len();
        self.max_deferred = (self.pool.len() * 3 / 2).max(min_deferred(self.tau));
    }

    fn is_compact(&self) -> bool {
        self.deferred == 0
    }

    /// Drops everything that is dead at `tick`.
    fn drop_through(&mut self, tick: i64) {
        if self.floors.raise(tick) {
            self.deferred += 1;
        }
    }

    fn merge_lazily(&mut self, other: &Self) {
        self.floors.merge(&other.floors);
        self.pool.extend_from_slice(&other.pool);
        self.deferred += 1 + other.pool.len();
        if self.deferred >= self.max_deferred {
            self.compact();
        }
    }

    fn shrink(&mut self, tau: u32) {
        self.tau = tau as usize;
        self.deferred += 1;
        self.compact();
        self.pool.shrink_to_fit();
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
        self.pool.iter()
    }

    fn entry_count(&self) -> usize {
        self.pool.len()
    }

    fn with_parts(mut self, floors: &[i64], elements: Vec<Element>) -> Option<Self> {
        if !self.floors.replace(floors) {
            return None;
        }
        let count = elements.len();
        self.pool = elements;
        self.deferred = 1;
        self.compact();
        (self.floors.as_slice() == floors && self.pool.len() == count).then_some(self)
    }
}

fn min_deferred(tau: usize) -> usize {
    4 * tau + 64
}

/// Whether integer `first_hit` of the element is alive at `floor`.
#[inline]
fn outlives(decay: &IntegralDecay, element: &Element, first_hit: u32, floor: i64) -> bool {
    floor < element.time_ms || decay.live(element.weight, floor.abs_diff(element.time_ms)) > first_hit
}
