//! The levels of a cascade.
//!
//! The newest observations are kept raw. On overflow they move into the first level that still reaches back to them. A level
//! that exceeds its capacity is compressed; if that does not suffice, its oldest ranges move unchanged into the next level,
//! whose ranges hold twice the weight. Every accepted weight is stored exactly once.

use crate::aggregate::observation::Observation;
use crate::aggregate::qdigest::tree::{DyadicRange, Forest, Node};
use crate::aggregate::reading::DecayFactor;
use crate::aggregate::summary::{RangeSummary, SummaryShape};
use crate::aggregate::timeline::{RangeCollector, RangeStore, TimelineQuery, TimelineShape, position_of, time_of};
use crate::codec::{CodecError, Reader, Writer};

/// Raw observations kept after an overflow, in capacities of a level. An overflow happens at twice as many.
const RAW_CAPACITIES: usize = 4;

/// The exponent of the range capacity of the first level: it matches the number of raw observations.
const FIRST_EXPONENT: u32 = RAW_CAPACITIES.ilog2() + 1;

/// Ranges that end after the floor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CascadeLevel<M> {
    /// Nothing that ends at or before this time is kept here any more.
    pub floor_ms: Option<i64>,
    pub forest: Forest<M>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CascadeStore<M> {
    pub raw: Vec<Observation>,
    /// The newest time that ever left the raw observations.
    pub raw_floor_ms: Option<i64>,
    pub levels: Vec<CascadeLevel<M>>,
    pub expired: f64,
}

impl<M: RangeSummary> CascadeStore<M> {
    /// Keeps the newest observations raw and moves the others into levels.
    fn drain(&mut self, shape: &TimelineShape, newest_ms: i64) {
        self.expire(shape, newest_ms);
        // A stable sort: the observations kept last time are one sorted run.
        self.raw.sort_by(|a, b| a.time_ms.cmp(&b.time_ms).then_with(|| tie_breaker(a).cmp(&tie_breaker(b))));
        let leaving = self.raw.len().saturating_sub(RAW_CAPACITIES * shape.capacity as usize);
        let Some(last) = leaving.checked_sub(1) else { return };
        let floor_ms = self.raw[last].time_ms;
        self.raw_floor_ms = Some(self.raw_floor_ms.map_or(floor_ms, |floor| floor.max(floor_ms)));
        let batch: Vec<Observation> = self.raw.drain(..leaving).collect();
        let mut rest = &batch[..];
        let mut level = 0;
        while !rest.is_empty() {
            self.ensure_level(shape, level);
            let floor_ms = self.levels[level].floor_ms.unwrap_or(i64::MIN);
            let (older, newer) = rest.split_at(rest.partition_point(|one| one.time_ms <= floor_ms));
            rest = older;
            if !newer.is_empty() {
                self.levels[level].forest.add_sorted(leaves(shape.height(), shape.summary, newer));
                self.shrink_to_capacity(shape, level);
            }
            level += 1;
        }
    }

    fn ensure_level(&mut self, shape: &TimelineShape, level: usize) {
        if level == self.levels.len() {
            self.levels.push(CascadeLevel { floor_ms: None, forest: Forest::new(shape.height()) });
        }
    }

    /// Compresses a level that exceeds its capacity, then moves its oldest ranges down if that was not enough.
    fn shrink_to_capacity(&mut self, shape: &TimelineShape, level: usize) {
        let capacity = shape.capacity as usize;
        let forest = &mut self.levels[level].forest;
        if forest.nodes.len() <= 3 * capacity {
            return;
        }
        forest.compress(range_capacity(shape, level));
        if forest.nodes.len() <= 2 * capacity {
            return;
        }
        let height = forest.height;
        let mut ends: Vec<u64> = forest.nodes.iter().map(|node| node.range.high(height)).collect();
        let (_, cut, _) = ends.select_nth_unstable(forest.nodes.len() - capacity - 1);
        let cut = *cut;
        let moved = forest.remove_through(cut);
        let floor_ms = time_of(cut);
        let current = &mut self.levels[level];
        current.floor_ms = Some(current.floor_ms.map_or(floor_ms, |floor| floor.max(floor_ms)));
        self.ensure_level(shape, level + 1);
        self.levels[level + 1].forest.add_sorted(moved);
        self.shrink_to_capacity(shape, level + 1);
    }

    fn range_contents(&self) -> impl Iterator<Item = &M> {
        self.levels.iter().flat_map(|level| &level.forest.nodes).map(|node| &node.mass)
    }
}

