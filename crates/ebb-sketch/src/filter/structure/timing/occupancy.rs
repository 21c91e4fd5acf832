//! The false-duplicate rate of a timing filter, from the number of items it holds or from its fill.

use libm::{exp, expm1, log, log1p};

use super::{TimingFilter, TimingSpec};
use crate::filter::structure::layout::CellLayout;

/// Probability that all cells of a new item are already written, after `items` distinct items.
pub fn false_duplicate_rate(spec: &TimingSpec, items: f64) -> f64 {
    let k = f64::from(spec.cells_per_item());
    match spec.layout() {
        CellLayout::Spread(cells) => exp(k * log(-expm1(-k * items / cells as f64))),
        CellLayout::Lines(lines) => rate_in_lines(items / lines as f64, k, spec.cells_per_line() as f64),
    }
}

/// The same from the fraction of cells that are written.
fn rate_at_fill(spec: &TimingSpec, fill: f64) -> f64 {
    let k = f64::from(spec.cells_per_item());
    if fill <= 0.0 {
        return 0.0;
    }
    match spec.layout() {
        CellLayout::Lines(_) if fill < 1.0 => {
            let cells = spec.cells_per_line() as f64;
            // A Poisson number of items with mean x leaves a cell empty with probability exp(-x (1 - (1 - 1/cells)^k)).
            let touched = -expm1(k * log1p(-1.0 / cells));
            rate_in_lines(-log1p(-fill) / touched, k, cells)
        }
        CellLayout::Lines(_) | CellLayout::Spread(_) => exp(k * log(fill)),
    }
}

/// The number of items per line is Poisson distributed and fuller lines err more: the mean over that number.
fn rate_in_lines(mean: f64, k: f64, cells: f64) -> f64 {
    let empty = k * log1p(-1.0 / cells);
    let rate = |items: f64| exp(k * log(-expm1(items * empty)));
    // Lines this full no longer differ noticeably.
    if mean > 64.0 * cells {
        return rate(mean);
    }
    let reach = 12.0 * libm::sqrt(mean) + 24.0;
    let (first, last) = ((mean - reach).max(0.0) as u64, (mean + reach) as u64);
    let probability = |items: f64| exp(items * log(mean) - mean - libm::lgamma(items + 1.0));
    (first.max(1)..=last).map(|items| probability(items as f64) * rate(items as f64)).sum::<f64>().min(1.0)
}

impl TimingFilter {
    /// Probability that an item which was never inserted reads as a duplicate in the full window, from the current fill.
    pub fn false_duplicate_rate(&self) -> f64 {
        rate_at_fill(self.spec(), self.fill())
    }
}
