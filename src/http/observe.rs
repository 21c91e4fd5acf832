//! Request ids, metrics and logs of every request.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use axum::body::{Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use axum::response::Response;
use axum::{BoxError, Router};
use tower::Service;
use tracing::Instrument;
use tracing::field::Empty;

use super::tokens::Scope;
use crate::metrics::Metrics;
use ebb_sketch::random::mix;

/// Metric label of requests without a route: paths chosen by clients must not become labels.
pub(super) const OTHER_ROUTE: &str = "other";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_ID_BYTES: usize = 128;

/// A router that counts and times every request and gives it an id.
///
/// It wraps the router instead of being a layer, because axum boxes a layer for every route and clones it for every
/// request.
#[derive(Debug, Clone)]
pub(super) struct ObservedRouter {
    router: Router,
    observer: Arc<RequestObserver>,
}

#[derive(Debug)]
struct RequestObserver {
    routes: matchit::Router<&'static str>,
    /// The scope of every caller where no tokens are configured.
    default_scope: Option<Scope>,
    metrics: Metrics,
}

impl ObservedRouter {
    /// `paths` are the paths of `router`.
    pub(super) fn new(
        router: Router,
        paths: &BTreeSet<&'static str>,
        default_scope: Option<Scope>,
        metrics: Metrics,
    ) -> Self {
        let mut routes = matchit::Router::new();
        for path in paths {
            routes.insert(*path, *path).expect("axum accepted the same paths");
        }
        Self { router, observer: Arc::new(RequestObserver { routes, default_scope, metrics }) }
    }

    pub(super) async fn respond<B>(mut self, mut request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let started = Instant::now();
        let id = client_id(request.headers()).unwrap_or_else(generate_id);
        let route = self.observer.routes.at(request.uri().path()).map_or(OTHER_ROUTE, |matched| *matched.value);
        let span = tracing::debug_span!("request", id = text(&id), method = %request.method(), route, caller = Empty);
        if let Some(scope) = self.observer.default_scope {
            request.extensions_mut().insert(scope);
        }
        let Ok(mut response) = self.router.call(request).instrument(span.clone()).await;
        let (status, elapsed) = (response.status(), started.elapsed());
        self.observer.metrics.http_requests.with_label_values(&[route, status.as_str()]).inc();
        self.observer.metrics.http_seconds.with_label_values(&[route]).observe(elapsed.as_secs_f64());
        span.in_scope(|| {
            tracing::debug!(status = status.as_u16(), ms = elapsed.as_millis() as u64, "request answered")
        });
        // 503 is expected during startup and shutdown, and its cause is logged where it occurs.
        if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            tracing::warn!(
                id = text(&id),
                route,
                status = status.as_u16(),
                ms = elapsed.as_millis() as u64,
                "request failed"
            );
        }
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }
}

/// The client's own id, if it cannot break a log line.
fn client_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let id = headers.get(REQUEST_ID)?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    let is_valid = (1..=MAX_ID_BYTES).contains(&id.len()) && id.as_bytes().iter().all(is_plain);
    is_valid.then(|| id.clone())
}

/// Unique within the process, and with high probability across processes.
fn generate_id() -> HeaderValue {
    // Without a random start, ids are unique only within the process.
    static START: LazyLock<u64> = LazyLock::new(|| getrandom::u64().unwrap_or_default());
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = mix(START.wrapping_add(COUNT.fetch_add(1, Relaxed)));
    HeaderValue::try_from(format!("{number:016x}")).expect("hexadecimal digits are valid in a header")
}

fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}
