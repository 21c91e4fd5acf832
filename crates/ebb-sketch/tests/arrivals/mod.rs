//! Items, a filter over a window of arrivals, and uniform arrivals whose history is known.

use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};

pub fn item(number: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(number)) << 64 | u128::from(mix(number ^ 0xEBB)))
}

pub fn spec(window: u64, block: u64, lines: u64) -> TimingSpec {
    TimingSpec::new(ClockSpec::Count { window, block }, CellLayout::Lines(lines), 4, 4).unwrap()
}

/// Uniform arrivals, with the number of arrivals since each item was last inserted.
pub struct Arrivals {
    random: Random,
    last: Vec<Option<u64>>,
    at: u64,
}

impl Arrivals {
    pub fn new(items: usize) -> Self {
        Self { random: Random::new(11), last: vec![None; items], at: 0 }
    }

    /// The next item, and the age of its last insert.
    pub fn next(&mut self) -> (u64, Option<u64>) {
        let number = self.random.below(self.last.len() as u64);
        let age = self.last[number as usize].map(|last| self.at - 1 - last);
        self.at += 1;
        (number, age)
    }

    pub fn record_insert(&mut self, number: u64) {
        self.last[number as usize] = Some(self.at - 1);
    }
}
