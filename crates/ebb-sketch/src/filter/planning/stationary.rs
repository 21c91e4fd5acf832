//! The stationary distribution of cell values of a stable filter, for each rule and any mix of importances.
//!
//! It follows from cut balance between the values below j and from j on: raises across the cut equal decrements across it.
//! From it follow the fraction of zero cells, the false-duplicate rate and, by running the Markov chain forward, the
//! probability that an item is forgotten after some gap. Arrivals are assumed to be distinct; repeats leave more zero cells.
//!
//! ```
//! use ebb_sketch::filter::planning::stationary::{StationaryDistribution, ValueShares};
//! use ebb_sketch::filter::structure::layout::CellLayout;
//! use ebb_sketch::filter::structure::stable::{StableSpec, importance::ImportanceRule};
//!
//! let spec = StableSpec::new(CellLayout::Spread(16_384), 5, 10, 7, ImportanceRule::MultiClass).unwrap();
//! let stationary = StationaryDistribution::new(&spec, &ValueShares::uniform(7)).unwrap();
//! assert!((stationary.zero_share() - 0.1798).abs() < 1e-4);
//! ```

use super::cell_chain::CellChain;
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::stable::StableSpec;
use crate::filter::structure::stable::importance::ImportanceRule;

/// The frequency of each cell value 1..=M among arrivals.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueShares(Vec<f64>);

impl ValueShares {
    /// Weights of the values 1..=M, in order; they are normalised.
    pub fn new(weights: &[f64]) -> Result<Self, ParameterError> {
        check_range(
            "the number of values",
            weights.len(),
            1..=usize::from(u8::MAX),
            "a cell holds values of 1 to 255",
        )?;
        for weight in weights {
            check_range("a value's share", *weight, 0.0..=f64::MAX, "shares are finite and not negative")?;
        }
        let total: f64 = weights.iter().sum();
        check_range("the sum of the shares", total, f64::MIN_POSITIVE..=f64::MAX, "some value must arrive")?;
        Ok(Self(weights.iter().map(|weight| weight / total).collect()))
    }

    /// All values are equally frequent.
    pub fn uniform(max_value: u8) -> Self {
        Self(vec![1.0 / f64::from(max_value.max(1)); usize::from(max_value.max(1))])
    }

    /// The frequencies of the values 1..=M.
    pub fn shares(&self) -> &[f64] {
        &self.0
    }

    /// The frequencies of the values to which a rule raises cells.
    pub fn under(&self, rule: ImportanceRule, max_value: u8) -> Self {
        let mut raised = vec![0.0; usize::from(max_value)];
        for (value, share) in (1..=u8::MAX).zip(&self.0) {
            raised[usize::from(rule.raised_value(value, max_value)) - 1] += share;
        }
        Self(raised)
    }

    /// S_j, the fraction of values of at least j, for j = 0..=M.
    pub(super) fn at_least(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.0.len() + 1];
        for (index, share) in self.0.iter().enumerate().rev() {
            sums[index] = sums.get(index + 1).copied().unwrap_or(0.0) + share;
        }
        sums.insert(0, 1.0);
        sums.truncate(self.0.len() + 1);
        sums
    }
}

/// The value of an item's cell right after an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialCell {
    /// Exactly the item's value.
    Fresh,
    /// The item's value, or more if another item left more.
    Stationary,
}

/// The distribution to which the cells of a filter converge.
#[derive(Debug, Clone, PartialEq)]
pub struct StationaryDistribution {
    /// V_0..V_M: the fraction of cells of each value.
    shares: Vec<f64>,
    raised: ValueShares,
    spec: StableSpec,
    /// For each value from 1, the probability that an observation decrements a given cell of that value.
    decrement: Vec<f64>,
    hashes: f64,
}

