//! Every metric of the service, declared once, both for export and for the reference that `ebb metrics` prints. The values of
//! labels are bounded: streams, partitions, aggregates, verdicts, reasons, routes. Items and keys are never labels.

mod declare;

pub use declare::{MetricDescription, MetricKind};

use declare::MetricBuilder;
use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

const SHARD_LABELS: [&str; 2] = ["stream", "partition"];
const AGGREGATE_LABELS: [&str; 3] = ["stream", "partition", "aggregate"];

/// All metrics. Clones share the same values.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    pub shards: ShardMetrics,
    pub events: IntCounterVec,
    pub rejected: IntCounterVec,
    pub decisions: IntCounterVec,
    pub overruled: IntCounterVec,
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

/// The metrics of a shard, exported by the instance that owns it.
#[derive(Debug, Clone)]
pub struct ShardMetrics {
    pub lag: IntGaugeVec,
    pub event_time: GaugeVec,
    pub clock_skew: GaugeVec,
    pub fill: GaugeVec,
    pub false_duplicates: GaugeVec,
    pub policy: IntGaugeVec,
    pub calibration_error: GaugeVec,
    pub isolated_keys: IntGaugeVec,
    pub previous_key_needed: IntGaugeVec,
    pub exhausted_counts: IntGaugeVec,
    pub refused_weights: IntGaugeVec,
    pub state_bytes: IntGaugeVec,
    pub aggregate_events: IntGaugeVec,
    pub aggregate_refused: IntGaugeVec,
    pub aggregate_keys: IntGaugeVec,
    pub aggregate_waiting: IntGaugeVec,
    pub aggregate_evicted: IntGaugeVec,
    pub aggregate_other: IntGaugeVec,
    pub aggregate_bytes: IntGaugeVec,
    pub aggregate_coarseness: IntGaugeVec,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        Self::declare(&MetricBuilder::new())
    }

    /// Every metric with its type, labels, unit and meaning, in declaration order.
    pub fn describe() -> Vec<MetricDescription> {
        let builder = MetricBuilder::new();
        Self::declare(&builder);
        builder.descriptions()
    }

    fn declare(builder: &MetricBuilder) -> Self {
        builder.info("build_info", "Always 1; the label contains the version.", ("version", env!("CARGO_PKG_VERSION")));
        Self {
            ready: builder.gauge("ready", "1 if every assigned shard is restored and answers queries, otherwise 0."),
            events: builder.counter_vec("events_total", "Records processed, by verdict.", &["stream", "verdict"]),
            rejected: builder.counter_vec("rejected_total", "Records rejected, by reason.", &["stream", "reason"]),
            decisions: builder.counter_vec(
                "decisions_total",
                "Decisions about recorded events, by basis; with learning the standard answer is given.",
                &["stream", "basis"],
            ),
            overruled: builder.counter_vec(
                "duplicates_overruled_total",
                "Events that the filter's own answer calls duplicates and that were accepted because that costs less.",
                &["stream"],
            ),
            shards: ShardMetrics::declare(builder),
            checkpoint_time: builder.float_gauge_vec(
                "checkpoint_timestamp_seconds",
                "Time at which the newest checkpoint of the shard was stored; time() minus this is its age.",
                &SHARD_LABELS,
            ),
            checkpoint_bytes: builder.gauge_vec(
                "checkpoint_bytes",
                "Size of the newest checkpoint of the shard.",
                &SHARD_LABELS,
            ),
            checkpoint_failures: builder.counter("checkpoint_failures_total", "Checkpoints that could not be stored."),
            checkpoint_seconds: builder
                .latency_histogram("checkpoint_duration_seconds", "Time to store one checkpoint."),
            journal_seconds: builder
                .latency_histogram("journal_duration_seconds", "Time to write one group of events to the journal."),
            journal_failures: builder
                .counter("journal_failures_total", "Groups of events that could not be written to the journal."),
            store_bytes: builder.gauge("store_bytes", "Size of the store on disk."),
            store_set_aside: builder.counter(
                "store_set_aside_total",
                "Unreadable stores that were moved aside and replaced by an empty one.",
            ),
            apply_seconds: builder.latency_histogram("apply_duration_seconds", "Time to process one batch of records."),
            answer_seconds: builder.latency_histogram(
                "answer_duration_seconds",
                "Time from the arrival of a query in the worker's queue to its answer.",
            ),
            queue_depth: builder.gauge_vec("queue_depth", "Messages in the worker's queue.", &["worker"]),
            transaction_seconds: builder.latency_histogram(
                "transaction_duration_seconds",
                "Time to commit a transaction of outputs and offsets.",
            ),
            commits: builder.counter("commits_total", "Commits of outputs and offsets."),
            aborts: builder
                .counter("aborts_total", "Transactions that were aborted and restarted from the committed offset."),
            rebalances: builder.counter_vec(
                "rebalances_total",
                "Changes of the assigned partitions, by kind.",
                &["change"],
            ),
            restore_seconds: builder.latency_histogram(
                "restore_duration_seconds",
                "Time from the assignment of a partition to its first new record.",
            ),
            snapshots: builder.counter("snapshots_total", "Snapshots written to the snapshot topic."),
            http_requests: builder.counter_vec(
                "http_requests_total",
                "HTTP requests, by route and status.",
                &["route", "status"],
            ),
            http_seconds: builder.latency_histogram_vec(
                "http_request_duration_seconds",
                "Time to answer an HTTP request.",
                &["route"],
            ),
            http_connections: builder.gauge("http_connections", "Open HTTP connections."),
            http_refused: builder
                .counter("http_refused_connections_total", "Connections closed because of the connection limit."),
            http_timeouts: builder.counter_vec(
                "http_timeouts_total",
                "Connections closed because of a timeout, by phase.",
                &["phase"],
            ),
            http_refusals: builder.counter_vec(
                "http_refusals_total",
                "Requests refused because the token is missing, unknown, or does not permit writes (scope).",
                &["reason"],
            ),
            http_handshake_failures: builder.counter("http_handshake_failures_total", "TLS handshakes that failed."),
            http_reload_failures: builder.counter_vec(
                "http_reload_failures_total",
                "Failed reloads of changed token or certificate files; the previous contents stay in use.",
                &["file"],
            ),
            registry: builder.registry.clone(),
        }
    }

    /// The current values in the Prometheus text format.
    pub fn text(&self) -> String {
        let mut text = Vec::new();
        let encoded = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        encoded.expect("writing to memory does not fail");
        String::from_utf8(text).expect("the text format is UTF-8")
    }
}

