//! The sketch for one integral decay fixed in advance: the paper's own form, with a pool of elements instead of heaps.
//!
//! An element's key at a level is the time at which its first sampled integer dies. Over all distinct elements ever offered
//! with a sampled integer at level i (invariant R2): floor i is the (tau + 1)-th largest key, or none while there are at
//! most tau; elements with a key above the floor of some level are kept, once. The pool lags between compactions.
//! Times are kept in ticks.

use std::sync::Arc;

use super::accuracy::Accuracy;
use super::answers::Answers;
use super::element::{Element, ElementError, is_extreme};
use super::expiry::IntegralDecay;
use super::near::NearRepeats;
use super::sample::{Row, Sample};
use super::sampling::SampleHash;
use super::sketch::{MergeError, QuestionError, drawn_hashes};
use super::window::NO_FLOOR;

/// What a sketch is made for. Sketches of equal specifications can be merged; clones share what was precomputed.
#[derive(Debug, Clone, PartialEq)]
pub struct IntegralSpec {
    accuracy: Accuracy,
    decay: Arc<IntegralDecay>,
    tick_ms: u64,
    weight_scale: u32,
    hashes: Vec<Arc<SampleHash>>,
}

/// Why a specification was refused, and what would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntegralSpecError {
    #[error("the largest weight and its scale must be at least 1, and their product below 2^32")]
    Weight,
    #[error("the decay was made for weights up to {made_for}, but weights times their scale reach {reached}")]
    Decay { made_for: u32, reached: u32 },
    #[error("a tick must last from 1ms to {TICK_MOST_MS}ms")]
    Tick,
}

/// One year.
pub const TICK_MOST_MS: u64 = 366 * 86_400_000;

impl IntegralSpec {
    /// Weights are multiplied with `weight_scale` before they decay, so that small ones do not vanish at once.
    pub fn new(
        accuracy: Accuracy,
        decay: IntegralDecay,
        tick_ms: u64,
        (w_max, weight_scale): (u32, u32),
        seed: u64,
    ) -> Result<Self, IntegralSpecError> {
        if !(1..=TICK_MOST_MS).contains(&tick_ms) {
            return Err(IntegralSpecError::Tick);
        }
        match w_max.checked_mul(weight_scale) {
            None | Some(0) => Err(IntegralSpecError::Weight),
            Some(reached) if reached > decay.w_max() => {
                Err(IntegralSpecError::Decay { made_for: decay.w_max(), reached })
            }
            Some(most) => {
                let hashes = drawn_hashes(accuracy, most, seed);
                Ok(Self { accuracy, decay: Arc::new(decay), tick_ms, weight_scale, hashes })
            }
        }
    }

    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    pub fn decay(&self) -> &IntegralDecay {
        &self.decay
    }

    pub fn tick_ms(&self) -> u64 {
        self.tick_ms
    }

    pub fn weight_scale(&self) -> u32 {
        self.weight_scale
    }

    pub fn w_max(&self) -> u32 {
        self.hashes[0].w_max() / self.weight_scale
    }

    pub(super) fn hashes(&self) -> &[Arc<SampleHash>] {
        &self.hashes
    }

    /// The tick that a time falls into.
    fn tick(&self, time_ms: i64) -> i64 {
        time_ms.div_euclid(self.tick_ms as i64)
    }
}

/// The sketch.
#[derive(Debug, Clone)]
pub struct IntegralSketch {
    spec: IntegralSpec,
    copies: Vec<IntegralStore>,
}

impl IntegralSketch {
    pub fn new(spec: &IntegralSpec) -> Self {
        let tau = spec.accuracy.tau();
        let store = |hash: &Arc<SampleHash>| IntegralStore::new(hash.clone(), spec.decay.clone(), tau);
        Self { spec: spec.clone(), copies: spec.hashes.iter().map(store).collect() }
    }

    pub(super) fn from_copies(spec: &IntegralSpec, copies: Vec<IntegralStore>) -> Self {
        Self { spec: spec.clone(), copies }
    }

