//! What one range of time holds: totals and, where configured, a digest of values and counters of labels.

use super::error::{ObservationError, ShapeError};
use super::observation::{Observation, WeightLimits, check_time};
use super::qdigest::{DigestShape, Mass, QDigest};
use super::reading::{CellLabels, DecayFactor, ValueRange};
use super::spacesaving::{MAX_COUNTERS, SpaceSaving};
use crate::codec::{CodecError, Reader, Writer};

/// What a sketch keeps beside totals, and which weights it accepts.
///
/// ```
/// use ebb_sketch::aggregate::{SummaryShape, qdigest::DigestShape};
///
/// // Quantiles of 16-bit values within 1 % of the total, and labels within 1/100 of it.
/// let shape = SummaryShape::totals().with_values(DigestShape::new(16, 0.02)?).with_labels(100)?;
/// assert_eq!(shape.max_value(), 65_535);
/// # Ok::<(), ebb_sketch::aggregate::ShapeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SummaryShape {
    values: Option<DigestShape>,
    counters: Option<u32>,
    weights: WeightLimits,
}

impl SummaryShape {
    /// Count, sum and mean only.
    pub fn totals() -> Self {
        Self::default()
    }

    /// Adds a digest of the values: ranks, quantiles and shares.
    pub fn with_values(self, shape: DigestShape) -> Self {
        Self { values: Some(shape), ..self }
    }

    /// Adds the heaviest labels, with this many counters per range of time.
    pub fn with_labels(self, counters: u32) -> Result<Self, ShapeError> {
        SpaceSaving::new(counters)?;
        Ok(Self { counters: Some(counters), ..self })
    }

    /// Replaces the accepted weights.
    pub fn with_weights(self, weights: WeightLimits) -> Self {
        Self { weights, ..self }
    }

    /// The shape of the value digest, if there is one.
    pub fn values(self) -> Option<DigestShape> {
        self.values
    }

    /// The number of label counters, if labels are kept.
    pub fn counters(self) -> Option<u32> {
        self.counters
    }

    /// The accepted weights.
    pub fn weights(self) -> WeightLimits {
        self.weights
    }

    /// The largest accepted value: the domain of the digest, or what a double represents exactly.
    pub fn max_value(self) -> u64 {
        self.values.map_or((1 << 53) - 1, DigestShape::max_value)
    }

    /// An upper bound of the nodes, counters and buffered observations of one summary.
    pub(crate) fn max_entries(self) -> usize {
        let digest = self.values.map_or(0, |digest| 2 * digest.max_nodes() + 2048);
        digest + self.counters.map_or(0, |counters| 2 * (counters as usize).max(32))
    }

    pub(crate) fn is_totals_only(self) -> bool {
        self.values.is_none() && self.counters.is_none()
    }

    /// Clears the fields that are not kept, so that they cannot influence the state.
    pub(crate) fn project(self, observation: &Observation) -> Observation {
        Observation { label: if self.counters.is_some() { observation.label } else { 0 }, ..*observation }
    }

    pub(crate) fn check(self, observation: &Observation) -> Result<(), ObservationError> {
        self.weights.check(observation.weight)?;
        if observation.value > self.max_value() {
            return Err(ObservationError::Value { value: observation.value, max: self.max_value() });
        }
        check_time(observation.time_ms)
    }
}

/// Weight, and weight times value.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    /// Sum of the weights.
    pub weight: f64,
    /// Sum of weight times value.
    pub sum: f64,
}

impl Mass for Tally {
    fn weight(&self) -> f64 {
        self.weight
    }

    fn merge(&mut self, other: Self) {
        self.weight += other.weight;
        self.sum += other.sum;
    }

    /// Splits every observation in the same proportion.
    fn split_off(&mut self, weight: f64) -> Self {
        let sum = if weight < self.weight { self.sum * (weight / self.weight) } else { self.sum };
        self.weight -= weight;
        self.sum -= sum;
        Self { weight, sum }
    }
}

/// Totals, and the digest and counters that the shape asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub(crate) tally: Tally,
    pub(crate) values: Option<QDigest>,
    pub(crate) labels: Option<SpaceSaving>,
}

