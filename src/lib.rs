//! Ebb: a forgetful memory for event streams.
//!
//! The map of the crate, in reading order. Dependencies point down this list only (`tests/layering.rs`).
//!
//! Pure: no clock, no I/O, no randomness but what the log keys.
//! - [`hash`]: bytes and a secret key to a fingerprint; [`random`]: draws that a replay repeats; [`codec`]: bytes of state.
//! - [`units`]: durations and sizes as people write them; [`decay`]: what an observation of some age still weighs.
//! - [`traffic`]: a synthetic click stream for the demo, benches and tests.

pub mod codec;
pub mod decay;
pub mod hash;
pub mod random;
pub mod traffic;
pub mod units;

pub mod filter;
pub mod shard;
pub mod sketch;
