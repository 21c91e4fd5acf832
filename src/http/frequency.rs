//! How often items came of late: one, or a batch.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::{self, json};
use super::deadline::Deadline;
use super::decision::{Frequency, ReasonName};
use super::forms::FrequencyBody;
use super::openapi::Common;
use super::position::{AsOf, Partitions, late, number, parse_at_least};
use super::problem::{Kind, Problem};
use super::question::{Batch, Place, parse_json, partition};
use super::routes::Api;
use crate::workers::{AtLeast, Stream};
use ebb_core::{Reason, Subject};

/// The query of a question about one item.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// An event as JSON, of which the item's fields and the key are read.
    #[param(example = json!("{\"ip\":\"10.1.2.3\",\"ad\":\"ad-7\",\"user\":\"u-1\",\"campaign\":\"c1\"}"))]
    item: String,
    /// Waits until the log is folded up to and with an offset: `17`, or by partition `0:17,3:5`.
    #[param(format = "ebb-at-least")]
    at_least: Option<String>,
    /// The only partition to be asked.
    #[param(value_type = Option<u32>, maximum = 2147483647)]
    partition: Option<String>,
}

/// The body of a question about many.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    items: Batch<'a>,
    at_least: Option<Place>,
    #[serde(default, deserialize_with = "partition")]
    partition: Option<u32>,
}

/// A count, or why the item could not be read.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Counted {
    Count(Frequency),
    Rejected {
        #[schema(value_type = ReasonName)]
        reason: &'static str,
        detail: &'static str,
    },
}

/// How often one item came.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ItemFrequency {
    #[serde(flatten)]
    counted: Counted,
    as_of: Vec<AsOf>,
    /// Of how many partitions it speaks, where partitions can be another instance's.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Partitions>,
}

/// How often items came, in the order of the question.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ItemFrequencies {
    frequencies: Vec<Counted>,
    /// Of each partition that was asked.
    as_of: Vec<AsOf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Partitions>,
}

/// How often did an item come of late?
///
/// The decayed count of the item, never too low unless it says so. On Kafka what the partitions of this instance have
/// counted is added up.
#[utoipa::path(
    get,
    path = "/v1/streams/{stream}/frequency",
    tag = "frequency",
    params(("stream" = String, Path, description = "A stream's name", example = "clicks"), Asked),
    responses((status = 200, description = "The count, or why the item could not be read", body = ItemFrequency), Common),
)]
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let mut deadline = Deadline::of(&api.limits);
    let (_, stream) = api.stream(name)?;
    let Query(asked) = asked.map_err(|error| Problem::new(Kind::InvalidQuery, error.body_text()))?;
    let at_least = read_at_least(asked.at_least.as_deref())?;
    let stream = &stream.narrowed(read_partition(asked.partition.as_deref())?)?;
    api.require_ready()?;
    let (mut counted, as_of, partitions) = count(stream, &[asked.item.as_bytes()], &at_least, &mut deadline).await?;
    let counted = counted.pop().expect("as many counts as items, and there is one item");
    Ok(json(&ItemFrequency { counted, as_of, partitions }))
}

/// How often did items come of late?
#[utoipa::path(
    post,
    path = "/v1/streams/{stream}/frequency",
    tag = "frequency",
    params(("stream" = String, Path, description = "A stream's name", example = "clicks")),
    request_body(content = FrequencyBody, examples(
        ("two" = (summary = "Two items", value = json!({
            "items": [{"ip": "10.1.2.3", "ad": "ad-7", "user": "u-1", "campaign": "c1"}, {"ip": "10.1.2.4", "ad": "ad-7", "user": "u-2", "campaign": "c2"}]
        }))),
    )),
    responses((status = 200, description = "A count for each item, in order", body = ItemFrequencies), Common),
)]
pub(super) async fn many(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let mut deadline = Deadline::of(&api.limits);
    let (_, stream) = api.stream(name)?;
    api.require_ready()?;
    let body = body::read_json(request, api.limits.max_body_bytes, &mut deadline).await?;
    let Envelope { items, at_least, partition } = parse_json(&body)?;
    let at_least = Place::read(at_least.as_ref())?;
    let items = items.whole()?;
    let stream = &stream.narrowed(partition)?;
    let items: Vec<&[u8]> = items.iter().map(|item| item.get().as_bytes()).collect();
    let (frequencies, as_of, partitions) = count(stream, &items, &at_least, &mut deadline).await?;
    Ok(json(&ItemFrequencies { frequencies, as_of, partitions }))
}

async fn count(
    stream: &Stream,
    items: &[&[u8]],
    at_least: &AtLeast,
    deadline: &mut Deadline,
) -> Result<(Vec<Counted>, Vec<AsOf>, Option<Partitions>), Problem> {
    if stream.plan().frequency.is_none() {
        let detail = "this stream counts no items; add frequency: {half_life: 1h} to it";
        return Err(Problem::new(Kind::Unanswerable, detail));
    }
    let reader = stream.reader();
    let read: Vec<Result<Subject, Reason>> = items.iter().map(|item| reader.read_subject(item)).collect();
    let known = read.iter().flatten().cloned().collect();
    let counted = match deadline.wait_for(stream.count(known, at_least)).await {
        Some(counted) => counted?,
        None => return Err(late(at_least)),
    };
    let mut counts = counted.counts.into_iter();
    let place = |read| match read {
        Err(reason) => Counted::Rejected { reason: Reason::name(reason), detail: reason.description() },
        Ok(_) => {
            let count = counts.next().flatten().expect("each item was counted: the stream keeps counts");
            Counted::Count(Frequency { count: count.value, lower_bound: count.lower_bound })
        }
    };
    let all = read.into_iter().map(place).collect();
    let partitions = stream.is_shared().then(|| Partitions::of_places(&counted.as_of, stream));
    Ok((all, counted.as_of.into_iter().map(AsOf::from).collect(), partitions))
}

/// `at_least` of a query.
pub(super) fn read_at_least(text: Option<&str>) -> Result<AtLeast, Problem> {
    let at_least = text.map_or(Ok(AtLeast::Anywhere), parse_at_least);
    at_least.map_err(|detail| Problem::new(Kind::InvalidQuery, detail))
}

/// `partition` of a query.
pub(super) fn read_partition(text: Option<&str>) -> Result<Option<u32>, Problem> {
    let read = |text| number(text).and_then(|partition| u32::try_from(partition).ok());
    let refused = || Problem::new(Kind::InvalidQuery, "partition: write a whole number below 2^32, such as 3");
    text.map(|text| read(text).ok_or_else(refused)).transpose()
}
