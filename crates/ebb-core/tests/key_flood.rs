//! A flood of distinct keys. In its own process, because it measures the memory of the whole process.

#[path = "aggregates/fixture.rs"]
mod fixture;

use ebb_core::{AggregateParameters, Event, Measure, Method, Shard};
use fixture::{START_MS, event, key, parameters, plan};

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn million_keys_use_bounded_memory() {
    let parameters = AggregateParameters {
        keys: Some(200),
        of: Measure::Count,
        top: None,
        epsilon: 0.2,
        ..parameters(Method::Robust, None)
    };
    let mut shard = Shard::new(plan(parameters), 0).unwrap();
    let before = resident_bytes();
    let mut twice_from = 0;
    for index in 0..1_000_000u64 {
        // Most keys occur once, the last fifty thousand twice in a row.
        let one = if index < 900_000 { index } else { index / 2 };
        twice_from = one;
        let time_ms = START_MS + index as i64 / 20;
        let event = Event { key: Some(key(one)), ..event(index, time_ms) };
        shard.fold(index, time_ms, Ok(&event));
    }
    let status = shard.status().aggregates.remove(0);
    let counts = status.keys.unwrap();
    assert_eq!((counts.keys, counts.waiting), (200, 199));
    assert_eq!(counts.evictions, 50_000 - 200);
    assert_eq!(status.events, 1_000_000);
    assert!(twice_from > 400_000);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    assert!(shard.snapshot().len() < 4 << 20, "{}", shard.snapshot().len());
}
