//! One copy of the integral sketch: a pool of elements, each once, and the floors of all levels.
//!
//! An element's key at a level is the tick at which its first sampled integer dies. Over all distinct elements ever offered
//! with a sampled integer at level i (invariant R2): floor i is the (tau + 1)-th largest key, or none while there are at
//! most tau; elements with a key above the floor of some level are kept. Between compactions floors lag and the pool holds
//! more, which is harmless: [`IntegralStore::settle`] restores R2. Times are in ticks here.

use std::sync::Arc;

use super::element::Element;
use super::expiry::IntegralDecay;
use super::near::NearRepeats;
use super::sample::{Row, Sample};
use super::sampling::SampleHash;
use super::window::NO_FLOOR;

/// Elements and floors under one hash and one decay.
#[derive(Debug, Clone)]
pub struct IntegralStore {
    hash: Arc<SampleHash>,
    decay: Arc<IntegralDecay>,
    tau: usize,
    floors: Vec<i64>,
    /// In order up to `sorted`, then as they came.
    pool: Vec<Element>,
    sorted: usize,
    loose: usize,
    room: usize,
    near: NearRepeats,
}

/// Keys by level; and for each element in turn, up to its end, the keys it has with the highest level of each.
struct Keys {
    by_level: Vec<Vec<i64>>,
    groups: Vec<(i64, u8)>,
    ends: Vec<usize>,
}

impl IntegralStore {
    pub fn new(hash: Arc<SampleHash>, decay: Arc<IntegralDecay>, tau: u32) -> Self {
        let floors = vec![NO_FLOOR; usize::from(hash.top_level()) + 1];
        let tau = tau as usize;
        Self {
            hash,
            decay,
            tau,
            floors,
            pool: Vec::new(),
            sorted: 0,
            loose: 0,
            room: least_room(tau),
            near: NearRepeats::default(),
        }
    }

    /// Takes a checked element.
    #[inline]
    pub fn insert(&mut self, element: Element) {
        let start = self.hash.start(element.id);
        if let Some((_, position)) = self.near.place(start)
            && self.pool.get(position) == Some(&element)
        {
            return;
        }
        if self.is_wanted(start, &element) {
            self.near.note(start, 0, self.pool.len());
            self.pool.push(element);
            self.loose += 1;
            if self.loose >= self.room {
                self.settle();
                self.near.open();
            }
        }
    }

    /// Whether some level has a key of the element above its floor. Of the levels that share a first hit the highest has
    /// the lowest floor. A key is above a floor when more integers than the first hit are alive at the floor: no need to
    /// know the key.
    #[inline]
    fn is_wanted(&self, start: u64, element: &Element) -> bool {
        let mut wanted = false;
        self.hash.first_hits(start, element.weight, |hit| {
            wanted = outlives(&self.decay, element, hit.first_hit, self.floors[usize::from(hit.to)]);
            !wanted
        });
        wanted
    }

    /// Restores R2.
    pub fn settle(&mut self) {
        if self.loose == 0 {
            return;
        }
        self.loose = 0;
        self.pool[self.sorted..].sort_unstable();
        // A stable sort merges the two runs instead of sorting them again.
        self.pool.sort();
        self.pool.dedup();
        let found = self.find_keys();
        for (floor, mut keys) in self.floors.iter_mut().zip(found.by_level) {
            if keys.len() > self.tau {
                *floor = *keys.select_nth_unstable_by(self.tau, |a, b| b.cmp(a)).1;
            }
        }
        let mut from = 0;
        let mut wanted = found.ends.iter().map(|end| {
            let own = &found.groups[from..*end];
            from = *end;
            own.iter().any(|(key, level)| *key > self.floors[usize::from(*level)])
        });
        self.pool.retain(|_| wanted.next().unwrap_or(false));
        self.sorted = self.pool.len();
        self.room = (self.pool.len() * 3 / 2).max(least_room(self.tau));
    }

