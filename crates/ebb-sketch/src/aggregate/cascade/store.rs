//! The levels of a cascade, whatever stands in their ranges.
//!
//! The newest observations are kept as they are. What overflows goes, leaf by leaf, into the first level that still
//! reaches back to it; a level that outgrows its capacity is compressed and then cut in time, and what it lets go falls
//! into the next level at its own range. Every accepted weight stands in exactly one place.

use crate::aggregate::content::{
    ContentShape, Factor, Gather, Held, Observation, Timeline, TimelineShape, position, time_at,
};
use crate::aggregate::qdigest::tree::{Forest, Node, Range};

/// The newest observations are kept raw: this many times a level's capacity after they overflow, twice that before.
const RAW_KEPT: usize = 4;

/// The first level whose ranges are as full as RAW_KEPT asks for.
const FIRST_GAMMA: u32 = RAW_KEPT.ilog2() + 1;

/// One level: ranges that end after its floor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level<M> {
    /// Nothing that ends at or before this is kept here any more.
    pub floor_ms: Option<i64>,
    pub forest: Forest<M>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Store<M> {
    pub raw: Vec<Observation>,
    /// The newest time that ever left the raw observations.
    pub raw_floor_ms: Option<i64>,
    pub levels: Vec<Level<M>>,
    pub expired: f64,
}

impl<M: Held> Store<M> {
    pub fn new() -> Self {
        Self { raw: Vec::new(), raw_floor_ms: None, levels: Vec::new(), expired: 0.0 }
    }

    #[inline]
    pub fn insert(&mut self, shape: &TimelineShape, observation: Observation, newest_ms: i64) {
        self.raw.push(observation);
        if self.raw.len() >= 2 * RAW_KEPT * shape.capacity as usize {
            self.drain(shape, newest_ms);
        }
    }

    /// Keeps the newest observations raw and sends the rest down.
    fn drain(&mut self, shape: &TimelineShape, newest_ms: i64) {
        self.expire(shape, newest_ms);
        // What was kept last time is in order already, which this sort notices.
        self.raw.sort_by(|a, b| a.time_ms.cmp(&b.time_ms).then_with(|| order(a).cmp(&order(b))));
        let leaving = self.raw.len().saturating_sub(RAW_KEPT * shape.capacity as usize);
        let Some(last) = leaving.checked_sub(1) else { return };
        let floor_ms = self.raw[last].time_ms;
        self.raw_floor_ms = Some(self.raw_floor_ms.map_or(floor_ms, |floor| floor.max(floor_ms)));
        let batch: Vec<Observation> = self.raw.drain(..leaving).collect();
        let mut rest = &batch[..];
        let mut level = 0;
        while !rest.is_empty() {
            self.make_level(shape, level);
            let floor_ms = self.levels[level].floor_ms.unwrap_or(i64::MIN);
            let (older, mine) = rest.split_at(rest.partition_point(|one| one.time_ms <= floor_ms));
            rest = older;
            if !mine.is_empty() {
                self.levels[level].forest.add_sorted(leaves(shape.height(), shape.content, mine));
                self.fit(shape, level);
            }
            level += 1;
        }
    }

    fn make_level(&mut self, shape: &TimelineShape, level: usize) {
        if level == self.levels.len() {
            self.levels.push(Level { floor_ms: None, forest: Forest::new(shape.height()) });
        }
    }

