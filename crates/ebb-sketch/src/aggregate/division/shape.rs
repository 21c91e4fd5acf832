//! Which cells of time a division allows: a pure function of the decay, theta and the clock.

use crate::aggregate::error::ShapeError;
use crate::aggregate::summary::SummaryShape;
use crate::decay::Decay;

/// The most cells within a horizon.
pub const MAX_CELLS: u64 = 1 << 18;

/// The widest cell spans 2^MAX_WIDTH ms.
const MAX_WIDTH: u8 = 44;

/// The age of a width that is never allowed.
pub(super) const NEVER: u64 = u64::MAX;

/// The oldest age that is searched.
const MAX_AGE_MS: u64 = 1 << 50;

/// A decay, how much it may vary within a cell, how far back the sketch reaches, and what it keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct DivisionShape {
    pub(super) decay: Decay,
    pub(super) theta: f64,
    pub(super) horizon_ms: u64,
    pub(super) summary: SummaryShape,
    /// The smallest age at which the decay varies by at most 1 + theta within a cell of 2^k ms. Part of the state bytes, so
    /// that the rounding of another platform cannot move a cell.
    pub(super) ages: Vec<u64>,
    /// The width, as a power of two, that is allowed at any age.
    pub(super) base: u8,
}

impl DivisionShape {
    /// `decay` must be smooth (log-convex) and positive within the horizon.
    pub fn new(decay: Decay, theta: f64, horizon_ms: u64, summary: SummaryShape) -> Result<Self, ShapeError> {
        let theta = ShapeError::check_share("theta", theta)?;
        ShapeError::check_horizon(horizon_ms, MAX_AGE_MS)?;
        if !decay.is_smooth(horizon_ms) || decay.width().is_some() {
            let reason = "its relative fall must never accelerate (log-convex); use exponential or polynomial";
            return Err(ShapeError::Decay { decay: decay.to_string(), reason });
        }
        let ages: Vec<u64> = (0..=MAX_WIDTH).map(|width| age_for(&decay, theta, width)).collect();
        let shape = Self::with_ages(decay, theta, horizon_ms, summary, ages);
        let cells = shape.cells_within(horizon_ms);
        if cells > MAX_CELLS {
            let (mut fits, mut breaks) = (0, horizon_ms);
            while breaks - fits > 1 {
                let middle = fits + (breaks - fits) / 2;
                if shape.cells_within(middle) > MAX_CELLS { breaks = middle } else { fits = middle }
            }
            return Err(ShapeError::Cells { cells, max: MAX_CELLS, nearest_ms: fits });
        }
        Ok(shape)
    }

    pub(super) fn with_ages(decay: Decay, theta: f64, horizon_ms: u64, summary: SummaryShape, ages: Vec<u64>) -> Self {
        let base = ages.iter().rposition(|age| *age == 0).unwrap_or(0) as u8;
        Self { decay, theta, horizon_ms, summary, ages, base }
    }

    /// The theta for which quantiles and labels err by epsilon / 2, which leaves epsilon / 2 to their summary.
    pub fn theta_for_values(epsilon: f64) -> f64 {
        2.0 * epsilon
    }

    /// The theta for which counts err by epsilon.
    pub fn theta_for_totals(epsilon: f64) -> f64 {
        2.0 * epsilon / (1.0 - epsilon)
    }

    /// The decay the cells are made for.
    pub fn decay(&self) -> &Decay {
        &self.decay
    }

    /// By how much the decay may vary within a cell.
    pub fn theta(&self) -> f64 {
        self.theta
    }

    /// How far back the sketch reaches.
    pub fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    /// What a cell holds.
    pub fn summary(&self) -> SummaryShape {
        self.summary
    }

    /// The smallest age at which a cell of 2^k ms is allowed, by k.
    pub fn ages(&self) -> &[u64] {
        &self.ages
    }

    /// The width, as a power of two, of the narrowest cells.
    pub fn base(&self) -> u8 {
        self.base
    }

    /// The width, as a power of two, of the widest cells within the horizon.
    pub(super) fn widest(&self) -> u8 {
        self.ages.iter().rposition(|age| *age <= self.horizon_ms).unwrap_or(0).max(usize::from(self.base)) as u8
    }

    /// An upper bound on the number of cells within a horizon.
    pub(super) fn cells_within(&self, horizon_ms: u64) -> u64 {
        let reach = |width: usize| self.ages.get(width).map_or(NEVER, |age| *age).min(horizon_ms);
        let band = |width: usize| (reach(width + 1) - reach(width)) >> width;
        (usize::from(self.base)..self.ages.len()).map(|width| band(width) + 2).sum()
    }

    /// By how much another smooth decay varies within the cells.
    pub(super) fn theta_under(&self, decay: &Decay) -> Option<f64> {
        if !decay.is_smooth(self.horizon_ms) || decay.width().is_some() {
            return None;
        }
        let widths = self.base..=self.widest();
        let ratio = |width: u8| {
            let age = self.ages[usize::from(width)];
            decay.weight(age) / decay.weight(age + ((1 << width) - 1))
        };
        let largest = widths.map(ratio).fold(1.0f64, |largest, ratio| if ratio > largest { ratio } else { largest });
        Some(largest - 1.0).filter(|theta| theta.is_finite())
    }
}

/// The smallest age at which the decay varies by at most 1 + theta within 2^width ms.
fn age_for(decay: &Decay, theta: f64, width: u8) -> u64 {
    let across = (1u64 << width) - 1;
    let fits = |age: u64| decay.weight(age) <= (1.0 + theta) * decay.weight(age + across) * (1.0 + 1e-12);
    if fits(0) {
        return 0;
    }
    if !fits(MAX_AGE_MS) {
        return NEVER;
    }
    let (mut young, mut old) = (0, MAX_AGE_MS);
    while old - young > 1 {
        let middle = young + (old - young) / 2;
        if fits(middle) { old = middle } else { young = middle }
    }
    old
}
