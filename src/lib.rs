//! Ebb: a forgetful memory for event streams.
//!
//! The map of the crate, in reading order. Dependencies point down this list only (`tests/layering.rs`).
//!
//! Pure: no clock, no I/O, no randomness but what the log keys.
//! - [`hash`]: bytes and a secret key to a fingerprint; [`random`]: draws that a replay repeats; [`codec`]: bytes of state.
//! - [`units`]: durations and sizes as people write them; [`decay`]: what an observation of some age still weighs.
//!
//! The shell:
//! - [`config`]: one file and the environment to a valid configuration; [`telemetry`]: log lines.
//! - [`kafka`]: the only module that names rdkafka.
//! - [`app`]: start order, stop order, deadlines; [`cli`]: the command line.

pub mod codec;
pub mod decay;
pub mod hash;
pub mod random;
pub mod units;

pub mod filter;
pub mod sketch;

pub mod config;
pub mod telemetry;

pub mod kafka;

pub mod app;
pub mod cli;
