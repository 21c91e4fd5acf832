//! Decayed aggregates: sums, quantiles and heavy hitters whose old data fades away.
//!
//! - [`answer`], [`predicate`]: what every method answers with, and which observations a share is asked for.
//! - [`qdigest`], [`spacesaving`]: how values and labels are spread, without time; [`content`]: a cell of them, and readings.
//! - [`forward`]: one exponential decay, exact and cheapest. [`division`]: one smooth decay and those it dominates.
//! - [`cascade`]: any window, any decay, when it is asked; [`levels`]: the published form of it, for comparison.
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
