//! Every metric of the service, declared once: what is exported and what `ebb metrics` documents come from here. Labels
//! come from closed sets only: streams, partitions, aggregates, verdicts, reasons, routes. Names of items and keys never
//! become labels.

mod declare;

pub use declare::{MetricDescription, MetricKind};

use declare::Declare;
use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

const SHARD: [&str; 2] = ["stream", "partition"];
const AGGREGATE: [&str; 3] = ["stream", "partition", "aggregate"];

/// All metrics, shared by reference.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    pub shards: ShardMetrics,
    pub events: IntCounterVec,
    pub rejected: IntCounterVec,
    pub decisions: IntCounterVec,
    pub checkpoint_time: GaugeVec,
    pub checkpoint_bytes: IntGaugeVec,
    pub checkpoint_failures: IntCounter,
    pub checkpoint_seconds: Histogram,
    pub journal_seconds: Histogram,
    pub journal_failures: IntCounter,
    pub store_bytes: IntGauge,
    pub store_set_aside: IntCounter,
    pub apply_seconds: Histogram,
    pub answer_seconds: Histogram,
    pub queue_depth: IntGaugeVec,
    pub transaction_seconds: Histogram,
    pub commits: IntCounter,
    pub aborts: IntCounter,
    pub rebalances: IntCounterVec,
    pub restore_seconds: Histogram,
    pub snapshots: IntCounter,
    pub ready: IntGauge,
    pub http_requests: IntCounterVec,
    pub http_seconds: HistogramVec,
    pub http_connections: IntGauge,
    pub http_refused: IntCounter,
    pub http_timeouts: IntCounterVec,
    pub http_refusals: IntCounterVec,
    pub http_handshake_failures: IntCounter,
    pub http_reload_failures: IntCounterVec,
}

