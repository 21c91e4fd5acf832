//! From the state of a timing filter to a probability and a decision.
//!
//! [`InferentialFilter`] joins the steps: the filter reports a [`Reading`](crate::filter::structure::timing::Reading) and
//! its likelihood, a prior over ages comes from a constant share or is learned ([`prior`]), [`posterior`] combines them,
//! [`decision`] weighs the result by penalties, [`policy`] checks that this costs less than the alternatives, and
//! [`calibration`] records whether stated probabilities come true. [`distinct`] holds the papers' likelihoods from a model of the stream, for comparison.

pub mod calibration;
pub mod decision;
pub mod distinct;
mod filter;
pub mod policy;
pub mod posterior;
pub mod prior;
mod question;

pub use filter::{InferentialFilter, LearnedPrior};
pub use question::{Answer, Basis, Explanation, PosteriorDetails, PriorSpec, Question, Seen};
