//! Liveness and readiness probes, and Prometheus metrics.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::body::json;
use super::openapi::ProblemResponses;
use super::problem::Problem;
use super::routes::Api;

/// The result of a successful probe.
#[derive(Serialize, ToSchema)]
pub(super) struct ProbeResponse {
    status: &'static str,
}

/// Liveness probe
///
/// Succeeds as long as the process answers requests.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "probes",
    responses((status = 200, description = "The process is alive", body = ProbeResponse), ProblemResponses),
)]
pub(super) async fn live() -> Response {
    json(&ProbeResponse { status: "live" })
}

/// Readiness probe
///
/// Succeeds when every assigned shard is restored, events can be recorded and the service is not shutting down.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "probes",
    responses((status = 200, description = "The service is ready", body = ProbeResponse), ProblemResponses),
)]
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Response, Problem> {
    api.require_accepting()?;
    Ok(json(&ProbeResponse { status: "ready" }))
}

/// Readiness probe, same as `/readyz`
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "probes",
    responses((status = 200, description = "The service is ready", body = ProbeResponse), ProblemResponses),
)]
pub(super) async fn health(api: State<Arc<Api>>) -> Result<Response, Problem> {
    ready(api).await
}

/// Metrics in the Prometheus text format
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "probes",
    responses((status = 200, description = "All metrics", body = String, content_type = "text/plain"), ProblemResponses),
)]
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Response {
    api.metrics.ready.set(i64::from(api.require_accepting().is_ok()));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], api.metrics.text()).into_response()
}
