//! The configuration and the state of streams and their shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use super::body::json;
use super::checkpoint::CheckpointResponse;
use super::decide_request::format_window;
use super::decide_response::BasisName;
use super::edge::EdgeRejections;
use super::openapi::ProblemResponses;
use super::position::{AsOfResponse, PartitionCoverage, overloaded};
use super::problem::Problem;
use super::routes::Api;
use crate::workers::{PartitionStatus, Stream};
use ebb_core::{
    AggregateSpec, AggregateStatus, ClassForgetting, KeyCounts, Plan, Reason, Refusal, Seen, ShardStatus, VerdictCounts,
};
use ebb_sketch::filter::structure::frequency::FrequencySpec;
use ebb_sketch::units::DurationMs;

/// All streams.
#[derive(Serialize, ToSchema)]
pub(super) struct StreamsResponse {
    streams: Vec<StreamSummaryResponse>,
}

/// The configuration of a stream.
#[derive(Serialize, ToSchema)]
struct StreamSummaryResponse {
    name: String,
    partitions: usize,
    event: EventFieldsResponse,
    dedup: DedupSummaryResponse,
    /// Method of the frequency view; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    aggregates: Vec<AggregateSummaryResponse>,
}

/// The fields of an event.
#[derive(Serialize, ToSchema)]
struct EventFieldsResponse {
    /// The fields that identify an item.
    item: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

#[derive(Serialize, ToSchema)]
struct DedupSummaryResponse {
    /// Absent if the filter has no window because it forgets at random or never.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<String>,
    /// The event from which an item's age counts.
    seen: &'static str,
}

/// How a filter that forgets at random forgets in its steady state.
#[derive(Serialize, ToSchema)]
struct ForgettingResponse {
    /// Age at which half of the most important items are forgotten; absent if other items keep them found.
    #[serde(skip_serializing_if = "Option::is_none")]
    half_forgotten_events: Option<u64>,
    /// Share of repeats after a whole window that are missed; absent if the window is not known in events.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_share: Option<f64>,
    /// The importance classes, least important first; absent if all items are alike.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    classes: Vec<ClassForgettingResponse>,
}

/// One importance class.
#[derive(Serialize, ToSchema)]
struct ClassForgettingResponse {
    /// Its configured name, or its cell value.
    class: String,
    /// Its share of recent events.
    share: f64,
    /// Share of its new items that are taken for duplicates.
    false_duplicate_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    half_forgotten_events: Option<u64>,
}

#[derive(Serialize, ToSchema)]
struct AggregateSummaryResponse {
    name: String,
    method: &'static str,
    epsilon: f64,
    horizon: String,
    /// Maximum number of keys with a sketch of their own; absent if the aggregate is not kept by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u32>,
    /// The most memory of the aggregate in each partition; absent if the method has no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_limit_bytes: Option<u64>,
}

/// A stream and its shards on this instance.
#[derive(Serialize, ToSchema)]
pub(super) struct StreamResponse {
    #[serde(flatten)]
    summary: StreamSummaryResponse,
    /// The partitions of the shards.
    answering: PartitionCoverage,
    /// The sum of the shards, and the events that were rejected before they reached a shard since the instance started.
    events: EventCountsResponse,
    shards: Vec<ShardResponse>,
}

#[derive(Serialize, ToSchema)]
struct ShardResponse {
    as_of: AsOfResponse,
    /// Records of the log that are not processed yet; absent while the end of the log is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<u64>,
    /// The newest stored checkpoint; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<CheckpointResponse>,
    /// Since the beginning of the log.
    events: EventCountsResponse,
    /// Share of the filter that is in use.
    fill: f64,
    /// Estimated probability that a new item is called a duplicate.
    false_duplicate_rate: f64,
    /// Absent if the filter does not forget at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgetting: Option<ForgettingResponse>,
    /// What decisions with penalties are based on: the policy in force, or `learning`.
    basis: BasisName,
    /// The learned share of events that repeat an item of the window; absent while it is learned and with other priors.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<ShareResponse>,
    /// Largest recent difference between stated probabilities and observed frequencies; absent if it is not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration_error: Option<f64>,
    /// Number of keys with a filter of their own.
    isolated_keys: usize,
    /// How often a counter of the frequency view overflowed.
    exhausted_counts: u64,
    /// Number of events that the frequency view did not count because their weight was out of range.
    refused_weights: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    aggregates: Vec<AggregateStatusResponse>,
    memory_bytes: u64,
}

/// An estimated share with its interval at two standard deviations.
#[derive(Serialize, ToSchema)]
struct ShareResponse {
    share: f64,
    lower: f64,
    upper: f64,
}

#[derive(Serialize, ToSchema)]
struct AggregateStatusResponse {
    name: String,
    events: u64,
    /// Number of events that the aggregate did not include, by reason.
    refused: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<KeyCountsResponse>,
    memory_bytes: u64,
    /// How often samples were halved to keep the memory budget.
    coarseness: u8,
}

/// The keys of an aggregate.
#[derive(Serialize, ToSchema)]
struct KeyCountsResponse {
    /// Keys with a sketch of their own.
    own: u64,
    /// Keys that were seen once and have no sketch yet.
    waiting: u64,
    evictions: u64,
    /// Events that were added to `other` because their key has no sketch.
    other_events: u64,
}

/// Number of events by verdict.
#[derive(Default, Serialize, ToSchema)]
struct EventCountsResponse {
    unique: u64,
    duplicate: u64,
    late: u64,
    /// By reason.
    rejected: BTreeMap<&'static str, u64>,
}

/// List streams
///
/// Also answers while shards are being restored.
#[utoipa::path(
    get,
    path = "/v1/streams",
    operation_id = "list_streams",
    tag = "status",
    responses((status = 200, description = "All streams", body = StreamsResponse), ProblemResponses),
)]
pub(super) async fn list(State(api): State<Arc<Api>>) -> Response {
    let streams = api.streams.iter().map(|(name, stream)| StreamSummaryResponse::new(name, stream));
    json(&StreamsResponse { streams: streams.collect() })
}

