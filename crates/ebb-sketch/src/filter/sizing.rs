//! What a window, a rate and a budget buy: from them to the layout of a timing filter, with the errors to expect.
//!
//! Two errors make a first sighting look like a duplicate: all its cells were written by others (`false_duplicates`), or
//! the item was seen just outside the window, in the block that the window's edge cuts (`boundary`). More bits a timer
//! cut finer blocks and leave fewer cells: the plan is the layout with the least sum.

use libm::{exp, expm1, log, log1p};
use thiserror::Error;

use super::decision::Penalties;
use super::distinct::Distinct;
use super::timing::{Drive, LINE_BYTES, Layout, TimingError, TimingFilter, TimingSpec, blocks_most};

/// Cells of one item that are ever worth considering: more cost time and win little.
const CELLS_MOST: u8 = 8;
/// A sweep may visit this many cells for each arrival.
const SWEPT_PER_ARRIVAL: f64 = 64.0;
/// No plan looks beyond this.
const BYTES_MOST: u64 = 1 << 38;

/// The window to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Time { window_ms: u64, lateness_ms: u64 },
    Count { window: u64 },
}

/// What is to be remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    span: Span,
    arrivals: f64,
    distinct: Option<Distinct>,
}

/// What may be spent, or must be reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Bytes of timers.
    Memory(u64),
    /// Both errors together.
    Error(f64),
}

#[derive(Debug, Clone, PartialEq, Error)]
pub enum SizingError {
    #[error("arrivals in a window must be a finite number of at least 1, not {given}; the nearest is {nearest}")]
    Arrivals { given: f64, nearest: f64 },
    #[error("an error must lie between 0 and 1, not {given}; the nearest is {nearest}")]
    Error { given: f64, nearest: f64 },
    #[error("an error of {wanted} is out of reach of this window and rate; the least is about {nearest}")]
    OutOfReach { wanted: f64, nearest: f64 },
    #[error(transparent)]
    Spec(#[from] TimingError),
}

impl Demand {
    /// `arrivals` in one window are taken to be all distinct, which is the worst case.
    pub fn new(span: Span, arrivals: f64) -> Result<Self, SizingError> {
        if !(arrivals.is_finite() && arrivals >= 1.0) {
            return Err(SizingError::Arrivals { given: arrivals, nearest: 1.0 });
        }
        Ok(Self { span, arrivals, distinct: None })
    }

    /// A window of so many arrivals.
    pub fn count(window: u64) -> Result<Self, SizingError> {
        Self::new(Span::Count { window }, window as f64)
    }

    /// With what is known about how items repeat.
    pub fn with_distinct(self, distinct: Distinct) -> Self {
        Self { distinct: Some(distinct), ..self }
    }

    fn items_among(&self, arrivals: f64) -> f64 {
        self.distinct.as_ref().map_or(arrivals, |distinct| distinct.among(arrivals)).max(1.0)
    }

    fn remembered(&self) -> u64 {
        match self.span {
            Span::Time { window_ms, lateness_ms } => window_ms.saturating_add(lateness_ms),
            Span::Count { window } => window,
        }
    }

    fn window(&self) -> u64 {
        match self.span {
            Span::Time { window_ms, .. } => window_ms,
            Span::Count { window } => window,
        }
    }

    fn drive(&self, block: u64) -> Drive {
        match self.span {
            Span::Time { window_ms, lateness_ms } => Drive::Time { window_ms, lateness_ms, tick_ms: block },
            Span::Count { window } => Drive::Count { window, block },
        }
    }

    /// Arrivals in one block.
    fn block_arrivals(&self, block: u64) -> f64 {
        self.arrivals * (block as f64 / self.window() as f64)
    }
}

/// A layout and what to expect of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    pub spec: TimingSpec,
    /// Chance that others' cells make a first sighting look like a duplicate.
    pub false_duplicates: f64,
    /// Chance that a sighting just outside the window is taken for one inside.
    pub boundary: f64,
    /// Bytes for each distinct item of a window.
    pub bytes_per_item: f64,
}

impl Plan {
    /// Both errors together.
    pub fn error(&self) -> f64 {
        self.false_duplicates + self.boundary
    }

    /// Expected penalty of a first sighting under the standard answer. Decisions by posterior expect at most this.
    pub fn penalty(&self, penalties: &Penalties) -> f64 {
        penalties.false_duplicate() * self.error().min(1.0)
    }
}

/// The best layout for the budget. A pure function: the same wishes give the same filter everywhere.
pub fn plan(demand: &Demand, budget: Budget) -> Result<Plan, SizingError> {
    match budget {
        Budget::Memory(bytes) => best(demand, bytes),
        Budget::Error(wanted) => {
            if !(wanted > 0.0 && wanted < 1.0) {
                let nearest = if wanted >= 1.0 { 0.5 } else { 1e-6 };
                return Err(SizingError::Error { given: wanted, nearest });
            }
            smallest(demand, wanted)
        }
    }
}

fn best(demand: &Demand, bytes: u64) -> Result<Plan, SizingError> {
    let mut found: Result<Plan, SizingError> =
        Err(TimingError::MemoryTooSmall { given: bytes, nearest: LINE_BYTES }.into());
    if bytes < LINE_BYTES {
        return found;
    }
    for bits in 3..=8 {
        for cells_per_item in 1..=CELLS_MOST {
            match candidate(demand, bytes / LINE_BYTES, bits, cells_per_item) {
                Ok(plan) if found.as_ref().is_ok_and(|best| best.error() <= plan.error()) => {}
                Ok(plan) => found = Ok(plan),
                Err(error) if found.is_err() => found = Err(error),
                Err(_) => {}
            }
        }
    }
    found
}

