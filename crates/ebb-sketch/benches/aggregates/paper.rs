//! A direct port of the published structure (with the raw observations added to the answer): hash maps of ranges, the
//! published capacity of 9 / eps per halving, every observation copied into every level that reaches back to it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

struct Level {
    range_capacity: u64,
    floor: Option<u64>,
    ranges: HashMap<(u32, u64), u64>,
}

pub struct Replicated {
    halvings: u32,
    capacity: usize,
    raw: BinaryHeap<Reverse<u64>>,
    raw_floor: Option<u64>,
    levels: Vec<Level>,
}

fn end(range: &(u32, u64)) -> u64 {
    ((range.1 + 1) << range.0) - 1
}

impl Level {
    fn insert(&mut self, halvings: u32, time: u64) {
        let (mut present, mut absent) = (0, halvings + 1);
        while present < absent {
            let middle = (present + absent) / 2;
            let width = halvings - middle;
            if self.ranges.contains_key(&(width, time >> width)) { present = middle + 1 } else { absent = middle }
        }
        let mut width = halvings - present.saturating_sub(1);
        while width > 0 && self.ranges.get(&(width, time >> width)).is_some_and(|stored| *stored >= self.range_capacity)
        {
            width -= 1;
        }
        *self.ranges.entry((width, time >> width)).or_insert(0) += 1;
    }

    fn cut(&mut self, capacity: usize) {
        let mut order: Vec<(u64, u32)> = self.ranges.keys().map(|range| (end(range), range.0)).collect();
        order.sort_unstable();
        let floor = order[order.len() - capacity - 1].0;
        self.floor = Some(self.floor.map_or(floor, |old| old.max(floor)));
        self.ranges.retain(|range, _| end(range) > floor);
    }

    /// The published compress, from the leaves up: siblings that fit into their parent move there.
    fn raised(&self, halvings: u32) -> Self {
        let mut ranges = self.ranges.clone();
        let range_capacity = 2 * self.range_capacity;
        for width in 0..halvings {
            let mut row: Vec<u64> = ranges.keys().filter(|range| range.0 == width).map(|range| range.1 >> 1).collect();
            row.sort_unstable();
            row.dedup();
            for parent in row {
                let stored = |range: (u32, u64)| ranges.get(&range).copied().unwrap_or(0);
                let children = stored((width, 2 * parent)) + stored((width, 2 * parent + 1));
                let room = range_capacity.saturating_sub(stored((width + 1, parent)));
                if children <= room {
                    ranges.remove(&(width, 2 * parent));
                    ranges.remove(&(width, 2 * parent + 1));
                    *ranges.entry((width + 1, parent)).or_insert(0) += children;
                }
            }
        }
        Self { range_capacity, floor: self.floor, ranges }
    }
}

impl Replicated {
    pub fn new(epsilon: f64, halvings: u32) -> Self {
        let capacity = (9.0 / epsilon * f64::from(halvings)).ceil() as usize;
        let first = Level { range_capacity: 2, floor: None, ranges: HashMap::new() };
        Self { halvings, capacity, raw: BinaryHeap::new(), raw_floor: None, levels: vec![first] }
    }

    pub fn insert(&mut self, time: u64) {
        self.raw.push(Reverse(time));
        if self.raw.len() <= self.capacity {
            return;
        }
        let Some(Reverse(time)) = self.raw.pop() else { return };
        self.raw_floor = Some(self.raw_floor.map_or(time, |old| old.max(time)));
        for index in 0..self.levels.len() {
            let level = &mut self.levels[index];
            if level.floor.is_none_or(|floor| time > floor) {
                level.insert(self.halvings, time);
                if level.ranges.len() > self.capacity + self.capacity / 8 {
                    if index + 1 == self.levels.len() {
                        let raised = self.levels[index].raised(self.halvings);
                        self.levels.push(raised);
                    }
                    self.levels[index].cut(self.capacity);
                }
            }
        }
    }

    pub fn count(&self, now: u64, width: u64) -> u64 {
        let cut = now - width;
        if self.raw_floor.is_none_or(|floor| floor <= cut) {
            return self.raw.iter().filter(|time| time.0 > cut).count() as u64;
        }
        let level = self.levels.iter().find(|level| level.floor.is_none_or(|floor| floor <= cut));
        let ranges = level.map_or(0, |level| level.ranges.iter().filter(|(r, _)| end(r) > cut).map(|(_, c)| c).sum());
        self.raw.len() as u64 + ranges
    }
}
