//! Which cells of time a division allows: a pure function of the decay, theta and the clock.

use crate::aggregate::content::{ContentShape, ShapeError};
use crate::decay::Decay;

/// Cells within the horizon, at most.
pub const CELLS_MOST: u64 = 1 << 18;

/// The widest cell is 2^WIDTH_MOST ms.
const WIDTH_MOST: u8 = 44;

/// No age is old enough.
pub(super) const NEVER: u64 = u64::MAX;

/// Ages beyond this are not searched.
const AGE_MOST: u64 = 1 << 50;

/// A decay, how much it may vary within a cell, how far back is kept, and what of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DivisionShape {
    pub(super) decay: Decay,
    pub(super) theta: f64,
    pub(super) horizon_ms: u64,
    pub(super) content: ContentShape,
    /// The least age at which a cell of 2^k ms varies by at most 1 + theta; persisted, so that no platform's rounding can
    /// move a cell.
    pub(super) ages: Vec<u64>,
    /// The width (as a power of two) that is allowed at any age.
    pub(super) base: u8,
}

impl DivisionShape {
    /// `decay` must be smooth (log-convex) and positive within the horizon.
    pub fn new(decay: Decay, theta: f64, horizon_ms: u64, content: ContentShape) -> Result<Self, ShapeError> {
        let theta = ShapeError::share("theta", theta)?;
        if !(1..=AGE_MOST).contains(&horizon_ms) {
            let nearest = horizon_ms.clamp(1, AGE_MOST);
            return Err(ShapeError::Horizon { given: horizon_ms, most: AGE_MOST, nearest });
        }
        let refused = |why| ShapeError::Decay { decay: decay.to_string(), why };
        if !decay.is_smooth(horizon_ms) || decay.width().is_some() {
            return Err(refused("its weight must fall ever more slowly (log-convex): exponential and polynomial do"));
        }
        let ages: Vec<u64> = (0..=WIDTH_MOST).map(|width| age_for(&decay, theta, width)).collect();
        let shape = Self::with_ages(decay, theta, horizon_ms, content, ages);
        let cells = shape.cells_within(horizon_ms);
        if cells > CELLS_MOST {
            let (mut fits, mut breaks) = (0, horizon_ms);
            while breaks - fits > 1 {
                let middle = fits + (breaks - fits) / 2;
                if shape.cells_within(middle) > CELLS_MOST { breaks = middle } else { fits = middle }
            }
            return Err(ShapeError::Cells { cells, most: CELLS_MOST, nearest: fits });
        }
        Ok(shape)
    }

    pub(super) fn with_ages(decay: Decay, theta: f64, horizon_ms: u64, content: ContentShape, ages: Vec<u64>) -> Self {
        let base = ages.iter().rposition(|age| *age == 0).unwrap_or(0) as u8;
        Self { decay, theta, horizon_ms, content, ages, base }
    }

    /// The theta for which quantiles and top items err by epsilon / 2 in time, leaving the rest to their summary.
    pub fn theta_for_values(epsilon: f64) -> f64 {
        2.0 * epsilon
    }

    /// The theta for which counts err by epsilon.
    pub fn theta_for_totals(epsilon: f64) -> f64 {
        2.0 * epsilon / (1.0 - epsilon)
    }

    pub fn decay(&self) -> &Decay {
        &self.decay
    }

    pub fn theta(&self) -> f64 {
        self.theta
    }

    pub fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    pub fn content(&self) -> ContentShape {
        self.content
    }

    /// The least age at which a cell of 2^k ms is allowed, by k.
    pub fn ages(&self) -> &[u64] {
        &self.ages
    }

    /// The width, as a power of two, of the narrowest cells.
    pub fn base(&self) -> u8 {
        self.base
    }

    /// The widest cells that can come to be within the horizon.
    pub(super) fn widest(&self) -> u8 {
        self.ages.iter().rposition(|age| *age <= self.horizon_ms).unwrap_or(0).max(usize::from(self.base)) as u8
    }

    /// Places for cells within a horizon, at most.
    pub(super) fn cells_within(&self, horizon_ms: u64) -> u64 {
        let reach = |width: usize| self.ages.get(width).map_or(NEVER, |age| *age).min(horizon_ms);
        let band = |width: usize| (reach(width + 1) - reach(width)) >> width;
        (usize::from(self.base)..self.ages.len()).map(|width| band(width) + 2).sum()
    }

    /// By how much another smooth decay varies within the cells: theta of that decay.
    pub(super) fn theta_under(&self, decay: &Decay) -> Option<f64> {
        if !decay.is_smooth(self.horizon_ms) || decay.width().is_some() {
            return None;
        }
        let widths = self.base..=self.widest();
        let ratio = |width: u8| {
            let age = self.ages[usize::from(width)];
            decay.weight(age) / decay.weight(age + ((1 << width) - 1))
        };
        let most = widths.map(ratio).fold(1.0f64, |most, ratio| if ratio > most { ratio } else { most });
        Some(most - 1.0).filter(|theta| theta.is_finite())
    }
}

/// The least age from which a cell of 2^width ms varies by at most 1 + theta.
fn age_for(decay: &Decay, theta: f64, width: u8) -> u64 {
    let across = (1u64 << width) - 1;
    let fits = |age: u64| decay.weight(age) <= (1.0 + theta) * decay.weight(age + across) * (1.0 + 1e-12);
    if fits(0) {
        return 0;
    }
    if !fits(AGE_MOST) {
        return NEVER;
    }
    let (mut young, mut old) = (0, AGE_MOST);
    while old - young > 1 {
        let middle = young + (old - young) / 2;
        if fits(middle) { old = middle } else { young = middle }
    }
    old
}
