//! P12: errors over many seeds are unbiased and within what the sample size guarantees.

use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralSketch, IntegralSpec};
use ebb_sketch::aggregate::robust::{Accuracy, Element, SampleReading, WindowSketch, WindowSpec};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::{Random, mix};

use super::streams::{Shape, cases, distinct};

const TAU: u32 = 100;

fn seeds() -> impl Iterator<Item = u64> {
    (0..cases(40) as u64).map(mix)
}

fn elements(max_weight: u32) -> Vec<Element> {
    distinct(&mut Random::new(41), &Shape { count: 4000, max_weight, span: 10_000 })
}

fn window_answers(elements: &[Element], max_weight: u32, decay: &Decay, seed: u64) -> SampleReading {
    let spec = WindowSpec::new(Accuracy::with_sample_size(TAU).unwrap(), max_weight, 1_000_000, seed).unwrap();
    let mut sketch = WindowSketch::new(&spec);
    elements.iter().for_each(|e| sketch.insert(*e).unwrap());
    sketch.query(10_000, decay).unwrap()
}

fn assert_unbiased_within(errors: &[f64], bound: f64, what: &str) {
    let count = errors.len() as f64;
    let rms = (errors.iter().map(|e| e * e).sum::<f64>() / count).sqrt();
    let mean = errors.iter().sum::<f64>() / count;
    println!("{what}: rms {rms:.4} (bound {bound:.4}), mean {mean:+.4}, {} seeds", errors.len());
    assert!(errors.len() >= 30);
    assert!(rms <= bound, "{what}: rms {rms} above {bound}");
    assert!(mean.abs() <= 3.0 * rms / count.sqrt(), "{what}: mean {mean} with rms {rms}");
}

#[test]
fn weights_under_any_decay_are_within_the_standard_error() {
    let bound = (2.0 / f64::from(TAU)).sqrt();
    for max_weight in [1, 1000] {
        let elements = elements(max_weight);
        for decay in ["window:6s", "exponential:half_life=1500ms", "polynomial:alpha=1,unit=500ms"] {
            let decay: Decay = decay.parse().unwrap();
            let weighed = |e: &Element| f64::from(e.weight) * decay.weight(10_000u64.abs_diff(e.time_ms as u64));
            let truth: f64 = elements.iter().map(weighed).sum();
            let error = |seed| window_answers(&elements, max_weight, &decay, seed).weight().value / truth - 1.0;
            assert_unbiased_within(
                &seeds().map(error).collect::<Vec<_>>(),
                bound,
                &format!("{decay}, w <= {max_weight}"),
            );
        }
    }
}

#[test]
fn weights_under_integral_decay_are_within_the_standard_error() {
    let elements = elements(1000);
    let decays = [
        IntegralDecay::window(6_000).unwrap(),
        IntegralDecay::polynomial(1).unwrap(),
        IntegralDecay::exponential(0.0005, 1000).unwrap(),
    ];
    for (index, decay) in decays.into_iter().enumerate() {
        let truth: u64 =
            elements.iter().map(|e| u64::from(decay.live(e.weight, 10_000u64.abs_diff(e.time_ms as u64)))).sum();
        let error = |seed| {
            let accuracy = Accuracy::with_sample_size(TAU).unwrap();
            let spec = IntegralSpec::new(accuracy, decay.clone(), 1, (1000, 1), seed).unwrap();
            let mut sketch = IntegralSketch::new(&spec);
            elements.iter().for_each(|e| sketch.insert(*e).unwrap());
            sketch.query(10_000).unwrap().weight().value / truth as f64 - 1.0
        };
        let bound = (2.0 / f64::from(TAU)).sqrt();
        assert_unbiased_within(&seeds().map(error).collect::<Vec<_>>(), bound, &format!("integral decay {index}"));
    }
}

#[test]
fn shares_are_within_the_standard_error() {
    let elements = elements(1000);
    let decay = Decay::window(6_000).unwrap();
    let inside = || elements.iter().filter(|e| e.time_ms > 4_000);
    let weight = |e: &Element| f64::from(e.weight);
    let truth = inside().filter(|e| e.value <= 4).map(weight).sum::<f64>() / inside().map(weight).sum::<f64>();
    let error = |seed| window_answers(&elements, 1000, &decay, seed).rank(4).unwrap().value - truth;
    assert_unbiased_within(&seeds().map(error).collect::<Vec<_>>(), (2.0 / f64::from(TAU)).sqrt(), "rank");
}

#[test]
fn inclusion_probabilities_count_better_than_first_integers() {
    let elements = elements(1000);
    let decay = Decay::window(6_000).unwrap();
    let truth = elements.iter().filter(|e| e.time_ms > 4_000).count() as f64;
    let errors: Vec<f64> = seeds()
        .map(|seed| window_answers(&elements, 1000, &decay, seed).samples()[0].observation_count() / truth - 1.0)
        .collect();
    let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
    // Counting one integer per element would sample tau / mean weight elements: an error of sqrt(500 / 100).
    assert!(rms < 1.0, "{rms}");
}
