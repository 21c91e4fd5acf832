//! Named aggregates: `/v1/streams/{stream}/aggregates/{aggregate}/…`.
//!
//! A statistic is computed from the shards of this instance ([`show`]) or from exports in the request body ([`merge`]).

mod query;
mod response;

use std::sync::Arc;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::body::{self, json};
use super::deadline::RequestDeadline;
use super::openapi::ProblemResponses;
use super::position::answer_timeout;
use super::problem::{Problem, ProblemKind};
use super::routes::{Api, invalid_path};
use crate::workers::{AggregateQueryError, AtLeast, Stream};
use ebb_core::{AggregateError, AggregateQuestion, ExportError, KeyScope};
use query::{ExportParams, MergeParams};
use response::AggregateResponse;

pub(crate) use query::StatisticName;
pub(super) use query::{AggregateQuery, Phi};

type StatisticPathResult = Result<Path<StatisticPath>, PathRejection>;
type AggregateQueryResult = Result<Query<AggregateQuery>, QueryRejection>;

const EXPORT_MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The path of a statistic.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct StatisticPath {
    /// Name of a stream
    #[param(example = "clicks")]
    stream: String,
    /// Name of an aggregate
    #[param(example = "spend")]
    aggregate: String,
    /// The statistic to compute
    #[param(inline, example = "sum")]
    statistic: StatisticName,
}

impl StatisticPath {
    /// An unknown statistic is an unknown path, with the known ones as a hint.
    fn parse(path: StatisticPathResult) -> Result<Self, Problem> {
        let error = match path {
            Ok(Path(path)) => return Ok(path),
            Err(error) => error,
        };
        match error {
            PathRejection::FailedToDeserializePathParams(error)
                if !matches!(error.kind(), ErrorKind::InvalidUtf8InPathParam { .. }) =>
            {
                let names = StatisticName::ALL.map(StatisticName::as_str).join(", ");
                let detail = format!("the statistics are: {names}; an export is at /export");
                Err(Problem::new(ProblemKind::UnknownPath, detail))
            }
            _ => Err(invalid_path()),
        }
    }
}

/// One or more exports, concatenated.
#[derive(Debug)]
pub(super) struct ExportBytes;

impl utoipa::PartialSchema for ExportBytes {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::Custom("ebb-export".into())))
            .description(Some("One or more exports, concatenated."))
            .build()
            .into()
    }
}

impl utoipa::ToSchema for ExportBytes {}

/// Compute a statistic
///
/// Combines all shards of this instance, each at its own position. Any decay can be requested if the method of the
/// aggregate supports it.
///
/// - `sum`, `count`, `mean`: of the measured value, each event as often as its weight says
/// - `quantiles`: the values below which the shares `phi` of the events lie; needs `phi`
/// - `rank`: the share of the events up to `value`; needs `value`
/// - `top`: the items with at least the share `phi` of the events; needs `phi`, takes `mode`
/// - `share`: the share of the events that the condition `where` selects; needs `where`
/// - `distinct`: the number of different values of the field that the aggregate counts
///
/// A parameter that the statistic does not take is refused.
#[utoipa::path(
    get,
    path = "/v1/streams/{stream}/aggregates/{aggregate}/{statistic}",
    operation_id = "show_statistic",
    tag = "aggregates",
    params(StatisticPath, AggregateQuery),
    responses((status = 200, description = "The statistic and its bounds", body = AggregateResponse), ProblemResponses),
)]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    path: StatisticPathResult,
    query: AggregateQueryResult,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let StatisticPath { stream, aggregate, statistic: name } = StatisticPath::parse(path)?;
    // An unknown aggregate is reported before errors in the query.
    let stream = find(&api, stream, &aggregate)?;
    let mut query = AggregateQuery::parse(query)?;
    let (decay, last, time) = (query.decay()?, query.last()?, query.time()?);
    let (selection, statistic) = (query.selection(stream)?, query.statistic(name)?);
    let stream = &stream.restricted_to(selection.partition)?;
    api.require_ready()?;
    let at_least = &selection.at_least;
    let answering = first_known(selection.scopes, |scope| {
        let (aggregate, decay, statistic) = (aggregate.clone(), decay.clone(), statistic.clone());
        stream.aggregate(AggregateQuestion { aggregate, scope, decay, last, time, statistic }, at_least)
    });
    let answer = in_time(&mut deadline, at_least, answering).await?;
    Ok(json(&AggregateResponse::from_stream(stream, (&aggregate, name), answer)))
}

