//! Forward exponential decay: every observation gets its final weight on arrival, relative to a landmark time.
//!
//! An observation of time t is stored with weight · exp(rate · (t − landmark)); a query multiplies by one factor. The order of
//! arrival does not matter, late observations get the right weight, and sketches merge. Counts, sums and means are exact up
//! to rounding; quantiles and labels have the error of their summary. A sketch answers for its own rate only.

mod codec;

use super::error::{MergeError, ObservationError, QueryError, ShapeError};
use super::observation::{Observation, check_query_time};
use super::qdigest::Mass;
use super::reading::{Assurance, CellLabels, CellTotals, CellValues, DecayFactor, Labels, Totals, Values};
use super::robust::ElementId;
use super::sketch::{DecayedSketch, SpecEncoding, expect_spec};
use super::summary::{Summary, SummaryShape};
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::Decay;

/// Exponents stay below this, far from the overflow of doubles.
const MAX_EXPONENT: f64 = 300.0;

/// The memory of an empty sketch, rounded up.
const SKETCH_BYTES: usize = 1024;

/// The memory of a digest node, a counter or a buffered observation, in a vector that may be half empty.
pub const ENTRY_BYTES: usize = 96;

/// An exponential decay, and what is kept under it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForwardShape {
    rate: f64,
    summary: SummaryShape,
}

impl ForwardShape {
    /// `decay` must be exponential.
    pub fn new(decay: &Decay, summary: SummaryShape) -> Result<Self, ShapeError> {
        let reason = "forward decay is exponential; use for example exponential:half_life=10m";
        let rate = decay.rate().ok_or(ShapeError::Decay { decay: decay.to_string(), reason })?;
        Ok(Self { rate, summary })
    }

    /// An upper bound of the memory of one sketch.
    pub fn max_bytes(&self) -> usize {
        SKETCH_BYTES + self.summary.max_entries() * ENTRY_BYTES
    }

    /// What is kept.
    pub fn summary(&self) -> SummaryShape {
        self.summary
    }
}

/// Decayed aggregates under one exponential decay.
///
/// ```
/// use ebb_sketch::aggregate::forward::{ForwardShape, ForwardSketch};
/// use ebb_sketch::aggregate::{DecayedSketch, Observation, SummaryShape};
/// use ebb_sketch::decay::Decay;
///
/// let half_life = Decay::half_life(1_000.0)?;
/// let mut sketch = ForwardSketch::new(ForwardShape::new(&half_life, SummaryShape::totals())?);
/// sketch.insert(&Observation { time_ms: 0, value: 8, label: 0, weight: 1.0 })?;
/// let sum = sketch.totals(1_000, &half_life)?.sum();
/// assert!((sum.value - 4.0).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardSketch {
    shape: ForwardShape,
    /// The time whose observations are stored with their own weight.
    landmark_ms: Option<i64>,
    newest_ms: i64,
    summary: Summary,
}

impl ForwardSketch {
    /// An empty sketch.
    pub fn new(shape: ForwardShape) -> Self {
        Self { shape, landmark_ms: None, newest_ms: i64::MIN, summary: Summary::new(shape.summary) }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> ForwardShape {
        self.shape
    }

    /// The newest accepted time.
    pub fn newest_ms(&self) -> Option<i64> {
        self.landmark_ms.map(|_| self.newest_ms)
    }

    /// Adds an observation, or rejects it without changing anything.
    #[inline]
    pub fn insert(&mut self, observation: &Observation) -> Result<(), ObservationError> {
        self.shape.summary.check(observation)?;
        let landmark_ms = *self.landmark_ms.get_or_insert(observation.time_ms);
        self.newest_ms = self.newest_ms.max(observation.time_ms);
        let mut exponent = self.shape.rate * (observation.time_ms - landmark_ms) as f64;
        if exponent > MAX_EXPONENT {
            self.move_landmark(observation.time_ms);
            exponent = 0.0;
        }
        let weight = observation.weight * libm::exp(exponent);
        // A very late observation may underflow to zero.
        if weight > 0.0 {
            self.summary.insert(observation.value, observation.label, weight);
        }
        Ok(())
    }

    /// Rescales everything to a later landmark.
    #[cold]
    fn move_landmark(&mut self, to_ms: i64) {
        if let Some(from_ms) = self.landmark_ms.replace(to_ms) {
            self.summary.scale(libm::exp(-self.shape.rate * (to_ms - from_ms) as f64));
        }
    }

    /// The factor from stored weights to weights at `now_ms`, or at the newest time if that is later.
    fn factor(&self, now_ms: i64, decay: &Decay) -> Result<DecayFactor, QueryError> {
        check_query_time(now_ms)?;
        let rate = self.shape.rate;
        if decay.rate().map(f64::to_bits) != Some(rate.to_bits()) {
            let reason = format!("the sketch answers only for its own rate of {} per second", rate * 1e3);
            return Err(QueryError::Decay { decay: decay.to_string(), reason });
        }
        let Some(landmark_ms) = self.landmark_ms else { return Ok(DecayFactor::exact(0.0)) };
        let since_ms = now_ms.max(self.newest_ms) - landmark_ms;
        Ok(DecayFactor::exact(libm::exp(-rate * since_ms as f64)))
    }
}

impl DecayedSketch for ForwardSketch {
    type Spec = ForwardShape;
    const MERGES: bool = true;

