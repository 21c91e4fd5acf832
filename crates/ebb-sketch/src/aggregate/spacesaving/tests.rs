use super::*;
use crate::random::Random;
use std::collections::BTreeMap;

fn feed(summary: &mut SpaceSaving, exact: &mut BTreeMap<u128, f64>, items: usize, random: &mut Random) {
    for _ in 0..items {
        let label = u128::from(random.below(400) >> random.below(9));
        let weight = (1 + random.below(3)) as f64;
        summary.insert(label, weight);
        *exact.entry(label).or_insert(0.0) += weight;
    }
}

fn check(summary: &SpaceSaving, exact: &BTreeMap<u128, f64>) {
    let weight: f64 = exact.values().sum();
    assert!((summary.weight() - weight).abs() <= 1e-9 * weight);
    assert!(
        summary.floor() <= weight / f64::from(summary.capacity()) * (1.0 + 1e-9),
        "the error exceeds weight / counters"
    );
    for label in 0..400 {
        let (lower, upper) = summary.bounds(label);
        let exact = exact.get(&label).copied().unwrap_or(0.0);
        assert!(lower <= exact + 1e-9 && exact <= upper + 1e-9, "{label}: {exact} is not in {lower}..={upper}");
        assert!(upper - lower <= weight / f64::from(summary.capacity()) * (1.0 + 1e-9));
    }
}

#[test]
fn bounds_hold_and_error_is_at_most_weight_by_counters() {
    for capacity in [1, 7, 40, 1000] {
        let mut random = Random::new(u64::from(capacity));
        let (mut summary, mut exact) = (SpaceSaving::new(capacity).unwrap(), BTreeMap::new());
        for _ in 0..20 {
            feed(&mut summary, &mut exact, 150, &mut random);
            check(&summary, &exact);
        }
    }
}

#[test]
fn merged_and_scaled_summaries_keep_their_bounds() {
    let mut random = Random::new(9);
    for _ in 0..20 {
        let (mut whole, mut exact) = (SpaceSaving::new(20).unwrap(), BTreeMap::new());
        for _ in 0..6 {
            let mut part = SpaceSaving::new(20).unwrap();
            let mut seen = BTreeMap::new();
            let items = random.below(400) as usize;
            feed(&mut part, &mut seen, items, &mut random);
            let factor = 0.5 + random.unit();
            part.scale(factor);
            whole.merge(part);
            for (label, weight) in seen {
                *exact.entry(label).or_insert(0.0) += weight * factor;
            }
            check(&whole, &exact);
        }
    }
}

#[test]
fn split_off_keeps_the_bounds_of_both_parts() {
    let mut random = Random::new(11);
    for capacity in [10, 600] {
        for _ in 0..40 {
            let (mut rest, mut exact) = (SpaceSaving::new(capacity).unwrap(), BTreeMap::new());
            feed(&mut rest, &mut exact, 300, &mut random);
            let weight = (rest.weight() * random.unit()).floor().max(1.0);
            let part = rest.split_off(weight);
            assert!((part.weight() - weight).abs() < 1e-9);
            for label in 0..400 {
                let (a, b) = (part.bounds(label), rest.bounds(label));
                let exact = exact.get(&label).copied().unwrap_or(0.0);
                assert!(a.0 + b.0 <= exact + 1e-9 && exact <= a.1 + b.1 + 1e-9, "{label}: {exact} in {a:?} + {b:?}");
            }
        }
    }
}

#[test]
fn ties_are_broken_by_label_in_any_order() {
    let mut pair = [SpaceSaving::new(16).unwrap(), SpaceSaving::new(16).unwrap()];
    for label in 0..31 {
        pair[0].insert(label, 1.0);
        pair[1].insert(30 - label, 1.0);
    }
    pair.iter_mut().for_each(SpaceSaving::fold);
    assert_eq!(pair[0], pair[1]);
    let monitored: Vec<u128> = pair[0].labels().iter().map(|(label, ..)| *label).collect();
    assert_eq!(monitored, (0..16).collect::<Vec<u128>>());
}

#[test]
fn top_mode_excludes_its_error() {
    use crate::aggregate::answer::TopMode;
    let mut random = Random::new(12);
    let (mut summary, mut exact) = (SpaceSaving::new(40).unwrap(), BTreeMap::new());
    feed(&mut summary, &mut exact, 5000, &mut random);
    let total: f64 = exact.values().sum();
    let heavy = |phi: f64| exact.iter().filter(|(_, w)| **w >= phi * total).map(|(l, _)| *l).collect::<Vec<_>>();
    for phi in [0.03, 0.05, 0.1, 0.2] {
        let found = |mode| summary.reading().top(phi, mode).unwrap().items.iter().map(|i| i.label).collect::<Vec<_>>();
        assert!(found(TopMode::NoFalsePositives).iter().all(|label| heavy(phi).contains(label)), "{phi}");
        assert!(heavy(phi).iter().all(|label| found(TopMode::NoFalseNegatives).contains(label)), "{phi}");
    }
    assert!(!heavy(0.03).is_empty());
    assert!(
        summary.reading().top(1.0 / 40.0, TopMode::NoFalseNegatives).is_err(),
        "the error is as large as the share"
    );
}
