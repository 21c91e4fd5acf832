//! Queries: P6, P7 and P9, every statistic against brute force, and errors at the limits.

use std::sync::Arc;

use ebb_sketch::aggregate::QueryError;
use ebb_sketch::aggregate::answer::{Estimate, Evidence, Guarantee, TopMode};
use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralSketch, IntegralSpec};
use ebb_sketch::aggregate::predicate::Predicate;
use ebb_sketch::aggregate::robust::hash::SampleHash;
use ebb_sketch::aggregate::robust::store::WindowStore;
use ebb_sketch::aggregate::robust::{Accuracy, Element, SampleReading, SampleStore, WindowSketch, WindowSpec};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use super::oracle::{element, progression};
use super::streams::{Shape, cases, distinct, redelivered};

fn store_of(hash: &Arc<SampleHash>, tau: u32, elements: &[Element]) -> WindowStore {
    let mut store = WindowStore::new(hash.clone(), tau);
    elements.iter().for_each(|element| store.insert(*element));
    store.compact();
    store
}

/// Integers sampled at a level among `live` of an element, one by one.
fn naive_hits(hash: &SampleHash, element: &Element, live: u32, level: u8) -> u64 {
    let p = progression(hash, element);
    let value = |j: u32| (u128::from(p.start) + u128::from(j) * u128::from(p.step)) % u128::from(p.modulus);
    (0..live).filter(|j| value(*j) < u128::from(hash.threshold(level))).count() as u64
}

#[test]
fn answering_level_holds_every_sampled_element() {
    let mut random = Random::new(31);
    for case in 0..cases(30) {
        let shape = Shape { count: 800, max_weight: 60, span: 500 };
        let elements = distinct(&mut random, &shape);
        let hash = Arc::new(SampleHash::from_seed(case as u64, shape.max_weight));
        let store = store_of(&hash, 25, &redelivered(&mut random, &elements));
        for _ in 0..6 {
            let (as_of, width) = (random.below(600) as i64, 1 + random.below(600));
            let sample = store.sample(as_of, &Decay::window(width).unwrap());
            let inside = elements.iter().filter(|e| e.time_ms <= as_of && e.time_ms > as_of - width as i64);
            let hits: u64 = inside.map(|e| naive_hits(&hash, e, e.weight, sample.level())).sum();
            assert_eq!(sample.hits(), hits);
        }
    }
}

#[test]
fn answering_level_holds_every_live_sampled_integer() {
    let mut random = Random::new(32);
    for case in 0..cases(30) {
        let elements = distinct(&mut random, &Shape { count: 500, max_weight: 60, span: 50 });
        let decay = [
            IntegralDecay::window(20).unwrap(),
            IntegralDecay::polynomial(1).unwrap(),
            IntegralDecay::exponential(0.05, 60).unwrap(),
        ][case % 3]
            .clone();
        let accuracy = Accuracy::with_sample_size(25).unwrap();
        let spec = IntegralSpec::new(accuracy, decay.clone(), 1, (60, 1), case as u64).unwrap();
        let mut sketch = IntegralSketch::new(&spec);
        redelivered(&mut random, &elements).into_iter().for_each(|e| sketch.insert(e).unwrap());
        for as_of in [5, 20, 49, 60, 90] {
            let answers = sketch.query(as_of).unwrap();
            let sample = &answers.samples()[0];
            let hash = sample_hash(&spec);
            let live = |e: &Element| decay.live(e.weight, as_of.abs_diff(e.time_ms));
            let alive = elements.iter().filter(|e| e.time_ms <= as_of);
            let hits: u64 = alive.map(|e| naive_hits(&hash, e, live(e), sample.level())).sum();
            assert_eq!(sample.hits(), hits);
        }
    }
}

/// The hash of the only copy, as the specification draws it.
fn sample_hash(spec: &IntegralSpec) -> SampleHash {
    let mut alone = IntegralSketch::new(spec);
    alone.insert(element(0, 1, 0, 1)).unwrap();
    alone.query(0).unwrap().samples()[0].hash().clone()
}

