//! What is known of every request: its id, how long it took and how it ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;
use tracing::field::Empty;

use super::routes::Api;
use crate::random::mix;

/// The route of everything that has none: paths that clients make up are no labels.
pub(super) const OTHER: &str = "other";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MOST_ID_BYTES: usize = 128;

pub(super) async fn observe(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = given_id(request.headers()).unwrap_or_else(make_id);
    let path = request.extensions().get::<MatchedPath>().cloned();
    let route = path.as_ref().map_or(OTHER, MatchedPath::as_str);
    let span = tracing::debug_span!("request", id = text(&id), method = %request.method(), route, caller = Empty);
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, elapsed) = (response.status(), started.elapsed());
    api.metrics.http_requests.with_label_values(&[route, status.as_str()]).inc();
    api.metrics.http_seconds.with_label_values(&[route]).observe(elapsed.as_secs_f64());
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
    HeaderValue::from_str(&format!("{number:016x}")).expect("hexadecimal digits may stand in a header")
}

fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}
