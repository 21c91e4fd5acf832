//! Stated probabilities come true: on event time, with blocks of very different load, and with late events.

use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::prior::ReuseSpec;
use ebb_sketch::filter::inference::{InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};
use proptest::prelude::*;

const TICK_MS: u64 = 1000;
const WINDOW_MS: u64 = 8_400;
const ITEMS: u64 = 3000;

fn item(number: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(number)) << 64 | u128::from(mix(number ^ 0xEBB)))
}

fn spec() -> TimingSpec {
    let clock = ClockSpec::Time { window_ms: WINDOW_MS, lateness_ms: 3000, tick_ms: TICK_MS };
    TimingSpec::new(clock, CellLayout::Spread(6000), 4, 3).unwrap()
}

/// Events of `blocks` ticks with 20, 100 or 1500 events each, in order of arrival; `late` percent are up to 3 s late.
fn events(blocks: u64, late: u64) -> Vec<(u64, i64)> {
    let mut random = Random::new(5);
    let mut arriving = Vec::new();
    for block in 0..blocks {
        for _ in 0..[20, 100, 1500][random.below(3) as usize] {
            let time = block * TICK_MS + random.below(TICK_MS);
            let delay = if random.below(100) < late { random.below(3000) } else { 0 };
            arriving.push((time + delay, random.below(ITEMS), time as i64));
        }
    }
    arriving.sort_unstable();
    arriving.into_iter().map(|(_, number, time)| (number, time)).collect()
}

/// Mean difference between probability and frequency over twenty bins, for events that arrive in time.
fn calibration_error(filter: &mut InferentialFilter, events: &[(u64, i64)]) -> f64 {
    let mut last = vec![i64::MIN / 2; ITEMS as usize];
    let (mut predicted, mut came_true, mut count) = ([0.0; 20], [0.0; 20], 0.0);
    let mut now = 0;
    for (index, &(number, time)) in events.iter().enumerate() {
        now = time.max(now);
        filter.advance(now);
        let question = Question::new(item(number), time, WINDOW_MS);
        let reading = filter.filter().read(question.item);
        if time == now && index > events.len() / 4 && filter.filter().standard_answer(&reading, time, WINDOW_MS) {
            let probability = filter.belief(&question, &reading).inside;
            let bin = ((probability * 20.0) as usize).min(19);
            predicted[bin] += probability;
            came_true[bin] += f64::from(u8::from(time - last[number as usize] < WINDOW_MS as i64));
            count += 1.0;
        }
        filter.observe(&question);
        last[number as usize] = time.max(last[number as usize]);
    }
    (0..20).map(|bin| f64::abs(predicted[bin] - came_true[bin])).sum::<f64>() / count
}

#[test]
fn probabilities_come_true_with_uneven_blocks_and_late_events() {
    let share = PriorSpec::Constant(ArrivalShare::new(1.0 / ITEMS as f64).unwrap());
    for late in [0, 20] {
        let events = events(300, late);
        let mut filter = InferentialFilter::new(spec(), Seen::Last, share).unwrap();
        let error = calibration_error(&mut filter, &events);
        assert!(error < 0.025, "{late}% late: {error}");
    }
}

#[test]
fn learned_probabilities_come_true_on_a_steady_stream() {
    let mut random = Random::new(6);
    let events: Vec<(u64, i64)> = (0..120_000).map(|at| (random.below(ITEMS), at * 3)).collect();
    let learned = PriorSpec::Learned(ReuseSpec::new(WINDOW_MS, 1024).unwrap());
    let mut filter = InferentialFilter::new(spec(), Seen::Last, learned).unwrap();
    let error = calibration_error(&mut filter, &events);
    assert!(error < 0.03, "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn extreme_times_and_windows_never_panic(
        times in prop::collection::vec((any::<i64>(), any::<u64>(), 0u64..40), 1..60),
        edge: bool,
        first: bool,
    ) {
        let learned = PriorSpec::Learned(ReuseSpec::new(WINDOW_MS, 16).unwrap());
        let seen = if first { Seen::First } else { Seen::Last };
        let mut filter = InferentialFilter::new(spec(), seen, learned).unwrap();
        for (time, window, number) in times {
            let time = if edge { [i64::MIN, i64::MAX, 0][number as usize % 3] } else { time };
            let question = Question::new(item(number), time, window);
            filter.advance(time.saturating_sub(1));
            filter.observe(&question);
            let with_share = Question { share: ArrivalShare::new(1e-15).ok(), frequency: Some(f64::NAN), ..question };
            filter.observe(&with_share);
            let explanation = filter.explain(&with_share);
            let details = explanation.posterior.expect("the question has a share");
            prop_assert!(details.belief.inside.is_finite() && details.expected_age.is_finite());
        }
        let bytes = filter.encode();
        let learned = PriorSpec::Learned(ReuseSpec::new(WINDOW_MS, 16).unwrap());
        prop_assert_eq!(InferentialFilter::decode(spec(), seen, learned, &bytes).unwrap().encode(), bytes);
    }
}
