//! The Markov chain of one cell of a stable filter: what one observation of another item does to it.
//!
//! An observation decrements cells, then raises its own. Spread cells are drawn one by one. In lines, groups of decrements
//! share a line, so that a cell is hit rarely but sometimes twice: forgetting varies more, and the chain accounts for it.

use super::stationary::ValueShares;
use crate::filter::structure::layout::CellLayout;
use crate::filter::structure::stable::importance::ImportanceRule;
use crate::filter::structure::stable::{DECREMENTS_PER_LINE, StableSpec};

/// Numbers of observations from two to this power on are not searched for.
const MAX_EXPONENT: usize = 44;

/// A square matrix; `matrix[from][to]`.
type Transitions = Vec<Vec<f64>>;

/// The transitions of one cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CellChain {
    /// The decrements of one observation.
    decrement: Transitions,
    /// Probability that an observation maps to the cell.
    touch: f64,
}

impl CellChain {
    /// `decrement`: for each value from 1, the probability that one observation decrements a given cell of that value, if
    /// cells are drawn one by one.
    pub(super) fn new(spec: &StableSpec, decrement: &[f64]) -> Self {
        let touch = spec.hasher().touch_probability();
        let decrement = match (spec.hasher().layout(), spec.rule()) {
            (CellLayout::Spread(_), _) | (CellLayout::Lines(_), ImportanceRule::HarmonicLiteral) => one_draw(decrement),
            (CellLayout::Lines(lines), rule) => grouped(spec, lines, rule),
        };
        Self { decrement, touch }
    }

    /// The distribution of a cell after `steps` observations of other items, whose values have the shares `raised`.
    pub(super) fn after(&self, cell: Vec<f64>, steps: u64, raised: &ValueShares) -> Vec<f64> {
        advance(cell, self.transitions(raised), steps)
    }

    /// The distributions of several cells at each of the ascending `ages`.
    pub(super) fn after_each(
        &self,
        mut cells: Vec<Vec<f64>>,
        ages: &[u64],
        raised: &ValueShares,
    ) -> Vec<Vec<Vec<f64>>> {
        let (transitions, mut now) = (self.transitions(raised), 0);
        let at = |age: &u64| {
            cells = advance_rows(std::mem::take(&mut cells), transitions.clone(), age.saturating_sub(now));
            now = now.max(*age);
            cells.clone()
        };
        ages.iter().map(at).collect()
    }

    /// The distribution of a cell to which no other item maps, after `steps` observations.
    pub(super) fn after_decrements(&self, cell: Vec<f64>, steps: u64) -> Vec<f64> {
        advance(cell, self.decrement.clone(), steps)
    }

    /// For each cell, the number of observations of other items after which `reached` holds for the first time; `None` if it
    /// never does. It must keep holding once it holds.
    pub(super) fn steps_until(
        &self,
        cells: Vec<Vec<f64>>,
        raised: &ValueShares,
        reached: impl Fn(&[f64]) -> bool,
    ) -> Vec<Option<u64>> {
        let mut powers = vec![self.transitions(raised)];
        for exponent in 1..MAX_EXPONENT {
            powers.push(product(&powers[exponent - 1], &powers[exponent - 1]));
        }
        let steps = |mut cell: Vec<f64>| {
            if reached(&cell) {
                return Some(0);
            }
            let mut before = 0u64;
            for (exponent, power) in powers.iter().enumerate().rev() {
                let later = through(&cell, power);
                if !reached(&later) {
                    (cell, before) = (later, before + (1 << exponent));
                }
            }
            Some(before + 1).filter(|steps| *steps < 1 << MAX_EXPONENT)
        };
        cells.into_iter().map(steps).collect()
    }

    /// Decrement, then raise.
    fn transitions(&self, raised: &ValueShares) -> Transitions {
        let raise = |row: &Vec<f64>| {
            let mut out: Vec<f64> = row.iter().map(|probability| probability * (1.0 - self.touch)).collect();
            for (value, probability) in row.iter().enumerate().filter(|(_, probability)| **probability > 0.0) {
                for (index, share) in raised.shares().iter().enumerate() {
                    out[value.max(index + 1)] += probability * self.touch * share;
                }
            }
            out
        };
        self.decrement.iter().map(raise).collect()
    }
}