/// Errors fall as memory grows, so the least memory is found by halving.
fn smallest(demand: &Demand, wanted: f64) -> Result<Plan, SizingError> {
    let (mut low, mut high) = (0, BYTES_MOST / LINE_BYTES);
    let most = best(demand, high * LINE_BYTES)?;
    if most.error() > wanted {
        return Err(SizingError::OutOfReach { wanted, nearest: most.error() });
    }
    let mut found = most;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let plan = best(demand, middle * LINE_BYTES)?;
        if plan.error() <= wanted {
            (high, found) = (middle, plan);
        } else {
            low = middle;
        }
    }
    Ok(found)
}

fn candidate(demand: &Demand, lines: u64, bits: u8, cells_per_item: u8) -> Result<Plan, SizingError> {
    let mut spare = 0u64;
    let (block, spec) = loop {
        let blocks = blocks_most(bits) - spare;
        let block = demand.remembered().div_ceil(blocks).clamp(1, demand.window().max(1));
        let spec = TimingSpec::new(demand.drive(block), Layout::Lines(lines), bits, cells_per_item)?;
        let rounds = f64::from(spec.spare()) + 1.0;
        let swept = spec.cells() as f64 / (demand.block_arrivals(block) * rounds);
        // Longer rounds are bought with coarser blocks, never with more than a quarter of them.
        if swept <= SWEPT_PER_ARRIVAL || spare + 1 > blocks_most(bits) / 4 {
            break (block, spec);
        }
        spare += 1;
    };
    let half_block = demand.block_arrivals(block) / 2.0;
    let items = demand.items_among(demand.arrivals + half_block);
    let false_duplicates = false_duplicates(&spec, items);
    Ok(Plan {
        spec,
        false_duplicates,
        boundary: boundary(demand, half_block),
        bytes_per_item: spec.memory_bytes() as f64 / demand.items_among(demand.arrivals),
    })
}

/// Chance that an item was last seen within half a block after the window, if every item is as frequent as the mean.
fn boundary(demand: &Demand, half_block: f64) -> f64 {
    let t = log1p(-1.0 / (demand.items_among(demand.arrivals) + 1.0));
    -exp(demand.arrivals * t) * expm1(half_block * t)
}

/// Chance that all cells of a new item were written, after `items` distinct items.
pub fn false_duplicates(spec: &TimingSpec, items: f64) -> f64 {
    let k = f64::from(spec.cells_per_item());
    match spec.layout() {
        Layout::Spread(cells) => exp(k * log(-expm1(-k * items / cells as f64))),
        Layout::Lines(lines) => in_lines(items / lines as f64, k, spec.cells_per_line() as f64),
    }
}

/// The same from the share of cells that are written.
pub(super) fn false_duplicates_at(spec: &TimingSpec, fill: f64) -> f64 {
    let k = f64::from(spec.cells_per_item());
    if fill <= 0.0 {
        return 0.0;
    }
    match spec.layout() {
        Layout::Lines(_) if fill < 1.0 => {
            let cells = spec.cells_per_line() as f64;
            // A Poisson number of items of mean x leaves a cell empty with chance exp(-x (1 - (1 - 1/cells)^k)).
            let taken = -expm1(k * log1p(-1.0 / cells));
            in_lines(-log1p(-fill) / taken, k, cells)
        }
        _ => exp(k * log(fill)),
    }
}

/// Lines hold a Poisson number of items, and the full ones err most: the mean over that number.
fn in_lines(mean: f64, k: f64, cells: f64) -> f64 {
    let empty = k * log1p(-1.0 / cells);
    let error = |items: f64| exp(k * log(-expm1(items * empty)));
    // So full that the spread no longer shows.
    if mean > 64.0 * cells {
        return error(mean);
    }
    let reach = 12.0 * libm::sqrt(mean) + 24.0;
    let (first, last) = ((mean - reach).max(0.0) as u64, (mean + reach) as u64);
    let chance = |items: f64| exp(items * log(mean) - mean - libm::lgamma(items + 1.0));
    (first.max(1)..=last).map(|items| chance(items as f64) * error(items as f64)).sum::<f64>().min(1.0)
}

/// The paper's own rule: timers of max(k, 3) bits, and the smallest block (in steps of a thousandth) that its sweep can
/// keep up with. Cells anywhere, driven by arrivals.
pub fn paper_spec(window: u64, bits_per_item: f64, k: u8, timer_bits: Option<u8>) -> Option<TimingSpec> {
    let bits = timer_bits.unwrap_or(k.max(3));
    let cells = (window as f64 * bits_per_item) as u64 / u64::from(bits.max(1));
    let most = blocks_most(bits.clamp(3, 8));
    let mut block = window.div_ceil(most).max(1);
    while block <= window {
        let rounds = cells.div_ceil(block * u64::from(k.max(1))).max(1);
        if window.div_ceil(block) + rounds - 1 <= most {
            let drive = Drive::Count { window, block };
            return TimingSpec::new(drive, Layout::Spread(cells), bits, k).ok();
        }
        block += if block < 4096 { 1 } else { (block / 1024).max(1) };
    }
    None
}

impl TimingFilter {
    /// How likely an item never seen reads as a duplicate in the full window, from the cells that are alive now.
    pub fn false_duplicate_rate(&self) -> f64 {
        false_duplicates_at(self.spec(), self.fill())
    }
}
