//! The guarantees T1 to T5 of the timing filter, against an exact reference.

use std::collections::BTreeMap;

use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::{AgeUnit, ClockSpec, LikelihoodScope, Reading, TimingFilter, TimingSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};
use proptest::prelude::*;

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("EBB_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn item(number: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(number)) << 64 | u128::from(mix(number ^ 0xEBB)))
}

/// The default shape, 4-bit timers in lines, which has a fast path.
fn default_shape(timed: bool) -> impl Strategy<Value = TimingSpec> {
    (shape(timed), 1u8..=8, 1u64..=3).prop_map(|(spec, k, lines)| {
        let clock = match spec.clock() {
            ClockSpec::Time { window_ms, lateness_ms, tick_ms } => ClockSpec::Time {
                window_ms: window_ms.min(8 * tick_ms),
                lateness_ms: lateness_ms.min(4 * tick_ms),
                tick_ms,
            },
            ClockSpec::Count { window, block } => ClockSpec::Count { window: window.min(12 * block), block },
        };
        TimingSpec::new(clock, CellLayout::Lines(lines), 4, k).unwrap()
    })
}

/// Any shape: timer bits, cells per item, layout, blocks, spare ticks, lateness.
fn shape(timed: bool) -> impl Strategy<Value = TimingSpec> {
    let sizes = (3u8..=8, 1u8..=9, 1u64..=20, any::<bool>(), 1u64..=4, 8u64..=300);
    (sizes, 1u64..=12, 0u64..100, 0u64..3, any::<u8>()).prop_map(move |(sizes, block, extra, late, spare)| {
        let (bits, k, blocks, lined, lines, cells) = sizes;
        let blocks = blocks.min((1 << bits) - 3);
        let memory = (blocks * block).saturating_sub(extra % block).max(block);
        let lateness = (memory - block).min(late * block + extra % 3);
        let clock = if timed {
            ClockSpec::Time { window_ms: memory - lateness, lateness_ms: lateness, tick_ms: block }
        } else {
            ClockSpec::Count { window: memory, block }
        };
        let layout = if lined { CellLayout::Lines(lines) } else { CellLayout::Spread(cells) };
        let spec = TimingSpec::new(clock, layout, bits, k).unwrap();
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

/// Mostly small steps, some late events, rarely a gap longer than the window.
fn steps(seed: u64, spec: &TimingSpec, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let (block, window) = (spec.clock().block(), spec.clock().window());
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

/// The reading, computed cell by cell.
fn reference_reading(filter: &TimingFilter, item: Fingerprint) -> Reading {
    let live = |age: &u8| *age <= filter.spec().oldest_live_age();
    let ages: Vec<Option<u8>> =
        filter.cells_of(item).iter().map(|&cell| filter.stored_age(cell).filter(live)).collect();
    let age = if ages.contains(&None) { None } else { ages.iter().copied().max().flatten() };
    let oldest = ages.iter().filter(|other| **other == age).count() as u8;
    Reading { age, cells: ages.len() as u8, oldest }
}

/// The fraction of exactly this age among the cells of at least this age, expired ones included.
fn reference_fraction(
    filter: &TimingFilter,
    cells: std::ops::Range<u64>,
    age: u8,
    own: f64,
    shrinkage: (f64, f64),
) -> f64 {
    let at_least = |cell: &u64| filter.stored_age(*cell).is_none_or(|other| other >= age);
    let exactly = cells.clone().filter(|&cell| filter.stored_age(cell) == Some(age)).count() as f64;
    let at_least = cells.filter(at_least).count() as f64;
    (exactly - own + shrinkage.0 * shrinkage.1) / (at_least - own + shrinkage.0)
}

/// The collision probability equals a count over all cells, or over those of the line.
fn check_likelihood(filter: &TimingFilter, item: Fingerprint, reading: &Reading) {
    let Some(age) = reading.age else { return };
    let power = i32::from(reading.oldest);
    let whole = reference_fraction(filter, 0..filter.spec().cells(), age, 0.0, (0.0, 0.0));
    let got = filter.likelihood(item, reading, AgeUnit::Arrivals, LikelihoodScope::Filter).collision;
    assert!((got - whole.powi(power)).abs() < 1e-12, "{got} is not {}", whole.powi(power));
    if let (CellLayout::Lines(_), 4) = (filter.spec().layout(), filter.spec().timer_bits()) {
        let line = filter.cells_of(item)[0] / 128 * 128;
        let share = reference_fraction(filter, line..line + 128, age, f64::from(reading.oldest), (32.0, whole));
        let got = filter.likelihood(item, reading, AgeUnit::Arrivals, LikelihoodScope::Line).collision;
        assert!((got - share.powi(power)).abs() < 1e-12, "in the line {got} is not {}", share.powi(power));
    }
}

/// The block in which each cell was last stamped.
#[derive(Default)]
struct ReferenceStamps(BTreeMap<u64, i64>);

impl ReferenceStamps {
    fn stamp(&mut self, filter: &TimingFilter, item: Fingerprint, block: i64) {
        for cell in filter.cells_of(item) {
            let stamped = self.0.entry(cell).or_insert(block);
            *stamped = block.max(*stamped);
        }
    }

    /// T2 and T4.
    fn check(&self, filter: &TimingFilter, block: i64) {
        let spec = filter.spec();
        for age in 0..=spec.oldest_live_age() {
            let reading = Reading { age: Some(age), cells: 1, oldest: 1 };
            let before: u64 = (0..age).map(|younger| filter.arrivals_of_age(younger)).sum();
            let expected = (before as f64, filter.arrivals_of_age(age) as f64);
            assert_eq!(filter.age_range(&reading, AgeUnit::Arrivals), expected, "arrivals of age {age}");
        }
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
                    let into = filter.now().unwrap_or(0).rem_euclid(spec.clock().block() as i64);
                    let dead = |age: i64| match spec.clock() {
                        ClockSpec::Time { .. } => age > i64::from(spec.oldest_live_age()),
                        ClockSpec::Count { window, block } => (age - 1) * block as i64 + into >= window as i64,
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

fn run_with_arrivals(spec: TimingSpec, seed: u64) {
    let mut filter = TimingFilter::new(spec).unwrap();
    let (mut last, mut shadow) = (BTreeMap::new(), ReferenceStamps::default());
    let block = spec.clock().block() as i64;
    for (arrival, step) in steps(seed, &spec, 600).into_iter().enumerate() {
        let arrival = arrival as i64;
        let reading = filter.read(item(step.item));
        assert_eq!(reading, reference_reading(&filter, item(step.item)));
        for window in [step.window, spec.clock().window()] {
            let seen = last.get(&step.item).is_some_and(|at| arrival - 1 - at < window as i64);
            assert!(!seen || filter.standard_answer(&reading, 0, window), "T1: window {window} at {arrival}");
        }
        // Some arrivals are read but not inserted; they advance the clock all the same.
        if step.behind == 0 {
            assert!(filter.insert(item(step.item), 0));
            shadow.stamp(&filter, item(step.item), arrival / block);
            last.insert(step.item, arrival);
        }
        filter.count_arrival(0);
        if arrival % 17 == 0 {
            check_likelihood(&filter, item(step.item), &filter.read(item(step.item)));
            shadow.check(&filter, (arrival + 1) / block);
        }
    }
}

/// Runs the steps and returns the accepted inserts and the final time.
fn run_with_event_time(spec: TimingSpec, seed: u64) -> (TimingFilter, Vec<(u64, i64)>) {
    let ClockSpec::Time { window_ms, lateness_ms, tick_ms } = spec.clock() else {
        unreachable!("a shape with event time")
    };
    let mut filter = TimingFilter::new(spec).unwrap();
    let (mut seen, mut accepted, mut shadow) =
        (BTreeMap::<u64, Vec<i64>>::new(), Vec::new(), ReferenceStamps::default());
    let mut now = -50i64;
    for (index, step) in steps(seed, &spec, 500).into_iter().enumerate() {
        now += step.forward;
        filter.advance(now);
        let at = now - step.behind;
        if step.behind <= lateness_ms as i64 {
            let reading = filter.read(item(step.item));
            for window in [step.window, window_ms] {
                let times = seen.get(&step.item).map_or(&[][..], Vec::as_slice);
                let truth = times.iter().any(|&time| at - (window as i64) < time && time <= at);
                assert!(
                    !truth || filter.standard_answer(&reading, at, window),
                    "T1: window {window} as of {at}, now {now}"
                );
            }
        }
        if filter.insert(item(step.item), at) {
            shadow.stamp(&filter, item(step.item), at.div_euclid(tick_ms as i64));
            seen.entry(step.item).or_default().push(at);
            accepted.push((step.item, at));
        } else {
            let age = now.div_euclid(tick_ms as i64) - at.div_euclid(tick_ms as i64);
            assert!(age > i64::from(spec.oldest_live_age()), "only events that are too late are rejected");
        }
        filter.count_arrival(at);
        assert_eq!(filter.read(item(step.item)), reference_reading(&filter, item(step.item)));
        if index % 17 == 0 {
            check_likelihood(&filter, item(step.item), &filter.read(item(step.item)));
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
    fn arrival_windows_have_no_false_negatives(
        spec in prop_oneof![shape(false), default_shape(false)],
        seed: u64,
    ) {
        run_with_arrivals(spec, seed);
    }

    #[test]
    fn time_windows_have_no_false_negatives_with_late_events(
        spec in prop_oneof![shape(true), default_shape(true)],
        seed: u64,
    ) {
        run_with_event_time(spec, seed);
    }

    #[test]
    fn order_and_repetition_of_timed_events_do_not_matter(spec in shape(true), seed: u64) {
        let (filter, accepted) = run_with_event_time(spec, seed);
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
    fn a_decoded_filter_continues_like_the_encoded_one(
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
                one.count_arrival(now - step.behind);
            }
            prop_assert_eq!(filter.read(item(step.item)), twin.read(item(step.item)));
        }
        prop_assert_eq!(filter.encode(), twin.encode());
        prop_assert_eq!(filter.total_arrivals(), steps.len() as u64);
        prop_assert_eq!(twin.total_arrivals(), steps.len() as u64);
    }

    #[test]
    fn idle_clock_advances_do_not_change_the_bytes(spec in shape(true), seed: u64) {
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
                one.count_arrival(now);
            }
        }
        prop_assert_eq!(filter.encode(), twin.encode());
    }

    #[test]
    fn extreme_times_never_panic(spec in shape(true), times in prop::collection::vec(any::<i64>(), 1..40), edge: bool) {
        let mut filter = TimingFilter::new(spec).unwrap();
        for time in times {
            let time = if edge { if time & 1 == 0 { i64::MIN } else { i64::MAX } } else { time };
            filter.advance(time.saturating_sub(3));
            let reading = filter.read(item(1));
            filter.standard_answer(&reading, time, u64::MAX);
            filter.insert(item(1), time);
            filter.count_arrival(time);
            filter.advance(i64::MIN);
        }
        let counted: u64 = (0..=255).map(|age| filter.cells_of_age(age)).sum();
        prop_assert_eq!(counted + filter.cells_expired(), spec.cells());
    }
}
