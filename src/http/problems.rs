//! The catalogue of problem types: each `type` is a path that is served here.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::json;
use super::openapi::ProblemResponses;
use super::problem::{Problem, ProblemKind};

/// All problem types.
#[derive(Serialize, ToSchema)]
pub(super) struct ProblemTypesResponse {
    problems: Vec<ProblemTypeResponse>,
}

/// A problem type.
#[derive(Serialize, ToSchema)]
pub(super) struct ProblemTypeResponse {
    r#type: String,
    status: u16,
    title: &'static str,
}

impl From<ProblemKind> for ProblemTypeResponse {
    fn from(kind: ProblemKind) -> Self {
        Self { r#type: kind.uri(), status: kind.status(), title: kind.title() }
    }
}

/// List problem types
#[utoipa::path(
    get,
    path = "/problems",
    operation_id = "list_problems",
    tag = "description",
    responses((status = 200, description = "All problem types", body = ProblemTypesResponse), ProblemResponses),
)]
pub(super) async fn list() -> Response {
    json(&ProblemTypesResponse { problems: ProblemKind::ALL.iter().copied().map(ProblemTypeResponse::from).collect() })
}

/// Describe a problem type
#[utoipa::path(
    get,
    path = "/problems/{name}",
    operation_id = "show_problem",
    tag = "description",
    params(("name" = String, Path, description = "The last segment of the type", example = "unknown-stream")),
    responses((status = 200, description = "The problem type", body = ProblemTypeResponse), ProblemResponses),
)]
pub(super) async fn show(name: Result<Path<String>, PathRejection>) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_| {
        Problem::new(ProblemKind::InvalidPath, "a path segment must be UTF-8, percent-encoded where needed")
    })?;
    let kind = ProblemKind::ALL.iter().copied().find(|kind| kind.slug() == name);
    let kind = kind.ok_or_else(|| Problem::new(ProblemKind::UnknownProblem, "the types are listed at /problems"))?;
    Ok(json(&ProblemTypeResponse::from(kind)))
}
