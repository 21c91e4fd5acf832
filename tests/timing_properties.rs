//! The promises T1 to T5 of the timing filter, against an exact memory of everything.

use std::collections::BTreeMap;

use ebb::filter::timing::{Drive, Layout, TimingFilter, TimingSpec};
use ebb::hash::Fingerprint;
use ebb::random::{Random, mix};
use proptest::prelude::*;

fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("EBB_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn item(number: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(number)) << 64 | u128::from(mix(number ^ 0xEBB)))
}

/// Any shape: timer bits, cells per item, layout, blocks, spare ticks, lateness.
fn shape(timed: bool) -> impl Strategy<Value = TimingSpec> {
    let sizes = (3u8..=8, 1u8..=9, 1u64..=20, any::<bool>(), 1u64..=4, 8u64..=300);
    (sizes, 1u64..=12, 0u64..100, 0u64..3, any::<u8>()).prop_map(move |(sizes, block, extra, late, spare)| {
        let (bits, k, blocks, lined, lines, cells) = sizes;
        let blocks = blocks.min((1 << bits) - 3);
        let memory = (blocks * block).saturating_sub(extra % block).max(block);
        let lateness = (memory - block).min(late * block + extra % 3);
        let drive = if timed {
            Drive::Time { window_ms: memory - lateness, lateness_ms: lateness, tick_ms: block }
        } else {
            Drive::Count { window: memory, block }
        };
        let layout = if lined { Layout::Lines(lines) } else { Layout::Spread(cells) };
        let spec = TimingSpec::new(drive, layout, bits, k).unwrap();
        spec.with_spare(spare % (spec.spare() + 1)).unwrap()
    })
}

#[derive(Debug, Clone, Copy)]
struct Step {
    item: u64,
    forward: i64,
    behind: i64,
    window: u64,
}

/// Mostly small steps, some late, rarely a gap that forgets.
fn steps(seed: u64, spec: &TimingSpec, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let (block, window) = (spec.drive().block(), spec.drive().window());
    let span = block * u64::from(spec.oldest_live_age());
    let items = 1 + random.below(80);
    let mut step = || Step {
        item: random.below(items),
        forward: match random.below(100) {
            0 => random.below(4 * span),
            1..=5 => random.below(span),
            _ => random.below(block / 2 + 2),
        } as i64,
        behind: if random.below(3) == 0 { random.below(span + 2 * block) as i64 } else { 0 },
        window: 1 + random.below(window),
    };
    (0..count).map(|_| step()).collect()
}

/// What every cell was last stamped with, by brute force.
#[derive(Default)]
struct Shadow(BTreeMap<u64, i64>);

impl Shadow {
    fn stamp(&mut self, filter: &TimingFilter, item: Fingerprint, block: i64) {
        for cell in filter.cells_of(item) {
            let stamped = self.0.entry(cell).or_insert(block);
            *stamped = block.max(*stamped);
        }
    }

    /// T2 and T4.
    fn check(&self, filter: &TimingFilter, block: i64) {
        let spec = filter.spec();
        let mut by_age = vec![0u64; 256];
        let mut expired = 0;
        for cell in 0..spec.cells() {
            let truth = self.0.get(&cell).map(|stamped| block - stamped);
            match filter.stored_age(cell) {
                Some(age) => {
                    assert_eq!(Some(i64::from(age)), truth, "cell {cell}");
                    by_age[usize::from(age)] += 1;
                }
                None => {
                    let into = filter.now().unwrap_or(0).rem_euclid(spec.drive().block() as i64);
                    let dead = |age: i64| match spec.drive() {
                        Drive::Time { .. } => age > i64::from(spec.oldest_live_age()),
                        Drive::Count { window, block } => (age - 1) * block as i64 + into >= window as i64,
                    };
                    assert!(truth.is_none_or(dead), "cell {cell} of age {truth:?} was lost");
                    expired += 1;
                }
            }
        }
        let counted: Vec<u64> = (0..=255).map(|age| filter.cells_of_age(age)).collect();
        assert_eq!(counted, by_age, "histogram");
        assert_eq!(filter.cells_expired(), expired, "expired cells");
        assert_eq!(counted.iter().sum::<u64>() + expired, spec.cells());
    }
}

fn count_driven_run(spec: TimingSpec, seed: u64) {
    let mut filter = TimingFilter::new(spec).unwrap();
    let (mut last, mut shadow) = (BTreeMap::new(), Shadow::default());
    let block = spec.drive().block() as i64;
    for (arrival, step) in steps(seed, &spec, 600).into_iter().enumerate() {
        let arrival = arrival as i64;
        let reading = filter.look(item(step.item));
        for window in [step.window, spec.drive().window()] {
            let seen = last.get(&step.item).is_some_and(|at| arrival - 1 - at < window as i64);
            assert!(!seen || filter.standard(&reading, 0, window), "T1: window {window} at {arrival}");
        }
        // Some arrivals are looked at and not inserted: the clock must tick all the same.
        if step.behind == 0 {
            assert!(filter.insert(item(step.item), 0));
            shadow.stamp(&filter, item(step.item), arrival / block);
            last.insert(step.item, arrival);
        }
        filter.arrive(0);
        if arrival % 17 == 0 {
            shadow.check(&filter, (arrival + 1) / block);
        }
    }
}

