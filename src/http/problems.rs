//! The types of problems, found where they say they are.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::body::json;
use super::openapi::Common;
use super::problem::{Kind, Problem};

/// Every type of problem.
#[derive(Serialize, ToSchema)]
pub(super) struct Problems {
    problems: Vec<Type>,
}

/// A type of problem and the status it comes with.
#[derive(Serialize, ToSchema)]
pub(super) struct Type {
    r#type: String,
    status: u16,
    title: &'static str,
}

impl Type {
    fn of(kind: Kind) -> Self {
        let (name, status, title) = kind.parts();
        Self { r#type: format!("/problems/{name}"), status, title }
    }
}

/// Which mistakes are told apart?
#[utoipa::path(
    get,
    path = "/problems",
    operation_id = "list_problems",
    tag = "description",
    responses((status = 200, description = "Every type of problem", body = Problems), Common),
)]
pub(super) async fn list() -> Response {
    json(&Problems { problems: Kind::ALL.iter().copied().map(Type::of).collect() })
}

/// What does a `type` mean?
#[utoipa::path(
    get,
    path = "/problems/{name}",
    operation_id = "show_problem",
    tag = "description",
    params(("name" = String, Path, description = "The end of the type", example = "unknown-stream")),
    responses((status = 200, description = "The type", body = Type), Common),
)]
pub(super) async fn show(name: Result<Path<String>, PathRejection>) -> Result<Response, Problem> {
    let Path(name) = name
        .map_err(|_| Problem::new(Kind::InvalidPath, "names in a path are UTF-8 text, percent-encoded where needed"))?;
    let found = Kind::ALL.iter().copied().find(|kind| kind.parts().0 == name);
    let kind = found.ok_or_else(|| Problem::new(Kind::UnknownProblem, "the types are listed at /problems"))?;
    Ok(json(&Type::of(kind)))
}
