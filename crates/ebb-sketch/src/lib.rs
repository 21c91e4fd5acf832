//! Structures that forget: decaying filters and decayed aggregates.
//!
//! Pure: no clock, no I/O, no randomness that is not derived from an argument. The same calls give the same bytes on every
//! machine. Time is an argument.
//!
//! - [`filter`]: membership and frequency over time.
//! - [`aggregate`]: sums, quantiles and heavy hitters whose old data fades away.
//! - [`decay`]: how much an observation of some age still weighs; [`units`]: durations and sizes as people write them.
//! - [`hash`]: keyed fingerprints; [`random`]: reproducible draws; [`codec`]: framed, checksummed state bytes.

pub mod codec;
pub mod decay;
pub mod hash;
pub mod random;
pub mod units;

pub mod aggregate;
pub mod filter;
