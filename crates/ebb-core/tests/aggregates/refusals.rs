//! Events and questions that an aggregate refuses.

use ebb_core::{
    AggregateError, AggregateParameters, AggregateSpec, AggregateSpecError, Event, KeyScope, Measure, Method, Refusal,
    Statistic, Verdict,
};
use ebb_sketch::aggregate::answer::TopMode;

use crate::fixture::{START_MS, event, key, parameters, plan};
use crate::shards::{ShardFixture, ask, question};

const EXPONENTIAL: &str = "exponential:half_life=15s";

fn refused(fixture: &ShardFixture, refusal: Refusal) -> u64 {
    fixture.shard.status().aggregates[0].refused[refusal as usize]
}

#[test]
fn refused_event_is_counted_and_changes_no_answer() {
    for (method, decay) in [(Method::Robust, None), (Method::Cascade, None), (Method::Forward, Some(EXPONENTIAL))] {
        let plan = plan(parameters(method, decay));
        let mut fixture = ShardFixture::new(&plan, 0);
        let good = |item| event(item, START_MS + item as i64);
        (0..10).for_each(|item| fixture.fold(&good(item)));
        let query = question(KeyScope::Whole, Some(EXPONENTIAL), Statistic::Sum);
        let before = fixture.shard.aggregate(&query).unwrap().result;
        let bad = [
            (Event { value: Some(-0.25), ..good(9) }, Refusal::Value),
            (Event { value: Some(1_000.2), ..good(9) }, Refusal::Value),
            (Event { value: None, ..good(9) }, Refusal::Value),
            (Event { value: Some(f64::NAN), ..good(9) }, Refusal::Value),
            (Event { weight: Some(0.0), ..good(9) }, Refusal::Weight),
            (Event { weight: Some(-3.0), ..good(9) }, Refusal::Weight),
            (Event { weight: Some(1e13), ..good(9) }, Refusal::Weight),
            (Event { weight: Some(f64::INFINITY), ..good(9) }, Refusal::Weight),
            (Event { time_ms: Some(i64::MIN), ..good(9) }, Refusal::Time),
        ];
        for (item, (event, refusal)) in bad.into_iter().enumerate() {
            let count = refused(&fixture, refusal);
            fixture.fold(&Event { item: good(100 + item as u64).item, ..event });
            assert_eq!(refused(&fixture, refusal), count + 1, "{refusal:?}");
            let verdict = fixture.applied.last().unwrap().1;
            assert!(matches!(verdict, Verdict::Unique | Verdict::Late), "{verdict:?}");
        }
        assert_eq!(fixture.shard.aggregate(&query).unwrap().result, before, "{method:?}");
        assert_eq!(fixture.shard.status().aggregates[0].events, 10);
        assert_eq!(fixture.shard.status().counts.total(), 19);
    }
}

#[test]
fn events_past_the_horizon_are_refused_as_late() {
    for (method, decay, late) in
        [(Method::Robust, None, 1), (Method::Division, Some(EXPONENTIAL), 1), (Method::Forward, Some(EXPONENTIAL), 0)]
    {
        let mut fixture = ShardFixture::new(&plan(parameters(method, decay)), 0);
        fixture.fold(&event(1, START_MS));
        fixture.fold(&event(2, START_MS - 119_999));
        fixture.fold(&event(3, START_MS - 120_000));
        assert_eq!(refused(&fixture, Refusal::Late), late, "{method:?}");
    }
}

