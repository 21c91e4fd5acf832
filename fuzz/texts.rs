//! Parsers of texts from users, clients and event producers.

use std::hint::black_box;
use std::sync::LazyLock;

use ebb::config::Config;
use ebb_core::{EventSpec, Path, Reader, TimeUnit};
use ebb_sketch::aggregate::predicate::Predicate;
use ebb_sketch::decay::Decay;
use ebb_sketch::hash::HashKey;
use ebb_traffic::{Traffic, TrafficOptions};

use super::FuzzTarget;

struct TextTarget {
    name: &'static str,
    weight: u32,
    seeds: fn() -> Vec<Vec<u8>>,
    run: fn(&[u8]),
}

impl FuzzTarget for TextTarget {
    fn name(&self) -> String {
        self.name.into()
    }

    fn weight(&self) -> u32 {
        self.weight
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    fn run(&self, bytes: &[u8]) {
        (self.run)(bytes);
    }
}

pub fn targets() -> Vec<Box<dyn FuzzTarget>> {
    fn text(name: &'static str, weight: u32, seeds: fn() -> Vec<Vec<u8>>, run: fn(&[u8])) -> TextTarget {
        TextTarget { name, weight, seeds, run }
    }
    let texts = [
        text("durations", 20, || words(&["24h", "1h30m", "0.5s", "250ms", "7d", "1w2d"]), durations),
        text("sizes", 20, || words(&["64MiB", "1.5GB", "512B", "9Gi", "1e3B"]), sizes),
        text("decays", 20, decay_seeds, decays),
        text("predicates", 20, predicate_seeds, predicates),
        text("paths", 20, || words(&["user.id", "a\\.b.c", "", ".", "\\\\"]), paths),
        text("events", 10, event_seeds, events),
        text("configuration", 1, configuration_seeds, configuration),
        text("decide-body", 20, body_seeds, |bytes| _ = black_box(ebb::http::fuzzed::decide(bytes))),
        text("tokens", 20, token_seeds, ebb::http::fuzzed::tokens),
        text("at-least", 20, || words(&["17", "0:17,3:5", "4:"]), ebb::http::fuzzed::at_least),
        text("aggregate-query", 20, query_seeds, ebb::http::fuzzed::query),
    ];
    texts.into_iter().map(|text| Box::new(text) as Box<dyn FuzzTarget>).collect()
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn with_text(bytes: &[u8], run: impl Fn(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        run(text);
    }
}

/// A displayed value parses to itself.
fn durations(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Ok(ms) = ebb_sketch::units::parse_duration_ms(text) {
            assert_eq!(ebb_sketch::units::parse_duration_ms(&ebb_sketch::units::DurationMs(ms).to_string()), Ok(ms));
        }
    });
}

fn sizes(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Ok(bytes) = ebb_sketch::units::parse_bytes(text) {
            assert_eq!(ebb_sketch::units::parse_bytes(&ebb_sketch::units::Bytes(bytes).to_string()), Ok(bytes));
        }
    });
}

fn decay_seeds() -> Vec<Vec<u8>> {
    words(&[
        "window:10m",
        "exponential:half_life=10m",
        "exponential:rate=0.001",
        "polynomial:alpha=1.5,unit=1s",
        "table:0s=1,1m=0.5,1h=0.1",
    ])
}

fn decays(bytes: &[u8]) {
    with_text(bytes, |text| {
        let Ok(decay) = text.parse::<Decay>() else { return };
        for age_ms in [0, 1, 1000, 86_400_000, u64::MAX] {
            let weight = decay.weight(age_ms);
            assert!((0.0..=1.0).contains(&weight), "{text}: weight {weight} at {age_ms}");
        }
        // A rate is displayed per second and stored per millisecond: the last digit may differ.
        let again: Decay = decay.to_string().parse().unwrap_or_else(|error| panic!("{text}: {decay}: {error}"));
        assert!((again.weight(1000) - decay.weight(1000)).abs() < 1e-9, "{text}: {decay}");
    });
}

fn predicate_seeds() -> Vec<Vec<u8>> {
    words(&["value >= 10", "value>0.1 and value<5", "(weight = 1 or value != 3) and value <= 7", "((value<1))"])
}