impl StationaryDistribution {
    /// `None` if the filter drains: [`ImportanceRule::HarmonicLiteral`] with as many decrements as raises.
    pub fn new(spec: &StableSpec, values: &ValueShares) -> Option<Self> {
        let raised = values.under(spec.rule(), spec.max_value());
        let touch = spec.hasher().touch_probability();
        let uniform = f64::from(spec.decrements()) / spec.hasher().cells() as f64;
        let levels = 1..=usize::from(spec.max_value());
        let decrement: Vec<f64> = match spec.rule() {
            ImportanceRule::Stable | ImportanceRule::TwoClass { .. } | ImportanceRule::MultiClass => {
                levels.map(|_| uniform).collect()
            }
            ImportanceRule::Harmonic => levels.map(|value| uniform / value as f64).collect(),
            ImportanceRule::HarmonicLiteral => return Self::literal(spec, raised),
        };
        let at_least = raised.at_least();
        let odds = |value: usize| {
            let hit = touch * at_least[value];
            hit / (decrement[value - 1] * (1.0 - hit))
        };
        let shares = balance(spec.max_value(), odds);
        Some(Self { shares, raised, spec: *spec, decrement, hashes: f64::from(spec.hasher().hashes()) })
    }

    /// The paper's printed formula, with one p' = p (1 − k) for every value; for comparison only.
    pub fn as_printed(spec: &StableSpec, values: &ValueShares) -> Vec<f64> {
        let at_least = values.under(spec.rule(), spec.max_value()).at_least();
        let touch = spec.hasher().touch_probability();
        let leaving = f64::from(spec.decrements()) / spec.hasher().cells() as f64 * (1.0 - touch);
        balance(spec.max_value(), |value| touch * at_least[value] / leaving)
    }

    /// Mean field: P decrements per step hit non-zero cells in proportion to 1 / value; κ balances them with the K raises.
    fn literal(spec: &StableSpec, raised: ValueShares) -> Option<Self> {
        let at_least = raised.at_least();
        let hashes = f64::from(spec.hasher().hashes());
        let shares_at = |kappa: f64| balance(spec.max_value(), |value| kappa * value as f64 * at_least[value]);
        let surplus = |kappa: f64| {
            let below = cumulative(&shares_at(kappa));
            let raised: f64 = (1..at_least.len()).map(|value| at_least[value] * below[value - 1]).sum();
            hashes / f64::from(spec.decrements()) * raised - 1.0
        };
        if surplus(0.0) <= 0.0 {
            return None;
        }
        let mut high = 1.0;
        while surplus(high) > 0.0 {
            high *= 2.0;
        }
        let kappa = bisect(0.0, high, |kappa| surplus(kappa) > 0.0);
        let one_step = hashes / (spec.hasher().cells() as f64 * kappa);
        let decrement: Vec<f64> =
            (1..=usize::from(spec.max_value())).map(|value| (one_step / value as f64).min(1.0)).collect();
        Some(Self { shares: shares_at(kappa), raised, spec: *spec, decrement, hashes })
    }

    /// The chain of one cell. It is not needed for the stationary distribution itself, and costs more.
    fn chain(&self) -> CellChain {
        CellChain::new(&self.spec, &self.decrement)
    }

    /// V_0..V_M: the fraction of cells of each value.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// V_0: the fraction of zero cells.
    pub fn zero_share(&self) -> f64 {
        self.shares[0]
    }

    /// The probability that an unseen item is reported as a duplicate: (1 − V_0)^K. Lines differ in load, which raises the
    /// rate somewhat.
    pub fn false_duplicate_rate(&self) -> f64 {
        libm::pow(1.0 - self.shares[0], self.hashes)
    }

    /// The probability that an item which left `value` in its cells is forgotten when it is seen again `gap` arrivals later,
    /// after gap − 1 other items.
    pub fn miss_probability(&self, value: u8, gap: u64, start: InitialCell) -> f64 {
        let value = usize::from(value).clamp(1, self.shares.len() - 1);
        let cell = match start {
            InitialCell::Fresh => (0..self.shares.len()).map(|at| if at == value { 1.0 } else { 0.0 }).collect(),
            InitialCell::Stationary => self.observed(&self.shares, value),
        };
        let zero = self.chain().after(cell, gap.saturating_sub(1), &self.raised)[0];
        -libm::expm1(self.hashes * libm::log1p(-zero))
    }