/// Each draw hits a given cell of a line with probability 1 / (cells per line); each group hits a given line with
/// probability 1 / lines.
fn grouped(spec: &StableSpec, lines: u64, rule: ImportanceRule) -> Transitions {
    let cells_per_line = spec.hasher().cells() as f64 / lines as f64;
    let per_draw = |value: usize| match rule {
        ImportanceRule::Harmonic => 1.0 / cells_per_line / value as f64,
        _ => 1.0 / cells_per_line,
    };
    let draw = one_draw(&(1..=usize::from(spec.max_value())).map(per_draw).collect::<Vec<_>>());
    let group = |draws: u32| {
        let mut hit = power(&draw, u64::from(draws));
        for (from, row) in hit.iter_mut().enumerate() {
            row.iter_mut().for_each(|probability| *probability /= lines as f64);
            row[from] += 1.0 - 1.0 / lines as f64;
        }
        hit
    };
    let (full, rest) = (spec.decrements() / DECREMENTS_PER_LINE, spec.decrements() % DECREMENTS_PER_LINE);
    let all = power(&group(DECREMENTS_PER_LINE), u64::from(full));
    if rest == 0 { all } else { product(&all, &group(rest)) }
}

/// Decrements a cell of each value from 1 with the given probability.
fn one_draw(decrement: &[f64]) -> Transitions {
    let mut transitions = identity(decrement.len() + 1);
    for (index, probability) in decrement.iter().enumerate() {
        transitions[index + 1][index] = *probability;
        transitions[index + 1][index + 1] = 1.0 - probability;
    }
    transitions
}

fn identity(size: usize) -> Transitions {
    let row = |at: usize| (0..size).map(|to| if to == at { 1.0 } else { 0.0 }).collect();
    (0..size).map(row).collect()
}

fn product(first: &Transitions, second: &Transitions) -> Transitions {
    first.iter().map(|row| through(row, second)).collect()
}

fn power(transitions: &Transitions, exponent: u64) -> Transitions {
    let rows = identity(transitions.len());
    if exponent == 0 { rows } else { advance_rows(rows, transitions.clone(), exponent) }
}

fn advance(cell: Vec<f64>, transitions: Transitions, steps: u64) -> Vec<f64> {
    let mut rows = advance_rows(vec![cell], transitions, steps);
    rows.pop().unwrap_or_default()
}

/// Repeated squaring. Sums of non-negative products do not cancel.
fn advance_rows(mut rows: Vec<Vec<f64>>, mut transitions: Transitions, mut steps: u64) -> Vec<Vec<f64>> {
    while steps > 0 {
        if steps & 1 == 1 {
            rows = product(&rows, &transitions);
        }
        steps >>= 1;
        if steps > 0 {
            transitions = product(&transitions, &transitions);
        }
    }
    rows
}

fn through(row: &[f64], transitions: &Transitions) -> Vec<f64> {
    let mut out = vec![0.0; row.len()];
    for (weight, next) in row.iter().zip(transitions).filter(|(weight, _)| **weight > 0.0) {
        out.iter_mut().zip(next).for_each(|(sum, probability)| *sum += weight * probability);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_grouped_decrements_sum_to_one_and_have_the_mean_of_single_ones() {
        for decrements in [5, 16, 37] {
            let spec = StableSpec::new(CellLayout::Lines(40), 4, decrements, 7, ImportanceRule::Stable).unwrap();
            let chain = CellChain::new(&spec, &[]);
            assert!(chain.decrement.iter().all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
            let mean: f64 = chain.decrement[7].iter().enumerate().map(|(to, p)| (7.0 - to as f64) * p).sum();
            let expected = f64::from(decrements) / spec.hasher().cells() as f64;
            assert!((mean / expected - 1.0).abs() < 1e-3, "{decrements}: {mean} instead of {expected}");
        }
    }
}
