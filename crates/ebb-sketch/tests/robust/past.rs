//! Smaller samples, and answers for times before the newest element.

use ebb_sketch::aggregate::answer::Guarantee;
use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralSketch, IntegralSpec};
use ebb_sketch::aggregate::robust::{Accuracy, Element, SampleSpec, WindowSketch, WindowSpec};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::streams::{Shape, distinct, redelivered};

fn window_spec(epsilon: f64, seed: u64) -> WindowSpec {
    WindowSpec::new(Accuracy::new(epsilon, 0.05).unwrap(), 5, 1 << 40, seed).unwrap()
}

fn stream(seed: u64, count: usize) -> Vec<Element> {
    distinct(&mut Random::new(seed), &Shape { count, max_weight: 5, span: 100_000 })
}

#[test]
fn coarsened_sketch_is_that_of_the_smaller_sample() {
    let elements = stream(1, 20_000);
    let spec = window_spec(0.1, 3);
    let mut coarsened = WindowSketch::new(&spec);
    elements.iter().for_each(|element| coarsened.insert(*element).unwrap());
    for halvings in 1..=3 {
        coarsened.coarsen(halvings);
        let mut fresh = WindowSketch::new(&spec.coarsened(halvings));
        redelivered(&mut Random::new(2), &elements).iter().for_each(|element| fresh.insert(*element).unwrap());
        assert!(coarsened.encode() == fresh.encode(), "{halvings} halvings");
        let smaller = (0..halvings).fold(spec.accuracy().tau(), |tau, _| tau.div_ceil(2));
        assert_eq!(coarsened.spec().accuracy().tau(), smaller);
    }
}

#[test]
fn coarsened_integral_sketch_is_that_of_the_smaller_sample() {
    let decay = IntegralDecay::polynomial(1).unwrap();
    let spec = IntegralSpec::new(Accuracy::new(0.2, 0.05).unwrap(), decay, 1_000, (5, 16), 7).unwrap();
    let elements = stream(4, 10_000);
    let (mut coarsened, mut fresh) = (IntegralSketch::new(&spec), IntegralSketch::new(&spec.coarsened(2)));
    elements.iter().for_each(|element| coarsened.insert(*element).unwrap());
    elements.iter().rev().for_each(|element| fresh.insert(*element).unwrap());
    coarsened.coarsen(2);
    assert!(coarsened.encode() == fresh.encode());
}

#[test]
fn error_in_force_grows_with_every_halving_until_the_limit() {
    let accuracy = Accuracy::new(0.02, 0.05).unwrap();
    let halvings = accuracy.halvings_within(0.5);
    let coarsest = (0..halvings).fold(accuracy, |accuracy, _| accuracy.halved());
    assert!(coarsest.epsilon() <= 0.5 && coarsest.halved().epsilon() > 0.5, "{coarsest:?}");
    let root = (f64::from(accuracy.tau()) / f64::from(coarsest.tau())).sqrt();
    assert!(coarsest.epsilon() / accuracy.epsilon() >= 0.99 * root, "{coarsest:?}");
    assert_eq!(accuracy.halvings_within(0.0), 0);
}

#[test]
fn bounds_of_the_past_hold_and_state_a_larger_error() {
    let texts = ["window:50s", "window:5s", "exponential:half_life=10s", "polynomial:alpha=1,unit=1s"];
    let (mut failures, mut answers, mut widened) = (0, 0, 0);
    for run in 0..40 {
        let elements = stream(run, 12_000);
        let mut sketch = WindowSketch::new(&window_spec(0.15, run));
        elements.iter().for_each(|element| sketch.insert(*element).unwrap());
        for decay in texts.map(|text| text.parse::<Decay>().unwrap()) {
            for as_of_ms in [99_999, 80_000, 40_000, 20_000] {
                let past = elements.iter().filter(|element| element.time_ms <= as_of_ms);
                let weight = |element: &Element| decay.weight((as_of_ms - element.time_ms) as u64);
                let truth: f64 = past.map(|element| f64::from(element.weight) * weight(element)).sum();
                let found = sketch.query(as_of_ms, &decay).unwrap().weight();
                answers += 1;
                failures += u32::from(!found.covers(truth));
                if let Guarantee::Probabilistic { epsilon, .. } = found.guarantee {
                    assert!(as_of_ms == 99_999 || epsilon > 0.15, "{decay} as of {as_of_ms}: {epsilon}");
                    widened += u32::from(epsilon > 0.15 * 1.2);
                }
            }
        }
    }
    assert!(widened > 100, "{widened} answers have a larger error");
    assert!(f64::from(failures) <= 0.05 * f64::from(answers), "{failures} of {answers}");
}