    pub fn spec(&self) -> &IntegralSpec {
        &self.spec
    }

    pub(super) fn copies(&self) -> &[IntegralStore] {
        &self.copies
    }

    /// Takes an element, or refuses it whole. Repeats are recognised within a tick.
    #[inline]
    pub fn insert(&mut self, element: Element) -> Result<(), ElementError> {
        element.check(self.spec.w_max())?;
        let weight = element.weight * self.spec.weight_scale;
        let ticked = Element { time_ms: self.spec.tick(element.time_ms), weight, ..element };
        self.copies.iter_mut().for_each(|copy| copy.insert(ticked));
        Ok(())
    }

    /// Forgets what is dead at `watermark_ms`; questions as of earlier ticks are refused from then on.
    pub fn advance(&mut self, watermark_ms: i64) -> Result<(), QuestionError> {
        if is_extreme(watermark_ms) {
            return Err(QuestionError::TimeExtreme { time_ms: watermark_ms });
        }
        let tick = self.spec.tick(watermark_ms);
        self.copies.iter_mut().for_each(|copy| copy.forget_to(tick));
        Ok(())
    }

    /// Becomes the sketch of both sets of elements.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.spec != other.spec {
            return Err(MergeError);
        }
        self.copies.iter_mut().zip(&other.copies).for_each(|(copy, others)| copy.merge(others));
        Ok(())
    }

    /// Compacts to the exact form; a question does it too. State bytes are those of the exact form.
    pub fn settle(&mut self) {
        self.copies.iter_mut().for_each(IntegralStore::settle);
    }

    /// What is alive as of `as_of_ms`.
    pub fn ask(&mut self, as_of_ms: i64) -> Result<Answers, QuestionError> {
        if is_extreme(as_of_ms) {
            return Err(QuestionError::TimeExtreme { time_ms: as_of_ms });
        }
        self.settle();
        let as_of = self.spec.tick(as_of_ms);
        let oldest = self.copies.iter().map(|copy| copy.floors()[copy.floors().len() - 1]).max().unwrap_or(NO_FLOOR);
        if oldest > as_of {
            return Err(QuestionError::TooEarly { floor_ms: oldest.saturating_mul(self.spec.tick_ms as i64) });
        }
        let samples = self.copies.iter().map(|copy| copy.sample(as_of, self.spec.weight_scale)).collect();
        Ok(Answers::new(self.spec.accuracy, samples))
    }

    /// Elements held in all copies; between compactions with some that will go.
    pub fn stored(&self) -> usize {
        self.copies.iter().map(|copy| copy.elements().len()).sum()
    }
}

/// Elements and floors under one hash; times in ticks.
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
        for floor in &mut self.floors {
            *floor = (*floor).max(tick);
        }
        self.loose += 1;
    }

    /// Becomes the sketch of both sets of elements. `other` must be made with the same hash, decay and tau.
    pub fn merge(&mut self, other: &Self) {
        for (floor, others) in self.floors.iter_mut().zip(&other.floors) {
            *floor = (*floor).max(*others);
        }
        self.pool.extend_from_slice(&other.pool);
        self.loose += 1;
        self.settle();
    }

    pub fn is_settled(&self) -> bool {
        self.loose == 0
    }

    /// The floors of all levels, highest first; exact when settled.
    pub fn floors(&self) -> &[i64] {
        &self.floors
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

    /// Rebuilds a settled store; `None` when the parts are not the exact form of any set of elements.
    pub(super) fn from_parts(
        hash: Arc<SampleHash>,
        spec: &IntegralSpec,
        floors: Vec<i64>,
        elements: Vec<Element>,
    ) -> Option<Self> {
        let mut store = Self::new(hash, spec.decay.clone(), spec.accuracy.tau());
        if floors.len() != store.floors.len() {
            return None;
        }
        let count = elements.len();
        store.floors.clone_from(&floors);
        store.pool = elements;
        store.loose = 1;
        store.settle();
        (store.floors == floors && store.pool.len() == count).then_some(store)
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
