//! The memory budget of an aggregate. In its own process, because it measures the memory of the whole process.

#[path = "aggregates/fixture.rs"]
mod fixture;

use ebb_core::{
    AggregateAnswer, AggregateParameters, AggregateQuestion, AggregateResult, Event, KeyScope, Method, QueryTime,
    Shard, Statistic,
};
use ebb_sketch::aggregate::answer::{Estimate, Guarantee};
use ebb_sketch::random::Random;
use fixture::{START_MS, event, key, parameters, plan};

const LIMIT_BYTES: u64 = 48 << 20;
const EVENTS: u64 = 600_000;
const HEAVY_KEYS: u64 = 40;

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn count(shard: &Shard, scope: KeyScope) -> (AggregateAnswer, Estimate) {
    let (aggregate, statistic) = ("spend".to_string(), Statistic::Count);
    let question = AggregateQuestion { aggregate, scope, decay: None, last: None, time: QueryTime::Newest, statistic };
    let answer = shard.aggregate(&question).unwrap();
    let AggregateResult::Number(Some(number)) = answer.result else { panic!("a count is a number") };
    (answer, number)
}

#[test]
fn heavy_keys_stay_within_the_budget_and_answers_state_the_error_in_force() {
    let parameters = AggregateParameters {
        keys: Some(10_000),
        memory: Some(LIMIT_BYTES),
        epsilon: 0.02,
        top: None,
        ..parameters(Method::Robust, None)
    };
    let mut shard = Shard::new(plan(parameters), 0).unwrap();
    let before = resident_bytes();
    let mut random = Random::new(5);
    let mut truth = [0.0; HEAVY_KEYS as usize];
    let mut highest = 0;
    for index in 0..EVENTS {
        let (one, weight) = (random.below(HEAVY_KEYS), 1 + random.below(3));
        truth[one as usize] += weight as f64;
        let time_ms = START_MS + (index / 6) as i64;
        let event = Event { key: Some(key(one)), weight: Some(weight as f64), ..event(index, time_ms) };
        shard.fold(index, time_ms, Ok(&event));
        if index % 5_000 == 0 {
            let status = shard.status().aggregates.remove(0);
            assert!(status.memory_bytes <= LIMIT_BYTES, "{} bytes after {index} events", status.memory_bytes);
            highest = highest.max(resident_bytes().saturating_sub(before));
        }
    }
    // The dedup filter, temporary buffers and the allocator take the rest.
    assert!(highest < LIMIT_BYTES + (8 << 20), "{highest} bytes more");
    let status = shard.status().aggregates.remove(0);
    assert!(status.coarseness > 0 && status.keys.unwrap().keys == HEAVY_KEYS, "{status:?}");
    for (one, truth) in truth.iter().enumerate() {
        let (answer, number) = count(&shard, KeyScope::Key(key(one as u64)));
        let Guarantee::Probabilistic { epsilon, .. } = number.guarantee else { panic!("{number:?}") };
        assert!(answer.degraded && epsilon > 0.02 && epsilon <= 0.25, "{answer:?}");
        assert!(number.covers(*truth), "{number:?}, exact {truth}");
    }
    let (_, whole) = count(&shard, KeyScope::Whole);
    assert!(whole.covers(truth.iter().sum()), "{whole:?}");
}
