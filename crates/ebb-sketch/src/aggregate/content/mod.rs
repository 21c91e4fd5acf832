//! What the deterministic aggregates have in common: the observation they take, what a cell of time holds, and how a
//! question is answered from cells under a decay.
//!
//! A method ([`forward`](super::forward), [`division`](super::division), [`cascade`](super::cascade),
//! [`levels`](super::levels)) decides *which* cells there are and between which factors a cell may have decayed; the
//! readings here ([`Totals`], [`Values`], [`Labels`]) turn that into answers with bounds. Readings add up, so answers of
//! several shards are the answer of their joined readings.

mod cell;
pub(crate) mod codec;
mod labels;
mod observation;
mod timeline;
mod totals;
mod values;

pub(crate) use cell::Held;
pub use cell::{Content, ContentShape, Tally};
pub use labels::{Labels, TopLabel, TopLabels};
pub use observation::{MergeError, Observation, QuestionError, Refused, ShapeError, TIME_MOST_MS, WeightLimits};
pub(crate) use observation::{check_question_time, check_time};
pub use timeline::TimelineShape;
pub(crate) use timeline::{Gather, Timeline, position, time_at};
pub(crate) use totals::Factor;
pub use totals::{Bracket, Standing, Totals};
pub(crate) use values::Band;
pub use values::Values;
