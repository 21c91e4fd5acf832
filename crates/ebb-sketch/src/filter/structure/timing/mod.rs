//! The block timing Bloom filter: was an item seen within the last w, for any w up to the configured window?
//!
//! Every item has k cells. A cell is a small timer that holds the block (a tick of event time, or B arrivals) in which it
//! was last written. The oldest timer of an item is an upper bound on how recently the item can have been seen.
//!
//! Guarantees (tests refer to them by number):
//! - T1: no false negative. An item inserted within the queried window, and not rejected as late, is always found.
//! - T2: a stored age is the true age of the cell, or the cell reads as expired and is outside every window.
//! - T3: with event time, readings are a function of the *set* of inserts: order and repetition do not matter.
//! - T4: the histogram counts every cell exactly once, at all times.
//! - T5: the bytes are a function of the calls made, and a decoded filter continues like the one that was encoded.
//!
//! The filter knows neither what a duplicate costs nor how probable one is ([`crate::filter::inference`] does), and the
//! caller decides whether a repeated item is inserted again.

mod clock;
mod codec;
mod likelihood;
mod nibbles;
mod occupancy;
mod sections;
mod spec;
mod timers;

pub use likelihood::{AgeLikelihood, AgeUnit, LikelihoodScope};
pub use occupancy::false_duplicate_rate;
pub use spec::{ClockSpec, TimingError, TimingSpec, max_blocks};

use super::layout::{CellLayout, CellList, spread_cell};
use crate::hash::Fingerprint;
use sections::LineSections;
use timers::TimerArray;

/// The stamp of a cell that was never written, or was swept.
const EXPIRED: u8 = 0;
/// The entry of `ages` for a stamp outside every window.
const DEAD: u8 = u8::MAX;

/// The state of one item's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Age in blocks of the item's oldest timer; `None` if a cell is expired.
    pub age: Option<u8>,
    /// r: number of distinct cells of the item.
    pub cells: u8,
    /// c: how many of them are the oldest (or expired).
    pub oldest: u8,
}

/// A Bloom filter of timers over a sliding window.
///
/// ```
/// use ebb_sketch::filter::structure::timing::{TimingFilter, TimingSpec};
/// use ebb_sketch::hash::HashKey;
///
/// let mut filter = TimingFilter::new(TimingSpec::time(60_000, 0, 4096).unwrap()).unwrap();
/// let item = HashKey::new([7; 16]).fingerprint(b"click-1");
/// assert!(filter.insert(item, 1_000));
/// filter.advance(30_000);
/// assert!(filter.standard_answer(&filter.read(item), 30_000, 60_000)); // within the last minute: yes
/// assert!(!filter.standard_answer(&filter.read(item), 30_000, 5_000)); // within the last five seconds: no
/// ```
#[derive(Debug)]
pub struct TimingFilter {
    spec: TimingSpec,
    cells: TimerArray,
    sections: LineSections,
    /// The clock: milliseconds, or arrivals so far. `None` before the first event time.
    now: Option<i64>,
    /// The block that contains `now`, its first time, and the stamp of its inserts.
    block: i64,
    block_begin: i64,
    current_stamp: u8,
    /// The next time at which the sweep has work; before it, advancing the clock only sets `now`.
    next_sweep: i64,
    /// Age of each stamp, `DEAD` beyond the oldest live age.
    ages: [u8; 256],
    /// Cells per stamp.
    histogram: [u64; 256],
    /// Arrivals per stamp's block.
    block_arrivals: [u64; 256],
    /// For each age, the arrivals in younger blocks, without the current block.
    younger_arrivals: [u64; 256],
    total_arrivals: u64,
}

impl TimingFilter {
    /// An empty filter.
    pub fn new(spec: TimingSpec) -> Result<Self, TimingError> {
        let mut filter = Self {
            cells: TimerArray::new(&spec)?,
            sections: LineSections::new(spec.cells_per_line(), spec.cells_per_item()),
            now: None,
            block: 0,
            block_begin: 0,
            current_stamp: 1,
            next_sweep: i64::MIN,
            ages: [DEAD; 256],
            histogram: [0; 256],
            block_arrivals: [0; 256],
            younger_arrivals: [0; 256],
            total_arrivals: 0,
            spec,
        };
        filter.histogram[usize::from(EXPIRED)] = filter.cells.len();
        if let ClockSpec::Count { .. } = spec.clock() {
            filter.start(0);
        }
        Ok(filter)
    }

