//! The block timing Bloom filter: which items were seen within the last w, for any w up to the configured window.
//!
//! Every item has k cells. A cell is a small timer that holds the block (a tick of event time, or B arrivals) in which it
//! was last written; an item can have been seen no later than the oldest of its timers says.
//!
//! Promises (the tests name them):
//! - T1: no false negative. An item inserted within the window asked for, and not dropped as late, is never denied.
//! - T2: a stored age is the true age of the cell, or the cell reads as expired and is truly dead.
//! - T3: with event time, what can be read is a function of the *set* of inserts: order and repetition do not matter.
//! - T4: the histogram counts every cell exactly once, at all times.
//! - T5: the bytes are a function of the calls made, and a decoded filter continues like the one that was encoded.
//!
//! It does not know what a duplicate costs, how likely one is, nor whether a seen item should be inserted again.

mod cells;
mod codec;
mod evidence;
mod nibbles;
mod place;
mod spec;
mod sweep;

pub use evidence::{AgeUnit, Likelihood};
pub use spec::{CELLS_MOST, Drive, LINE_BYTES, Layout, TimingError, TimingSpec, blocks_most};

use crate::hash::Fingerprint;
use cells::Cells;
use place::{Place, Sections, spread_cells};

/// The stamp of a cell that was never written, or was swept.
const EXPIRED: u8 = 0;
/// In the table of ages: not alive.
const DEAD: u8 = u8::MAX;

/// What the cells of one item say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Age in blocks of the item's oldest timer; `None` when one of them is dead.
    pub age: Option<u8>,
    /// r: the item's distinct cells.
    pub cells: u8,
    /// c: how many of them are the oldest (or dead).
    pub oldest: u8,
}

/// See the module.
#[derive(Debug)]
pub struct TimingFilter {
    spec: TimingSpec,
    cells: Cells,
    sections: Sections,
    /// The clock: milliseconds, or arrivals so far. `None` until time is known.
    now: Option<i64>,
    /// The block that holds `now`, where it begins, and the stamp that its inserts bear.
    block: i64,
    block_begin: i64,
    present: u8,
    /// Until the clock reaches this, moving it is all there is to do.
    due: i64,
    /// Age of each stamp, `DEAD` beyond the oldest live one.
    ages: [u8; 256],
    /// How many cells hold each stamp.
    histogram: [u64; 256],
    /// Arrivals in the block of each stamp.
    arrivals: [u64; 256],
    /// Arrivals in blocks younger than each age, the present block left out.
    arrivals_before: [u64; 256],
    /// Arrivals ever.
    arrived: u64,
}

impl TimingFilter {
    pub fn new(spec: TimingSpec) -> Result<Self, TimingError> {
        let mut filter = Self {
            cells: Cells::new(&spec)?,
            sections: Sections::new(spec.cells_per_line(), spec.cells_per_item()),
            now: None,
            block: 0,
            block_begin: 0,
            present: 1,
            due: i64::MIN,
            ages: [DEAD; 256],
            histogram: [0; 256],
            arrivals: [0; 256],
            arrivals_before: [0; 256],
            arrived: 0,
            spec,
        };
        filter.histogram[usize::from(EXPIRED)] = filter.cells.len();
        if let Drive::Count { .. } = spec.drive() {
            filter.start(0);
        }
        Ok(filter)
    }

    pub fn spec(&self) -> &TimingSpec {
        &self.spec
    }

    /// The clock, in milliseconds or arrivals; `None` before the first event of a time-driven filter.
    pub fn now(&self) -> Option<i64> {
        self.now
    }

    /// Moves event time forward; a clock never runs backwards, and one driven by arrivals does not look at time.
    #[inline]
    pub fn advance(&mut self, now_ms: i64) {
        if let Drive::Time { .. } = self.spec.drive() {
            self.move_clock(now_ms);
        }
    }

    /// Counts one arrival, inserted or not. Call it after the arrival's own look and insert.
    #[inline]
    pub fn arrive(&mut self, time_ms: i64) {
        self.arrived = self.arrived.saturating_add(1);
        match self.spec.drive() {
            Drive::Count { .. } => {
                self.arrivals[usize::from(self.present)] += 1;
                self.move_clock(self.now.unwrap_or(0).saturating_add(1));
            }
            Drive::Time { .. } => {
                self.move_clock(time_ms);
                match self.age_of_time(time_ms) {
                    Some(0) => self.arrivals[usize::from(self.present)] += 1,
                    Some(age) => {
                        self.arrivals[usize::from(self.stamp_of_age(age))] += 1;
                        self.sum_arrivals();
                    }
                    None => {}
                }
            }
        }
    }

