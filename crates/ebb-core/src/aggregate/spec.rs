//! The configuration of a named aggregate. An [`AggregateSpec`] that exists is valid.

use super::method::{Measure, Method, Selection, Weighting};
use super::scale::Scale;
use super::spec_error::AggregateSpecError;
use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::distinct::{DistinctAccuracy, DistinctSpec};
use ebb_sketch::aggregate::division::DivisionShape;
use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralDecayError, IntegralSpec, IntegralSpecError};
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::qdigest::DigestShape;
use ebb_sketch::aggregate::robust::{Accuracy, SampleSpec, SumSource, WindowSpec, WindowSpecError};
use ebb_sketch::aggregate::timeline::TimelineShape;
use ebb_sketch::aggregate::{ShapeError, SummaryShape};
use ebb_sketch::codec::Writer;
use ebb_sketch::decay::Decay;

/// Maximum weight of an event with method `robust`, which accepts integers only.
pub const MAX_ROBUST_WEIGHT: u32 = 1 << 16;
/// Maximum weight of an event with method `integral`, which accepts integers only.
pub const MAX_INTEGRAL_WEIGHT: u32 = 1 << 10;
/// Factor of weights with method `integral`, so that small weights do not decay to 0 at once.
const WEIGHT_SCALE: u32 = 1 << 10;
/// Number of ticks in which an exponential integral decay falls by a factor of e.
const TICKS_PER_E_FOLD: f64 = 4096.0;
/// Binary digits of the largest amount and the smallest part of a step that `robust` sums, together. More would leave too
/// few levels above for the number of events.
const AMOUNT_BITS: u32 = 44;
/// Binary digits of the smallest part of a step.
const FRACTION_BITS: std::ops::RangeInclusive<u32> = 4..=16;
/// Distinguishes the hashes of the sample by amount from those of the other sample.
const AMOUNT_SEED: u64 = 0x616D_6F75_6E74;

/// The parameters of an [`AggregateSpec`].
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateParameters {
    /// The name of the aggregate.
    pub name: String,
    /// The number that is aggregated.
    pub of: Measure,
    /// The events that are aggregated.
    pub over: Selection,
    /// The kind of sketch.
    pub method: Method,
    /// Maximum error of shares, and relative error of sums.
    pub epsilon: f64,
    /// Probability that an error of a sampling method is larger.
    pub delta: f64,
    /// Required by `integral`, `forward` and `division`; for other methods the default of questions.
    pub decay: Option<Decay>,
    /// Maximum age of events.
    pub horizon_ms: u64,
    /// Maximum number of keys with a sketch of their own; absent when the aggregate is not kept by key.
    pub keys: Option<u32>,
    /// The most memory that the state may take in one partition.
    pub memory: Option<u64>,
    /// The text whose most frequent values are kept, by its index in [`crate::EventSpec::labels`].
    pub top: Option<usize>,
    /// The resolution of values.
    pub step: f64,
    /// The largest value.
    pub max: f64,
    /// Whether events count by their weight.
    pub weights: Weighting,
    /// Seed of the sampling sketches; the same in all shards of a stream.
    pub seed: u64,
}

/// The shape of the sketches, by method.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SketchShape {
    Robust(WindowSpec, SumSource),
    Integral(IntegralSpec),
    Forward(Decay, SummaryShape),
    Division(DivisionShape),
    Cascade(TimelineShape),
    Levels(TimelineShape),
    Distinct(DistinctSpec),
}

