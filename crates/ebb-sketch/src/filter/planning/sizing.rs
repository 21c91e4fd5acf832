//! Sizing of timing filters: from a window, a rate and a budget to a layout, with the errors to expect.
//!
//! Two errors make a first sighting look like a duplicate: other items wrote all its cells (`false_duplicates`), or the item
//! was seen just outside the window, in the block that the window's edge cuts (`boundary`). More bits per timer give shorter
//! blocks and fewer cells; the plan is the layout with the smallest sum of both errors.
//!
//! ```
//! use ebb_sketch::filter::planning::sizing::{Budget, Workload, plan_filter};
//!
//! let workload = Workload::count(1_000_000).unwrap(); // a window of a million distinct arrivals
//! let plan = plan_filter(&workload, Budget::Memory(4 << 20)).unwrap();
//! assert!(plan.error() < 0.1 && plan.spec.memory_bytes() <= 4 << 20);
//! let smaller = plan_filter(&workload, Budget::Error(0.2)).unwrap();
//! assert!(smaller.spec.memory_bytes() < plan.spec.memory_bytes());
//! ```

use libm::{exp, expm1, log1p};
use thiserror::Error;

use super::forecast::{Forecast, TrafficModel, TrafficModelError};
use crate::filter::inference::Seen;
use crate::filter::inference::decision::Penalties;
use crate::filter::inference::distinct::DistinctModel;
use crate::filter::structure::layout::{CellLayout, LINE_BYTES};
use crate::filter::structure::timing::{ClockSpec, TimingError, TimingSpec, false_duplicate_rate, max_blocks};

/// More cells per item cost time and gain little.
const MAX_CELLS_PER_ITEM: u8 = 8;
/// Cells that the sweep may visit per arrival.
const MAX_SWEPT_PER_ARRIVAL: f64 = 64.0;
/// The largest filter that is considered.
const MAX_BYTES: u64 = 1 << 38;

/// The window to remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowLength {
    /// A window of event time.
    Time {
        /// Length of the window.
        window_ms: u64,
        /// How late events may be.
        lateness_ms: u64,
    },
    /// A window of arrivals.
    Count {
        /// Length of the window.
        window: u64,
    },
}

/// What the filter must remember.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    window: WindowLength,
    arrivals: f64,
    distinct: Option<DistinctModel>,
}

/// The memory to use, or the error to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Bytes of timers.
    Memory(u64),
    /// The largest sum of both errors.
    Error(f64),
}

/// Why no filter could be planned.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SizingError {
    #[error("arrivals in a window must be a finite number of at least 1, not {requested}; the nearest is {nearest}")]
    Arrivals { requested: f64, nearest: f64 },
    #[error("an error must lie between 0 and 1, not {requested}; the nearest is {nearest}")]
    Error { requested: f64, nearest: f64 },
    #[error("an error of {requested} is out of reach for this window and rate; the minimum is about {nearest}")]
    OutOfReach { requested: f64, nearest: f64 },
    #[error(transparent)]
    Spec(#[from] TimingError),
    #[error(transparent)]
    Traffic(#[from] TrafficModelError),
}

impl Workload {
    /// `arrivals` per window, all distinct: the worst case.
    pub fn new(window: WindowLength, arrivals: f64) -> Result<Self, SizingError> {
        if !(arrivals.is_finite() && arrivals >= 1.0) {
            return Err(SizingError::Arrivals { requested: arrivals, nearest: 1.0 });
        }
        Ok(Self { window, arrivals, distinct: None })
    }

    /// A window of this many arrivals, all distinct.
    pub fn count(window: u64) -> Result<Self, SizingError> {
        Self::new(WindowLength::Count { window }, window as f64)
    }

    /// The same workload with a model of how items repeat.
    pub fn with_distinct(self, distinct: DistinctModel) -> Self {
        Self { distinct: Some(distinct), ..self }
    }

    fn items_among(&self, arrivals: f64) -> f64 {
        self.distinct.as_ref().map_or(arrivals, |distinct| distinct.among(arrivals)).max(1.0)
    }

    fn retention(&self) -> u64 {
        match self.window {
            WindowLength::Time { window_ms, lateness_ms } => window_ms.saturating_add(lateness_ms),
            WindowLength::Count { window } => window,
        }
    }

    fn window_length(&self) -> u64 {
        match self.window {
            WindowLength::Time { window_ms, .. } => window_ms,
            WindowLength::Count { window } => window,
        }
    }

    fn clock(&self, block: u64) -> ClockSpec {
        match self.window {
            WindowLength::Time { window_ms, lateness_ms } => ClockSpec::Time { window_ms, lateness_ms, tick_ms: block },
            WindowLength::Count { window } => ClockSpec::Count { window, block },
        }
    }

    /// Arrivals in one block.
    fn block_arrivals(&self, block: u64) -> f64 {
        self.arrivals * (block as f64 / self.window_length() as f64)
    }
}

/// A layout and its expected errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FilterPlan {
    /// Parameters of the filter.
    pub spec: TimingSpec,
    /// Probability that other items make a first sighting look like a duplicate.
    pub false_duplicates: f64,
    /// Probability that a sighting just outside the window counts as inside.
    pub boundary: f64,
    /// Bytes per distinct item of a window.
    pub bytes_per_item: f64,
}

impl FilterPlan {
    /// The sum of both errors.
    pub fn error(&self) -> f64 {
        self.false_duplicates + self.boundary
    }

    /// Expected penalty of a first sighting under the filter's own answer, an upper bound for decisions by posterior.
    pub fn penalty(&self, penalties: &Penalties) -> f64 {
        penalties.false_duplicate() * self.error().min(1.0)
    }
}

