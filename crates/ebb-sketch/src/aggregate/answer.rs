//! The vocabulary of answers: an estimate, its bounds, and the guarantee behind them.
//!
//! All methods answer with these types.

/// How far the bounds of an answer can be trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Guarantee {
    /// The answer is exact.
    Exact,
    /// The true number is always within the bounds.
    Deterministic {
        /// The error the sketch was built for.
        epsilon: f64,
    },
    /// The true number is within the bounds, except with probability `delta`.
    Probabilistic {
        /// The error the sketch was built for.
        epsilon: f64,
        /// The probability of a larger error.
        delta: f64,
    },
}

/// What an answer was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A sample.
    Level {
        /// The sampling level that answered; level 0 holds everything.
        level: u8,
        /// How many sampled elements contributed.
        elements: u64,
    },
    /// This many cells, nodes or counters.
    Cells(u64),
}

/// A count, sum, mean, share or rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
    /// How far the bounds can be trusted.
    pub guarantee: Guarantee,
    /// True when the query reached past what the sketch still remembers: the answer covers only the rest.
    pub incomplete: bool,
    /// What the estimate was computed from.
    pub evidence: Evidence,
}

/// A quantile: the value at which the cumulative share reaches `phi`, and the values at the bounds of that share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// The requested share.
    pub phi: f64,
    /// The estimate.
    pub value: u64,
    /// The lower bound.
    pub lower: u64,
    /// The upper bound; `u64::MAX` if a sample is too small to bound the largest values.
    pub upper: u64,
    /// How far the bounds can be trusted.
    pub guarantee: Guarantee,
    /// True when the query reached past what the sketch still remembers: the answer covers only the rest.
    pub incomplete: bool,
    /// What the estimate was computed from.
    pub evidence: Evidence,
}

/// Which error a list of top items excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopMode {
    /// Every listed item has the requested share; some items that have it may be missing.
    NoFalsePositives,
    /// Every item that has the requested share is listed; some listed items may be slightly below it.
    NoFalseNegatives,
}

impl TopMode {
    /// Whether an item with these bounds of its share belongs in a list for `phi`.
    pub(crate) fn lists(self, phi: f64, lower: f64, upper: f64) -> bool {
        match self {
            Self::NoFalsePositives => lower >= phi,
            Self::NoFalseNegatives => upper >= phi,
        }
    }
}

/// A frequent item and its share of the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopItem {
    /// The item.
    pub item: u64,
    /// The estimated share.
    pub share: f64,
    /// The lower bound of the share.
    pub lower: f64,
    /// The upper bound of the share.
    pub upper: f64,
}

/// The frequent items, largest share first, equal shares by item.
#[derive(Debug, Clone, PartialEq)]
pub struct TopItems {
    /// The items.
    pub items: Vec<TopItem>,
    /// The decayed weight that the shares refer to.
    pub total: Estimate,
    /// Which error the list excludes.
    pub mode: TopMode,
    /// How far the bounds of the shares can be trusted.
    pub guarantee: Guarantee,
}

impl Estimate {
    /// A value that is known exactly.
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
    /// Sorts items into the order in which all methods list them.
    pub fn sort(items: &mut [TopItem]) {
        items.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.item.cmp(&b.item)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_estimate_covers_only_its_value() {
        let known = Estimate::exact(3.0, Evidence::Cells(1));
        assert!(known.covers(3.0) && !known.covers(3.001) && !known.covers(2.999));
    }

    #[test]
    fn top_items_are_sorted_by_share_then_item() {
        let item = |item, share| TopItem { item, share, lower: share, upper: share };
        let mut items = [item(9, 0.1), item(5, 0.3), item(4, 0.1)];
        TopItems::sort(&mut items);
        assert_eq!(items.map(|i| i.item), [5, 4, 9]);
    }
}
