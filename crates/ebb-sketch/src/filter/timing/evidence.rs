//! What a reading is evidence of: the ages it allows, and how likely other items made it look so.
//!
//! The likelihood comes from the filter's own histogram, not from a model of the stream: of the cells that are at least
//! as old as the item's oldest, the share that is exactly that old. It follows bursts, repeats and late events by itself.

use super::{Drive, Layout, Reading, TimingFilter, place};
use crate::filter::distinct::{Distinct, Form, written_by_others};
use crate::filter::posterior::Evidence;
use crate::hash::Fingerprint;

/// How strongly the likelihood within one line is drawn to that of the whole filter, in cells.
const LINE_SHRINKAGE: f64 = 32.0;

/// What ages are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeUnit {
    /// Arrivals since: for priors that are a share of arrivals.
    Arrivals,
    /// What the clock counts, milliseconds or arrivals: for priors learned from the clock.
    Clock,
}

/// Whose cells tell how likely others made a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likelihood {
    /// All cells of the filter.
    Whole,
    /// The item's line, drawn to the whole: lines differ in load. Nibbles in lines only; otherwise the whole.
    Line,
}

impl TimingFilter {
    /// The likelihood of a reading over ages.
    #[inline]
    pub fn evidence(&self, item: Fingerprint, reading: &Reading, unit: AgeUnit, likelihood: Likelihood) -> Evidence {
        let (from, length) = self.segment(reading, unit);
        let by_others = match likelihood {
            Likelihood::Whole => self.by_others(reading),
            Likelihood::Line => self.by_others_in_line(item, reading),
        };
        Evidence { from, length, by_others }
    }

    /// The same from a model of the stream, as in the paper.
    pub fn evidence_by_model(&self, reading: &Reading, distinct: &Distinct, form: Form) -> Evidence {
        let (from, length) = self.segment(reading, AgeUnit::Arrivals);
        if reading.age.is_none() {
            return Evidence { from, length, by_others: 1.0 };
        }
        let items = match form {
            Form::Printed => distinct.among(length),
            Form::Corrected => distinct.between(from, length),
        };
        let by_others = written_by_others(reading.oldest, self.spec.cells_per_item(), self.spec.cells(), items);
        Evidence { from, length, by_others }
    }

    /// How far back the window reaches: on the clock from `as_of_ms`, in arrivals from now. A block that is cut counts in
    /// part.
    #[inline]
    pub fn window_in(&self, unit: AgeUnit, as_of_ms: i64, window: u64) -> f64 {
        let window = window.min(self.spec.drive().window());
        match (unit, self.spec.drive()) {
            (_, Drive::Count { .. }) => window.min(self.arrived) as f64,
            (AgeUnit::Clock, Drive::Time { .. }) => window as f64,
            (AgeUnit::Arrivals, Drive::Time { .. }) => {
                let (edge, length) = (super::sweep::bounded(as_of_ms) - window as i64, self.block_length());
                let before = (self.block_begin - edge).max(0) as u64;
                let Ok(age) = u8::try_from(before.div_ceil(length as u64)) else {
                    return self.arrivals_within(u8::MAX);
                };
                // Of the block that the edge cuts, what comes after the edge.
                let after = self.block_begin - (i64::from(age) - 1) * length - 1 - edge;
                let part = (after as f64 / length as f64).clamp(0.0, 1.0);
                self.arrivals_within(age) + part * self.arrivals_of_age(age) as f64
            }
        }
    }

    /// Where the ages of the oldest timer's block begin, and how many they are.
    #[inline]
    pub fn segment(&self, reading: &Reading, unit: AgeUnit) -> (f64, f64) {
        match (unit, reading.age) {
            (AgeUnit::Arrivals, Some(age)) => (self.arrivals_within(age), self.arrivals_of_age(age) as f64),
            (AgeUnit::Arrivals, None) => (self.arrivals_within(self.limit().saturating_add(1)), 0.0),
            (AgeUnit::Clock, Some(age)) => {
                let begin = self.block_ages_begin(age);
                (begin, self.block_ages_begin(age.saturating_add(1)) - begin)
            }
            (AgeUnit::Clock, None) => (self.block_ages_begin(self.limit().saturating_add(1)), 0.0),
        }
    }

