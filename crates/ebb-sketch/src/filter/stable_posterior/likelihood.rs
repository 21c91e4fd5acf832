//! The likelihood of an item's cell values for each age and class, and for an item that was never seen.

use super::MAX_VALUE;
use super::age_prior::AgeShares;
use crate::filter::belief::Belief;
use crate::filter::parameter::ParameterError;
use crate::filter::planning::stationary::{StationaryDistribution, ValueShares};
use crate::filter::structure::stable::importance::ImportanceRule;
use crate::filter::structure::stable::{CellReading, StableFilter, StableSpec};
use crate::hash::Fingerprint;

/// Upper ends of the ranges of ages, as fractions of the window. Each range is represented by two ages.
const ENDS: [f64; 12] =
    [1.0 / 64.0, 1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 3.0 / 8.0, 1.0 / 2.0, 3.0 / 4.0, 1.0, 1.25, 1.5, 2.0, 4.0];
/// Ranges within the window.
const INSIDE_RANGES: usize = 8;
/// Number of ages.
pub const AGES: usize = 2 * ENDS.len();

/// The likelihood of one reading at each age, and if the item was never seen.
pub type AgeWeights = [f64; AGES + 1];

/// Weight, in cells, with which the distribution of all cells is mixed into that of one line.
const LINE_PRIOR_CELLS: f64 = 64.0;

/// What the filter shows of an item: its own cells, and the other cells of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellEvidence {
    reading: CellReading,
    line: [u16; MAX_VALUE as usize + 1],
    others: u16,
}

impl CellEvidence {
    /// Reads the item's cells and its line.
    #[inline]
    pub fn new(filter: &StableFilter, item: Fingerprint) -> Self {
        let mut line = [0; MAX_VALUE as usize + 1];
        let others = filter.count_line(item, &mut line);
        Self { reading: filter.read(item), line, others }
    }

    /// The item's own cells.
    pub fn reading(&self) -> &CellReading {
        &self.reading
    }
}

/// The ages for which likelihoods are tabulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgeGrid {
    window: f64,
}

impl AgeGrid {
    /// For a window in arrivals.
    pub fn new(window: u64) -> Self {
        Self { window: window as f64 }
    }

    /// The range of ages that each tabulated age represents, in arrivals.
    pub fn ranges(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        (0..AGES).map(|index| {
            let (from, to) = (if index < 2 { 0.0 } else { ENDS[index / 2 - 1] }, ENDS[index / 2]);
            let middle = (from + to) / 2.0;
            let (from, to) = if index % 2 == 0 { (from, middle) } else { (middle, to) };
            (from * self.window, to * self.window)
        })
    }

    /// The tabulated ages: the middles of the ranges.
    fn ages(&self) -> Vec<u64> {
        self.ranges().map(|(from, to)| libm::floor((from + to) / 2.0) as u64).collect()
    }

    /// The window, in arrivals.
    pub fn window(&self) -> u64 {
        self.window as u64
    }

    /// The tabulated age that represents an age in arrivals; [`AGES`] stands for "never".
    pub fn index_of(&self, age: u64) -> usize {
        self.ranges().position(|(_, to)| (age as f64) < to).unwrap_or(AGES)
    }

    /// The largest age that differs from "never".
    pub fn end(&self) -> f64 {
        ENDS[ENDS.len() - 1] * self.window
    }

    /// The number of ages within the window; they come first.
    pub fn inside_ages(&self) -> usize {
        2 * INSIDE_RANGES
    }

    /// The posterior of having been seen within the window.
    pub fn belief(&self, weights: &AgeWeights, prior: &AgeShares) -> Belief {
        let mass = |range: std::ops::Range<usize>| -> f64 {
            weights[range.clone()].iter().zip(&prior[range]).map(|(weight, share)| weight * share).sum()
        };
        Belief::normalised(mass(0..self.inside_ages()), mass(self.inside_ages()..AGES + 1))
    }
}

