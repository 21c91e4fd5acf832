//! Every metric of the service, declared once. Labels come from closed sets only: streams, partitions, verdicts, reasons,
//! routes. Names of items and keys never become labels.

use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};

/// From 10 µs to about 10 s, doubling.
fn latency_buckets() -> Vec<f64> {
    (0..21).map(|i| 1e-5 * f64::from(1u32 << i)).collect()
}

/// Makes a metric and registers it under `ebb_NAME`.
struct Declare(Registry);

impl Declare {
    fn register<C: Collector + Clone + 'static>(&self, metric: prometheus::Result<C>) -> C {
        let metric = metric.expect("metric names and labels are constants of this file and valid");
        self.0.register(Box::new(metric.clone())).expect("each metric of this file has its own name");
        metric
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::with_opts(Opts::new(name, help).namespace("ebb")))
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help).namespace("ebb"), labels))
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.register(IntGauge::with_opts(Opts::new(name, help).namespace("ebb")))
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help).namespace("ebb"), labels))
    }

    fn ratios(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.register(GaugeVec::new(Opts::new(name, help).namespace("ebb"), labels))
    }

    fn latency(&self, name: &str, help: &str) -> Histogram {
        self.register(Histogram::with_opts(HistogramOpts::new(name, help).namespace("ebb").buckets(latency_buckets())))
    }

    fn latencies(&self, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
        let options = HistogramOpts::new(name, help).namespace("ebb").buckets(latency_buckets());
        self.register(HistogramVec::new(options, labels))
    }
}

/// All metrics, shared by reference.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    pub events: IntCounterVec,
    pub rejected: IntCounterVec,
    pub decisions: IntCounterVec,
    pub lag: IntGaugeVec,
    pub event_time: GaugeVec,
    pub fill: GaugeVec,
    pub false_duplicates: GaugeVec,
    pub trusted: IntGaugeVec,
    pub isolated_keys: IntGaugeVec,
    pub state_bytes: IntGaugeVec,
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
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let d = Declare(Registry::new());
        let shard = ["stream", "partition"];
        let build = Opts::new("build_info", "Always 1; the version is a label.").namespace("ebb");
        d.register(Gauge::with_opts(build.const_label("version", env!("CARGO_PKG_VERSION")))).set(1.0);
        Self {
            events: d.counters("events_total", "Records folded, by verdict.", &["stream", "verdict"]),
            rejected: d.counters("rejected_total", "Records rejected, by reason.", &["stream", "reason"]),
            decisions: d.counters(
                "decisions_total",
                "Decisions about recorded events, by what they rest on; learning and miscalibrated fall back to the standard answer.",
                &["stream", "basis"],
            ),
            lag: d.gauges("lag_records", "Records of the log that are not folded yet.", &shard),
            event_time: d.ratios("event_time_seconds", "The shard's clock: the largest accepted event time.", &shard),
            fill: d.ratios("filter_fill_ratio", "Share of the dedup filter's cells that are live.", &shard),
            false_duplicates: d.ratios(
                "filter_false_duplicate_ratio",
                "Estimated share of new items that the standard answer would call duplicates.",
                &shard,
            ),
            trusted: d.gauges(
                "posterior_trusted",
                "1 when stated chances are believed, 0 when they did not come true lately and the standard answer is given.",
                &shard,
            ),
            isolated_keys: d.gauges("isolated_keys", "Keys with a filter of their own.", &shard),
            state_bytes: d.gauges("state_bytes", "Memory of the shard's views.", &shard),
            checkpoint_time: d.ratios(
                "checkpoint_timestamp_seconds",
                "When the newest checkpoint was stored; its age is time() minus this.",
                &shard,
            ),
            checkpoint_bytes: d.gauges("checkpoint_bytes", "Size of the newest checkpoint.", &shard),
            checkpoint_failures: d.counter("checkpoint_failures_total", "Checkpoints that could not be stored."),
            checkpoint_seconds: d.latency("checkpoint_seconds", "Time to store one checkpoint."),
            journal_seconds: d.latency("journal_seconds", "Time to journal one group of events."),
            journal_failures: d.counter("journal_failures_total", "Groups of events that could not be journalled."),
            store_bytes: d.gauge("store_bytes", "Bytes of the store on disk."),
            store_set_aside: d.counter("store_set_aside_total", "Unreadable stores that were set aside."),
            apply_seconds: d.latency("apply_seconds", "Time to fold one batch of records."),
            answer_seconds: d.latency("answer_seconds", "Time from a question's arrival in the queue to its answer."),
            queue_depth: d.gauges("queue_depth", "Messages that wait for a worker.", &["worker"]),
            transaction_seconds: d.latency("transaction_seconds", "Time to commit outputs and offsets."),
            commits: d.counter("commits_total", "Commits of outputs and offsets."),
            aborts: d.counter("aborts_total", "Times that work was given up and begun again from what is committed."),
            rebalances: d.counters("rebalances_total", "Changes of the assigned partitions.", &["change"]),
            restore_seconds: d
                .latency("restore_seconds", "Time from a partition's assignment to its first new record."),
            snapshots: d.counter("snapshots_total", "States written to the snapshot topic."),
            ready: d.gauge("ready", "1 when every shard is restored and answers."),
            http_requests: d.counters(
                "http_requests_total",
                "HTTP requests, by route and status.",
                &["route", "status"],
            ),
            http_seconds: d.latencies("http_request_seconds", "Time to answer an HTTP request.", &["route"]),
            http_connections: d.gauge("http_connections", "Open HTTP connections."),
            http_refused: d.counter("http_refused_connections_total", "Connections closed because too many were open."),
            http_timeouts: d.counters(
                "http_timeouts_total",
                "Connections closed because a phase of them lasted too long.",
                &["phase"],
            ),
            registry: d.0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_version_and_the_counts() {
        let metrics = Metrics::new();
        metrics.events.with_label_values(&["clicks", "unique"]).inc_by(3);
        let text = metrics.text();
        assert!(text.contains(concat!("ebb_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")), "{text}");
        assert!(text.contains(r#"ebb_events_total{stream="clicks",verdict="unique"} 3"#), "{text}");
    }
}
