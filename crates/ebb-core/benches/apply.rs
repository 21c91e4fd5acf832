//! Records per second on one core: 180 bytes of JSON in, a verdict of the dedup view out.

#[path = "../../ebb-sketch/benches/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput};
use ebb_core::{DedupSpec, EventSpec, FilterSpec, Plan, Reader, Record, Seen, Shard, TimeUnit};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;
use ebb_sketch::random::Random;
use support::{Peer, race};

const EVENTS: usize = 100_000;
const ROUNDS: u32 = 7;

fn plan() -> Arc<Plan> {
    let path = |text: &str| text.parse().expect("a valid path");
    let event = EventSpec {
        key: Some(path("campaign")),
        time: Some((path("ts"), TimeUnit::Milliseconds)),
        id: Some(path("click_id")),
        value: Some(path("cost")),
        ..EventSpec::of_item(vec![path("ip"), path("ad"), path("user")])
    };
    let reader = Reader::new(event, HashKey::new([7; 16])).expect("a valid specification");
    let filter = TimingSpec::time(86_400_000, 600_000, 64 << 20).expect("a valid filter");
    Arc::new(Plan {
        reader: Arc::new(reader),
        max_skew_ms: 60_000,
        dedup: DedupSpec::new(FilterSpec::learning(filter, 4096).expect("a valid prior"), Seen::First),
        frequency: None,
        aggregates: Vec::new(),
    })
}

/// Clicks of about 180 bytes; one in five is a repeat.
fn payloads() -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let mut clicks: Vec<Vec<u8>> = Vec::with_capacity(EVENTS);
    for n in 0..EVENTS as u64 {
        if n > 100 && random.below(5) == 0 {
            let repeat = clicks[(n - 1 - random.below(100)) as usize].clone();
            clicks.push(repeat);
            continue;
        }
        let (a, b, user) = (random.below(256), random.below(256), random.below(1_000_000));
        clicks.push(
            format!(
                r#"{{"click_id":"{:016x}","ts":{},"ip":"203.0.{a}.{b}","ad":"ad-{:05}","user":"u{user:07}","campaign":"c{:03}","tier":2,"cost":0.0412,"agent":"Mozilla/5.0","ref":"/news/1"}}"#,
                random.next_u64(),
                1_700_000_000_000 + n,
                random.below(5_000),
                random.below(500),
            )
            .into_bytes(),
        );
    }
    clicks
}

fn records(payloads: &[Vec<u8>]) -> Vec<Record<'_>> {
    payloads
        .iter()
        .enumerate()
        .map(|(n, payload)| Record { offset: n as u64, timestamp_ms: 1_700_000_000_000 + n as i64, payload })
        .collect()
}

fn main() {
    let payloads = payloads();
    let bytes = payloads.iter().map(Vec::len).sum::<usize>() / payloads.len();
    let records = records(&payloads);
    let plan = plan();
    let fresh = Shard::new(plan.clone(), 0).expect("a shard");

    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    let mut group = criterion.benchmark_group("apply");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("from JSON bytes", |bencher| {
        let run = |mut shard: Shard| {
            let mut outcomes = Vec::with_capacity(EVENTS);
            shard.apply_batch(black_box(&records), &mut outcomes);
            (shard, outcomes)
        };
        bencher.iter_batched(|| fresh.clone(), run, BatchSize::LargeInput);
    });
    group.finish();

    // Clones have touched their memory, so that page faults are not measured.
    let mut shards: Vec<Shard> = (0..ROUNDS).map(|_| fresh.clone()).collect();
    let (mut outcomes, mut used) = (Vec::with_capacity(EVENTS), Vec::new());
    let names = race(
        &format!("one record of {bytes} bytes, one core"),
        ROUNDS,
        vec![
            Peer::new("serde_json: validate only (IgnoredAny)", EVENTS as u64, || {
                for payload in &payloads {
                    black_box(serde_json::from_slice::<serde::de::IgnoredAny>(payload).expect("valid JSON"));
                }
            }),
            Peer::new("serde_json: a tree (Value)", EVENTS as u64, || {
                for payload in &payloads {
                    black_box(serde_json::from_slice::<serde_json::Value>(payload).expect("valid JSON"));
                }
            }),
            Peer::new("read: JSON to event, hashed", EVENTS as u64, || {
                for payload in &payloads {
                    black_box(plan.reader.read(payload).expect("an event"));
                }
            }),
            Peer::new("apply: JSON to verdict, 64 MiB filter", EVENTS as u64, || {
                let mut shard = shards.pop().expect("a shard for each round");
                outcomes.clear();
                shard.apply_batch(&records, &mut outcomes);
                used.push(shard);
            }),
        ],
    );
    println!("\napplies per second and core: {:.2} M (target: at least 1 M)", 1e3 / names[3]);
}
