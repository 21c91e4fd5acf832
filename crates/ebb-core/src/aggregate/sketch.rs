//! One sketch of a chosen method: what the methods differ in, in one place.

use super::input::{AggregateInput, Refusal};
use super::method::Measure;
use super::spec::{AggregateSpec, SketchShape};
use ebb_sketch::aggregate::cascade::Cascade;
use ebb_sketch::aggregate::content::{Labels, QuestionError, Totals, Values};
use ebb_sketch::aggregate::division::Division;
use ebb_sketch::aggregate::forward::Forward;
use ebb_sketch::aggregate::levels::Levels;
use ebb_sketch::aggregate::robust::{Answers, IntegralSketch, Parameters, WindowSketch};
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::decay::Decay;

/// A sampling sketch keeps one number of each element: where both a value and a label are asked for there are two.
#[derive(Debug, Clone)]
pub(super) struct Sampled<S> {
    /// By value; by label where nothing but events is counted.
    pub main: S,
    pub by_label: Option<S>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) enum Sketch {
    Robust(Box<Sampled<WindowSketch>>),
    Integral(Box<Sampled<IntegralSketch>>),
    Forward(Box<Forward>),
    Division(Box<Division>),
    Cascade(Box<Cascade>),
    Levels(Box<Levels>),
}

/// Two sketches that do not belong together, although one specification made them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the parts of the aggregate do not belong together: {0}")]
pub struct MixedParts(String);

impl AggregateSpec {
    fn labelled_apart(&self) -> bool {
        self.parameters().top.is_some() && self.parameters().of != Measure::Count
    }

    fn sampled<S>(&self, make: impl Fn() -> S) -> Box<Sampled<S>> {
        Box::new(Sampled { main: make(), by_label: self.labelled_apart().then(&make) })
    }

    pub(super) fn sketch(&self) -> Sketch {
        match &self.shape {
            SketchShape::Robust(spec) => Sketch::Robust(self.sampled(|| WindowSketch::new(spec))),
            SketchShape::Integral(spec) => Sketch::Integral(self.sampled(|| IntegralSketch::new(spec))),
            SketchShape::Forward(decay, shape) => {
                Sketch::Forward(Box::new(Forward::new(decay, *shape).expect("the specification has made one before")))
            }
            SketchShape::Division(shape) => Sketch::Division(Box::new(Division::new(shape.clone()))),
            SketchShape::Cascade(shape) => Sketch::Cascade(Box::new(Cascade::new(*shape))),
            SketchShape::Levels(shape) => Sketch::Levels(Box::new(Levels::new(*shape))),
        }
    }

    /// What the main sketch of a sampling method keeps of an event.
    fn main_value(&self, observed: &AggregateInput) -> u64 {
        if self.keeps_values() { observed.value } else { observed.label as u64 }
    }

    /// Takes an event, or refuses it whole.
    pub(super) fn insert(&self, sketch: &mut Sketch, observed: &AggregateInput) -> Result<(), Refusal> {
        match sketch {
            Sketch::Robust(sampled) => {
                sampled.main.insert(observed.element(self.main_value(observed)))?;
                if let Some(sketch) = &mut sampled.by_label {
                    sketch.insert(observed.element(observed.label as u64))?;
                }
            }
            Sketch::Integral(sampled) => {
                sampled.main.insert(observed.element(self.main_value(observed)))?;
                if let Some(sketch) = &mut sampled.by_label {
                    sketch.insert(observed.element(observed.label as u64))?;
                }
            }
            Sketch::Forward(sketch) => sketch.insert(&observed.observation())?,
            Sketch::Division(sketch) => sketch.insert(&observed.observation())?,
            Sketch::Cascade(sketch) => sketch.insert(&observed.observation())?,
            Sketch::Levels(sketch) => sketch.insert(&observed.observation())?,
        }
        Ok(())
    }

    pub(super) fn read_sketch(&self, reader: &mut Reader<'_>) -> Result<Sketch, CodecError> {
        self.read_sketch_with(reader, Parameters::Written)
    }

