//! Named aggregates: `/v1/streams/{stream}/aggregates/{aggregate}/…`, each statistic a path of its own.
//!
//! What is asked stands in the query. The same questions are answered from exports that are sent ([`merge`]).

mod answer;
mod asked;

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::body::{self, json};
use super::deadline::Deadline;
use super::openapi::Common;
use super::position::late;
use super::problem::{Kind, Problem};
use super::routes::Api;
use crate::workers::{AggregateAskError, AtLeast, Stream};
use answer::Answer;
use asked::{DecayParam, PartParams, PhisParam, TopParams, ValueParam, WhereParam};
use ebb_core::{AggregateError, AggregateQuestion, ExportError, KeyScope};

pub(super) use asked::{Asked, Phi, Wanted};

type Names = Result<Path<(String, String)>, PathRejection>;
type Asking = Result<Query<Asked>, QueryRejection>;

/// Exports, one after the other.
pub(super) const EXPORT: &str = "application/octet-stream";

/// Declares one statistic: how it is asked of a stream and of exports.
macro_rules! statistic {
    ($name:ident, $merge:ident, $wanted:ident, $path:literal, [$($params:ty),*], $doc:literal) => {
        #[doc = $doc]
        ///
        /// Asks all shards that are here together, each as of where it stands; with any decay, where the method allows it.
        #[utoipa::path(
            get,
            path = concat!("/v1/streams/{stream}/aggregates/{aggregate}/", $path),
            operation_id = $path,
            tag = "aggregates",
            params(
                ("stream" = String, Path, description = "A stream's name", example = "clicks"),
                ("aggregate" = String, Path, description = "An aggregate's name", example = "spend"),
                DecayParam, PartParams, $($params),*
            ),
            responses((status = 200, description = "The answer and its bounds", body = Answer), Common),
        )]
        pub(super) async fn $name(
            api: State<Arc<Api>>,
            names: Names,
            asked: Asking,
        ) -> Result<Response, Problem> {
            ask(&api, names, asked, Wanted::$wanted).await
        }

        #[doc = $doc]
        ///
        /// Asks what exports hold together, this stream's own events only if its export is among them. The body is one or
        /// more exports, one after the other, of aggregates of the same specification under the same hash key.
        #[utoipa::path(
            post,
            path = concat!("/v1/streams/{stream}/aggregates/{aggregate}/merge/", $path),
            operation_id = concat!("merge_", $path),
            tag = "exports",
            params(
                ("stream" = String, Path, description = "A stream's name", example = "clicks"),
                ("aggregate" = String, Path, description = "An aggregate's name", example = "spend"),
                DecayParam, $($params),*
            ),
            request_body(content = Exports, content_type = "application/octet-stream"),
            responses((status = 200, description = "The answer and its bounds", body = Answer), Common),
        )]
        pub(super) async fn $merge(
            api: State<Arc<Api>>,
            names: Names,
            asked: Asking,
            request: Request,
        ) -> Result<Response, Problem> {
            merge(&api, names, asked, request, Wanted::$wanted).await
        }
    };
}

statistic!(sum, merge_sum, Sum, "sum", [], "What is the sum of what is measured?");
statistic!(count, merge_count, Count, "count", [], "How many events, each as often as its weight says?");
statistic!(mean, merge_mean, Mean, "mean", [], "What is the mean of what is measured?");
statistic!(
    quantiles,
    merge_quantiles,
    Quantiles,
    "quantiles",
    [PhisParam],
    "Below which values do these shares of the events lie?"
);
statistic!(rank, merge_rank, Rank, "rank", [ValueParam], "Which share of the events lies up to a value?");
statistic!(top, merge_top, Top, "top", [TopParams], "What makes up at least a share of the events?");
statistic!(share, merge_share, Share, "share", [WhereParam], "Which share of the events does a condition select?");

/// Bytes of exports.
#[derive(Debug)]
pub(super) struct Exports;

impl utoipa::PartialSchema for Exports {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::Custom("ebb-export".into())))
            .description(Some("Exports, one after the other."))
            .build()
            .into()
    }
}

impl utoipa::ToSchema for Exports {}

/// What is not a statistic.
pub(super) async fn unknown() -> Problem {
    let names: Vec<&str> = Wanted::ALL.into_iter().map(Wanted::name).collect();
    Problem::new(Kind::UnknownPath, format!("the statistics are: {}; or ask for an export", names.join(", ")))
}

/// All that the aggregate keeps, to be merged elsewhere.
///
/// Sealed bytes that hold neither the hash key nor anything drawn from it, and are read only by an aggregate of the same
/// specification under the same hash key. Exports put one after the other are several exports.
#[utoipa::path(
    get,
    path = "/v1/streams/{stream}/aggregates/{aggregate}/export",
    operation_id = "export",
    tag = "exports",
    params(
        ("stream" = String, Path, description = "A stream's name", example = "clicks"),
        ("aggregate" = String, Path, description = "An aggregate's name", example = "spend"),
        PartParams
    ),
    responses(
        (status = 200, description = "One export", body = Exports, content_type = "application/octet-stream"),
        Common
    ),
)]
pub(super) async fn export(State(api): State<Arc<Api>>, names: Names, asked: Asking) -> Result<Response, Problem> {
    let mut deadline = Deadline::of(&api.limits);
    let (aggregate, stream) = found(&api, names)?;
    let asked = Asked::read(asked)?;
    asked.refuse_statistic()?;
    let question = asked.question(stream)?;
    let stream = &stream.narrowed(question.partition)?;
    api.require_ready()?;
    let at_least = &question.at_least;
    let exported = first_known(question.parts, |part| stream.export(&aggregate, part, at_least));
    let bytes = in_time(&mut deadline, at_least, exported).await?;
    let mut response = bytes.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EXPORT));
    Ok(response)
}