/// Likelihoods of cell values.
#[derive(Debug, Clone, PartialEq)]
pub struct CellLikelihood {
    grid: AgeGrid,
    rule: ImportanceRule,
    /// Number of cell values.
    values: usize,
    /// By class, age and cell value.
    seen: Vec<f64>,
    /// By cell value.
    unseen: Vec<f64>,
    /// The share of each class.
    classes: Vec<f64>,
}

impl CellLikelihood {
    /// `values` is the mix of the classes among arrivals, `cells` counts sampled cells by value.
    pub fn new(spec: &StableSpec, values: &ValueShares, cells: &[u64], window: u64) -> Result<Self, ParameterError> {
        let law = StationaryDistribution::new(spec, values).ok_or_else(|| {
            let reason = "the filter forgets faster than it learns; the mix needs more important classes";
            ParameterError::new("decrements", spec.decrements(), reason, spec.decrements() / 2)
        })?;
        let grid = AgeGrid::new(window);
        let unseen = unseen_cells(cells, law.shares());
        let aged = law.aged(&unseen, &grid.ages());
        let count = unseen.len();
        let mut seen = vec![0.0; (count - 1) * AGES * count];
        for (age, by_class) in aged.iter().enumerate() {
            for (class, cell) in by_class.iter().enumerate() {
                let at = (class * AGES + age) * count;
                seen[at..at + count].copy_from_slice(cell);
            }
        }
        let classes = values.under(spec.rule(), spec.max_value()).shares().to_vec();
        Ok(Self { grid, rule: spec.rule(), values: count, seen, unseen, classes })
    }

    /// Bytes of the tables.
    pub fn memory_bytes(&self) -> u64 {
        let numbers = self.seen.len() + self.unseen.len() + self.classes.len();
        (numbers * size_of::<f64>()) as u64
    }

    /// The ages.
    pub fn grid(&self) -> &AgeGrid {
        &self.grid
    }

    /// The likelihood of the evidence at each age: of an item of the class `value`, or of all classes by their shares.
    #[inline]
    pub fn weights(&self, evidence: &CellEvidence, value: Option<u8>) -> AgeWeights {
        let (mut weights, reading) = ([0.0; AGES + 1], &evidence.reading);
        match value {
            Some(value) => {
                let raised = self.rule.raised_value(value, (self.values - 1) as u8);
                self.add_class(&mut weights, reading, usize::from(raised) - 1, 1.0);
            }
            None => {
                for (class, share) in self.classes.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                    self.add_class(&mut weights, reading, class, *share);
                }
            }
        }
        // Lines differ in load: the cells of an unseen item look like the other cells of its line.
        let cells = f64::from(evidence.others) + LINE_PRIOR_CELLS;
        let unseen = |value: &u8| {
            let value = usize::from(*value);
            (f64::from(evidence.line[value]) + LINE_PRIOR_CELLS * self.unseen[value]) / cells
        };
        weights[AGES] = reading.values().iter().map(unseen).product();
        weights
    }

    #[inline]
    fn add_class(&self, weights: &mut AgeWeights, reading: &CellReading, class: usize, share: f64) {
        let table = &self.seen[class * AGES * self.values..(class + 1) * AGES * self.values];
        for (weight, cell) in weights.iter_mut().zip(table.chunks_exact(self.values)) {
            *weight += share * reading.values().iter().map(|value| cell[usize::from(*value)]).product::<f64>();
        }
    }
}

/// The distribution of all cells: as sampled, with one pseudo-cell from the stationary distribution.
fn unseen_cells(cells: &[u64], law: &[f64]) -> Vec<f64> {
    let total = cells.iter().sum::<u64>() as f64 + 1.0;
    law.iter()
        .enumerate()
        .map(|(value, share)| (cells.get(value).copied().unwrap_or(0) as f64 + share) / total)
        .collect()
}
