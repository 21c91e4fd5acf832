//! Count, sum and mean.

use super::bracket::{Assurance, Bracket};
use crate::aggregate::answer::Estimate;
use crate::aggregate::error::MergeError;
use crate::aggregate::robust::SampleReading;

/// Decayed count, sum and mean.
#[derive(Debug, Clone, PartialEq)]
pub enum Totals {
    /// From cells, with certain bounds.
    Cells(CellTotals),
    /// From a sample.
    Sample(SampleReading),
}

impl Totals {
    /// The decayed weight of all observations.
    pub fn count(&self) -> Estimate {
        match self {
            Self::Cells(totals) => totals.count(),
            Self::Sample(sample) => sample.weight(),
        }
    }

    /// The decayed sum of weight times value.
    pub fn sum(&self) -> Estimate {
        match self {
            Self::Cells(totals) => totals.sum(),
            Self::Sample(sample) => sample.value_sum(),
        }
    }

    /// The decayed mean of the values; `None` without observations.
    pub fn mean(&self) -> Option<Estimate> {
        match self {
            Self::Cells(totals) => totals.mean(),
            Self::Sample(sample) => sample.mean(),
        }
    }

    /// The totals of both streams.
    pub fn merge(self, other: Self) -> Result<Self, MergeError> {
        match (self, other) {
            (Self::Cells(totals), Self::Cells(others)) => Ok(Self::Cells(totals.merge(others))),
            (Self::Sample(_), _) | (_, Self::Sample(_)) => Err(MergeError::SampleReading),
        }
    }
}

/// Decayed weight and decayed sum of weight times value, from cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellTotals {
    pub(crate) count: Bracket,
    pub(crate) sum: Bracket,
    pub(crate) assurance: Assurance,
}

impl CellTotals {
    pub(crate) fn new() -> Self {
        Self { count: Bracket::default(), sum: Bracket::default(), assurance: Assurance::exact() }
    }

    /// The reading of both streams.
    pub fn merge(mut self, other: Self) -> Self {
        self.count.merge(other.count);
        self.sum.merge(other.sum);
        Self { assurance: self.assurance.merge(other.assurance), ..self }
    }

    fn estimate(&self, bracket: Bracket, assurance: Assurance) -> Estimate {
        assurance.estimate(bracket, assurance.guarantee(bracket.relative_half_width()))
    }

    /// The decayed weight of all observations.
    pub fn count(&self) -> Estimate {
        self.estimate(self.count, self.assurance)
    }

    /// Epsilon bounds the error of the count only; the sum has its bounds.
    pub fn sum(&self) -> Estimate {
        self.estimate(self.sum, self.assurance.only_if_exact())
    }

    /// The decayed mean of the values; `None` without observations.
    pub fn mean(&self) -> Option<Estimate> {
        if self.count.value <= 0.0 {
            return None;
        }
        let assurance = self.assurance.only_if_exact();
        let value = self.sum.value / self.count.value;
        let bracket = if assurance.epsilon.is_some() {
            Bracket { lower: value, value, upper: value }
        } else {
            let lower = if self.count.upper > 0.0 { self.sum.lower / self.count.upper } else { 0.0 };
            let upper = if self.count.lower > 0.0 { self.sum.upper / self.count.lower } else { f64::INFINITY };
            Bracket { lower, value, upper }
        };
        Some(self.estimate(bracket, assurance))
    }
}
