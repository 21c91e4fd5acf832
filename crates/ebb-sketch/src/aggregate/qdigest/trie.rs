//! A forest as a compressed trie: only ranges that hold mass or branch are present, so its size does not depend on the
//! height. The compression walks over it.

use super::tree::{DyadicRange, Forest, Mass, Node};

const NONE: u32 = u32::MAX;

/// Differences below this share of a weight are rounding, not mass.
const ROUNDING: f64 = 1e-12;

struct TrieEntry {
    low: u64,
    depth: u8,
    /// The index of its node in the forest.
    node: u32,
    /// The weight of its node.
    weight: f64,
    /// The weight of its node and all descendants.
    subtree: f64,
    left: u32,
    right: u32,
}

pub(super) struct Trie {
    height: u8,
    entries: Vec<TrieEntry>,
    roots: Vec<u32>,
}

impl Trie {
    pub fn new<M: Mass>(forest: &Forest<M>) -> Self {
        let entries = Vec::with_capacity(2 * forest.nodes.len());
        let mut trie = Self { height: forest.height, entries, roots: Vec::new() };
        // The path from a root to the last added entry.
        let mut path: Vec<u32> = Vec::with_capacity(usize::from(forest.height) + 1);
        for (index, node) in forest.nodes.iter().enumerate() {
            trie.ascend(&mut path, Some(node.range));
            let weight = node.mass.weight();
            path.push(trie.entries.len() as u32);
            trie.entries.push(TrieEntry {
                low: node.range.low(),
                depth: node.range.depth(),
                node: index as u32,
                weight,
                subtree: weight,
                left: NONE,
                right: NONE,
            });
        }
        trie.ascend(&mut path, None);
        trie
    }

    /// Shortens the path until it ends at an ancestor of the next range, adding a branching entry if necessary.
    fn ascend(&mut self, path: &mut Vec<u32>, next: Option<DyadicRange>) {
        while let Some(&last) = path.last() {
            let differing = next.map_or(64, |next| 64 - (self.entries[last as usize].low ^ next.low()).leading_zeros());
            // The depth of the deepest common range; none if even the roots differ.
            let common = u32::from(self.height).checked_sub(differing).map(|depth| depth as u8);
            if common.is_some_and(|depth| depth >= self.entries[last as usize].depth) {
                return;
            }
            path.pop();
            match path.last() {
                Some(&above) if common.is_none_or(|depth| self.entries[above as usize].depth >= depth) => {
                    self.attach(above, last);
                }
                _ => match common {
                    Some(depth) => {
                        let branch = self.branch_above(last, depth);
                        path.push(branch);
                    }
                    None => self.roots.push(last),
                },
            }
        }
    }

    /// Adds an entry without mass at `depth` above `child`.
    fn branch_above(&mut self, child: u32, depth: u8) -> u32 {
        let width = self.height - depth;
        let low = self.entries[child as usize].low >> width << width;
        let branch = self.entries.len() as u32;
        self.entries.push(TrieEntry { low, depth, node: NONE, weight: 0.0, subtree: 0.0, left: NONE, right: NONE });
        self.attach(branch, child);
        branch
    }

    fn attach(&mut self, parent: u32, child: u32) {
        let (low, subtree) = (self.entries[child as usize].low, self.entries[child as usize].subtree);
        let parent = &mut self.entries[parent as usize];
        parent.subtree += subtree;
        let is_right = low >> (self.height - parent.depth - 1) & 1 == 1;
        if is_right { parent.right = child } else { parent.left = child }
    }