/// What is told of a shard by the instance that owns it.
#[derive(Debug, Clone)]
pub struct ShardMetrics {
    pub lag: IntGaugeVec,
    pub event_time: GaugeVec,
    pub clock_skew: GaugeVec,
    pub fill: GaugeVec,
    pub false_duplicates: GaugeVec,
    pub trusted: IntGaugeVec,
    pub calibration_error: GaugeVec,
    pub isolated_keys: IntGaugeVec,
    pub previous_key_needed: IntGaugeVec,
    pub exhausted_counts: IntGaugeVec,
    pub state_bytes: IntGaugeVec,
    pub aggregate_events: IntGaugeVec,
    pub aggregate_refused: IntGaugeVec,
    pub aggregate_keys: IntGaugeVec,
    pub aggregate_waiting: IntGaugeVec,
    pub aggregate_evicted: IntGaugeVec,
    pub aggregate_other: IntGaugeVec,
    pub aggregate_bytes: IntGaugeVec,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        Self::declare(&Declare::new())
    }

    /// Every metric with its type, labels, unit and meaning, in the order of declaration.
    pub fn describe() -> Vec<MetricDescription> {
        let d = Declare::new();
        Self::declare(&d);
        d.described()
    }

    fn declare(d: &Declare) -> Self {
        d.info("build_info", "Always 1; the version is a label.", ("version", env!("CARGO_PKG_VERSION")));
        Self {
            ready: d.gauge("ready", "1 when every shard is restored and answers."),
            events: d.counters("events_total", "Records folded, by verdict.", &["stream", "verdict"]),
            rejected: d.counters("rejected_total", "Records rejected, by reason.", &["stream", "reason"]),
            decisions: d.counters(
                "decisions_total",
                "Decisions about recorded events, by what they rest on; learning and miscalibrated fall back to the standard answer.",
                &["stream", "basis"],
            ),
            shards: ShardMetrics::declare(d),
            checkpoint_time: d.reals(
                "checkpoint_timestamp_seconds",
                "When the newest checkpoint of the shard was stored; its age is time() minus this.",
                &SHARD,
            ),
            checkpoint_bytes: d.gauges("checkpoint_bytes", "Size of the newest checkpoint.", &SHARD),
            checkpoint_failures: d.counter("checkpoint_failures_total", "Checkpoints that could not be stored."),
            checkpoint_seconds: d.latency("checkpoint_duration_seconds", "Time to store one checkpoint."),
            journal_seconds: d.latency("journal_duration_seconds", "Time to journal one group of events."),
            journal_failures: d.counter("journal_failures_total", "Groups of events that could not be journalled."),
            store_bytes: d.gauge("store_bytes", "Bytes of the store on disk."),
            store_set_aside: d.counter("store_set_aside_total", "Unreadable stores that were set aside."),
            apply_seconds: d.latency("apply_duration_seconds", "Time to fold one batch of records."),
            answer_seconds: d
                .latency("answer_duration_seconds", "Time from a question's arrival in the queue to its answer."),
            queue_depth: d.gauges("queue_depth", "Messages that wait for a worker.", &["worker"]),
            transaction_seconds: d.latency("transaction_duration_seconds", "Time to commit outputs and offsets."),
            commits: d.counter("commits_total", "Commits of outputs and offsets."),
            aborts: d.counter("aborts_total", "Times that work was given up and begun again from what is committed."),
            rebalances: d.counters("rebalances_total", "Changes of the assigned partitions.", &["change"]),
            restore_seconds: d
                .latency("restore_duration_seconds", "Time from a partition's assignment to its first new record."),
            snapshots: d.counter("snapshots_total", "States written to the snapshot topic."),
            http_requests: d.counters(
                "http_requests_total",
                "HTTP requests, by route and status.",
                &["route", "status"],
            ),
            http_seconds: d.latencies("http_request_duration_seconds", "Time to answer an HTTP request.", &["route"]),
            http_connections: d.gauge("http_connections", "Open HTTP connections."),
            http_refused: d.counter("http_refused_connections_total", "Connections closed because too many were open."),
            http_timeouts: d.counters(
                "http_timeouts_total",
                "Connections closed because a phase of them lasted too long.",
                &["phase"],
            ),
            http_refusals: d.counters(
                "http_refusals_total",
                "Requests refused for want of a token (missing), for one that is not known (unknown) or may not write (scope).",
                &["reason"],
            ),
            http_handshake_failures: d.counter("http_handshake_failures_total", "TLS handshakes that failed."),
            http_reload_failures: d.counters(
                "http_reload_failures_total",
                "Changed files of tokens or certificates that could not be used.",
                &["file"],
            ),
            registry: d.registry.clone(),
        }
    }

    /// In the Prometheus text format.
    pub fn text(&self) -> String {
        let mut text = Vec::new();
        let encoded = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        encoded.expect("writing to memory does not fail");
        String::from_utf8(text).expect("the text format is UTF-8")
    }
}