impl Summary {
    /// An empty summary.
    pub fn new(shape: SummaryShape) -> Self {
        let labels = shape.counters.and_then(|counters| SpaceSaving::new(counters.clamp(1, MAX_COUNTERS)).ok());
        Self { tally: Tally::default(), values: shape.values.map(QDigest::new), labels }
    }

    /// Adds one observation with a weight that may differ from its own.
    #[inline]
    pub(crate) fn insert(&mut self, value: u64, label: u128, weight: f64) {
        self.tally.weight += weight;
        self.tally.sum += weight * value as f64;
        if let Some(digest) = &mut self.values {
            digest.insert(value, weight);
        }
        if let Some(labels) = &mut self.labels {
            labels.insert(label, weight);
        }
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.tally.weight *= factor;
        self.tally.sum *= factor;
        self.values.iter_mut().for_each(|digest| digest.scale(factor));
        self.labels.iter_mut().for_each(|labels| labels.scale(factor));
    }

    /// Digest nodes, counters and buffered observations.
    pub(crate) fn entry_count(&self) -> usize {
        self.values.as_ref().map_or(0, QDigest::len) + self.labels.as_ref().map_or(0, SpaceSaving::len)
    }

    /// Digest nodes after folding in the buffer: the size that the papers report.
    pub(crate) fn node_count(&self) -> usize {
        self.values.as_ref().map_or(0, QDigest::folded_len)
    }

    pub(crate) fn read_values(&self, factor: DecayFactor, ranges: &mut Vec<ValueRange>) {
        if let Some(digest) = &self.values {
            digest.read(factor, ranges);
        }
    }

    pub(crate) fn read_labels(&self, factor: DecayFactor, labels: &mut CellLabels) {
        if let Some(summary) = &self.labels {
            labels.add(summary, factor);
        }
    }

    /// Labels with a counter or in the buffer; some twice.
    pub(crate) fn labels(&self) -> impl Iterator<Item = u128> {
        self.labels.iter().flat_map(SpaceSaving::retained_labels)
    }
}

impl Mass for Summary {
    fn weight(&self) -> f64 {
        self.tally.weight
    }

    fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        if let (Some(digest), Some(others)) = (&mut self.values, other.values) {
            digest.merge(others);
        }
        if let (Some(labels), Some(others)) = (&mut self.labels, other.labels) {
            labels.merge(others);
        }
    }

    /// The parts choose independently what leaves: a query reads one of them at a time.
    fn split_off(&mut self, weight: f64) -> Self {
        Self {
            tally: self.tally.split_off(weight),
            values: self.values.as_mut().map(|digest| digest.split_off(weight)),
            labels: self.labels.as_mut().map(|labels| labels.split_off(weight)),
        }
    }
}

/// The content of a time range: a [`Tally`] where totals suffice, otherwise a [`Summary`].
pub(crate) trait RangeSummary: Mass {
    /// Summarises observations of one range.
    fn of(shape: SummaryShape, observations: &[Observation]) -> Self;

    fn tally(&self) -> Tally;

    fn summary(&self) -> Option<&Summary>;

    fn write(&self, w: &mut Writer);

    fn read(shape: SummaryShape, r: &mut Reader<'_>) -> Result<Self, CodecError>;
}

impl RangeSummary for Tally {
    fn of(_: SummaryShape, observations: &[Observation]) -> Self {
        let mut tally = Self::default();
        for observation in observations {
            tally.weight += observation.weight;
            tally.sum += observation.weight * observation.value as f64;
        }
        tally
    }

    fn tally(&self) -> Tally {
        *self
    }

    fn summary(&self) -> Option<&Summary> {
        None
    }

    fn write(&self, w: &mut Writer) {
        Self::write(self, w);
    }

    fn read(_: SummaryShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::read(r)
    }
}

impl RangeSummary for Summary {
    fn of(shape: SummaryShape, observations: &[Observation]) -> Self {
        let mut summary = Self::new(shape);
        observations.iter().for_each(|one| summary.insert(one.value, one.label, one.weight));
        summary
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn summary(&self) -> Option<&Summary> {
        Some(self)
    }

    fn write(&self, w: &mut Writer) {
        Self::write(self, w);
    }

    fn read(shape: SummaryShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::read(shape, r)
    }
}
