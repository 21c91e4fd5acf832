//! The levels of the published structure, whatever stands in their ranges.

use std::collections::BTreeMap;

use crate::aggregate::content::{Factor, Gather, Held, Observation, Timeline, TimelineShape, position, time_at};
use crate::aggregate::qdigest::FillTree;

/// Time, weight, value, label: the order in which raw observations leave.
type RawKey = (i64, u64, u64, u128);

/// One level: every observation newer than its floor that has left the raw ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level<M> {
    pub floor_ms: Option<i64>,
    pub tree: FillTree<M>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Store<M> {
    /// How often each observation is there.
    pub raw: BTreeMap<RawKey, u32>,
    pub raw_len: usize,
    pub raw_floor_ms: Option<i64>,
    pub levels: Vec<Level<M>>,
    pub late: f64,
}

pub(super) fn key(one: &Observation) -> RawKey {
    (one.time_ms, one.weight.to_bits(), one.value, one.label)
}

pub fn observation(key: &RawKey) -> Observation {
    Observation { time_ms: key.0, weight: f64::from_bits(key.1), value: key.2, label: key.3 }
}

impl<M: Held> Store<M> {
    pub fn new(shape: &TimelineShape) -> Self {
        let first = Level { floor_ms: None, tree: FillTree::new(shape.height(), shape.gamma(1)) };
        Self { raw: BTreeMap::new(), raw_len: 0, raw_floor_ms: None, levels: vec![first], late: 0.0 }
    }

    pub fn insert(&mut self, shape: &TimelineShape, one: &Observation) {
        *self.raw.entry(key(one)).or_insert(0) += 1;
        self.raw_len += 1;
        if self.raw_len > shape.capacity as usize
            && let Some(mut first) = self.raw.first_entry()
        {
            let evicted = observation(first.key());
            *first.get_mut() -= 1;
            if *first.get() == 0 {
                first.remove();
            }
            self.raw_len -= 1;
            self.evict(shape, &evicted);
        }
    }

    /// Every level that reaches back to the observation takes a copy.
    fn evict(&mut self, shape: &TimelineShape, one: &Observation) {
        self.raw_floor_ms = Some(self.raw_floor_ms.map_or(one.time_ms, |floor| floor.max(one.time_ms)));
        let most = (shape.capacity + (shape.capacity >> 3)) as usize;
        let mut taken = false;
        for place in 0..self.levels.len() {
            let level = &mut self.levels[place];
            if level.floor_ms.is_none_or(|floor| one.time_ms > floor) {
                taken = true;
                level.tree.insert(position(one.time_ms), M::of(shape.content, std::slice::from_ref(one)));
                if level.tree.len() > most {
                    self.cut(shape, place);
                }
            }
        }
        if !taken {
            self.late += one.weight;
        }
    }

    /// Forgets the oldest ranges of a level; the last level is first copied into a coarser one.
    fn cut(&mut self, shape: &TimelineShape, place: usize) {
        if place + 1 == self.levels.len() {
            let last = &self.levels[place];
            let raised = last.tree.raised(2.0 * last.tree.gamma());
            self.levels.push(Level { floor_ms: last.floor_ms, tree: raised });
        }
        let level = &mut self.levels[place];
        if let Some(cut) = level.tree.cut_keeping(shape.capacity as usize) {
            let floor_ms = level.floor_ms.map_or(time_at(cut), |floor| floor.max(time_at(cut)));
            level.floor_ms = Some(floor_ms);
            level.tree.drop_through(position(floor_ms));
        }
    }

    /// Forgets what is older than the horizon, and the coarse levels that are no longer needed for it.
    pub fn expire(&mut self, shape: &TimelineShape, newest_ms: i64) {
        let cut_ms = newest_ms.saturating_sub_unsigned(shape.horizon_ms);
        for level in &mut self.levels {
            if level.floor_ms.is_none_or(|floor| cut_ms > floor) {
                level.floor_ms = Some(cut_ms);
                level.tree.drop_through(position(cut_ms));
            }
        }
        while let [.., finer, _] = self.levels.as_slice()
            && finer.floor_ms.is_some_and(|floor| floor <= cut_ms)
        {
            self.levels.pop();
        }
    }

    /// A level serves the windows that no finer one can: of each range only that part of the decay is gathered. A coarser
    /// level may have forgotten more than a finer one, so what is left to serve ends at the earliest floor so far.
    pub fn gather<G: Gather>(&self, timeline: &Timeline<'_>, into: &mut G) -> usize {
        let mut used = 0;
        for (key, times) in &self.raw {
            let weight = timeline.weight(key.0);
            if weight > 0.0 {
                (0..*times).for_each(|_| into.raw(&observation(key), weight));
                used += *times as usize;
            }
        }
        let mut finer_ms = self.raw_floor_ms;
        for (place, level) in self.levels.iter().enumerate() {
            let Some(ceiling_ms) = finer_ms else { break };
            let youngest = timeline.weight(ceiling_ms);
            let last = place + 1 == self.levels.len();
            let next_ms = level.floor_ms.map(|floor| floor.min(ceiling_ms));
            let coarser = next_ms.filter(|_| !last).map_or(0.0, |floor| timeline.weight(floor));
            let part = |time_ms: i64| (timeline.weight(time_ms).min(youngest) - coarser).max(0.0);
            for (low, high, mass) in level.tree.ranges() {
                let upper = part(time_at(high));
                if upper > 0.0 {
                    into.held(mass, Factor::between(part(time_at(low)), upper));
                    used += 1;
                }
            }
            finer_ms = next_ms;
        }
        used
    }
}
