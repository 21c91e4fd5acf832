//! Answers of a cascade for times before the newest observation.

use ebb_sketch::aggregate::answer::{Guarantee, TopMode};
use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::qdigest::DigestShape;
use ebb_sketch::aggregate::{DecayedSketch, Observation, QueryError, SummaryShape};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::oracle::{Exact, of_label, rank, sum, total};

const HORIZON_MS: u64 = 20_000;

/// 60 seconds of observations, a few of them late.
fn filled() -> (CascadeSketch, Exact) {
    let digest = DigestShape::new(8, 0.05).unwrap();
    let summary = SummaryShape::totals().with_values(digest).with_labels(40).unwrap();
    let mut sketch = CascadeSketch::new(CascadeSketch::shape(0.2, HORIZON_MS, summary).unwrap());
    let (mut random, mut exact) = (Random::new(3), Exact::default());
    for index in 0..60_000i64 {
        let late_ms = if random.below(20) == 0 { random.below(3_000) as i64 } else { 0 };
        let (value, label) = (random.below(256), u128::from(random.below(6)));
        let one = Observation { time_ms: index - late_ms, value, label, weight: 1.0 + random.below(3) as f64 };
        sketch.insert(&one).unwrap();
        exact.seen.push(one);
    }
    (sketch, exact)
}

#[test]
fn bounds_cover_the_exact_answer_as_of_any_time_within_the_horizon() {
    let (sketch, exact) = filled();
    let texts = ["window:1s", "window:4s", "exponential:half_life=200ms", "gaussian:sigma=500ms"];
    for decay in texts.map(|text| text.parse::<Decay>().unwrap()) {
        for as_of_ms in [59_998, 59_000, 55_123, 50_001, 46_500] {
            let seen = exact.seen.iter().filter(|one| one.time_ms <= as_of_ms).copied().collect();
            let decayed = Exact { seen }.decayed(as_of_ms, &decay, u64::MAX);
            let totals = sketch.totals(as_of_ms, &decay).unwrap();
            let at = format!("{decay} as of {as_of_ms}");
            let slack = 1e-5 * total(&decayed);
            let (count, truth) = (totals.count(), total(&decayed));
            assert!(count.lower <= truth + slack && truth <= count.upper + slack, "{at}: {count:?}, exact {truth}");
            assert!(count.upper < 3.0 * truth + 100.0, "{at}: {count:?}, exact {truth}");
            assert!(matches!(count.guarantee, Guarantee::Deterministic { .. }));
            let (found, truth) = (totals.sum(), sum(&decayed));
            assert!(
                found.lower <= truth + 256.0 * slack && truth <= found.upper + 256.0 * slack,
                "{at}: {found:?} {truth}"
            );
            let ranked = sketch.values(as_of_ms, &decay).unwrap().rank(100);
            assert!(ranked.lower <= rank(&decayed, 100) + slack && rank(&decayed, 100) <= ranked.upper + slack, "{at}");
            let top = sketch.labels(as_of_ms, &decay).unwrap().top(0.1, TopMode::NoFalseNegatives).unwrap();
            let share = of_label(&decayed, top.items[0].label) / total(&decayed);
            assert!(top.items[0].lower <= share + 1e-5 && share <= top.items[0].upper + 1e-5, "{at}");
        }
    }
}

#[test]
fn past_beyond_the_horizon_is_refused_or_incomplete() {
    let (sketch, _) = filled();
    let window = Decay::window(5_000).unwrap();
    let expired = sketch.totals(39_000, &window).unwrap_err();
    assert_eq!(expired, QueryError::Expired { floor_ms: 39_999 });
    assert!(sketch.totals(42_000, &window).unwrap().count().incomplete);
    assert!(!sketch.totals(46_000, &window).unwrap().count().incomplete);
    // The newest time and later ones are answered as before.
    let (newest, later) = (sketch.totals(59_999, &window).unwrap(), sketch.totals(61_000, &window).unwrap());
    assert!(newest.count().value > later.count().value && newest.count().guarantee == later.count().guarantee);
}
