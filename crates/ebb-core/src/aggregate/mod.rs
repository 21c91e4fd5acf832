//! Named aggregates: sums, counts, means, quantiles, ranks, top items and shares of what the events carry, fading.
//!
//! Fed in the fold after the verdict; pure, deterministic and part of the snapshot like every view. What an aggregate
//! refuses is counted by reason and changes nothing else: neither its sketches nor the event's verdict. Where it is kept by
//! key there is one sketch of everything, a bounded table of keys ([`keys`]), and `other`.

mod answer;
mod export;
mod keys;
mod observed;
mod question;
mod scale;
mod sketch;
mod spec;
mod texts;

pub use answer::PartialAggregate;
pub use export::{ExportError, LogDigest, MAX_EXPORTS, MergedExports};
pub use keys::KeyCounts;
pub(super) use observed::Occurrence;
pub use observed::Refusal;
pub use question::{
    AggregateAnswer, AggregateError, AggregateQuestion, AggregateResult, KeyScope, QuantileAnswer, Statistic,
    TopAnswer, TopName,
};
pub use sketch::MixedParts;
pub use spec::{
    AggregateParameters, AggregateSpec, AggregateSpecError, MAX_INTEGRAL_WEIGHT, MAX_ROBUST_WEIGHT, Measure, Method,
    Selection, Weighting,
};
pub use texts::MAX_TEXT_BYTES;

use super::event::Event;
use super::offset::AsOf;
use super::reader::Reader as EventReader;
use super::verdict::Verdict;
use ebb_sketch::codec::{CodecError, Reader, Writer};
use keys::{Found, Keys};
use observed::Observed;
use sketch::Sketch;
use texts::Texts;

/// What is past the horizon is let go so many times in a horizon, but not more often than once in a second.
const STEPS: u64 = 16;
const STEP_LEAST_MS: u64 = 1_000;

/// Bytes of an element, node or counter, about: for figures.
const HELD_BYTES: u64 = 48;

/// An aggregate in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateStatus {
    pub name: String,
    /// Events that were taken.
    pub events: u64,
    /// Events that were refused, in the order of [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Where it is kept by key.
    pub keys: Option<KeyCounts>,
    /// Texts of labels.
    pub texts: u64,
    pub memory_bytes: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Aggregate {
    whole: Sketch,
    keys: Option<Keys>,
    texts: Texts,
    events: u64,
    refused: [u64; Refusal::ALL.len()],
    /// The step of the clock at which old things were last let go.
    step: Option<i64>,
}

impl Aggregate {
    pub(super) fn new(spec: &AggregateSpec) -> Self {
        Self {
            whole: spec.sketch(),
            keys: spec.parameters().keys.map(|places| Keys::new(spec, places)),
            texts: Texts::new(),
            events: 0,
            refused: [0; Refusal::ALL.len()],
            step: None,
        }
    }

    /// Adds an event that was not rejected.
    pub(super) fn add(
        &mut self,
        spec: &AggregateSpec,
        event: &Event,
        verdict: Verdict,
        at: &Occurrence,
        reader: &EventReader,
    ) {
        self.advance(spec, at.clock_ms);
        if let (Some(keys), Some(former), Some(key)) = (&mut self.keys, at.previous_key, event.key) {
            keys.rename(former, key);
        }
        if spec.parameters().over == Selection::Unique && verdict != Verdict::Unique {
            return;
        }
        let text = spec.parameters().top.and_then(|place| event.labels.get(place));
        let label = text.map_or(0, |text| spec.label(reader.label_fingerprint(text).0));
        let taken =
            spec.observe(event, at, label).and_then(|observed| self.insert(spec, event, &observed, at.clock_ms));
        match taken {
            Ok(()) => self.events += 1,
            Err(refusal) => self.refused[refusal as usize] += 1,
        }
        if let (Ok(()), Some(text)) = (taken, text) {
            self.texts.note(label, text);
            if self.texts.is_full() {
                self.prune_texts();
            }
        }
    }

    fn insert(
        &mut self,
        spec: &AggregateSpec,
        event: &Event,
        observed: &Observed,
        clock_ms: i64,
    ) -> Result<(), Refusal> {
        // No sketch of a key has seen later events than the whole: what it takes, they take.
        spec.insert(&mut self.whole, observed)?;
        match &mut self.keys {
            None => Ok(()),
            Some(keys) => keys.insert(spec, event.key, observed, clock_ms),
        }
    }

