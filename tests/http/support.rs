//! A service with a temporary store.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use ebb::http::{Api, HttpLimits, Routes};
use ebb::metrics::Metrics;
use ebb::store::{ShardId, Store, StoreOptions};
use ebb::workers::{ShardPlacement, StreamLayout, Streams, Workers, WorkersOptions};
use ebb_core::{
    AggregateParameters, AggregateSpec, DedupSpec, EventSpec, FilterSpec, FrequencyPlan, Measure, PayloadLimits, Plan,
    Reader, Seen, Selection, TimeUnit, Weighting,
};
use ebb_sketch::filter::structure::frequency::FrequencySpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Base time of the events in milliseconds, long before the wall clock.
pub const NOW: i64 = 1_700_000_000_000;

/// A running service. The stream `clicks` has a window of ten minutes and a frequency view whose
/// answers are normalised by the half-life, `counted` has a window of 100
/// events; both have two partitions.
pub struct Service {
    pub api: Arc<Api>,
    pub workers: Workers,
    pub store: Arc<Store>,
    _dir: TempDir,
}

impl Service {
    /// Returns once the service is ready.
    pub async fn start() -> Self {
        Self::with(HttpLimits::default(), StoreOptions::default()).await
    }

    pub async fn with_limits(limits: HttpLimits) -> Self {
        Self::with(limits, StoreOptions::default()).await
    }

    pub async fn with(limits: HttpLimits, store: StoreOptions) -> Self {
        let service = Self::restoring("clicks", limits, store);
        service.api.streams.settled().await;
        service
    }

    /// A service whose stream `clicks` has this filter and no frequency view.
    pub async fn with_filter(filter: FilterSpec) -> Self {
        let service = Self::launch("clicks", plan_of(filter, None), HttpLimits::default(), StoreOptions::default());
        service.api.streams.settled().await;
        service
    }

    /// Returns while shards may still be restoring.
    pub fn restoring(name: &str, limits: HttpLimits, store: StoreOptions) -> Self {
        let timed = plan(TimingSpec::time(600_000, 60_000, 64 << 10).unwrap(), Some(frequency()));
        Self::launch(name, timed, limits, store)
    }

    fn launch(name: &str, timed: Arc<Plan>, limits: HttpLimits, store: StoreOptions) -> Self {
        capture_logs();
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(dir.path(), StoreOptions { headroom: 1, ..store }).unwrap();
        let options = WorkersOptions { store: Arc::new(store), metrics: Metrics::new() };
        let counted = plan(TimingSpec::count(100, 64 << 10).unwrap(), None);
        let shard =
            |stream: &str, partition, plan: &Arc<Plan>| (ShardId { stream: stream.into(), partition }, plan.clone());
        let lists = (0..2).map(|p| vec![shard(name, p, &timed), shard("counted", p, &counted)]).collect();
        let workers = Workers::start(&options, lists).unwrap();
        let placed = |plan, slot| StreamLayout {
            plan,
            shards: vec![ShardPlacement { worker: 0, slot }, ShardPlacement { worker: 1, slot }],
        };
        let streams = BTreeMap::from([(name.into(), placed(timed, 0)), ("counted".into(), placed(counted, 1))]);
        let streams = Streams::new(&workers, streams);
        let api = Arc::new(Api::new(streams, options.metrics, limits));
        Self { api, workers, store: options.store, _dir: dir }
    }

