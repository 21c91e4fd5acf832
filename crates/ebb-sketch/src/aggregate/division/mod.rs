//! Aligned value division: cells of time that are wide where the decay is flat.
//!
//! A cell is a dyadic range of time. At a clock, the widest cells are used within which the decay varies by at most
//! 1 + theta. Which cells those are depends on the decay, theta and the clock only: every order of arrival and every schedule
//! of advancing gives the same cells, and a later clock only joins cells. Merging advances both sketches to one clock and
//! adds their cells. Other decays that vary as little within the cells are answered with the same guarantee; all others with
//! certain bounds.

mod cell;
mod codec;
mod shape;

use std::collections::VecDeque;

use super::error::{MergeError, ObservationError, QueryError};
use super::observation::{Observation, check_query_time};
use super::reading::{Assurance, CellLabels, CellTotals, CellValues, Labels, Totals, Values};
use super::robust::ElementId;
use super::sketch::{DecayedSketch, SpecEncoding, expect_spec};
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::Decay;
use cell::{CellQuery, DivisionCell};
pub use shape::{DivisionShape, MAX_CELLS};

/// The clock follows the newest time in steps of this many narrowest cells, as a power of two.
const CLOCK_STEP_BITS: u8 = 4;

/// Cells of one width, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
struct CellRow {
    /// The index of the first cell.
    first: i64,
    cells: VecDeque<Option<DivisionCell>>,
}

impl CellRow {
    fn slot(&mut self, index: i64) -> &mut Option<DivisionCell> {
        if self.cells.is_empty() {
            self.first = index;
        }
        while index < self.first {
            self.cells.push_front(None);
            self.first -= 1;
        }
        let slot = (index - self.first) as usize;
        while self.cells.len() <= slot {
            self.cells.push_back(None);
        }
        &mut self.cells[slot]
    }

    fn pop(&mut self) -> Option<DivisionCell> {
        self.first += 1;
        self.cells.pop_front().flatten()
    }

    /// The index and content of every occupied cell.
    fn occupied(&self) -> impl Iterator<Item = (i64, &DivisionCell)> {
        let cells = self.cells.iter().enumerate();
        cells.filter_map(|(slot, cell)| cell.as_ref().map(|cell| (self.first + slot as i64, cell)))
    }
}

/// A read-only view of one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellView {
    /// The cell spans 2^width ms.
    pub width: u8,
    /// The cell begins at index · 2^width ms.
    pub index: i64,
    /// The weight of its observations.
    pub weight: f64,
    /// The time of its oldest observation.
    pub oldest_ms: i64,
    /// The time of its newest observation.
    pub newest_ms: i64,
}

/// Decayed aggregates in aligned cells.
///
/// ```
/// use ebb_sketch::aggregate::division::{DivisionShape, DivisionSketch};
/// use ebb_sketch::aggregate::{DecayedSketch, Observation, SummaryShape};
/// use ebb_sketch::decay::Decay;
///
/// let decay = Decay::polynomial(1.5, 1_000.0)?;
/// let shape = DivisionShape::new(decay.clone(), 0.1, 3_600_000, SummaryShape::totals())?;
/// let mut sketch = DivisionSketch::new(shape);
/// for time_ms in 0..10_000 {
///     sketch.insert(&Observation { time_ms, value: 1, label: 0, weight: 1.0 })?;
/// }
/// let exact: f64 = (0..10_000).map(|time_ms| decay.weight(10_000 - time_ms)).sum();
/// assert!(sketch.totals(10_000, &decay)?.count().covers(exact));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DivisionSketch {
    shape: DivisionShape,
    /// The time for which the cells are as wide as allowed.
    clock_ms: Option<i64>,
    newest_ms: i64,
    /// By width.
    rows: Vec<CellRow>,
    /// Weight dropped outside the horizon.
    expired: f64,
}

impl DivisionSketch {
    /// An empty sketch.
    pub fn new(shape: DivisionShape) -> Self {
        let rows = vec![CellRow::default(); usize::from(shape.widest()) + 1];
        Self { shape, clock_ms: None, newest_ms: i64::MIN, rows, expired: 0.0 }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &DivisionShape {
        &self.shape
    }

    /// The newest accepted time, or the time it was advanced to.
    pub fn newest_ms(&self) -> Option<i64> {
        self.clock_ms.map(|_| self.newest_ms)
    }

    /// Weight that was dropped because it is outside the horizon.
    pub fn expired(&self) -> f64 {
        self.expired
    }

    /// The cells, narrow ones first, each width from the oldest.
    pub fn cells(&self) -> impl Iterator<Item = CellView> + '_ {
        self.occupied().map(|(width, index, cell)| CellView {
            width,
            index,
            weight: cell.summary.tally.weight,
            oldest_ms: cell.oldest_ms,
            newest_ms: cell.newest_ms,
        })
    }

    /// Digest nodes with their buffers folded in: the size that the papers report.
    pub fn node_count(&self) -> usize {
        self.occupied().map(|(_, _, cell)| cell.summary.node_count()).sum()
    }