#[test]
fn decay_is_the_mixture_of_its_windows() {
    let mut random = Random::new(33);
    for case in 0..cases(12) {
        let elements = distinct(&mut random, &Shape { count: 400, max_weight: 40, span: 60 });
        let hash = Arc::new(SampleHash::from_seed(case as u64, 40));
        let store = store_of(&hash, 12, &elements);
        for decay in ["exponential:rate=100", "polynomial:alpha=1,unit=1ms", "table:0ms=1,10ms=0.3,40ms=0.1"] {
            let decay: Decay = decay.parse().unwrap();
            for as_of in [40, 59, 75] {
                // g is the sum over all starts s of (g(c - s) - g(c - s + 1)) · [t >= s], the oldest start with g(c - s).
                let mixed: f64 = (0..=as_of)
                    .map(|start| {
                        let age = (as_of - start) as u64;
                        let fall = decay.weight(age) - if start > 0 { decay.weight(age + 1) } else { 0.0 };
                        fall * store.sample(as_of, &Decay::window(age + 1).unwrap()).weight()
                    })
                    .sum();
                let sum = store.sample(as_of, &decay).weight();
                assert!((sum - mixed).abs() < 1e-9 * mixed, "{decay} at {as_of}: {sum} {mixed}");
            }
        }
    }
}

#[test]
fn table_that_equals_a_window_is_answered_like_it() {
    let mut random = Random::new(34);
    let elements = distinct(&mut random, &Shape { count: 500, max_weight: 40, span: 60 });
    let hash = Arc::new(SampleHash::from_seed(1, 40));
    let store = store_of(&hash, 15, &elements);
    for width in [2, 7, 30] {
        let steps = Decay::table(vec![(0, 1.0), (width - 1, 1.0), (width, 0.0)]).unwrap();
        let window = store.sample(59, &Decay::window(width).unwrap()).weight();
        assert!((store.sample(59, &steps).weight() - window).abs() < 1e-9 * window, "{width}");
    }
}

fn sketch_of(accuracy: Accuracy, elements: &[Element]) -> WindowSketch {
    let mut sketch = WindowSketch::new(&WindowSpec::by_weight(accuracy, 1000, 1_000_000, 9).unwrap());
    elements.iter().for_each(|element| sketch.insert(*element).unwrap());
    sketch
}

/// Exact answers from all elements.
struct Truth<'a> {
    elements: &'a [Element],
    as_of: i64,
    decay: Decay,
}

impl Truth<'_> {
    fn total(&self, amount: impl Fn(&Element) -> f64) -> f64 {
        let seen = self.elements.iter().filter(|e| e.time_ms <= self.as_of);
        seen.map(|e| amount(e) * self.decay.weight(self.as_of.abs_diff(e.time_ms))).sum()
    }

    fn share(&self, selects: impl Fn(&Element) -> bool) -> f64 {
        let weight = |e: &Element| f64::from(e.weight);
        self.total(|e| if selects(e) { weight(e) } else { 0.0 }) / self.total(weight)
    }
}

#[test]
fn small_streams_are_answered_exactly() {
    let mut random = Random::new(35);
    let elements = distinct(&mut random, &Shape { count: 90, max_weight: 1000, span: 1000 });
    let sketch = sketch_of(Accuracy::with_sample_size(100).unwrap(), &redelivered(&mut random, &elements));
    for decay in ["window:700ms", "exponential:rate=2", "polynomial:alpha=2,unit=50ms"] {
        let truth = Truth { elements: &elements, as_of: 900, decay: decay.parse().unwrap() };
        let answers = sketch.query(900, &truth.decay).unwrap();
        let exact = |estimate: Estimate, true_value: f64| {
            assert_eq!(estimate.guarantee, Guarantee::Exact);
            assert!(!estimate.incomplete && (estimate.value - true_value).abs() <= 1e-9 * true_value, "{decay}");
            assert_eq!((estimate.lower, estimate.upper), (estimate.value, estimate.value));
        };
        let sum = truth.total(|e| f64::from(e.weight));
        let value_sum = truth.total(|e| f64::from(e.weight) * e.value as f64);
        exact(answers.weight(), sum);
        let count = answers.samples()[0].observation_count();
        assert!((count - truth.total(|_| 1.0)).abs() <= 1e-9 * count);
        exact(answers.value_sum(), value_sum);
        exact(answers.mean().unwrap(), value_sum / sum);
        let predicate: Predicate = "value < 5 and weight > 300 or value = 7".parse().unwrap();
        let selects = |e: &Element| e.value < 5 && e.weight > 300 || e.value == 7;
        exact(answers.share(&predicate).unwrap(), truth.share(selects));
        exact(answers.rank(6).unwrap(), truth.share(|e| e.value <= 6));
        check_quantiles(&answers, &truth);
        check_top(&answers, &truth);
    }
}

