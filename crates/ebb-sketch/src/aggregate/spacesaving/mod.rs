//! SpaceSaving: the heaviest labels of a weighted stream, in a fixed number of counters.
//!
//! A monitored label has the weight seen since it is monitored, and an `error`: the most it may have weighed before. A label
//! that is not monitored weighs at most the `floor`. Eviction is lazy: new labels are buffered, and when there are too many
//! counters the lightest (ties: the largest label) are evicted together and the floor rises to the heaviest of them. The
//! floor never exceeds weight / counters, also through merges: every counter is at or above the floor, and the sum of the
//! counters never exceeds the weight. A summary knows nothing of time.

mod codec;

use super::error::ShapeError;
use super::reading::{Assurance, CellLabels, DecayFactor, Labels};

/// The most counters of one summary.
pub const MAX_COUNTERS: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LabelCounter {
    pub label: u128,
    pub seen: f64,
    pub error: f64,
}

impl LabelCounter {
    fn upper(&self) -> f64 {
        self.seen + self.error
    }
}

/// A SpaceSaving summary. Weights must be finite and above 0; sketches that own summaries check this.
///
/// ```
/// use ebb_sketch::aggregate::answer::TopMode;
/// use ebb_sketch::aggregate::spacesaving::SpaceSaving;
///
/// let mut summary = SpaceSaving::new(10)?;
/// (0..1_000).for_each(|i| summary.insert(if i % 4 == 0 { 42 } else { i }, 1.0));
/// let top = summary.reading().top(0.2, TopMode::NoFalseNegatives)?;
/// assert_eq!(top.items[0].label, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceSaving {
    capacity: u32,
    /// Sorted by label, each once.
    counters: Vec<LabelCounter>,
    buffer: Vec<(u128, f64)>,
    floor: f64,
    weight: f64,
}

impl SpaceSaving {
    /// An empty summary. Its error is at most weight / `counters`.
    pub fn new(counters: u32) -> Result<Self, ShapeError> {
        if !(1..=MAX_COUNTERS).contains(&counters) {
            let nearest = counters.clamp(1, MAX_COUNTERS);
            return Err(ShapeError::Counters { counters, max: MAX_COUNTERS, nearest });
        }
        Ok(Self { capacity: counters, counters: Vec::new(), buffer: Vec::new(), floor: 0.0, weight: 0.0 })
    }

    /// The number of counters.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The total weight.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Counters and buffered labels.
    pub fn len(&self) -> usize {
        self.counters.len() + self.buffer.len()
    }

    /// Whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The largest possible weight of a label that is not monitored.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Labels with a counter or in the buffer; some twice.
    pub(crate) fn retained_labels(&self) -> impl Iterator<Item = u128> {
        self.counters.iter().map(|counter| counter.label).chain(self.buffer.iter().map(|(label, _)| *label))
    }

    /// Adds weight to a label.
    pub fn insert(&mut self, label: u128, weight: f64) {
        debug_assert!(weight > 0.0 && weight.is_finite());
        self.weight += weight;
        self.buffer.push((label, weight));
        if self.buffer.len() >= self.batch() {
            self.fold();
        }
    }

    fn batch(&self) -> usize {
        (self.capacity as usize).max(32)
    }

    fn fold(&mut self) {
        let buffered = self.buffered();
        self.buffer.clear();
        let old = std::mem::take(&mut self.counters);
        self.counters = merge_sorted(
            old,
            buffered,
            |counter| counter,
            |mut new| {
                new.error = self.floor;
                new
            },
        );
        self.evict();
    }

    /// The buffer as counters: sorted by label, each once, without an error.
    fn buffered(&self) -> Vec<LabelCounter> {
        let mut raw = self.buffer.clone();
        raw.sort_unstable_by_key(|(label, weight)| (*label, weight.to_bits()));
        let mut counters: Vec<LabelCounter> = Vec::with_capacity(raw.len());
        for (label, weight) in raw {
            match counters.last_mut() {
                Some(last) if last.label == label => last.seen += weight,
                _ => counters.push(LabelCounter { label, seen: weight, error: 0.0 }),
            }
        }
        counters
    }

    /// Keeps the heaviest counters and raises the floor to the heaviest evicted one.
    fn evict(&mut self) {
        let capacity = self.capacity as usize;
        if self.counters.len() <= capacity {
            return;
        }
        let heavier = |a: &LabelCounter, b: &LabelCounter| b.upper().total_cmp(&a.upper()).then(a.label.cmp(&b.label));
        self.counters.select_nth_unstable_by(capacity, heavier);
        self.floor = self.floor.max(self.counters[capacity].upper());
        self.counters.truncate(capacity);
        self.counters.sort_unstable_by_key(|counter| counter.label);
    }

    /// Adds another summary. The error stays within weight / counters of the smaller summary.
    pub fn merge(&mut self, mut other: Self) {
        if other.counters.is_empty() && other.floor == 0.0 {
            self.weight += other.weight;
            self.buffer.append(&mut other.buffer);
            if self.buffer.len() >= self.batch() {
                self.fold();
            }
            return;
        }
        self.fold();
        other.fold();
        let (own_floor, others_floor) = (self.floor, other.floor);
        let add_error = |floor: f64| {
            move |mut counter: LabelCounter| {
                counter.error += floor;
                counter
            }
        };
        let old = std::mem::take(&mut self.counters);
        self.counters = merge_sorted(old, other.counters, add_error(others_floor), add_error(own_floor));
        self.floor = own_floor + others_floor;
        self.weight += other.weight;
        self.capacity = self.capacity.min(other.capacity);
        self.evict();
    }

