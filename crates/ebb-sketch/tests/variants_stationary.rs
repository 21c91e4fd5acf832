//! Running stable filters against their predicted stationary distribution, and tuning that relies on it.
//!
//! `EBB_CASES` multiplies the length of the runs.

use ebb_sketch::filter::planning::stationary::{InitialCell, StationaryDistribution, ValueShares};
use ebb_sketch::filter::planning::tuning::tune_decrements;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::stable::importance::ImportanceRule;
use ebb_sketch::filter::structure::stable::{StableFilter, StableSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};

const MAX_VALUE: u8 = 7;
const RULES: [ImportanceRule; 5] = ImportanceRule::all(MAX_VALUE);

fn times() -> u64 {
    std::env::var("EBB_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1)
}

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

fn filled(spec: StableSpec, arrivals: u64) -> StableFilter {
    let mut filter = StableFilter::new(spec);
    for x in 0..arrivals {
        filter.observe(item(x), 1 + (mix(x) % u64::from(MAX_VALUE)) as u8, &mut Random::for_record(5, 1, x));
    }
    filter
}

#[test]
fn zero_cells_converge_to_the_predicted_fraction() {
    // Both layouts have 4096 cells.
    for size in [CellLayout::Spread(4_096), CellLayout::Lines(32)] {
        for rule in RULES {
            let spec = StableSpec::new(size, 5, 10, MAX_VALUE, rule).unwrap();
            let predicted = StationaryDistribution::new(&spec, &ValueShares::uniform(MAX_VALUE)).unwrap().zero_share();
            let observed = filled(spec, 20_000 * times()).zero_share();
            assert!((observed - predicted).abs() < 0.02, "{size:?} {rule:?}: {observed} against {predicted}");
        }
    }
}

#[test]
fn tuned_filters_meet_their_false_duplicate_rate() {
    let (target, values) = (0.1, ValueShares::uniform(MAX_VALUE));
    // Lines differ in load, which raises the rate above that of spread cells.
    for (size, above) in [(CellLayout::Spread(16_384), 1.15), (CellLayout::Lines(128), 1.4)] {
        for rule in RULES {
            let spec = StableSpec::new(size, 5, 1, MAX_VALUE, rule).unwrap();
            let tuned = tune_decrements(&spec, &values, target).unwrap();
            let predicted = StationaryDistribution::new(&tuned, &values).unwrap().false_duplicate_rate();
            let filter = filled(tuned, 40_000 * times());
            let probes = 20_000;
            let observed = (0..probes).filter(|x| filter.contains(item(u64::MAX - x))).count() as f64 / probes as f64;
            let ratio = observed / predicted;
            assert!(predicted <= target && (0.85..above).contains(&ratio), "{size:?} {rule:?}: {observed} {predicted}");
            assert!(
                (filter.false_duplicate_rate() / predicted - 1.0).abs() < 0.15,
                "{size:?} {rule:?}: the live estimate"
            );
        }
    }
}

#[test]
fn items_are_forgotten_as_predicted_by_gap_and_value() {
    let (gap, values) = (201, ValueShares::uniform(MAX_VALUE));
    for rule in [ImportanceRule::MultiClass, ImportanceRule::Harmonic] {
        let spec = StableSpec::new(CellLayout::Spread(512), 4, 8, MAX_VALUE, rule).unwrap();
        let law = StationaryDistribution::new(&spec, &values).unwrap();
        let mut filter = StableFilter::new(spec);
        let (mut random, mut waiting) = (Random::new(9), std::collections::VecDeque::new());
        let (mut probed, mut missed) = ([0u32; 8], [0u32; 8]);
        for arrival in 0..60_000 * times() {
            if waiting.front().is_some_and(|(due, _, _)| *due == arrival)
                && let Some((_, item, value)) = waiting.pop_front()
            {
                probed[usize::from(value)] += 1;
                missed[usize::from(value)] += u32::from(!filter.contains(item));
            }
            let (item, value) = (item(arrival), 1 + random.below(u64::from(MAX_VALUE)) as u8);
            filter.observe(item, value, &mut random);
            if arrival > 3_000 {
                waiting.push_back((arrival + gap, item, value));
            }
        }
        for value in [1u8, 4, 7] {
            let share = |counts: [u32; 8]| f64::from(counts[usize::from(value)]);
            let observed = share(missed) / share(probed);
            // The probe precedes the arrival with the same number, so gap − 1 other items lie in between.
            let predicted = law.miss_probability(value, gap, InitialCell::Stationary);
            assert!((observed - predicted).abs() < 0.04, "{rule:?} {value}: {observed} against {predicted}");
        }
    }
}

#[test]
fn the_most_important_class_is_missed_least() {
    let spec = StableSpec::new(CellLayout::Spread(16_384), 5, 10, MAX_VALUE, ImportanceRule::MultiClass).unwrap();
    let law = StationaryDistribution::new(&spec, &ValueShares::uniform(MAX_VALUE)).unwrap();
    let classes = law.missed_by_class(1_500);
    assert_eq!(classes.len(), usize::from(MAX_VALUE));
    assert!(classes.windows(2).all(|pair| pair[1].2 < pair[0].2), "{classes:?}");
    let mean: f64 = classes.iter().map(|(_, share, missed)| share * missed).sum();
    assert!((law.missed_overall(1_500) - mean).abs() < 1e-15);
}

#[test]
fn the_same_log_and_seed_give_the_same_bytes() {
    for rule in RULES {
        let spec = StableSpec::new(CellLayout::Lines(4), 5, 10, MAX_VALUE, rule).unwrap();
        let run = |seed: u64| {
            let mut filter = StableFilter::new(spec);
            for x in 0..500 {
                filter.observe(item(x % 90), 1 + (x % 7) as u8, &mut Random::for_record(seed, 0, x));
            }
            filter.encode()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
