//! The service over HTTP: questions and events in, decisions out; probes and metrics beside them.
//!
//! The only module that names axum and hyper. It knows what a request may cost and how a mistake is told; what a decision
//! means is for the shards to know.
//!
//! Promises:
//! - H1 every connection ends: each phase of it has a deadline, and what is read of it a limit, before it costs memory;
//! - H2 every answered mistake is `application/problem+json` with a stable `type`, what was wrong and what would be right
//!   (a head that is no HTTP is answered by the protocol alone: a bare status and the end of the connection);
//! - H3 a rejection is a decision: it is answered with 200 and its reason, and one bad event of a batch spoils no other;
//! - H4 what clients send never becomes a metric label or a log line; request ids do only in a form that cannot break one;
//! - H5 where tokens are configured nothing but probes and the description of the API is answered without one, and nothing
//!   is recorded by one that may only read; tokens are in no log line, metric or answer.

mod aggregates;
mod body;
mod checkpoint;
mod connection;
mod deadline;
mod decide;
mod decision;
mod details;
mod forms;
mod frequency;
mod fresh;
#[cfg(fuzzing)]
pub mod fuzzed;
mod guard;
mod observe;
mod openapi;
mod pace;
mod position;
mod probes;
mod problem;
mod problems;
mod question;
mod routes;
mod seats;
mod server;
mod status;
mod tls;
mod tokens;

pub use fresh::FreshError;
pub use question::{MOST_EVENTS, MOST_EXPLAINED};
pub use routes::{Api, Routes};
pub use server::{Entrance, HttpLimits, serve};
pub use tls::{Tls, TlsError, TlsFiles};
pub use tokens::{Tokens, TokensError};
