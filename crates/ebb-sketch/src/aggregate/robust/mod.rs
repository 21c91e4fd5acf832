//! Duplicate- and order-insensitive sampling sketches.
//!
//! - [`RobustSketch`]: the method `robust`, a [`DecayedSketch`](super::DecayedSketch) over values, labels, or both.
//! - [`WindowSketch`]: the underlying sample of one value per observation, for any window or decay chosen by the query.
//!
//! An element of weight w owns w integers. A keyed hash ([`hash`], over [`progression`] and [`record_lows`]) samples them at
//! levels of halving probability, and each level keeps the elements that stay relevant longest ([`store`]). The state is a
//! function of the set of distinct elements. Where elements decay as a whole they are also sampled as a whole ([`Sizing`]),
//! by weight or by amount. [`SampleReading`] computes statistics from such a sample. The published form for
//! one integral decay is [`paper::integral`](super::paper::integral).

mod accuracy;
mod codec;
mod concentration;
mod element;
mod fields;
mod floors;
pub mod hash;
pub mod progression;
mod query;
mod reading;
mod recent;
pub mod record_lows;
mod sample;
mod sizing;
mod sketch;
pub mod store;
mod window;

pub use accuracy::{Accuracy, AccuracyError, MAX_COPIES, MAX_TAU};
pub use element::{Element, ElementId, MAX_ELEMENT_TIME_MS};
pub use fields::{RobustSketch, RobustSpec, SampledFields, SumSource};
pub use reading::SampleReading;
pub use sample::{Sample, ValueDistribution};
pub use sizing::Sizing;
pub use sketch::{ELEMENT_BYTES, SampleSketch, SampleSpec, SampleStore};
pub use window::{WindowSketch, WindowSpec, WindowSpecError};

pub(crate) use element::is_extreme;
pub(crate) use floors::LevelFloors;
pub use floors::NO_FLOOR;
pub(crate) use recent::RecentElements;
pub(crate) use sample::SampleRow;
pub(crate) use sketch::{STORE_BYTES, draw_hashes};
