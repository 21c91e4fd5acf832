//! P12: errors over many seeds stay within what the sample size promises, and lean to neither side.

use ebb_sketch::aggregate::answer::Estimate;
use ebb_sketch::aggregate::robust::expiry::IntegralDecay;
use ebb_sketch::aggregate::robust::{
    Accuracy, Answers, Element, IntegralSketch, IntegralSpec, Measured, WindowSketch, WindowSpec,
};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::{Random, mix};

use super::streams::{Shape, cases, distinct};

const TAU: u32 = 100;

fn seeds() -> impl Iterator<Item = u64> {
    (0..cases(40) as u64).map(mix)
}

fn elements(w_max: u32) -> Vec<Element> {
    distinct(&mut Random::new(41), &Shape { count: 4000, w_max, span: 10_000 })
}

fn window_answers(elements: &[Element], w_max: u32, decay: &Decay, seed: u64) -> Answers {
    let spec = WindowSpec::new(Accuracy::of_sample(TAU).unwrap(), w_max, 1_000_000, seed).unwrap();
    let mut sketch = WindowSketch::new(&spec);
    elements.iter().for_each(|e| sketch.insert(*e).unwrap());
    sketch.ask(10_000, decay).unwrap()
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
fn sums_under_any_decay_err_by_at_most_the_promised_standard_error() {
    let bound = (2.0 / f64::from(TAU)).sqrt();
    for w_max in [1, 1000] {
        let elements = elements(w_max);
        for decay in ["window:6s", "exponential:half_life=1500ms", "polynomial:alpha=1,unit=500ms"] {
            let decay: Decay = decay.parse().unwrap();
            let weighed = |e: &Element| f64::from(e.weight) * decay.weight(10_000u64.abs_diff(e.time_ms as u64));
            let truth: f64 = elements.iter().map(weighed).sum();
            let error = |seed| window_answers(&elements, w_max, &decay, seed).sum().value / truth - 1.0;
            assert_unbiased_within(&seeds().map(error).collect::<Vec<_>>(), bound, &format!("{decay}, w <= {w_max}"));
        }
    }
}

#[test]
fn sums_under_integral_decay_err_by_at_most_the_promised_standard_error() {
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
            let accuracy = Accuracy::of_sample(TAU).unwrap();
            let spec = IntegralSpec::new(accuracy, decay.clone(), 1, (1000, 1), seed).unwrap();
            let mut sketch = IntegralSketch::new(&spec);
            elements.iter().for_each(|e| sketch.insert(*e).unwrap());
            sketch.ask(10_000).unwrap().sum().value / truth as f64 - 1.0
        };
        let bound = (2.0 / f64::from(TAU)).sqrt();
        assert_unbiased_within(&seeds().map(error).collect::<Vec<_>>(), bound, &format!("integral decay {index}"));
    }
}

#[test]
fn shares_err_by_at_most_the_promised_standard_error() {
    let elements = elements(1000);
    let decay = Decay::window(6_000).unwrap();
    let inside = || elements.iter().filter(|e| e.time_ms > 4_000);
    let weight = |e: &Element| f64::from(e.weight);
    let truth = inside().filter(|e| e.value <= 4).map(weight).sum::<f64>() / inside().map(weight).sum::<f64>();
    let error = |seed| window_answers(&elements, 1000, &decay, seed).rank(4).unwrap().value - truth;
    assert_unbiased_within(&seeds().map(error).collect::<Vec<_>>(), (2.0 / f64::from(TAU)).sqrt(), "rank");
}

/// The share of seeds whose bounds hold, and the mean error.
fn coverage(truth: f64, estimate: impl Fn(u64) -> Estimate) -> (f64, f64) {
    let estimates: Vec<Estimate> = seeds().map(estimate).collect();
    let held = estimates.iter().filter(|e| e.covers(truth)).count();
    let mean = estimates.iter().map(|e| e.value / truth - 1.0).sum::<f64>() / estimates.len() as f64;
    (held as f64 / estimates.len() as f64, mean)
}

#[test]
fn bounds_computed_from_the_sample_hold_for_counts_value_sums_and_means() {
    let elements = elements(1000);
    for decay in ["window:6s", "exponential:half_life=1500ms"] {
        let decay: Decay = decay.parse().unwrap();
        let g = |e: &Element| decay.weight(10_000u64.abs_diff(e.time_ms as u64));
        let total = |amount: &dyn Fn(&Element) -> f64| elements.iter().map(|e| amount(e) * g(e)).sum::<f64>();
        let (count, sum) = (total(&|_| 1.0), total(&|e| f64::from(e.weight)));
        let value_sum = total(&|e| f64::from(e.weight) * e.value as f64);
        let answers = |seed| window_answers(&elements, 1000, &decay, seed);
        for (name, (held, mean)) in [
            ("count", coverage(count, |seed| answers(seed).count())),
            ("value sum", coverage(value_sum, |seed| answers(seed).value_sum())),
            ("mean", coverage(value_sum / sum, |seed| answers(seed).mean().unwrap())),
        ] {
            println!("{decay} {name}: bounds hold for {held:.3} of the seeds, mean error {mean:+.4}");
            assert!(held >= 0.95, "{decay} {name}: {held}");
            assert!(mean.abs() < 0.1, "{decay} {name}: {mean}");
        }
    }
}

#[test]
fn counting_by_inclusion_is_far_better_than_counting_first_integers() {
    let elements = elements(1000);
    let decay = Decay::window(6_000).unwrap();
    let truth = elements.iter().filter(|e| e.time_ms > 4_000).count() as f64;
    let errors: Vec<f64> =
        seeds().map(|seed| window_answers(&elements, 1000, &decay, seed).count().value / truth - 1.0).collect();
    let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
    // One integer of each element alone would be a sample of tau / mean weight elements: an error of sqrt(500 / 100).
    assert!(rms < 1.0, "{rms}");
}

#[test]
fn the_standard_error_that_a_sample_states_is_the_one_that_seeds_show() {
    let elements = elements(1000);
    for decay in ["window:6s", "exponential:half_life=1500ms", "polynomial:alpha=1,unit=500ms"] {
        let decay: Decay = decay.parse().unwrap();
        let g = |e: &Element| decay.weight(10_000u64.abs_diff(e.time_ms as u64));
        let truth: f64 = elements.iter().map(|e| f64::from(e.weight) * e.value as f64 * g(e)).sum();
        let stated = |seed| window_answers(&elements, 1000, &decay, seed).samples()[0].value_sum();
        let measured: Vec<Measured> = seeds().map(stated).collect();
        let count = measured.len() as f64;
        let shown = (measured.iter().map(|m| (m.value - truth) * (m.value - truth)).sum::<f64>() / count).sqrt();
        let stated = measured.iter().map(|m| m.deviation).sum::<f64>() / count;
        println!("{decay}: standard error {:.4} stated, {:.4} shown", stated / truth, shown / truth);
        assert!((0.7..1.4).contains(&(shown / stated)), "{decay}: {shown} against {stated}");
    }
}
