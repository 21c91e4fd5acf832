//! From a target rate of false duplicates to the parameters of a fading filter.
//!
//! More decrements leave more zero cells: fewer false duplicates, more missed ones. The least number of decrements that
//! meets the target is therefore the best; with the number of cells an item left open, the one that then misses least.

use super::limiting::{Law, ValueShares};
use super::places::MOST_HASHES;
use super::spec_error::{SpecError, within};
use super::stable::{FadingSpec, MOST_DECREMENTS};

/// Rates that a filter can be asked for.
fn rate(target: f64) -> Result<f64, SpecError> {
    within("the target rate", target, 1e-12..=0.999_999, "it is a chance, and no filter reaches 0")
}

/// `spec` with the least decrements whose predicted rate of false duplicates is at most `target`.
pub fn tune_decrements(spec: &FadingSpec, values: &ValueShares, target: f64) -> Result<FadingSpec, SpecError> {
    let target = rate(target)?;
    let most = u64::from(MOST_DECREMENTS).min(spec.places().cells()) as u32;
    // What drains has no law; fewer decrements are asked for then, never more.
    let predicted = |decrements: u32| {
        let law = Law::of(&spec.with_decrements(decrements).ok()?, values)?;
        Some(law.false_duplicate())
    };
    let (mut low, mut high) = (0, most + 1);
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
            Err(SpecError::new("the target rate", target, "these cells do not reach it: give more memory", nearest))
        }
    }
}

/// The number of cells an item, with the decrements it needs, that misses least of the duplicates that come `gap`
/// arrivals after their original.
pub fn tune_hashes(spec: &FadingSpec, values: &ValueShares, target: f64, gap: u64) -> Result<FadingSpec, SpecError> {
    let mut best: Option<(f64, FadingSpec)> = None;
    let mut refused = None;
    for hashes in 1..=MOST_HASHES {
        let candidate = FadingSpec::new(spec.places().size(), hashes, spec.decrements(), spec.top(), spec.rule())?;
        match tune_decrements(&candidate, values, target) {
            Err(error) => refused = Some(error),
            Ok(tuned) => {
                let missed = Law::of(&tuned, values).map_or(1.0, |law| law.missed_overall(gap));
                if best.as_ref().is_none_or(|(least, _)| missed < *least) {
                    best = Some((missed, tuned));
                }
            }
        }
    }
    match (best, refused) {
        (Some((_, tuned)), _) => Ok(tuned),
        (None, Some(error)) => Err(error),
        (None, None) => Ok(*spec),
    }
}

#[cfg(test)]
mod tests {
    use super::super::importance::Rule;
    use super::super::places::Size;
    use super::*;

    const RULES: [Rule; 5] =
        [Rule::Stable, Rule::TwoClass { low: 3 }, Rule::MultiClass, Rule::Harmonic, Rule::HarmonicLiteral];

    #[test]
    fn the_least_decrements_that_meet_the_target_are_found_under_every_rule() {
        let values = ValueShares::even(7);
        for (rule, target) in RULES.into_iter().flat_map(|rule| [(rule, 0.3), (rule, 0.05)]) {
            let spec = FadingSpec::new(Size::Cells(16_384), 5, 1, 7, rule).unwrap();
            let rate = |spec: &FadingSpec| Law::of(spec, &values).unwrap().false_duplicate();
            let tuned = tune_decrements(&spec, &values, target).unwrap();
            assert!(rate(&tuned) <= target, "{rule:?}");
            let one_less = spec.with_decrements(tuned.decrements() - 1).unwrap();
            assert!(rate(&one_less) > target, "{rule:?}: {} would do", one_less.decrements());
        }
    }

    #[test]
    fn the_best_number_of_hashes_misses_no_more_than_any_other() {
        let values = ValueShares::even(7);
        let spec = FadingSpec::new(Size::Cells(16_384), 5, 1, 7, Rule::MultiClass).unwrap();
        let missed = |spec: &FadingSpec| Law::of(spec, &values).unwrap().missed_overall(1_500);
        let best = tune_hashes(&spec, &values, 0.1, 1_500).unwrap();
        for hashes in 1..=MOST_HASHES {
            let other = FadingSpec::new(Size::Cells(16_384), hashes, 1, 7, Rule::MultiClass).unwrap();
            if let Ok(other) = tune_decrements(&other, &values, 0.1) {
                assert!(missed(&best) <= missed(&other), "{hashes}");
            }
        }
        assert!(missed(&best) < missed(&tune_decrements(&spec, &values, 0.1).unwrap()) + 1e-12);
    }

    #[test]
    fn a_target_out_of_reach_is_refused_with_the_nearest_rate() {
        let values = ValueShares::even(7);
        let tiny = FadingSpec::new(Size::Cells(8), 1, 1, 7, Rule::Stable).unwrap();
        let error = tune_decrements(&tiny, &values, 1e-9).unwrap_err();
        let nearest: f64 = error.nearest.parse().unwrap();
        assert!(nearest > 1e-9 && tune_decrements(&tiny, &values, nearest).is_ok(), "{error}");
        for target in [0.0, -1.0, 1.0, f64::NAN] {
            assert!(tune_decrements(&tiny, &values, target).is_err());
        }
    }
}
