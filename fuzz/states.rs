//! Encoded state: shards with every filter and sketch, and the frames of the store and of the snapshot topic.

use std::hint::black_box;
use std::sync::Arc;

use ebb::app;
use ebb::config::Config;
use ebb_core::{AggregateQuestion, KeyScope, LogDigest, Plan, QueryTime, Question, Record, Shard, Statistic};
use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::codec;
use ebb_sketch::decay::Decay;
use ebb_sketch::hash::HashKey;

use super::FuzzTarget;

/// Streams with one small view each.
const VIEWS: &[(&str, &str)] = &[
    ("timing", "dedup: {memory: 1KiB, window: 1m}"),
    ("timing-count", "dedup: {memory: 1KiB, window: 500 events, seen: last, prior: 0.01}"),
    ("timing-isolated", "dedup: {memory: 4KiB, window: 1m, isolate: 2}"),
    ("stable", "dedup: {memory: 1KiB, filter: stable}"),
    ("importance-2c", "dedup: {memory: 1KiB, filter: importance-2c}"),
    ("importance-mc", "dedup: {memory: 1KiB, filter: importance-mc}"),
    ("importance-h", "dedup: {memory: 1KiB, filter: importance-h}"),
    (
        "stable-posterior",
        "dedup: {memory: 1KiB, filter: stable, window: 100 events, penalty: {false_duplicate: 1, missed_duplicate: 1}}",
    ),
    (
        "importance-percentiles",
        "dedup: {memory: 1KiB, filter: importance-mc, importance_classes: percentiles, window: 100 events, \
         penalty: {false_duplicate: v, missed_duplicate: 1}}",
    ),
    ("classic", "dedup: {memory: 1KiB, filter: classic}"),
    ("frequency-forward", "frequency: {memory: 1KiB, half_life: 1m}"),
    ("frequency-basic", "frequency: {memory: 1KiB, half_life: 1m, method: basic}"),
    ("frequency-optimised", "frequency: {memory: 1KiB, half_life: 1m, method: optimised}"),
    ("aggregate-robust", "aggregates: {a: {of: value, epsilon: 0.5, delta: 0.5, horizon: 1h, top: country}}"),
    ("aggregate-keys", "aggregates: {a: {of: value, epsilon: 0.5, delta: 0.5, horizon: 1h, keys: 2}}"),
    (
        "aggregate-integral",
        "aggregates: {a: {of: count, method: integral, epsilon: 0.5, delta: 0.5, horizon: 1h, decay: 'window:1m'}}",
    ),
    (
        "aggregate-forward",
        "aggregates: {a: {of: value, method: forward, epsilon: 0.3, top: country, decay: 'exponential:half_life=1m'}}",
    ),
    (
        "aggregate-division",
        "aggregates: {a: {of: value, method: division, epsilon: 0.3, top: country, decay: 'exponential:half_life=1m'}}",
    ),
    ("aggregate-cascade", "aggregates: {a: {of: value, method: cascade, epsilon: 0.3, horizon: 1h, top: country}}"),
    ("aggregate-levels", "aggregates: {a: {of: value, method: levels, epsilon: 0.3, horizon: 1h}}"),
];