    /// Compresses a level that has outgrown its capacity; if that is not enough, its oldest ranges fall one level down.
    fn fit(&mut self, shape: &TimelineShape, level: usize) {
        let capacity = shape.capacity as usize;
        let forest = &mut self.levels[level].forest;
        if forest.nodes.len() <= 3 * capacity {
            return;
        }
        forest.compress(gamma(shape, level));
        if forest.nodes.len() <= 2 * capacity {
            return;
        }
        let height = forest.height;
        let mut ends: Vec<u64> = forest.nodes.iter().map(|node| node.range.high(height)).collect();
        let (_, cut, _) = ends.select_nth_unstable(forest.nodes.len() - capacity - 1);
        let cut = *cut;
        let gone = forest.drop_through(cut);
        let floor_ms = time_at(cut);
        let held = &mut self.levels[level];
        held.floor_ms = Some(held.floor_ms.map_or(floor_ms, |floor| floor.max(floor_ms)));
        self.make_level(shape, level + 1);
        self.levels[level + 1].forest.add_sorted(gone);
        self.fit(shape, level + 1);
    }

    /// Forgets what is older than the horizon, and the levels that only held that.
    pub fn expire(&mut self, shape: &TimelineShape, newest_ms: i64) {
        let cut_ms = newest_ms.saturating_sub_unsigned(shape.horizon_ms);
        for gone in self.raw.extract_if(.., |one| one.time_ms <= cut_ms) {
            self.expired += gone.weight;
        }
        // Everything in a level is as old as the floor of the level above says, even in ranges that reach further.
        let mut above_ms = self.raw_floor_ms;
        let mut dead = self.levels.len();
        for (place, level) in self.levels.iter_mut().enumerate() {
            if above_ms.is_none_or(|above| above <= cut_ms) {
                dead = place;
                break;
            }
            let gone = level.forest.drop_through(position(cut_ms));
            if !gone.is_empty() {
                self.expired += gone.iter().map(|node| node.mass.weight()).sum::<f64>();
                level.floor_ms = Some(level.floor_ms.map_or(cut_ms, |floor| floor.max(cut_ms)));
            }
            above_ms = level.floor_ms;
        }
        let dead_levels = self.levels.drain(dead..);
        self.expired += dead_levels.map(|level| level.forest.weight()).sum::<f64>();
    }

    /// Gathers everything that may still weigh something; returns how many observations and ranges that was.
    pub fn gather<G: Gather>(&self, timeline: &Timeline<'_>, into: &mut G) -> usize {
        let mut used = 0;
        for one in &self.raw {
            let weight = timeline.weight(one.time_ms);
            if weight > 0.0 {
                into.raw(one, weight);
                used += 1;
            }
        }
        let mut above_ms = self.raw_floor_ms;
        for level in &self.levels {
            let Some(ceiling_ms) = above_ms else { break };
            let youngest = timeline.weight(ceiling_ms);
            if youngest <= 0.0 {
                break;
            }
            let height = level.forest.height;
            for node in &level.forest.nodes {
                let (low_ms, high_ms) = (time_at(node.range.low()), time_at(node.range.high(height)));
                let upper = if high_ms < ceiling_ms { timeline.weight(high_ms) } else { youngest };
                if upper > 0.0 {
                    let lower = if low_ms == high_ms { upper } else { timeline.weight(low_ms) };
                    into.held(&node.mass, Factor::between(lower, upper));
                    used += 1;
                }
            }
            above_ms = level.floor_ms.map(|floor| floor.min(ceiling_ms));
        }
        used
    }
}

/// The capacity of a range of a level.
pub(super) fn gamma(shape: &TimelineShape, level: usize) -> f64 {
    shape.gamma(level as u32 + FIRST_GAMMA)
}

/// Beside the time, everything that is kept of an observation: which of two leaves first is never an accident.
fn order(one: &Observation) -> (u64, u64, u128) {
    (one.weight.to_bits(), one.value, one.label)
}

/// Sorted observations as leaves, one for each time.
fn leaves<M: Held>(height: u8, shape: ContentShape, sorted: &[Observation]) -> Vec<Node<M>> {
    let leaf = |group: &[Observation]| Node {
        range: Range::new(height, position(group[0].time_ms)),
        mass: M::of(shape, group),
    };
    sorted.chunk_by(|a, b| a.time_ms == b.time_ms).map(leaf).collect()
}