impl ShardMetrics {
    fn declare(builder: &MetricBuilder) -> Self {
        Self {
            lag: builder.gauge_vec("lag_records", "Records of the log that are not processed yet.", &SHARD_LABELS),
            event_time: builder.float_gauge_vec(
                "event_timestamp_seconds",
                "The shard's clock, which is the largest accepted event time.",
                &SHARD_LABELS,
            ),
            clock_skew: builder.float_gauge_vec(
                "clock_skew_seconds",
                "The shard's clock minus the timestamp of the newest record; positive if event times are ahead of the log.",
                &SHARD_LABELS,
            ),
            fill: builder.float_gauge_vec("filter_fill_ratio", "Share of the cells of the dedup filter that are in use.", &SHARD_LABELS),
            false_duplicates: builder.float_gauge_vec(
                "filter_false_duplicate_ratio",
                "Estimated share of new items that the standard answer takes for duplicates.",
                &SHARD_LABELS,
            ),
            policy: builder.gauge_vec(
                "policy",
                "1 for the policy that answers questions with penalties at present, 0 for the others; learning is the standard answer while the prior is not known.",
                &["stream", "partition", "policy"],
            ),
            calibration_error: builder.float_gauge_vec(
                "calibration_error_ratio",
                "Largest recent difference between stated probabilities and observed frequencies.",
                &SHARD_LABELS,
            ),
            isolated_keys: builder.gauge_vec("isolated_keys", "Keys with a filter of their own.", &SHARD_LABELS),
            previous_key_needed: builder.gauge_vec(
                "previous_hash_key_needed",
                "1 while items recorded under the previous hash key are remembered, 0 if that key can be removed.",
                &SHARD_LABELS,
            ),
            exhausted_counts: builder.gauge_vec(
                "frequency_exhausted_counts",
                "Increments since the start of the log for which a counter of the frequency view had no space.",
                &SHARD_LABELS,
            ),
            refused_weights: builder.gauge_vec(
                "frequency_refused_events",
                "Events since the start of the log that the frequency view did not count because their weight was negative or above 2^40.",
                &SHARD_LABELS,
            ),
            state_bytes: builder.gauge_vec("state_bytes", "Memory of the shard's views.", &SHARD_LABELS),
            aggregate_events: builder.gauge_vec(
                "aggregate_events",
                "Events added to the aggregate since the start of the log.",
                &AGGREGATE_LABELS,
            ),
            aggregate_refused: builder.gauge_vec(
                "aggregate_refused_events",
                "Events not added to the aggregate since the start of the log, by reason.",
                &["stream", "partition", "aggregate", "reason"],
            ),
            aggregate_keys: builder.gauge_vec("aggregate_keys", "Keys with a sketch of their own.", &AGGREGATE_LABELS),
            aggregate_waiting: builder.gauge_vec("aggregate_waiting_keys", "Keys that were seen once and have no sketch yet.", &AGGREGATE_LABELS),
            aggregate_evicted: builder.gauge_vec(
                "aggregate_evicted_keys",
                "Keys whose sketch was evicted since the start of the log.",
                &AGGREGATE_LABELS,
            ),
            aggregate_other: builder.gauge_vec(
                "aggregate_other_events",
                "Events since the start of the log that were added to `other` because the limit of keys was reached.",
                &AGGREGATE_LABELS,
            ),
            aggregate_bytes: builder.gauge_vec("aggregate_bytes", "Memory of the aggregate.", &AGGREGATE_LABELS),
            aggregate_coarseness: builder.gauge_vec(
                "aggregate_coarseness",
                "How often samples of the aggregate were halved to keep its memory budget.",
                &AGGREGATE_LABELS,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn text_format_contains_version_and_counts() {
        let metrics = Metrics::new();
        metrics.events.with_label_values(&["clicks", "unique"]).inc_by(3);
        let text = metrics.text();
        assert!(text.contains(concat!("ebb_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")), "{text}");
        assert!(text.contains(r#"ebb_events_total{stream="clicks",verdict="unique"} 3"#), "{text}");
    }

    /// The rules of Prometheus' own linter for names.
    #[test]
    fn names_and_units_follow_prometheus_conventions() {
        let described = Metrics::describe();
        let names: BTreeSet<&str> = described.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names.len(), described.len());
        for MetricDescription { name, kind, labels, unit, help } in &described {
            let counter = *kind == MetricKind::Counter;
            assert_eq!(name.ends_with("_total"), counter, "{name}: exactly the counters end in _total");
            assert_eq!(*kind == MetricKind::Histogram, name.ends_with("_duration_seconds"), "{name}");
            assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
            assert!(name.starts_with("ebb_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            for word in ["milli", "minutes", "kilo", "percent", "gauge", "counter", "histogram"] {
                assert!(!name.contains(word), "{name} contains {word}");
            }
            for suffix in ["_count", "_sum", "_bucket", "_info"] {
                assert!(!name.ends_with(suffix) || name == "ebb_build_info", "{name}: {suffix} has another meaning");
            }
            assert!(
                !labels.iter().any(|label| ["item", "key", "le", "quantile"].contains(label)),
                "{name}: {labels:?}"
            );
            assert!(["seconds", "seconds since 1970", "bytes", "0 to 1", "number"].contains(unit), "{name}: {unit}");
        }
    }

    #[test]
    fn every_exported_metric_is_described() {
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