fn predicates(bytes: &[u8]) {
    with_text(bytes, |text| {
        let Ok(predicate) = text.parse::<Predicate>() else { return };
        black_box(predicate.matches(3, 1));
        black_box(predicate.to_string());
    });
}

fn paths(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Ok(path) = text.parse::<Path>() {
            assert_eq!(path.to_string().parse::<Path>().ok(), Some(path), "{text}");
        }
    });
}

fn event_seeds() -> Vec<Vec<u8>> {
    let clicks = Traffic::new(1, TrafficOptions::default()).expect("the defaults are valid");
    let mut seeds: Vec<Vec<u8>> = clicks.take(8).map(|click| click.json).collect();
    seeds.extend(words(&[
        r#"{"ip":"a","ad":1,"ts":"2026-11-16T05:00:00Z","cost":1e3,"deep":{"a":[1,{"b":null}]}}"#,
        r#"{"ip":"\ud83d\ude00\u0041","ad":-0.0,"ts":1.5,"cost":"x"}"#,
        "[]",
        "null",
    ]));
    seeds
}

/// Parses the bytes with readers of different time units.
fn events(bytes: &[u8]) {
    static READERS: LazyLock<Vec<Reader>> = LazyLock::new(|| {
        let path = |text: &str| text.parse().expect("a path");
        let units = [TimeUnit::Milliseconds, TimeUnit::Nanoseconds, TimeUnit::Rfc3339];
        let spec = |unit| EventSpec {
            key: Some(path("campaign")),
            time: Some((path("ts"), unit)),
            id: Some(path("click_id")),
            value: Some(path("cost")),
            importance: Some(path("tier")),
            numbers: vec![path("cost"), path("deep.a")],
            labels: vec![path("country")],
            ..EventSpec::of_item(vec![path("ip"), path("ad")])
        };
        units.map(|unit| Reader::new(spec(unit), HashKey::new([7; 16])).expect("a reader")).into()
    });
    for reader in READERS.iter() {
        black_box(reader.read(bytes).ok());
        black_box(reader.read_subject(bytes).ok());
    }
}

fn configuration_seeds() -> Vec<Vec<u8>> {
    let mut seeds = words(&[
        "streams:\n  clicks: {event: {item: [ip, ad]}}\n",
        "kafka: {brokers: \"k:9092\", group: ebb}\nstreams: {a: {event: {item: [x]}, dedup: {window: 1h, error: 0.01, rate: 5}}}\n",
        "streams: {a: {event: {item: [x], time: {path: t, unit: s}}, aggregates: {s: {of: value, method: division, decay: \"window:1h\"}}}}\n",
    ]);
    seeds.push(Config::reference().into_bytes());
    seeds
}

fn configuration(bytes: &[u8]) {
    with_text(bytes, |text| match Config::parse(text, [], |_, _| Ok(())) {
        Ok(config) => {
            let effective = config.effective();
            assert!(Config::parse(&effective, [], |_, _| Ok(())).is_ok(), "{text}\nbecame\n{effective}");
        }
        Err(errors) => drop(black_box(errors.to_string())),
    });
}

fn body_seeds() -> Vec<Vec<u8>> {
    words(&[
        r#"{"event":{"ip":"a"},"window":"10m","penalty":{"false_duplicate":0.4,"missed_duplicate":0.05},"prior":0.001}"#,
        r#"{"events":[{"ip":"a"},{"ip":"b"}],"record":true,"partition":3}"#,
        r#"{"event":{"ip":"a"},"window":"100 events","at_least":7}"#,
    ])
}

fn query_seeds() -> Vec<Vec<u8>> {
    words(&[
        "decay=window:10m&key=cmp-0000&phi=0.5,0.99",
        "value=0.05",
        "where=value%3E0.1%20and%20value%3C5&decay=exponential:half_life=1h",
        "phi=0.05&mode=no-false-positives&part=other",
    ])
}

fn token_seeds() -> Vec<Vec<u8>> {
    words(&[
        "# who may ask\nbilling write 0123456789abcdef0123456789abcdef\nwatch read abcdefghij-klmnop._~+/==\n",
        "a read sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n",
    ])
}
