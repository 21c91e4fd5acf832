//! Decayed aggregates: sums, quantiles and heavy hitters whose old data fades away.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod answer;
pub mod predicate;

pub mod cascade;
pub mod content;
pub mod division;
pub mod forward;
pub mod levels;
pub mod qdigest;
pub mod robust;
pub mod spacesaving;
