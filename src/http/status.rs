//! Streams and their shards in figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::body::json;
use super::checkpoint::Place;
use super::decision::BasisName;
use super::openapi::Common;
use super::position::{AsOf, Partitions};
use super::problem::{Kind, Problem};
use super::question::span_text;
use super::routes::Api;
use crate::workers::{PartitionStatus, Stream};
use ebb_core::{AggregateSpec, AggregateStatus, KeyCounts, Reason, Refusal, Seen, VerdictCounts};
use ebb_sketch::filter::frequency::FrequencySpec;
use ebb_sketch::units::DurationMs;

/// All streams.
#[derive(Serialize, ToSchema)]
pub(super) struct List {
    streams: Vec<Summary>,
}

/// What a stream reads and keeps.
#[derive(Serialize, ToSchema)]
struct Summary {
    name: String,
    partitions: usize,
    event: Event,
    dedup: Dedup,
    /// How items are counted; absent where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    aggregates: Vec<AggregateSummary>,
}

/// The fields that are read of an event.
#[derive(Serialize, ToSchema)]
struct Event {
    /// What must not repeat.
    item: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct Dedup {
    /// Absent where the filter forgets at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<String>,
    seen: &'static str,
}

#[derive(Serialize, ToSchema)]
struct AggregateSummary {
    name: String,
    method: &'static str,
    epsilon: f64,
    horizon: String,
    /// How many keys have a place of their own; absent where it is not kept by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u32>,
}

/// A stream and its shards that are here.
#[derive(Serialize, ToSchema)]
pub(super) struct Detail {
    #[serde(flatten)]
    summary: Summary,
    /// Whose shards answer here.
    answering: Partitions,
    shards: Vec<Shard>,
}

#[derive(Serialize, ToSchema)]
struct Shard {
    as_of: AsOf,
    /// Records of the log that are not folded yet, where the end of the log is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<u64>,
    /// The newest stored checkpoint; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Place>,
    events: Events,
    /// Share of the filter that is in use.
    fill: f64,
    /// The estimated chance that a new item is taken for an old one.
    false_duplicate_rate: f64,
    /// What decisions with penalties rest on: `posterior`, or why not.
    #[schema(value_type = BasisName)]
    basis: &'static str,
    /// Keys with a filter of their own.
    isolated_keys: usize,
    /// How often a counter of items had no room.
    exhausted_counts: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    aggregates: Vec<Aggregate>,
    memory_bytes: u64,
}

#[derive(Serialize, ToSchema)]
struct Aggregate {
    name: String,
    events: u64,
    /// Events that this aggregate did not take, by reason.
    refused: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Keys>,
    memory_bytes: u64,
}

#[derive(Serialize, ToSchema)]
struct Keys {
    own: u64,
    waiting: u64,
    evictions: u64,
    other_events: u64,
}

/// Since the beginning of the log.
#[derive(Serialize, ToSchema)]
struct Events {
    unique: u64,
    duplicate: u64,
    late: u64,
    rejected: BTreeMap<&'static str, u64>,
}

/// Which streams are there?
///
/// Needs no shard: answers while they are being restored, too.
#[utoipa::path(
    get,
    path = "/v1/streams",
    operation_id = "list_streams",
    tag = "status",
    responses((status = 200, description = "All streams", body = List), Common),
)]
pub(super) async fn list(State(api): State<Arc<Api>>) -> Response {
    json(&List { streams: api.streams.iter().map(|(name, stream)| Summary::of(name, stream)).collect() })
}

/// How is a stream?
#[utoipa::path(
    get,
    path = "/v1/streams/{stream}",
    operation_id = "show_stream",
    tag = "status",
    params(("stream" = String, Path, description = "A stream's name", example = "clicks")),
    responses((status = 200, description = "The stream and its shards", body = Detail), Common),
)]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let (name, stream) = api.stream(name)?;
    api.require_ready()?;
    let status = match timeout(api.limits.request_timeout, stream.status()).await {
        Ok(status) => status?,
        Err(_) => return Err(Problem::new(Kind::AnswerTimeout, "the service is overloaded; ask again later")),
    };
    let answering = Partitions::new(status.iter().map(|shard| shard.status.as_of.partition).collect(), stream);
    let shards = status.iter().map(Shard::of).collect();
    Ok(json(&Detail { summary: Summary::of(&name, stream), answering, shards }))
}

impl Summary {
    fn of(name: &str, stream: &Stream) -> Self {
        let plan = stream.plan();
        let seen = match plan.dedup.seen {
            Seen::First => "first",
            Seen::Last => "last",
        };
        let event = plan.reader.spec();
        let text = |path: Option<&ebb_core::Path>| path.map(ToString::to_string);
        Self {
            name: name.to_owned(),
            partitions: stream.partitions(),
            event: Event {
                item: event.item.iter().map(ToString::to_string).collect(),
                key: text(event.key.as_ref()),
                time: text(event.time.as_ref().map(|(path, _)| path)),
                id: text(event.id.as_ref()),
            },
            dedup: Dedup { window: plan.dedup.window().map(span_text), seen },
            frequency: plan.frequency.map(|spec| match spec {
                FrequencySpec::Forward(_) => "forward",
                FrequencySpec::Basic(_) => "basic",
                FrequencySpec::Optimised(_) => "optimised",
            }),
            aggregates: plan.aggregates.iter().map(AggregateSummary::of).collect(),
        }
    }
}

impl AggregateSummary {
    fn of(spec: &AggregateSpec) -> Self {
        let given = spec.parameters();
        Self {
            name: given.name.clone(),
            method: given.method.name(),
            epsilon: given.epsilon,
            horizon: DurationMs(given.horizon_ms).to_string(),
            keys: given.keys,
        }
    }
}

impl Shard {
    fn of(shard: &PartitionStatus) -> Self {
        let status = &shard.status;
        Self {
            as_of: status.as_of.into(),
            lag: shard.lag,
            checkpoint: shard.checkpoint.map(Place::from),
            events: Events::of(&status.counts),
            fill: status.fill,
            false_duplicate_rate: status.false_duplicate_rate,
            basis: status.basis.name(),
            isolated_keys: status.isolated_keys,
            exhausted_counts: status.exhausted_counts,
            aggregates: status.aggregates.iter().map(Aggregate::of).collect(),
            memory_bytes: status.memory_bytes,
        }
    }
}

impl Aggregate {
    fn of(status: &AggregateStatus) -> Self {
        let refused = Refusal::ALL.map(|refusal| (refusal.name(), status.refused[refusal as usize])).into();
        let keys = status.keys.map(|counts| {
            let KeyCounts { keys: own, waiting, evictions, other_events } = counts;
            Keys { own, waiting, evictions, other_events }
        });
        let (name, events) = (status.name.clone(), status.events);
        Self { name, events, refused, keys, memory_bytes: status.memory_bytes }
    }
}

impl Events {
    fn of(counts: &VerdictCounts) -> Self {
        let rejected = Reason::ALL.map(|reason| (reason.name(), counts.rejected(reason))).into();
        Self { unique: counts.unique, duplicate: counts.duplicate, late: counts.late, rejected }
    }
}
