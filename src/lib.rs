//! Ebb: a forgetful memory for event streams.
//!
//! The map of the crate, in reading order. Dependencies point down this list only (`tests/layering.rs`).
//!
//! Pure: no clock, no I/O, no randomness but what the log keys.
//! - [`hash`]: bytes and a secret key to a fingerprint; [`random`]: draws that a replay repeats; [`codec`]: bytes of state.
//! - [`units`]: durations and sizes as people write them; [`decay`]: what an observation of some age still weighs.
//!
//! The shell: clocks, threads, disks.
//! - [`http`]: questions and events in, decisions out, the only module that names axum.
//! - [`store`]: checkpoints and the journal, the only module that names sled.

pub mod codec;
pub mod config;
pub mod decay;
pub mod hash;
pub mod random;
pub mod units;

pub mod filter;
pub mod shard;
pub mod sketch;

pub mod http;
pub mod metrics;
pub mod store;
pub mod workers;
