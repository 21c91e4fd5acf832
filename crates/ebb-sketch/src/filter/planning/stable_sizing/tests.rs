//! Sized filters, run against their targets.

use super::*;
use crate::filter::structure::stable::StableFilter;
use crate::hash::Fingerprint;
use crate::random::{Random, mix};

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

/// Errors, and the probes that could have shown one.
#[derive(Debug, Clone, Copy, Default)]
struct Probes {
    errors: u64,
    probes: u64,
}

impl Probes {
    fn add(&mut self, error: bool) {
        self.errors += u64::from(error);
        self.probes += 1;
    }

    fn rate(&self) -> f64 {
        self.errors as f64 / self.probes.max(1) as f64
    }

    /// Whether the errors are compatible with a rate: at most four standard deviations above it.
    fn keeps(&self, rate: f64) -> bool {
        let expected = rate * self.probes as f64;
        self.errors as f64 <= expected + 4.0 * libm::sqrt(expected)
    }
}

/// False duplicates among new items, and missed duplicates among items seen again after the age, in a stream in which a
/// share `repeats` of the arrivals repeats a recent item. Items have the largest value.
fn measured(spec: &StableSpec, age: u64, repeats: f64) -> (Probes, Probes) {
    let (mut filter, mut random) = (StableFilter::new(*spec), Random::new(11));
    let (mut log, mut unseen, mut repeated) = (Vec::new(), Probes::default(), Probes::default());
    let mut last_seen = std::collections::BTreeMap::new();
    for arrival in 0..16 * age {
        if arrival > 6 * age {
            unseen.add(filter.contains(item(u64::MAX - arrival)));
            // The item that came exactly `age` arrivals ago, if it did not come since.
            let x: u64 = log[(arrival - age) as usize];
            if last_seen[&x] == arrival - age {
                repeated.add(!filter.contains(item(x)));
            }
        }
        let repeat = arrival > 0 && random.unit() < repeats;
        let x = if repeat { log[(arrival - 1 - random.below(arrival.min(2 * age))) as usize] } else { arrival };
        log.push(x);
        last_seen.insert(x, arrival);
        filter.observe(item(x), spec.max_value(), &mut random);
    }
    (unseen, repeated)
}

#[test]
fn a_sized_filter_keeps_both_rates_with_any_share_of_repeats() {
    for (target, age) in [(0.05, 4_000), (0.01, 4_000), (0.001, 20_000)] {
        let target = StableTarget { false_duplicates: target, missed: target, age };
        let spec =
            size_stable(&target, |_| ImportanceRule::Stable, &ClassMix::EVEN, FixedParameters::default()).unwrap();
        for repeats in [0.0, 0.4, 0.8] {
            let (unseen, repeated) = measured(&spec, age, repeats);
            println!(
                "target {}, {repeats} repeats: false {:.5}, missed {:.5}; {:.1} bits per event of the age, {} cells, {} \
                 decrements, values to {}",
                target.missed,
                unseen.rate(),
                repeated.rate(),
                spec.cell_bytes() as f64 * 8.0 / age as f64,
                spec.hasher().hashes(),
                spec.decrements(),
                spec.max_value()
            );
            assert!(unseen.keeps(target.false_duplicates), "{repeats}: {unseen:?}");
            assert!(repeated.keeps(target.missed), "{repeats}: {repeated:?}");
            if repeats == 0.0 {
                let fractions = [unseen.rate() / target.false_duplicates, repeated.rate() / target.missed];
                assert!(fractions.iter().all(|fraction| *fraction > 0.4), "{fractions:?}: the filter is too large");
            }
        }
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
        let (_, repeated) = measured(&spec, target.age, 0.0);
        assert!(repeated.keeps(target.missed), "{:?}: {repeated:?}", spec.rule());
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