    fn advance(&mut self, spec: &AggregateSpec, clock_ms: i64) {
        let length = (spec.parameters().horizon_ms / STEPS).max(STEP_LEAST_MS);
        let step = clock_ms.div_euclid(i64::try_from(length).unwrap_or(i64::MAX));
        if self.step.is_some_and(|last| last >= step) {
            return;
        }
        // Nothing is old at the first event.
        if self.step.replace(step).is_some() {
            self.whole.advance(clock_ms);
            self.keys.iter_mut().flat_map(Keys::sketches_mut).for_each(|sketch| sketch.advance(clock_ms));
        }
    }

    fn prune_texts(&mut self) {
        let mut held = Vec::new();
        for sketch in [&mut self.whole].into_iter().chain(self.keys.iter_mut().flat_map(Keys::sketches_mut)) {
            sketch.settle();
            sketch.held_labels(&mut held);
        }
        held.extend(self.keys.iter().flat_map(Keys::waiting_labels));
        self.texts.keep(held);
    }

    /// A copy of what a question needs.
    pub(super) fn partial(
        &self,
        spec: &AggregateSpec,
        question: &AggregateQuestion,
        as_of: AsOf,
    ) -> Result<PartialAggregate, AggregateError> {
        let keys = || self.keys.as_ref().ok_or(AggregateError::NotByKey);
        let found = match question.scope {
            KeyScope::Whole => Some(Found { sketch: self.whole.clone(), missed_ms: None }),
            KeyScope::Other => Some(Found { sketch: keys()?.other().clone(), missed_ms: None }),
            KeyScope::Key(key) => keys()?.find(spec, key),
        };
        let (sketch, missed_ms) = found.map_or((None, None), |found| (Some(found.sketch), found.missed_ms));
        let mut labels = Vec::new();
        if let (Statistic::Top { .. }, Some(sketch)) = (&question.statistic, &sketch) {
            sketch.held_labels(&mut labels);
        }
        let sketches = sketch.into_iter().collect();
        Ok(PartialAggregate { as_of: vec![as_of], sketches, missed_ms, texts: self.texts.of(labels) })
    }

    pub(super) fn status(&self, spec: &AggregateSpec) -> AggregateStatus {
        let keyed = self.keys.iter().flat_map(Keys::sketches).map(Sketch::len).sum::<usize>();
        AggregateStatus {
            name: spec.name().to_owned(),
            events: self.events,
            refused: self.refused,
            keys: self.keys.as_ref().map(Keys::counts),
            texts: self.texts.len() as u64,
            memory_bytes: (self.whole.len() + keyed) as u64 * HELD_BYTES + self.texts.bytes(),
        }
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.u64(self.events);
        self.refused.iter().for_each(|count| writer.u64(*count));
        writer.u8(u8::from(self.step.is_some()));
        writer.i64(self.step.unwrap_or(0));
        self.texts.write(writer);
        self.whole.write(writer);
        if let Some(keys) = &self.keys {
            keys.write(writer);
        }
    }

    pub(super) fn decode(spec: &AggregateSpec, reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let events = reader.u64()?;
        let mut refused = [0; Refusal::ALL.len()];
        for count in &mut refused {
            *count = reader.u64()?;
        }
        let step = match (reader.u8()?, reader.i64()?) {
            (0, 0) => None,
            (1, step) => Some(step),
            _ => return Err(CodecError::invalid("step", "neither absent nor present")),
        };
        let texts = Texts::read(reader)?;
        let whole = spec.read_sketch(reader)?;
        let keys = spec.parameters().keys.map(|places| Keys::read(spec, places, reader)).transpose()?;
        Ok(Self { whole, keys, texts, events, refused, step })
    }
}

impl AggregateSpec {
    /// A label as the method keeps it: sampling sketches keep 64 bits.
    fn label(&self, label: u128) -> u128 {
        match self.parameters().method {
            Method::Robust | Method::Integral => u128::from(label as u64),
            Method::Forward | Method::Division | Method::Cascade | Method::Levels => label,
        }
    }
}
