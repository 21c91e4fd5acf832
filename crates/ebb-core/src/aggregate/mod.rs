//! Named aggregates: decayed sums, counts, means, quantiles, ranks, top items and shares.
//!
//! Aggregates are updated after the verdict; like every view they are deterministic and part of the snapshot. An event
//! that an aggregate refuses is counted by reason and changes nothing else. An aggregate by key has one sketch of all
//! events, a bounded table with the sketches of single keys, and `other` for the keys that do not fit.
//!
//! A question is answered in two steps: each shard gives a [`PartialAggregate`], and [`AggregateSpec::answer`] combines
//! them. Between instances partial aggregates travel as exports ([`crate::Plan::export`], [`crate::Plan::merge_exports`]).

mod answer;
mod budget;
mod coverage;
mod export;
mod export_source;
mod input;
mod key_table;
mod label_texts;
mod method;
mod newest;
mod partial;
mod question;
mod scale;
mod sketch;
mod spec;
mod spec_error;

pub use coverage::Coverage;
pub use export::{ExportError, MAX_EXPORTS, MergedExports};
pub use export_source::LogDigest;
pub(super) use input::Occurrence;
pub use input::Refusal;
pub use key_table::KeyCounts;
pub use label_texts::MAX_TEXT_BYTES;
pub use method::{Measure, Method, Selection, Weighting};
pub use partial::PartialAggregate;
pub use question::{
    AggregateAnswer, AggregateError, AggregateQuestion, AggregateResult, KeyScope, QuantileAnswer, QueryTime,
    Statistic, TopAnswer, TopName,
};
pub use sketch::IncompatibleSketches;
pub use spec::{AggregateParameters, AggregateSpec, MAX_INTEGRAL_WEIGHT, MAX_ROBUST_WEIGHT};
pub use spec_error::AggregateSpecError;

use super::event::Event;
use super::offset::AsOf;
use super::reader::Reader as EventReader;
use super::verdict::Verdict;
use ebb_sketch::codec::{CodecError, Reader, Writer};
use input::AggregateInput;
use key_table::{KeyTable, ScopeSketch};
use label_texts::LabelTexts;
use sketch::{Sketch, SketchFormat};

/// Sketches drop events past the horizon this many times per horizon, but at most once per second.
const EXPIRY_STEPS: u64 = 16;
const MIN_EXPIRY_STEP_MS: u64 = 1_000;

/// Announces that the format of the state follows. The first format began with a number of events, which is smaller.
const FORMAT_MARK: u64 = u64::MAX;
/// The format with a memory budget and coarsened sketches.
const FORMAT: u8 = 2;

/// Figures of an aggregate for status pages and metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateStatus {
    /// The name of the aggregate.
    pub name: String,
    /// Number of events that were added.
    pub events: u64,
    /// Number of events that were refused, in the order of [`Refusal::ALL`].
    pub refused: [u64; Refusal::ALL.len()],
    /// Figures of the table of keys, if the aggregate is kept by key.
    pub keys: Option<KeyCounts>,
    /// Number of label texts.
    pub texts: u64,
    /// Upper bound of the memory; an approximation for methods without a budget.
    pub memory_bytes: u64,
    /// How often samples were halved to keep the memory budget: the larger of all events and of keys.
    pub coarseness: u8,
}

/// The state of one aggregate.
#[derive(Debug, Clone)]
pub(super) struct Aggregate {
    whole: Sketch,
    keys: Option<KeyTable>,
    texts: LabelTexts,
    events: u64,
    refused: [u64; Refusal::ALL.len()],
    /// The step of the clock at which expired events were last dropped.
    expiry_step: Option<i64>,
    /// Upper bound of the memory at the last measurement and of what was added since; 0 without a budget.
    charged_bytes: u64,
}

impl Aggregate {
    pub(super) fn new(spec: &AggregateSpec) -> Self {
        Self {
            whole: spec.sketch(),
            keys: spec.parameters().keys.map(|capacity| KeyTable::new(spec, capacity)),
            texts: LabelTexts::new(),
            events: 0,
            refused: [0; Refusal::ALL.len()],
            expiry_step: None,
            charged_bytes: 0,
        }
        .measured(spec)
    }

    /// Begins to charge what it takes.
    fn measured(mut self, spec: &AggregateSpec) -> Self {
        self.charged_bytes = spec.parameters().memory.map_or(0, |_| self.memory_bytes());
        self
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
        if let (Some(keys), Some(previous), Some(key)) = (&mut self.keys, at.previous_key, event.key) {
            keys.rename(previous, key);
        }
        if spec.parameters().over == Selection::Unique && verdict != Verdict::Unique {
            return;
        }
        let text = spec.label_index().and_then(|index| event.labels.get(index));
        let label = text.map_or(0, |text| spec.label(reader.label_fingerprint(text).0));
        let inserted = spec.input(event, at, label).and_then(|input| self.insert(spec, event, &input, at.clock_ms));
        let mut added = match inserted {
            Ok(added) => added,
            Err(refusal) => {
                self.refused[refusal as usize] += 1;
                return;
            }
        };
        self.events += 1;
        if let Some(text) = text.filter(|_| spec.parameters().top.is_some()) {
            added += self.texts.insert(label, text);
            if self.texts.is_full() {
                self.prune_texts();
            }
        }
        self.charge(spec, added);
    }