/// Show a stream and its shards
#[utoipa::path(
    get,
    path = "/v1/streams/{stream}",
    operation_id = "show_stream",
    tag = "status",
    params(("stream" = String, Path, description = "Name of a stream", example = "clicks")),
    responses((status = 200, description = "The stream and its shards", body = StreamResponse), ProblemResponses),
)]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let (name, stream) = api.stream(name)?;
    api.require_ready()?;
    let status = timeout(api.limits.request_timeout, stream.status()).await.map_err(|_| overloaded())??;
    let mut events = EventCountsResponse::from_edge(api.edge_rejections(&name));
    status.iter().for_each(|shard| events.add(&shard.status.counts));
    Ok(json(&StreamResponse {
        summary: StreamSummaryResponse::new(&name, stream),
        answering: PartitionCoverage::new(status.iter().map(|shard| shard.status.as_of.partition).collect(), stream),
        events,
        shards: status.iter().map(|shard| ShardResponse::new(shard, stream.plan())).collect(),
    }))
}

impl StreamSummaryResponse {
    fn new(name: &str, stream: &Stream) -> Self {
        let plan = stream.plan();
        let seen = match plan.dedup.renewal() {
            Seen::First => "first",
            Seen::Last => "last",
        };
        let event = plan.reader.spec();
        let text = |path: Option<&ebb_core::Path>| path.map(ToString::to_string);
        Self {
            name: name.to_owned(),
            partitions: stream.partitions(),
            event: EventFieldsResponse {
                item: event.item.iter().map(ToString::to_string).collect(),
                key: text(event.key.as_ref()),
                time: text(event.time.as_ref().map(|(path, _)| path)),
                id: text(event.id.as_ref()),
            },
            dedup: DedupSummaryResponse { window: plan.dedup.window().map(format_window), seen },
            frequency: plan.frequency.as_ref().map(|frequency| match frequency.spec() {
                FrequencySpec::Forward(_) => "forward",
                FrequencySpec::Basic(_) => "basic",
                FrequencySpec::Optimised(_) => "optimised",
            }),
            aggregates: plan.aggregates.iter().map(AggregateSummaryResponse::from).collect(),
        }
    }
}

