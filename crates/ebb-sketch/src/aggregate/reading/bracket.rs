//! Numbers with bounds, and what supports them.

use crate::aggregate::answer::{Estimate, Evidence, Guarantee};

/// Bounds on how much the content of a cell has decayed, and the factor used for the estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DecayFactor {
    pub lower: f64,
    pub middle: f64,
    pub upper: f64,
}

impl DecayFactor {
    pub fn exact(weight: f64) -> Self {
        Self { lower: weight, middle: weight, upper: weight }
    }

    /// Uses the arithmetic mean of the bounds: a range that straddles the edge of a window counts half.
    pub fn between(lower: f64, upper: f64) -> Self {
        Self { lower, middle: (lower + upper) / 2.0, upper }
    }

    /// Uses the harmonic mean of the bounds, whose relative distance to both is the same.
    pub fn harmonic(lower: f64, upper: f64) -> Self {
        let middle = if lower + upper > 0.0 { 2.0 * lower * upper / (lower + upper) } else { 0.0 };
        Self { lower, middle, upper }
    }
}

/// An estimate with certain bounds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bracket {
    /// The true number is at least this.
    pub lower: f64,
    /// The estimate.
    pub value: f64,
    /// The true number is at most this.
    pub upper: f64,
}

impl Bracket {
    pub(crate) fn add(&mut self, mass: f64, factor: DecayFactor) {
        self.lower += mass * factor.lower;
        self.value += mass * factor.middle;
        self.upper += mass * factor.upper;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.lower += other.lower;
        self.value += other.value;
        self.upper += other.upper;
    }

    /// The larger distance of the bounds from the value.
    pub(crate) fn half_width(self) -> f64 {
        (self.upper - self.value).max(self.value - self.lower).max(0.0)
    }

    /// [`Self::half_width`] relative to the value.
    pub(crate) fn relative_half_width(self) -> f64 {
        let off = self.half_width();
        if off > 0.0 { off / self.value.max(f64::MIN_POSITIVE) } else { 0.0 }
    }

    /// The share of `part` in `part` plus `rest`.
    pub(crate) fn share(part: Self, rest: Self) -> Self {
        let share = |part: f64, rest: f64| if part <= 0.0 { 0.0 } else { part / (part + rest) };
        Self {
            lower: share(part.lower, rest.upper),
            value: share(part.value, rest.value),
            upper: share(part.upper, rest.lower),
        }
    }
}

/// What supports a reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assurance {
    /// The error the sketch was built for, if it holds for this query. Without it only the bounds are certain.
    pub epsilon: Option<f64>,
    /// True when the query reaches past what the sketch still remembers.
    pub incomplete: bool,
    /// How many cells were combined.
    pub cells: u64,
}

impl Assurance {
    pub(crate) fn exact() -> Self {
        Self { epsilon: Some(0.0), incomplete: false, cells: 0 }
    }

    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            epsilon: self.epsilon.zip(other.epsilon).map(|(a, b)| a.max(b)),
            incomplete: self.incomplete || other.incomplete,
            cells: self.cells + other.cells,
        }
    }

    /// Keeps a guaranteed error only if it is zero: for statistics whose error is not bounded by epsilon.
    pub(crate) fn only_if_exact(self) -> Self {
        Self { epsilon: self.epsilon.filter(|epsilon| *epsilon == 0.0), ..self }
    }

    /// Without a guaranteed error the stated error is what the bounds of the answer leave open.
    pub(crate) fn guarantee(self, open: f64) -> Guarantee {
        match self.epsilon {
            Some(0.0) => Guarantee::Exact,
            Some(epsilon) => Guarantee::Deterministic { epsilon },
            None => Guarantee::Deterministic { epsilon: open },
        }
    }

    pub(crate) fn evidence(self) -> Evidence {
        Evidence::Cells(self.cells)
    }

    pub(crate) fn estimate(self, bracket: Bracket, guarantee: Guarantee) -> Estimate {
        let Bracket { lower, value, upper } = bracket;
        Estimate { value, lower, upper, guarantee, incomplete: self.incomplete, evidence: self.evidence() }
    }
}
