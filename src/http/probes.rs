//! What an orchestrator and a scraper ask.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::body::json;
use super::openapi::Common;
use super::problem::Problem;
use super::routes::Api;

/// How a service is.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    status: &'static str,
}

/// The process answers: all that a restart could mend.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "probes",
    responses((status = 200, description = "It does", body = Health), Common),
)]
pub(super) async fn live() -> Response {
    json(&Health { status: "live" })
}

/// Every shard is restored and new work is welcome.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "probes",
    responses((status = 200, description = "It is", body = Health), Common),
)]
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Response, Problem> {
    api.require_fit()?;
    Ok(json(&Health { status: "ready" }))
}

/// As `/readyz`.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "probes",
    responses((status = 200, description = "It is", body = Health), Common),
)]
pub(super) async fn health(api: State<Arc<Api>>) -> Result<Response, Problem> {
    ready(api).await
}

/// Every metric, in Prometheus' text format.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "probes",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain"), Common),
)]
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Response {
    api.metrics.ready.set(i64::from(api.require_fit().is_ok()));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], api.metrics.text()).into_response()
}
