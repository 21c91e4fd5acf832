//! Weight on dyadic ranges: the tree under every q-digest, over values or over time.
//!
//! A forest of `height` halvings holds mass on ranges in heap order (by depth, then from left to right) in one sorted
//! vector. Mass only ever moves *up*, into a wider range: whatever stands at a range truly lies in it, so every bracket
//! read from a forest stays valid. It does not know what its positions mean.

/// Bits of a position; the rest of the word is the depth.
pub const POSITION_BITS: u32 = 58;

/// A dyadic range: depth in the high bits, place within the depth below, so that ranges sort in heap order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range(u64);

impl Range {
    pub(crate) fn new(depth: u8, index: u64) -> Self {
        Self(u64::from(depth) << POSITION_BITS | index)
    }

    pub(crate) fn leaf(height: u8, position: u64) -> Self {
        Self::new(height, position)
    }

    pub fn depth(self) -> u8 {
        (self.0 >> POSITION_BITS) as u8
    }

    pub(crate) fn index(self) -> u64 {
        self.0 & ((1 << POSITION_BITS) - 1)
    }

    /// The first position of the range, in a tree of `height`.
    pub fn low(self, height: u8) -> u64 {
        self.index() << (height - self.depth())
    }

    /// The last position of the range, in a tree of `height`.
    pub fn high(self, height: u8) -> u64 {
        self.low(height) + ((1 << (height - self.depth())) - 1)
    }

    /// The published numbering of a single tree: root 1, children 2v and 2v + 1.
    pub fn heap_id(self) -> u64 {
        (1 << self.depth()) + self.index()
    }
}

/// What can stand at a range: it has a weight, it can be joined, and a part of it can be split off.
pub trait Mass: Clone {
    fn weight(&self) -> f64;

    fn absorb(&mut self, other: Self);

    /// Splits off mass of this weight (below the whole); what stays and what leaves add up to what was there.
    fn take(&mut self, weight: f64) -> Self;
}

impl Mass for f64 {
    fn weight(&self) -> f64 {
        *self
    }

    fn absorb(&mut self, other: Self) {
        *self += other;
    }

    fn take(&mut self, weight: f64) -> Self {
        *self -= weight;
        weight
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node<M> {
    pub range: Range,
    pub mass: M,
}

/// Nodes in heap order, each range at most once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forest<M> {
    pub height: u8,
    pub nodes: Vec<Node<M>>,
}

/// One range of a plan: its subtree's weight, its own node, what it shall hold.
struct Entry {
    index: u64,
    subtree: f64,
    own: Option<u32>,
    keep: f64,
}

/// Differences below this share of a weight are rounding, not mass.
const ROUNDING: f64 = 1e-12;

impl<M: Mass> Forest<M> {
    pub fn new(height: u8) -> Self {
        Self { height, nodes: Vec::new() }
    }

    pub fn weight(&self) -> f64 {
        self.nodes.iter().map(|node| node.mass.weight()).sum()
    }

    /// Adds nodes that are in heap order themselves.
    pub fn add_sorted(&mut self, added: Vec<Node<M>>) {
        let Some(first) = added.first() else { return };
        let start = self.nodes.partition_point(|node| node.range < first.range);
        if start == self.nodes.len() {
            self.nodes.extend(added);
            return;
        }
        let tail = self.nodes.split_off(start);
        self.nodes.reserve(tail.len() + added.len());
        let (mut old, mut new) = (tail.into_iter().peekable(), added.into_iter().peekable());
        while let (Some(a), Some(b)) = (old.peek(), new.peek()) {
            let order = a.range.cmp(&b.range);
            let next = if order.is_le() { old.next() } else { new.next() };
            self.nodes.extend(next);
            if order.is_eq()
                && let (Some(node), Some(twin)) = (self.nodes.last_mut(), new.next())
            {
                node.mass.absorb(twin.mass);
            }
        }
        self.nodes.extend(old);
        self.nodes.extend(new);
    }

    /// Removes the ranges that end at or before `cut` and returns them, in heap order.
    pub fn drop_through(&mut self, cut: u64) -> Vec<Node<M>> {
        let height = self.height;
        self.nodes.extract_if(.., |node| node.range.high(height) <= cut).collect()
    }