    fn from_spec(spec: &ForwardShape) -> Self {
        Self::new(*spec)
    }

    #[inline]
    fn observe(&mut self, _: ElementId, observation: &Observation) -> Result<(), ObservationError> {
        self.insert(observation)
    }

    /// Does nothing: memory does not grow with time.
    fn advance(&mut self, _: i64) {}

    fn merge(&mut self, mut other: Self) -> Result<(), MergeError> {
        if self.shape.rate.to_bits() != other.shape.rate.to_bits() {
            return Err(MergeError::Different("rates"));
        }
        if self.shape.summary != other.shape.summary {
            return Err(MergeError::Different("summaries"));
        }
        let Some(others_ms) = other.landmark_ms else { return Ok(()) };
        match self.landmark_ms {
            None => *self = other,
            Some(landmark_ms) => {
                if landmark_ms < others_ms {
                    self.move_landmark(others_ms);
                } else {
                    other.move_landmark(landmark_ms);
                }
                self.newest_ms = self.newest_ms.max(other.newest_ms);
                self.summary.merge(other.summary);
            }
        }
        Ok(())
    }

    /// Exact up to rounding.
    fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QueryError> {
        let factor = self.factor(now_ms, decay)?;
        let mut totals = CellTotals::new();
        totals.count.add(self.summary.tally.weight, factor);
        totals.sum.add(self.summary.tally.sum, factor);
        totals.assurance.cells = 1;
        Ok(Totals::Cells(totals))
    }

    /// Within beta / 2 of the total.
    fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QueryError> {
        let factor = self.factor(now_ms, decay)?;
        let digest = self.shape.summary.values().ok_or(QueryError::NotKept("values"))?;
        let mut ranges = Vec::new();
        self.summary.read_values(factor, &mut ranges);
        let epsilon = digest.beta() / 2.0;
        let assurance = Assurance { epsilon: Some(epsilon), incomplete: false, cells: ranges.len() as u64 };
        Ok(Values::Cells(CellValues::new(ranges, digest.max_value(), assurance, epsilon)))
    }

    /// Within 1 / counters of the total.
    fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QueryError> {
        let factor = self.factor(now_ms, decay)?;
        let counters = self.shape.summary.counters().ok_or(QueryError::NotKept("labels"))?;
        let mut labels = CellLabels::new();
        self.summary.read_labels(factor, &mut labels);
        let (epsilon, cells) = (Some(1.0 / f64::from(counters)), self.summary.entry_count() as u64);
        Ok(Labels::Cells(labels.finish(Assurance { epsilon, incomplete: false, cells })))
    }

    fn collect_labels(&self, into: &mut Vec<u128>) {
        into.extend(self.summary.labels());
    }

    fn entry_count(&self) -> usize {
        self.summary.entry_count()
    }

    fn memory_bytes(&self) -> usize {
        SKETCH_BYTES + self.entry_count() * ENTRY_BYTES
    }

    fn encode_into(&self, writer: &mut Writer, _: SpecEncoding) {
        writer.bytes(&self.encode());
    }

    fn decode_from(spec: &ForwardShape, reader: &mut Reader<'_>, _: SpecEncoding) -> Result<Self, CodecError> {
        let same =
            |sketch: &Self| sketch.shape.rate.to_bits() == spec.rate.to_bits() && sketch.shape.summary == spec.summary;
        expect_spec(Self::decode(reader.bytes()?)?, same)
    }
}

#[cfg(test)]
mod tests;
