//! Ebb: a forgetful memory for event streams.
//!
//! The service around the pure crates `ebb-core` (the fold) and `ebb-sketch` (filters and sketches). In reading order;
//! a module uses only modules further up this list (`tests/layering`).
//!
//! - [`config`]: one YAML file to a valid configuration; [`metrics`]: every metric, declared once.
//! - [`store`]: checkpoints and the journal, the only module that names sled; [`kafka`]: the only one that names rdkafka.
//! - [`workers`]: the threads that own shards, and streams as the rest of the service sees them.
//! - [`http`]: questions and events over HTTP, the only module that names axum; [`telemetry`]: logging.
//! - [`app`]: start-up and shutdown, from configuration to plans; [`cli`]: the command line.

pub mod config;
pub mod metrics;

pub mod kafka;
pub mod store;

pub mod workers;

pub mod http;
pub mod telemetry;

pub mod app;
pub mod cli;