    /// Adds an event to all its sketches; returns the memory that it takes at most.
    fn insert(
        &mut self,
        spec: &AggregateSpec,
        event: &Event,
        input: &AggregateInput,
        clock_ms: i64,
    ) -> Result<u64, Refusal> {
        // The sketch of a key never has newer events than the sketch of all, so it accepts what that accepts.
        spec.insert(&mut self.whole, input)?;
        match &mut self.keys {
            None => Ok(spec.entry_bytes()),
            Some(keys) => Ok(spec.entry_bytes() + keys.insert(spec, event.key, input, clock_ms)?),
        }
    }

    fn advance(&mut self, spec: &AggregateSpec, clock_ms: i64) {
        let length = (spec.parameters().horizon_ms / EXPIRY_STEPS).max(MIN_EXPIRY_STEP_MS);
        let step = clock_ms.div_euclid(i64::try_from(length).unwrap_or(i64::MAX));
        if self.expiry_step.is_some_and(|last| last >= step) {
            return;
        }
        // Nothing can have expired at the first event.
        if self.expiry_step.replace(step).is_some() {
            self.whole.advance(clock_ms);
            self.keys.iter_mut().flat_map(KeyTable::sketches_mut).for_each(|sketch| sketch.advance(clock_ms));
        }
    }

    fn prune_texts(&mut self) {
        let mut held = Vec::new();
        for sketch in [&mut self.whole].into_iter().chain(self.keys.iter_mut().flat_map(KeyTable::sketches_mut)) {
            sketch.compact();
            sketch.collect_labels(&mut held);
        }
        held.extend(self.keys.iter().flat_map(KeyTable::pending_labels));
        self.texts.retain(held);
    }

    /// A copy of the sketch that a question needs.
    pub(super) fn partial(
        &self,
        spec: &AggregateSpec,
        question: &AggregateQuestion,
        as_of: AsOf,
    ) -> Result<PartialAggregate, AggregateError> {
        let keys = || self.keys.as_ref().ok_or(AggregateError::NotByKey);
        let sketch = match question.scope {
            KeyScope::Whole => Some(ScopeSketch { sketch: self.whole.clone(), missed_ms: None }),
            KeyScope::Other => Some(ScopeSketch { sketch: keys()?.other().clone(), missed_ms: None }),
            KeyScope::Key(key) => keys()?.find(spec, key),
        };
        let (sketch, missed_ms) = sketch.map_or((None, None), |scoped| (Some(scoped.sketch), scoped.missed_ms));
        let mut labels = Vec::new();
        if let (Statistic::Top { .. }, Some(sketch)) = (&question.statistic, &sketch) {
            sketch.collect_labels(&mut labels);
        }
        let sketches = sketch.into_iter().collect();
        Ok(PartialAggregate { as_of: vec![as_of], sketches, missed_ms, texts: self.texts.select(labels) })
    }

    pub(super) fn status(&self, spec: &AggregateSpec) -> AggregateStatus {
        AggregateStatus {
            name: spec.name().to_owned(),
            events: self.events,
            refused: self.refused,
            keys: self.keys.as_ref().map(KeyTable::counts),
            texts: self.texts.len() as u64,
            memory_bytes: self.memory_bytes(),
            coarseness: self.whole.coarseness().max(self.keys.as_ref().map_or(0, KeyTable::coarseness)),
        }
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.u64(FORMAT_MARK);
        writer.u8(FORMAT);
        writer.u64(self.charged_bytes);
        self.encode_fields(writer, SketchFormat::SNAPSHOT);
    }

    fn encode_fields(&self, writer: &mut Writer, format: SketchFormat) {
        writer.u64(self.events);
        self.refused.iter().for_each(|count| writer.u64(*count));
        writer.u8(u8::from(self.expiry_step.is_some()));
        writer.i64(self.expiry_step.unwrap_or(0));
        self.texts.encode(writer);
        self.whole.write(writer, format);
        if let Some(keys) = &self.keys {
            keys.encode(writer, format);
        }
    }

    pub(super) fn decode(spec: &AggregateSpec, reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (format, charged_bytes, events) = match reader.u64()? {
            FORMAT_MARK => match reader.u8()? {
                FORMAT => (SketchFormat::SNAPSHOT, Some(reader.u64()?), reader.u64()?),
                _ => return Err(CodecError::invalid("aggregate", "the format is newer than this version")),
            },
            events => (SketchFormat::SNAPSHOT.without_coarseness(), None, events),
        };
        let mut refused = [0; Refusal::ALL.len()];
        for count in &mut refused {
            *count = reader.u64()?;
        }
        let expiry_step = match (reader.u8()?, reader.i64()?) {
            (0, 0) => None,
            (1, step) => Some(step),
            _ => return Err(CodecError::invalid("expiry step", "the presence flag is neither 0 nor 1")),
        };
        let texts = LabelTexts::decode(reader)?;
        let whole = spec.read_sketch(reader, format)?;
        let keys = spec.parameters().keys;
        let keys = keys.map(|capacity| KeyTable::decode(spec, capacity, reader, format)).transpose()?;
        let aggregate = Self { whole, keys, texts, events, refused, expiry_step, charged_bytes: 0 };
        Ok(match charged_bytes.filter(|charged| *charged > 0) {
            Some(charged_bytes) if spec.parameters().memory.is_some() => Self { charged_bytes, ..aggregate },
            _ => aggregate.measured(spec),
        })
    }
}

impl AggregateSpec {
    /// A label as the method keeps it; sampling sketches keep 64 bits.
    fn label(&self, label: u128) -> u128 {
        match self.parameters().method {
            _ if matches!(self.parameters().of, Measure::Distinct(_)) => label,
            Method::Robust | Method::Integral => u128::from(label as u64),
            Method::Forward | Method::Division | Method::Cascade | Method::Levels => label,
        }
    }
}

#[cfg(test)]
mod tests;
