//! Sums of amounts under `robust`: the stated bounds hold whatever the distribution.

use ebb_core::{AggregateParameters, AggregateResult, Event, KeyScope, Method, Refusal, Statistic, Weighting};
use ebb_sketch::aggregate::answer::{Estimate, Guarantee};

use crate::fixture::{START_MS, event, parameters, plan};
use crate::shards::{ShardFixture, ask, question};

fn spend(step: f64, max: f64) -> AggregateParameters {
    AggregateParameters { top: None, step, max, weights: Weighting::Unit, ..parameters(Method::Robust, None) }
}

fn fixture_of(parameters: AggregateParameters, amounts: impl Iterator<Item = f64>) -> [ShardFixture; 1] {
    let mut fixture = ShardFixture::new(&plan(parameters), 0);
    for (index, amount) in amounts.enumerate() {
        fixture.fold(&Event { value: Some(amount), ..event(index as u64, START_MS + index as i64 / 2) });
    }
    [fixture]
}

fn number(shards: &[ShardFixture], statistic: Statistic) -> Estimate {
    match ask(shards, &question(KeyScope::Whole, None, statistic)).unwrap().result {
        AggregateResult::Number(Some(estimate)) => estimate,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_large_amounts_among_many_small_ones_are_in_the_sum() {
    let large = |index: u64| [17_321, 40_007].contains(&index);
    let amounts = (0..60_000).map(|index| if large(index) { 9_500.0 } else { 0.01 });
    let shards = fixture_of(spend(0.01, 10_000.0), amounts);
    let (sum, mean) = (number(&shards, Statistic::Sum), number(&shards, Statistic::Mean));
    let truth = 19_000.0 + 59_998.0 * 0.01;
    assert!(sum.covers(truth), "{sum:?} of {truth}");
    assert!((sum.value / truth - 1.0).abs() < 0.1 && sum.upper < 1.3 * truth, "{sum:?} of {truth}");
    assert!(matches!(sum.guarantee, Guarantee::Probabilistic { epsilon: 0.1, delta: 0.05 }), "{sum:?}");
    assert!(mean.covers(truth / 60_000.0) && mean.upper < 2.0 * truth / 60_000.0, "{mean:?}");
    let count = number(&shards, Statistic::Count);
    assert!(count.covers(60_000.0), "{count:?}");
}

#[test]
fn amounts_between_steps_are_summed_as_they_are() {
    let amounts: Vec<f64> = (0..500).map(|index| 0.004 + f64::from(index) * 0.013).collect();
    let shards = fixture_of(spend(0.01, 10_000.0), amounts.iter().copied());
    let sum = number(&shards, Statistic::Sum);
    assert_eq!(sum.guarantee, Guarantee::Exact);
    assert!(sum.covers(amounts.iter().sum()), "{sum:?} of {}", amounts.iter().sum::<f64>());
}

#[test]
fn fractional_weights_are_refused_instead_of_rounded() {
    for method in [Method::Robust, Method::Integral] {
        let mut fixture = ShardFixture::new(&plan(parameters(method, Some("window:40s"))), 0);
        for (item, weight) in [(1, 2.0), (2, 1.5), (3, 2.4), (4, 65_537.0)] {
            fixture.fold(&Event { weight: Some(weight), ..event(item, START_MS) });
        }
        let refused = fixture.shard.status().aggregates[0].refused[Refusal::Weight as usize];
        assert_eq!(refused, 3, "{method:?}");
        assert_eq!(number(&[fixture], Statistic::Count).value, 2.0, "{method:?}");
    }
}