/// Runs the steps and returns the accepted inserts and the final time.
fn time_driven_run(spec: TimingSpec, seed: u64) -> (TimingFilter, Vec<(u64, i64)>) {
    let Drive::Time { window_ms, lateness_ms, tick_ms } = spec.drive() else { unreachable!("a timed shape") };
    let mut filter = TimingFilter::new(spec).unwrap();
    let (mut seen, mut accepted, mut shadow) = (BTreeMap::<u64, Vec<i64>>::new(), Vec::new(), Shadow::default());
    let mut now = -50i64;
    for (index, step) in steps(seed, &spec, 500).into_iter().enumerate() {
        now += step.forward;
        filter.advance(now);
        let at = now - step.behind;
        if step.behind <= lateness_ms as i64 {
            let reading = filter.look(item(step.item));
            for window in [step.window, window_ms] {
                let times = seen.get(&step.item).map_or(&[][..], Vec::as_slice);
                let truth = times.iter().any(|&time| at - (window as i64) < time && time <= at);
                assert!(!truth || filter.standard(&reading, at, window), "T1: window {window} as of {at}, now {now}");
            }
        }
        if filter.insert(item(step.item), at) {
            shadow.stamp(&filter, item(step.item), at.div_euclid(tick_ms as i64));
            seen.entry(step.item).or_default().push(at);
            accepted.push((step.item, at));
        } else {
            let age = now.div_euclid(tick_ms as i64) - at.div_euclid(tick_ms as i64);
            assert!(age > i64::from(spec.oldest_live_age()), "only what is too late is dropped");
        }
        filter.arrive(at);
        if index % 17 == 0 {
            shadow.check(&filter, now.div_euclid(tick_ms as i64));
        }
    }
    (filter, accepted)
}

fn live_ages(filter: &TimingFilter) -> Vec<Option<u8>> {
    let live = |age: &u8| *age <= filter.spec().oldest_live_age();
    (0..filter.spec().cells()).map(|cell| filter.stored_age(cell).filter(live)).collect()
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn count_driven_filters_never_deny_what_is_in_the_window(spec in shape(false), seed: u64) {
        count_driven_run(spec, seed);
    }

    #[test]
    fn time_driven_filters_never_deny_what_is_in_the_window_late_events_included(spec in shape(true), seed: u64) {
        time_driven_run(spec, seed);
    }

    #[test]
    fn order_and_repetition_of_timed_events_do_not_matter(spec in shape(true), seed: u64) {
        let (filter, accepted) = time_driven_run(spec, seed);
        let mut sorted = accepted;
        sorted.sort_by_key(|&(item, time)| (time, item));
        let mut other = TimingFilter::new(spec).unwrap();
        for &(number, time) in &sorted {
            other.insert(item(number), time);
            other.insert(item(number), time);
        }
        other.advance(filter.now().unwrap());
        prop_assert_eq!(live_ages(&filter), live_ages(&other));
    }

    #[test]
    fn a_decoded_filter_continues_like_the_one_that_was_encoded(
        spec in prop_oneof![shape(true), shape(false)],
        seed: u64,
        cut in 0usize..300,
    ) {
        let steps = steps(seed, &spec, 300);
        let mut now = 1_700_000_000_000;
        let mut filter = TimingFilter::new(spec).unwrap();
        let mut twin = filter.clone();
        for (index, step) in steps.iter().enumerate() {
            if index == cut {
                let bytes = twin.encode();
                twin = TimingFilter::decode(spec, &bytes).unwrap();
                prop_assert_eq!(twin.encode(), bytes);
            }
            now += step.forward;
            for one in [&mut filter, &mut twin] {
                one.advance(now);
                one.insert(item(step.item), now - step.behind);
                one.arrive(now - step.behind);
            }
            prop_assert_eq!(filter.look(item(step.item)), twin.look(item(step.item)));
        }
        prop_assert_eq!(filter.encode(), twin.encode());
    }

    #[test]
    fn idle_moves_of_the_clock_do_not_show(spec in shape(true), seed: u64) {
        let (mut filter, mut twin) = (TimingFilter::new(spec).unwrap(), TimingFilter::new(spec).unwrap());
        let mut now = 0;
        for step in steps(seed, &spec, 300) {
            let from = now;
            now += step.forward;
            filter.advance(now);
            let mut at = from;
            while at < now {
                at = now.min(at + 1 + step.behind / 2);
                twin.advance(at);
            }
            for one in [&mut filter, &mut twin] {
                one.advance(now);
                one.insert(item(step.item), now);
                one.arrive(now);
            }
        }
        prop_assert_eq!(filter.encode(), twin.encode());
    }

    #[test]
    fn hostile_times_never_panic(spec in shape(true), times in prop::collection::vec(any::<i64>(), 1..40), edge: bool) {
        let mut filter = TimingFilter::new(spec).unwrap();
        for time in times {
            let time = if edge { if time & 1 == 0 { i64::MIN } else { i64::MAX } } else { time };
            filter.advance(time.saturating_sub(3));
            let reading = filter.look(item(1));
            filter.standard(&reading, time, u64::MAX);
            filter.insert(item(1), time);
            filter.arrive(time);
            filter.advance(i64::MIN);
        }
        let counted: u64 = (0..=255).map(|age| filter.cells_of_age(age)).sum();
        prop_assert_eq!(counted + filter.cells_expired(), spec.cells());
    }
}