#[test]
fn unanswerable_questions_are_refused_with_a_reason() {
    let fixture = |parameters: AggregateParameters| {
        let mut fixture = ShardFixture::new(&plan(parameters), 0);
        (0..100).for_each(|item| fixture.fold(&event(item, START_MS + item as i64)));
        [fixture]
    };
    let why =
        |shards: &[ShardFixture], part, decay, statistic| ask(shards, &question(part, decay, statistic)).unwrap_err();
    let cascade = fixture(parameters(Method::Cascade, None));
    let robust = fixture(parameters(Method::Robust, None));
    let forward = fixture(parameters(Method::Forward, Some(EXPONENTIAL)));
    let integral = fixture(parameters(Method::Integral, Some("window:40s")));
    for shards in [&cascade, &robust] {
        let error = why(shards, KeyScope::Whole, Some("window:121s"), Statistic::Sum).to_string();
        assert!(error.contains("120000"), "{error}");
    }
    assert!(why(&forward, KeyScope::Whole, Some("window:10s"), Statistic::Sum).to_string().contains("own rate"));
    let other = why(&integral, KeyScope::Whole, Some("window:30s"), Statistic::Sum);
    assert!(matches!(other, AggregateError::OtherDecay { .. }), "{other}");
    let weights = Statistic::Share("weight > 2".parse().unwrap());
    assert!(why(&cascade, KeyScope::Whole, None, weights.clone()).to_string().contains("weights are not kept"));
    assert!(ask(&robust, &question(KeyScope::Whole, None, weights)).is_ok());
    let top = |phi| Statistic::Top { phi, mode: TopMode::NoFalseNegatives };
    for shards in [&cascade, &forward] {
        assert!(why(shards, KeyScope::Whole, None, top(0.01)).to_string().contains("ask for more than"));
    }
    assert!(why(&cascade, KeyScope::Whole, None, Statistic::Quantiles(vec![1.5])).to_string().contains("1.5"));
    assert!(matches!(why(&cascade, KeyScope::Whole, None, Statistic::Rank(f64::NAN)), AggregateError::Value(_)));
    assert_eq!(why(&cascade, KeyScope::Key(key(0)), None, Statistic::Sum), AggregateError::NotByKey);
    let keyed = fixture(AggregateParameters { keys: Some(3), ..parameters(Method::Cascade, None) });
    assert_eq!(why(&keyed, KeyScope::Key(key(77)), None, Statistic::Sum), AggregateError::NoSuchKey);
    let counted = fixture(AggregateParameters { of: Measure::Count, top: None, ..parameters(Method::Robust, None) });
    for statistic in [Statistic::Mean, Statistic::Quantiles(vec![0.5]), Statistic::Rank(1.0), top(0.5)] {
        assert!(matches!(why(&counted, KeyScope::Whole, None, statistic), AggregateError::NotKept { .. }));
    }
    let mut unknown = question(KeyScope::Whole, None, Statistic::Sum);
    unknown.aggregate = "spent".into();
    assert_eq!(ask(&counted, &unknown).unwrap_err().to_string(), "unknown aggregate \"spent\"; configured: spend");
}

#[test]
fn invalid_parameters_name_the_configuration_key() {
    let refused = |parameters| AggregateSpec::new(parameters).map(|_| ()).unwrap_err();
    for method in [Method::Forward, Method::Division, Method::Integral] {
        assert_eq!(refused(parameters(method, None)), AggregateSpecError::NoDecay(method));
    }
    let cases = [
        (parameters(Method::Forward, Some("window:1m")), "decay"),
        (parameters(Method::Division, Some("window:1m")), "decay"),
        (parameters(Method::Integral, Some("table:0s=1,1m=0")), "decay"),
        (parameters(Method::Integral, Some("polynomial:alpha=1.5,unit=1s")), "decay"),
        (AggregateParameters { epsilon: 0.0, ..parameters(Method::Robust, None) }, "epsilon"),
        (AggregateParameters { epsilon: 1e-9, ..parameters(Method::Cascade, None) }, "epsilon"),
        (AggregateParameters { delta: 0.9, ..parameters(Method::Robust, None) }, "delta"),
        (AggregateParameters { horizon_ms: 0, ..parameters(Method::Robust, None) }, "horizon"),
        (AggregateParameters { horizon_ms: 0, ..parameters(Method::Levels, None) }, "horizon"),
        (AggregateParameters { step: 1e-9, max: 1e9, ..parameters(Method::Levels, None) }, "step"),
        (AggregateParameters { keys: Some(0), ..parameters(Method::Levels, None) }, "keys"),
    ];
    for (parameters, key) in cases {
        let error = refused(parameters);
        assert_eq!(error.key(), key, "{error}");
    }
}
