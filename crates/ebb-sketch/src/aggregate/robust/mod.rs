//! The duplicate- and order-insensitive sketches.
//!
//! - [`sketch`]: any window or decay, chosen when asking ([`WindowSketch`]); the default where sources may repeat.
//! - [`integral`]: one integral decay fixed in advance ([`IntegralSketch`]), the paper's own form.
//!
//! Both sample the integers that elements own ([`sampling`], over [`linear`] and [`records`]) at levels of halving
//! probability and keep at each level what lives longest. [`answers`] reads statistics from such a sample.

mod accuracy;
mod answers;
mod codec;
pub mod element;
pub mod expiry;
pub mod integral;
pub mod linear;
mod near;
pub mod pool;
mod query;
pub mod records;
mod sample;
pub mod sampling;
pub mod sketch;
pub mod window;

pub use accuracy::{Accuracy, AccuracyError};
pub use answers::{Answers, StatisticError};
pub use codec::Parameters;
pub use element::{Element, ElementError, ElementId};
pub use expiry::{IntegralDecay, IntegralDecayError};
pub use integral::{IntegralSketch, IntegralSpec, IntegralSpecError};
pub use sample::{ByValue, Measured, Sample};
pub use sketch::{MergeError, QuestionError, SpecError, WindowSketch, WindowSpec};
