//! Folds a few JSON records, prints their verdicts, and continues from a snapshot.
//!
//! Run with `cargo run -p ebb-core --example fold`.

use std::error::Error;
use std::sync::Arc;

use ebb_core::{DedupSpec, EventSpec, FilterSpec, Plan, Question, Reader, Record, Seen, Shard, TimeUnit};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;

/// Kafka timestamps and payloads.
const RECORDS: [(i64, &str); 5] = [
    (1_100, r#"{"ip": "10.0.0.1", "ad": "a7", "ts": 1000}"#),
    (2_100, r#"{"ip": "10.0.0.2", "ad": "a7", "ts": 2000}"#),
    (3_100, r#"{"ip": "10.0.0.1", "ad": "a7", "ts": 3000}"#),
    (4_100, r#"{"ip": "10.0.0.1"}"#),
    (5_000_100, r#"{"ip": "10.0.0.1", "ad": "a7", "ts": 5000000}"#),
];

fn main() -> Result<(), Box<dyn Error>> {
    let event = EventSpec {
        time: Some(("ts".parse()?, TimeUnit::Milliseconds)),
        ..EventSpec::of_item(vec!["ip".parse()?, "ad".parse()?])
    };
    // A window of one hour, events up to one minute late, 64 KiB of memory.
    let filter = TimingSpec::time(3_600_000, 60_000, 64 << 10)?;
    let plan = Arc::new(Plan {
        reader: Arc::new(Reader::new(event, HashKey::new(*b"a 128-bit secret"))?),
        max_skew_ms: 60_000,
        dedup: DedupSpec::new(FilterSpec::learning(filter, 1024)?, Seen::First),
        frequency: None,
        aggregates: Vec::new(),
    });

    let mut shard = Shard::new(plan.clone(), 0)?;
    for (offset, (timestamp_ms, payload)) in (0..).zip(RECORDS) {
        let outcome = shard.apply(Record { offset, timestamp_ms, payload: payload.as_bytes() });
        println!("{offset}: {:<9} {payload}", outcome.verdict.name());
    }

    let snapshot = shard.snapshot();
    let restored = Shard::restore(plan.clone(), 0, &snapshot)?;
    println!("restored {} bytes; next offset {}", snapshot.len(), restored.next().0);

    let subject = plan.reader.read_subject(RECORDS[4].1.as_bytes()).map_err(|reason| reason.description())?;
    println!("the last click again, without recording it: {}", restored.ask(&Question::about(subject))?.verdict.name());
    Ok(())
}
