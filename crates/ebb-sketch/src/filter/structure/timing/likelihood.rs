//! The likelihood of a reading: which ages it allows, and how probable it is that other items produced it.
//!
//! It comes from the filter's own histogram, not from a model of the stream: among the cells that are at least as old as
//! the item's oldest cell, the fraction that is exactly that old. Bursts, repeats and late events are included by
//! construction.

use std::ops::Range;

use super::{ClockSpec, Reading, TimingFilter, clock, sections, timers};
use crate::filter::structure::layout::CellLayout;
use crate::hash::Fingerprint;

/// Weight, in cells, with which the whole filter's estimate is mixed into that of one line.
const LINE_SHRINKAGE: f64 = 32.0;

/// Steps of the clock within a block for ages in the clock's unit.
const STEPS_PER_BLOCK: i64 = 64;

/// The unit in which ages are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeUnit {
    /// Arrivals since: for priors that are a share of arrivals.
    Arrivals,
    /// The clock's unit, milliseconds or arrivals: for priors learned from the clock.
    Clock,
}

/// The cells from which the collision probability is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LikelihoodScope {
    /// All cells of the filter.
    Filter,
    /// The item's line, mixed with the whole filter, because lines differ in load. Cells that are spread over the whole
    /// filter use all of it.
    Line,
}

/// The likelihood of one reading as a function of the item's age: 0 below `from`, 1 within the block that starts there,
/// and `collision` for every greater age, "never" included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgeLikelihood {
    /// a: the smallest possible age.
    pub from: f64,
    /// N: the ages `from..from + length` explain the reading without other items.
    pub length: f64,
    /// g: the probability that writes of other items produced the reading.
    pub collision: f64,
}

impl TimingFilter {
    /// The likelihood of a reading over ages.
    #[inline]
    pub fn likelihood(
        &self,
        item: Fingerprint,
        reading: &Reading,
        unit: AgeUnit,
        scope: LikelihoodScope,
    ) -> AgeLikelihood {
        let (from, length) = self.age_range(reading, unit);
        let collision = match scope {
            LikelihoodScope::Filter => self.collision(reading),
            LikelihoodScope::Line => self.collision_of(item, reading),
        };
        AgeLikelihood { from, length, collision }
    }

    /// The step of 1/64 block that contains the clock.
    pub(in crate::filter) fn clock_step(&self) -> Range<i64> {
        let (begin, step) = (self.block_begin + self.steps_into_block(), self.step_length());
        begin..(begin + step).min(self.block_begin + self.block_length())
    }

    /// The position of the clock within its block, rounded down to a step.
    fn steps_into_block(&self) -> i64 {
        let step = self.step_length();
        (self.now.unwrap_or(0) - self.block_begin) / step * step
    }

    fn step_length(&self) -> i64 {
        (self.block_length() / STEPS_PER_BLOCK).max(1)
    }

    /// The ages of a block in the clock's unit, with the clock rounded to a step: decisions within a step agree, so that
    /// what they are based on can be kept. The current block is rounded up, so that it contains all its events.
    #[inline]
    pub(in crate::filter) fn clock_ages(&self, age: Option<u8>) -> (f64, f64) {
        let (length, step) = (self.block_length(), self.step_length());
        let down = self.steps_into_block();
        match age {
            Some(0) => (0.0, self.block_min_age(1, (down + step).min(length) - 1)),
            Some(age) => (self.block_min_age(age, down), length as f64),
            None => (self.block_min_age(self.oldest_age_now().saturating_add(1), down), 0.0),
        }
    }

    /// The length of a query window in `unit`, from `as_of_ms` on the clock or from now in arrivals. A block that the
    /// window cuts counts proportionally.
    #[inline]
    pub fn window_in(&self, unit: AgeUnit, as_of_ms: i64, window: u64) -> f64 {
        let window = window.min(self.spec.clock().window());
        match (unit, self.spec.clock()) {
            (_, ClockSpec::Count { .. }) => window.min(self.total_arrivals) as f64,
            (AgeUnit::Clock, ClockSpec::Time { .. }) => window as f64,
            (AgeUnit::Arrivals, ClockSpec::Time { .. }) => {
                let (edge, length) = (clock::bounded(as_of_ms) - window as i64, self.block_length());
                let before = (self.block_begin - edge).max(0) as u64;
                let Ok(age) = u8::try_from(before.div_ceil(length as u64)) else {
                    return self.arrivals_within(u8::MAX);
                };
                // The part of the cut block that lies after the edge.
                let after = self.block_begin - (i64::from(age) - 1) * length - 1 - edge;
                let part = (after as f64 / length as f64).clamp(0.0, 1.0);
                self.arrivals_within(age) + part * self.arrivals_of_age(age) as f64
            }
        }
    }

    /// The ages of the oldest timer's block: the smallest, and how many there are.
    #[inline]
    pub fn age_range(&self, reading: &Reading, unit: AgeUnit) -> (f64, f64) {
        match (unit, reading.age) {
            (AgeUnit::Arrivals, Some(age)) => (self.arrivals_within(age), self.arrivals_of_age(age) as f64),
            (AgeUnit::Arrivals, None) => (self.arrivals_within(self.oldest_age_now().saturating_add(1)), 0.0),
            (AgeUnit::Clock, age) => self.clock_ages(age),
        }
    }

