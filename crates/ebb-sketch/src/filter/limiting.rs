//! Where the cells of a fading filter settle: the limiting law of each rule, for any mix of importances.
//!
//! Cut balance between the values below and from j on: what is raised across equals what is taken down across. From it
//! follow the share of zero cells, the bound on false duplicates, and, with the chain run forward, how likely an item of
//! some value is forgotten after some gap. Arrivals are taken for distinct; repeats leave some more cells at zero.

use super::importance::Rule;
use super::spec_error::{SpecError, within};
use super::stable::FadingSpec;

/// How often each cell value 1..=M arrives.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueShares(Vec<f64>);

impl ValueShares {
    /// Weights of the values 1..=M, in order; they are scaled to one.
    pub fn new(weights: &[f64]) -> Result<Self, SpecError> {
        within("the number of values", weights.len(), 1..=usize::from(u8::MAX), "a cell holds values of 1 to 255")?;
        for weight in weights {
            within("a value's share", *weight, 0.0..=f64::MAX, "shares are finite and not negative")?;
        }
        let total: f64 = weights.iter().sum();
        within("the sum of the shares", total, f64::MIN_POSITIVE..=f64::MAX, "some value must arrive")?;
        Ok(Self(weights.iter().map(|weight| weight / total).collect()))
    }

    /// Every value equally often.
    pub fn even(top: u8) -> Self {
        Self(vec![1.0 / f64::from(top.max(1)); usize::from(top.max(1))])
    }

    /// The shares of the values that observations really leave under a rule.
    fn under(&self, rule: Rule, top: u8) -> Self {
        let mut raised = vec![0.0; usize::from(top)];
        for (value, share) in (1..=u8::MAX).zip(&self.0) {
            raised[usize::from(rule.raised(value, top)) - 1] += share;
        }
        Self(raised)
    }

    /// S_j, the share of values of at least j, for j = 0..=M.
    fn at_least(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.0.len() + 1];
        for (index, share) in self.0.iter().enumerate().rev() {
            sums[index] = sums.get(index + 1).copied().unwrap_or(0.0) + share;
        }
        sums.insert(0, 1.0);
        sums.truncate(self.0.len() + 1);
        sums
    }
}

/// What a cell holds at the moment after its item was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Exactly the item's value.
    Fresh,
    /// The item's value, or more where another had left more.
    Stationary,
}

/// The law a filter settles to.
#[derive(Debug, Clone, PartialEq)]
pub struct Law {
    /// V_0..V_M: the share of cells of each value.
    shares: Vec<f64>,
    raised: ValueShares,
    /// The chance that an observation touches a given cell.
    touch: f64,
    /// The chance that an observation takes one from a given cell of each value.
    taken: Vec<f64>,
    hashes: f64,
}

impl Law {
    /// None when the filter drains: literal inverse choice with as many decrements as observations raise.
    pub fn of(spec: &FadingSpec, values: &ValueShares) -> Option<Self> {
        let raised = values.under(spec.rule(), spec.top());
        let touch = spec.places().touch_chance();
        let uniform = f64::from(spec.decrements()) / spec.places().cells() as f64;
        let levels = 1..=usize::from(spec.top());
        let taken: Vec<f64> = match spec.rule() {
            Rule::Stable | Rule::TwoClass { .. } | Rule::MultiClass => levels.map(|_| uniform).collect(),
            Rule::Harmonic => levels.map(|value| uniform / value as f64).collect(),
            Rule::HarmonicLiteral => return Self::literal(spec, raised),
        };
        let at_least = raised.at_least();
        let odds = |value: usize| {
            let hit = touch * at_least[value];
            hit / (taken[value - 1] * (1.0 - hit))
        };
        Some(Self {
            shares: balance(spec.top(), odds),
            raised,
            touch,
            taken,
            hashes: f64::from(spec.places().hashes()),
        })
    }

    /// As the paper prints it, with one p' = p (1 − k) for every value: for comparison only.
    pub fn printed(spec: &FadingSpec, values: &ValueShares) -> Vec<f64> {
        let at_least = values.under(spec.rule(), spec.top()).at_least();
        let touch = spec.places().touch_chance();
        let leaving = f64::from(spec.decrements()) / spec.places().cells() as f64 * (1.0 - touch);
        balance(spec.top(), |value| touch * at_least[value] / leaving)
    }

