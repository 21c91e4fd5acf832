//! What a named aggregate keeps of the events: valid once it exists.

use super::scale::Scale;
use ebb_sketch::aggregate::cascade::Cascade;
use ebb_sketch::aggregate::content::{ContentShape, ShapeError, TimelineShape};
use ebb_sketch::aggregate::division::DivisionShape;
use ebb_sketch::aggregate::levels::Levels;
use ebb_sketch::aggregate::qdigest::DigestShape;
use ebb_sketch::aggregate::robust::{
    Accuracy, AccuracyError, IntegralDecay, IntegralDecayError, IntegralSpec, IntegralSpecError, SpecError, WindowSpec,
};
use ebb_sketch::codec::Writer;
use ebb_sketch::decay::Decay;

/// The largest weight that `robust` takes; its weights are whole numbers.
pub const MAX_ROBUST_WEIGHT: u32 = 1 << 16;
/// The largest weight that `integral` takes; its weights are whole numbers.
pub const MAX_INTEGRAL_WEIGHT: u32 = 1 << 10;
/// Weighting are multiplied with this before `integral` decays them, so that small ones do not vanish at once.
const WEIGHT_SCALE: u32 = 1 << 10;
/// Ticks of an exponential integral decay in the time in which it falls by a factor e.
const TICKS: f64 = 4096.0;

/// What is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Events, each as often as its weight says.
    Count,
    /// The event's value, as often as its weight says.
    Value,
    /// The event's weight, once.
    Weight,
    /// A number by its place in [`crate::EventSpec::numbers`], as often as the event's weight says.
    Number(usize),
}

/// Which events are added up. Rejected ones never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    All,
    Unique,
}

/// How it is kept: see [`ebb_sketch::aggregate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Robust,
    Integral,
    Forward,
    Division,
    Cascade,
    Levels,
}

impl Method {
    pub const ALL: [Method; 6] =
        [Method::Robust, Method::Integral, Method::Forward, Method::Division, Method::Cascade, Method::Levels];

    pub fn name(self) -> &'static str {
        match self {
            Method::Robust => "robust",
            Method::Integral => "integral",
            Method::Forward => "forward",
            Method::Division => "division",
            Method::Cascade => "cascade",
            Method::Levels => "levels",
        }
    }

    /// Whether two of them become one without loss; others are joined when they are asked.
    pub fn merges(self) -> bool {
        !matches!(self, Method::Cascade | Method::Levels)
    }

    /// Whether an event that comes twice counts once.
    pub fn ignores_repeats(self) -> bool {
        matches!(self, Method::Robust | Method::Integral)
    }

    /// Whether what is older than the horizon is let go; the others go by their own decay.
    pub(super) fn has_horizon(self) -> bool {
        !matches!(self, Method::Forward | Method::Integral)
    }
}

/// How often an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighting {
    /// Once.
    Unit,
    /// As its weight says.
    ByEvent,
}

/// What an [`AggregateSpec`] is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateParameters {
    pub name: String,
    pub of: Measure,
    pub over: Selection,
    pub method: Method,
    pub epsilon: f64,
    pub delta: f64,
    /// Needed by `integral`, `forward` and `division`; for the others what a question means that names none.
    pub decay: Option<Decay>,
    pub horizon_ms: u64,
    /// How many keys have an aggregate of their own.
    pub keys: Option<u32>,
    /// The text whose most frequent values are kept, by its place in [`crate::EventSpec::labels`].
    pub top: Option<usize>,
    pub step: f64,
    pub max: f64,
    pub weights: Weighting,
    /// Draws the hashes of the sampling sketches: the same in all shards of a stream.
    pub seed: u64,
}

