//! Aligned value division: cells of time that are wide where the decay is flat.
//!
//! A cell is a dyadic range of time; at a clock the widest cells are used within which the decay varies by at most
//! 1 + theta. Which cells those are depends on the decay, theta and the clock only: any order of arrival and any schedule
//! of advancing give the same cells, a later clock only joins them, and shards are merged by advancing both to one clock
//! and adding. Any other decay that varies as little within the cells can be asked too; others get certified bounds.
//! It does not know an answer to how much older than the horizon there was.

mod cell;
mod codec;
mod shape;

use std::collections::VecDeque;

use super::content::{
    Labels, MergeError, Observation, QuestionError, Refused, Standing, Totals, Values, check_question_time,
};
use crate::decay::Decay;
use cell::{Cell, Fading};
pub use shape::{CELLS_MOST, DivisionShape};

/// The clock of the cells follows the newest time in steps of this many narrowest cells (as a power of two).
const STEP: u8 = 4;

/// Cells of one width, from the oldest.
#[derive(Debug, Clone, PartialEq, Default)]
struct Row {
    first: i64,
    cells: VecDeque<Option<Cell>>,
}

impl Row {
    fn slot(&mut self, index: i64) -> &mut Option<Cell> {
        if self.cells.is_empty() {
            self.first = index;
        }
        while index < self.first {
            self.cells.push_front(None);
            self.first -= 1;
        }
        let place = (index - self.first) as usize;
        while self.cells.len() <= place {
            self.cells.push_back(None);
        }
        &mut self.cells[place]
    }

    fn pop(&mut self) -> Option<Cell> {
        self.first += 1;
        self.cells.pop_front().flatten()
    }
}

/// One cell as others see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellSummary {
    /// The cell spans 2^width ms, from index · 2^width.
    pub width: u8,
    pub index: i64,
    pub weight: f64,
    pub oldest_ms: i64,
    pub newest_ms: i64,
}

/// Decayed aggregates in aligned cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Division {
    shape: DivisionShape,
    /// The time for which the cells are as wide as allowed.
    clock_ms: Option<i64>,
    newest_ms: i64,
    /// By width.
    rows: Vec<Row>,
    /// Weight that left past the horizon.
    expired: f64,
}

impl Division {
    pub fn new(shape: DivisionShape) -> Self {
        let rows = vec![Row::default(); usize::from(shape.widest()) + 1];
        Self { shape, clock_ms: None, newest_ms: i64::MIN, rows, expired: 0.0 }
    }

    pub fn shape(&self) -> &DivisionShape {
        &self.shape
    }

    pub fn newest_ms(&self) -> Option<i64> {
        self.clock_ms.map(|_| self.newest_ms)
    }

    /// Weight that is no longer held because it is older than the horizon.
    pub fn expired(&self) -> f64 {
        self.expired
    }

    /// Whether nothing was ever seen.
    pub fn is_empty(&self) -> bool {
        self.clock_ms.is_none()
    }

