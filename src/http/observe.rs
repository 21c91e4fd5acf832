//! What is known of every request: its id, how long it took and how it ended.

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

/// The route of everything that has none: paths that clients make up are no labels.
pub(super) const OTHER: &str = "other";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MOST_ID_BYTES: usize = 128;

/// A router all of whose requests are counted, timed and known by an id.
///
/// It stands around the router: axum boxes a layer with every route, and makes it anew for every request.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    router: Router,
    known: Arc<Known>,
}

#[derive(Debug)]
struct Known {
    routes: matchit::Router<&'static str>,
    /// What everybody may do, where no tokens tell.
    everyone: Option<Scope>,
    metrics: Metrics,
}

impl Observed {
    /// `paths` are those of the router.
    pub(super) fn new(
        router: Router,
        paths: &BTreeSet<&'static str>,
        everyone: Option<Scope>,
        metrics: Metrics,
    ) -> Self {
        let mut routes = matchit::Router::new();
        for path in paths {
            routes.insert(*path, *path).expect("axum took the same paths");
        }
        Self { router, known: Arc::new(Known { routes, everyone, metrics }) }
    }

    pub(super) async fn answer<B>(mut self, mut request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let started = Instant::now();
        let id = given_id(request.headers()).unwrap_or_else(make_id);
        let route = self.known.routes.at(request.uri().path()).map_or(OTHER, |found| *found.value);
        let span = tracing::debug_span!("request", id = text(&id), method = %request.method(), route, caller = Empty);
        if let Some(scope) = self.known.everyone {
            request.extensions_mut().insert(scope);
        }
        let Ok(mut response) = self.router.call(request).instrument(span.clone()).await;
        let (status, elapsed) = (response.status(), started.elapsed());
        self.known.metrics.http_requests.with_label_values(&[route, status.as_str()]).inc();
        self.known.metrics.http_seconds.with_label_values(&[route]).observe(elapsed.as_secs_f64());
        span.in_scope(|| tracing::debug!(status = status.as_u16(), ms = elapsed.as_millis() as u64, "answered"));
        // 503 is expected while starting and stopping, and the cause is logged where it is.
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

/// The client's own id, when it is one that can stand in a log line.
fn given_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let id = headers.get(REQUEST_ID)?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    let fits = (1..=MOST_ID_BYTES).contains(&id.len()) && id.as_bytes().iter().all(plain);
    fits.then(|| id.clone())
}

/// Unlike any other of this process, and very likely of all others.
fn make_id() -> HeaderValue {
    // Without a random start ids are still unlike each other, only not unlike those of another process.
    static START: LazyLock<u64> = LazyLock::new(|| getrandom::u64().unwrap_or_default());
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = mix(START.wrapping_add(COUNT.fetch_add(1, Relaxed)));
    HeaderValue::try_from(format!("{number:016x}")).expect("hexadecimal digits may stand in a header")
}

fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}
