//! Checkpoints: which there are, and taking them now.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::json;
use super::deadline::Deadline;
use super::openapi::Common;
use super::problem::{Kind, Problem};
use super::routes::Api;
use crate::workers::{Checkpointed, Stored, Stream};

/// Which streams are meant.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Only this stream; otherwise all.
    #[param(example = "clicks")]
    stream: Option<String>,
}

/// Of each shard that is here.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Checkpoints {
    checkpoints: Vec<Checkpoint>,
}

/// A shard and its newest stored checkpoint.
#[derive(Debug, Serialize, ToSchema)]
struct Checkpoint {
    stream: String,
    partition: u32,
    /// Absent where nothing was folded that could be stored, or nothing is stored yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Place>,
}

/// Where a stored checkpoint stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Place {
    /// The offset that comes next: all before it are in the checkpoint.
    next: u64,
    bytes: u64,
    /// Since it was stored; unknown of one that was there before the service started.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
}

impl From<Stored> for Place {
    fn from(stored: Stored) -> Self {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        let age_ms = stored.time_ms.map(|time_ms| now_ms.saturating_sub(time_ms).max(0) as u64);
        Self { next: stored.next.0, bytes: stored.bytes, age_ms }
    }
}

/// Which checkpoints are there?
#[utoipa::path(
    get,
    path = "/v1/checkpoint",
    operation_id = "show_checkpoints",
    tag = "status",
    params(Asked),
    responses((status = 200, description = "The newest checkpoint of each shard", body = Checkpoints), Common),
)]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let mut deadline = Deadline::of(&api.limits);
    let streams = meant(&api, asked)?;
    api.require_ready()?;
    let mut checkpoints = Vec::new();
    for (name, stream) in streams {
        let Some(shards) = deadline.wait_for(stream.status()).await else {
            return Err(Problem::new(Kind::AnswerTimeout, "the service is overloaded; ask again later"));
        };
        checkpoints.extend(shards?.into_iter().map(|shard| Checkpoint {
            stream: name.clone(),
            partition: shard.status.as_of.partition,
            checkpoint: shard.checkpoint.map(Place::from),
        }));
    }
    Ok(json(&Checkpoints { checkpoints }))
}

/// Take checkpoints now
///
/// Answers when the state of every shard that is here is stored as it was when the request came, or later. On Kafka only
/// what is committed is stored.
#[utoipa::path(
    post,
    path = "/v1/checkpoint",
    operation_id = "take_checkpoints",
    tag = "status",
    params(Asked),
    responses((status = 200, description = "What is stored now", body = Checkpoints), Common),
)]
pub(super) async fn take(
    State(api): State<Arc<Api>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let mut deadline = Deadline::of(&api.limits);
    let streams = meant(&api, asked)?;
    api.require_ready()?;
    if let Some(why) = api.streams.store_failure() {
        return Err(Problem::new(Kind::CheckpointFailed, why));
    }
    let mut checkpoints = Vec::new();
    for (name, stream) in streams {
        let Some(stored) = deadline.wait_for(stream.save()).await else {
            let detail = "not all shards were stored in time; what was stored stays, ask again later";
            return Err(Problem::new(Kind::CheckpointFailed, detail));
        };
        checkpoints.extend(stored?.into_iter().map(|Checkpointed { partition, stored }| Checkpoint {
            stream: name.clone(),
            partition,
            checkpoint: stored.map(Place::from),
        }));
    }
    Ok(json(&Checkpoints { checkpoints }))
}

fn meant(api: &Api, asked: Result<Query<Asked>, QueryRejection>) -> Result<Vec<(String, &Stream)>, Problem> {
    let Query(asked) = asked.map_err(|error| Problem::new(Kind::InvalidQuery, error.body_text()))?;
    match asked.stream {
        Some(name) => Ok(vec![api.stream(Ok(Path(name)))?]),
        None => Ok(api.streams.iter().map(|(name, stream)| (name.to_owned(), stream)).collect()),
    }
}
