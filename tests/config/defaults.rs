//! `ebb config` prints the value in force of every key, whether it is configured, a constant default or derived from
//! other keys.

use ebb::config::dedup::{FilterSizing, WindowConfig};
use ebb_sketch::units::{Bytes, DurationMs};

use crate::{TWO_LINES, parse};

/// What `ebb config` prints for a stream with these keys.
fn effective(keys: &str) -> String {
    parse(&format!("streams: {{s: {{{keys}}}}}")).unwrap().effective()
}

fn assert_prints(keys: &str, expected: &[&str], absent: &[&str]) {
    let printed = effective(keys);
    let lines: Vec<&str> = printed.lines().map(str::trim).collect();
    for line in expected {
        assert!(lines.contains(line), "{keys}: expected {line:?} in\n{printed}");
    }
    for key in absent {
        assert!(
            !lines.iter().any(|line| line.starts_with(&format!("{key}:"))),
            "{keys}: unexpected {key} in\n{printed}"
        );
    }
}

#[test]
fn two_line_file_prints_every_derived_default() {
    let expected = [
        "topic: s",
        "window: 1d",
        "memory: 64MiB",
        "lateness: 3h",
        "filter: timing",
        "bits: 4",
        "cells: 4",
        "blocks: 12",
    ];
    assert_prints("event: {item: ip}", &expected, &["error", "decrements"]);
}

#[test]
fn defaults_of_the_timing_layout_follow_the_configured_keys() {
    let stream = |dedup: &str| format!("event: {{item: ip}}, dedup: {{{dedup}}}");
    assert_prints(&stream("window: 80m"), &["lateness: 10m"], &[]);
    assert_prints(&stream("bits: 5"), &["bits: 5", "cells: 4", "blocks: 28"], &[]);
    assert_prints(&stream("cells: 7, rate: 10"), &["bits: 4", "cells: 7", "blocks: 12"], &[]);
    assert_prints(&stream("window: 1000 events, bits: 4"), &["cells: 4", "blocks: 12"], &["lateness"]);
}

#[test]
fn layout_planned_from_expected_traffic_is_not_printed() {
    for dedup in ["rate: 2000", "items: 100000", "error: 0.01, rate: 2000", "window: 1000 events"] {
        let keys = format!("event: {{item: ip}}, dedup: {{{dedup}}}");
        assert_prints(&keys, &[], &["bits", "cells", "blocks"]);
    }
}

#[test]
fn filters_without_timers_print_their_own_defaults() {
    let stream = |dedup: &str| format!("event: {{item: ip, importance: t}}, dedup: {{{dedup}}}");
    for filter in ["stable", "importance-2c", "importance-mc", "importance-h"] {
        let expected = ["bits: 3", "cells: 4", "seen: last", "importance_max: 10"];
        assert_prints(&stream(&format!("filter: {filter}")), &expected, &["lateness", "blocks", "missed", "error"]);
        let sized = format!("filter: {filter}, missed: 0.05, window: 1000 events");
        assert_prints(&stream(&sized), &["missed: 0.05", "error: 0.01"], &["bits", "cells", "memory", "decrements"]);
    }
    assert_prints(&stream("filter: classic"), &["cells: 4", "seen: first"], &["bits", "lateness", "blocks"]);
    let sized = "filter: classic, error: 0.000001, items: 1000";
    assert_prints(&stream(sized), &["error: 0.000001"], &["cells", "bits", "memory"]);
    let classes = "filter: importance-mc, importance_classes: {gold: 3, silver: 2}";
    assert_prints(&stream(classes), &["importance_max: 3", "gold: 3"], &[]);
}

#[test]
fn swept_frequency_counters_print_their_epoch() {
    let stream = |frequency: &str| format!("event: {{item: ip}}, frequency: {{{frequency}}}");
    assert_prints(&stream("method: basic, half_life: 16m"), &["epoch: 1m"], &[]);
    assert_prints(&stream("half_life: 16m"), &["method: forward"], &["epoch", "carry"]);
    assert_prints(&stream("half_life: 16m, answer: normalised"), &["epoch: 1m", "answer: normalised"], &["carry"]);
    assert_prints(&stream("method: optimised, pool: 7"), &["carry: each", "pool: 7"], &["digit_bits"]);
}

#[test]
fn two_line_file_is_a_complete_configuration() {
    let config = parse(TWO_LINES).unwrap();
    let clicks = &config.streams["clicks"];
    assert_eq!(clicks.topic, "clicks");
    assert_eq!(clicks.dedup.window, WindowConfig::Time(DurationMs(86_400_000)));
    assert_eq!(clicks.dedup.sizing(), FilterSizing::Memory(Bytes(64 << 20)));
    assert_eq!(config.http.max_body, Bytes(8 << 20));
    assert_eq!(config.hash_key_file, config.data_dir.join("hash.key"));
    assert!(config.kafka.is_none());
    assert!((1..=256).contains(&config.workers));
    let one_field = parse("streams: {clicks: {event: {item: ip}}}").unwrap();
    assert_eq!(one_field.streams["clicks"].event.item[0].segments(), ["ip"]);
}

#[test]
fn topic_names_may_contain_the_stream_name() {
    let output = "output: {unique: <stream>.unique, late: late-<stream>}";
    let config =
        parse(&format!("kafka: {{brokers: 'k:9092'}}\nstreams: {{clicks: {{event: {{item: ip}}, {output}}}}}"))
            .unwrap();
    let topics: Vec<_> = config.streams["clicks"].output.as_ref().unwrap().topics().collect();
    assert_eq!(topics, [("unique", "clicks.unique"), ("late", "late-clicks")]);
}