    /// Brings the item's line into the cache, so that a caller can touch a batch before working on it.
    #[inline]
    pub fn touch(&self, item: Fingerprint) {
        match self.spec.layout() {
            Layout::Lines(_) => {
                let lines = self.cells.lines();
                std::hint::black_box(lines[place::line_of(item, lines.len())][0]);
            }
            Layout::Spread(_) => {
                for &cell in self.place(item).cells() {
                    std::hint::black_box(self.cells.get(cell));
                }
            }
        }
    }

    /// What the item's cells say now.
    #[inline]
    pub fn look(&self, item: Fingerprint) -> Reading {
        match self.nibble_cells() {
            2 => self.look_nibbles::<2>(item),
            3 => self.look_nibbles::<3>(item),
            4 => self.look_nibbles::<4>(item),
            5 => self.look_nibbles::<5>(item),
            6 => self.look_nibbles::<6>(item),
            7 => self.look_nibbles::<7>(item),
            8 => self.look_nibbles::<8>(item),
            _ => self.look_anywhere(item),
        }
    }

    fn look_anywhere(&self, item: Fingerprint) -> Reading {
        let place = self.place(item);
        let ages = place.cells().iter().map(|&cell| self.ages[usize::from(self.cells.get(cell))]);
        let (oldest, count) = ages.fold((0, 0), older);
        reading(oldest, count, place.cells().len() as u8)
    }

    /// The standard answer: may the item have been inserted after `as_of - window`? Never wrongly "no" (T1).
    ///
    /// `as_of_ms` is the event time from which the window reaches back (a filter driven by arrivals always asks from now).
    /// A window beyond the configured one is answered as the configured one.
    #[inline]
    pub fn standard(&self, reading: &Reading, as_of_ms: i64, window: u64) -> bool {
        let Some(age) = reading.age else { return false };
        let as_of = match self.spec.drive() {
            Drive::Time { .. } => sweep::bounded(as_of_ms),
            Drive::Count { .. } => self.now.unwrap_or(0),
        };
        let window = window.min(self.spec.drive().window()) as i64;
        let block_end = self.block_begin - (i64::from(age) - 1) * self.block_length();
        block_end > as_of - window
    }

    /// Stamps the item's cells with the block of `time_ms`, where they are older. `false`: too late, nothing was done.
    #[inline]
    pub fn insert(&mut self, item: Fingerprint, time_ms: i64) -> bool {
        let age = match self.spec.drive() {
            Drive::Count { .. } => 0,
            Drive::Time { .. } => {
                self.move_clock(time_ms);
                match self.age_of_time(time_ms) {
                    Some(age) if age <= self.spec.oldest_live_age() => age,
                    _ => return false,
                }
            }
        };
        let stamp = self.stamp_of_age(age);
        match self.nibble_cells() {
            2 => self.insert_nibbles::<2>(item, age, stamp),
            3 => self.insert_nibbles::<3>(item, age, stamp),
            4 => self.insert_nibbles::<4>(item, age, stamp),
            5 => self.insert_nibbles::<5>(item, age, stamp),
            6 => self.insert_nibbles::<6>(item, age, stamp),
            7 => self.insert_nibbles::<7>(item, age, stamp),
            8 => self.insert_nibbles::<8>(item, age, stamp),
            _ => self.insert_anywhere(item, age, stamp),
        }
        true
    }

    fn insert_anywhere(&mut self, item: Fingerprint, age: u8, stamp: u8) {
        for &cell in self.place(item).cells() {
            let old = self.cells.get(cell);
            if self.ages[usize::from(old)] > age {
                self.cells.set(cell, stamp);
                self.histogram[usize::from(old)] -= 1;
                self.histogram[usize::from(stamp)] += 1;
            }
        }
    }

