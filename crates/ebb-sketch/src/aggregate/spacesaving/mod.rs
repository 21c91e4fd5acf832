//! SpaceSaving: the heaviest labels of a weighted stream, in a fixed number of counters.
//!
//! A label that is followed has a weight seen since it is followed and an `error`: the most it may have weighed before.
//! A label that is not followed weighs at most the `floor`. Kept lazily: new labels are taken as they come, and when
//! they are too many the lightest (ties: the largest label) are let go at once and the floor rises to them. The floor
//! never exceeds weight / counters, through merges too: every counter stands at or above the floor, so letting one go takes
//! at least the old floor out of a sum of counters that never exceeds the weight. It does not know names or time.

mod codec;

use super::content::{Factor, Labels, ShapeError, Standing};

/// The most counters of one summary.
pub const COUNTERS_MOST: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counter {
    pub label: u128,
    pub seen: f64,
    pub error: f64,
}

impl Counter {
    fn most(&self) -> f64 {
        self.seen + self.error
    }
}

/// One summary. Weights must be finite and above 0: the methods that own summaries see to it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpaceSaving {
    capacity: u32,
    /// By label, each once.
    counters: Vec<Counter>,
    buffer: Vec<(u128, f64)>,
    floor: f64,
    weight: f64,
}

impl SpaceSaving {
    /// At least 2 / eps counters for an error of eps / 2 of the weight.
    pub fn new(counters: u32) -> Result<Self, ShapeError> {
        if !(1..=COUNTERS_MOST).contains(&counters) {
            let nearest = counters.clamp(1, COUNTERS_MOST);
            return Err(ShapeError::Counters { given: counters, most: COUNTERS_MOST, nearest });
        }
        Ok(Self { capacity: counters, counters: Vec::new(), buffer: Vec::new(), floor: 0.0, weight: 0.0 })
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Counters and buffered labels together.
    pub fn len(&self) -> usize {
        self.counters.len() + self.buffer.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most that a label which is not followed may weigh.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Every label that has a counter or is buffered; some twice.
    pub(crate) fn held(&self) -> impl Iterator<Item = u128> {
        self.counters.iter().map(|counter| counter.label).chain(self.buffer.iter().map(|(label, _)| *label))
    }

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
        self.counters = joined(
            old,
            buffered,
            |counter| counter,
            |mut new| {
                new.error = self.floor;
                new
            },
        );
        self.let_go();
    }

    /// The buffer as counters: sorted, each label once, with no error yet.
    fn buffered(&self) -> Vec<Counter> {
        let mut raw = self.buffer.clone();
        raw.sort_unstable_by_key(|(label, weight)| (*label, weight.to_bits()));
        let mut counters: Vec<Counter> = Vec::with_capacity(raw.len());
        for (label, weight) in raw {
            match counters.last_mut() {
                Some(last) if last.label == label => last.seen += weight,
                _ => counters.push(Counter { label, seen: weight, error: 0.0 }),
            }
        }
        counters
    }

    /// Keeps the heaviest; the floor rises to the heaviest that went.
    fn let_go(&mut self) {
        let capacity = self.capacity as usize;
        if self.counters.len() <= capacity {
            return;
        }
        let heavier = |a: &Counter, b: &Counter| b.most().total_cmp(&a.most()).then(a.label.cmp(&b.label));
        self.counters.select_nth_unstable_by(capacity, heavier);
        self.floor = self.floor.max(self.counters[capacity].most());
        self.counters.truncate(capacity);
        self.counters.sort_unstable_by_key(|counter| counter.label);
    }

    /// Adds another summary; the error stays within weight / counters of the fewer counters.
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
        let (mine, theirs) = (self.floor, other.floor);
        let missed = |floor: f64| {
            move |mut counter: Counter| {
                counter.error += floor;
                counter
            }
        };
        let old = std::mem::take(&mut self.counters);
        self.counters = joined(old, other.counters, missed(theirs), missed(mine));
        self.floor = mine + theirs;
        self.weight += other.weight;
        self.capacity = self.capacity.min(other.capacity);
        self.let_go();
    }