/// The configuration of a named aggregate, checked and compiled.
///
/// ```
/// # use std::sync::Arc;
/// # use ebb_core::{AggregateParameters, AggregateQuestion, AggregateResult, AggregateSpec, DedupSpec, EventSpec, FilterSpec};
/// # use ebb_core::{KeyScope, Measure, Method, Plan, QueryTime, Reader, Record, Seen, Selection, Shard, Statistic, Weighting};
/// # use ebb_sketch::{filter::structure::timing::TimingSpec, hash::HashKey};
/// let spend = AggregateSpec::new(AggregateParameters {
///     name: "spend".into(),
///     of: Measure::Value,
///     over: Selection::Unique,
///     method: Method::Cascade,
///     epsilon: 0.02,
///     delta: 0.01,
///     decay: None,
///     horizon_ms: 3_600_000,
///     keys: None,
///     memory: None,
///     top: None,
///     step: 0.01,
///     max: 100.0,
///     weights: Weighting::Unit,
///     seed: 1,
/// })?;
/// # let event = EventSpec { value: Some("cost".parse()?), ..EventSpec::of_item(vec!["id".parse()?]) };
/// # let plan = Plan {
/// #     reader: Arc::new(Reader::new(event, HashKey::new([7; 16]))?),
/// #     max_skew_ms: 0,
/// #     dedup: DedupSpec::new(FilterSpec::learning(TimingSpec::time(3_600_000, 0, 1 << 16)?, 64)?, Seen::First),
/// #     frequency: None,
/// #     aggregates: vec![spend],
/// # };
/// # let mut shard = Shard::new(Arc::new(plan), 0)?;
/// // In a shard whose plan contains the aggregate; the last record is a duplicate:
/// for (offset, id) in [(0, 1), (1, 2), (2, 2)] {
///     let payload = format!(r#"{{"id": {id}, "cost": 0.5}}"#);
///     shard.apply(Record { offset, timestamp_ms: 1_000, payload: payload.as_bytes() });
/// }
/// let decay = Some("window:10m".parse()?);
/// let question =
///     AggregateQuestion { aggregate: "spend".into(), scope: KeyScope::Whole, decay, last: None, time: QueryTime::Newest, statistic: Statistic::Sum };
/// let AggregateResult::Number(Some(sum)) = shard.aggregate(&question)?.result else { panic!("a sum is a number") };
/// assert!(sum.lower <= 1.0 && 1.0 <= sum.upper);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateSpec {
    parameters: AggregateParameters,
    pub(super) shape: SketchShape,
    pub(super) scale: Scale,
    /// The decay of questions that specify none.
    pub(super) decay: Decay,
}

impl AggregateSpec {
    /// Checks the parameters.
    pub fn new(parameters: AggregateParameters) -> Result<Self, AggregateSpecError> {
        let scale = match parameters.of {
            Measure::Count | Measure::Distinct(_) => Scale::unit(),
            Measure::Value | Measure::Weight | Measure::Number(_) => Scale::new(parameters.step, parameters.max)?,
        };
        if parameters.keys == Some(0) {
            return Err(AggregateSpecError::NoKeys);
        }
        let shape = parameters.sketch_shape(scale)?;
        let whole_horizon = Decay::window(parameters.horizon_ms)
            .map_err(|_| WindowSpecError::Horizon { horizon_ms: 0, max_ms: u64::MAX })?;
        let decay = parameters.decay.clone().unwrap_or(whole_horizon);
        let spec = Self { parameters, shape, scale, decay };
        spec.check_memory()?;
        Ok(spec)
    }

    /// The name of the aggregate.
    pub fn name(&self) -> &str {
        &self.parameters.name
    }

    /// The parameters that it was made from.
    pub fn parameters(&self) -> &AggregateParameters {
        &self.parameters
    }

    /// Whether quantiles, ranks and shares of values are available.
    pub(super) fn keeps_values(&self) -> bool {
        !matches!(self.parameters.of, Measure::Count | Measure::Distinct(_))
    }

    /// The index of the event's text that is kept or counted, if there is one.
    pub(super) fn label_index(&self) -> Option<usize> {
        match self.parameters.of {
            Measure::Distinct(index) => Some(index),
            Measure::Count | Measure::Value | Measure::Weight | Measure::Number(_) => self.parameters.top,
        }
    }

    /// The index of the event's number that is measured, if it is one.
    pub(crate) fn measured_number(&self) -> Option<usize> {
        match self.parameters.of {
            Measure::Number(index) => Some(index),
            Measure::Count | Measure::Value | Measure::Weight | Measure::Distinct(_) => None,
        }
    }

