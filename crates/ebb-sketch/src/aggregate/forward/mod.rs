//! Forward exponential decay: one weight per observation, fixed when it arrives, in units of a landmark.
//!
//! An observation of time t is kept at weight · exp(rate · (t − landmark)); every answer is scaled by one factor. Order
//! does not matter, late observations weigh what they should, structures add up. Counts, sums and means are exact up to
//! rounding; quantiles and top items have the errors of their summary. It answers for its own rate only.

mod codec;

use super::content::{
    Content, ContentShape, Factor, Labels, MergeError, Observation, QuestionError, Refused, ShapeError, Standing,
    Totals, Values, check_question_time,
};
use super::qdigest::Mass;
use crate::decay::Decay;

/// Exponents stay below this, far from where doubles overflow.
const EXPONENT_MOST: f64 = 300.0;

/// Sums of everything under one exponential decay.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    rate: f64,
    shape: ContentShape,
    /// The time whose weight is 1.
    landmark_ms: Option<i64>,
    newest_ms: i64,
    content: Content,
}

impl Forward {
    pub fn new(decay: &Decay, shape: ContentShape) -> Result<Self, ShapeError> {
        let why = "forward decay is exponential; write exponential:half_life=10m";
        let rate = decay.rate().ok_or(ShapeError::Decay { decay: decay.to_string(), why })?;
        Ok(Self { rate, shape, landmark_ms: None, newest_ms: i64::MIN, content: Content::new(shape) })
    }

    pub fn shape(&self) -> ContentShape {
        self.shape
    }

    /// The newest accepted time.
    pub fn newest_ms(&self) -> Option<i64> {
        self.landmark_ms.map(|_| self.newest_ms)
    }

    /// Nodes, counters and buffered observations.
    pub fn len(&self) -> usize {
        self.content.len()
    }

    /// Every label that a later answer may name; some twice.
    pub fn held_labels(&self, into: &mut Vec<u128>) {
        into.extend(self.content.held_labels());
    }

    pub fn is_empty(&self) -> bool {
        self.landmark_ms.is_none()
    }

    #[inline]
    pub fn insert(&mut self, observation: &Observation) -> Result<(), Refused> {
        self.shape.check(observation)?;
        let landmark_ms = *self.landmark_ms.get_or_insert(observation.time_ms);
        self.newest_ms = self.newest_ms.max(observation.time_ms);
        let mut exponent = self.rate * (observation.time_ms - landmark_ms) as f64;
        if exponent > EXPONENT_MOST {
            self.move_landmark(observation.time_ms);
            exponent = 0.0;
        }
        let weight = observation.weight * libm::exp(exponent);
        // So late that nothing is left of it.
        if weight > 0.0 {
            self.content.insert(observation.value, observation.label, weight);
        }
        Ok(())
    }

    /// Expresses everything in units of a later landmark.
    #[cold]
    fn move_landmark(&mut self, to_ms: i64) {
        if let Some(from_ms) = self.landmark_ms.replace(to_ms) {
            self.content.scale(libm::exp(-self.rate * (to_ms - from_ms) as f64));
        }
    }

    /// Adds what another structure of the same rate and shape has seen.
    pub fn merge(&mut self, mut other: Self) -> Result<(), MergeError> {
        if self.rate.to_bits() != other.rate.to_bits() {
            return Err(MergeError("the rate"));
        }
        if self.shape != other.shape {
            return Err(MergeError("what is kept"));
        }
        let Some(theirs) = other.landmark_ms else { return Ok(()) };
        match self.landmark_ms {
            None => *self = other,
            Some(mine) => {
                if mine < theirs {
                    self.move_landmark(theirs);
                } else {
                    other.move_landmark(mine);
                }
                self.newest_ms = self.newest_ms.max(other.newest_ms);
                self.content.absorb(other.content);
            }
        }
        Ok(())
    }

    /// What everything has decayed by at `now_ms`, or at the newest time if that is later.
    fn factor(&self, now_ms: i64, decay: &Decay) -> Result<Factor, QuestionError> {
        check_question_time(now_ms)?;
        if decay.rate().map(f64::to_bits) != Some(self.rate.to_bits()) {
            let why = format!("forward decay answers for its own rate of {} per second only", self.rate * 1e3);
            return Err(QuestionError::Decay { decay: decay.to_string(), why });
        }
        let Some(landmark_ms) = self.landmark_ms else { return Ok(Factor::exact(0.0)) };
        let since_ms = now_ms.max(self.newest_ms) - landmark_ms;
        Ok(Factor::exact(libm::exp(-self.rate * since_ms as f64)))
    }

    /// Count, sum and mean: exact.
    pub fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QuestionError> {
        let factor = self.factor(now_ms, decay)?;
        let mut totals = Totals::new();
        totals.count.add(self.content.tally.weight, factor);
        totals.sum.add(self.content.tally.sum, factor);
        totals.standing.cells = 1;
        Ok(totals)
    }

    /// Ranks, quantiles and shares, within beta / 2 of the total.
    pub fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QuestionError> {
        let factor = self.factor(now_ms, decay)?;
        let shape = self.shape.values().ok_or(QuestionError::NotKept("values"))?;
        let mut bands = Vec::new();
        self.content.spread_values(factor, &mut bands);
        let standing = Standing { epsilon: Some(shape.beta() / 2.0), incomplete: false, cells: bands.len() as u64 };
        Ok(Values::new(bands, shape.value_most(), standing, shape.beta() / 2.0))
    }

    /// Top labels, within 1 / counters of the total.
    pub fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QuestionError> {
        let factor = self.factor(now_ms, decay)?;
        let counters = self.shape.counters().ok_or(QuestionError::NotKept("labels"))?;
        let mut labels = Labels::new();
        self.content.spread_labels(factor, &mut labels);
        let epsilon = Some(1.0 / f64::from(counters));
        Ok(labels.finish(Standing { epsilon, incomplete: false, cells: self.content.len() as u64 }))
    }
}

#[cfg(test)]
mod tests;
