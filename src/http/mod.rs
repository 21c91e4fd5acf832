//! The HTTP interface: questions and events in, decisions out, plus probes and metrics.
//!
//! The only module that uses axum and hyper. It limits what a request may cost and reports errors; decisions are made by
//! the shards.
//!
//! Guarantees:
//! - H1 every connection ends: each of its phases has a deadline, and input is limited before it costs memory;
//! - H2 every error response is `application/problem+json` with a stable `type`, what is wrong and how to correct it (a
//!   malformed HTTP head is answered by hyper with a bare status, and the connection is closed);
//! - H3 a rejected event is a decision: it is answered with 200 and its reason and does not affect the other events of its
//!   batch;
//! - H4 input of clients never becomes a metric label or a log line; request ids are logged only if they cannot break a line;
//! - H5 if tokens are configured, only probes and the API description are served without a token, and nothing is recorded
//!   with a read-only token; tokens appear in no log line, metric or response.

mod aggregates;
mod auth;
mod body;
mod checkpoint;
mod connection;
mod connection_limit;
mod deadline;
mod decide;
mod decide_request;
mod decide_response;
mod decide_schema;
mod edge;
mod explanation;
mod fields;
mod frequency;
#[cfg(fuzzing)]
pub mod fuzzed;
mod observe;
mod openapi;
mod phase;
mod position;
mod probes;
mod problem;
mod problems;
mod reloading;
mod routes;
mod server;
mod status;
mod tls;
mod tokens;

pub(crate) use aggregates::StatisticName;
pub use decide_request::MAX_EXPLAINED_EVENTS;
pub use fields::MAX_EVENTS;
pub use reloading::ReloadError;
pub use routes::{Api, Routes};
pub use server::{HttpLimits, Listener, serve};
pub use tls::{ServerTls, TlsError, TlsFiles};
pub use tokens::{Tokens, TokensError};