    /// Multiplies every weight.
    pub fn scale(&mut self, factor: f64) {
        for counter in &mut self.counters {
            counter.seen *= factor;
            counter.error *= factor;
        }
        self.buffer.iter_mut().for_each(|(_, weight)| *weight *= factor);
        // What was flushed to zero says nothing any more.
        self.counters.retain(|counter| counter.most() > 0.0);
        self.buffer.retain(|(_, weight)| *weight > 0.0);
        self.floor *= factor;
        self.weight *= factor;
    }

    /// Splits off this much weight. Which labels leave is a choice, so both sides stay true: while everything is known,
    /// whole labels from the largest; afterwards the same share of each, so that both sides keep their error small.
    pub(crate) fn take(&mut self, weight: f64) -> Self {
        let mut taken = Self { counters: Vec::new(), buffer: Vec::new(), weight: weight.min(self.weight), ..*self };
        let mut wanted = taken.weight;
        self.weight -= wanted;
        while wanted > 0.0
            && let Some((label, held)) = self.buffer.pop()
        {
            let part = held.min(wanted);
            taken.buffer.push((label, part));
            wanted -= part;
            if part < held {
                self.buffer.push((label, held - part));
            }
        }
        let folded: f64 = self.weight + wanted - self.buffer.iter().map(|(_, weight)| weight).sum::<f64>();
        let share = if self.floor > 0.0 { Some((wanted / folded).clamp(0.0, 1.0)) } else { None };
        for counter in self.counters.iter_mut().rev() {
            let part = share.map_or(counter.seen.min(wanted), |share| counter.seen * share);
            wanted -= part;
            counter.seen -= part;
            taken.counters.push(Counter { seen: part, ..*counter });
        }
        taken.counters.reverse();
        if let Some(share) = share {
            taken.shrink(share);
            self.shrink(1.0 - share);
        }
        self.tighten();
        taken.tighten();
        taken
    }

    /// What was not seen is split like what was.
    fn shrink(&mut self, share: f64) {
        self.floor *= share;
        self.counters.iter_mut().for_each(|counter| counter.error *= share);
    }

    /// No label can have more that was not seen than there is of it in all.
    fn tighten(&mut self) {
        let seen: f64 = self.counters.iter().map(|counter| counter.seen).sum();
        let raw: f64 = self.buffer.iter().map(|(_, weight)| weight).sum();
        let unseen = (self.weight - seen - raw).max(0.0);
        self.floor = self.floor.min(unseen);
        self.counters.iter_mut().for_each(|counter| counter.error = counter.error.min(unseen));
        self.counters.retain(|counter| counter.seen > 0.0 || counter.error > self.floor);
    }

    /// Bounds of what a label weighs.
    pub fn bounds(&self, label: u128) -> (f64, f64) {
        let raw: f64 = self.buffer.iter().filter(|(l, _)| *l == label).map(|(_, weight)| weight).sum();
        match self.counters.binary_search_by_key(&label, |counter| counter.label) {
            Ok(place) => (self.counters[place].seen + raw, self.counters[place].most() + raw),
            Err(_) => (raw, self.floor + raw),
        }
    }

    /// Every label that is followed, with the bounds of its weight, by label.
    pub fn labels(&self) -> Vec<(u128, f64, f64)> {
        self.followed().into_iter().map(|counter| (counter.label, counter.seen, counter.most())).collect()
    }

    /// Top labels and bounds of this summary alone.
    pub fn reading(&self) -> Labels {
        let mut labels = Labels::new();
        labels.add(self, Factor::exact(1.0));
        let epsilon = Some(1.0 / f64::from(self.capacity));
        labels.finish(Standing { epsilon, incomplete: false, cells: self.len() as u64 })
    }

    pub(crate) fn followed(&self) -> Vec<Counter> {
        if self.buffer.is_empty() {
            return self.counters.clone();
        }
        let late = |mut counter: Counter| {
            counter.error = self.floor;
            counter
        };
        joined(self.counters.clone(), self.buffered(), |counter| counter, late)
    }
}

/// Two lists by label as one; what stands in one list only goes through that list's function.
fn joined(
    left: Vec<Counter>,
    right: Vec<Counter>,
    left_only: impl Fn(Counter) -> Counter,
    right_only: impl Fn(Counter) -> Counter,
) -> Vec<Counter> {
    let mut both = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if a.label == b.label => {
                if let (Some(a), Some(b)) = (left.next(), right.next()) {
                    both.push(Counter { label: a.label, seen: a.seen + b.seen, error: a.error + b.error });
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