async fn ask(api: &Api, names: Names, asked: Asking, wanted: Wanted) -> Result<Response, Problem> {
    let mut deadline = Deadline::of(&api.limits);
    // Before the query: what a statistic needs is no use for an aggregate that is not there.
    let (aggregate, stream) = found(api, names)?;
    let asked = Asked::read(asked)?;
    let (question, statistic) = (asked.question(stream)?, asked.statistic(wanted)?);
    let stream = &stream.narrowed(question.partition)?;
    api.require_ready()?;
    let (decay, at_least) = (question.decay, &question.at_least);
    let answered = first_known(question.parts, |part| {
        let (aggregate, decay, statistic) = (aggregate.clone(), decay.clone(), statistic.clone());
        stream.aggregate(AggregateQuestion { aggregate, scope: part, decay, statistic }, at_least)
    });
    let answer = in_time(&mut deadline, at_least, answered).await?;
    Ok(json(&Answer::of(stream, (&aggregate, wanted.name()), answer)))
}

async fn merge(api: &Api, names: Names, asked: Asking, request: Request, wanted: Wanted) -> Result<Response, Problem> {
    let mut deadline = Deadline::of(&api.limits);
    let (aggregate, stream) = found(api, names)?;
    let asked = Asked::read(asked)?;
    asked.refuse_part()?;
    let (decay, statistic) = (asked.question(stream)?.decay, asked.statistic(wanted)?);
    let exports = body::read_bytes(request, api.limits.max_body_bytes, &mut deadline).await?;
    let question = AggregateQuestion { aggregate: aggregate.clone(), scope: KeyScope::Whole, decay, statistic };
    let merged = in_time(&mut deadline, &AtLeast::Anywhere, stream.merge(question, exports)).await?;
    Ok(json(&Answer::merged((&aggregate, wanted.name()), merged)))
}

/// The aggregate that a path names, and its stream.
fn found(api: &Api, names: Names) -> Result<(String, &Stream), Problem> {
    let Path((stream, aggregate)) = names
        .map_err(|_| Problem::new(Kind::InvalidPath, "names in a path are UTF-8 text, percent-encoded where needed"))?;
    let (_, stream) = api.stream(Ok(Path(stream)))?;
    stream.plan().aggregate(&aggregate)?;
    Ok((aggregate, stream))
}

async fn in_time<T>(
    deadline: &mut Deadline,
    at_least: &AtLeast,
    answering: impl Future<Output = Result<T, AggregateAskError>>,
) -> Result<T, Problem> {
    match deadline.wait_for(answering).await {
        Some(answer) => Ok(answer?),
        None => Err(late(at_least)),
    }
}

/// A key may stand in events with quotes or without: the first that is known answers.
async fn first_known<T, F: Future<Output = Result<T, AggregateAskError>>>(
    parts: Vec<KeyScope>,
    ask: impl Fn(KeyScope) -> F,
) -> Result<T, AggregateAskError> {
    let mut answered = Err(AggregateAskError::Refused(AggregateError::NoSuchKey));
    for part in parts {
        answered = ask(part).await;
        if !matches!(answered, Err(AggregateAskError::Refused(AggregateError::NoSuchKey))) {
            break;
        }
    }
    answered
}

impl From<AggregateAskError> for Problem {
    fn from(error: AggregateAskError) -> Self {
        match error {
            AggregateAskError::Unasked(error) => error.into(),
            AggregateAskError::Refused(error) => error.into(),
        }
    }
}

impl From<AggregateError> for Problem {
    fn from(error: AggregateError) -> Self {
        let kind = match &error {
            AggregateError::Unknown { .. } => Kind::UnknownAggregate,
            AggregateError::NoSuchKey => Kind::UnknownKey,
            AggregateError::Export(ExportError::Damaged { .. } | ExportError::None | ExportError::TooMany) => {
                Kind::InvalidExport
            }
            AggregateError::Export(ExportError::Foreign { .. }) => Kind::ForeignExport,
            AggregateError::Export(ExportError::Twice { .. } | ExportError::NoIds) => Kind::DuplicateExport,
            AggregateError::NotByKey
            | AggregateError::NotKept { .. }
            | AggregateError::OtherDecay { .. }
            | AggregateError::Value(_)
            | AggregateError::Cells(_)
            | AggregateError::Sampled(_)
            | AggregateError::Statistic(_)
            | AggregateError::Mixed(_) => Kind::Unanswerable,
        };
        Problem::new(kind, error.to_string())
    }
}