    /// An upper bound of [`StationaryDistribution::miss_probability`] for any share of repeats in the stream: no other item
    /// helps by raising the same cells.
    pub fn miss_bound(&self, value: u8, gap: u64) -> f64 {
        let mut cell = vec![0.0; self.shares.len()];
        cell[usize::from(value).clamp(1, self.shares.len() - 1)] = 1.0;
        let zero = self.chain().after_decrements(cell, gap.saturating_sub(1))[0];
        -libm::expm1(self.hashes * libm::log1p(-zero.min(1.0)))
    }

    /// For each value from 1, the age in arrivals at which an item is forgotten with probability one half; `None` if other
    /// items keep it found for ever.
    pub fn half_forgotten(&self) -> Vec<Option<u64>> {
        let emptied = -libm::expm1(libm::log(0.5) / self.hashes);
        let cells = (1..self.shares.len()).map(|value| self.observed(&self.shares, value)).collect();
        let steps = self.chain().steps_until(cells, &self.raised, |cell| cell[0] >= emptied);
        steps.into_iter().map(|steps| steps.map(|steps| steps + 1)).collect()
    }

    /// A cell right after an observation of `value`, if all cells are distributed as `shares`.
    fn observed(&self, shares: &[f64], value: usize) -> Vec<f64> {
        let mut cell = vec![0.0; self.shares.len()];
        shares.iter().enumerate().for_each(|(at, share)| cell[at.max(value)] += share);
        cell
    }

    /// The value to which the most important arrivals raise their cells.
    pub fn top_value(&self) -> u8 {
        let top = self.raised.0.iter().rposition(|share| *share > 0.0).unwrap_or(0);
        (top + 1) as u8
    }

    /// The distribution of the cells of items that were seen `ages` arrivals ago (ascending), for each age and each value
    /// from 1. `shares` is the distribution of all cells, which before the steady state is not the stationary one.
    pub fn aged(&self, shares: &[f64], ages: &[u64]) -> Vec<Vec<Vec<f64>>> {
        let cells = (1..self.shares.len()).map(|value| self.observed(shares, value)).collect();
        self.chain().after_each(cells, ages, &self.raised)
    }

    /// The same for each value, as (value, fraction of arrivals, miss probability).
    pub fn missed_by_class(&self, gap: u64) -> Vec<(u8, f64, f64)> {
        let classes = (1..=u8::MAX).zip(&self.raised.0).filter(|(_, share)| **share > 0.0);
        classes
            .map(|(value, share)| (value, *share, self.miss_probability(value, gap, InitialCell::Stationary)))
            .collect()
    }

    /// The mean over all values.
    pub fn missed_overall(&self, gap: u64) -> f64 {
        self.missed_by_class(gap).iter().map(|(_, share, missed)| share * missed).sum()
    }
}

/// T_{M+1} = 1, T_j = T_{j+1} / (1 + odds_j), V_j = T_{j+1} − T_j = T_j · odds_j, V_0 = T_1.
fn balance(max_value: u8, odds: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut shares = vec![0.0; usize::from(max_value) + 1];
    let mut below = 1.0;
    for value in (1..shares.len()).rev() {
        let odds = odds(value);
        below /= 1.0 + odds;
        shares[value] = below * odds;
    }
    shares[0] = below;
    shares
}

fn cumulative(shares: &[f64]) -> Vec<f64> {
    let add = |sum: &mut f64, share: &f64| {
        *sum += share;
        Some(*sum)
    };
    shares.iter().scan(0.0, add).collect()
}