    /// Multiplies every weight.
    pub fn scale(&mut self, factor: f64) {
        for counter in &mut self.counters {
            counter.seen *= factor;
            counter.error *= factor;
        }
        self.buffer.iter_mut().for_each(|(_, weight)| *weight *= factor);
        // A very small factor may underflow weights to zero.
        self.counters.retain(|counter| counter.upper() > 0.0);
        self.buffer.retain(|(_, weight)| *weight > 0.0);
        self.floor *= factor;
        self.weight *= factor;
    }

    /// Splits off this much weight. While all labels are monitored, whole labels leave, largest first; afterwards the same
    /// share of each, so that both parts keep a small error.
    pub(crate) fn split_off(&mut self, weight: f64) -> Self {
        let mut other = Self { counters: Vec::new(), buffer: Vec::new(), weight: weight.min(self.weight), ..*self };
        let mut missing = other.weight;
        self.weight -= missing;
        while missing > 0.0
            && let Some((label, available)) = self.buffer.pop()
        {
            let part = available.min(missing);
            other.buffer.push((label, part));
            missing -= part;
            if part < available {
                self.buffer.push((label, available - part));
            }
        }
        let folded: f64 = self.weight + missing - self.buffer.iter().map(|(_, weight)| weight).sum::<f64>();
        let share = if self.floor > 0.0 { Some((missing / folded).clamp(0.0, 1.0)) } else { None };
        for counter in self.counters.iter_mut().rev() {
            let part = share.map_or(counter.seen.min(missing), |share| counter.seen * share);
            missing -= part;
            counter.seen -= part;
            other.counters.push(LabelCounter { seen: part, ..*counter });
        }
        other.counters.reverse();
        if let Some(share) = share {
            other.scale_error(share);
            self.scale_error(1.0 - share);
        }
        self.tighten_error();
        other.tighten_error();
        other
    }

    /// Scales the possible unseen weight.
    fn scale_error(&mut self, share: f64) {
        self.floor *= share;
        self.counters.iter_mut().for_each(|counter| counter.error *= share);
    }

    /// Limits the unseen weight of a label to the unseen weight of all.
    fn tighten_error(&mut self) {
        let seen: f64 = self.counters.iter().map(|counter| counter.seen).sum();
        let raw: f64 = self.buffer.iter().map(|(_, weight)| weight).sum();
        let unseen = (self.weight - seen - raw).max(0.0);
        self.floor = self.floor.min(unseen);
        self.counters.iter_mut().for_each(|counter| counter.error = counter.error.min(unseen));
        self.counters.retain(|counter| counter.seen > 0.0 || counter.error > self.floor);
    }

    /// Bounds of the weight of a label.
    pub fn bounds(&self, label: u128) -> (f64, f64) {
        let raw: f64 = self.buffer.iter().filter(|(l, _)| *l == label).map(|(_, weight)| weight).sum();
        match self.counters.binary_search_by_key(&label, |counter| counter.label) {
            Ok(index) => (self.counters[index].seen + raw, self.counters[index].upper() + raw),
            Err(_) => (raw, self.floor + raw),
        }
    }

    /// Every monitored label with the bounds of its weight, by label.
    pub fn labels(&self) -> Vec<(u128, f64, f64)> {
        self.monitored().into_iter().map(|counter| (counter.label, counter.seen, counter.upper())).collect()
    }

    /// The heaviest labels and their bounds.
    pub fn reading(&self) -> Labels {
        let mut labels = CellLabels::new();
        labels.add(self, DecayFactor::exact(1.0));
        let epsilon = Some(1.0 / f64::from(self.capacity));
        Labels::Cells(labels.finish(Assurance { epsilon, incomplete: false, cells: self.len() as u64 }))
    }

    pub(crate) fn monitored(&self) -> Vec<LabelCounter> {
        if self.buffer.is_empty() {
            return self.counters.clone();
        }
        let with_floor = |mut counter: LabelCounter| {
            counter.error = self.floor;
            counter
        };
        merge_sorted(self.counters.clone(), self.buffered(), |counter| counter, with_floor)
    }
}

/// Merges two lists sorted by label. A counter of only one list is mapped by the function of that list.
fn merge_sorted(
    left: Vec<LabelCounter>,
    right: Vec<LabelCounter>,
    left_only: impl Fn(LabelCounter) -> LabelCounter,
    right_only: impl Fn(LabelCounter) -> LabelCounter,
) -> Vec<LabelCounter> {
    let mut both = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if a.label == b.label => {
                if let (Some(a), Some(b)) = (left.next(), right.next()) {
                    both.push(LabelCounter { label: a.label, seen: a.seen + b.seen, error: a.error + b.error });
                }
            }
            (Some(a), Some(b)) if a.label < b.label => both.extend(left.next().map(&left_only)),
            (_, Some(_)) => both.extend(right.next().map(&right_only)),
            (Some(_), None) => both.extend(left.next().map(&left_only)),
            (None, None) => return both,
        }
    }
}

#[cfg(test)]
mod tests;
