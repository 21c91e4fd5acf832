//! The sketch behind an aggregate: one variant per method, everything else through [`DecayedSketch`].

use super::input::{AggregateInput, Refusal};
use super::spec::{AggregateSpec, SketchShape};
use ebb_sketch::aggregate::answer::Estimate;
use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::distinct::DistinctSketch;
use ebb_sketch::aggregate::division::DivisionSketch;
use ebb_sketch::aggregate::forward::{ForwardShape, ForwardSketch};
use ebb_sketch::aggregate::paper::integral::IntegralSpec;
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::reading::{CellLabels, CellTotals, CellValues};
use ebb_sketch::aggregate::robust::{
    RobustSketch, RobustSpec, SampleReading, SampleSpec, SampledFields, SumSource, WindowSpec,
};
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
    Distinct(Box<DistinctSketch>),
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
            Sketch::Distinct($name) => $body,
        }
    };
}

/// Builds a sketch of the configured method and a coarseness, where `$make` maps a specification to a sketch.
macro_rules! build {
    ($spec:expr, $coarseness:expr, $shape:ident => $make:expr) => {
        match &$spec.shape {
            SketchShape::Robust(sample, sums) => {
                let $shape = &RobustSpec {
                    sample: sample.coarsened($coarseness),
                    fields: $spec.sampled_fields(),
                    sums: sums.coarsened($coarseness),
                };
                Sketch::Robust(Box::new($make))
            }
            SketchShape::Integral(sample) => {
                let sums = SumSource::Values { max_value: $spec.scale.max_steps() };
                let $shape =
                    &RobustSpec { sample: sample.coarsened($coarseness), fields: $spec.sampled_fields(), sums };
                Sketch::Integral(Box::new($make))
            }
            SketchShape::Forward(decay, summary) => {
                let $shape = &ForwardShape::new(decay, *summary).expect("the specification has checked the decay");
                Sketch::Forward(Box::new($make))
            }
            SketchShape::Division($shape) => Sketch::Division(Box::new($make)),
            SketchShape::Cascade($shape) => Sketch::Cascade(Box::new($make)),
            SketchShape::Levels($shape) => Sketch::Levels(Box::new($make)),
            SketchShape::Distinct(sample) => {
                let $shape = &sample.coarsened($coarseness);
                Sketch::Distinct(Box::new($make))
            }
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
        build!(self, 0, shape => DecayedSketch::from_spec(shape))
    }

    /// An empty sketch of a key. Tables hold many of them, so they do without caches.
    pub(super) fn key_sketch(&self, coarseness: u8) -> Sketch {
        let mut sketch = build!(self, coarseness, shape => DecayedSketch::from_spec(shape));
        sketch.disable_cache();
        sketch
    }

    /// Adds an event, or rejects it without changing the sketch.
    pub(super) fn insert(&self, sketch: &mut Sketch, input: &AggregateInput) -> Result<(), Refusal> {
        let observation = input.observation();
        Ok(match sketch {
            Sketch::Robust(sketch) => sketch.observe_amount(input.id, &observation, input.amount()),
            other => dispatch!(other, sketch => sketch.observe(input.id, &observation)),
        }?)
    }

    pub(super) fn read_sketch(&self, reader: &mut Reader<'_>, format: SketchFormat) -> Result<Sketch, CodecError> {
        let coarseness = if format.has_coarseness { reader.u8()? } else { 0 };
        if coarseness > self.max_coarseness() {
            return Err(CodecError::invalid("coarseness", "larger than any sketch of this aggregate has"));
        }
        Ok(build!(self, coarseness, shape => DecayedSketch::decode_from(shape, reader, format.spec)?))
    }
}

/// How sketches are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct SketchFormat {
    pub spec: SpecEncoding,
    /// Whether each sketch is preceded by its coarseness.
    pub has_coarseness: bool,
}

impl SketchFormat {
    /// In snapshots.
    pub const SNAPSHOT: Self = Self { spec: SpecEncoding::Included, has_coarseness: true };
    /// In exports, which leave the trust domain.
    pub const EXPORT: Self = Self { spec: SpecEncoding::Omitted, has_coarseness: true };

    /// The format before sketches could be coarsened.
    pub fn without_coarseness(self) -> Self {
        Self { has_coarseness: false, ..self }
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
        fn of_method<S: DecayedSketch>(sketch: &mut S, mut other: Box<S>) -> Result<Option<Box<S>>, MergeError> {
            if !S::MERGES {
                return Ok(Some(other));
            }
            let coarseness = sketch.coarseness().max(other.coarseness());
            sketch.coarsen(coarseness);
            other.coarsen(coarseness);
            sketch.merge(*other).map(|()| None)
        }
        match (self, other) {
            (Self::Robust(sketch), Self::Robust(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Robust)),
            (Self::Integral(sketch), Self::Integral(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Integral)),
            (Self::Forward(sketch), Self::Forward(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Forward)),
            (Self::Division(sketch), Self::Division(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Division)),
            (Self::Cascade(sketch), Self::Cascade(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Cascade)),
            (Self::Levels(sketch), Self::Levels(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Levels)),
            (Self::Distinct(sketch), Self::Distinct(other)) => Ok(of_method(&mut **sketch, other)?.map(Self::Distinct)),
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

    /// Upper bound of the memory, exact enough for methods with a budget.
    pub fn memory_bytes(&self) -> u64 {
        dispatch!(self, sketch => sketch.memory_bytes()) as u64
    }

    /// How often the sketch was halved to save memory.
    pub fn coarseness(&self) -> u8 {
        dispatch!(self, sketch => sketch.coarseness())
    }

    /// Halves the sketch until it was halved `coarseness` times, where the method can.
    pub fn coarsen(&mut self, coarseness: u8) {
        dispatch!(self, sketch => sketch.coarsen(coarseness));
    }

    pub fn disable_cache(&mut self) {
        dispatch!(self, sketch => sketch.disable_cache());
    }

    pub fn write(&self, writer: &mut Writer, format: SketchFormat) {
        if format.has_coarseness {
            writer.u8(self.coarseness());
        }
        dispatch!(self, sketch => sketch.encode_into(writer, format.spec));
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
            Self::Forward(_) | Self::Division(_) | Self::Cascade(_) | Self::Levels(_) | Self::Distinct(_) => None,
        }
    }

    /// The number of different values.
    pub fn distinct(&self, at: QueryPoint<'_>) -> Result<Estimate, QueryError> {
        match self {
            Self::Distinct(sketch) => sketch.count(at.now_ms, at.decay),
            Self::Robust(_)
            | Self::Integral(_)
            | Self::Forward(_)
            | Self::Division(_)
            | Self::Cascade(_)
            | Self::Levels(_) => Err(QueryError::NotKept("different values")),
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