impl<M: RangeSummary> RangeStore for CascadeStore<M> {
    fn new(_: &TimelineShape) -> Self {
        Self { raw: Vec::new(), raw_floor_ms: None, levels: Vec::new(), expired: 0.0 }
    }

    #[inline]
    fn insert(&mut self, shape: &TimelineShape, observation: Observation, newest_ms: i64) {
        self.raw.push(observation);
        if self.raw.len() >= 2 * RAW_CAPACITIES * shape.capacity as usize {
            self.drain(shape, newest_ms);
        }
    }

    fn expire(&mut self, shape: &TimelineShape, newest_ms: i64) {
        let cut_ms = newest_ms.saturating_sub_unsigned(shape.horizon_ms);
        for gone in self.raw.extract_if(.., |one| one.time_ms <= cut_ms) {
            self.expired += gone.weight;
        }
        // The content of a level is no newer than the floor of the level above, even in ranges that end later.
        let mut above_ms = self.raw_floor_ms;
        let mut live = self.levels.len();
        for (index, level) in self.levels.iter_mut().enumerate() {
            if above_ms.is_none_or(|above| above <= cut_ms) {
                live = index;
                break;
            }
            let gone = level.forest.remove_through(position_of(cut_ms));
            if !gone.is_empty() {
                self.expired += gone.iter().map(|node| node.mass.weight()).sum::<f64>();
                level.floor_ms = Some(level.floor_ms.map_or(cut_ms, |floor| floor.max(cut_ms)));
            }
            above_ms = level.floor_ms;
        }
        let expired_levels = self.levels.drain(live..);
        self.expired += expired_levels.map(|level| level.forest.weight()).sum::<f64>();
    }

    fn collect<C: RangeCollector>(&self, query: &TimelineQuery<'_>, into: &mut C) -> usize {
        let mut used = 0;
        for one in &self.raw {
            let weight = query.weight(one.time_ms);
            if weight > 0.0 {
                into.add_observation(one, weight);
                used += 1;
            }
        }
        let mut above_ms = self.raw_floor_ms;
        for level in &self.levels {
            let Some(ceiling_ms) = above_ms else { break };
            let youngest = query.weight(ceiling_ms);
            if youngest <= 0.0 {
                break;
            }
            let height = level.forest.height;
            for node in &level.forest.nodes {
                let (low_ms, high_ms) = (time_of(node.range.low()), time_of(node.range.high(height)));
                let upper = if high_ms < ceiling_ms { query.weight(high_ms) } else { youngest };
                if upper > 0.0 {
                    let lower = if low_ms == high_ms { upper } else { query.least_weight(low_ms).min(upper) };
                    into.add_range(&node.mass, DecayFactor::between(lower, upper));
                    used += 1;
                }
            }
            above_ms = level.floor_ms.map(|floor| floor.min(ceiling_ms));
        }
        used
    }

    fn collect_labels(&self, into: &mut Vec<u128>) {
        into.extend(self.raw.iter().map(|one| one.label));
        self.range_contents().filter_map(M::summary).for_each(|summary| into.extend(summary.labels()));
    }

    /// Raw observations, and in the ranges digest nodes, counters and buffered observations; a range of totals is one.
    fn entry_count(&self) -> usize {
        let entries = |content: &M| content.summary().map_or(1, |summary| summary.entry_count());
        self.raw.len() + self.range_contents().map(entries).sum::<usize>()
    }

    fn node_count(&self) -> usize {
        let nodes = |content: &M| content.summary().map_or(1, |summary| summary.node_count());
        self.raw.len() + self.range_contents().map(nodes).sum::<usize>()
    }

    fn write(&self, shape: &TimelineShape, w: &mut Writer) {
        self.write_fields(shape, w);
    }

    fn read(shape: &TimelineShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::read_fields(shape, r)
    }
}

/// The weight at which a range of a level is full.
pub(super) fn range_capacity(shape: &TimelineShape, level: usize) -> f64 {
    shape.range_capacity(level as u32 + FIRST_EXPONENT)
}

/// Orders observations of the same time by everything that is kept of them, so that the order is deterministic.
fn tie_breaker(one: &Observation) -> (u64, u64, u128) {
    (one.weight.to_bits(), one.value, one.label)
}

/// Sorted observations as leaves, one per time.
fn leaves<M: RangeSummary>(height: u8, shape: SummaryShape, sorted: &[Observation]) -> Vec<Node<M>> {
    let leaf = |group: &[Observation]| Node {
        range: DyadicRange::new(height, position_of(group[0].time_ms)),
        mass: M::of(shape, group),
    };
    sorted.chunk_by(|a, b| a.time_ms == b.time_ms).map(leaf).collect()
}