/// The best layout for the budget. A pure function of its arguments.
pub fn plan_filter(workload: &Workload, budget: Budget) -> Result<FilterPlan, SizingError> {
    match budget {
        Budget::Memory(bytes) => best(workload, bytes),
        Budget::Error(requested) => {
            if !(requested > 0.0 && requested < 1.0) {
                let nearest = if requested >= 1.0 { 0.5 } else { 1e-6 };
                return Err(SizingError::Error { requested, nearest });
            }
            smallest(workload, requested)
        }
    }
}

/// The share of distinct items that plans for penalties assume if the workload has no model of repeats.
const ASSUMED_DISTINCT: f64 = 0.6;

/// The layout with the smallest expected penalty of decisions by posterior within `bytes`. It differs from the layout with
/// the smallest standard error: a posterior tolerates fuller filters and longer blocks.
pub fn plan_for_penalty(
    workload: &Workload,
    bytes: u64,
    penalties: &Penalties,
    seen: Seen,
) -> Result<FilterPlan, SizingError> {
    let distinct = workload.items_among(workload.arrivals) / workload.arrivals;
    let distinct = if workload.distinct.is_some() { distinct } else { ASSUMED_DISTINCT };
    let traffic = TrafficModel::new(workload.arrivals, distinct)?;
    best_by(workload, bytes, |plan| Forecast::new(&plan.spec, &traffic, seen).posterior(penalties).penalty)
}

fn best(workload: &Workload, bytes: u64) -> Result<FilterPlan, SizingError> {
    best_by(workload, bytes, FilterPlan::error)
}

/// The layout that costs least.
fn best_by(workload: &Workload, bytes: u64, cost: impl Fn(&FilterPlan) -> f64) -> Result<FilterPlan, SizingError> {
    let mut lowest = f64::INFINITY;
    let mut found: Result<FilterPlan, SizingError> =
        Err(TimingError::MemoryTooSmall { requested: bytes, nearest: LINE_BYTES }.into());
    if bytes < LINE_BYTES {
        return found;
    }
    for bits in 3..=8 {
        for cells_per_item in 1..=MAX_CELLS_PER_ITEM {
            match candidate(workload, bytes / LINE_BYTES, bits, cells_per_item) {
                Ok(plan) => {
                    let cost = cost(&plan);
                    if found.is_err() || cost < lowest {
                        (lowest, found) = (cost, Ok(plan));
                    }
                }
                Err(error) if found.is_err() => found = Err(error),
                Err(_) => {}
            }
        }
    }
    found
}

/// The error falls as memory grows, so the least memory is found by bisection.
fn smallest(workload: &Workload, requested: f64) -> Result<FilterPlan, SizingError> {
    let (mut low, mut high) = (0, MAX_BYTES / LINE_BYTES);
    let largest = best(workload, high * LINE_BYTES)?;
    if largest.error() > requested {
        return Err(SizingError::OutOfReach { requested, nearest: largest.error() });
    }
    let mut found = largest;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let plan = best(workload, middle * LINE_BYTES)?;
        if plan.error() <= requested {
            (high, found) = (middle, plan);
        } else {
            low = middle;
        }
    }
    Ok(found)
}

fn candidate(workload: &Workload, lines: u64, bits: u8, cells_per_item: u8) -> Result<FilterPlan, SizingError> {
    let mut spare = 0u64;
    let (block, spec) = loop {
        let blocks = max_blocks(bits) - spare;
        let block = workload.retention().div_ceil(blocks).clamp(1, workload.window_length().max(1));
        let spec = TimingSpec::new(workload.clock(block), CellLayout::Lines(lines), bits, cells_per_item)?;
        let rounds = f64::from(spec.spare()) + 1.0;
        let swept = spec.cells() as f64 / (workload.block_arrivals(block) * rounds);
        // A slower sweep costs spare ticks and so longer blocks; at most a quarter of the ticks is given up.
        if swept <= MAX_SWEPT_PER_ARRIVAL || spare + 1 > max_blocks(bits) / 4 {
            break (block, spec);
        }
        spare += 1;
    };
    let half_block = workload.block_arrivals(block) / 2.0;
    let items = workload.items_among(workload.arrivals + half_block);
    let false_duplicates = false_duplicate_rate(&spec, items);
    Ok(FilterPlan {
        spec,
        false_duplicates,
        boundary: boundary(workload, half_block),
        bytes_per_item: spec.memory_bytes() as f64 / workload.items_among(workload.arrivals),
    })
}

/// Probability that an item was last seen within half a block before the window, if all items are equally frequent.
fn boundary(workload: &Workload, half_block: f64) -> f64 {
    let t = log1p(-1.0 / (workload.items_among(workload.arrivals) + 1.0));
    -exp(workload.arrivals * t) * expm1(half_block * t)
}

/// The paper's rule: timers of max(k, 3) bits, and the smallest block (in steps of a thousandth) with which its sweep keeps
/// up. Spread cells, arrival clock.
pub fn paper_spec(window: u64, bits_per_item: f64, k: u8, timer_bits: Option<u8>) -> Option<TimingSpec> {
    let bits = timer_bits.unwrap_or(k.max(3));
    let cells = (window as f64 * bits_per_item) as u64 / u64::from(bits.max(1));
    let max = max_blocks(bits.clamp(3, 8));
    let mut block = window.div_ceil(max).max(1);
    while block <= window {
        let rounds = cells.div_ceil(block * u64::from(k.max(1))).max(1);
        if window.div_ceil(block) + rounds - 1 <= max {
            let clock = ClockSpec::Count { window, block };
            return TimingSpec::new(clock, CellLayout::Spread(cells), bits, k).ok();
        }
        block += if block < 4096 { 1 } else { (block / 1024).max(1) };
    }
    None
}
