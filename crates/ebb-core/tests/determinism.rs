//! F1: the same log gives the same bytes, whatever the batch sizes, crashes and restarts.

use std::sync::Arc;

use ebb_core::{
    AggregateParameters, AggregateSpec, DedupSpec, EventSpec, FilterSpec, Measure, Method, Outcome, Plan, Reader,
    Record, Seen, Selection, Shard, TimeUnit, Weighting,
};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;
use ebb_sketch::random::Random;

const RECORDS: u64 = 6_000;
const CUTS: u64 = 240;

fn plan(seen: Seen, filter: TimingSpec) -> Arc<Plan> {
    let event = EventSpec {
        key: Some("campaign".parse().unwrap()),
        time: Some(("ts".parse().unwrap(), TimeUnit::Milliseconds)),
        ..EventSpec::of_item(vec!["ip".parse().unwrap(), "ad".parse().unwrap()])
    };
    let reader = Arc::new(Reader::new(event, HashKey::new([3; 16])).unwrap());
    Arc::new(Plan {
        reader,
        max_skew_ms: 60_000,
        dedup: DedupSpec::new(FilterSpec::learning(filter, 64).expect("a valid prior"), seen),
        frequency: None,
        aggregates: Vec::new(),
    })
}

/// An aggregate of every method by key, with labels that never repeat, so that keys are evicted and label texts pruned.
fn aggregating() -> Arc<Plan> {
    let path = |path: &str| path.parse().unwrap();
    let event = EventSpec {
        key: Some(path("campaign")),
        time: Some((path("ts"), TimeUnit::Milliseconds)),
        numbers: vec![path("ad")],
        labels: vec![path("ts")],
        ..EventSpec::of_item(vec![path("ip"), path("ad")])
    };
    let aggregate = |method: Method| {
        AggregateSpec::new(AggregateParameters {
            name: method.name().into(),
            of: Measure::Number(0),
            over: Selection::All,
            method,
            epsilon: 0.25,
            delta: 0.05,
            decay: Some("exponential:half_life=10s".parse().unwrap()),
            horizon_ms: 60_000,
            keys: Some(2),
            memory: None,
            top: Some(0),
            step: 0.5,
            max: 8.0,
            weights: Weighting::Unit,
            seed: 1,
        })
        .unwrap()
    };
    let plan = plan(Seen::First, TimingSpec::time(60_000, 10_000, 8 << 10).unwrap());
    let reader = Arc::new(Reader::new(event, HashKey::new([3; 16])).unwrap());
    Arc::new(Plan { reader, aggregates: Method::ALL.map(aggregate).into(), ..(*plan).clone() })
}

/// Time and count windows, measured from the first and from the last sighting.
fn plans() -> Vec<Arc<Plan>> {
    let time = TimingSpec::time(60_000, 10_000, 8 << 10).unwrap();
    let count = TimingSpec::count(1_000, 8 << 10).unwrap();
    [(Seen::First, time), (Seen::Last, time), (Seen::First, count), (Seen::Last, count)]
        .into_iter()
        .map(|(seen, filter)| plan(seen, filter))
        .collect()
}

/// A log with repeats, disorder, late and future events, offset gaps and malformed payloads.
fn log() -> Vec<(u64, i64, Vec<u8>)> {
    let mut random = Random::new(11);
    let (mut offset, mut now) = (0, 1_700_000_000_000i64);
    (0..RECORDS)
        .map(|_| {
            offset += 1 + random.below(2) * random.below(3);
            now += random.below(120) as i64;
            let late = match random.below(20) {
                0 => random.below(200_000) as i64,
                1 => -(random.below(200_000) as i64),
                _ => random.below(5_000) as i64,
            };
            let payload = match random.below(50) {
                0 => b"{\"ip\":".to_vec(),
                1 => Vec::new(),
                _ => {
                    let (ip, ad, campaign) = (random.below(300), random.below(3), random.below(4));
                    format!(r#"{{"ip":"10.0.0.{ip}","ad":{ad},"campaign":"c{campaign}","ts":{}}}"#, now - late)
                        .into_bytes()
                }
            };
            (offset, now, payload)
        })
        .collect()
}

fn records(log: &[(u64, i64, Vec<u8>)]) -> Vec<Record<'_>> {
    log.iter()
        .map(|(offset, timestamp_ms, payload)| Record { offset: *offset, timestamp_ms: *timestamp_ms, payload })
        .collect()
}

