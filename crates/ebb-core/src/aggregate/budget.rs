//! The memory budget of an aggregate: a hard limit of what its state takes in one partition.
//!
//! Every event is charged with the most that it can add. When the charges exceed the budget, all sketches are compacted and
//! measured. If they still take more than three quarters of it, accuracy is given up until they do not: the samples of keys
//! are halved, then the coldest keys are merged into `other`, and the sample of all events is halved where it is larger than
//! the keys. Answers state the error in force. The charge is part of the state, so that the log alone decides when this
//! happens (F1).
//!
//! The limit covers what is kept. Copies made for questions, exports and checkpoints are temporary and not included.

use super::label_texts::{LabelTexts, MAX_TEXT_BYTES};
use super::method::Method;
use super::sketch::Sketch;
use super::spec::{AggregateSpec, SketchShape};
use super::spec_error::AggregateSpecError;
use super::{Aggregate, KeyTable};
use ebb_sketch::aggregate::DecayedSketch;
use ebb_sketch::aggregate::distinct::{DistinctSketch, SIGHTING_BYTES};
use ebb_sketch::aggregate::forward::{self, ForwardShape};
use ebb_sketch::aggregate::robust::{ELEMENT_BYTES, SampleSketch, SampleSpec, SumSource};

/// The largest error that the samples of keys are coarsened to; then keys are evicted.
const MAX_KEY_EPSILON: f64 = 0.25;
/// The largest error that the samples of all events and of `other` are coarsened to.
const MAX_EPSILON: f64 = 0.5;
/// A smaller budget leaves no room for the events between two measurements.
const MIN_SLACK_BYTES: u64 = 64 << 10;
/// Pending keys that the smallest budget has room for.
const MIN_PENDING_KEYS: u64 = 64;

impl Method {
    /// Whether a memory budget can be kept: sketches merge, and their size follows from their content.
    pub fn has_budget(self) -> bool {
        matches!(self, Method::Robust | Method::Integral | Method::Forward)
    }
}

impl AggregateSpec {
    /// Refuses a budget that could not be kept under all traffic.
    pub(super) fn check_memory(&self) -> Result<(), AggregateSpecError> {
        let Some(given) = self.parameters().memory else { return Ok(()) };
        let method = self.parameters().method;
        if !method.has_budget() {
            return Err(AggregateSpecError::NoBudget(method));
        }
        let min = self.min_memory();
        if given < min { Err(AggregateSpecError::Memory { given, min }) } else { Ok(()) }
    }

    /// The smallest budget: the coarsest sketches of all events and of `other`, and their label texts.
    pub fn min_memory(&self) -> u64 {
        let (largest, entries) = match &self.shape {
            SketchShape::Robust(sample, sums) => {
                let (bytes, entries) = self.coarsest(sample);
                let amounts = if let SumSource::Amounts(amounts) = sums { coarsest_sample(amounts).0 } else { 0 };
                (bytes + amounts, entries)
            }
            SketchShape::Integral(sample) => self.coarsest(sample),
            SketchShape::Forward(decay, summary) => {
                let shape = ForwardShape::new(decay, *summary).expect("the specification has checked the decay");
                (shape.max_bytes() as u64, summary.counters().map_or(0, |counters| 2 * u64::from(counters)))
            }
            SketchShape::Distinct(sample) => {
                let coarsest = sample.coarsened(self.max_coarseness());
                let accuracy = coarsest.accuracy();
                let values = coarsest.levels() * u64::from(accuracy.tau()) * u64::from(accuracy.copies());
                (DistinctSketch::new(&coarsest).memory_bytes() as u64 + values * SIGHTING_BYTES as u64, 0)
            }
            SketchShape::Division(_) | SketchShape::Cascade(_) | SketchShape::Levels(_) => (0, 0),
        };
        let sketches = if self.parameters().keys.is_some() { 2 } else { 1 };
        let texts = if self.parameters().top.is_some() { entries * LabelTexts::bytes_of(MAX_TEXT_BYTES) } else { 0 };
        let pending = MIN_PENDING_KEYS * KeyTable::PENDING_BYTES;
        ((sketches * (largest + texts) + pending) / 3 * 4 + MIN_SLACK_BYTES).next_multiple_of(1024)
    }

    /// The largest size of the coarsest sampling sketch, and the elements of one of its samples.
    fn coarsest<P: SampleSpec>(&self, sample: &P) -> (u64, u64) {
        let (bytes, elements) = coarsest_sample(sample);
        (self.samples() * bytes, elements)
    }