    /// Mean field: P decrements a step fall on non-zero cells in proportion to 1 / value. κ balances them with what the
    /// K raised cells bring in.
    fn literal(spec: &FadingSpec, raised: ValueShares) -> Option<Self> {
        let at_least = raised.at_least();
        let hashes = f64::from(spec.places().hashes());
        let shares_at = |kappa: f64| balance(spec.top(), |value| kappa * value as f64 * at_least[value]);
        let surplus = |kappa: f64| {
            let below = cumulated(&shares_at(kappa));
            let brought: f64 = (1..at_least.len()).map(|value| at_least[value] * below[value - 1]).sum();
            hashes / f64::from(spec.decrements()) * brought - 1.0
        };
        if surplus(0.0) <= 0.0 {
            return None;
        }
        let mut high = 1.0;
        while surplus(high) > 0.0 {
            high *= 2.0;
        }
        let kappa = bisect(0.0, high, |kappa| surplus(kappa) > 0.0);
        let one_step = hashes / (spec.places().cells() as f64 * kappa);
        let taken = (1..=usize::from(spec.top())).map(|value| (one_step / value as f64).min(1.0)).collect();
        Some(Self { shares: shares_at(kappa), raised, touch: spec.places().touch_chance(), taken, hashes })
    }

    /// V_0..V_M.
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }

    pub fn zero_share(&self) -> f64 {
        self.shares[0]
    }

    /// The chance that an item never seen is taken for a duplicate: (1 − V_0)^K. In lines, whose loads differ, the rate
    /// is somewhat higher.
    pub fn false_duplicate(&self) -> f64 {
        libm::pow(1.0 - self.shares[0], self.hashes)
    }

    /// The chance that an item which left `value` in its cells is forgotten when it comes again `gap` arrivals later:
    /// gap − 1 others act on its cells in between.
    pub fn missed(&self, value: u8, gap: u64, start: Start) -> f64 {
        let value = usize::from(value).clamp(1, self.shares.len() - 1);
        let mut cell = vec![0.0; self.shares.len()];
        match start {
            Start::Fresh => cell[value] = 1.0,
            Start::Stationary => self.shares.iter().enumerate().for_each(|(at, share)| cell[at.max(value)] += share),
        }
        let zero = self.after(cell, gap.saturating_sub(1))[0];
        -libm::expm1(self.hashes * libm::log1p(-zero))
    }

    /// The same for each value that arrives, as (value, share of arrivals, chance to be missed).
    pub fn missed_by_class(&self, gap: u64) -> Vec<(u8, f64, f64)> {
        let classes = (1..=u8::MAX).zip(&self.raised.0).filter(|(_, share)| **share > 0.0);
        classes.map(|(value, share)| (value, *share, self.missed(value, gap, Start::Stationary))).collect()
    }

    /// Over the whole mix.
    pub fn missed_overall(&self, gap: u64) -> f64 {
        self.missed_by_class(gap).iter().map(|(_, share, missed)| share * missed).sum()
    }

    /// One observation of another item, as chances from each value to each: decrement, then raise.
    fn step(&self) -> Vec<Vec<f64>> {
        let values = self.shares.len();
        let mut chances = vec![vec![0.0; values]; values];
        for (from, row) in chances.iter_mut().enumerate() {
            let taken = if from == 0 { 0.0 } else { self.taken[from - 1] };
            for (held, chance) in [(from, 1.0 - taken), (from.saturating_sub(1), taken)] {
                row[held] += chance * (1.0 - self.touch);
                for (index, share) in self.raised.0.iter().enumerate() {
                    row[held.max(index + 1)] += chance * self.touch * share;
                }
            }
        }
        chances
    }

    /// `cell` after `steps` observations, by repeated squaring. Only sums of products of chances: nothing cancels.
    fn after(&self, mut cell: Vec<f64>, mut steps: u64) -> Vec<f64> {
        let mut power = self.step();
        while steps > 0 {
            if steps & 1 == 1 {
                cell = through(&cell, &power);
            }
            steps >>= 1;
            if steps > 0 {
                power = power.iter().map(|row| through(row, &power)).collect();
            }
        }
        cell
    }
}

fn through(row: &[f64], chances: &[Vec<f64>]) -> Vec<f64> {
    let mut out = vec![0.0; row.len()];
    for (weight, next) in row.iter().zip(chances).filter(|(weight, _)| **weight > 0.0) {
        out.iter_mut().zip(next).for_each(|(sum, chance)| *sum += weight * chance);
    }
    out
}

