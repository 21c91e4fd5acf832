//! Ranges of absolute time, and how answers are gathered from observations and ranges under any decay.

use super::cell::{ContentShape, Held};
use super::labels::Labels;
use super::observation::{Observation, QuestionError, ShapeError, check_question_time};
use super::totals::{Factor, Standing, Totals};
use super::values::Band;
use crate::decay::Decay;

/// Times become positions by this shift, a multiple of every block.
const ORIGIN_MS: i64 = 1 << 57;

/// Blocks are at most 2^50 ms.
const HORIZON_MOST_MS: u64 = 1 << 50;

pub(crate) fn position(time_ms: i64) -> u64 {
    (time_ms + ORIGIN_MS) as u64
}

pub(crate) fn time_at(position: u64) -> i64 {
    position as i64 - ORIGIN_MS
}

/// How far back is answered for, how well, and what is kept: what the windowed methods have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelineShape {
    pub(crate) epsilon: f64,
    pub(crate) horizon_ms: u64,
    pub(crate) content: ContentShape,
    /// Ranges that a level keeps.
    pub(crate) capacity: u32,
    /// Whether the capacity is what the error needs, so that the error can be promised.
    pub(crate) promised: bool,
}

impl TimelineShape {
    /// `ranges` is how many ranges a level must keep, per halving of time and per 1 / epsilon.
    pub(crate) fn new(epsilon: f64, horizon_ms: u64, content: ContentShape, ranges: f64) -> Result<Self, ShapeError> {
        let epsilon = ShapeError::share("epsilon", epsilon)?;
        if !(1..=HORIZON_MOST_MS).contains(&horizon_ms) {
            let nearest = horizon_ms.clamp(1, HORIZON_MOST_MS);
            return Err(ShapeError::Horizon { given: horizon_ms, most: HORIZON_MOST_MS, nearest });
        }
        let shape = Self { epsilon, horizon_ms, content, capacity: 0, promised: true };
        let halvings = f64::from(shape.height());
        let capacity = (ranges / epsilon * halvings + 2.0 * halvings + 4.0).ceil() as u32;
        Ok(Self { capacity, ..shape })
    }

    /// The same with a capacity chosen by hand (at least 4); bounds still hold, the error is no longer promised.
    pub fn with_capacity(self, capacity: u32) -> Self {
        Self { capacity: capacity.max(4), promised: false, ..self }
    }

    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    pub fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    pub fn content(&self) -> ContentShape {
        self.content
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Halvings from a block of time that spans the horizon to one millisecond.
    pub fn height(&self) -> u8 {
        (u64::BITS - (self.horizon_ms - 1).leading_zeros()).max(1) as u8
    }

    /// The weight that fills a range of the first level: a power of two of the least weight.
    pub(crate) fn gamma(&self, level: u32) -> f64 {
        self.content.weights().least() * libm::ldexp(1.0, level as i32)
    }
}

/// One question to a timeline.
pub(crate) struct Timeline<'a> {
    shape: TimelineShape,
    decay: &'a Decay,
    now_ms: i64,
}

impl<'a> Timeline<'a> {
    pub fn new(shape: TimelineShape, decay: &'a Decay, now_ms: i64) -> Result<Self, QuestionError> {
        check_question_time(now_ms)?;
        let horizon_ms = shape.horizon_ms;
        match decay.width() {
            Some(asked_ms) if asked_ms > horizon_ms => Err(QuestionError::PastHorizon { asked_ms, horizon_ms }),
            _ => Ok(Self { shape, decay, now_ms }),
        }
    }

    /// The decay, and nothing past the horizon.
    pub fn weight(&self, time_ms: i64) -> f64 {
        let age = self.now_ms.saturating_sub(time_ms).max(0) as u64;
        if age < self.shape.horizon_ms { self.decay.weight(age) } else { 0.0 }
    }

    /// What is promised of a count, when observations from the oldest to the newest time were accepted.
    pub fn totals_standing(&self, span_ms: Option<(i64, i64)>, cells: usize) -> Standing {
        let horizon_ms = self.shape.horizon_ms;
        let outlived = span_ms.is_some_and(|(oldest_ms, _)| self.now_ms.saturating_sub(oldest_ms) as u64 >= horizon_ms);
        Standing {
            epsilon: Some(self.shape.epsilon).filter(|_| self.shape.promised),
            incomplete: outlived && self.decay.weight(horizon_ms) > 0.0,
            cells: cells as u64,
        }
    }

    /// What is promised of a share when the summaries err by `summary` of the total: both the part and the whole are
    /// only known within the error.
    pub fn standing(&self, summary: f64, span_ms: Option<(i64, i64)>, cells: usize) -> Standing {
        let standing = self.totals_standing(span_ms, cells);
        Standing { epsilon: standing.epsilon.map(|epsilon| (epsilon + summary) / (1.0 - epsilon)), ..standing }
    }
}

/// What a question gathers from single observations and from ranges.
pub(crate) trait Gather {
    fn raw(&mut self, observation: &Observation, weight: f64);

    fn held<M: Held>(&mut self, mass: &M, factor: Factor);
}

impl Gather for Totals {
    fn raw(&mut self, observation: &Observation, weight: f64) {
        self.count.add(observation.weight, Factor::exact(weight));
        self.sum.add(observation.weight * observation.value as f64, Factor::exact(weight));
    }

    fn held<M: Held>(&mut self, mass: &M, factor: Factor) {
        self.count.add(mass.tally().weight, factor);
        self.sum.add(mass.tally().sum, factor);
    }
}

impl Gather for Vec<Band> {
    fn raw(&mut self, observation: &Observation, weight: f64) {
        self.push(Band::new(observation.value, observation.value, observation.weight, Factor::exact(weight)));
    }

    fn held<M: Held>(&mut self, mass: &M, factor: Factor) {
        mass.content().into_iter().for_each(|content| content.spread_values(factor, self));
    }
}

impl Gather for Labels {
    fn raw(&mut self, observation: &Observation, weight: f64) {
        self.add_one(observation.label, observation.weight, Factor::exact(weight));
    }

    fn held<M: Held>(&mut self, mass: &M, factor: Factor) {
        mass.content().into_iter().for_each(|content| content.spread_labels(factor, self));
    }
}
