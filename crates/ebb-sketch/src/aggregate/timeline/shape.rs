//! How far back a timeline reaches, how well it answers, and what it keeps.

use crate::aggregate::error::ShapeError;
use crate::aggregate::summary::SummaryShape;

/// Blocks are at most 2^50 ms.
const MAX_HORIZON_MS: u64 = 1 << 50;

/// The shape of a sketch that answers any window up to a horizon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelineShape {
    pub(crate) epsilon: f64,
    pub(crate) horizon_ms: u64,
    pub(crate) summary: SummaryShape,
    /// Ranges that a level keeps.
    pub(crate) capacity: u32,
    /// Whether the capacity is large enough for epsilon to be guaranteed.
    pub(crate) is_guaranteed: bool,
}

impl TimelineShape {
    /// `ranges` is how many ranges a level needs per halving of time and per 1 / epsilon.
    pub(crate) fn new(epsilon: f64, horizon_ms: u64, summary: SummaryShape, ranges: f64) -> Result<Self, ShapeError> {
        let epsilon = ShapeError::check_share("epsilon", epsilon)?;
        ShapeError::check_horizon(horizon_ms, MAX_HORIZON_MS)?;
        let shape = Self { epsilon, horizon_ms, summary, capacity: 0, is_guaranteed: true };
        let halvings = f64::from(shape.height());
        let capacity = (ranges / epsilon * halvings + 2.0 * halvings + 4.0).ceil() as u32;
        Ok(Self { capacity, ..shape })
    }

    /// Overrides the capacity of a level (at least 4). Bounds still hold, but epsilon is no longer guaranteed.
    pub fn with_capacity(self, capacity: u32) -> Self {
        Self { capacity: capacity.max(4), is_guaranteed: false, ..self }
    }

    /// The guaranteed error of a count.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The longest window that can be queried.
    pub fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    /// What a range holds.
    pub fn summary(&self) -> SummaryShape {
        self.summary
    }

    /// Ranges that a level keeps.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Halvings from a block of time that spans the horizon to one millisecond.
    pub fn height(&self) -> u8 {
        (u64::BITS - (self.horizon_ms - 1).leading_zeros()).max(1) as u8
    }

    /// The weight at which a range of a level is full: the minimum weight times a power of two.
    pub(crate) fn range_capacity(&self, level: u32) -> f64 {
        self.summary.weights().min() * libm::ldexp(1.0, level as i32)
    }
}