    /// Moves mass up until every range that has descendants holds `gamma`. Linear, deterministic: the debt of a range is
    /// charged to its left child first.
    pub fn compress(&mut self, gamma: f64) {
        let rows = self.plan(gamma);
        let mut masses: Vec<Option<M>> = std::mem::take(&mut self.nodes).into_iter().map(|n| Some(n.mass)).collect();
        let mut kept: Vec<Vec<Node<M>>> = Vec::with_capacity(rows.len());
        let mut risen: Vec<(u64, M)> = Vec::new();
        for (depth, row) in rows.iter().enumerate().rev() {
            let mut from_below = std::mem::take(&mut risen).into_iter().peekable();
            let mut stays = Vec::new();
            for entry in row {
                let mut mass = entry.own.and_then(|place| masses[place as usize].take());
                while let Some((_, up)) = from_below.next_if(|(index, _)| index >> 1 == entry.index) {
                    match &mut mass {
                        Some(mass) => mass.absorb(up),
                        None => mass = Some(up),
                    }
                }
                let Some(mut mass) = mass else { continue };
                let excess = mass.weight() - entry.keep;
                if entry.keep <= 0.0 && depth > 0 {
                    risen.push((entry.index, mass));
                    continue;
                }
                if depth > 0 && excess > mass.weight() * ROUNDING {
                    risen.push((entry.index, mass.take(excess)));
                }
                stays.push(Node { range: Range::new(depth as u8, entry.index), mass });
            }
            kept.push(stays);
        }
        self.nodes = kept.into_iter().rev().flatten().collect();
    }

    /// What every range shall hold, by depth. Ranges that keep nothing pass all they have to their parent.
    fn plan(&self, gamma: f64) -> Vec<Vec<Entry>> {
        let mut rows = self.subtrees();
        let mut debts: Vec<(usize, f64)> = (0..rows[0].len()).map(|place| (place, 0.0)).collect();
        for depth in 0..rows.len() {
            let (upper, lower) = rows.split_at_mut(depth + 1);
            let (row, below) = (&mut upper[depth], lower.first());
            let (mut next, mut child) = (Vec::with_capacity(debts.len() * 2), 0);
            for (place, debt) in std::mem::take(&mut debts) {
                let entry = &mut row[place];
                let remains = entry.subtree - debt;
                let Some(below) = below.filter(|_| remains > gamma) else {
                    entry.keep = remains.max(0.0);
                    continue;
                };
                let own = entry.own.map_or(0.0, |place| self.nodes[place as usize].mass.weight());
                entry.keep = own.max(gamma);
                let mut debt = debt + entry.keep - own;
                child += below[child..].partition_point(|c| c.index >> 1 < entry.index);
                while let Some(c) = below.get(child).filter(|c| c.index >> 1 == entry.index) {
                    let charged = debt.min(c.subtree);
                    next.push((child, charged));
                    debt -= charged;
                    child += 1;
                }
            }
            debts = next;
        }
        rows
    }

    /// Every range with mass at or below it, by depth, with the weight of its subtree.
    fn subtrees(&self) -> Vec<Vec<Entry>> {
        let mut rows: Vec<Vec<Entry>> = (0..=self.height).map(|_| Vec::new()).collect();
        let mut end = self.nodes.len();
        for depth in (0..=self.height).rev() {
            let start = self.nodes[..end].partition_point(|node| node.range.depth() < depth);
            let (upper, lower) = rows.split_at_mut(usize::from(depth) + 1);
            let row = &mut upper[usize::from(depth)];
            let mut below = lower.first().map_or(&[][..], Vec::as_slice).chunk_by(|a, b| a.index >> 1 == b.index >> 1);
            let mut child = below.next();
            let mut pairs = |row: &mut Vec<Entry>, before: u64| {
                while let Some(pair) = child.filter(|pair| pair[0].index >> 1 < before) {
                    let subtree = pair.iter().map(|c| c.subtree).sum();
                    row.push(Entry { index: pair[0].index >> 1, subtree, own: None, keep: 0.0 });
                    child = below.next();
                }
                match child.filter(|pair| pair[0].index >> 1 == before) {
                    Some(pair) => {
                        child = below.next();
                        pair.iter().map(|c| c.subtree).sum()
                    }
                    None => 0.0,
                }
            };
            for (place, node) in self.nodes[start..end].iter().enumerate() {
                let index = node.range.index();
                let under: f64 = pairs(row, index);
                let own = Some((start + place) as u32);
                row.push(Entry { index, subtree: under + node.mass.weight(), own, keep: 0.0 });
            }
            pairs(row, u64::MAX);
            end = start;
        }
        rows
    }
}

impl Forest<f64> {
    /// The nodes that [`compress`](Self::compress) would leave: bare weights need not be carried up, only rewritten.
    pub fn compressed(&self, gamma: f64) -> Vec<Node<f64>> {
        let rows = self.plan(gamma);
        let kept = |(depth, row): (usize, Vec<Entry>)| {
            row.into_iter()
                .filter(|entry| entry.keep > 0.0)
                .map(move |entry| Node { range: Range::new(depth as u8, entry.index), mass: entry.keep })
        };
        rows.into_iter().enumerate().flat_map(kept).collect()
    }
}