    pub(super) fn read_sketch_with(
        &self,
        reader: &mut Reader<'_>,
        parameters: Parameters,
    ) -> Result<Sketch, CodecError> {
        let foreign = || CodecError::invalid("sketch", "made under another specification");
        Ok(match &self.shape {
            SketchShape::Robust(spec) => Sketch::Robust(Box::new(Sampled {
                main: WindowSketch::decode_with(spec, reader.bytes()?, parameters)?,
                by_label: match self.labelled_apart() {
                    true => Some(WindowSketch::decode_with(spec, reader.bytes()?, parameters)?),
                    false => None,
                },
            })),
            SketchShape::Integral(spec) => Sketch::Integral(Box::new(Sampled {
                main: IntegralSketch::decode_with(spec, reader.bytes()?, parameters)?,
                by_label: match self.labelled_apart() {
                    true => Some(IntegralSketch::decode_with(spec, reader.bytes()?, parameters)?),
                    false => None,
                },
            })),
            SketchShape::Forward(decay, shape) => {
                let sketch = Forward::decode(reader.bytes()?)?;
                // Merging refuses another rate; an empty one changes nothing.
                let mine = Forward::new(decay, *shape).is_ok_and(|mut empty| empty.merge(sketch.clone()).is_ok());
                Sketch::Forward(Box::new(Some(sketch).filter(|_| mine).ok_or_else(foreign)?))
            }
            SketchShape::Division(shape) => {
                let sketch = Division::decode(reader.bytes()?)?;
                Sketch::Division(Box::new(Some(sketch).filter(|s| s.shape() == shape).ok_or_else(foreign)?))
            }
            SketchShape::Cascade(shape) => {
                let sketch = Cascade::decode(reader.bytes()?)?;
                Sketch::Cascade(Box::new(Some(sketch).filter(|s| s.timeline() == *shape).ok_or_else(foreign)?))
            }
            SketchShape::Levels(shape) => {
                let sketch = Levels::decode(reader.bytes()?)?;
                Sketch::Levels(Box::new(Some(sketch).filter(|s| s.timeline() == *shape).ok_or_else(foreign)?))
            }
        })
    }
}

impl Sketch {
    /// Becomes the sketch of both, where the method allows it; otherwise `other` comes back.
    pub fn merge(&mut self, other: Self) -> Result<Option<Self>, MixedParts> {
        let mixed = |error: &dyn std::fmt::Display| MixedParts(error.to_string());
        match (self, other) {
            (Self::Robust(mine), Self::Robust(theirs)) => {
                mine.main.absorb(&theirs.main).map_err(|error| mixed(&error))?;
                if let (Some(mine), Some(theirs)) = (&mut mine.by_label, &theirs.by_label) {
                    mine.absorb(theirs).map_err(|error| mixed(&error))?;
                }
            }
            (Self::Integral(mine), Self::Integral(theirs)) => {
                mine.main.absorb(&theirs.main).map_err(|error| mixed(&error))?;
                if let (Some(mine), Some(theirs)) = (&mut mine.by_label, &theirs.by_label) {
                    mine.absorb(theirs).map_err(|error| mixed(&error))?;
                }
            }
            (Self::Forward(mine), Self::Forward(theirs)) => mine.merge(*theirs).map_err(|error| mixed(&error))?,
            (Self::Division(mine), Self::Division(theirs)) => mine.merge(*theirs).map_err(|error| mixed(&error))?,
            (Self::Cascade(_), other @ Self::Cascade(_)) | (Self::Levels(_), other @ Self::Levels(_)) => {
                return Ok(Some(other));
            }
            _ => return Err(MixedParts("they are of different methods".into())),
        }
        Ok(None)
    }

    /// Lets go of what no question as of `clock_ms` or later can reach.
    pub fn advance(&mut self, clock_ms: i64) {
        // A clock too far from the epoch lets nothing go; events of such times are refused.
        match self {
            Self::Robust(sampled) => {
                sampled.main.settle();
                // A sketch that has forgotten nothing is complete, and says so.
                if sampled.main.forgets_at(clock_ms) {
                    let _ = sampled.main.advance(clock_ms);
                    sampled.by_label.iter_mut().for_each(|sketch| _ = sketch.advance(clock_ms));
                }
            }
            Self::Integral(sampled) => {
                let _ = sampled.main.advance(clock_ms);
                sampled.by_label.iter_mut().for_each(|sketch| _ = sketch.advance(clock_ms));
            }
            Self::Division(sketch) => _ = sketch.advance(clock_ms),
            Self::Cascade(sketch) => sketch.expire(clock_ms),
            Self::Forward(_) | Self::Levels(_) => {}
        }
        self.settle();
    }

    /// Brings sampling sketches into their exact form, so that what is held depends on the log alone.
    pub fn settle(&mut self) {
        match self {
            Self::Robust(sampled) => {
                sampled.main.settle();
                sampled.by_label.iter_mut().for_each(WindowSketch::settle);
            }
            Self::Integral(sampled) => {
                sampled.main.settle();
                sampled.by_label.iter_mut().for_each(IntegralSketch::settle);
            }
            Self::Forward(_) | Self::Division(_) | Self::Cascade(_) | Self::Levels(_) => {}
        }
    }