    /// Width, index and content of every occupied cell.
    fn occupied(&self) -> impl Iterator<Item = (u8, i64, &DivisionCell)> {
        let rows = self.rows.iter().enumerate();
        rows.flat_map(|(width, row)| row.occupied().map(move |(index, cell)| (width as u8, index, cell)))
    }

    /// Adds an observation, or rejects it without changing anything.
    #[inline]
    pub fn insert(&mut self, observation: &Observation) -> Result<(), ObservationError> {
        self.shape.summary.check(observation)?;
        let time_ms = observation.time_ms;
        if time_ms > self.newest_ms || self.clock_ms.is_none() {
            self.newest_ms = time_ms;
            self.follow(time_ms);
        } else if self.newest_ms.abs_diff(time_ms) >= self.shape.horizon_ms {
            let (now_ms, horizon_ms) = (self.newest_ms, self.shape.horizon_ms);
            return Err(ObservationError::Late { time_ms, now_ms, horizon_ms });
        }
        let width = self.width_at(time_ms);
        let (index, summary) = (time_ms >> width, self.shape.summary);
        let slot = self.rows[usize::from(width)].slot(index);
        slot.get_or_insert_with(|| DivisionCell::new(summary)).insert(observation, index << width);
        Ok(())
    }

    /// Advances the clock in steps, to a clock that depends on the newest time alone.
    #[inline]
    fn follow(&mut self, newest_ms: i64) {
        let step = self.shape.base + CLOCK_STEP_BITS;
        let reached_ms = (newest_ms >> step) << step;
        if self.clock_ms.is_none_or(|clock_ms| reached_ms > clock_ms) {
            self.advance_cells(reached_ms);
        }
    }

    /// The width of the widest allowed cell around a time. If a width is allowed, all narrower ones are.
    #[inline]
    fn width_at(&self, time_ms: i64) -> u8 {
        let clock_ms = self.clock_ms.unwrap_or(time_ms);
        let mut width = self.shape.base;
        while usize::from(width) + 1 < self.rows.len() && self.is_allowed(width + 1, time_ms >> (width + 1), clock_ms) {
            width += 1;
        }
        width
    }

    #[inline]
    fn is_allowed(&self, width: u8, index: i64, clock_ms: i64) -> bool {
        let last_ms = ((index + 1) << width) - 1;
        clock_ms >= last_ms && (clock_ms - last_ms) as u64 >= self.shape.ages[usize::from(width)]
    }

    /// Advances the clock without an observation. The clock never goes back.
    pub fn advance(&mut self, now_ms: i64) -> Result<(), QueryError> {
        check_query_time(now_ms)?;
        if self.clock_ms.is_some_and(|clock_ms| now_ms > clock_ms) {
            self.newest_ms = self.newest_ms.max(now_ms);
            self.advance_cells(now_ms);
        }
        Ok(())
    }

    fn advance_cells(&mut self, clock_ms: i64) {
        self.clock_ms = Some(clock_ms);
        let widest = self.rows.len() - 1;
        for width in usize::from(self.shape.base)..widest {
            while !self.rows[width].cells.is_empty() {
                let parent = self.rows[width].first >> 1;
                if !self.is_allowed(width as u8 + 1, parent, clock_ms) {
                    break;
                }
                let begin_ms = self.rows[width].first << width;
                let Some(mut cell) = self.rows[width].pop() else { continue };
                cell.move_begin(begin_ms - (parent << (width + 1)));
                add(self.rows[width + 1].slot(parent), cell);
            }
        }
        self.expire(clock_ms);
    }

    fn expire(&mut self, clock_ms: i64) {
        let cut_ms = clock_ms.saturating_sub_unsigned(self.shape.horizon_ms);
        for (width, row) in self.rows.iter_mut().enumerate() {
            while !row.cells.is_empty() && ((row.first + 1) << width) - 1 <= cut_ms {
                self.expired += row.pop().map_or(0.0, |cell| cell.summary.tally.weight);
            }
        }
    }

    /// By how much a decay varies within the cells, if that is at most `max_theta`.
    pub fn check_theta(&self, decay: &Decay, max_theta: f64) -> Result<f64, QueryError> {
        match self.shape.theta_under(decay) {
            Some(theta) if theta <= max_theta * (1.0 + 1e-9) => Ok(theta),
            theta => {
                let theta = theta.unwrap_or(f64::INFINITY);
                Err(QueryError::CellsTooWide { decay: decay.to_string(), theta, max_theta })
            }
        }
    }

