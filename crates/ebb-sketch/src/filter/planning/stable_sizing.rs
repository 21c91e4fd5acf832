//! Sizing of stable filters by their limiting laws: the smallest filter that keeps both a rate of false duplicates and a
//! rate of missed duplicates at a stated age.
//!
//! The ratio of raises to decrements determines the fraction of non-zero cells, and with it the false duplicates; the
//! number of decrements that a cell receives within the age determines the missed ones. So for each largest value and each
//! number of cells per item the fewest decrements follow from the first rate and the fewest lines from the second; the
//! plan is the combination with the least memory. Both rates hold for any share of repeats: false duplicates are computed
//! for distinct arrivals, which fill the filter most, missed ones without the help of other items.
//!
//! ```
//! use ebb_sketch::filter::planning::stable_sizing::{ClassMix, StableTarget, size_stable};
//! use ebb_sketch::filter::planning::stationary::StationaryDistribution;
//! use ebb_sketch::filter::structure::stable::importance::ImportanceRule;
//!
//! let target = StableTarget { false_duplicates: 0.05, missed: 0.02, age: 10_000 };
//! let spec = size_stable(&target, |_| ImportanceRule::Stable, &ClassMix::EVEN, Default::default()).unwrap();
//! let law = StationaryDistribution::new(&spec, &ClassMix::EVEN.values(spec.max_value())).unwrap();
//! assert!(law.false_duplicate_rate() <= 0.05 && law.miss_bound(spec.max_value(), 10_000) <= 0.02);
//! ```

mod line_load;
mod mix;

pub use line_load::false_duplicate_rate;
pub use mix::{ClassMix, MAX_CLASSES};

use libm::{exp, log, log1p, pow};

use super::stationary::{StationaryDistribution, ValueShares};
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::cells::CellWidth;
use crate::filter::structure::layout::CellLayout;
use crate::filter::structure::stable::importance::ImportanceRule;
use crate::filter::structure::stable::{DECREMENTS_PER_LINE, MAX_DECREMENTS, StableSpec};

/// Largest values that are considered: those that fill their bits.
const MAX_VALUES: [u8; 3] = [3, 7, 15];
/// More cells per item cost time and gain little.
const MAX_CELLS_PER_ITEM: u8 = 12;
/// More decrements per arrival cost too much time.
const MAX_PLANNED_DECREMENTS: u32 = 512;
/// The most lines that are considered: a terabyte.
const MAX_LINES: u64 = 1 << 34;
/// Corrections of the law's rate for the load of lines, and the margin of each.
const MAX_CORRECTIONS: u32 = 16;
const CORRECTION_MARGIN: f64 = 0.97;
/// Visits of a line after which the search for the allowed number of visits ends.
const MAX_VISITS: usize = 8192;

/// The errors that a filter may make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StableTarget {
    /// The share of unseen items that are taken for duplicates.
    pub false_duplicates: f64,
    /// The share of the most important items that are forgotten when they are seen again after `age`.
    pub missed: f64,
    /// In arrivals.
    pub age: u64,
}

/// Parameters that are fixed in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FixedParameters {
    /// Cells per item.
    pub hashes: Option<u8>,
    /// The largest cell value.
    pub max_value: Option<u8>,
}

impl StableTarget {
    fn check(&self) -> Result<(), ParameterError> {
        let reason = "it is a probability, and no filter reaches 0";
        check_range("the share of false duplicates", self.false_duplicates, 1e-12..=0.999_999, reason)?;
        check_range("the share of missed duplicates", self.missed, 1e-9..=0.999_999, reason)?;
        check_range("the age", self.age, 1..=1 << 40, "an age is a number of arrivals")?;
        Ok(())
    }
}