/// The boundary between true (low) and false (high) of `holds`, to the last bit.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return low;
        }
        if holds(middle) { low = middle } else { high = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::structure::layout::CellLayout;
    use proptest::prelude::*;

    fn spec(cells: u64, decrements: u32, rule: ImportanceRule) -> StableSpec {
        StableSpec::new(CellLayout::Spread(cells), 5, decrements, 7, rule).unwrap()
    }

    #[test]
    fn the_papers_parameters_give_the_corrected_zero_shares() {
        for (rule, cells, zero) in [
            (ImportanceRule::Stable, 16_384, 0.0585),
            (ImportanceRule::TwoClass { low: 3 }, 16_384, 0.1213),
            (ImportanceRule::MultiClass, 16_384, 0.1798),
            (ImportanceRule::HarmonicLiteral, 1_024, 0.3675),
            (ImportanceRule::Harmonic, 16_384, 0.0140),
        ] {
            // Both classes are equally frequent.
            let values = match rule {
                ImportanceRule::TwoClass { .. } => ValueShares::new(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).unwrap(),
                _ => ValueShares::uniform(7),
            };
            let stationary = StationaryDistribution::new(&spec(cells, 10, rule), &values).unwrap();
            assert!((stationary.zero_share() - zero).abs() < 6e-5, "{rule:?}: {}", stationary.zero_share());
        }
    }

    #[test]
    fn harmonic_literal_has_no_stationary_distribution_once_it_drains() {
        assert!(
            StationaryDistribution::new(&spec(1_024, 19, ImportanceRule::HarmonicLiteral), &ValueShares::uniform(7))
                .is_some()
        );
        assert!(
            StationaryDistribution::new(&spec(1_024, 20, ImportanceRule::HarmonicLiteral), &ValueShares::uniform(7))
                .is_none()
        );
    }

    #[test]
    fn invalid_shares_are_rejected() {
        assert!(ValueShares::new(&[]).is_err());
        assert!(ValueShares::new(&[0.0, 0.0]).is_err());
        assert!(ValueShares::new(&[1.0, -1.0]).is_err());
        assert!(ValueShares::new(&[1.0, f64::NAN]).is_err());
        assert!(ValueShares::new(&[f64::MAX, f64::MAX]).is_err());
    }

    #[test]
    fn half_of_the_items_are_forgotten_at_the_half_forgotten_age() {
        for layout in [CellLayout::Spread(16_384), CellLayout::Lines(128)] {
            let spec = StableSpec::new(layout, 5, 60, 7, ImportanceRule::MultiClass).unwrap();
            let law = StationaryDistribution::new(&spec, &ValueShares::uniform(7)).unwrap();
            for (value, age) in (1..).zip(law.half_forgotten()) {
                let age = age.unwrap();
                let missed = |gap| law.miss_probability(value, gap, InitialCell::Stationary);
                assert!(missed(age) >= 0.5 && missed(age - 1) < 0.5, "{layout:?} {value}: {age}");
                assert!(law.miss_bound(value, age) >= missed(age), "{layout:?} {value}: the bound is below the rate");
            }
        }
    }

    proptest! {
        #[test]
        fn one_more_step_does_not_change_the_distribution(
            weights in prop::collection::vec(0.01f64..1.0, 7), decrements in 1u32..40, which in 0usize..4,
        ) {
            let rule = [ImportanceRule::Stable, ImportanceRule::TwoClass { low: 3 }, ImportanceRule::MultiClass, ImportanceRule::Harmonic][which];
            let stationary = StationaryDistribution::new(&spec(100, decrements, rule), &ValueShares::new(&weights).unwrap()).unwrap();
            prop_assert!((stationary.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let next = stationary.chain().after(stationary.shares.clone(), 1, &stationary.raised);
            prop_assert!(next.iter().zip(&stationary.shares).all(|(a, b)| (a - b).abs() < 1e-12), "{:?} {:?}", next, stationary.shares);
        }

        #[test]
        fn squaring_equals_stepping_and_misses_grow_with_the_gap(
            weights in prop::collection::vec(0.01f64..1.0, 7), gap in 1u64..200, value in 1u8..=7,
        ) {
            let stationary = StationaryDistribution::new(&spec(200, 12, ImportanceRule::MultiClass), &ValueShares::new(&weights).unwrap()).unwrap();
            let mut cell = vec![0.0; 8];
            cell[usize::from(value)] = 1.0;
            let squared = stationary.chain().after(cell.clone(), gap, &stationary.raised);
            (0..gap).for_each(|_| cell = stationary.chain().after(cell.clone(), 1, &stationary.raised));
            prop_assert!(squared.iter().zip(&cell).all(|(a, b)| (a - b).abs() <= 1e-12 * b));
            // This does not hold for a fresh cell: other items may raise it again after it nearly reached zero.
            let missed = |gap| stationary.miss_probability(value, gap, InitialCell::Stationary);
            prop_assert!(missed(gap) <= missed(gap + 10) + 1e-12);
            prop_assert!(missed(gap) <= stationary.miss_probability(value, gap, InitialCell::Fresh) + 1e-12);
        }
    }
}