fn check_quantiles(answers: &SampleReading, truth: &Truth<'_>) {
    for quantile in answers.quantiles(&[0.0, 0.25, 0.5, 0.9, 1.0]).unwrap() {
        assert!(truth.share(|e| e.value <= quantile.value) >= quantile.phi - 1e-9);
        assert!(quantile.value == 0 || truth.share(|e| e.value < quantile.value) <= quantile.phi + 1e-9);
        assert_eq!((quantile.lower, quantile.upper), (quantile.value, quantile.value));
        assert_eq!(quantile.guarantee, Guarantee::Exact);
    }
}

fn check_top(answers: &SampleReading, truth: &Truth<'_>) {
    for mode in [TopMode::NoFalsePositives, TopMode::NoFalseNegatives] {
        let top = answers.top(0.1, mode).unwrap();
        let mut expected: Vec<(u64, f64)> = (0..12).map(|v| (v, truth.share(|e| e.value == v))).collect();
        expected.retain(|(_, share)| *share >= 0.1);
        expected.sort_by(|a, b| b.1.total_cmp(&a.1));
        assert_eq!(
            top.items.iter().map(|i| i.item).collect::<Vec<_>>(),
            expected.iter().map(|w| w.0).collect::<Vec<_>>()
        );
        assert!(top.items.iter().zip(&expected).all(|(item, share)| (item.share - share.1).abs() < 1e-9));
    }
}

/// Values of unequal shares: about three tenths are 6, two tenths 3, one tenth each of the others.
fn skewed(random: &mut Random) -> Vec<Element> {
    let mut elements = distinct(random, &Shape { count: 20_000, max_weight: 50, span: 10_000 });
    elements.iter_mut().for_each(|e| e.value = [3, 3, 5, 6, 6, 6, 7, 8, 9, 10][random.below(10) as usize]);
    elements
}

#[test]
fn sampled_statistics_are_within_their_bounds() {
    let mut random = Random::new(36);
    let elements = skewed(&mut random);
    let accuracy = Accuracy::new(0.1, 0.01).unwrap();
    let sketch = sketch_of(accuracy, &elements);
    for decay in ["window:8s", "exponential:half_life=2s", "polynomial:alpha=1,unit=1s"] {
        let truth = Truth { elements: &elements, as_of: 10_000, decay: decay.parse().unwrap() };
        let answers = sketch.query(10_000, &truth.decay).unwrap();
        let sum = truth.total(|e| f64::from(e.weight));
        for (name, estimate, true_value) in [
            ("sum", answers.weight(), sum),
            ("share", answers.share(&"weight > 25".parse().unwrap()).unwrap(), truth.share(|e| e.weight > 25)),
            ("rank", answers.rank(6).unwrap(), truth.share(|e| e.value <= 6)),
        ] {
            assert!(estimate.lower < estimate.value && estimate.value < estimate.upper, "{decay} {name}");
            assert!(estimate.covers(true_value), "{decay} {name}: {estimate:?} {true_value}");
            assert!(
                (estimate.value - true_value).abs() < 0.1 * true_value,
                "{decay} {name}: {estimate:?} {true_value}"
            );
            assert!(matches!(estimate.guarantee, Guarantee::Probabilistic { delta: 0.01, .. }));
            assert!(matches!(estimate.evidence, Evidence::Level { level: 1.., elements: 100.. }));
        }
        for quantile in answers.quantiles(&[0.1, 0.5, 0.9]).unwrap() {
            let reached = truth.share(|e| e.value <= quantile.value);
            assert!(reached >= quantile.phi - 0.1, "{decay} {quantile:?}");
            assert!(truth.share(|e| e.value < quantile.value) <= quantile.phi + 0.1, "{decay} {quantile:?}");
            assert!(quantile.lower <= quantile.value && quantile.value <= quantile.upper);
        }
    }
}