/// The filter with the least memory that meets the target. `rule` gives the rule for a largest value.
pub fn size_stable(
    target: &StableTarget,
    rule: fn(u8) -> ImportanceRule,
    mix: &ClassMix,
    fixed: FixedParameters,
) -> Result<StableSpec, ParameterError> {
    target.check()?;
    let mut allowed = target.false_duplicates;
    // Lines differ in load, which raises the rate above that of the law; a few corrections settle it.
    for _ in 0..MAX_CORRECTIONS {
        let candidate = smallest(target, allowed, (rule, mix), fixed).ok_or_else(|| unreachable_error(target))?;
        let values = mix.values(candidate.max_value());
        let rate = false_duplicate_rate(&candidate, &values);
        if rate <= target.false_duplicates {
            return grown_to(target, candidate, &values);
        }
        allowed *= CORRECTION_MARGIN * target.false_duplicates / rate;
    }
    Err(unreachable_error(target))
}

/// `spec` with the most decrements that keep the share of missed duplicates at the age at `missed`. For a filter of a given
/// size this is the one with the fewest false duplicates.
pub fn tune_to_missed(
    spec: &StableSpec,
    values: &ValueShares,
    missed: f64,
    age: u64,
) -> Result<StableSpec, ParameterError> {
    StableTarget { false_duplicates: 0.5, missed, age }.check()?;
    let missed_with = |decrements: u32| {
        let law = StationaryDistribution::new(&spec.with_decrements(decrements).ok()?, values)?;
        Some(law.miss_bound(law.top_value(), age))
    };
    let max = u64::from(MAX_DECREMENTS).min(spec.hasher().cells()) as u32;
    let meets = |decrements| missed_with(decrements).is_some_and(|rate| rate <= missed);
    if !meets(1) {
        let reason =
            "this memory forgets more within the age even with one decrement per arrival; more memory is needed";
        let nearest = missed_with(1).unwrap_or(1.0);
        return Err(ParameterError::new("the share of missed duplicates", missed, reason, nearest));
    }
    let (mut low, mut high) = (1, max + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if meets(middle) { low = middle } else { high = middle }
    }
    spec.with_decrements(low)
}

fn unreachable_error(target: &StableTarget) -> ParameterError {
    let (requested, age) = (target.missed, target.age);
    let reason = format!(
        "no filter of up to a terabyte and {MAX_PLANNED_DECREMENTS} decrements per arrival reaches it at an age of {age} \
         arrivals together with {} false duplicates",
        target.false_duplicates
    );
    ParameterError::new("the share of missed duplicates", requested, reason, (10.0 * requested).min(0.5))
}

fn smallest(
    target: &StableTarget,
    allowed: f64,
    (rule, mix): (fn(u8) -> ImportanceRule, &ClassMix),
    fixed: FixedParameters,
) -> Option<StableSpec> {
    let max_values = MAX_VALUES.into_iter().filter(|_| fixed.max_value.is_none()).chain(fixed.max_value);
    let hashes = match fixed.hashes {
        Some(hashes) => hashes..=hashes,
        None => 1..=MAX_CELLS_PER_ITEM,
    };
    let candidates = max_values.flat_map(|max_value| hashes.clone().map(move |hashes| (max_value, hashes)));
    let sized = candidates.filter_map(|(max_value, hashes)| {
        let law = RatioLaw::new(rule(max_value), max_value, &mix.values(max_value));
        let decrements = law.fewest_decrements(hashes, allowed)?;
        let lines = law.fewest_lines(target, hashes, decrements)?;
        StableSpec::new(CellLayout::Lines(lines), hashes, decrements, max_value, rule(max_value)).ok()
    });
    sized.min_by_key(|spec| (spec.cell_bytes(), spec.decrements()))
}

/// Adds lines until the exact chain meets the target.
fn grown_to(target: &StableTarget, spec: StableSpec, values: &ValueShares) -> Result<StableSpec, ParameterError> {
    let CellLayout::Lines(mut lines) = spec.hasher().layout() else { return Ok(spec) };
    loop {
        let layout = CellLayout::Lines(lines);
        let grown = StableSpec::new(layout, spec.hasher().hashes(), spec.decrements(), spec.max_value(), spec.rule())?;
        let law = StationaryDistribution::new(&grown, values).ok_or_else(|| unreachable_error(target))?;
        if law.miss_bound(law.top_value(), target.age) <= target.missed {
            return Ok(grown);
        }
        lines += lines.div_ceil(64);
    }
}

