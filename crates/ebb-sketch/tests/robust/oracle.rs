//! The published sketch as a naive oracle: a sorted set and a MinHit per level.

use std::collections::BTreeSet;

use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralStore};
use ebb_sketch::aggregate::robust::hash::SampleHash;
use ebb_sketch::aggregate::robust::progression::Progression;
use ebb_sketch::aggregate::robust::store::WindowStore;
use ebb_sketch::aggregate::robust::{Element, ElementId, NO_FLOOR, SampleStore};

/// What determines how long an element stays at a level.
pub enum Key {
    Time,
    Death(IntegralDecay),
}

pub struct Level {
    pub floor: i64,
    pub members: BTreeSet<(i64, Element)>,
}

pub struct Heaps<'a> {
    pub hash: &'a SampleHash,
    pub tau: usize,
    pub key: Key,
    pub levels: Vec<Level>,
}

pub fn element(value: u64, weight: u32, time_ms: i64, id: u128) -> Element {
    Element { time_ms, id: ElementId::from_bits(id), value, weight }
}

pub fn progression(hash: &SampleHash, element: &Element) -> Progression {
    let constants = hash.constants();
    Progression { modulus: constants.modulus, step: constants.step, start: hash.start(element.id) }
}

impl<'a> Heaps<'a> {
    pub fn new(hash: &'a SampleHash, tau: usize, key: Key) -> Self {
        let level = || Level { floor: NO_FLOOR, members: BTreeSet::new() };
        let levels = (0..=hash.top_level()).map(|_| level()).collect();
        Self { hash, tau, key, levels }
    }

    pub fn insert(&mut self, element: Element) {
        for index in 0..self.levels.len() {
            let below = self.hash.threshold(index as u8);
            let Some(hit) = progression(self.hash, &element).min_hit(u64::from(element.weight), below) else { return };
            let key = match &self.key {
                Key::Time => element.time_ms,
                Key::Death(decay) => element.time_ms + decay.death(element.weight, hit as u32) as i64,
            };
            let level = &mut self.levels[index];
            if key > level.floor && level.members.insert((key, element)) && level.members.len() > self.tau {
                let floor = level.members.first().unwrap().0;
                level.raise(floor);
            }
        }
    }

    pub fn advance(&mut self, floor: i64) {
        self.levels.iter_mut().for_each(|level| level.raise(floor));
    }

    pub fn floors(&self) -> Vec<i64> {
        self.levels.iter().map(|level| level.floor).collect()
    }
}

impl Level {
    fn raise(&mut self, floor: i64) {
        self.floor = self.floor.max(floor);
        self.members.retain(|(key, _)| *key > self.floor);
    }
}

/// The store holds exactly the levels of the oracle.
pub fn assert_window_equals(store: &mut WindowStore, heaps: &Heaps<'_>) {
    store.compact();
    assert_eq!(store.floors(), heaps.floors());
    let mut kept = BTreeSet::new();
    for (index, level) in heaps.levels.iter().enumerate() {
        let members: BTreeSet<Element> = store.within(index, level.floor, i64::MAX).copied().collect();
        assert_eq!(members, level.members.iter().map(|(_, element)| *element).collect(), "level {index}");
        kept.extend(members);
    }
    assert_eq!(store.entry_count(), kept.len());
}

pub fn assert_integral_equals(store: &mut IntegralStore, heaps: &Heaps<'_>) {
    store.compact();
    assert_eq!(store.floors(), heaps.floors());
    let mut kept = BTreeSet::new();
    for (index, level) in heaps.levels.iter().enumerate() {
        let members: BTreeSet<(i64, Element)> = store.members(index as u8).into_iter().collect();
        assert_eq!(members, level.members, "level {index}");
        kept.extend(members.into_iter().map(|(_, element)| element));
    }
    assert_eq!(store.entry_count(), kept.len());
}