#[test]
fn top_mode_excludes_its_error() {
    let mut random = Random::new(37);
    let elements = skewed(&mut random);
    let sketch = sketch_of(Accuracy::new(0.05, 0.01).unwrap(), &elements);
    let truth = Truth { elements: &elements, as_of: 10_000, decay: Decay::window(9_000).unwrap() };
    let answers = sketch.query(10_000, &truth.decay).unwrap();
    let share = |item: u64| truth.share(|e| e.value == item);
    for phi in [0.08, 0.1, share(3), 0.25] {
        let sure = answers.top(phi, TopMode::NoFalsePositives).unwrap();
        assert!(sure.items.iter().all(|item| share(item.item) >= phi), "{phi}");
        let all = answers.top(phi, TopMode::NoFalseNegatives).unwrap();
        let frequent = (0..12).filter(|item| share(*item) >= phi);
        assert!(frequent.clone().count() > 0);
        frequent.for_each(|item| assert!(all.items.iter().any(|listed| listed.item == item), "{phi}: {item}"));
        assert!(all.items.iter().all(|item| share(item.item) >= phi - 0.1), "{phi}");
        assert!(all.items.iter().all(|item| item.lower <= share(item.item) && share(item.item) <= item.upper));
    }
    assert_eq!(answers.top(0.25, TopMode::NoFalsePositives).unwrap().items.len(), 1);
}

#[test]
fn value_just_below_phi_is_not_a_false_positive() {
    let elements = skewed(&mut Random::new(39));
    let truth = Truth { elements: &elements, as_of: 10_000, decay: Decay::window(9_000).unwrap() };
    let phi = truth.share(|e| e.value == 3) + 0.001;
    for seed in 0..12 {
        let spec = WindowSpec::by_weight(Accuracy::new(0.1, 0.01).unwrap(), 50, 10_000, seed).unwrap();
        let mut sketch = WindowSketch::new(&spec);
        elements.iter().for_each(|element| sketch.insert(*element).unwrap());
        let sure = sketch.query(10_000, &truth.decay).unwrap().top(phi, TopMode::NoFalsePositives).unwrap();
        assert!(sure.items.iter().all(|item| item.item != 3), "seed {seed}");
    }
}

#[test]
fn nothing_sampled_has_a_sum_but_no_mean_share_or_quantile() {
    let sketch = sketch_of(Accuracy::with_sample_size(10).unwrap(), &[]);
    let answers = sketch.query(0, &Decay::window(5).unwrap()).unwrap();
    assert_eq!((answers.weight().value, answers.samples()[0].observation_count()), (0.0, 0.0));
    assert_eq!((answers.mean(), answers.rank(5)), (None, None));
    assert_eq!(answers.share(&Predicate::value_at_most(5)), None);
    assert_eq!(answers.quantiles(&[0.5]), Ok(vec![]));
    assert_eq!(answers.top(0.99, TopMode::NoFalseNegatives).map(|top| top.items.len()), Ok(0));
}

#[test]
fn elements_dated_after_the_question_wait() {
    let mut sketch =
        sketch_of(Accuracy::with_sample_size(10).unwrap(), &[element(1, 5, 100, 1), element(1, 7, 200, 2)]);
    let sum = |sketch: &WindowSketch, as_of| sketch.query(as_of, &Decay::window(1000).unwrap()).unwrap().weight().value;
    assert_eq!([99, 100, 199, 200, 1099, 1100].map(|c| sum(&mut sketch, c)), [0.0, 5.0, 5.0, 12.0, 12.0, 7.0]);
}

#[test]
fn query_past_the_horizon_is_rejected_or_incomplete() {
    let spec = WindowSpec::new(Accuracy::with_sample_size(10).unwrap(), 9, 1000, 1).unwrap();
    let mut sketch = WindowSketch::new(&spec);
    (0..5).for_each(|index| sketch.insert(element(1, 2, index * 1000, index as u128)).unwrap());
    sketch.advance(4000).unwrap();
    let query = |sketch: &WindowSketch, as_of, decay: &str| {
        sketch
            .query(as_of, &decay.parse().unwrap())
            .map(|answers| (answers.weight().value, answers.weight().incomplete))
    };
    let rejected = QueryError::WindowBeyondHorizon { window_ms: 1001, horizon_ms: 1000 };
    assert_eq!(query(&sketch, 4000, "window:1001ms"), Err(rejected));
    assert_eq!(query(&sketch, 4000, "window:1000ms"), Ok((2.0, false)));
    assert_eq!(query(&sketch, 3999, "window:1000ms"), Ok((0.0, true)));
    assert_eq!(query(&sketch, 3000, "window:1ms"), Ok((0.0, true)));
    assert_eq!(query(&sketch, 2999, "window:1ms"), Err(QueryError::Expired { floor_ms: 3000 }));
    let (sum, incomplete) = query(&sketch, 4000, "exponential:half_life=1s").unwrap();
    assert_eq!((sum, incomplete), (2.0, true));
    assert_eq!(query(&sketch, 4000, "table:0ms=1,1ms=0"), Ok((2.0, false)));
}