    /// The parameters.
    pub fn spec(&self) -> &TimingSpec {
        &self.spec
    }

    /// The clock, in milliseconds or arrivals; `None` before the first event time.
    pub fn now(&self) -> Option<i64> {
        self.now
    }

    /// Advances event time. Earlier times have no effect, nor has any time on a clock of arrivals.
    #[inline]
    pub fn advance(&mut self, now_ms: i64) {
        if let ClockSpec::Time { .. } = self.spec.clock() {
            self.move_clock(now_ms);
        }
    }

    /// Counts one arrival, inserted or not. Call it after the arrival was read and inserted.
    #[inline]
    pub fn count_arrival(&mut self, time_ms: i64) {
        self.total_arrivals = self.total_arrivals.saturating_add(1);
        match self.spec.clock() {
            ClockSpec::Count { .. } => {
                self.block_arrivals[usize::from(self.current_stamp)] += 1;
                self.move_clock(self.now.unwrap_or(0).saturating_add(1));
            }
            ClockSpec::Time { .. } => {
                self.move_clock(time_ms);
                match self.age_of_time(time_ms) {
                    Some(0) => self.block_arrivals[usize::from(self.current_stamp)] += 1,
                    Some(age) => {
                        self.block_arrivals[usize::from(self.stamp_of_age(age))] += 1;
                        self.sum_arrivals();
                    }
                    None => {}
                }
            }
        }
    }

    /// Loads the item's cells into the cache. Callers prefetch a batch before they process it.
    #[inline]
    pub fn prefetch(&self, item: Fingerprint) {
        match self.spec.layout() {
            CellLayout::Lines(_) => {
                let lines = self.cells.lines();
                std::hint::black_box(lines[sections::line_of(item, lines.len())][0]);
            }
            CellLayout::Spread(_) => {
                for &cell in self.item_cells(item).as_slice() {
                    std::hint::black_box(self.cells.get(cell));
                }
            }
        }
    }

    /// Reads the item's cells.
    #[inline]
    pub fn read(&self, item: Fingerprint) -> Reading {
        match self.nibble_cells() {
            2 => self.read_nibbles::<2>(item),
            3 => self.read_nibbles::<3>(item),
            4 => self.read_nibbles::<4>(item),
            5 => self.read_nibbles::<5>(item),
            6 => self.read_nibbles::<6>(item),
            7 => self.read_nibbles::<7>(item),
            8 => self.read_nibbles::<8>(item),
            _ => self.read_general(item),
        }
    }

    fn read_general(&self, item: Fingerprint) -> Reading {
        let cells = self.item_cells(item);
        let ages = cells.as_slice().iter().map(|&cell| self.ages[usize::from(self.cells.get(cell))]);
        let (oldest, count) = ages.fold((0, 0), older);
        reading(oldest, count, cells.as_slice().len() as u8)
    }

    /// The answer of the filter alone: may the item have been inserted after `as_of - window`? Never a false "no" (T1).
    ///
    /// `as_of_ms` is the event time from which the window reaches back; a filter that counts arrivals always measures from
    /// now. A window longer than the configured one is shortened to it.
    #[inline]
    pub fn standard_answer(&self, reading: &Reading, as_of_ms: i64, window: u64) -> bool {
        let Some(age) = reading.age else { return false };
        let as_of = match self.spec.clock() {
            ClockSpec::Time { .. } => clock::bounded(as_of_ms),
            ClockSpec::Count { .. } => self.now.unwrap_or(0),
        };
        let window = window.min(self.spec.clock().window()) as i64;
        let block_end = self.block_begin - (i64::from(age) - 1) * self.block_length();
        block_end > as_of - window
    }