    /// The cells, narrow ones first, each width from the oldest.
    pub fn cells(&self) -> impl Iterator<Item = CellSummary> + '_ {
        self.held().map(|(width, index, cell)| CellSummary {
            width,
            index,
            weight: cell.content.tally.weight,
            oldest_ms: cell.oldest_ms,
            newest_ms: cell.newest_ms,
        })
    }

    /// Digest nodes, counters and buffered observations in all cells.
    pub fn len(&self) -> usize {
        self.held().map(|(_, _, cell)| cell.content.len()).sum()
    }

    /// Nodes of all digests with their buffers folded in: what the papers count.
    pub fn nodes(&self) -> usize {
        self.held().map(|(_, _, cell)| cell.content.nodes()).sum()
    }

    /// Every label that a later answer may name; some twice.
    pub fn held_labels(&self, into: &mut Vec<u128>) {
        self.held().for_each(|(_, _, cell)| into.extend(cell.content.held_labels()));
    }

    fn held(&self) -> impl Iterator<Item = (u8, i64, &Cell)> {
        self.rows.iter().enumerate().flat_map(|(width, row)| {
            let cells = row.cells.iter().enumerate();
            cells.filter_map(move |(place, cell)| cell.as_ref().map(|c| (width as u8, row.first + place as i64, c)))
        })
    }

    #[inline]
    pub fn insert(&mut self, observation: &Observation) -> Result<(), Refused> {
        self.shape.content.check(observation)?;
        let time_ms = observation.time_ms;
        if time_ms > self.newest_ms || self.clock_ms.is_none() {
            self.newest_ms = time_ms;
            self.follow(time_ms);
        } else if self.newest_ms.abs_diff(time_ms) >= self.shape.horizon_ms {
            let (now_ms, horizon_ms) = (self.newest_ms, self.shape.horizon_ms);
            return Err(Refused::Late { time_ms, now_ms, horizon_ms });
        }
        let width = self.width_at(time_ms);
        let (index, content) = (time_ms >> width, self.shape.content);
        let slot = self.rows[usize::from(width)].slot(index);
        slot.get_or_insert_with(|| Cell::new(content)).insert(observation, index << width);
        Ok(())
    }

    /// Advances in steps, to a clock that depends on the newest time alone.
    #[inline]
    fn follow(&mut self, newest_ms: i64) {
        let step = self.shape.base + STEP;
        let reached_ms = (newest_ms >> step) << step;
        if self.clock_ms.is_none_or(|clock_ms| reached_ms > clock_ms) {
            self.advance_cells(reached_ms);
        }
    }

    /// The widest cell around a time that the clock allows. What is allowed is allowed for every narrower cell too.
    #[inline]
    fn width_at(&self, time_ms: i64) -> u8 {
        let clock_ms = self.clock_ms.unwrap_or(time_ms);
        let mut width = self.shape.base;
        while usize::from(width) + 1 < self.rows.len() && self.allowed(width + 1, time_ms >> (width + 1), clock_ms) {
            width += 1;
        }
        width
    }

    #[inline]
    fn allowed(&self, width: u8, index: i64, clock_ms: i64) -> bool {
        let last_ms = ((index + 1) << width) - 1;
        clock_ms >= last_ms && (clock_ms - last_ms) as u64 >= self.shape.ages[usize::from(width)]
    }

    /// Lets time pass without an observation. Never goes back.
    pub fn advance(&mut self, now_ms: i64) -> Result<(), QuestionError> {
        check_question_time(now_ms)?;
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
                if !self.allowed(width as u8 + 1, parent, clock_ms) {
                    break;
                }
                let begin_ms = self.rows[width].first << width;
                let Some(mut cell) = self.rows[width].pop() else { continue };
                cell.widen(begin_ms - (parent << (width + 1)));
                add(self.rows[width + 1].slot(parent), cell);
            }
        }
        self.expire(clock_ms);
    }

    fn expire(&mut self, clock_ms: i64) {
        let cut_ms = clock_ms.saturating_sub_unsigned(self.shape.horizon_ms);
        for (width, row) in self.rows.iter_mut().enumerate() {
            while !row.cells.is_empty() && ((row.first + 1) << width) - 1 <= cut_ms {
                self.expired += row.pop().map_or(0.0, |cell| cell.content.tally.weight);
            }
        }
    }

    /// Adds what another structure of the same shape has seen: both are advanced to one clock, then cells are added.
    pub fn merge(&mut self, mut other: Self) -> Result<(), MergeError> {
        if self.shape != other.shape {
            return Err(MergeError("the decay, theta, the horizon or what is kept"));
        }
        let Some(theirs) = other.clock_ms else { return Ok(()) };
        let clock_ms = self.clock_ms.map_or(theirs, |mine| mine.max(theirs));
        self.advance_cells(clock_ms);
        other.advance_cells(clock_ms);
        self.newest_ms = self.newest_ms.max(other.newest_ms);
        self.expired += other.expired;
        for (row, theirs) in self.rows.iter_mut().zip(other.rows) {
            for (place, cell) in theirs.cells.into_iter().enumerate() {
                if let Some(cell) = cell {
                    add(row.slot(theirs.first + place as i64), cell);
                }
            }
        }
        Ok(())
    }

    /// By how much a decay varies within the cells (its own theta), when that is at most `allowed`.
    pub fn require(&self, decay: &Decay, allowed: f64) -> Result<f64, QuestionError> {
        match self.shape.theta_under(decay) {
            Some(theta) if theta <= allowed * (1.0 + 1e-9) => Ok(theta),
            theta => {
                let theta = theta.unwrap_or(f64::INFINITY);
                Err(QuestionError::Undominated { decay: decay.to_string(), theta, allowed })
            }
        }
    }

    fn fading<'a>(&self, now_ms: i64, decay: &'a Decay) -> Result<Fading<'a>, QuestionError> {
        check_question_time(now_ms)?;
        let horizon_ms = self.shape.horizon_ms;
        match decay.width() {
            Some(asked_ms) if asked_ms > horizon_ms => Err(QuestionError::PastHorizon { asked_ms, horizon_ms }),
            _ => Ok(Fading { decay, now_ms: now_ms.max(self.newest_ms), horizon_ms }),
        }
    }

    /// What can be promised: an error that follows from theta when the decay is dominated, otherwise the bounds alone.
    fn standing(&self, fading: &Fading<'_>, error: impl Fn(f64) -> f64) -> Standing {
        let theta = self.require(fading.decay, self.shape.theta).ok();
        let whole = self.held().all(|(_, _, cell)| !fading.straddles(cell));
        let outlived = self.expired > 0.0 || self.held().any(|(_, _, cell)| fading.outlived(cell));
        Standing {
            epsilon: theta.filter(|_| whole).map(error),
            incomplete: outlived && fading.decay.weight(self.shape.horizon_ms) > 0.0,
            cells: self.held().count() as u64,
        }
    }

    /// Count, sum and mean, from the moments of the cells.
    pub fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QuestionError> {
        let fading = self.fading(now_ms, decay)?;
        let mut totals = Totals::new();
        for (width, index, cell) in self.held() {
            let (begin_ms, tally) = (index << width, cell.content.tally);
            totals.count.add(tally.weight, fading.whole(cell, begin_ms, tally.weight, cell.delay));
            totals.sum.add(tally.sum, fading.whole(cell, begin_ms, tally.sum, cell.sum_delay));
        }
        totals.standing = self.standing(&fading, |theta| theta / (2.0 + theta));
        Ok(totals)
    }

    /// Ranks, quantiles and shares.
    pub fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QuestionError> {
        let fading = self.fading(now_ms, decay)?;
        let shape = self.shape.content.values().ok_or(QuestionError::NotKept("values"))?;
        let mut bands = Vec::new();
        self.held().for_each(|(_, _, cell)| cell.content.spread_values(fading.ends(cell), &mut bands));
        let standing = self.standing(&fading, |theta| theta / 4.0 + shape.beta() / 2.0);
        let off = self.shape.theta / (2.0 + self.shape.theta);
        Ok(Values::new(bands, shape.value_most(), standing, off + shape.beta() / 2.0 * (1.0 + off)))
    }

    /// Top labels.
    pub fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QuestionError> {
        let fading = self.fading(now_ms, decay)?;
        let counters = self.shape.content.counters().ok_or(QuestionError::NotKept("labels"))?;
        let mut labels = Labels::new();
        self.held().for_each(|(_, _, cell)| cell.content.spread_labels(fading.ends(cell), &mut labels));
        let standing = self.standing(&fading, |theta| theta / 4.0 + 1.0 / f64::from(counters));
        Ok(labels.finish(standing))
    }
}

fn add(slot: &mut Option<Cell>, cell: Cell) {
    match slot {
        Some(held) => held.absorb(cell),
        None => *slot = Some(cell),
    }
}

#[cfg(test)]
mod tests;
