//! The sketch behind an aggregate: one variant per method, everything else through [`DecayedSketch`].

use super::input::{AggregateInput, Refusal};
use super::spec::{AggregateSpec, SketchShape};
use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::division::DivisionSketch;
use ebb_sketch::aggregate::forward::{ForwardShape, ForwardSketch};
use ebb_sketch::aggregate::paper::integral::IntegralSpec;
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::reading::{CellLabels, CellTotals, CellValues};
use ebb_sketch::aggregate::robust::{RobustSketch, RobustSpec, SampleReading, SampledFields, SumSource, WindowSpec};
use ebb_sketch::aggregate::{DecayedSketch, Labels, MergeError, QueryError, SpecEncoding, Totals, Values};
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::decay::Decay;

/// A sketch of a configured method. Boxed, because the methods differ much in size and tables hold many sketches.
#[derive(Debug, Clone)]
pub(super) enum Sketch {
    Robust(Box<RobustSketch<WindowSpec>>),
    Integral(Box<RobustSketch<IntegralSpec>>),
    Forward(Box<ForwardSketch>),
    Division(Box<DivisionSketch>),
    Cascade(Box<CascadeSketch>),
    Levels(Box<LevelsSketch>),
}

/// Evaluates an expression on the sketch of whichever method.
macro_rules! dispatch {
    ($sketch:expr, $name:ident => $body:expr) => {
        match $sketch {
            Sketch::Robust($name) => $body,
            Sketch::Integral($name) => $body,
            Sketch::Forward($name) => $body,
            Sketch::Division($name) => $body,
            Sketch::Cascade($name) => $body,
            Sketch::Levels($name) => $body,
        }
    };
}

/// Builds a sketch of the configured method, where `$make` maps a specification to a sketch.
macro_rules! build {
    ($spec:expr, $shape:ident => $make:expr) => {
        match &$spec.shape {
            SketchShape::Robust(sample, sums) => {
                let $shape = &RobustSpec { sample: sample.clone(), fields: $spec.sampled_fields(), sums: sums.clone() };
                Sketch::Robust(Box::new($make))
            }
            SketchShape::Integral(sample) => {
                let sums = SumSource::Values { max_value: $spec.scale.max_steps() };
                let $shape = &RobustSpec { sample: sample.clone(), fields: $spec.sampled_fields(), sums };
                Sketch::Integral(Box::new($make))
            }
            SketchShape::Forward(decay, summary) => {
                let $shape = &ForwardShape::new(decay, *summary).expect("the specification has checked the decay");
                Sketch::Forward(Box::new($make))
            }
            SketchShape::Division($shape) => Sketch::Division(Box::new($make)),
            SketchShape::Cascade($shape) => Sketch::Cascade(Box::new($make)),
            SketchShape::Levels($shape) => Sketch::Levels(Box::new($make)),
        }
    };
}

impl AggregateSpec {
    /// Which fields of an event a sampling method keeps.
    fn sampled_fields(&self) -> SampledFields {
        match (self.keeps_values(), self.parameters().top) {
            (true, Some(_)) => SampledFields::ValuesAndLabels,
            (true, None) => SampledFields::Values,
            (false, _) => SampledFields::Labels,
        }
    }

    /// An empty sketch.
    pub(super) fn sketch(&self) -> Sketch {
        build!(self, shape => DecayedSketch::from_spec(shape))
    }

    /// Adds an event, or rejects it without changing the sketch.
    pub(super) fn insert(&self, sketch: &mut Sketch, input: &AggregateInput) -> Result<(), Refusal> {
        let observation = input.observation();
        Ok(match sketch {
            Sketch::Robust(sketch) => sketch.observe_amount(input.id, &observation, input.amount()),
            other => dispatch!(other, sketch => sketch.observe(input.id, &observation)),
        }?)
    }

    pub(super) fn read_sketch(&self, reader: &mut Reader<'_>) -> Result<Sketch, CodecError> {
        self.read_sketch_with(reader, SpecEncoding::Included)
    }

    pub(super) fn read_sketch_with(
        &self,
        reader: &mut Reader<'_>,
        encoding: SpecEncoding,
    ) -> Result<Sketch, CodecError> {
        Ok(build!(self, shape => DecayedSketch::decode_from(shape, reader, encoding)?))
    }
}

/// Two sketches that cannot be merged, although they belong to one aggregate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the partial aggregates cannot be merged: {0}")]
pub struct IncompatibleSketches(MergeError);

/// Which field of a sampling sketch a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SampledField {
    /// Values, or labels where only events are counted.
    Main,
    Labels,
}