    /// The youngest age, in units of the clock, of what lies in the block of this age.
    #[inline]
    fn block_ages_begin(&self, age: u8) -> f64 {
        let into_block = self.now.unwrap_or(0) - self.block_begin;
        // An arrival at the clock's own time has age 0; an arrival is counted by the clock only after it.
        let first = match self.spec.drive() {
            Drive::Time { .. } => into_block + 1,
            Drive::Count { .. } => into_block,
        };
        (first + (i64::from(age) - 1) * self.block_length()).max(0) as f64
    }

    /// The oldest age in blocks that is alive for the configured window at this very moment.
    #[inline]
    fn limit(&self) -> u8 {
        match self.spec.drive() {
            Drive::Time { .. } => self.spec.oldest_live_age(),
            Drive::Count { window, .. } => {
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
        let present = self.arrivals[usize::from(self.present)];
        present.saturating_add(self.arrivals_before[usize::from(age)]) as f64
    }

    /// Cells younger than `age`.
    #[inline]
    fn cells_within(&self, age: u8) -> u64 {
        let (present, stamps) = (usize::from(self.present), usize::from(self.spec.stamps()));
        // Counts of cells: their sum cannot wrap, and a sum that need not look is four times as fast.
        let sum = |part: &[u64]| part.iter().fold(0u64, |sum, &value| sum.wrapping_add(value));
        if stamps < 16 {
            // Few stamps: to add all of them, those too old as 0, is faster than to foresee where to stop.
            let younger = |stamp: usize| u64::from(self.ages[stamp] < age).wrapping_neg() & self.histogram[stamp];
            return (1..16).fold(0, |sum: u64, stamp| sum.wrapping_add(younger(stamp)));
        }
        let count = usize::from(age).min(stamps);
        if count <= present {
            sum(&self.histogram[present + 1 - count..=present])
        } else {
            sum(&self.histogram[1..=present])
                .wrapping_add(sum(&self.histogram[stamps + 1 - (count - present)..=stamps]))
        }
    }

    /// Of the cells at least `age` old, the share of exactly that age.
    #[inline]
    fn share_of_age(&self, age: u8) -> f64 {
        let exactly = self.histogram[usize::from(self.stamp_of_age(age))];
        exactly as f64 / (self.cells.len() - self.cells_within(age)).max(1) as f64
    }

    fn by_others(&self, reading: &Reading) -> f64 {
        match reading.age {
            None => 1.0,
            Some(age) => power(self.share_of_age(age), reading.oldest),
        }
    }

    /// Nibbles of a line of exactly this age, and younger ones.
    fn count_line(&self, line: &[u8; 64], age: u8) -> (u8, u8) {
        let (stamp, present, stamps) = (self.stamp_of_age(age), self.present, self.spec.stamps());
        // Stamps younger than `stamp` lie above it up to the present one, or, where they come round, to both sides.
        let above = if stamp <= present { present - stamp } else { stamps - stamp };
        let below = if stamp <= present { 0 } else { present };
        let (mut exactly, mut younger) = (0u8, 0u8);
        // In this form the compiler counts sixteen nibbles at once; 128 of them, so that no count can wrap.
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

    #[inline]
    fn by_others_in_line(&self, item: Fingerprint, reading: &Reading) -> f64 {
        let (Some(age), Layout::Lines(_), 4) = (reading.age, self.spec.layout(), self.spec.timer_bits()) else {
            return self.by_others(reading);
        };
        let lines = self.cells.lines();
        let line = &lines[place::line_of(item, lines.len())];
        let (exactly, younger) = self.count_line(line, age);
        // The item's own oldest cells say nothing about others.
        let own = f64::from(reading.oldest);
        let (exactly, at_least) = (f64::from(exactly) - own, 128.0 - f64::from(younger) - own);
        let share = (exactly + LINE_SHRINKAGE * self.share_of_age(age)) / (at_least + LINE_SHRINKAGE);
        power(share, reading.oldest)
    }
}

/// base^exponent, without a branch that depends on the exponent.
fn power(base: f64, exponent: u8) -> f64 {
    let (mut product, mut square) = (1.0, base);
    for bit in 0..5 {
        product *= if exponent >> bit & 1 == 1 { square } else { 1.0 };
        square *= square;
    }
    product
}