pub fn targets() -> Vec<Box<dyn FuzzTarget>> {
    let shards = VIEWS.iter().map(|(name, views)| Box::new(SnapshotTarget::new(name, views)) as Box<dyn FuzzTarget>);
    let sealed: [(&'static str, fn() -> Vec<Vec<u8>>, fn(&[u8])); 4] = [
        ("codec", codec_seeds, codec),
        ("checkpoint-manifest", ebb::store::fuzzed::manifest_seeds, |bytes| ebb::store::fuzzed::manifest(bytes)),
        ("journal-entry", ebb::store::fuzzed::entry_seeds, |bytes| ebb::store::fuzzed::entry(bytes)),
        ("snapshot-manifest", ebb::workers::fuzzed::manifest_seeds, |bytes| ebb::workers::fuzzed::manifest(bytes)),
    ];
    let sealed =
        sealed.into_iter().map(|(name, seeds, run)| Box::new(FrameTarget { name, seeds, run }) as Box<dyn FuzzTarget>);
    let kafka = Box::new(KafkaCheckpointTarget(SnapshotTarget::new("timing", VIEWS[0].1)));
    let exports = VIEWS.iter().filter(|(name, _)| name.starts_with("aggregate-"));
    let exports =
        exports.map(|(name, views)| Box::new(ExportTarget(SnapshotTarget::new(name, views))) as Box<dyn FuzzTarget>);
    sealed.chain([kafka as Box<dyn FuzzTarget>]).chain(shards).chain(exports).collect()
}

struct FrameTarget {
    name: &'static str,
    seeds: fn() -> Vec<Vec<u8>>,
    run: fn(&[u8]),
}

impl FuzzTarget for FrameTarget {
    fn name(&self) -> String {
        self.name.into()
    }

    fn weight(&self) -> u32 {
        20
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    fn run(&self, bytes: &[u8]) {
        (self.run)(bytes);
    }
}

fn codec_seeds() -> Vec<Vec<u8>> {
    let mut writer = codec::Writer::new(*b"fuzz", 1);
    [0, 1, 127, 128, 1 << 40, u64::MAX].into_iter().for_each(|value| writer.varint(value));
    writer.bytes(b"some bytes");
    writer.f64(0.5);
    writer.i64(-1);
    vec![writer.seal()]
}

/// Reads values to the end; the first byte of the rest selects the type of the next one.
fn codec(bytes: &[u8]) {
    let Ok(mut reader) = codec::Reader::open(*b"fuzz", 1, bytes) else { return };
    while let Ok(choice) = reader.u8() {
        let read = match choice % 9 {
            0 => reader.varint().map(drop),
            1 => reader.bytes().map(drop),
            2 => reader.count(usize::from(choice)).map(drop),
            3 => reader.u32().map(drop),
            4 => reader.u64().map(drop),
            5 => reader.u128().map(drop),
            6 => reader.i64().map(drop),
            7 => reader.f64().map(drop),
            _ => reader.raw(usize::from(choice)).map(drop),
        };
        if read.is_err() {
            return;
        }
    }
    reader.finish().expect("no bytes are left");
}

/// Snapshots of a shard with one view.
struct SnapshotTarget {
    name: &'static str,
    plan: Arc<Plan>,
}

fn payload(number: u64) -> String {
    let (item, country) = (number * number % 37, ["de", "fr", "us"][number as usize % 3]);
    let value = number % 11;
    format!(
        r#"{{"id":{item},"t":{},"v":{value},"tier":{},"country":"{country}","k":"k{}"}}"#,
        1000 + 700 * number,
        number % 4,
        number % 5
    )
}

impl SnapshotTarget {
    fn new(name: &'static str, views: &str) -> Self {
        // The default filter is too large for fuzzing.
        let dedup = if views.starts_with("dedup") { "" } else { "dedup: {memory: 1KiB, filter: classic}\n    " };
        let text = format!(
            "streams:\n  s:\n    event: {{item: [id], key: k, time: t, value: v, importance: tier}}\n    {dedup}{views}\n"
        );
        let config = Config::parse(&text, [], |_, _| Ok(())).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        let plan = app::plan(&config.streams["s"], &config.limits, &HashKey::new([3; 16]));
        Self { name, plan: plan.unwrap_or_else(|error| panic!("{name}: {error:#}")) }
    }

    fn shard(&self, records: u64) -> Shard {
        let mut shard = Shard::new(self.plan.clone(), 0).expect("a small shard");
        (0..records).for_each(|number| fold(&mut shard, number));
        shard
    }

    /// Uses a decoded shard: encodes it to the same bytes again, applies records, and queries it.
    fn exercise(&self, mut shard: Shard) {
        let again = shard.snapshot();
        let restored = Shard::restore(self.plan.clone(), 0, &again).expect("an encoded shard can be decoded");
        assert_eq!(restored.snapshot(), again, "equal states have equal bytes");
        let subject = shard.plan().reader.read_subject(payload(5).as_bytes()).expect("a subject");
        black_box(shard.ask(&Question::about(subject)).ok());
        (0..3).for_each(|number| fold(&mut shard, number * 7));
        black_box(shard.status());
        let decays = [None, "window:30s".parse::<Decay>().ok(), "exponential:half_life=1m".parse::<Decay>().ok()];
        let top = Statistic::Top { phi: 0.2, mode: TopMode::NoFalseNegatives };
        for statistic in [Statistic::Sum, Statistic::Mean, Statistic::Quantiles(vec![0.5]), Statistic::Rank(3.0), top] {
            for decay in decays.clone() {
                let (aggregate, scope, statistic) = ("a".to_string(), KeyScope::Whole, statistic.clone());
                let time = QueryTime::Newest;
                black_box(
                    shard.aggregate(&AggregateQuestion { aggregate, scope, decay, last: None, time, statistic }).ok(),
                );
            }
        }
    }
}

fn fold(shard: &mut Shard, number: u64) {
    let payload = payload(number);
    let offset = shard.next().0;
    if offset < u64::MAX {
        shard.apply(Record { offset, timestamp_ms: 1000 + 700 * number as i64, payload: payload.as_bytes() });
    }
}

impl FuzzTarget for SnapshotTarget {
    fn name(&self) -> String {
        format!("snapshot-{}", self.name)
    }

    fn weight(&self) -> u32 {
        1
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        [0, 3, 60].map(|records| self.shard(records).snapshot()).into()
    }

    fn run(&self, bytes: &[u8]) {
        if let Ok(shard) = Shard::restore(self.plan.clone(), 0, bytes) {
            self.exercise(shard);
        }
    }
}

/// Checkpoints of a Kafka partition: a shard with the identity of its log.
struct KafkaCheckpointTarget(SnapshotTarget);

impl FuzzTarget for KafkaCheckpointTarget {
    fn name(&self) -> String {
        "kafka-checkpoint".into()
    }

    fn weight(&self) -> u32 {
        1
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        self.0.seeds().iter().map(|snapshot| ebb::workers::fuzzed::checkpoint_seed(snapshot)).collect()
    }

    fn run(&self, bytes: &[u8]) {
        if let Ok(shard) = ebb::workers::fuzzed::checkpoint(self.0.plan.clone(), bytes) {
            self.0.exercise(shard);
        }
    }
}

/// Concatenated exports of an aggregate.
struct ExportTarget(SnapshotTarget);

impl FuzzTarget for ExportTarget {
    fn name(&self) -> String {
        format!("export-{}", self.0.name)
    }

    fn weight(&self) -> u32 {
        2
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let exported = |records| {
            let question = AggregateQuestion::for_export("a", KeyScope::Whole);
            let part = self.0.shard(records).partial_aggregate(&question).expect("the aggregate exists");
            self.0
                .plan
                .export("a", KeyScope::Whole, (LogDigest([7; 16]), 3), vec![part])
                .expect("the aggregate can be exported")
        };
        let (few, many) = (exported(3), exported(60));
        vec![[few.as_slice(), &many].concat(), few, many]
    }

    fn run(&self, bytes: &[u8]) {
        black_box(self.0.plan.merge_exports("a", bytes).is_ok());
    }
}