/// Why an aggregate cannot be kept like this, and what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AggregateSpecError {
    #[error("{} needs a decay here; write decay: exponential:half_life=10m", .0.name())]
    NoDecay(Method),
    #[error("{decay} does not fit method integral: {why}")]
    Integral { decay: String, why: String },
    #[error("a step of {step} and a largest value of {max} must be numbers above 0, the step not above the value")]
    Step { step: f64, max: f64 },
    #[error("{max} has too many steps of {step}: write a step of {nearest} or more")]
    Steps { step: f64, max: f64, nearest: f64 },
    #[error("a table of keys has room for at least one")]
    NoKeys,
    #[error(transparent)]
    Accuracy(#[from] AccuracyError),
    #[error(transparent)]
    Window(#[from] SpecError),
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl AggregateSpecError {
    /// The configuration key that is to be changed.
    pub fn key(&self) -> &'static str {
        match self {
            Self::NoDecay(_) | Self::Integral { .. } | Self::Shape(ShapeError::Decay { .. }) => "decay",
            Self::Step { .. } | Self::Steps { .. } | Self::Shape(ShapeError::Bits { .. }) => "step",
            Self::NoKeys => "keys",
            Self::Accuracy(AccuracyError::Delta { .. }) => "delta",
            Self::Window(_) | Self::Shape(ShapeError::Horizon { .. } | ShapeError::Cells { .. }) => "horizon",
            Self::Accuracy(_) | Self::Shape(_) => "epsilon",
        }
    }
}

/// The shape of the sketches, by method.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    Robust(WindowSpec),
    Integral(IntegralSpec),
    Forward(Decay, ContentShape),
    Division(DivisionShape),
    Cascade(TimelineShape),
    Levels(TimelineShape),
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateSpec {
    given: AggregateParameters,
    pub(super) form: Form,
    pub(super) scale: Scale,
    /// What a question means that names no decay.
    pub(super) decay: Decay,
}

impl AggregateSpec {
    pub fn new(given: AggregateParameters) -> Result<Self, AggregateSpecError> {
        let scale = match given.of {
            Measure::Count => Scale::ones(),
            Measure::Value | Measure::Weight | Measure::Number(_) => Scale::new(given.step, given.max)?,
        };
        if given.keys == Some(0) {
            return Err(AggregateSpecError::NoKeys);
        }
        let needed = || given.decay.clone().ok_or(AggregateSpecError::NoDecay(given.method));
        let plain = given.of == Measure::Count && given.top.is_none();
        let (epsilon, horizon_ms) = (given.epsilon, given.horizon_ms);
        let form = match given.method {
            Method::Robust => {
                let accuracy = Accuracy::new(epsilon, given.delta)?;
                Form::Robust(WindowSpec::new(accuracy, given.whole_weight_most(), horizon_ms, given.seed)?)
            }
            Method::Integral => Form::Integral(integral(&given, &needed()?)?),
            Method::Forward => {
                let decay = needed()?;
                let shape = given.content(scale, 2.0 * epsilon, epsilon)?;
                // Whether the decay fits is known once one is made.
                ebb_sketch::aggregate::forward::Forward::new(&decay, shape)?;
                Form::Forward(decay, shape)
            }
            Method::Division => {
                let theta = match plain {
                    true => DivisionShape::theta_for_totals(epsilon),
                    false => DivisionShape::theta_for_values(epsilon),
                };
                let content = given.content(scale, epsilon, epsilon / 2.0)?;
                Form::Division(DivisionShape::new(needed()?, theta, horizon_ms, content)?)
            }
            Method::Cascade | Method::Levels => {
                // A share is off by (in_time + summary) / (1 - in_time): together epsilon.
                let summary = epsilon * (1.0 - epsilon) / 2.0;
                let in_time = if plain { epsilon } else { epsilon / 2.0 };
                let content = given.content(scale, 2.0 * summary, summary)?;
                match given.method {
                    Method::Cascade => Form::Cascade(Cascade::shape(in_time, horizon_ms, content)?),
                    _ => Form::Levels(Levels::shape(in_time, horizon_ms, content)?),
                }
            }
        };
        let whole = Decay::window(horizon_ms).map_err(|_| SpecError::Horizon { asked_ms: 0, most_ms: u64::MAX })?;
        let decay = given.decay.clone().unwrap_or(whole);
        Ok(Self { given, form, scale, decay })
    }

    pub fn name(&self) -> &str {
        &self.given.name
    }

    pub fn parameters(&self) -> &AggregateParameters {
        &self.given
    }

    /// Whether quantiles, ranks and shares of values can be asked.
    pub(super) fn keeps_values(&self) -> bool {
        self.given.of != Measure::Count
    }

    /// The place of the number of the event that is added up, if it is one.
    pub(crate) fn measured_number(&self) -> Option<usize> {
        match self.given.of {
            Measure::Number(place) => Some(place),
            Measure::Count | Measure::Value | Measure::Weight => None,
        }
    }

    /// What identifies state made under this specification. What counts, too: sums of different things do not mix.
    pub(crate) fn write_identity(&self, writer: &mut Writer) {
        let given = &self.given;
        writer.bytes(given.name.as_bytes());
        let (of, place) = match given.of {
            Measure::Count => (0, 0),
            Measure::Value => (1, 0),
            Measure::Weight => (2, 0),
            Measure::Number(place) => (3, place as u64),
        };
        writer.u8(of);
        writer.varint(place);
        writer.u8(u8::from(given.over == Selection::Unique));
        writer.bytes(given.method.name().as_bytes());
        writer.f64(given.epsilon);
        writer.f64(given.delta);
        // What a question means by default is no part of the state of methods that take any decay.
        let fixed = matches!(given.method, Method::Integral | Method::Forward | Method::Division);
        writer.bytes(given.decay.as_ref().filter(|_| fixed).map(Decay::to_string).unwrap_or_default().as_bytes());
        writer.u64(given.horizon_ms);
        writer.u32(given.keys.unwrap_or(0));
        writer.varint(given.top.map_or(0, |place| place as u64 + 1));
        writer.f64(given.step);
        writer.f64(given.max);
        writer.u8(u8::from(given.weights == Weighting::ByEvent));
    }
}

impl AggregateParameters {
    /// The largest weight of an element of the sampling sketches.
    pub(super) fn whole_weight_most(&self) -> u32 {
        match self.method {
            _ if !self.counts_by_weight() => 1,
            Method::Integral => MAX_INTEGRAL_WEIGHT,
            _ => MAX_ROBUST_WEIGHT,
        }
    }

    /// Whether an event counts as often as its weight says.
    pub(super) fn counts_by_weight(&self) -> bool {
        self.weights == Weighting::ByEvent && self.of != Measure::Weight
    }

    /// What a cell holds when ranks may be `beta / 2` and top items `share` of the whole off.
    fn content(&self, scale: Scale, beta: f64, share: f64) -> Result<ContentShape, ShapeError> {
        let mut shape = ContentShape::totals();
        if self.of != Measure::Count {
            shape = shape.with_values(DigestShape::new(scale.bits(), beta)?);
        }
        if self.top.is_some() {
            shape = shape.with_labels(libm::ceil(1.0 / share) as u32)?;
        }
        Ok(shape)
    }
}

/// The integral decay that is nearest to a real one, and its ticks.
fn integral(given: &AggregateParameters, decay: &Decay) -> Result<IntegralSpec, AggregateSpecError> {
    let refused = |why: String| AggregateSpecError::Integral { decay: decay.to_string(), why };
    let weight_most = given.whole_weight_most();
    let made = |made: Result<IntegralDecay, IntegralDecayError>| made.map_err(|error| refused(error.to_string()));
    let (integral, tick_ms) = match (decay.width(), decay.rate(), decay.power()) {
        (Some(width_ms), _, _) => (made(IntegralDecay::window(width_ms))?, 1),
        (_, Some(rate), _) => {
            let tick_ms = libm::floor(1.0 / (rate * TICKS)).clamp(1.0, 1e9);
            (made(IntegralDecay::exponential(rate * tick_ms, weight_most * WEIGHT_SCALE))?, tick_ms as u64)
        }
        (_, _, Some((alpha, unit_ms))) => {
            if libm::floor(alpha) != alpha || libm::floor(unit_ms) != unit_ms || alpha > f64::from(u8::MAX) {
                return Err(refused("alpha and the milliseconds of its unit must be whole numbers".into()));
            }
            (made(IntegralDecay::polynomial(alpha as u32))?, unit_ms as u64)
        }
        (None, None, None) => return Err(refused("a table has no integral form; write method: robust".into())),
    };
    let accuracy = Accuracy::new(given.epsilon, given.delta)?;
    let spec = IntegralSpec::new(accuracy, integral, tick_ms, (weight_most, WEIGHT_SCALE), given.seed);
    spec.map_err(|error: IntegralSpecError| refused(error.to_string()))
}