    /// The keys above the floors, of all elements.
    fn find_keys(&self) -> Keys {
        let mut found = Keys { by_level: vec![Vec::new(); self.floors.len()], groups: Vec::new(), ends: Vec::new() };
        for element in &self.pool {
            self.hash.first_hits(self.hash.start(element.id), element.weight, |hit| {
                if outlives(&self.decay, element, hit.first_hit, self.floors[usize::from(hit.to)]) {
                    let key = element.time_ms.saturating_add_unsigned(self.decay.death(element.weight, hit.first_hit));
                    let levels = usize::from(hit.from)..=usize::from(hit.to);
                    let above = levels.rev().take_while(|level| key > self.floors[*level]);
                    above.for_each(|level| found.by_level[level].push(key));
                    found.groups.push((key, hit.to));
                }
                true
            });
            found.ends.push(found.groups.len());
        }
        found
    }

    /// Forgets everything that is dead at `tick`, at every level.
    pub fn forget_to(&mut self, tick: i64) {
        // The last floor is the lowest: when it stands above, all do.
        if tick <= self.oldest_floor() {
            return;
        }
        for floor in &mut self.floors {
            *floor = (*floor).max(tick);
        }
        self.loose += 1;
    }

    /// Becomes the sketch of both sets of elements. `other` must be made with the same hash, decay and tau.
    pub fn merge(&mut self, other: &Self) {
        self.absorb(other);
        self.settle();
    }

    /// As [`IntegralStore::merge`], but compacted only when there is much to compact: many small ones cost little.
    pub fn absorb(&mut self, other: &Self) {
        for (floor, others) in self.floors.iter_mut().zip(&other.floors) {
            *floor = (*floor).max(*others);
        }
        self.pool.extend_from_slice(&other.pool);
        self.loose += 1 + other.pool.len();
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

    /// Nothing can be asked as of ticks before this one.
    pub fn oldest_floor(&self) -> i64 {
        self.floors.last().copied().unwrap_or(NO_FLOOR)
    }

    /// Elements held; distinct when settled.
    pub fn elements(&self) -> &[Element] {
        &self.pool
    }

    /// The elements of a level with their keys, on a settled store.
    pub fn members(&self, level: u8) -> Vec<(i64, Element)> {
        let mut members = Vec::new();
        for element in &self.pool {
            self.hash.first_hits(self.hash.start(element.id), element.weight, |hit| {
                if (hit.from..=hit.to).contains(&level) {
                    let key = element.time_ms.saturating_add_unsigned(self.decay.death(element.weight, hit.first_hit));
                    members.extend((key > self.floors[usize::from(level)]).then_some((key, *element)));
                }
                hit.to < level
            });
        }
        members
    }

    /// What is alive at `as_of`, which must not be below the last floor, on a settled store.
    pub fn sample(&self, as_of: i64, weight_scale: u32) -> Sample {
        let level = self.floors.partition_point(|floor| *floor > as_of) as u8;
        let rows = self.pool.iter().filter(|element| element.time_ms <= as_of).filter_map(|element| {
            let live = self.decay.live(element.weight, as_of.abs_diff(element.time_ms));
            let start = self.hash.start(element.id);
            if live == 0 || self.hash.highest_level(start, live) < level {
                return None;
            }
            let hits = self.hash.hits(start, live, level);
            Some(Row { value: element.value, weight: element.weight, live, hits, level, band: 1.0, spread: 1.0 })
        });
        Sample { hash: self.hash.clone(), rows: rows.collect(), level, incomplete: false, weight_scale }
    }

    /// Fills an empty store; `None` when the parts are not the exact form of any set of elements.
    pub(super) fn with_parts(mut self, floors: Vec<i64>, elements: Vec<Element>) -> Option<Self> {
        if floors.len() != self.floors.len() {
            return None;
        }
        let count = elements.len();
        self.floors.clone_from(&floors);
        self.pool = elements;
        self.loose = 1;
        self.settle();
        (self.floors == floors && self.pool.len() == count).then_some(self)
    }
}

fn least_room(tau: usize) -> usize {
    4 * tau + 64
}

/// Whether integer `first_hit` of the element is still alive at `floor`.
#[inline]
fn outlives(decay: &IntegralDecay, element: &Element, first_hit: u32, floor: i64) -> bool {
    floor < element.time_ms || decay.live(element.weight, floor.abs_diff(element.time_ms)) > first_hit
}