    fn query<'a>(&self, now_ms: i64, decay: &'a Decay) -> Result<CellQuery<'a>, QueryError> {
        check_query_time(now_ms)?;
        let horizon_ms = self.shape.horizon_ms;
        match decay.width() {
            Some(window_ms) if window_ms > horizon_ms => Err(QueryError::WindowBeyondHorizon { window_ms, horizon_ms }),
            _ => Ok(CellQuery { decay, now_ms: now_ms.max(self.newest_ms), horizon_ms }),
        }
    }

    /// An error that follows from theta if the decay varies little enough within the cells, otherwise the bounds alone.
    fn assurance(&self, query: &CellQuery<'_>, error: impl Fn(f64) -> f64) -> Assurance {
        let theta = self.check_theta(query.decay, self.shape.theta).ok();
        let is_whole = self.occupied().all(|(_, _, cell)| !query.straddles_horizon(cell));
        let has_expired = self.expired > 0.0 || self.occupied().any(|(_, _, cell)| query.reaches_horizon(cell));
        Assurance {
            epsilon: theta.filter(|_| is_whole).map(error),
            incomplete: has_expired && query.decay.weight(self.shape.horizon_ms) > 0.0,
            cells: self.occupied().count() as u64,
        }
    }
}

impl DecayedSketch for DivisionSketch {
    type Spec = DivisionShape;
    const MERGES: bool = true;

    fn from_spec(spec: &DivisionShape) -> Self {
        Self::new(spec.clone())
    }

    #[inline]
    fn observe(&mut self, _: ElementId, observation: &Observation) -> Result<(), ObservationError> {
        self.insert(observation)
    }

    fn advance(&mut self, now_ms: i64) {
        // Fails only for times that no observation can have.
        let _ = Self::advance(self, now_ms);
    }

    fn merge(&mut self, mut other: Self) -> Result<(), MergeError> {
        if self.shape != other.shape {
            return Err(MergeError::Different("decays, thetas, horizons or summaries"));
        }
        let Some(others_ms) = other.clock_ms else { return Ok(()) };
        let clock_ms = self.clock_ms.map_or(others_ms, |own_ms| own_ms.max(others_ms));
        self.advance_cells(clock_ms);
        other.advance_cells(clock_ms);
        self.newest_ms = self.newest_ms.max(other.newest_ms);
        self.expired += other.expired;
        for (row, others) in self.rows.iter_mut().zip(other.rows) {
            for (slot, cell) in others.cells.into_iter().enumerate() {
                if let Some(cell) = cell {
                    add(row.slot(others.first + slot as i64), cell);
                }
            }
        }
        Ok(())
    }

    /// Estimates each cell from its mean age.
    fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QueryError> {
        let query = self.query(now_ms, decay)?;
        let mut totals = CellTotals::new();
        for (width, index, cell) in self.occupied() {
            let (begin_ms, tally) = (index << width, cell.summary.tally);
            totals.count.add(tally.weight, query.mean_factor(cell, begin_ms, tally.weight, cell.delay));
            totals.sum.add(tally.sum, query.mean_factor(cell, begin_ms, tally.sum, cell.sum_delay));
        }
        totals.assurance = self.assurance(&query, |theta| theta / (2.0 + theta));
        Ok(Totals::Cells(totals))
    }

    fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QueryError> {
        let query = self.query(now_ms, decay)?;
        let digest = self.shape.summary.values().ok_or(QueryError::NotKept("values"))?;
        let mut ranges = Vec::new();
        self.occupied().for_each(|(_, _, cell)| cell.summary.read_values(query.factor(cell), &mut ranges));
        let assurance = self.assurance(&query, |theta| theta / 4.0 + digest.beta() / 2.0);
        let off = self.shape.theta / (2.0 + self.shape.theta);
        let rank_epsilon = off + digest.beta() / 2.0 * (1.0 + off);
        Ok(Values::Cells(CellValues::new(ranges, digest.max_value(), assurance, rank_epsilon)))
    }

    fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QueryError> {
        let query = self.query(now_ms, decay)?;
        let counters = self.shape.summary.counters().ok_or(QueryError::NotKept("labels"))?;
        let mut labels = CellLabels::new();
        self.occupied().for_each(|(_, _, cell)| cell.summary.read_labels(query.factor(cell), &mut labels));
        let assurance = self.assurance(&query, |theta| theta / 4.0 + 1.0 / f64::from(counters));
        Ok(Labels::Cells(labels.finish(assurance)))
    }

    fn collect_labels(&self, into: &mut Vec<u128>) {
        self.occupied().for_each(|(_, _, cell)| into.extend(cell.summary.labels()));
    }

    /// Cells, and in them digest nodes, counters and buffered observations.
    fn entry_count(&self) -> usize {
        self.occupied().map(|(_, _, cell)| 1 + cell.summary.entry_count()).sum()
    }

    fn encode_into(&self, writer: &mut Writer, _: SpecEncoding) {
        writer.bytes(&self.encode());
    }

    fn decode_from(spec: &DivisionShape, reader: &mut Reader<'_>, _: SpecEncoding) -> Result<Self, CodecError> {
        expect_spec(Self::decode(reader.bytes()?)?, |sketch| sketch.shape == *spec)
    }
}

fn add(slot: &mut Option<DivisionCell>, cell: DivisionCell) {
    match slot {
        Some(present) => present.merge(cell),
        None => *slot = Some(cell),
    }
}

#[cfg(test)]
mod tests;