    /// The nodes of the forest with their mass moved up.
    pub fn compress<M: Mass>(&self, nodes: Vec<Node<M>>, range_capacity: f64) -> Vec<Node<M>> {
        let output = Vec::with_capacity(nodes.len());
        let input = nodes.into_iter().map(|node| Some(node.mass)).collect();
        let mut walk = CompressWalk { trie: self, range_capacity, input, output, reserved: Vec::new() };
        for root in &self.roots {
            let rest = walk.compress(*root, 0, 0.0);
            // A root owes nothing: only rounding can be left over.
            if let (Some(rest), Some(last)) = (rest, walk.output.last_mut().and_then(|node| node.mass.as_mut())) {
                last.merge(rest);
            }
        }
        let filled = |node: Node<Option<M>>| node.mass.map(|mass| Node { range: node.range, mass });
        walk.output.into_iter().filter_map(filled).collect()
    }
}

struct CompressWalk<'a, M> {
    trie: &'a Trie,
    range_capacity: f64,
    input: Vec<Option<M>>,
    /// In order. A node is filled once the mass that moves up to it is known.
    output: Vec<Node<Option<M>>>,
    /// Indices of unfilled output nodes, and the weight each will hold.
    reserved: Vec<(u32, f64)>,
}

fn merged<M: Mass>(mass: Option<M>, more: Option<M>) -> Option<M> {
    match (mass, more) {
        (Some(mut mass), Some(more)) => {
            mass.merge(more);
            Some(mass)
        }
        (mass, more) => mass.or(more),
    }
}

impl<M: Mass> CompressWalk<'_, M> {
    /// Decides what the ranges from depth `top` down to the entry and below keep if they owe `debt` to ranges above. Returns
    /// the mass that moves up. The recursion is no deeper than the tree is high.
    fn compress(&mut self, entry: u32, top: u8, debt: f64) -> Option<M> {
        let trie = self.trie;
        let current = &trie.entries[entry as usize];
        let (first, mut owed) = (self.reserved.len(), debt);
        for depth in top..=current.depth {
            let remains = current.subtree - owed;
            if remains <= self.range_capacity || depth == trie.height {
                if remains > 0.0 {
                    self.reserve(current, depth, remains);
                }
                let all = self.take_subtree(entry);
                return self.fill(first, all);
            }
            let own = if depth == current.depth { current.weight } else { 0.0 };
            // A range above its capacity keeps its mass, unless its descendants cannot pay the debt.
            let keep = own.max(self.range_capacity).min(remains);
            self.reserve(current, depth, keep);
            owed += keep - own;
        }
        let mut pool = self.take_node(current);
        for child in [current.left, current.right] {
            if child != NONE {
                let charged = owed.min(trie.entries[child as usize].subtree);
                owed -= charged;
                let risen = self.compress(child, current.depth + 1, charged);
                pool = merged(pool, risen);
            }
        }
        self.fill(first, pool)
    }

    fn reserve(&mut self, entry: &TrieEntry, depth: u8, weight: f64) {
        let width = self.trie.height - depth;
        self.reserved.push((self.output.len() as u32, weight));
        self.output.push(Node { range: DyadicRange::new(depth, entry.low >> width << width), mass: None });
    }

    fn take_node(&mut self, entry: &TrieEntry) -> Option<M> {
        self.input.get_mut(entry.node as usize).and_then(Option::take)
    }

    /// The mass of an entry and all its descendants.
    fn take_subtree(&mut self, entry: u32) -> Option<M> {
        let current = &self.trie.entries[entry as usize];
        let mut all = self.take_node(current);
        for child in [current.left, current.right] {
            if child != NONE {
                let below = self.take_subtree(child);
                all = merged(all, below);
            }
        }
        all
    }

    /// Fills the nodes reserved since `first` from the pool, narrowest range first, and returns the rest.
    fn fill(&mut self, first: usize, mut pool: Option<M>) -> Option<M> {
        while self.reserved.len() > first
            && let Some((index, weight)) = self.reserved.pop()
        {
            let Some(mut mass) = pool.take() else { continue };
            let excess = mass.weight() - weight;
            if excess > mass.weight() * ROUNDING {
                pool = Some(mass.split_off(excess));
            }
            self.output[index as usize].mass = Some(mass);
        }
        pool
    }
}
