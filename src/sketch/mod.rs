//! Decayed aggregates: sums, quantiles and heavy hitters whose old data fades away.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod answer;
pub mod predicate;
pub mod robust;
