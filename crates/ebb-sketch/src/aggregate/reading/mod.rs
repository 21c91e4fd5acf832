//! Readings: what one or several sketches know at one time under one decay.
//!
//! A method that keeps cells of time decides which cells exist and by which factors their content may have decayed; the
//! `Cell…` readings sum that up with certain bounds. A method that samples gives a
//! [`SampleReading`](super::robust::SampleReading). [`Totals`], [`Values`] and [`Labels`] answer the same statistics from
//! either. Readings of cells add up, so partitions can be queried apart and merged; samples are merged as sketches.

mod bracket;
mod labels;
mod totals;
mod values;

pub(crate) use bracket::DecayFactor;
pub use bracket::{Assurance, Bracket};
pub use labels::{CellLabels, Labels, TopLabel, TopLabels};
pub use totals::{CellTotals, Totals};
pub(crate) use values::ValueRange;
pub use values::{CellValues, Values};