/// Compute a statistic from exports
///
/// Combines the exports in the body: one or more, concatenated, from aggregates with the same specification and hash key.
/// The events of this stream are included only if its export is. The statistics and their parameters are those of
/// `/v1/streams/{stream}/aggregates/{aggregate}/{statistic}`.
#[utoipa::path(
    post,
    path = "/v1/streams/{stream}/aggregates/{aggregate}/merge/{statistic}",
    operation_id = "merge_exports",
    tag = "exports",
    params(StatisticPath, MergeParams),
    request_body(content = ExportBytes, content_type = "application/octet-stream"),
    responses((status = 200, description = "The statistic and its bounds", body = AggregateResponse), ProblemResponses),
)]
pub(super) async fn merge(
    State(api): State<Arc<Api>>,
    path: StatisticPathResult,
    query: AggregateQueryResult,
    request: Request,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let StatisticPath { stream, aggregate, statistic: name } = StatisticPath::parse(path)?;
    let stream = find(&api, stream, &aggregate)?;
    let query = AggregateQuery::parse(query)?;
    query.require_merge()?;
    let (decay, last, time) = (query.decay()?, query.last()?, query.time()?);
    let (scope, statistic) = (KeyScope::Whole, query.statistic(name)?);
    let exports = body::read_bytes(request, api.limits.max_body_bytes, &mut deadline).await?;
    let question = AggregateQuestion { aggregate: aggregate.clone(), scope, decay, last, time, statistic };
    let merged = in_time(&mut deadline, &AtLeast::Anywhere, stream.merge(question, exports)).await?;
    Ok(json(&AggregateResponse::from_exports((&aggregate, name), merged)))
}

/// Merge exports into an export
///
/// Combines the exports in the body: one or more, concatenated, from aggregates with the same specification and hash key.
/// The result covers what they cover and can be merged again, so that regions can be combined step by step.
#[utoipa::path(
    post,
    path = "/v1/streams/{stream}/aggregates/{aggregate}/merge/export",
    operation_id = "combine_exports",
    tag = "exports",
    params(
        ("stream" = String, Path, description = "Name of a stream", example = "clicks"),
        ("aggregate" = String, Path, description = "Name of an aggregate", example = "spend"),
    ),
    request_body(content = ExportBytes, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "One export", body = ExportBytes, content_type = "application/octet-stream"),
        ProblemResponses
    ),
)]
pub(super) async fn combine(
    State(api): State<Arc<Api>>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: AggregateQueryResult,
    request: Request,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let Path((stream, aggregate)) = path.map_err(|_| invalid_path())?;
    let stream = find(&api, stream, &aggregate)?;
    AggregateQuery::parse(query)?.require_none()?;
    let exports = body::read_bytes(request, api.limits.max_body_bytes, &mut deadline).await?;
    let bytes = in_time(&mut deadline, &AtLeast::Anywhere, stream.combine(&aggregate, exports)).await?;
    Ok(export_response(bytes))
}