    pub fn router(&self) -> Router {
        Routes::all(self.api.clone()).into_router()
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        send_request(self.router(), Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub async fn decide(&self, stream: &str, body: &str) -> TestResponse {
        self.post(&format!("/v1/streams/{stream}/decide"), body.to_owned()).await
    }

    pub async fn post_bytes(&self, path: &str, body: Vec<u8>) -> TestResponse {
        let request = Request::post(path).header("content-type", "application/octet-stream");
        send_request(self.router(), request.body(Body::from(body)).unwrap()).await
    }

    pub async fn post(&self, path: &str, body: impl Into<Body>) -> TestResponse {
        let request = Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
        send_request(self.router(), request.body(body.into()).unwrap()).await
    }
}

fn plan(filter: TimingSpec, frequency: Option<FrequencyPlan>) -> Arc<Plan> {
    plan_of(FilterSpec::learning(filter, 64).expect("a prior"), frequency)
}

fn plan_of(filter: FilterSpec, frequency: Option<FrequencyPlan>) -> Arc<Plan> {
    let limits = PayloadLimits { record_bytes: 4096, depth: 8, fields: 32, key_bytes: 64 };
    let spec = EventSpec {
        key: Some("campaign".parse().unwrap()),
        time: Some(("ts".parse().unwrap(), TimeUnit::Milliseconds)),
        limits,
        numbers: vec!["ts".parse().unwrap()],
        labels: vec!["ip".parse().unwrap()],
        ..EventSpec::of_item(vec!["ip".parse().unwrap()])
    };
    let reader = Arc::new(Reader::new(spec, HashKey::new([9; 16])).unwrap());
    let dedup = DedupSpec::new(filter, Seen::First);
    let aggregates = vec![visits(), moments(), addresses()];
    Arc::new(Plan { reader, max_skew_ms: 60_000, dedup, frequency, aggregates })
}

/// Decayed counts with a half-life of an hour.
fn frequency() -> FrequencyPlan {
    let counters = ForwardSpec::new(CellLayout::in_memory(64 << 10).unwrap(), 3, 3_600_000).unwrap();
    FrequencyPlan::from(FrequencySpec::Forward(counters)).normalised_by(3_600_000)
}

/// Counts by campaign and address.
fn visits() -> AggregateSpec {
    AggregateSpec::new(AggregateParameters {
        name: "visits".into(),
        of: Measure::Count,
        over: Selection::All,
        method: ebb_core::Method::Robust,
        epsilon: 0.1,
        delta: 0.05,
        decay: None,
        horizon_ms: 600_000,
        keys: Some(8),
        memory: None,
        top: Some(0),
        step: 1.0,
        max: 1.0,
        weights: Weighting::Unit,
        seed: 1,
    })
    .unwrap()
}

/// The times of unique events, in seconds.
fn moments() -> AggregateSpec {
    let visits = visits().parameters().clone();
    AggregateSpec::new(AggregateParameters {
        name: "moments".into(),
        of: Measure::Number(0),
        over: Selection::Unique,
        method: ebb_core::Method::Forward,
        decay: Some("exponential:half_life=1h".parse().unwrap()),
        keys: None,
        memory: None,
        top: None,
        step: 1_000.0,
        max: 4e12,
        ..visits
    })
    .unwrap()
}

/// Different addresses by campaign.
fn addresses() -> AggregateSpec {
    let visits = visits().parameters().clone();
    let (name, of) = ("addresses".into(), Measure::Distinct(0));
    AggregateSpec::new(AggregateParameters { name, of, top: None, ..visits }).unwrap()
}

/// An event `seconds` after [`NOW`].
pub fn event(ip: &str, seconds: i64) -> String {
    format!(r#"{{"ip":"{ip}","campaign":"c1","ts":{}}}"#, NOW + seconds * 1000)
}

/// A response with its body.
#[derive(Debug)]
pub struct TestResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    pub bytes: Vec<u8>,
}

pub async fn send_request(router: Router, request: Request<Body>) -> TestResponse {
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    TestResponse { status: parts.status, headers: parts.headers, text, bytes }
}

impl TestResponse {
    /// The JSON body of a successful response.
    pub fn json(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_str(&self.text).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The slug of the problem, after checking its form.
    pub fn problem(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem: Value = serde_json::from_str(&self.text).unwrap();
        assert_eq!(problem["status"], status);
        for part in ["title", "detail"] {
            assert!(problem[part].as_str().is_some_and(|text| !text.is_empty()), "{part}: {problem}");
        }
        problem["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned()
    }

    pub fn detail(&self) -> String {
        serde_json::from_str::<Value>(&self.text).unwrap()["detail"].as_str().unwrap().to_owned()
    }
}

/// Captures the log of the crate and blocks the restore of streams named `gated` until the gate is opened.
struct LogCapture;

static LOG: Mutex<String> = Mutex::new(String::new());
static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
static CAPTURE: LazyLock<()> = LazyLock::new(|| {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(LogCapture)).unwrap();
});

fn capture_logs() {
    LazyLock::force(&CAPTURE);
}

/// The log so far.
pub fn logged() -> String {
    LOG.lock().unwrap().clone()
}

pub fn open_gate() {
    *GATE.0.lock().unwrap() = true;
    GATE.1.notify_all();
}

impl LogCapture {
    fn write(&self, record: impl FnOnce(&mut dyn tracing::field::Visit)) -> String {
        struct Line(String);
        impl tracing::field::Visit for Line {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut line = Line(String::new());
        record(&mut line);
        LOG.lock().unwrap().push_str(&format!("{}\n", line.0));
        line.0
    }
}

impl<S: tracing::Subscriber> Layer<S> for LogCapture {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with("ebb")
    }

    fn on_new_span(&self, span: &tracing::span::Attributes<'_>, _: &tracing::Id, _: Context<'_, S>) {
        self.write(|line| span.record(line));
    }

    fn on_record(&self, _: &tracing::Id, values: &tracing::span::Record<'_>, _: Context<'_, S>) {
        self.write(|line| values.record(line));
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let line = self.write(|line| event.record(line));
        if line.contains("shard restored") && line.contains("gated/") {
            let closed = GATE.0.lock().unwrap();
            drop(GATE.1.wait_while(closed, |open| !*open).unwrap());
        }
    }
}