fn uninterrupted(plan: &Arc<Plan>, log: &[Record<'_>]) -> (Vec<Outcome>, Vec<u8>) {
    let mut shard = Shard::new(plan.clone(), 5).unwrap();
    let outcomes = log.iter().map(|record| shard.apply(*record)).collect();
    (outcomes, shard.snapshot())
}

#[test]
fn verdicts_and_bytes_do_not_depend_on_batch_sizes() {
    let log = log();
    let log = records(&log);
    for plan in plans() {
        let (expected, bytes) = uninterrupted(&plan, &log);
        for seed in 0..8 {
            let mut random = Random::new(seed);
            let mut shard = Shard::new(plan.clone(), 5).unwrap();
            let (mut rest, mut outcomes) = (&log[..], Vec::new());
            while !rest.is_empty() {
                let (batch, after) = rest.split_at((1 + random.below(200) as usize).min(rest.len()));
                shard.apply_batch(batch, &mut outcomes);
                rest = after;
            }
            assert_eq!(outcomes, expected, "verdicts of split {seed}");
            assert_eq!(shard.snapshot(), bytes, "bytes of split {seed}");
        }
    }
}

#[test]
fn replay_after_a_crash_gives_the_same_verdicts_and_bytes() {
    let log = log();
    let log = records(&log);
    let mut cuts = 0;
    for plan in plans() {
        let (expected, bytes) = uninterrupted(&plan, &log);
        for seed in 0..CUTS / 4 {
            let mut random = Random::new(1_000 + seed);
            let kept_at = random.below(RECORDS) as usize;
            let crashed_at = kept_at + random.below(RECORDS - kept_at as u64) as usize;
            let mut shard = Shard::new(plan.clone(), 5).unwrap();
            log[..kept_at].iter().for_each(|record| _ = shard.apply(*record));
            let kept = shard.snapshot();
            // State after the checkpoint is lost with the process.
            log[kept_at..crashed_at].iter().for_each(|record| _ = shard.apply(*record));
            let mut restarted = Shard::restore(plan.clone(), 5, &kept).unwrap();
            assert_eq!(restarted.snapshot(), kept, "restoring does not change the bytes");
            let outcomes: Vec<Outcome> = log[kept_at..].iter().map(|record| restarted.apply(*record)).collect();
            assert_eq!(outcomes, expected[kept_at..], "verdicts after a cut at {kept_at}");
            assert_eq!(restarted.snapshot(), bytes, "bytes after a cut at {kept_at}");
            cuts += 1;
        }
    }
    assert!(cuts >= 200, "{cuts} cuts");
}

#[test]
fn aggregates_of_every_method_are_unchanged_by_restarts() {
    let log = log();
    let log = records(&log);
    let plan = aggregating();
    let (_, bytes) = uninterrupted(&plan, &log);
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let mut shard = Shard::new(plan.clone(), 5).unwrap();
        let mut rest = &log[..];
        while !rest.is_empty() {
            let (batch, after) = rest.split_at((1 + random.below(1_000) as usize).min(rest.len()));
            shard.apply_batch(batch, &mut Vec::new());
            let kept = shard.snapshot();
            shard = Shard::restore(plan.clone(), 5, &kept).unwrap();
            assert!(shard.snapshot() == kept, "restoring does not change the bytes");
            rest = after;
        }
        assert!(shard.snapshot() == bytes, "bytes of split {seed}");
        for status in shard.status().aggregates {
            let keys = status.keys.unwrap();
            let has_horizon = !["integral", "forward"].contains(&status.name.as_str());
            assert!(keys.other_events > 100 && (status.refused[3] > 0) == has_horizon, "{status:?}");
            assert!(status.events > 2_000 && status.texts < status.events / 2, "{status:?}");
        }
    }
}

#[test]
fn test_log_contains_every_kind_of_verdict() {
    // A log without duplicates, late and malformed records would make the other tests meaningless.
    let log = log();
    let (outcomes, _) = uninterrupted(&plans()[0], &records(&log));
    for name in ["unique", "duplicate", "late", "rejected"] {
        assert!(outcomes.iter().filter(|outcome| outcome.verdict.name() == name).count() > 50, "{name}");
    }
}

#[test]
fn golden_bytes_of_snapshots_are_unchanged() {
    // Digest of the state after the whole log. It may change only together with the version of a block.
    let log = log();
    let log = records(&log);
    let hashes: Vec<String> =
        plans().iter().map(|plan| blake3::hash(&uninterrupted(plan, &log).1).to_hex()[..16].to_string()).collect();
    assert_eq!(hashes, ["d272e6c5b3cad020", "c2eae404c27d18f7", "fd7932109b2a36aa", "097ad225b39e15e2"]);
}
