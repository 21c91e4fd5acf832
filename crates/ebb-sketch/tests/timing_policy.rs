//! Learned priors and policies where they failed before: streams without repeats, floods of junk, filters that are too
//! small, and state of the first version.

mod arrivals;

use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::prior::ReuseSpec;
use ebb_sketch::filter::inference::{Basis, InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingSpec};
use ebb_sketch::random::Random;

use arrivals::{Arrivals, item, spec};

/// A filter over event time after `uniques` items that never repeated, one per millisecond.
fn filter_without_repeats(uniques: u64) -> InferentialFilter {
    let clock = ClockSpec::Time { window_ms: 3_600_000, lateness_ms: 0, tick_ms: 300_000 };
    let spec = TimingSpec::new(clock, CellLayout::Lines(4096), 4, 4).unwrap();
    let prior = PriorSpec::Learned(ReuseSpec::new(3_600_000, 4096).unwrap());
    let mut filter = InferentialFilter::new(spec, Seen::First, prior).unwrap();
    for number in 0..uniques {
        filter.observe(&priced(number, number as i64)).unwrap();
    }
    filter
}

fn priced(number: u64, time_ms: i64) -> Question {
    Question::new(item(number), time_ms, 3_600_000).with_penalties(Penalties::new(1.0, 1.0).unwrap())
}

#[test]
fn known_duplicates_are_found_on_a_stream_that_had_no_repeats() {
    let filter = filter_without_repeats(20_000);
    let answers: Vec<_> = (0..300).map(|number| filter.ask(&priced(number * 60, 20_000))).collect();
    assert!(answers.iter().all(|answer| answer.belief.is_some_and(|belief| belief.inside > 0.0)));
    let missed = answers.iter().filter(|answer| !answer.duplicate).count();
    assert!(missed <= 15, "{missed} of 300 known duplicates are unique");
}

#[test]
fn the_first_true_duplicates_of_a_stream_are_found() {
    let mut filter = filter_without_repeats(2_000);
    let missed = (0..300).filter(|&number| !filter.observe(&priced(number, 2_000)).unwrap().duplicate).count();
    assert!(missed <= 3, "{missed} of the first 300 duplicates were accepted");
}

/// The share of true repeats that are accepted after honest traffic and a flood of `junk` items.
fn accepted_repeats(junk: u64) -> f64 {
    let clock = ClockSpec::Time { window_ms: 3_600_000, lateness_ms: 0, tick_ms: 300_000 };
    let spec = TimingSpec::new(clock, CellLayout::Lines(8192), 4, 4).unwrap();
    let prior = PriorSpec::Learned(ReuseSpec::new(3_600_000, 4096).unwrap());
    let mut filter = InferentialFilter::new(spec, Seen::Last, prior).unwrap();
    let mut random = Random::new(5);
    let mut honest = |filter: &mut InferentialFilter, time_ms: i64| {
        let number = random.below(20_000);
        (filter.observe(&priced(number, time_ms)).unwrap().duplicate, number)
    };
    for at in 0..40_000 {
        honest(&mut filter, at * 10);
    }
    let (mut repeats, mut accepted) = (0, 0);
    for at in 0..10_000u64 {
        for number in 0..junk / 10_000 {
            filter.observe(&priced((1 << 32) + at * 1000 + number, 400_000 + at as i64 * 10)).unwrap();
        }
        // Nearly every honest item was seen before by now.
        let (duplicate, _) = honest(&mut filter, 400_000 + at as i64 * 10);
        repeats += 1;
        accepted += u32::from(!duplicate);
    }
    f64::from(accepted) / f64::from(repeats)
}

#[test]
fn a_flood_of_junk_does_not_let_honest_repeats_through() {
    let clean = accepted_repeats(0);
    for junk in [40_000, 200_000] {
        let attacked = accepted_repeats(junk);
        assert!(attacked <= clean + 0.05, "{junk} junk events: {attacked} accepted, {clean} without");
    }
}

#[test]
fn state_of_the_first_version_keeps_its_items_and_learns_anew() {
    let text = include_str!("vectors/timing/inferential_v1.hex");
    let digits = text.trim().as_bytes().chunks(2);
    let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
    let spec = TimingSpec::time(60_000, 0, 1024).unwrap();
    let prior = PriorSpec::Learned(ReuseSpec::new(60_000, 16).unwrap());
    let mut filter = InferentialFilter::decode(spec, Seen::First, prior, &bytes).unwrap();
    // Written after 200 arrivals of 100 items, one every 100 ms.
    let key = ebb_sketch::hash::HashKey::new([7; 16]);
    let priced = |number: u64, time_ms| {
        let penalties = Penalties::new(1.0, 1.0).unwrap();
        Question::new(key.fingerprint(&number.to_le_bytes()), time_ms, 60_000).with_penalties(penalties)
    };
    assert!((0..100).all(|number| filter.ask(&priced(number, 20_000)).duplicate));
    // The sample is younger than the items: until a window has passed, posteriors would deny them.
    for number in 1000..2000 {
        let answer = filter.observe(&priced(number, 20_000 + (number as i64 - 1000) * 39)).unwrap();
        assert_eq!(answer.basis, Basis::Learning, "{number}");
    }
    assert!((50..100).all(|number| filter.ask(&priced(number, 59_000)).duplicate));
    for arrival in 0..400_000 {
        filter.observe(&priced(2000 + arrival % 4000, 60_000 + arrival as i64 / 10)).unwrap();
    }
    assert_ne!(filter.basis(), Basis::Learning, "after a window the sample covers the memory");
    assert_eq!(
        InferentialFilter::decode(spec, Seen::First, prior, &filter.encode()).unwrap().encode(),
        filter.encode()
    );
}

/// Penalties of (decisions, standard answers, accepting everything) after two windows, on uniform traffic with few repeats
/// in a filter that is too small, where a false duplicate costs `false_duplicate` and a missed one 1.
fn penalties_in_a_small_filter(key: u64, false_duplicate: f64) -> [f64; 3] {
    let window = 4000;
    let prior = PriorSpec::Learned(ReuseSpec::new(window, 4096).unwrap());
    let mut filter = InferentialFilter::new(spec(window, 400, 40), Seen::Last, prior).unwrap();
    let mut arrivals = Arrivals::new(40_000);
    let penalties = Penalties::new(false_duplicate, 1.0).unwrap();
    let mut sums = [0.0; 3];
    for arrival in 0..10 * window {
        let (number, age) = arrivals.next();
        arrivals.record_insert(number);
        let question = Question::new(item(number ^ key << 32), 0, window);
        let standard = filter.ask(&question).duplicate;
        let decided = filter.observe(&question.with_penalties(penalties)).unwrap().duplicate;
        if arrival >= 2 * window {
            let truth = age.is_some_and(|age| age < window);
            for (sum, duplicate) in sums.iter_mut().zip([decided, standard, false]) {
                *sum += match (duplicate, truth) {
                    (true, false) => false_duplicate,
                    (false, true) => 1.0,
                    _ => 0.0,
                };
            }
        }
    }
    sums
}

#[test]
fn decisions_never_cost_more_than_the_simple_policies() {
    for false_duplicate in [0.05, 1.0, 8.0] {
        let runs: Vec<[f64; 3]> = (0..5).map(|key| penalties_in_a_small_filter(key, false_duplicate)).collect();
        for [decided, standard, accepting] in &runs {
            let cheapest = standard.min(*accepting);
            assert!(*decided <= 1.05 * cheapest, "{false_duplicate}: {decided}, {standard} or {accepting}: {runs:?}");
        }
    }
}
