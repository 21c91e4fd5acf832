//! What one cell of time holds: totals, and, where the aggregate asks for them, a digest of values and counters of labels.

use super::super::qdigest::{DigestShape, Mass, QDigest};
use super::super::spacesaving::{COUNTERS_MOST, SpaceSaving};
use super::labels::Labels;
use super::observation::{Observation, Refused, ShapeError, WeightLimits};
use super::totals::Factor;
use super::values::Band;
use crate::codec::{CodecError, Reader, Writer};

/// What is kept beside the totals, and which weights are taken.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ContentShape {
    values: Option<DigestShape>,
    counters: Option<u32>,
    weights: WeightLimits,
}

impl ContentShape {
    /// Totals only.
    pub fn totals() -> Self {
        Self::default()
    }

    /// Also how the values are spread.
    pub fn with_values(self, shape: DigestShape) -> Self {
        Self { values: Some(shape), ..self }
    }

    /// Also the heaviest labels, in this many counters a cell.
    pub fn with_labels(self, counters: u32) -> Result<Self, ShapeError> {
        SpaceSaving::new(counters)?;
        Ok(Self { counters: Some(counters), ..self })
    }

    pub fn with_weights(self, weights: WeightLimits) -> Self {
        Self { weights, ..self }
    }

    pub fn values(self) -> Option<DigestShape> {
        self.values
    }

    pub fn counters(self) -> Option<u32> {
        self.counters
    }

    pub fn weights(self) -> WeightLimits {
        self.weights
    }

    /// The largest value that is taken: that of the digest, or what a double holds exactly.
    pub fn value_most(self) -> u64 {
        self.values.map_or((1 << 53) - 1, DigestShape::value_most)
    }

    /// Only what is kept of an observation, so that what is not kept can never make a difference.
    pub(crate) fn kept(self, observation: &Observation) -> Observation {
        Observation { label: if self.counters.is_some() { observation.label } else { 0 }, ..*observation }
    }

    pub(crate) fn check(self, observation: &Observation) -> Result<(), Refused> {
        self.weights.check(observation.weight)?;
        if observation.value > self.value_most() {
            return Err(Refused::Value { given: observation.value, most: self.value_most() });
        }
        super::check_time(observation.time_ms)
    }
}

/// Weight, and weight times value.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    pub weight: f64,
    pub sum: f64,
}

impl Mass for Tally {
    fn weight(&self) -> f64 {
        self.weight
    }

    fn absorb(&mut self, other: Self) {
        self.weight += other.weight;
        self.sum += other.sum;
    }

    /// Every observation leaves in the same proportion.
    fn take(&mut self, weight: f64) -> Self {
        let sum = if weight < self.weight { self.sum * (weight / self.weight) } else { self.sum };
        self.weight -= weight;
        self.sum -= sum;
        Self { weight, sum }
    }
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub(crate) tally: Tally,
    pub(crate) values: Option<QDigest>,
    pub(crate) labels: Option<SpaceSaving>,
}

impl Content {
    pub fn new(shape: ContentShape) -> Self {
        let labels = shape.counters.and_then(|counters| SpaceSaving::new(counters.clamp(1, COUNTERS_MOST)).ok());
        Self { tally: Tally::default(), values: shape.values.map(QDigest::new), labels }
    }

    /// Adds one observation at a weight that need not be its own.
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
    pub fn len(&self) -> usize {
        self.values.as_ref().map_or(0, QDigest::len) + self.labels.as_ref().map_or(0, SpaceSaving::len)
    }

    pub fn is_empty(&self) -> bool {
        self.tally.weight <= 0.0
    }

    /// Nodes of the digest with its buffer folded in: what the papers count.
    pub(crate) fn nodes(&self) -> usize {
        self.values.as_ref().map_or(0, QDigest::folded_len)
    }

    pub(crate) fn spread_values(&self, factor: Factor, bands: &mut Vec<Band>) {
        if let Some(digest) = &self.values {
            digest.spread(factor, bands);
        }
    }

    /// Every label that a later answer may name; some twice.
    pub(crate) fn held_labels(&self) -> impl Iterator<Item = u128> {
        self.labels.iter().flat_map(SpaceSaving::held)
    }

    pub(crate) fn spread_labels(&self, factor: Factor, labels: &mut Labels) {
        if let Some(summary) = &self.labels {
            labels.add(summary, factor);
        }
    }
}

impl Mass for Content {
    fn weight(&self) -> f64 {
        self.tally.weight
    }

    fn absorb(&mut self, other: Self) {
        self.tally.absorb(other.tally);
        if let (Some(mine), Some(theirs)) = (&mut self.values, other.values) {
            mine.merge(theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.labels, other.labels) {
            mine.merge(theirs);
        }
    }

    /// The parts choose what leaves independently: a question is about one of them at a time.
    fn take(&mut self, weight: f64) -> Self {
        Self {
            tally: self.tally.take(weight),
            values: self.values.as_mut().map(|digest| digest.take(weight)),
            labels: self.labels.as_mut().map(|labels| labels.take(weight)),
        }
    }
}

/// Mass that stands at a range of time: totals alone, or whole cells.
pub(crate) trait Held: Mass {
    /// The mass of observations that stand at one range.
    fn of(shape: ContentShape, observations: &[Observation]) -> Self;

    fn tally(&self) -> Tally;

    /// The summaries, where there are any.
    fn content(&self) -> Option<&Content>;

    fn write(&self, w: &mut Writer);

    fn read(shape: ContentShape, r: &mut Reader<'_>) -> Result<Self, CodecError>;
}

impl Held for Tally {
    fn of(_: ContentShape, observations: &[Observation]) -> Self {
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

    fn content(&self) -> Option<&Content> {
        None
    }

    fn write(&self, w: &mut Writer) {
        Self::write(self, w);
    }

    fn read(_: ContentShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::read(r)
    }
}

impl Held for Content {
    fn of(shape: ContentShape, observations: &[Observation]) -> Self {
        let mut content = Self::new(shape);
        observations.iter().for_each(|one| content.insert(one.value, one.label, one.weight));
        content
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn content(&self) -> Option<&Content> {
        Some(self)
    }

    fn write(&self, w: &mut Writer) {
        Self::write(self, w);
    }

    fn read(shape: ContentShape, r: &mut Reader<'_>) -> Result<Self, CodecError> {
        Self::read(shape, r)
    }
}
