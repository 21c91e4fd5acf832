//! What every aggregate answers with: an estimate, its bounds, and what kind of promise stands behind them.
//!
//! The types are shared by all sketches, so that a caller reads one vocabulary whatever the method. They know nothing
//! of how an answer was found beyond the evidence it names.

/// What stands behind the bounds of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Guarantee {
    /// The answer is the true one.
    Exact,
    /// The truth is within the bounds, always; `epsilon` is the error the structure was built for.
    Deterministic { epsilon: f64 },
    /// The truth is within the bounds except with probability `delta`.
    Probabilistic { epsilon: f64, delta: f64 },
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The sampling level that answered (0 holds everything), and how many sampled elements it had to say something.
    Level { level: u8, elements: u64 },
    /// How many cells, nodes or counters were combined.
    Cells(u64),
}

/// A number: a sum, count, mean, share or rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub lower: f64,
    pub upper: f64,
    pub guarantee: Guarantee,
    /// True when the question reached past what is still remembered: the answer only speaks of the rest.
    pub incomplete: bool,
    pub evidence: Evidence,
}

/// One quantile: the value at which the cumulated share reaches `phi`, and the values at the bounds of that share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    pub phi: f64,
    pub value: u64,
    pub lower: u64,
    pub upper: u64,
    pub guarantee: Guarantee,
    pub incomplete: bool,
    pub evidence: Evidence,
}

/// Which mistake a list of top items may not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopMode {
    /// Everything listed has at least the share that was asked for; some that have it may be missing.
    NoFalsePositives,
    /// Everything that has the share is listed; some that are listed may be a little below it.
    NoFalseNegatives,
}

/// One frequent item and what it weighs, as a share of the whole and with the bounds of that share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopItem {
    pub item: u64,
    pub share: f64,
    pub lower: f64,
    pub upper: f64,
}

/// The frequent items, largest share first, equal shares by item.
#[derive(Debug, Clone, PartialEq)]
pub struct TopItems {
    pub items: Vec<TopItem>,
    /// What the shares are shares of.
    pub total: Estimate,
    pub mode: TopMode,
    pub guarantee: Guarantee,
}

impl Estimate {
    /// A value that is known, not estimated.
    pub fn exact(value: f64, evidence: Evidence) -> Self {
        Self { value, lower: value, upper: value, guarantee: Guarantee::Exact, incomplete: false, evidence }
    }

    /// Whether `truth` lies within the bounds, with room for the rounding of `f64` sums.
    pub fn covers(&self, truth: f64) -> bool {
        let slack = 1e-9 * truth.abs().max(1e-300);
        self.lower - slack <= truth && truth <= self.upper + slack
    }
}

impl TopItems {
    /// Puts items into the order that every method answers in.
    pub fn sort(items: &mut [TopItem]) {
        items.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.item.cmp(&b.item)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_estimate_covers_only_itself() {
        let known = Estimate::exact(3.0, Evidence::Cells(1));
        assert!(known.covers(3.0) && !known.covers(3.001) && !known.covers(2.999));
    }

    #[test]
    fn top_items_come_largest_first_and_ties_by_item() {
        let item = |item, share| TopItem { item, share, lower: share, upper: share };
        let mut items = [item(9, 0.1), item(5, 0.3), item(4, 0.1)];
        TopItems::sort(&mut items);
        assert_eq!(items.map(|i| i.item), [5, 4, 9]);
    }
}
