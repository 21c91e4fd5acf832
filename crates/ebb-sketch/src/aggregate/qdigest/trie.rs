//! A forest as a trie: only ranges that hold mass or part their descendants are there, so that its size does not depend
//! on the height. What the debt compress walks over.

use super::tree::{Forest, Mass, Node, Range};

const NONE: u32 = u32::MAX;

/// Differences below this share of a weight are rounding, not mass.
const ROUNDING: f64 = 1e-12;

struct Entry {
    low: u64,
    depth: u8,
    /// Its place among the nodes of the forest.
    own: u32,
    own_weight: f64,
    /// With everything below.
    subtree: f64,
    left: u32,
    right: u32,
}

pub(super) struct Trie {
    height: u8,
    entries: Vec<Entry>,
    roots: Vec<u32>,
}

impl Trie {
    pub fn new<M: Mass>(forest: &Forest<M>) -> Self {
        let entries = Vec::with_capacity(2 * forest.nodes.len());
        let mut trie = Self { height: forest.height, entries, roots: Vec::new() };
        // The path from a root to the entry that was added last.
        let mut path: Vec<u32> = Vec::with_capacity(usize::from(forest.height) + 1);
        for (place, node) in forest.nodes.iter().enumerate() {
            trie.leave(&mut path, Some(node.range));
            let weight = node.mass.weight();
            path.push(trie.entries.len() as u32);
            trie.entries.push(Entry {
                low: node.range.low(),
                depth: node.range.depth(),
                own: place as u32,
                own_weight: weight,
                subtree: weight,
                left: NONE,
                right: NONE,
            });
        }
        trie.leave(&mut path, None);
        trie
    }

    /// Goes up from the last entry until the path ends at a range around the next one, which is made if need be.
    fn leave(&mut self, path: &mut Vec<u32>, next: Option<Range>) {
        while let Some(&last) = path.last() {
            let parts = next.map_or(64, |next| 64 - (self.entries[last as usize].low ^ next.low()).leading_zeros());
            // The depth at which both are still together; none when not even a root is around both.
            let together = u32::from(self.height).checked_sub(parts).map(|depth| depth as u8);
            if together.is_some_and(|depth| depth >= self.entries[last as usize].depth) {
                return;
            }
            path.pop();
            match path.last() {
                Some(&above) if together.is_none_or(|depth| self.entries[above as usize].depth >= depth) => {
                    self.attach(above, last);
                }
                _ => match together {
                    Some(depth) => {
                        let parting = self.part(last, depth);
                        path.push(parting);
                    }
                    None => self.roots.push(last),
                },
            }
        }
    }

    /// A range without mass of its own, around an entry.
    fn part(&mut self, child: u32, depth: u8) -> u32 {
        let width = self.height - depth;
        let low = self.entries[child as usize].low >> width << width;
        let parting = self.entries.len() as u32;
        self.entries.push(Entry { low, depth, own: NONE, own_weight: 0.0, subtree: 0.0, left: NONE, right: NONE });
        self.attach(parting, child);
        parting
    }

    fn attach(&mut self, parent: u32, child: u32) {
        let (low, subtree) = (self.entries[child as usize].low, self.entries[child as usize].subtree);
        let parent = &mut self.entries[parent as usize];
        parent.subtree += subtree;
        let right = low >> (self.height - parent.depth - 1) & 1 == 1;
        if right { parent.right = child } else { parent.left = child }
    }

    /// The nodes of the forest with their mass moved up.
    pub fn compress<M: Mass>(&self, nodes: Vec<Node<M>>, gamma: f64) -> Vec<Node<M>> {
        let kept = Vec::with_capacity(nodes.len());
        let held = nodes.into_iter().map(|node| Some(node.mass)).collect();
        let mut walk = Walk { trie: self, gamma, held, kept, promised: Vec::new() };
        for root in &self.roots {
            let risen = walk.settle(*root, 0, 0.0);
            // Nothing is owed above a root: only rounding can be left over.
            if let (Some(rest), Some(last)) = (risen, walk.kept.last_mut().and_then(|node| node.mass.as_mut())) {
                last.absorb(rest);
            }
        }
        let whole = |node: Node<Option<M>>| node.mass.map(|mass| Node { range: node.range, mass });
        walk.kept.into_iter().filter_map(whole).collect()
    }
}

struct Walk<'a, M> {
    trie: &'a Trie,
    gamma: f64,
    held: Vec<Option<M>>,
    /// In order; filled when what rises from below is known.
    kept: Vec<Node<Option<M>>>,
    /// Places among the kept that wait to be filled, and what they shall hold.
    promised: Vec<(u32, f64)>,
}

fn join<M: Mass>(mass: Option<M>, more: Option<M>) -> Option<M> {
    match (mass, more) {
        (Some(mut mass), Some(more)) => {
            mass.absorb(more);
            Some(mass)
        }
        (mass, more) => mass.or(more),
    }
}

impl<M: Mass> Walk<'_, M> {
    /// Decides what stays in the ranges from depth `top` down to an entry and below it, when `debt` of it must go up.
    /// Returns what goes up. Calls nest no deeper than the tree is high.
    fn settle(&mut self, entry: u32, top: u8, debt: f64) -> Option<M> {
        let trie = self.trie;
        let one = &trie.entries[entry as usize];
        let (first, mut owed) = (self.promised.len(), debt);
        for depth in top..=one.depth {
            let remains = one.subtree - owed;
            if remains <= self.gamma || depth == trie.height {
                if remains > 0.0 {
                    self.promise(one, depth, remains);
                }
                let all = self.gather(entry);
                return self.fill(first, all);
            }
            let own = if depth == one.depth { one.own_weight } else { 0.0 };
            // A range above its capacity keeps what it has, unless its descendants cannot pay what is owed.
            let keep = own.max(self.gamma).min(remains);
            self.promise(one, depth, keep);
            owed += keep - own;
        }
        let mut pool = self.own(one);
        for child in [one.left, one.right] {
            if child != NONE {
                let charged = owed.min(trie.entries[child as usize].subtree);
                owed -= charged;
                let risen = self.settle(child, one.depth + 1, charged);
                pool = join(pool, risen);
            }
        }
        self.fill(first, pool)
    }

    fn promise(&mut self, one: &Entry, depth: u8, weight: f64) {
        let width = self.trie.height - depth;
        self.promised.push((self.kept.len() as u32, weight));
        self.kept.push(Node { range: Range::new(depth, one.low >> width << width), mass: None });
    }

    fn own(&mut self, one: &Entry) -> Option<M> {
        self.held.get_mut(one.own as usize).and_then(Option::take)
    }

    /// Everything at and below an entry.
    fn gather(&mut self, entry: u32) -> Option<M> {
        let one = &self.trie.entries[entry as usize];
        let mut all = self.own(one);
        for child in [one.left, one.right] {
            if child != NONE {
                let below = self.gather(child);
                all = join(all, below);
            }
        }
        all
    }

    /// Keeps the promises made since `first`, the narrowest range first; returns what is left.
    fn fill(&mut self, first: usize, mut pool: Option<M>) -> Option<M> {
        while self.promised.len() > first
            && let Some((place, weight)) = self.promised.pop()
        {
            let Some(mut mass) = pool.take() else { continue };
            let excess = mass.weight() - weight;
            if excess > mass.weight() * ROUNDING {
                pool = Some(mass.take(excess));
            }
            self.kept[place as usize].mass = Some(mass);
        }
        pool
    }
}
