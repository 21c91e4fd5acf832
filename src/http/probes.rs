//! What an orchestrator and a scraper ask.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::body::json;
use super::problem::Problem;
use super::routes::Api;

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// The process answers: all that a restart could mend.
pub(super) async fn live() -> Response {
    json(&Health { status: "live" })
}

/// Every shard is restored and new work is welcome.
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Result<Response, Problem> {
    api.require_fit()?;
    Ok(json(&Health { status: "ready" }))
}

pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Response {
    api.metrics.ready.set(i64::from(api.require_fit().is_ok()));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], api.metrics.text()).into_response()
}
