//! The memory budget: the log alone decides when accuracy is given up, and nothing is counted twice or lost.

use ebb_core::{
    AggregateParameters, AggregateResult, AggregateSpec, AggregateSpecError, Event, KeyScope, Measure, Method,
    Statistic,
};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::fixture::{START_MS, event, key, parameters, plan};
use crate::oracle::ExactOracle;
use crate::shards::{ShardFixture, ask, question};

const EXPONENTIAL: &str = "exponential:half_life=15s";

/// Robust with values and labels, distinct labels, integral and forward, by key.
fn cases() -> [AggregateParameters; 4] {
    let by_key = |given: AggregateParameters| AggregateParameters { keys: Some(5_000), epsilon: 0.05, ..given };
    let distinct = AggregateParameters { of: Measure::Distinct(0), top: None, ..parameters(Method::Robust, None) };
    [
        by_key(parameters(Method::Robust, None)),
        by_key(distinct),
        by_key(parameters(Method::Integral, Some(EXPONENTIAL))),
        by_key(parameters(Method::Forward, Some(EXPONENTIAL))),
    ]
}

/// The case with the smallest budget that is accepted.
fn with_smallest_budget(given: AggregateParameters) -> AggregateParameters {
    let memory = Some(AggregateSpec::new(given.clone()).unwrap().min_memory());
    AggregateParameters { memory, ..given }
}

/// A few heavy keys and many light ones, with labels that hardly repeat.
fn flood(count: u64) -> impl Iterator<Item = Event> {
    let mut random = Random::new(9);
    (0..count).map(move |index| {
        let one = if random.below(2) == 0 { random.below(4) } else { 10 + random.below(3_000) };
        let label = format!("{:0>80}", random.below(count));
        let time_ms = START_MS + (index * 100_000 / count) as i64;
        let value = Some(random.below(400) as f64 * 0.25);
        Event { key: Some(key(one)), labels: vec![label.into()], value, ..event(index, time_ms) }
    })
}

#[test]
fn budget_is_kept_and_restarts_change_nothing() {
    for given in cases().map(with_smallest_budget) {
        let (limit, name) = (given.memory.unwrap(), format!("{:?} of {:?}", given.method, given.of));
        let plan = plan(given);
        let (mut steady, mut restarted) = (ShardFixture::new(&plan, 0), ShardFixture::new(&plan, 0));
        for (index, event) in flood(25_000).enumerate() {
            steady.fold(&event);
            restarted.fold(&event);
            if index % 3_001 == 0 {
                restarted.restart();
                let status = steady.shard.status().aggregates.remove(0);
                assert!(status.memory_bytes <= limit, "{name}: {} of {limit} bytes", status.memory_bytes);
            }
        }
        assert!(steady.shard.snapshot() == restarted.shard.snapshot(), "{name}: restarts changed the state");
        let status = steady.shard.status().aggregates.remove(0);
        let keys = status.keys.unwrap();
        assert!(status.coarseness > 0 || keys.evictions > 0, "{name}: {status:?}");
        assert_eq!(status.events, 25_000);
    }
}

#[test]
fn events_of_evicted_keys_are_in_other_and_answers_cover_the_truth() {
    for given in cases().map(with_smallest_budget) {
        if given.of != Measure::Value {
            continue;
        }
        let method = given.method;
        let plan = plan(given);
        let mut shards = [ShardFixture::new(&plan, 0), ShardFixture::new(&plan, 1)];
        // The second shard gets few events, so that sketches of different accuracy are merged.
        for (index, event) in flood(25_000).enumerate() {
            shards[usize::from(index % 100 == 0)].fold(&event);
        }
        let decay: Decay = EXPONENTIAL.parse().unwrap();
        let count = |scope| {
            let answer = ask(&shards, &question(scope, Some(EXPONENTIAL), Statistic::Count)).ok()?;
            let AggregateResult::Number(Some(number)) = answer.result else { panic!("a count is a number") };
            Some((number, answer.degraded))
        };
        let (mut lower, mut upper, mut degraded) = (0.0, 0.0, 0);
        for one in (0..4).chain(10..3_010) {
            let Some((number, is_degraded)) = count(KeyScope::Key(key(one))) else { continue };
            degraded += u32::from(is_degraded);
            (lower, upper) = (lower + number.lower, upper + number.upper);
            if one % 50 < 4 {
                let truth = ExactOracle::of(&shards, &decay, |event| event.key == Some(key(one))).count();
                assert!(number.lower <= truth * (1.0 + 1e-9), "{method:?}: {number:?}, exact {truth}");
            }
        }
        let (other, _) = count(KeyScope::Other).unwrap();
        (lower, upper) = (lower + other.lower, upper + other.upper);
        let (whole, is_degraded) = count(KeyScope::Whole).unwrap();
        degraded += u32::from(is_degraded);
        // The integral decay is computed in fixed point, the oracle in floating point.
        let (slack, truth) = (1.0 + 2e-3, ExactOracle::of(&shards, &decay, |_| true).count());
        assert!(whole.lower <= truth * slack && truth <= whole.upper * slack, "{method:?}: {whole:?}, exact {truth}");
        assert!(lower <= truth * slack && truth <= upper * slack, "{method:?}: {lower} {truth} {upper}");
        assert_eq!(degraded > 0, method != Method::Forward, "{method:?}");
    }
}

#[test]
fn budget_that_cannot_be_kept_is_refused_with_the_smallest_that_can() {
    for given in cases() {
        let error = AggregateSpec::new(AggregateParameters { memory: Some(100_000), ..given.clone() }).unwrap_err();
        let AggregateSpecError::Memory { min, .. } = error else { panic!("{error}") };
        assert_eq!(error.key(), "memory");
        assert!(error.to_string().contains("or more"), "{error}");
        assert!(AggregateSpec::new(AggregateParameters { memory: Some(min), ..given.clone() }).is_ok());
        assert!(AggregateSpec::new(AggregateParameters { memory: Some(min - 1), ..given }).is_err());
    }
    for method in [Method::Cascade, Method::Levels, Method::Division] {
        let given = AggregateParameters { memory: Some(1 << 30), ..parameters(method, Some(EXPONENTIAL)) };
        let error = AggregateSpec::new(given).unwrap_err();
        assert_eq!((error.key(), error.to_string().contains("method: robust")), ("memory", true), "{error}");
    }
}