#[test]
fn decay_past_the_horizon_is_exact_for_the_rest() {
    let spec = WindowSpec::new(Accuracy::with_sample_size(50).unwrap(), 9, 1000, 1).unwrap();
    let mut sketch = WindowSketch::new(&spec);
    let elements: Vec<Element> = (0..40).map(|index| element(1, 3, index * 50, index as u128)).collect();
    elements.iter().for_each(|e| sketch.insert(*e).unwrap());
    sketch.advance(2000).unwrap();
    let remembered: Vec<Element> = elements.into_iter().filter(|e| e.time_ms > 1000).collect();
    let truth = Truth { elements: &remembered, as_of: 2000, decay: Decay::half_life(700.0).unwrap() };
    let sum = sketch.query(2000, &truth.decay).unwrap().weight();
    assert!((sum.value - truth.total(|e| f64::from(e.weight))).abs() < 1e-9);
    assert!(sum.incomplete && sum.guarantee == Guarantee::Exact);
}

#[test]
fn shares_within_the_error_are_rejected() {
    let elements = distinct(&mut Random::new(38), &Shape { count: 5000, max_weight: 9, span: 9 });
    let sketch = sketch_of(Accuracy::new(0.1, 0.01).unwrap(), &elements);
    let answers = sketch.query(9, &Decay::window(100).unwrap()).unwrap();
    let rejected = answers.top(0.1, TopMode::NoFalseNegatives);
    assert_eq!(rejected, Err(QueryError::PhiTooSmall { phi: 0.1, min: 0.1 }));
    for phi in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(answers.top(phi, TopMode::NoFalsePositives), Err(QueryError::Phi { .. })));
        assert!(matches!(answers.quantiles(&[0.5, phi]), Err(QueryError::Phi { .. })));
    }
}

#[test]
fn integral_sketch_scales_small_weights_and_counts_in_ticks() {
    let decay = IntegralDecay::exponential(0.1, 1024).unwrap();
    let spec = IntegralSpec::new(Accuracy::with_sample_size(50).unwrap(), decay, 1000, (1, 1024), 1).unwrap();
    let mut sketch = IntegralSketch::new(&spec);
    (0..10).for_each(|index| sketch.insert(element(index, 1, index as i64 * 1000 + 500, u128::from(index))).unwrap());
    let answers = sketch.query(9_999).unwrap();
    let real: f64 = (0..10).map(|age| (-0.1 * f64::from(age)).exp()).sum();
    let sum = answers.weight();
    assert!(sum.guarantee == Guarantee::Exact && sum.value <= real && sum.value > real * 0.99, "{sum:?} {real}");
    assert_eq!(answers.samples()[0].observation_count(), 10.0);
    assert_eq!(answers.share(&"weight = 1".parse().unwrap()).unwrap().value, 1.0);
    sketch.advance(20_000).unwrap();
    assert!(sketch.query(20_000).is_ok());
    assert_eq!(sketch.query(19_999).unwrap_err(), QueryError::Expired { floor_ms: 20_000 });
}

#[test]
fn ticks_before_the_epoch_are_ordinary_ticks() {
    let decay = IntegralDecay::window(1).unwrap();
    let spec = IntegralSpec::new(Accuracy::with_sample_size(50).unwrap(), decay, 1000, (9, 1), 1).unwrap();
    let mut sketch = IntegralSketch::new(&spec);
    for (index, time_ms) in [-1001, -1000, -1, 0, 999, 1000].into_iter().enumerate() {
        sketch.insert(element(1, 1 << index.min(3), time_ms, index as u128)).unwrap();
    }
    assert_eq!([-1001, -1, 0, 1999].map(|as_of| sketch.query(as_of).unwrap().weight().value), [1.0, 6.0, 16.0, 8.0]);
}