impl ShardMetrics {
    fn declare(d: &Declare) -> Self {
        Self {
            lag: d.gauges("lag_records", "Records of the log that are not folded yet.", &SHARD),
            event_time: d.reals(
                "event_timestamp_seconds",
                "The shard's clock: the largest accepted event time.",
                &SHARD,
            ),
            clock_skew: d.reals(
                "clock_skew_seconds",
                "The shard's clock minus the timestamp of the newest record: positive when events are dated ahead of the log.",
                &SHARD,
            ),
            fill: d.reals("filter_fill_ratio", "Share of the dedup filter's cells that are live.", &SHARD),
            false_duplicates: d.reals(
                "filter_false_duplicate_ratio",
                "Estimated share of new items that the standard answer would call duplicates.",
                &SHARD,
            ),
            trusted: d.gauges(
                "posterior_trusted",
                "1 when stated chances are believed, 0 when they did not come true lately and the standard answer is given.",
                &SHARD,
            ),
            calibration_error: d.reals(
                "calibration_error_ratio",
                "Greatest difference between stated chances and how often they came true lately; above 0.1 they are not believed.",
                &SHARD,
            ),
            isolated_keys: d.gauges("isolated_keys", "Keys with a filter of their own.", &SHARD),
            previous_key_needed: d.gauges(
                "previous_hash_key_needed",
                "1 while something recorded under the previous hash key is remembered, 0 when that key can go.",
                &SHARD,
            ),
            exhausted_counts: d.gauges(
                "frequency_exhausted_counts",
                "Times since the beginning of the log that a counter of the frequency view had no room.",
                &SHARD,
            ),
            state_bytes: d.gauges("state_bytes", "Memory of the shard's views.", &SHARD),
            aggregate_events: d.gauges(
                "aggregate_events",
                "Events that the aggregate has taken since the beginning of the log.",
                &AGGREGATE,
            ),
            aggregate_refused: d.gauges(
                "aggregate_refused_events",
                "Events that the aggregate did not take since the beginning of the log, by reason.",
                &["stream", "partition", "aggregate", "reason"],
            ),
            aggregate_keys: d.gauges("aggregate_keys", "Keys with a sketch of their own.", &AGGREGATE),
            aggregate_waiting: d.gauges("aggregate_waiting_keys", "Keys seen once, which have no sketch yet.", &AGGREGATE),
            aggregate_evicted: d.gauges(
                "aggregate_evicted_keys",
                "Keys that gave up their sketch since the beginning of the log.",
                &AGGREGATE,
            ),
            aggregate_other: d.gauges(
                "aggregate_other_events",
                "Events since the beginning of the log that were folded into `other`, because no place for their key was free.",
                &AGGREGATE,
            ),
            aggregate_bytes: d.gauges("aggregate_bytes", "Memory of the aggregate.", &AGGREGATE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_text_names_the_version_and_the_counts() {
        let metrics = Metrics::new();
        metrics.events.with_label_values(&["clicks", "unique"]).inc_by(3);
        let text = metrics.text();
        assert!(text.contains(concat!("ebb_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")), "{text}");
        assert!(text.contains(r#"ebb_events_total{stream="clicks",verdict="unique"} 3"#), "{text}");
    }

    /// What Prometheus' own linter asks of names, so that it is asked with every build.
    #[test]
    fn names_and_units_follow_the_conventions() {
        let described = Metrics::describe();
        let names: BTreeSet<&str> = described.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names.len(), described.len());
        for MetricDescription { name, kind, labels, unit, help } in &described {
            let counter = *kind == MetricKind::Counter;
            assert_eq!(name.ends_with("_total"), counter, "{name}: only counters end in total, and all do");
            assert_eq!(*kind == MetricKind::Histogram, name.ends_with("_duration_seconds"), "{name}");
            assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
            assert!(name.starts_with("ebb_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            for word in ["milli", "minutes", "kilo", "percent", "gauge", "counter", "histogram"] {
                assert!(!name.contains(word), "{name} holds {word}");
            }
            for suffix in ["_count", "_sum", "_bucket", "_info"] {
                assert!(!name.ends_with(suffix) || name == "ebb_build_info", "{name}: {suffix} means something else");
            }
            assert!(
                !labels.iter().any(|label| ["item", "key", "le", "quantile"].contains(label)),
                "{name}: {labels:?}"
            );
            assert!(["seconds", "seconds since 1970", "bytes", "0 to 1", "number"].contains(unit), "{name}: {unit}");
        }
    }

    #[test]
    fn everything_that_is_exported_is_described() {
        let metrics = Metrics::new();
        metrics.events.with_label_values(&["clicks", "unique"]).inc();
        metrics.shards.fill.with_label_values(&["clicks", "0"]).set(0.5);
        metrics.http_seconds.with_label_values(&["/livez"]).observe(0.1);
        let described: BTreeSet<String> = Metrics::describe().into_iter().map(|metric| metric.name).collect();
        let text = metrics.text();
        let exported = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        for name in exported {
            assert!(described.contains(name), "{name}");
        }
    }
}
