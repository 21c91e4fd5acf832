//! A plan with one aggregate, and single events for it.

use std::sync::Arc;

use ebb_core::{
    AggregateParameters, AggregateSpec, DedupSpec, Event, EventSpec, FilterSpec, Measure, Method, Plan, Reader, Seen,
    Selection, Weighting,
};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::{Fingerprint, HashKey};
use ebb_sketch::random::mix;

pub const START_MS: i64 = 1_700_000_000_000;

/// A weighted aggregate of values in steps of 0.25 with a horizon of two minutes.
pub fn parameters(method: Method, decay: Option<&str>) -> AggregateParameters {
    AggregateParameters {
        name: "spend".into(),
        of: Measure::Value,
        over: Selection::All,
        method,
        epsilon: 0.1,
        delta: 0.05,
        decay: decay.map(|decay| decay.parse().unwrap()),
        horizon_ms: 120_000,
        keys: None,
        memory: None,
        top: Some(0),
        step: 0.25,
        max: 1_000.0,
        weights: Weighting::ByEvent,
        seed: 7,
    }
}

pub fn plan(parameters: AggregateParameters) -> Arc<Plan> {
    let path = |path: &str| Some(path.parse().unwrap());
    let event = EventSpec {
        key: path("campaign"),
        value: path("cost"),
        weight: path("n"),
        labels: vec!["country".parse().unwrap()],
        ..EventSpec::of_item(vec!["item".parse().unwrap()])
    };
    let reader = Arc::new(Reader::new(event, HashKey::new([3; 16])).unwrap());
    let filter = TimingSpec::time(60_000, 60_000, 256 << 10).unwrap();
    Arc::new(Plan {
        reader,
        max_skew_ms: u64::MAX,
        dedup: DedupSpec::new(FilterSpec::learning(filter, 64).unwrap(), Seen::First),
        frequency: None,
        aggregates: vec![AggregateSpec::new(parameters).unwrap()],
    })
}

pub fn event(item: u64, time_ms: i64) -> Event {
    Event {
        item: Fingerprint(u128::from(mix(item)) << 64 | u128::from(mix(!item))),
        key: Some(key(0)),
        time_ms: Some(time_ms),
        id: Some(Fingerprint(u128::from(mix(item ^ 0xABCD)) << 64 | u128::from(item))),
        value: Some(1.0),
        weight: Some(1.0),
        importance: None,
        numbers: Default::default(),
        labels: vec!["x".into()],
        previous_key: None,
        route: Fingerprint(0),
    }
}

pub fn key(key: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(key ^ 0x5EED)) << 64 | u128::from(key))
}
