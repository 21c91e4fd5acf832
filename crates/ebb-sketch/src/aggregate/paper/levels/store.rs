//! The replicated levels.

use std::collections::BTreeMap;

use crate::aggregate::observation::Observation;
use crate::aggregate::paper::fill_tree::FillTree;
use crate::aggregate::reading::DecayFactor;
use crate::aggregate::summary::RangeSummary;
use crate::aggregate::timeline::{RangeCollector, RangeStore, TimelineQuery, TimelineShape, position_of, time_of};
use crate::codec::{CodecError, Reader, Writer};

/// Time, weight bits, value, label: the order in which raw observations are evicted.
type RawKey = (i64, u64, u64, u128);

/// Every evicted observation that is newer than the floor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReplicatedLevel<M> {
    pub floor_ms: Option<i64>,
    pub tree: FillTree<M>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReplicatedStore<M> {
    /// The multiplicity of each raw observation.
    pub raw: BTreeMap<RawKey, u32>,
    pub raw_len: usize,
    pub raw_floor_ms: Option<i64>,
    pub levels: Vec<ReplicatedLevel<M>>,
    /// Evicted weight that no level reaches back to.
    pub late: f64,
}

pub(super) fn raw_key(one: &Observation) -> RawKey {
    (one.time_ms, one.weight.to_bits(), one.value, one.label)
}

pub(super) fn raw_observation(key: &RawKey) -> Observation {
    Observation { time_ms: key.0, weight: f64::from_bits(key.1), value: key.2, label: key.3 }
}

impl<M: RangeSummary> ReplicatedStore<M> {
    /// Copies the observation into every level that reaches back to it.
    fn evict(&mut self, shape: &TimelineShape, one: &Observation) {
        self.raw_floor_ms = Some(self.raw_floor_ms.map_or(one.time_ms, |floor| floor.max(one.time_ms)));
        let max_ranges = (shape.capacity + (shape.capacity >> 3)) as usize;
        let mut is_stored = false;
        for index in 0..self.levels.len() {
            let level = &mut self.levels[index];
            if level.floor_ms.is_none_or(|floor| one.time_ms > floor) {
                is_stored = true;
                level.tree.insert(position_of(one.time_ms), M::of(shape.summary, std::slice::from_ref(one)));
                if level.tree.len() > max_ranges {
                    self.cut(shape, index);
                }
            }
        }
        if !is_stored {
            self.late += one.weight;
        }
    }

    /// Drops the oldest ranges of a level. The last level is first copied into a coarser one.
    fn cut(&mut self, shape: &TimelineShape, index: usize) {
        if index + 1 == self.levels.len() {
            let last = &self.levels[index];
            let coarser = last.tree.compressed(2.0 * last.tree.range_capacity());
            self.levels.push(ReplicatedLevel { floor_ms: last.floor_ms, tree: coarser });
        }
        let level = &mut self.levels[index];
        if let Some(cut) = level.tree.cut_keeping(shape.capacity as usize) {
            let floor_ms = level.floor_ms.map_or(time_of(cut), |floor| floor.max(time_of(cut)));
            level.floor_ms = Some(floor_ms);
            level.tree.remove_through(position_of(floor_ms));
        }
    }

    fn range_contents(&self) -> impl Iterator<Item = &M> {
        self.levels.iter().flat_map(|level| level.tree.ranges()).map(|(_, _, content)| content)
    }
}

impl<M: RangeSummary> RangeStore for ReplicatedStore<M> {
    const ANSWERS_PAST: bool = false;

    fn new(shape: &TimelineShape) -> Self {
        let tree = FillTree::new(shape.height(), shape.range_capacity(1));
        let levels = vec![ReplicatedLevel { floor_ms: None, tree }];
        Self { raw: BTreeMap::new(), raw_len: 0, raw_floor_ms: None, levels, late: 0.0 }
    }

    fn insert(&mut self, shape: &TimelineShape, observation: Observation, _: i64) {
        *self.raw.entry(raw_key(&observation)).or_insert(0) += 1;
        self.raw_len += 1;
        if self.raw_len > shape.capacity as usize
            && let Some(mut first) = self.raw.first_entry()
        {
            let evicted = raw_observation(first.key());
            *first.get_mut() -= 1;
            if *first.get() == 0 {
                first.remove();
            }
            self.raw_len -= 1;
            self.evict(shape, &evicted);
        }
    }

    /// Also drops coarse levels that no window within the horizon needs.
    fn expire(&mut self, shape: &TimelineShape, newest_ms: i64) {
        let cut_ms = newest_ms.saturating_sub_unsigned(shape.horizon_ms);
        for level in &mut self.levels {
            if level.floor_ms.is_none_or(|floor| cut_ms > floor) {
                level.floor_ms = Some(cut_ms);
                level.tree.remove_through(position_of(cut_ms));
            }
        }
        while let [.., finer, _] = self.levels.as_slice()
            && finer.floor_ms.is_some_and(|floor| floor <= cut_ms)
        {
            self.levels.pop();
        }
    }

    /// A level answers for the windows that no finer level reaches: each of its ranges contributes only that part of the
    /// decay. A coarser level may have dropped more than a finer one, so the part that is left to answer ends at the earliest
    /// floor so far.
    fn collect<C: RangeCollector>(&self, query: &TimelineQuery<'_>, into: &mut C) -> usize {
        let mut used = 0;
        for (key, times) in &self.raw {
            let weight = query.weight(key.0);
            if weight > 0.0 {
                (0..*times).for_each(|_| into.add_observation(&raw_observation(key), weight));
                used += *times as usize;
            }
        }
        let mut finer_ms = self.raw_floor_ms;
        for (index, level) in self.levels.iter().enumerate() {
            let Some(ceiling_ms) = finer_ms else { break };
            let youngest = query.weight(ceiling_ms);
            let is_last = index + 1 == self.levels.len();
            let next_ms = level.floor_ms.map(|floor| floor.min(ceiling_ms));
            let coarser = next_ms.filter(|_| !is_last).map_or(0.0, |floor| query.weight(floor));
            let part = |weight: f64| (weight.min(youngest) - coarser).max(0.0);
            for (low, high, content) in level.tree.ranges() {
                let upper = part(query.weight(time_of(high)));
                if upper > 0.0 {
                    let lower = part(query.least_weight(time_of(low))).min(upper);
                    into.add_range(content, DecayFactor::between(lower, upper));
                    used += 1;
                }
            }
            finer_ms = next_ms;
        }
        used
    }

    fn collect_labels(&self, into: &mut Vec<u128>) {
        into.extend(self.raw.keys().map(|key| raw_observation(key).label));
        self.range_contents().filter_map(M::summary).for_each(|summary| into.extend(summary.labels()));
    }

    /// Raw observations, and in the ranges digest nodes, counters and buffered observations; a range of totals is one.
    fn entry_count(&self) -> usize {
        let entries = |content: &M| content.summary().map_or(1, |summary| summary.entry_count());
        self.raw_len + self.range_contents().map(entries).sum::<usize>()
    }

    fn node_count(&self) -> usize {
        let nodes = |content: &M| content.summary().map_or(1, |summary| summary.node_count());
        self.raw_len + self.range_contents().map(nodes).sum::<usize>()
    }

    fn write(&self, shape: &TimelineShape, w: &mut Writer) {
        self.write_fields(shape, w);
    }

    fn read(shape: &TimelineShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::read_fields(shape, r)
    }
}