/// Export an aggregate
///
/// The complete state of the aggregate, to be merged elsewhere. An export contains neither the hash key nor anything
/// derived from it, and can be merged only by an aggregate with the same specification and hash key. Several exports are
/// concatenated.
#[utoipa::path(
    get,
    path = "/v1/streams/{stream}/aggregates/{aggregate}/export",
    operation_id = "export",
    tag = "exports",
    params(
        ("stream" = String, Path, description = "Name of a stream", example = "clicks"),
        ("aggregate" = String, Path, description = "Name of an aggregate", example = "spend"),
        ExportParams
    ),
    responses(
        (status = 200, description = "One export", body = ExportBytes, content_type = "application/octet-stream"),
        ProblemResponses
    ),
)]
pub(super) async fn export(
    State(api): State<Arc<Api>>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: AggregateQueryResult,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let Path((stream, aggregate)) = path.map_err(|_| invalid_path())?;
    let stream = find(&api, stream, &aggregate)?;
    let mut query = AggregateQuery::parse(query)?;
    query.require_export()?;
    let selection = query.selection(stream)?;
    let stream = &stream.restricted_to(selection.partition)?;
    api.require_ready()?;
    let at_least = &selection.at_least;
    let exporting = first_known(selection.scopes, |scope| stream.export(&aggregate, scope, at_least));
    Ok(export_response(in_time(&mut deadline, at_least, exporting).await?))
}

fn export_response(bytes: Vec<u8>) -> Response {
    let mut response = bytes.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, EXPORT_MEDIA_TYPE);
    response
}

/// The stream of a path, if it has the aggregate.
fn find<'a>(api: &'a Api, stream: String, aggregate: &str) -> Result<&'a Stream, Problem> {
    let (_, stream) = api.stream(Ok(Path(stream)))?;
    stream.plan().aggregate(aggregate)?;
    Ok(stream)
}

async fn in_time<T>(
    deadline: &mut RequestDeadline,
    at_least: &AtLeast,
    answering: impl Future<Output = Result<T, AggregateQueryError>>,
) -> Result<T, Problem> {
    match deadline.run(answering).await {
        Some(answer) => Ok(answer?),
        None => Err(answer_timeout(at_least)),
    }
}

/// Tries the scopes in order until one has a known key.
async fn first_known<T, F: Future<Output = Result<T, AggregateQueryError>>>(
    scopes: Vec<KeyScope>,
    ask: impl Fn(KeyScope) -> F,
) -> Result<T, AggregateQueryError> {
    let mut answer = Err(AggregateQueryError::Aggregate(AggregateError::NoSuchKey));
    for scope in scopes {
        answer = ask(scope).await;
        if !matches!(answer, Err(AggregateQueryError::Aggregate(AggregateError::NoSuchKey))) {
            break;
        }
    }
    answer
}

impl From<AggregateQueryError> for Problem {
    fn from(error: AggregateQueryError) -> Self {
        match error {
            AggregateQueryError::Query(error) => error.into(),
            AggregateQueryError::Aggregate(error) => error.into(),
        }
    }
}

impl From<AggregateError> for Problem {
    fn from(error: AggregateError) -> Self {
        let kind = match &error {
            AggregateError::Unknown { .. } => ProblemKind::UnknownAggregate,
            AggregateError::NoSuchKey => ProblemKind::UnknownKey,
            AggregateError::Export(ExportError::Damaged { .. } | ExportError::Missing | ExportError::TooMany) => {
                ProblemKind::InvalidExport
            }
            AggregateError::Export(ExportError::SpecMismatch { .. }) => ProblemKind::ForeignExport,
            AggregateError::Export(ExportError::DuplicatePartition { .. } | ExportError::NoIds) => {
                ProblemKind::DuplicateExport
            }
            AggregateError::NotByKey
            | AggregateError::NotKept { .. }
            | AggregateError::OtherDecay { .. }
            | AggregateError::Past { .. }
            | AggregateError::NoWindows { .. }
            | AggregateError::NoEvents
            | AggregateError::Value(_)
            | AggregateError::Query(_)
            | AggregateError::Mixed(_) => ProblemKind::Unanswerable,
        };
        Problem::new(kind, error.to_string())
    }
}