    /// How many nibbles of one line an item has, where that is the layout; 0 where it is not.
    fn nibble_cells(&self) -> u8 {
        match (self.spec.layout(), self.spec.timer_bits()) {
            (Layout::Lines(_), 4) => self.spec.cells_per_item(),
            _ => 0,
        }
    }

    fn place(&self, item: Fingerprint) -> Place {
        match self.spec.layout() {
            Layout::Lines(lines) => {
                let line = place::line_of(item, lines as usize) as u64;
                let per_line = self.spec.cells_per_line();
                Place::distinct(self.sections.cells(item).map(|cell| line * per_line + u64::from(cell)))
            }
            Layout::Spread(cells) => Place::distinct(spread_cells(item, cells, self.spec.cells_per_item())),
        }
    }

    /// The item's distinct cells, in the order in which they are drawn.
    pub fn cells_of(&self, item: Fingerprint) -> Vec<u64> {
        self.place(item).cells().to_vec()
    }

    /// The age a cell holds in blocks, alive or waiting for the sweep; `None` when it is expired or there is no such cell.
    pub fn stored_age(&self, cell: u64) -> Option<u8> {
        if cell >= self.cells.len() {
            return None;
        }
        match self.cells.get(cell) {
            EXPIRED => None,
            stamp => Some(self.age_of_stamp(stamp)),
        }
    }

    /// Cells alive, of all.
    pub fn fill(&self) -> f64 {
        self.live_cells() as f64 / self.cells.len() as f64
    }

    /// Bytes of the timers.
    pub fn memory_bytes(&self) -> u64 {
        self.spec.memory_bytes()
    }

    /// Arrivals ever counted.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// How many cells hold a timer of this age in blocks, swept or not.
    pub fn cells_of_age(&self, age: u8) -> u64 {
        if age >= self.spec.stamps() { 0 } else { self.histogram[usize::from(self.stamp_of_age(age))] }
    }

    /// How many cells are expired: never written, or swept.
    pub fn cells_expired(&self) -> u64 {
        self.histogram[usize::from(EXPIRED)]
    }

    /// Arrivals counted in the block of this age.
    pub fn arrivals_of_age(&self, age: u8) -> u64 {
        if age >= self.spec.stamps() { 0 } else { self.arrivals[usize::from(self.stamp_of_age(age))] }
    }

    fn live_cells(&self) -> u64 {
        (0..=self.spec.oldest_live_age()).map(|age| self.cells_of_age(age)).sum()
    }

    fn stamp(&self, block: i64) -> u8 {
        1 + block.rem_euclid(i64::from(self.spec.stamps())) as u8
    }

    /// Stamps run from 1 to the number of stamps, and round again.
    #[inline]
    fn stamp_of_age(&self, age: u8) -> u8 {
        if age < self.present { self.present - age } else { self.spec.stamps() - (age - self.present) }
    }

    fn age_of_stamp(&self, stamp: u8) -> u8 {
        if stamp <= self.present { self.present - stamp } else { self.spec.stamps() - (stamp - self.present) }
    }

    /// Age in blocks of an event of this time; `None` when it lies after the clock or before every stamp.
    #[inline]
    fn age_of_time(&self, time_ms: i64) -> Option<u8> {
        if (self.block_begin..self.block_begin + self.block_length()).contains(&time_ms) {
            return Some(0);
        }
        let block = sweep::bounded(time_ms).div_euclid(self.block_length());
        let age = u8::try_from(self.block - block).ok()?;
        (age < self.spec.stamps()).then_some(age)
    }

    fn block_length(&self) -> i64 {
        // A spec's blocks are far shorter than i64::MAX.
        self.spec.drive().block() as i64
    }
}

impl Clone for TimingFilter {
    fn clone(&self) -> Self {
        Self { cells: self.cells.try_clone().expect("memory for a copy of the filter, as for any allocation"), ..*self }
    }
}

/// Folds one age into (oldest, how many are that old).
fn older((oldest, count): (u8, u8), age: u8) -> (u8, u8) {
    match age.cmp(&oldest) {
        std::cmp::Ordering::Greater => (age, 1),
        std::cmp::Ordering::Equal => (oldest, count + 1),
        std::cmp::Ordering::Less => (oldest, count),
    }
}

fn reading(oldest: u8, count: u8, cells: u8) -> Reading {
    Reading { age: (oldest != DEAD).then_some(oldest), cells, oldest: count }
}
