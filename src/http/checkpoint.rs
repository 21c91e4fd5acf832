//! Checkpoints: listing the stored ones and storing new ones on request.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::json;
use super::deadline::RequestDeadline;
use super::openapi::ProblemResponses;
use super::position::overloaded;
use super::problem::{Problem, ProblemKind};
use super::routes::{Api, parse_query};
use crate::workers::{PartitionCheckpoint, StoredCheckpoint, Stream};

/// The query of both checkpoint operations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CheckpointQuery {
    /// The only stream to consider; all streams if absent.
    #[param(example = "clicks")]
    stream: Option<String>,
}

/// One entry per shard of this instance.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CheckpointsResponse {
    checkpoints: Vec<ShardCheckpointResponse>,
}

/// A shard and its newest checkpoint.
#[derive(Debug, Serialize, ToSchema)]
struct ShardCheckpointResponse {
    stream: String,
    partition: u32,
    /// Absent if nothing is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<CheckpointResponse>,
}

/// A stored checkpoint.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CheckpointResponse {
    /// The next offset: the checkpoint contains every record before it.
    next: u64,
    bytes: u64,
    /// Time since it was stored; absent for a checkpoint from before the start of the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
}

impl From<StoredCheckpoint> for CheckpointResponse {
    fn from(stored: StoredCheckpoint) -> Self {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        let age_ms = stored.time_ms.map(|time_ms| now_ms.saturating_sub(time_ms).max(0) as u64);
        Self { next: stored.next.0, bytes: stored.bytes, age_ms }
    }
}

/// List checkpoints
#[utoipa::path(
    get,
    path = "/v1/checkpoint",
    operation_id = "show_checkpoints",
    tag = "status",
    params(CheckpointQuery),
    responses(
        (status = 200, description = "The newest checkpoint of each shard", body = CheckpointsResponse),
        ProblemResponses
    ),
)]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    query: Result<Query<CheckpointQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let streams = selected_streams(&api, query)?;
    api.require_ready()?;
    let mut checkpoints = Vec::new();
    for (name, stream) in streams {
        let shards = deadline.run(stream.status()).await.ok_or_else(overloaded)?;
        checkpoints.extend(shards?.into_iter().map(|shard| ShardCheckpointResponse {
            stream: name.clone(),
            partition: shard.status.as_of.partition,
            checkpoint: shard.checkpoint.map(CheckpointResponse::from),
        }));
    }
    Ok(json(&CheckpointsResponse { checkpoints }))
}

/// Store checkpoints now
///
/// Responds when a checkpoint of every shard of this instance is stored whose state is at least as new as the request. On
/// Kafka only committed state is stored.
#[utoipa::path(
    post,
    path = "/v1/checkpoint",
    operation_id = "take_checkpoints",
    tag = "status",
    params(CheckpointQuery),
    responses((status = 200, description = "The stored checkpoints", body = CheckpointsResponse), ProblemResponses),
)]
pub(super) async fn take(
    State(api): State<Arc<Api>>,
    query: Result<Query<CheckpointQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let mut deadline = RequestDeadline::start(&api.limits);
    let streams = selected_streams(&api, query)?;
    api.require_ready()?;
    if let Some(error) = api.streams.store_failure() {
        return Err(Problem::new(ProblemKind::CheckpointFailed, error));
    }
    let mut checkpoints = Vec::new();
    for (name, stream) in streams {
        let Some(stored) = deadline.run(stream.save()).await else {
            let detail = "not every shard was stored before the request timeout; checkpoints that were stored are kept, \
                          retry later";
            return Err(Problem::new(ProblemKind::CheckpointFailed, detail));
        };
        checkpoints.extend(stored?.into_iter().map(|PartitionCheckpoint { partition, stored }| {
            ShardCheckpointResponse {
                stream: name.clone(),
                partition,
                checkpoint: stored.map(CheckpointResponse::from),
            }
        }));
    }
    Ok(json(&CheckpointsResponse { checkpoints }))
}

fn selected_streams(
    api: &Api,
    query: Result<Query<CheckpointQuery>, QueryRejection>,
) -> Result<Vec<(String, &Stream)>, Problem> {
    match parse_query(query)?.stream {
        Some(name) => Ok(vec![api.stream(Ok(Path(name)))?]),
        None => Ok(api.streams.iter().map(|(name, stream)| (name.to_owned(), stream)).collect()),
    }
}
