//! Ebb: a forgetful memory for event streams.
//!
//! The map of the crate, in reading order. Dependencies point down this list only (`tests/layering.rs`).
//!
//! Pure: no clock, no I/O, no randomness but what the log keys.
//! - [`hash`]: bytes and a secret key to a fingerprint; [`random`]: draws that a replay repeats; [`codec`]: bytes of state.
//! - [`units`]: durations and sizes as people write them; [`decay`]: what an observation of some age still weighs.
//! - [`traffic`]: a synthetic click stream and a web server's log, the same for the same seed.
//! - [`filter`]: membership and frequency over time; [`sketch`]: decayed aggregates.
//! - [`shard`]: the fold of one partition: record in, verdict out; questions, answers, snapshots.
//!
//! The shell: clocks, threads, disks, sockets.
//! - [`store`]: checkpoints and the journal, the only module that names sled; [`kafka`]: the only one that names rdkafka.
//! - [`metrics`]: every metric, once.
//! - [`workers`]: the threads that own shards, and streams as the outside sees them.
//! - [`http`]: questions and events over HTTP, the only module that names axum.
//! - [`config`]: one YAML file to a configuration that is valid because it exists; [`telemetry`]: log lines.
//! - [`app`]: what starts and stops in which order; [`cli`]: what may be asked of the binary.

pub mod codec;
pub mod decay;
pub mod hash;
pub mod random;
pub mod traffic;
pub mod units;

pub mod filter;
pub mod shard;
pub mod sketch;

pub mod http;
pub mod kafka;
pub mod metrics;
pub mod store;
pub mod workers;

pub mod app;
pub mod cli;
pub mod config;
pub mod telemetry;
