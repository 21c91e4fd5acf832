//! Filters and sketches that forget.
//!
//! The crate is pure: no clock, no I/O, no randomness that is not derived from an argument. The same calls give the same
//! bytes on every machine, and time is an argument. It knows neither Kafka nor files nor configuration.
//!
//! | module | content |
//! |---|---|
//! | [`filter`] | membership and frequency over time; its documentation says which filter to choose |
//! | [`aggregate`] | decayed sums, quantiles and heavy hitters |
//! | [`decay`] | the weight of an observation as a function of its age |
//! | [`hash`] | keyed fingerprints of items |
//! | [`codec`] | sealed, checksummed state bytes |
//! | [`random`] | reproducible generators |
//! | [`units`] | durations and sizes in text |
#![deny(missing_docs)]

pub mod aggregate;
pub mod codec;
pub mod decay;
pub mod filter;
pub mod hash;
pub mod random;
pub mod units;

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctest;
