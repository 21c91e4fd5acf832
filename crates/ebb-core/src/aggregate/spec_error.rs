//! Why the configuration of an aggregate is invalid.

use super::method::Method;
use ebb_sketch::aggregate::ShapeError;
use ebb_sketch::aggregate::robust::{AccuracyError, WindowSpecError};
use ebb_sketch::units::Bytes;

/// Why parameters are invalid, and what would be valid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AggregateSpecError {
    /// The method needs a decay.
    #[error("method {} needs a decay; write decay: exponential:half_life=10m", .0.name())]
    NoDecay(Method),
    /// The decay has no integral form.
    #[error("{decay} does not fit method integral: {why}")]
    Integral {
        /// The configured decay.
        decay: String,
        /// What is wrong with it.
        why: String,
    },
    /// The step or the maximum is not positive, or the step is larger than the maximum.
    #[error("step ({step}) and max ({max}) must be greater than zero, and step must not be greater than max")]
    Step {
        /// The configured step.
        step: f64,
        /// The configured maximum.
        max: f64,
    },
    /// The maximum in steps does not fit into a sketch.
    #[error("{max} has too many steps of {step}: write a step of {nearest} or more")]
    Steps {
        /// The configured step.
        step: f64,
        /// The configured maximum.
        max: f64,
        /// The smallest valid step.
        nearest: f64,
    },
    /// The table of keys is empty.
    #[error("keys must be at least 1")]
    NoKeys,
    /// Different values are counted by one method only.
    #[error("different values are counted by method robust, not {}; set method: robust", .0.name())]
    DistinctMethod(Method),
    /// Different values are counted or listed, not both.
    #[error(
        "an aggregate counts different values or lists the most frequent ones; configure another aggregate for top"
    )]
    DistinctTop,
    /// The method has no memory budget.
    #[error(
        "method {} has no memory budget; remove memory, or set method: robust, integral or forward", .0.name()
    )]
    NoBudget(Method),
    /// The budget cannot be kept under all traffic.
    #[error("{} is too small for this aggregate; set {} or more", Bytes(*.given), Bytes(*.min))]
    Memory {
        /// The configured budget.
        given: u64,
        /// The smallest valid budget.
        min: u64,
    },
    /// `epsilon` or `delta` is out of range.
    #[error(transparent)]
    Accuracy(#[from] AccuracyError),
    /// The horizon does not fit the method.
    #[error(transparent)]
    Window(#[from] WindowSpecError),
    /// The sketch would be invalid.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl AggregateSpecError {
    /// The configuration key to change.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NoDecay(_) | Self::Integral { .. } | Self::Shape(ShapeError::Decay { .. }) => "decay",
            Self::Step { .. } | Self::Steps { .. } | Self::Shape(ShapeError::Bits { .. }) => "step",
            Self::NoKeys => "keys",
            Self::DistinctMethod(_) => "method",
            Self::DistinctTop => "top",
            Self::NoBudget(_) | Self::Memory { .. } => "memory",
            Self::Accuracy(AccuracyError::Delta { .. }) => "delta",
            Self::Window(_) | Self::Shape(ShapeError::Horizon { .. } | ShapeError::Cells { .. }) => "horizon",
            Self::Accuracy(_) | Self::Shape(_) => "epsilon",
        }
    }
}