/// T_{M+1} = 1, T_j = T_{j+1} / (1 + odds_j), V_j = T_{j+1} − T_j = T_j · odds_j, V_0 = T_1.
fn balance(top: u8, odds: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut shares = vec![0.0; usize::from(top) + 1];
    let mut below = 1.0;
    for value in (1..shares.len()).rev() {
        let odds = odds(value);
        below /= 1.0 + odds;
        shares[value] = below * odds;
    }
    shares[0] = below;
    shares
}

fn cumulated(shares: &[f64]) -> Vec<f64> {
    let add = |sum: &mut f64, share: &f64| {
        *sum += share;
        Some(*sum)
    };
    shares.iter().scan(0.0, add).collect()
}

/// The border between where `holds` is true (low) and false (high), to the last bit.
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
    use crate::filter::places::Size;
    use proptest::prelude::*;

    fn spec(cells: u64, decrements: u32, rule: Rule) -> FadingSpec {
        FadingSpec::new(Size::Cells(cells), 5, decrements, 7, rule).unwrap()
    }

    #[test]
    fn the_papers_parameters_give_the_corrected_zero_shares() {
        for (rule, cells, zero) in [
            (Rule::Stable, 16_384, 0.0585),
            (Rule::TwoClass { low: 3 }, 16_384, 0.1213),
            (Rule::MultiClass, 16_384, 0.1798),
            (Rule::HarmonicLiteral, 1_024, 0.3675),
            (Rule::Harmonic, 16_384, 0.0140),
        ] {
            // The two classes of the notes are of equal share.
            let values = match rule {
                Rule::TwoClass { .. } => ValueShares::new(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).unwrap(),
                _ => ValueShares::even(7),
            };
            let law = Law::of(&spec(cells, 10, rule), &values).unwrap();
            assert!((law.zero_share() - zero).abs() < 6e-5, "{rule:?}: {}", law.zero_share());
        }
    }

    #[test]
    fn literal_inverse_choice_has_no_law_once_it_drains() {
        assert!(Law::of(&spec(1_024, 19, Rule::HarmonicLiteral), &ValueShares::even(7)).is_some());
        assert!(Law::of(&spec(1_024, 20, Rule::HarmonicLiteral), &ValueShares::even(7)).is_none());
    }

    #[test]
    fn shares_are_refused_with_a_reason() {
        assert!(ValueShares::new(&[]).is_err());
        assert!(ValueShares::new(&[0.0, 0.0]).is_err());
        assert!(ValueShares::new(&[1.0, -1.0]).is_err());
        assert!(ValueShares::new(&[1.0, f64::NAN]).is_err());
        assert!(ValueShares::new(&[f64::MAX, f64::MAX]).is_err());
    }

    proptest! {
        #[test]
        fn one_more_step_leaves_a_limiting_law_where_it_is(
            weights in prop::collection::vec(0.01f64..1.0, 7), decrements in 1u32..40, which in 0usize..4,
        ) {
            let rule = [Rule::Stable, Rule::TwoClass { low: 3 }, Rule::MultiClass, Rule::Harmonic][which];
            let law = Law::of(&spec(100, decrements, rule), &ValueShares::new(&weights).unwrap()).unwrap();
            prop_assert!((law.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let next = through(&law.shares, &law.step());
            prop_assert!(next.iter().zip(&law.shares).all(|(a, b)| (a - b).abs() < 1e-12), "{:?} {:?}", next, law.shares);
        }

        #[test]
        fn squaring_is_the_same_as_stepping_and_misses_grow_with_the_gap(
            weights in prop::collection::vec(0.01f64..1.0, 7), gap in 1u64..200, value in 1u8..=7,
        ) {
            let law = Law::of(&spec(200, 12, Rule::MultiClass), &ValueShares::new(&weights).unwrap()).unwrap();
            let mut cell = vec![0.0; 8];
            cell[usize::from(value)] = 1.0;
            let squared = law.after(cell.clone(), gap);
            (0..gap).for_each(|_| cell = through(&cell, &law.step()));
            prop_assert!(squared.iter().zip(&cell).all(|(a, b)| (a - b).abs() <= 1e-12 * b));
            // Not so from a fresh start: a cell of value 1 may find help from others after it has nearly died.
            let missed = |gap| law.missed(value, gap, Start::Stationary);
            prop_assert!(missed(gap) <= missed(gap + 10) + 1e-12);
            prop_assert!(missed(gap) <= law.missed(value, gap, Start::Fresh) + 1e-12);
        }
    }
}