/// A query at one time and under one decay.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryPoint<'a> {
    pub now_ms: i64,
    pub decay: &'a Decay,
}

impl Sketch {
    /// Becomes the sketch of both if the method merges; otherwise returns `other`.
    pub fn merge(&mut self, other: Self) -> Result<Option<Self>, IncompatibleSketches> {
        self.try_merge(other).map_err(IncompatibleSketches)
    }

    fn try_merge(&mut self, other: Self) -> Result<Option<Self>, MergeError> {
        fn of_method<S: DecayedSketch>(sketch: &mut S, other: Box<S>) -> Result<Option<Box<S>>, MergeError> {
            if !S::MERGES {
                return Ok(Some(other));
            }
            sketch.merge(*other).map(|()| None)
        }
        match (self, other) {
            (Self::Robust(sketch), Self::Robust(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Robust)),
            (Self::Integral(sketch), Self::Integral(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Integral)),
            (Self::Forward(sketch), Self::Forward(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Forward)),
            (Self::Division(sketch), Self::Division(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Division)),
            (Self::Cascade(sketch), Self::Cascade(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Cascade)),
            (Self::Levels(sketch), Self::Levels(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Levels)),
            _ => Err(MergeError::Different("methods")),
        }
    }

    /// Releases what no query at `clock_ms` or later can reach.
    pub fn advance(&mut self, clock_ms: i64) {
        dispatch!(self, sketch => DecayedSketch::advance(&mut **sketch, clock_ms));
    }

    /// Applies deferred work, so that the state depends on the log alone.
    pub fn compact(&mut self) {
        dispatch!(self, sketch => sketch.compact());
    }

    /// Appends every label that a later answer may name; some more than once.
    pub fn collect_labels(&self, into: &mut Vec<u128>) {
        dispatch!(self, sketch => sketch.collect_labels(into));
    }

    /// Stored elements, nodes, counters and ranges.
    pub fn entry_count(&self) -> usize {
        dispatch!(self, sketch => sketch.entry_count())
    }

    pub fn write(&self, writer: &mut Writer) {
        self.write_with(writer, SpecEncoding::Included);
    }

    pub fn write_with(&self, writer: &mut Writer, encoding: SpecEncoding) {
        dispatch!(self, sketch => sketch.encode_into(writer, encoding));
    }

    /// The reading of a sampling method; `None` for the others.
    pub fn sample(&mut self, at: QueryPoint<'_>, field: SampledField) -> Option<Result<SampleReading, QueryError>> {
        fn of_method<S: DecayedSketch>(
            sketch: &mut S,
            at: QueryPoint<'_>,
            field: SampledField,
        ) -> Result<Option<SampleReading>, QueryError> {
            sketch.compact();
            Ok(match field {
                SampledField::Main => match sketch.totals(at.now_ms, at.decay)? {
                    Totals::Sample(sample) => Some(sample),
                    Totals::Cells(_) => None,
                },
                SampledField::Labels => match sketch.labels(at.now_ms, at.decay)? {
                    Labels::Sample(sample) => Some(sample),
                    Labels::Cells(_) => None,
                },
            })
        }
        match self {
            Self::Robust(sketch) => of_method(&mut **sketch, at, field).transpose(),
            Self::Integral(sketch) => of_method(&mut **sketch, at, field).transpose(),
            Self::Forward(_) | Self::Division(_) | Self::Cascade(_) | Self::Levels(_) => None,
        }
    }

    /// Count, sum and mean of a method that keeps cells.
    pub fn totals(&self, at: QueryPoint<'_>) -> Result<CellTotals, QueryError> {
        match dispatch!(self, sketch => sketch.totals(at.now_ms, at.decay))? {
            Totals::Cells(totals) => Ok(totals),
            Totals::Sample(_) => Err(QueryError::NotKept("cells")),
        }
    }

    /// The distribution of values of a method that keeps cells.
    pub fn values(&self, at: QueryPoint<'_>) -> Result<CellValues, QueryError> {
        match dispatch!(self, sketch => sketch.values(at.now_ms, at.decay))? {
            Values::Cells(values) => Ok(values),
            Values::Sample(_) => Err(QueryError::NotKept("cells")),
        }
    }

    /// The heaviest labels of a method that keeps cells.
    pub fn labels(&self, at: QueryPoint<'_>) -> Result<CellLabels, QueryError> {
        match dispatch!(self, sketch => sketch.labels(at.now_ms, at.decay))? {
            Labels::Cells(labels) => Ok(labels),
            Labels::Sample(_) => Err(QueryError::NotKept("cells")),
        }
    }
}
