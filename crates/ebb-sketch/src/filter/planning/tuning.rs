//! Parameters of a stable filter for a target false-duplicate rate.
//!
//! More decrements leave more zero cells: fewer false duplicates, more missed ones. So the smallest number of decrements
//! that meets the target is the best one; if the number of cells per item is open, the best is the one that misses least.
//!
//! ```
//! use ebb_sketch::filter::planning::{stationary::ValueShares, tuning::tune_decrements};
//! use ebb_sketch::filter::structure::layout::CellLayout;
//! use ebb_sketch::filter::structure::stable::{StableSpec, importance::ImportanceRule};
//!
//! let spec = StableSpec::new(CellLayout::Spread(16_384), 5, 1, 7, ImportanceRule::Stable).unwrap();
//! let tuned = tune_decrements(&spec, &ValueShares::uniform(7), 0.05).unwrap();
//! assert!(tuned.decrements() > 10);
//! ```

use super::stationary::{StationaryDistribution, ValueShares};
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::layout::MAX_HASHES;
use crate::filter::structure::stable::{MAX_DECREMENTS, StableSpec};

/// A rate that a filter can be tuned for.
fn check_rate(target: f64) -> Result<f64, ParameterError> {
    check_range("the target rate", target, 1e-12..=0.999_999, "it is a probability, and no filter reaches 0")
}

/// `spec` with the fewest decrements whose predicted false-duplicate rate is at most `target`.
pub fn tune_decrements(spec: &StableSpec, values: &ValueShares, target: f64) -> Result<StableSpec, ParameterError> {
    let target = check_rate(target)?;
    let max = u64::from(MAX_DECREMENTS).min(spec.hasher().cells()) as u32;
    // A filter that drains has no stationary distribution; fewer decrements are needed then, not more.
    let predicted = |decrements: u32| {
        let stationary = StationaryDistribution::new(&spec.with_decrements(decrements).ok()?, values)?;
        Some(stationary.false_duplicate_rate())
    };
    let (mut low, mut high) = (0, max + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match predicted(middle) {
            Some(rate) if rate > target => low = middle,
            Some(_) | None => high = middle,
        }
    }
    match predicted(high) {
        Some(rate) if rate <= target => spec.with_decrements(high),
        _ => {
            let nearest = predicted(low).unwrap_or(1.0);
            Err(ParameterError::new(
                "the target rate",
                target,
                "these cells cannot reach it; more memory is needed",
                nearest,
            ))
        }
    }
}

/// `spec` with the number of cells per item, and the decrements for it, that misses the fewest duplicates seen `gap` arrivals
/// after their original.
pub fn tune_hashes(
    spec: &StableSpec,
    values: &ValueShares,
    target: f64,
    gap: u64,
) -> Result<StableSpec, ParameterError> {
    let mut best: Option<(f64, StableSpec)> = None;
    let mut last_error = None;
    for hashes in 1..=MAX_HASHES {
        let candidate =
            StableSpec::new(spec.hasher().layout(), hashes, spec.decrements(), spec.max_value(), spec.rule())?;
        match tune_decrements(&candidate, values, target) {
            Err(error) => last_error = Some(error),
            Ok(tuned) => {
                let missed = StationaryDistribution::new(&tuned, values)
                    .map_or(1.0, |stationary| stationary.missed_overall(gap));
                if best.as_ref().is_none_or(|(fewest, _)| missed < *fewest) {
                    best = Some((missed, tuned));
                }
            }
        }
    }
    match (best, last_error) {
        (Some((_, tuned)), _) => Ok(tuned),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(*spec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::structure::layout::CellLayout;
    use crate::filter::structure::stable::importance::ImportanceRule;

    const RULES: [ImportanceRule; 5] = ImportanceRule::all(7);

    #[test]
    fn the_fewest_decrements_that_meet_the_target_are_found() {
        let values = ValueShares::uniform(7);
        for (rule, target) in RULES.into_iter().flat_map(|rule| [(rule, 0.3), (rule, 0.05)]) {
            let spec = StableSpec::new(CellLayout::Spread(16_384), 5, 1, 7, rule).unwrap();
            let rate = |spec: &StableSpec| StationaryDistribution::new(spec, &values).unwrap().false_duplicate_rate();
            let tuned = tune_decrements(&spec, &values, target).unwrap();
            assert!(rate(&tuned) <= target, "{rule:?}");
            let one_less = spec.with_decrements(tuned.decrements() - 1).unwrap();
            assert!(rate(&one_less) > target, "{rule:?}: {} would do", one_less.decrements());
        }
    }

    #[test]
    fn the_best_number_of_hashes_misses_the_fewest() {
        let values = ValueShares::uniform(7);
        let spec = StableSpec::new(CellLayout::Spread(16_384), 5, 1, 7, ImportanceRule::MultiClass).unwrap();
        let missed = |spec: &StableSpec| StationaryDistribution::new(spec, &values).unwrap().missed_overall(1_500);
        let best = tune_hashes(&spec, &values, 0.1, 1_500).unwrap();
        for hashes in 1..=MAX_HASHES {
            let other = StableSpec::new(CellLayout::Spread(16_384), hashes, 1, 7, ImportanceRule::MultiClass).unwrap();
            if let Ok(other) = tune_decrements(&other, &values, 0.1) {
                assert!(missed(&best) <= missed(&other), "{hashes}");
            }
        }
        assert!(missed(&best) < missed(&tune_decrements(&spec, &values, 0.1).unwrap()) + 1e-12);
    }

    #[test]
    fn an_unreachable_target_reports_the_nearest_rate() {
        let values = ValueShares::uniform(7);
        let tiny = StableSpec::new(CellLayout::Spread(8), 1, 1, 7, ImportanceRule::Stable).unwrap();
        let error = tune_decrements(&tiny, &values, 1e-9).unwrap_err();
        let nearest: f64 = error.nearest.parse().unwrap();
        assert!(nearest > 1e-9 && tune_decrements(&tiny, &values, nearest).is_ok(), "{error}");
        for target in [0.0, -1.0, 1.0, f64::NAN] {
            assert!(tune_decrements(&tiny, &values, target).is_err());
        }
    }
}