    /// Stamps the item's cells with the block of `time_ms` where they are older. Returns `false`, without any effect, if the
    /// event is too late.
    #[inline]
    pub fn insert(&mut self, item: Fingerprint, time_ms: i64) -> bool {
        let age = match self.spec.clock() {
            ClockSpec::Count { .. } => 0,
            ClockSpec::Time { .. } => {
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
            _ => self.insert_general(item, age, stamp),
        }
        true
    }

    fn insert_general(&mut self, item: Fingerprint, age: u8, stamp: u8) {
        for &cell in self.item_cells(item).as_slice() {
            let old = self.cells.get(cell);
            if self.ages[usize::from(old)] > age {
                self.cells.set(cell, stamp);
                self.histogram[usize::from(old)] -= 1;
                self.histogram[usize::from(stamp)] += 1;
            }
        }
    }

    /// Cells per item if the shape has a fast path (4-bit timers in lines), otherwise 0.
    fn nibble_cells(&self) -> u8 {
        match (self.spec.layout(), self.spec.timer_bits()) {
            (CellLayout::Lines(_), 4) => self.spec.cells_per_item(),
            _ => 0,
        }
    }

    fn item_cells(&self, item: Fingerprint) -> CellList {
        match self.spec.layout() {
            CellLayout::Lines(lines) => {
                let line = sections::line_of(item, lines as usize) as u64;
                let first = line * self.spec.cells_per_line();
                CellList::distinct_from(self.sections.cells(item).map(|cell| first + u64::from(cell)))
            }
            CellLayout::Spread(cells) => {
                let draws = 0..u64::from(self.spec.cells_per_item());
                CellList::distinct_from(draws.map(|draw| spread_cell(item, draw, cells)))
            }
        }
    }

    /// The item's distinct cells, in the order of selection.
    pub fn cells_of(&self, item: Fingerprint) -> Vec<u64> {
        self.item_cells(item).as_slice().to_vec()
    }

    /// The age in blocks that a cell holds, swept or not; `None` if it is expired or does not exist.
    pub fn stored_age(&self, cell: u64) -> Option<u8> {
        if cell >= self.cells.len() {
            return None;
        }
        match self.cells.get(cell) {
            EXPIRED => None,
            stamp => Some(self.age_of_stamp(stamp)),
        }
    }

    /// The fraction of cells that are inside some window.
    pub fn fill(&self) -> f64 {
        self.live_cells() as f64 / self.cells.len() as f64
    }

    /// Bytes of the timers.
    pub fn memory_bytes(&self) -> u64 {
        self.spec.memory_bytes()
    }

    /// Arrivals counted since the filter was created.
    pub fn total_arrivals(&self) -> u64 {
        self.total_arrivals
    }

    /// Cells whose timer has this age in blocks, swept or not.
    pub fn cells_of_age(&self, age: u8) -> u64 {
        if age >= self.spec.stamps() { 0 } else { self.histogram[usize::from(self.stamp_of_age(age))] }
    }

    /// Cells that were never written, or were swept.
    pub fn cells_expired(&self) -> u64 {
        self.histogram[usize::from(EXPIRED)]
    }

    /// Arrivals counted in the block of this age.
    pub fn arrivals_of_age(&self, age: u8) -> u64 {
        if age >= self.spec.stamps() { 0 } else { self.block_arrivals[usize::from(self.stamp_of_age(age))] }
    }

    fn live_cells(&self) -> u64 {
        (0..=self.spec.oldest_live_age()).map(|age| self.cells_of_age(age)).sum()
    }

    fn stamp(&self, block: i64) -> u8 {
        1 + block.rem_euclid(i64::from(self.spec.stamps())) as u8
    }

    /// Stamps count from 1 to `stamps` and wrap.
    #[inline]
    fn stamp_of_age(&self, age: u8) -> u8 {
        if age < self.current_stamp {
            self.current_stamp - age
        } else {
            self.spec.stamps() - (age - self.current_stamp)
        }
    }

    fn age_of_stamp(&self, stamp: u8) -> u8 {
        if stamp <= self.current_stamp {
            self.current_stamp - stamp
        } else {
            self.spec.stamps() - (stamp - self.current_stamp)
        }
    }

    /// Age in blocks of an event at this time; `None` if it lies after the clock or before every stamp.
    #[inline]
    fn age_of_time(&self, time_ms: i64) -> Option<u8> {
        if (self.block_begin..self.block_begin + self.block_length()).contains(&time_ms) {
            return Some(0);
        }
        let block = clock::bounded(time_ms).div_euclid(self.block_length());
        let age = u8::try_from(self.block - block).ok()?;
        (age < self.spec.stamps()).then_some(age)
    }

    fn block_length(&self) -> i64 {
        // `MAX_WINDOW` keeps it far below i64::MAX.
        self.spec.clock().block() as i64
    }
}

impl Clone for TimingFilter {
    fn clone(&self) -> Self {
        Self { cells: self.cells.try_clone().expect("mapping memory for a copy failed"), ..*self }
    }
}

/// Folds one age into (oldest age, number of cells of that age).
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