impl From<&AggregateSpec> for AggregateSummaryResponse {
    fn from(spec: &AggregateSpec) -> Self {
        let parameters = spec.parameters();
        Self {
            name: parameters.name.clone(),
            method: parameters.method.name(),
            epsilon: parameters.epsilon,
            horizon: DurationMs(parameters.horizon_ms).to_string(),
            keys: parameters.keys,
            memory_limit_bytes: parameters.memory,
        }
    }
}

impl ForgettingResponse {
    /// Larger counters take too long to compute for a request.
    const MAX_VALUE: u8 = 31;

    fn new(status: &ShardStatus, plan: &Plan) -> Option<Self> {
        let spec = plan.dedup.filter.stable().filter(|spec| spec.filter.max_value() <= Self::MAX_VALUE)?;
        let forgetting = spec.forgetting(status.classes.as_ref())?;
        let named = plan.reader.spec().importance_classes.as_ref();
        let class = |class: &ClassForgetting| ClassForgettingResponse {
            class: spec.class_name(class.value, named),
            share: class.share,
            false_duplicate_share: status.false_duplicate_rate,
            missed_share: class.missed,
            half_forgotten_events: class.half_forgotten,
        };
        let classes = if status.classes.is_some() { forgetting.classes.as_slice() } else { &[] };
        Some(Self {
            half_forgotten_events: forgetting.half_forgotten,
            missed_share: forgetting.missed(),
            classes: classes.iter().map(class).collect(),
        })
    }
}

impl ShardResponse {
    fn new(shard: &PartitionStatus, plan: &Plan) -> Self {
        let status = &shard.status;
        let mut events = EventCountsResponse::default();
        events.add(&status.counts);
        Self {
            as_of: status.as_of.into(),
            lag: shard.lag,
            checkpoint: shard.checkpoint.map(CheckpointResponse::from),
            events,
            fill: status.fill,
            false_duplicate_rate: status.false_duplicate_rate,
            forgetting: ForgettingResponse::new(status, plan),
            basis: status.basis.into(),
            repeats: status.repeats.map(|repeats| ShareResponse {
                share: repeats.share,
                lower: repeats.lower,
                upper: repeats.upper,
            }),
            calibration_error: status.calibration_error,
            isolated_keys: status.isolated_keys,
            exhausted_counts: status.exhausted_counts,
            refused_weights: status.refused_weights,
            aggregates: status.aggregates.iter().map(AggregateStatusResponse::from).collect(),
            memory_bytes: status.memory_bytes,
        }
    }
}

impl From<&AggregateStatus> for AggregateStatusResponse {
    fn from(status: &AggregateStatus) -> Self {
        let refused = Refusal::ALL.map(|refusal| (refusal.name(), status.refused[refusal as usize])).into();
        let keys = status.keys.map(|counts| {
            let KeyCounts { keys: own, waiting, evictions, other_events } = counts;
            KeyCountsResponse { own, waiting, evictions, other_events }
        });
        let (name, events) = (status.name.clone(), status.events);
        Self { name, events, refused, keys, memory_bytes: status.memory_bytes, coarseness: status.coarseness }
    }
}

impl EventCountsResponse {
    fn from_edge(rejections: &EdgeRejections) -> Self {
        let rejected = Reason::ALL.map(|reason| (reason.name(), rejections.count(reason))).into();
        Self { rejected, ..Self::default() }
    }

    fn add(&mut self, counts: &VerdictCounts) {
        self.unique += counts.unique;
        self.duplicate += counts.duplicate;
        self.late += counts.late;
        for reason in Reason::ALL {
            *self.rejected.entry(reason.name()).or_default() += counts.rejected(reason);
        }
    }
}