    /// How often a sample can be halved until its error exceeds `max_epsilon`.
    fn halvings_within(&self, max_epsilon: f64) -> u8 {
        match &self.shape {
            SketchShape::Robust(sample, _) => sample.accuracy().halvings_within(max_epsilon),
            SketchShape::Integral(sample) => sample.accuracy().halvings_within(max_epsilon),
            SketchShape::Distinct(sample) => sample.accuracy().halvings_within(max_epsilon),
            SketchShape::Forward(..) | SketchShape::Division(_) | SketchShape::Cascade(_) | SketchShape::Levels(_) => 0,
        }
    }

    fn samples(&self) -> u64 {
        if self.keeps_values() && self.parameters().top.is_some() { 2 } else { 1 }
    }

    /// How often the sample of all events may be halved.
    pub(super) fn max_coarseness(&self) -> u8 {
        self.halvings_within(MAX_EPSILON)
    }

    /// How often the sample of a key may be halved.
    pub(super) fn max_key_coarseness(&self) -> u8 {
        self.halvings_within(MAX_KEY_EPSILON)
    }

    /// The most that an event adds to a sketch.
    pub(super) fn entry_bytes(&self) -> u64 {
        let sampled = |copies: u8, bytes: usize| self.samples() * u64::from(copies) * bytes as u64;
        match &self.shape {
            SketchShape::Robust(sample, sums) => {
                let copies = sample.accuracy().copies();
                let amounts =
                    if let SumSource::Amounts(_) = sums { u64::from(copies) * ELEMENT_BYTES as u64 } else { 0 };
                sampled(copies, ELEMENT_BYTES) + amounts
            }
            SketchShape::Integral(sample) => sampled(sample.accuracy().copies(), ELEMENT_BYTES),
            SketchShape::Distinct(sample) => sampled(sample.accuracy().copies(), SIGHTING_BYTES),
            SketchShape::Forward(..) => 2 * forward::ENTRY_BYTES as u64,
            SketchShape::Division(_) | SketchShape::Cascade(_) | SketchShape::Levels(_) => 0,
        }
    }
}

/// The largest size of the coarsest sample, and its elements.
fn coarsest_sample<P: SampleSpec>(sample: &P) -> (u64, u64) {
    let coarsest = sample.coarsened(sample.accuracy().halvings_within(MAX_EPSILON));
    let levels = coarsest.hashes().first().map_or(0, |hash| u64::from(hash.top_level()) + 1);
    let elements = levels * u64::from(coarsest.accuracy().tau()) * u64::from(coarsest.accuracy().copies());
    let empty = SampleSketch::new(&coarsest).memory_bytes() as u64;
    (empty + elements * ELEMENT_BYTES as u64, elements)
}

impl Aggregate {
    /// Upper bound of the memory that the state takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let keyed = self.keys.as_ref().map_or(0, KeyTable::memory_bytes);
        self.whole.memory_bytes() + keyed + self.texts.bytes()
    }

    /// Charges `bytes` and keeps the budget.
    pub(super) fn charge(&mut self, spec: &AggregateSpec, bytes: u64) {
        let Some(limit) = spec.parameters().memory else { return };
        self.charged_bytes = self.charged_bytes.saturating_add(bytes);
        if self.charged_bytes > limit {
            self.reclaim(spec, limit);
        }
    }

    /// Measures the state, and gives up accuracy while it takes more than three quarters of the budget.
    #[cold]
    fn reclaim(&mut self, spec: &AggregateSpec, limit: u64) {
        self.whole.compact();
        self.keys.iter_mut().flat_map(KeyTable::sketches_mut).for_each(Sketch::compact);
        loop {
            if spec.parameters().top.is_some() {
                self.prune_texts();
            }
            self.charged_bytes = self.memory_bytes();
            if self.charged_bytes <= limit / 4 * 3 || !self.degrade(spec) {
                return;
            }
        }
    }

    /// Takes one step towards less memory; false if nothing is left to give up.
    fn degrade(&mut self, spec: &AggregateSpec) -> bool {
        let keyed = self.keys.as_ref().map_or(0, KeyTable::memory_bytes);
        let keys_are_larger = keyed >= self.whole.memory_bytes();
        (keys_are_larger && self.degrade_keys(spec)) || self.coarsen_whole(spec) || self.degrade_keys(spec)
    }

    fn degrade_keys(&mut self, spec: &AggregateSpec) -> bool {
        self.keys.as_mut().is_some_and(|keys| keys.degrade(spec))
    }

    fn coarsen_whole(&mut self, spec: &AggregateSpec) -> bool {
        let coarseness = self.whole.coarseness();
        let is_possible = coarseness < spec.max_coarseness();
        if is_possible {
            self.whole.coarsen(coarseness + 1);
        }
        is_possible
    }
}
