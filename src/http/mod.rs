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
//! - H4 what clients send never becomes a metric label or a log line; request ids do only in a form that cannot break one.

mod aggregates;
mod body;
mod connection;
mod decide;
mod decision;
mod observe;
mod pace;
mod probes;
mod problem;
mod question;
mod routes;
mod seats;
mod server;
mod status;

pub use question::MOST_EVENTS;
pub use routes::{Api, Routes};
pub use server::{HttpLimits, serve};