    /// Writes what state depends on, including what is measured: sums of different numbers must not be mixed.
    pub(crate) fn write_identity(&self, writer: &mut Writer) {
        let parameters = &self.parameters;
        writer.bytes(parameters.name.as_bytes());
        let (of, index) = match parameters.of {
            Measure::Count => (0, 0),
            Measure::Value => (1, 0),
            Measure::Weight => (2, 0),
            Measure::Number(index) => (3, index as u64),
            Measure::Distinct(index) => (4, index as u64),
        };
        writer.u8(of);
        writer.varint(index);
        writer.u8(u8::from(parameters.over == Selection::Unique));
        writer.bytes(parameters.method.name().as_bytes());
        writer.f64(parameters.epsilon);
        writer.f64(parameters.delta);
        writer.bytes(parameters.fixed_decay().as_bytes());
        writer.u64(parameters.horizon_ms);
        writer.u32(parameters.keys.unwrap_or(0));
        writer.varint(parameters.top.map_or(0, |index| index as u64 + 1));
        writer.f64(parameters.step);
        writer.f64(parameters.max);
        writer.u8(u8::from(parameters.weights == Weighting::ByEvent));
        // The size of a sample follows from epsilon and delta, but not for ever in the same way.
        match &self.shape {
            SketchShape::Robust(sample, _) => writer.u32(sample.accuracy().tau()),
            SketchShape::Integral(sample) => writer.u32(sample.accuracy().tau()),
            _ => {}
        }
    }
}

impl AggregateParameters {
    /// The decay that state depends on; empty for methods that take any decay at query time.
    pub(super) fn fixed_decay(&self) -> String {
        self.decay.as_ref().filter(|_| self.method.has_fixed_decay()).map(Decay::to_string).unwrap_or_default()
    }

    fn sketch_shape(&self, scale: Scale) -> Result<SketchShape, AggregateSpecError> {
        let is_plain_count = self.of == Measure::Count && self.top.is_none();
        let (epsilon, horizon_ms) = (self.epsilon, self.horizon_ms);
        if let Measure::Distinct(_) = self.of {
            return self.distinct_shape();
        }
        Ok(match self.method {
            Method::Robust => {
                let (accuracy, max_weight) = (Accuracy::new(epsilon, self.delta)?, self.max_integer_weight());
                let sample = match max_weight {
                    1 => WindowSpec::new(accuracy, 1, horizon_ms, self.seed)?,
                    _ => WindowSpec::by_weight(accuracy, max_weight, horizon_ms, self.seed)?,
                };
                SketchShape::Robust(sample, self.sum_source(accuracy, scale)?)
            }
            Method::Integral => SketchShape::Integral(integral_spec(self, &self.required_decay()?)?),
            Method::Forward => {
                let decay = self.required_decay()?;
                let shape = self.content(scale, 2.0 * epsilon, epsilon)?;
                // Whether the decay is suitable is checked when a sketch is created.
                ebb_sketch::aggregate::forward::ForwardShape::new(&decay, shape)?;
                SketchShape::Forward(decay, shape)
            }
            Method::Division => {
                let theta = match is_plain_count {
                    true => DivisionShape::theta_for_totals(epsilon),
                    false => DivisionShape::theta_for_values(epsilon),
                };
                let content = self.content(scale, epsilon, epsilon / 2.0)?;
                SketchShape::Division(DivisionShape::new(self.required_decay()?, theta, horizon_ms, content)?)
            }
            Method::Cascade => {
                let (in_time, content) = self.timeline_content(scale)?;
                SketchShape::Cascade(CascadeSketch::shape(in_time, horizon_ms, content)?)
            }
            Method::Levels => {
                let (in_time, content) = self.timeline_content(scale)?;
                SketchShape::Levels(LevelsSketch::shape(in_time, horizon_ms, content)?)
            }
        })
    }

    fn distinct_shape(&self) -> Result<SketchShape, AggregateSpecError> {
        if self.method != Method::Robust {
            return Err(AggregateSpecError::DistinctMethod(self.method));
        }
        if self.top.is_some() {
            return Err(AggregateSpecError::DistinctTop);
        }
        let accuracy = DistinctAccuracy::new(self.epsilon, self.delta)?;
        Ok(SketchShape::Distinct(DistinctSpec::new(accuracy, self.horizon_ms, self.seed)?))
    }