/// The law of a large filter, in which only the ratio of raises to decrements matters.
struct RatioLaw {
    rule: ImportanceRule,
    max_value: u8,
    /// S_j: the share of arrivals that raise to at least j.
    at_least: Vec<f64>,
    top_value: u8,
}

impl RatioLaw {
    fn new(rule: ImportanceRule, max_value: u8, values: &ValueShares) -> Self {
        let raised = values.under(rule, max_value);
        let top = raised.shares().iter().rposition(|share| *share > 0.0).unwrap_or(0);
        Self { rule, max_value, at_least: raised.at_least(), top_value: (top + 1) as u8 }
    }

    /// How much longer a cell keeps this value than value 1.
    fn persistence(&self, value: usize) -> f64 {
        match self.rule {
            ImportanceRule::Harmonic => value as f64,
            _ => 1.0,
        }
    }

    fn false_duplicate_rate(&self, hashes: u8, decrements: f64) -> f64 {
        let ratio = f64::from(hashes) / decrements;
        let zero: f64 =
            (1..self.at_least.len()).map(|value| -log1p(ratio * self.at_least[value] * self.persistence(value))).sum();
        pow(1.0 - exp(zero), f64::from(hashes))
    }

    fn fewest_decrements(&self, hashes: u8, allowed: f64) -> Option<u32> {
        let meets = |decrements: u32| self.false_duplicate_rate(hashes, f64::from(decrements)) <= allowed;
        if self.rule == ImportanceRule::HarmonicLiteral || !meets(MAX_PLANNED_DECREMENTS) {
            return None;
        }
        let (mut low, mut high) = (0, MAX_PLANNED_DECREMENTS);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if meets(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// The lines with which a cell of the most important items is not emptied too often within the age.
    fn fewest_lines(&self, target: &StableTarget, hashes: u8, decrements: u32) -> Option<u64> {
        let emptied = -libm::expm1(log1p(-target.missed) / f64::from(hashes));
        let group = decrements.min(DECREMENTS_PER_LINE);
        let visits = self.allowed_visits(emptied, group)?;
        let lines = target.age as f64 * f64::from(decrements) / f64::from(group) / visits;
        let lines = libm::ceil(lines).max(2.0) as u64;
        (lines <= MAX_LINES).then_some(lines)
    }

    /// The mean number of visits of a line, by `group` decrements each, after which a cell is empty with probability
    /// `emptied`. The number of visits within an age is a Poisson variable.
    fn allowed_visits(&self, emptied: f64, group: u32) -> Option<f64> {
        let by_visits = self.emptied_by_visits(group);
        let probability = |mean: f64| {
            let mut log_term = -mean;
            let term = |(visits, emptied): (usize, &f64)| {
                if visits > 0 {
                    log_term += log(mean / visits as f64);
                }
                exp(log_term) * emptied
            };
            by_visits.iter().enumerate().map(term).sum::<f64>()
        };
        let (mut low, mut high) = (1e-9, by_visits.len() as f64 / 2.0);
        if probability(low) > emptied {
            return None;
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if probability(middle) <= emptied { low = middle } else { high = middle }
        }
        Some(low)
    }

    /// The probability that a cell is empty after each number of visits.
    fn emptied_by_visits(&self, group: u32) -> Vec<f64> {
        let cells_per_line = 512.0 / f64::from(CellWidth::holding(self.max_value).bits());
        let mut cell = vec![0.0; usize::from(self.top_value) + 1];
        cell[usize::from(self.top_value)] = 1.0;
        let mut emptied = vec![0.0];
        while emptied.len() < MAX_VISITS && cell[0] < 0.999 {
            for _ in 0..group {
                for value in 1..cell.len() {
                    let moved = cell[value] / cells_per_line / self.persistence(value);
                    cell[value] -= moved;
                    cell[value - 1] += moved;
                }
            }
            emptied.push(cell[0]);
        }
        // Twice as many, so that the Poisson tail of the largest mean is covered.
        let last = emptied.last().copied().unwrap_or(1.0);
        emptied.extend(std::iter::repeat_n(last, emptied.len()));
        emptied
    }
}

#[cfg(test)]
mod tests;
