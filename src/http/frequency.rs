//! Decayed counts of one item or a batch of items.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::{self, json, parse_json};
use super::deadline::RequestDeadline;
use super::decide_response::{DecayedCountResponse, ReasonName};
use super::fields::{AtLeastField, EventBatch, body_partition, query_partition};
use super::openapi::ProblemResponses;
use super::position::{AsOfResponse, PartitionCoverage, answer_timeout};
use super::problem::{Problem, ProblemKind};
use super::routes::{Api, parse_query};
use crate::workers::{AtLeast, Stream};
use ebb_core::{Reason, Subject};

/// The query of a question about one item.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FrequencyQuery {
    /// An event as JSON, of which the fields of the item and the key are read.
    #[param(example = json!("{\"ip\":\"10.1.2.3\",\"ad\":\"ad-7\",\"user\":\"u-1\",\"campaign\":\"c1\"}"))]
    item: String,
    /// Delays the answer until the log is processed up to and including an offset: `17`, or by partition `0:17,3:5`.
    #[param(value_type = Option<String>, format = "ebb-at-least")]
    at_least: Option<AtLeastField>,
    /// The only partition to ask.
    #[serde(default, deserialize_with = "query_partition")]
    #[param(maximum = 2147483647)]
    partition: Option<u32>,
}

/// A question about a batch of items.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FrequencyRequest<'a> {
    /// Events, of which the fields of the item and the key are read.
    #[serde(borrow)]
    items: EventBatch<'a>,
    at_least: Option<AtLeastField>,
    /// The only partition to ask.
    #[serde(default, deserialize_with = "body_partition")]
    #[schema(maximum = 2147483647)]
    partition: Option<u32>,
}

/// The count of an item, or why the item could not be read.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ItemCountResponse {
    Count(DecayedCountResponse),
    Rejected { reason: ReasonName, detail: &'static str },
}

/// The decayed count of one item.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FrequencyResponse {
    #[serde(flatten)]
    count: ItemCountResponse,
    as_of: Vec<AsOfResponse>,
    /// The partitions that the count covers; absent without Kafka, where every instance has all partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<PartitionCoverage>,
}

/// The decayed counts of a batch of items, in its order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FrequenciesResponse {
    frequencies: Vec<ItemCountResponse>,
    /// One entry per partition that was asked.
    as_of: Vec<AsOfResponse>,
    /// The partitions that the counts cover; absent without Kafka, where every instance has all partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<PartitionCoverage>,
}

/// Count an item
///
/// The decayed number of events of the item. The count is never too low unless `lower_bound` is true. On Kafka it is the
/// sum over the partitions of this instance.
#[utoipa::path(
    get,
    path = "/v1/streams/{stream}/frequency",
    tag = "frequency",
    params(("stream" = String, Path, description = "Name of a stream", example = "clicks"), FrequencyQuery),
    responses(
        (status = 200, description = "The count, or why the item could not be read", body = FrequencyResponse),
        ProblemResponses
    ),
)]
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<FrequencyQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let (_, stream) = api.stream(name)?;
    let FrequencyQuery { item, at_least, partition } = parse_query(query)?;
    let at_least = AtLeastField::or_anywhere(at_least);
    let stream = &stream.restricted_to(partition)?;
    api.require_ready()?;
    let mut counts = count(stream, &[item.as_bytes()], &at_least, &mut deadline).await?;
    let count = counts.frequencies.pop().expect("one item has one count");
    Ok(json(&FrequencyResponse { count, as_of: counts.as_of, partitions: counts.partitions }))
}

/// Count a batch of items
#[utoipa::path(
    post,
    path = "/v1/streams/{stream}/frequency",
    tag = "frequency",
    params(("stream" = String, Path, description = "Name of a stream", example = "clicks")),
    request_body(content = FrequencyRequest, examples(
        ("two" = (summary = "Two items", value = json!({
            "items": [{"ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1"}, {"ip": "10.1.2.4", "ad": "ad-7", "user": "u-2", "campaign": "c2"}]
        }))),
    )),
    responses(
        (status = 200, description = "A count for each item, in order", body = FrequenciesResponse),
        ProblemResponses
    ),
)]
pub(super) async fn many(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let (_, stream) = api.stream(name)?;
    api.require_ready()?;
    let body = body::read_json(request, api.limits.max_body_bytes, &mut deadline).await?;
    let FrequencyRequest { items, at_least, partition } = parse_json(&body)?;
    let at_least = AtLeastField::or_anywhere(at_least);
    let items = items.into_events()?;
    let stream = &stream.restricted_to(partition)?;
    let items: Vec<&[u8]> = items.iter().map(|item| item.get().as_bytes()).collect();
    Ok(json(&count(stream, &items, &at_least, &mut deadline).await?))
}

async fn count(
    stream: &Stream,
    items: &[&[u8]],
    at_least: &AtLeast,
    deadline: &mut RequestDeadline,
) -> Result<FrequenciesResponse, Problem> {
    if stream.plan().frequency.is_none() {
        let detail = "the stream has no frequency view; configure frequency: {half_life: 1h}";
        return Err(Problem::new(ProblemKind::Unanswerable, detail));
    }
    let reader = stream.reader();
    let subjects: Vec<Result<Subject, Reason>> = items.iter().map(|item| reader.read_subject(item)).collect();
    let readable = subjects.iter().flatten().cloned().collect();
    let counted = match deadline.run(stream.count(readable, at_least)).await {
        Some(counted) => counted?,
        None => return Err(answer_timeout(at_least)),
    };
    let mut counts = counted.counts.into_iter();
    let response = |subject: Result<Subject, Reason>| match subject {
        Err(reason) => ItemCountResponse::Rejected { reason: reason.into(), detail: reason.description() },
        Ok(_) => {
            let count = counts.next().flatten().expect("a stream with a frequency view counts every readable item");
            ItemCountResponse::Count(count.into())
        }
    };
    let frequencies = subjects.into_iter().map(response).collect();
    let partitions = stream.is_shared().then(|| PartitionCoverage::of_positions(&counted.as_of, stream));
    Ok(FrequenciesResponse {
        frequencies,
        as_of: counted.as_of.into_iter().map(AsOfResponse::from).collect(),
        partitions,
    })
}