    /// Where `robust` gets sums from: a sample by amount, unless there is nothing to sum.
    fn sum_source(&self, accuracy: Accuracy, scale: Scale) -> Result<SumSource, WindowSpecError> {
        if self.of == Measure::Count {
            return Ok(SumSource::Values { max_value: scale.max_steps() });
        }
        let max_amount = scale.max_steps() * u64::from(self.max_integer_weight());
        let whole_bits = u64::BITS - max_amount.leading_zeros();
        let fraction = AMOUNT_BITS.saturating_sub(whole_bits).clamp(*FRACTION_BITS.start(), *FRACTION_BITS.end());
        let seed = self.seed ^ AMOUNT_SEED;
        Ok(SumSource::Amounts(WindowSpec::by_amount(accuracy, fraction as u8, self.horizon_ms, seed)?))
    }

    fn required_decay(&self) -> Result<Decay, AggregateSpecError> {
        self.decay.clone().ok_or(AggregateSpecError::NoDecay(self.method))
    }

    /// The error in time and the content of the cells of `cascade` and `levels`. The error of a share is
    /// (in_time + summary) / (1 - in_time), together epsilon.
    fn timeline_content(&self, scale: Scale) -> Result<(f64, SummaryShape), ShapeError> {
        let is_plain_count = self.of == Measure::Count && self.top.is_none();
        let in_time = if is_plain_count { self.epsilon } else { self.epsilon / 2.0 };
        let summary = self.epsilon * (1.0 - self.epsilon) / 2.0;
        Ok((in_time, self.content(scale, 2.0 * summary, summary)?))
    }

    /// Maximum weight of an element of a sampling sketch.
    pub(super) fn max_integer_weight(&self) -> u32 {
        match self.method {
            Method::Integral if self.counts_by_weight() => MAX_INTEGRAL_WEIGHT,
            Method::Robust if self.counts_by_weight() => MAX_ROBUST_WEIGHT,
            Method::Robust
            | Method::Integral
            | Method::Forward
            | Method::Division
            | Method::Cascade
            | Method::Levels => 1,
        }
    }

    /// Whether events count by their weight.
    pub(super) fn counts_by_weight(&self) -> bool {
        self.weights == Weighting::ByEvent && !matches!(self.of, Measure::Weight | Measure::Distinct(_))
    }

    /// The content of a cell, for an error of `beta / 2` in ranks and of `share` in the shares of top items.
    fn content(&self, scale: Scale, beta: f64, share: f64) -> Result<SummaryShape, ShapeError> {
        let mut shape = SummaryShape::totals();
        if self.of != Measure::Count {
            shape = shape.with_values(DigestShape::new(scale.bits(), beta)?);
        }
        if self.top.is_some() {
            shape = shape.with_labels(libm::ceil(1.0 / share) as u32)?;
        }
        Ok(shape)
    }
}

/// The integral decay nearest to `decay`, and the length of its ticks.
fn integral_spec(parameters: &AggregateParameters, decay: &Decay) -> Result<IntegralSpec, AggregateSpecError> {
    let refused = |why: String| AggregateSpecError::Integral { decay: decay.to_string(), why };
    let max_weight = parameters.max_integer_weight();
    let checked = |decay: Result<IntegralDecay, IntegralDecayError>| decay.map_err(|error| refused(error.to_string()));
    let (integral, tick_ms) = match (decay.width(), decay.rate(), decay.power()) {
        (Some(width_ms), _, _) => (checked(IntegralDecay::window(width_ms))?, 1),
        (_, Some(rate), _) => {
            let tick_ms = libm::floor(1.0 / (rate * TICKS_PER_E_FOLD)).clamp(1.0, 1e9);
            (checked(IntegralDecay::exponential(rate * tick_ms, max_weight * WEIGHT_SCALE))?, tick_ms as u64)
        }
        (_, _, Some((alpha, unit_ms))) => {
            if libm::floor(alpha) != alpha || libm::floor(unit_ms) != unit_ms || alpha > f64::from(u8::MAX) {
                return Err(refused("alpha and the milliseconds of its unit must be whole numbers".into()));
            }
            (checked(IntegralDecay::polynomial(alpha as u32))?, unit_ms as u64)
        }
        (None, None, None) => return Err(refused("it has no integral form; write method: robust".into())),
    };
    let accuracy = Accuracy::new(parameters.epsilon, parameters.delta)?;
    let spec = IntegralSpec::new(accuracy, integral, tick_ms, (max_weight, WEIGHT_SCALE), parameters.seed);
    spec.map_err(|error: IntegralSpecError| refused(error.to_string()))
}
