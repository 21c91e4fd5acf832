//! Counts, sums and means under a decay, with bounds.

use super::super::answer::{Estimate, Evidence, Guarantee};

/// Between which weights what stands in a cell may have decayed, and the weight that is used for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Factor {
    pub lower: f64,
    pub middle: f64,
    pub upper: f64,
}

impl Factor {
    pub fn exact(weight: f64) -> Self {
        Self { lower: weight, middle: weight, upper: weight }
    }

    /// The midpoint: straddling mass at half weight.
    pub fn between(lower: f64, upper: f64) -> Self {
        Self { lower, middle: (lower + upper) / 2.0, upper }
    }

    /// The harmonic mean of the ends: equally far from both in ratio.
    pub fn harmonic(lower: f64, upper: f64) -> Self {
        let middle = if lower + upper > 0.0 { 2.0 * lower * upper / (lower + upper) } else { 0.0 };
        Self { lower, middle, upper }
    }
}

/// A number that is known between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bracket {
    pub lower: f64,
    pub value: f64,
    pub upper: f64,
}

impl Bracket {
    pub(crate) fn add(&mut self, mass: f64, factor: Factor) {
        self.lower += mass * factor.lower;
        self.value += mass * factor.middle;
        self.upper += mass * factor.upper;
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.lower += other.lower;
        self.value += other.value;
        self.upper += other.upper;
    }
}

/// What stands behind a reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// The error the structure was built for, when it holds for this question; otherwise only the bounds are promised.
    pub epsilon: Option<f64>,
    pub incomplete: bool,
    pub cells: u64,
}

impl Standing {
    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            epsilon: self.epsilon.zip(other.epsilon).map(|(a, b)| a.max(b)),
            incomplete: self.incomplete || other.incomplete,
            cells: self.cells + other.cells,
        }
    }

    /// Zero is exact; without a promise the error is what the bounds of this answer leave open.
    pub(crate) fn guarantee(self, achieved: f64) -> Guarantee {
        match self.epsilon {
            Some(0.0) => Guarantee::Exact,
            Some(epsilon) => Guarantee::Deterministic { epsilon },
            None => Guarantee::Deterministic { epsilon: achieved },
        }
    }

    pub(crate) fn evidence(self) -> Evidence {
        Evidence::Cells(self.cells)
    }
}

/// How far the bounds are from the value, relative to it.
pub(crate) fn achieved(bracket: Bracket) -> f64 {
    let off = (bracket.upper - bracket.value).max(bracket.value - bracket.lower);
    if off <= 0.0 { 0.0 } else { off / bracket.value.max(f64::MIN_POSITIVE) }
}

/// Decayed count (the sum of weights) and decayed sum (of weight times value).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    pub(crate) count: Bracket,
    pub(crate) sum: Bracket,
    pub(crate) standing: Standing,
}

impl Totals {
    pub(crate) fn new() -> Self {
        let standing = Standing { epsilon: Some(0.0), incomplete: false, cells: 0 };
        Self { count: Bracket::default(), sum: Bracket::default(), standing }
    }

    /// The totals of both, as if one structure had seen everything.
    pub fn join(mut self, other: Self) -> Self {
        self.count.join(other.count);
        self.sum.join(other.sum);
        Self { standing: self.standing.join(other.standing), ..self }
    }

    fn estimate(&self, bracket: Bracket, standing: Standing) -> Estimate {
        Estimate {
            value: bracket.value,
            lower: bracket.lower,
            upper: bracket.upper,
            guarantee: standing.guarantee(achieved(bracket)),
            incomplete: self.standing.incomplete,
            evidence: self.standing.evidence(),
        }
    }

    /// The decayed weight of everything.
    pub fn count(&self) -> Estimate {
        self.estimate(self.count, self.standing)
    }

    /// The decayed sum of weight times value. Its bounds always hold; that they are near is promised of the count only.
    pub fn sum(&self) -> Estimate {
        self.estimate(self.sum, self.derived())
    }

    /// The decayed mean of the values; none when nothing is left.
    pub fn mean(&self) -> Option<Estimate> {
        if self.count.value <= 0.0 {
            return None;
        }
        let value = self.sum.value / self.count.value;
        let lower = if self.count.upper > 0.0 { self.sum.lower / self.count.upper } else { 0.0 };
        let upper = if self.count.lower > 0.0 { self.sum.upper / self.count.lower } else { f64::INFINITY };
        let exact = self.derived().epsilon == Some(0.0);
        let bracket =
            if exact { Bracket { lower: value, value, upper: value } } else { Bracket { lower, value, upper } };
        Some(self.estimate(bracket, self.derived()))
    }

    fn derived(&self) -> Standing {
        Standing { epsilon: self.standing.epsilon.filter(|epsilon| *epsilon == 0.0), ..self.standing }
    }
}