    /// The smallest age, in the clock's unit, of an event in the block of this age, with the clock at `into_block`.
    #[inline]
    fn block_min_age(&self, age: u8, into_block: i64) -> f64 {
        // With event time, an event at the current time has age 0. With arrivals, the clock counts an arrival after it.
        let first = match self.spec.clock() {
            ClockSpec::Time { .. } => into_block + 1,
            ClockSpec::Count { .. } => into_block,
        };
        (first + (i64::from(age) - 1) * self.block_length()).max(0) as f64
    }

    /// The greatest age in blocks that the configured window includes at this moment.
    #[inline]
    fn oldest_age_now(&self) -> u8 {
        match self.spec.clock() {
            ClockSpec::Time { .. } => self.spec.oldest_live_age(),
            ClockSpec::Count { window, .. } => {
                let into_block = self.now.unwrap_or(0) - self.block_begin;
                // At most the oldest live age, which is a u8.
                -((into_block - window as i64).div_euclid(self.block_length())) as u8
            }
        }
    }

    /// Arrivals in blocks younger than `age`.
    fn arrivals_within(&self, age: u8) -> f64 {
        if age == 0 {
            return 0.0;
        }
        let current = self.block_arrivals[usize::from(self.current_stamp)];
        current.saturating_add(self.younger_arrivals[usize::from(age)]) as f64
    }

    /// Cells younger than `age`.
    #[inline]
    fn cells_within(&self, age: u8) -> u64 {
        let (current, stamps) = (usize::from(self.current_stamp), usize::from(self.spec.stamps()));
        // A sum of cell counts cannot wrap, and the unchecked sum is four times as fast.
        let sum = |part: &[u64]| part.iter().fold(0u64, |sum, &value| sum.wrapping_add(value));
        if stamps < 16 {
            // With few stamps, adding all of them (masked) is faster than a loop whose end cannot be predicted.
            let younger = |stamp: usize| u64::from(self.ages[stamp] < age).wrapping_neg() & self.histogram[stamp];
            return (1..16).fold(0, |sum: u64, stamp| sum.wrapping_add(younger(stamp)));
        }
        let count = usize::from(age).min(stamps);
        if count <= current {
            sum(&self.histogram[current + 1 - count..=current])
        } else {
            sum(&self.histogram[1..=current])
                .wrapping_add(sum(&self.histogram[stamps + 1 - (count - current)..=stamps]))
        }
    }

    /// Among the cells of at least this age, the fraction of exactly this age.
    #[inline]
    fn fraction_of_age(&self, age: u8) -> f64 {
        let exactly = self.histogram[usize::from(self.stamp_of_age(age))];
        exactly as f64 / (self.cells.len() - self.cells_within(age)).max(1) as f64
    }

    /// The probability that writes of other items produced the reading, from the whole filter.
    #[inline]
    pub(in crate::filter) fn collision(&self, reading: &Reading) -> f64 {
        match reading.age {
            None => 1.0,
            Some(age) => power(self.fraction_of_age(age), reading.oldest),
        }
    }

    /// Counts the timers of a line with exactly this age, and the younger ones.
    #[inline]
    fn count_line(&self, line: &[u8; 64], age: u8) -> (u8, u8) {
        match self.spec.timer_bits() {
            4 => self.count_nibbles(line, age),
            bits => timers::count_ages(line, bits, &self.ages, age),
        }
    }

    fn count_nibbles(&self, line: &[u8; 64], age: u8) -> (u8, u8) {
        let (stamp, current, stamps) = (self.stamp_of_age(age), self.current_stamp, self.spec.stamps());
        // Younger stamps lie above `stamp` up to the current one; after wrapping, on both sides.
        let above = if stamp <= current { current - stamp } else { stamps - stamp };
        let below = if stamp <= current { 0 } else { current };
        let (mut exactly, mut younger) = (0u8, 0u8);
        // The compiler vectorises this form. A line has 128 nibbles, so no count wraps.
        let mut count = |nibble: u8| {
            let over = nibble.wrapping_sub(stamp).wrapping_sub(1) < above;
            let under = nibble.wrapping_sub(1) < below;
            exactly = exactly.wrapping_add(u8::from(nibble == stamp));
            younger = younger.wrapping_add(u8::from(over | under));
        };
        for &byte in line {
            count(byte & 15);
            count(byte >> 4);
        }
        (exactly, younger)
    }

    /// The probability that writes of other items produced the reading, from the item's line and the whole filter.
    #[inline]
    pub(in crate::filter) fn collision_of(&self, item: Fingerprint, reading: &Reading) -> f64 {
        let (Some(age), CellLayout::Lines(_)) = (reading.age, self.spec.layout()) else {
            return self.collision(reading);
        };
        let lines = self.cells.lines();
        let line = &lines[sections::line_of(item, lines.len())];
        let (exactly, younger) = self.count_line(line, age);
        // The item's own oldest cells say nothing about other items.
        let own = f64::from(reading.oldest);
        let cells = self.spec.cells_per_line() as f64;
        let (exactly, at_least) = (f64::from(exactly) - own, cells - f64::from(younger) - own);
        let fraction = (exactly + LINE_SHRINKAGE * self.fraction_of_age(age)) / (at_least + LINE_SHRINKAGE);
        power(fraction, reading.oldest)
    }
}

/// base^exponent for exponents below 32, without a branch on the exponent.
fn power(base: f64, exponent: u8) -> f64 {
    let (mut product, mut square) = (1.0, base);
    for bit in 0..5 {
        product *= if exponent >> bit & 1 == 1 { square } else { 1.0 };
        square *= square;
    }
    product
}
