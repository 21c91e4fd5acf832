//! Sized filters, run against their targets.

use super::*;
use crate::filter::structure::stable::StableFilter;
use crate::hash::Fingerprint;
use crate::random::{Random, mix};

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

/// False duplicates among new items, and missed duplicates among items seen again after the age, in a stream in which a
/// share `repeats` of the arrivals repeats a recent item. Items have the largest value.
fn measured(spec: &StableSpec, age: u64, repeats: f64) -> (f64, f64) {
    let (mut filter, mut random) = (StableFilter::new(*spec), Random::new(11));
    let mut log = Vec::new();
    let (mut unseen, mut false_duplicates, mut probed, mut missed) = (0u64, 0u64, 0u64, 0u64);
    for arrival in 0..14 * age {
        if arrival > 6 * age {
            unseen += 1;
            false_duplicates += u64::from(filter.contains(item(u64::MAX - arrival)));
            // Items that came exactly `age` arrivals ago, and not since.
            let (x, fresh): (u64, bool) = log[(arrival - age) as usize];
            if fresh {
                probed += 1;
                missed += u64::from(!filter.contains(item(x)));
            }
        }
        let repeat = arrival > 0 && random.unit() < repeats;
        let x = if repeat { log[(arrival - 1 - random.below(arrival.min(age / 8))) as usize].0 } else { arrival };
        log.push((x, !repeat && repeats == 0.0));
        filter.observe(item(x), spec.max_value(), &mut random);
    }
    (false_duplicates as f64 / unseen as f64, missed as f64 / probed.max(1) as f64)
}

#[test]
fn a_sized_filter_keeps_both_rates() {
    for (false_duplicates, missed) in [(0.05, 0.05), (0.01, 0.01)] {
        let target = StableTarget { false_duplicates, missed, age: 4_000 };
        let spec =
            size_stable(&target, |_| ImportanceRule::Stable, &ClassMix::EVEN, FixedParameters::default()).unwrap();
        let (observed_false, observed_missed) = measured(&spec, target.age, 0.0);
        println!(
            "target {false_duplicates} {missed}: false {observed_false:.4}, missed {observed_missed:.4}; {} bytes, {} cells, \
             {} decrements, values to {}",
            spec.cell_bytes(),
            spec.hasher().hashes(),
            spec.decrements(),
            spec.max_value()
        );
        assert!(observed_false <= 1.1 * false_duplicates && observed_missed <= 1.1 * missed);
        assert!(observed_false >= 0.5 * false_duplicates && observed_missed >= 0.4 * missed, "the filter is too large");
        let (repeated_false, _) = measured(&spec, target.age, 0.4);
        assert!(repeated_false <= observed_false * 1.1, "repeats fill the filter less");
    }
}

#[test]
fn important_items_keep_the_rate_in_every_rule() {
    let target = StableTarget { false_duplicates: 0.1, missed: 0.05, age: 1_000 };
    let rules: [fn(u8) -> ImportanceRule; 3] =
        [ImportanceRule::two_class, |_| ImportanceRule::MultiClass, |_| ImportanceRule::Harmonic];
    for rule in rules {
        let spec = size_stable(&target, rule, &ClassMix::EVEN, FixedParameters::default()).unwrap();
        let law = StationaryDistribution::new(&spec, &ClassMix::EVEN.values(spec.max_value())).unwrap();
        let top = law.top_value();
        assert!(law.miss_bound(top, target.age) <= target.missed, "{:?}", spec.rule());
        assert!(law.miss_bound(1, target.age) >= law.miss_bound(top, target.age));
        let (_, missed) = measured(&spec, target.age, 0.0);
        assert!(missed <= 1.1 * target.missed, "{:?}: {missed}", spec.rule());
    }
}

#[test]
fn memory_grows_as_targets_tighten_and_fixed_parameters_are_kept() {
    let size = |false_duplicates, missed, fixed| {
        let target = StableTarget { false_duplicates, missed, age: 50_000 };
        size_stable(&target, |_| ImportanceRule::Stable, &ClassMix::EVEN, fixed).unwrap()
    };
    let open = FixedParameters::default();
    let sizes = [(0.1, 0.1), (0.1, 0.01), (0.01, 0.01), (0.001, 0.001)].map(|(f, m)| size(f, m, open).cell_bytes());
    assert!(sizes.is_sorted(), "{sizes:?}");
    let fixed = size(0.01, 0.01, FixedParameters { hashes: Some(3), max_value: Some(7) });
    assert_eq!((fixed.hasher().hashes(), fixed.max_value()), (3, 7));
    assert!(fixed.cell_bytes() >= sizes[2]);
}

#[test]
fn a_given_memory_gets_the_most_decrements_that_keep_the_missed_rate() {
    let values = ValueShares::uniform(7);
    let spec = StableSpec::new(CellLayout::Lines(1_024), 4, 1, 7, ImportanceRule::Stable).unwrap();
    let tuned = tune_to_missed(&spec, &values, 0.02, 5_000).unwrap();
    let missed = |spec: &StableSpec| StationaryDistribution::new(spec, &values).unwrap().miss_bound(7, 5_000);
    assert!(missed(&tuned) <= 0.02);
    assert!(missed(&spec.with_decrements(tuned.decrements() + 1).unwrap()) > 0.02);
    let error = tune_to_missed(&spec, &values, 1e-6, 50_000_000).unwrap_err();
    assert!(error.nearest.parse::<f64>().unwrap() > 1e-6, "{error}");
}

#[test]
fn impossible_targets_are_rejected() {
    for (false_duplicates, missed, age) in [(0.0, 0.1, 10), (0.1, 0.0, 10), (0.1, 1.0, 10), (0.1, 0.1, 0)] {
        let target = StableTarget { false_duplicates, missed, age };
        assert!(size_stable(&target, |_| ImportanceRule::Stable, &ClassMix::EVEN, Default::default()).is_err());
    }
    let target = StableTarget { false_duplicates: 1e-11, missed: 1e-8, age: 1 << 40 };
    let error = size_stable(&target, |_| ImportanceRule::Stable, &ClassMix::EVEN, Default::default()).unwrap_err();
    assert!(error.to_string().contains("share of missed duplicates"), "{error}");
}
