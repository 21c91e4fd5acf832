//! Medians over copies, which small deltas need.

use ebb_sketch::aggregate::answer::{Guarantee, TopMode};
use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralSketch, IntegralSpec};
use ebb_sketch::aggregate::robust::{Accuracy, WindowSketch, WindowSpec};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use super::streams::{Shape, distinct, redelivered};

#[test]
fn answer_is_the_median_of_the_copies() {
    let accuracy = Accuracy::new(0.2, 0.01).unwrap().with_copies(7);
    assert_eq!(accuracy.copies(), 7);
    let mut sketch = WindowSketch::new(&WindowSpec::by_weight(accuracy, 99, 10_000, 3).unwrap());
    let elements = distinct(&mut Random::new(51), &Shape { count: 5000, max_weight: 99, span: 10_000 });
    elements.iter().for_each(|e| sketch.insert(*e).unwrap());
    for decay in ["window:9s", "exponential:half_life=3s"] {
        let answers = sketch.query(10_000, &decay.parse::<Decay>().unwrap()).unwrap();
        let mut sums: Vec<f64> = answers.samples().iter().map(|sample| sample.weight()).collect();
        sums.sort_by(f64::total_cmp);
        assert!(sums[0] < sums[3] && sums[3] < sums[6], "copies are independent");
        assert_eq!(answers.weight().value, sums[3]);
        assert!(matches!(answers.weight().guarantee, Guarantee::Probabilistic { delta: 0.01, .. }));
        let mut ranks: Vec<f64> = answers.samples().iter().filter_map(|s| s.share(|v, _| v <= 5)).collect();
        ranks.sort_by(f64::total_cmp);
        assert_eq!(answers.rank(5).unwrap().value, ranks[3]);
        let mut middles: Vec<u64> = answers.samples().iter().filter_map(|s| s.distribution().quantile(0.5)).collect();
        middles.sort_unstable();
        assert_eq!(answers.quantiles(&[0.5]).unwrap()[0].value, middles[3]);
        let top = answers.top(0.25, TopMode::NoFalseNegatives).unwrap();
        for item in top.items {
            let mut shares: Vec<f64> = answers.samples().iter().map(|s| s.distribution().share_of(item.item)).collect();
            shares.sort_by(f64::total_cmp);
            assert_eq!(item.share, shares[3]);
        }
    }
}

#[test]
fn copies_depend_on_the_set_of_elements_alone() {
    let mut random = Random::new(52);
    let accuracy = Accuracy::with_sample_size(60).unwrap().with_copies(3);
    let window = WindowSpec::new(accuracy, 99, 10_000, 3).unwrap();
    let decay = IntegralDecay::polynomial(1).unwrap();
    let integral = IntegralSpec::new(accuracy, decay, 1, (99, 1), 3).unwrap();
    let elements = distinct(&mut random, &Shape { count: 900, max_weight: 99, span: 900 });
    let again = redelivered(&mut random, &elements);
    let (mut one, mut other) = (WindowSketch::new(&window), WindowSketch::new(&window));
    elements.iter().for_each(|e| one.insert(*e).unwrap());
    let (left, right) = again.split_at(700);
    let mut rest = WindowSketch::new(&window);
    left.iter().for_each(|e| other.insert(*e).unwrap());
    right.iter().for_each(|e| rest.insert(*e).unwrap());
    other.merge(&rest).unwrap();
    assert_eq!(one.encode(), other.encode());
    assert_eq!(WindowSketch::decode(&window, &one.encode()).unwrap().encode(), one.encode());
    let (mut one, mut other) = (IntegralSketch::new(&integral), IntegralSketch::new(&integral));
    elements.iter().for_each(|e| one.insert(*e).unwrap());
    again.iter().for_each(|e| other.insert(*e).unwrap());
    assert_eq!(one.encode(), other.encode());
    assert_eq!(IntegralSketch::decode(&integral, &one.encode()).unwrap().encode(), one.encode());
}
