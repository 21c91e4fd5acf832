//! Creates metrics and records their descriptions for the reference.

use std::cell::RefCell;

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};
use serde::Serialize;

const NAMESPACE: &str = "ebb";

/// The Prometheus type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric in the reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetricDescription {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: MetricKind,
    pub labels: Vec<&'static str>,
    pub unit: &'static str,
    pub help: String,
}

/// Creates metrics and registers them as `ebb_NAME`.
pub(super) struct MetricBuilder {
    pub(super) registry: Registry,
    descriptions: RefCell<Vec<MetricDescription>>,
}

impl MetricBuilder {
    pub(super) fn new() -> Self {
        Self { registry: Registry::new(), descriptions: RefCell::default() }
    }

    pub(super) fn descriptions(&self) -> Vec<MetricDescription> {
        self.descriptions.borrow().clone()
    }

    fn register<C: Collector + Clone + 'static>(&self, metric: prometheus::Result<C>) -> C {
        let metric = metric.expect("metric names and labels are constants of this module and valid");
        self.registry.register(Box::new(metric.clone())).expect("each metric has its own name");
        metric
    }

    fn describe(&self, kind: MetricKind, name: &str, help: &str, labels: &[&'static str]) -> Opts {
        let (full, help) = (format!("{NAMESPACE}_{name}"), help.to_string());
        let description =
            MetricDescription { unit: unit(name), name: full, kind, labels: labels.to_vec(), help: help.clone() };
        self.descriptions.borrow_mut().push(description);
        Opts::new(name, help).namespace(NAMESPACE)
    }

    /// A gauge that is always 1; its label contains the information.
    pub(super) fn info(&self, name: &str, help: &str, label: (&'static str, &str)) {
        let options = self.describe(MetricKind::Gauge, name, help, &[label.0]);
        self.register(Gauge::with_opts(options.const_label(label.0, label.1))).set(1.0);
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::with_opts(self.describe(MetricKind::Counter, name, help, &[])))
    }

    pub(super) fn counter_vec(&self, name: &str, help: &str, labels: &[&'static str]) -> IntCounterVec {
        self.register(IntCounterVec::new(self.describe(MetricKind::Counter, name, help, labels), labels))
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.register(IntGauge::with_opts(self.describe(MetricKind::Gauge, name, help, &[])))
    }

    pub(super) fn gauge_vec(&self, name: &str, help: &str, labels: &[&'static str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(self.describe(MetricKind::Gauge, name, help, labels), labels))
    }

    /// Gauges with fractional values.
    pub(super) fn float_gauge_vec(&self, name: &str, help: &str, labels: &[&'static str]) -> GaugeVec {
        self.register(GaugeVec::new(self.describe(MetricKind::Gauge, name, help, labels), labels))
    }

    pub(super) fn latency_histogram(&self, name: &str, help: &str) -> Histogram {
        let options = HistogramOpts::from(self.describe(MetricKind::Histogram, name, help, &[]));
        self.register(Histogram::with_opts(options.buckets(latency_buckets())))
    }

    pub(super) fn latency_histogram_vec(&self, name: &str, help: &str, labels: &[&'static str]) -> HistogramVec {
        let options = HistogramOpts::from(self.describe(MetricKind::Histogram, name, help, labels));
        self.register(HistogramVec::new(options.buckets(latency_buckets()), labels))
    }
}

/// From 10 µs to about 10 s, doubling.
fn latency_buckets() -> Vec<f64> {
    (0..21).map(|i| 1e-5 * f64::from(1u32 << i)).collect()
}

/// The unit of a metric: by convention the last word of its name, before the `_total` of a counter.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next().unwrap_or_default() {
        "seconds" if name.ends_with("timestamp_seconds") => "seconds since 1970",
        "seconds" => "seconds",
        "bytes" => "bytes",
        "ratio" => "0 to 1",
        _ => "number",
    }
}