    /// Every label that a later answer may name; some twice.
    pub fn held_labels(&self, into: &mut Vec<u128>) {
        match self {
            Self::Robust(sampled) => {
                into.extend(sampled.by_label.as_ref().unwrap_or(&sampled.main).held_values().map(u128::from));
            }
            Self::Integral(sampled) => {
                into.extend(sampled.by_label.as_ref().unwrap_or(&sampled.main).held_values().map(u128::from));
            }
            Self::Forward(sketch) => sketch.held_labels(into),
            Self::Division(sketch) => sketch.held_labels(into),
            Self::Cascade(sketch) => sketch.held_labels(into),
            Self::Levels(sketch) => sketch.held_labels(into),
        }
    }

    /// Elements, nodes, counters and ranges held.
    pub fn len(&self) -> usize {
        match self {
            Self::Robust(sampled) => sampled.main.stored() + sampled.by_label.as_ref().map_or(0, WindowSketch::stored),
            Self::Integral(sampled) => {
                sampled.main.stored() + sampled.by_label.as_ref().map_or(0, IntegralSketch::stored)
            }
            Self::Forward(sketch) => sketch.len(),
            Self::Division(sketch) => sketch.cells().count() + sketch.len(),
            Self::Cascade(sketch) => sketch.len(),
            Self::Levels(sketch) => sketch.len(),
        }
    }

    pub fn write(&self, writer: &mut Writer) {
        self.write_with(writer, Parameters::Written);
    }

    pub fn write_with(&self, writer: &mut Writer, parameters: Parameters) {
        match self {
            Self::Robust(sampled) => {
                writer.bytes(&sampled.main.encode_with(parameters));
                sampled.by_label.iter().for_each(|sketch| writer.bytes(&sketch.encode_with(parameters)));
            }
            Self::Integral(sampled) => {
                writer.bytes(&sampled.main.encode_with(parameters));
                sampled.by_label.iter().for_each(|sketch| writer.bytes(&sketch.encode_with(parameters)));
            }
            Self::Forward(sketch) => writer.bytes(&sketch.encode()),
            Self::Division(sketch) => writer.bytes(&sketch.encode()),
            Self::Cascade(sketch) => writer.bytes(&sketch.encode()),
            Self::Levels(sketch) => writer.bytes(&sketch.encode()),
        }
    }
}

/// Of which of the two sampling sketches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Main,
    Labels,
}

/// A question at one time and under one decay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub now_ms: i64,
    pub decay: &'a Decay,
}

impl Sketch {
    /// The sample of a sampling sketch.
    pub fn sample(
        &mut self,
        moment: Moment<'_>,
        side: Side,
    ) -> Option<Result<Answers, ebb_sketch::aggregate::robust::QuestionError>> {
        match self {
            Self::Robust(sampled) => {
                let labels = sampled.by_label.as_mut().filter(|_| side == Side::Labels);
                Some(labels.unwrap_or(&mut sampled.main).ask(moment.now_ms, moment.decay))
            }
            Self::Integral(sampled) => {
                let labels = sampled.by_label.as_mut().filter(|_| side == Side::Labels);
                Some(labels.unwrap_or(&mut sampled.main).ask(moment.now_ms))
            }
            Self::Forward(_) | Self::Division(_) | Self::Cascade(_) | Self::Levels(_) => None,
        }
    }

    pub fn totals(&self, at: Moment<'_>) -> Result<Totals, QuestionError> {
        match self {
            Self::Forward(sketch) => sketch.totals(at.now_ms, at.decay),
            Self::Division(sketch) => sketch.totals(at.now_ms, at.decay),
            Self::Cascade(sketch) => sketch.totals(at.now_ms, at.decay),
            Self::Levels(sketch) => sketch.totals(at.now_ms, at.decay),
            Self::Robust(_) | Self::Integral(_) => Err(QuestionError::NotKept("totals")),
        }
    }

    pub fn values(&self, at: Moment<'_>) -> Result<Values, QuestionError> {
        match self {
            Self::Forward(sketch) => sketch.values(at.now_ms, at.decay),
            Self::Division(sketch) => sketch.values(at.now_ms, at.decay),
            Self::Cascade(sketch) => sketch.values(at.now_ms, at.decay),
            Self::Levels(sketch) => sketch.values(at.now_ms, at.decay),
            Self::Robust(_) | Self::Integral(_) => Err(QuestionError::NotKept("values")),
        }
    }

    pub fn labels(&self, at: Moment<'_>) -> Result<Labels, QuestionError> {
        match self {
            Self::Forward(sketch) => sketch.labels(at.now_ms, at.decay),
            Self::Division(sketch) => sketch.labels(at.now_ms, at.decay),
            Self::Cascade(sketch) => sketch.labels(at.now_ms, at.decay),
            Self::Levels(sketch) => sketch.labels(at.now_ms, at.decay),
            Self::Robust(_) | Self::Integral(_) => Err(QuestionError::NotKept("labels")),
        }
    }
}
