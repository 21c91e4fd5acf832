//! Streams and their shards in figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use tokio::time::timeout;

use super::body::json;
use super::decision::AsOf;
use super::problem::{Kind, Problem};
use super::question::span_text;
use super::routes::Api;
use crate::shard::{AggregateStatus, Counts, KeyCounts, Reason, Refusal, Seen};
use crate::workers::{ShardStatus, Stream};

#[derive(Serialize)]
struct List<'a> {
    streams: Vec<Summary<'a>>,
}

#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    partitions: usize,
    dedup: Dedup,
}

#[derive(Serialize)]
struct Dedup {
    /// Absent where the filter forgets at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<String>,
    seen: &'static str,
}

#[derive(Serialize)]
struct Detail<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    shards: Vec<Shard>,
}

#[derive(Serialize)]
struct Shard {
    as_of: AsOf,
    /// Up to where the newest stored checkpoint reaches.
    checkpoint_next: Option<u64>,
    events: Events,
    fill: f64,
    false_duplicate_rate: f64,
    /// What decisions with penalties rest on: `posterior`, or why not.
    basis: &'static str,
    isolated_keys: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aggregates: Vec<Aggregate>,
    memory_bytes: u64,
}

#[derive(Serialize)]
struct Aggregate {
    name: String,
    events: u64,
    /// Events that this aggregate did not take, by reason.
    refused: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Keys>,
    memory_bytes: u64,
}

#[derive(Serialize)]
struct Keys {
    own: u64,
    waiting: u64,
    evictions: u64,
    other_events: u64,
}

/// Since the beginning of the log.
#[derive(Serialize)]
struct Events {
    unique: u64,
    duplicate: u64,
    late: u64,
    rejected: BTreeMap<&'static str, u64>,
}

/// Needs no shard: answers while they are being restored, too.
pub(super) async fn list(State(api): State<Arc<Api>>) -> Response {
    json(&List { streams: api.streams.iter().map(|(name, stream)| Summary::of(name, stream)).collect() })
}

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
    Ok(json(&Detail { summary: Summary::of(&name, stream), shards: status.iter().map(Shard::of).collect() }))
}

impl<'a> Summary<'a> {
    fn of(name: &'a str, stream: &Stream) -> Self {
        let dedup = &stream.plan().dedup;
        let seen = match dedup.seen {
            Seen::First => "first",
            Seen::Last => "last",
        };
        Self { name, partitions: stream.partitions(), dedup: Dedup { window: dedup.window().map(span_text), seen } }
    }
}

impl Shard {
    fn of(shard: &ShardStatus) -> Self {
        let status = &shard.status;
        Self {
            as_of: status.as_of.into(),
            checkpoint_next: shard.checkpoint.map(|next| next.0),
            events: Events::of(&status.counts),
            fill: status.fill,
            false_duplicate_rate: status.false_duplicate_rate,
            basis: status.basis.name(),
            isolated_keys: status.isolated_keys,
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
    fn of(counts: &Counts) -> Self {
        let rejected = Reason::ALL.map(|reason| (reason.name(), counts.rejected(reason))).into();
        Self { unique: counts.unique, duplicate: counts.duplicate, late: counts.late, rejected }
    }
}
