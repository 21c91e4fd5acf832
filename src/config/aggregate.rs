//! The keys of the aggregates.

use super::composite::Optional;
use super::declare::{OneOf, enum_names, section};
use super::parser::{ConfigParser, Schema};
use super::scalars::{DecaySyntax, DurationRange, Fraction, IntegerRange, PositiveNumber, SizeRange, scalar};
use super::stream::{EventConfig, Path, PathSyntax, parse_path};
use super::tree::Node;
use ebb_core::{AggregateParameters, AggregateSpec, Method, Selection, Weighting};
use ebb_sketch::units::{Bytes, DurationMs};

const DAY_MS: u64 = 86_400_000;
/// The memory budget of an aggregate if `memory` is not set.
const DEFAULT_MEMORY: Bytes = Bytes(256 << 20);

section! {
    /// A decayed sum, count, mean, quantiles and top items over the stream.
    pub struct AggregateConfig {
        /// What is aggregated: `count`, `value`, `weight`, or the path of a numeric field.
        of: MeasureSyntax = "count";
        /// Which events are included: `all`, or only `unique` ones.
        over: OneOf<Selection> = "all";
        /// `robust`: any decay at query time, insensitive to repeats and order, probabilistic bounds. `cascade`: any window
        /// or decay at query time, deterministic bounds. `forward`: exponential decay, exact sums, cheapest. `division`: one
        /// smooth decay, deterministic bounds. `integral` and `levels`: the published forms of `robust` and `cascade`, for
        /// comparison.
        method: OneOf<Method> = "robust";
        /// The maximum relative error of counts and, with `robust`, of sums; of shares, ranks and quantiles in parts of the
        /// count. `ebb check` says which theorem covers which answer.
        epsilon: Fraction = "0.02";
        /// The probability that a bound of `robust` or `integral` does not hold.
        delta: Fraction = "0.05";
        /// The decay. Required by `forward`, `division` and `integral`; the other methods accept any decay at query time.
        decay: Optional<DecaySyntax>, eg "exponential:half_life=10m";
        /// The oldest data that a query may reach.
        horizon: DurationRange<1, {3660 * DAY_MS}> = "7d";
        /// The number of keys with an aggregate of their own; all other keys are combined in `other`. Without it there is one
        /// aggregate for the whole stream.
        keys: Optional<IntegerRange<1, 10_000_000>>, eg "10000";
        /// The most memory that the aggregate takes in each partition (`robust`, `integral` and `forward`). When it is
        /// reached, accuracy is given up and answers state the error in force: samples are halved, then the coldest keys are
        /// combined in `other`. Copies made for questions, exports and checkpoints are not included.
        memory: Optional<SizeRange<1024, {1 << 40}>>, derived "256MiB (robust, integral and forward)", eg "64MiB";
        /// The field whose most frequent values are kept.
        top: Optional<PathSyntax>, eg "country";
        /// Counts the different values of this field instead of events (`robust`). A value counts by its latest event.
        distinct: Optional<PathSyntax>, eg "user";
        /// The resolution of values: quantiles, ranks and shares are about the nearest multiples. `robust` sums the values
        /// themselves, which must be 0 or at least a 65536th of this (a 16th if `max` and weights have very many steps); the
        /// other methods sum the multiples.
        step: PositiveNumber<1_000_000_000> = "0.01";
        /// The largest value. Larger and negative values are not aggregated, and counted as refused.
        max: PositiveNumber<1_000_000_000_000> = "10000";
    }
    check check_aggregate
}

enum_names! {
    Selection {
        All = "all",
        Unique = "unique",
    }
}

enum_names! {
    Method {
        Robust = "robust",
        Integral = "integral",
        Forward = "forward",
        Division = "division",
        Cascade = "cascade",
        Levels = "levels",
    }
}

/// What is aggregated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasureConfig {
    Count,
    Value,
    Weight,
    Field(Path),
}

/// The syntax of a [`MeasureConfig`].
#[derive(Debug)]
pub struct MeasureSyntax;

impl Schema for MeasureSyntax {
    type Value = MeasureConfig;

    fn syntax() -> String {
        "count, value, weight, or the path of a numeric field".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<MeasureConfig> {
        scalar(node, parser, &Self::syntax(), |text| match text {
            "count" => Ok(MeasureConfig::Count),
            "value" => Ok(MeasureConfig::Value),
            "weight" => Ok(MeasureConfig::Weight),
            path => parse_path(path).map(MeasureConfig::Field),
        })
    }

    fn to_node(value: &MeasureConfig) -> Option<Node> {
        Some(match value {
            MeasureConfig::Count => Node::scalar("count"),
            MeasureConfig::Value => Node::scalar("value"),
            MeasureConfig::Weight => Node::scalar("weight"),
            MeasureConfig::Field(path) => Node::scalar(path),
        })
    }
}

impl AggregateConfig {
    /// The parameters of the aggregate in `ebb-core`. `number` maps a path to the index at which the reader stores its number.
    /// The caller sets the indices of `top` and `distinct`, and the seed.
    pub fn parameters(&self, name: &str, event: &EventConfig, number: impl Fn(&Path) -> usize) -> AggregateParameters {
        AggregateParameters {
            name: name.to_owned(),
            of: match &self.of {
                _ if self.distinct.is_some() => ebb_core::Measure::Distinct(0),
                MeasureConfig::Count => ebb_core::Measure::Count,
                MeasureConfig::Value => ebb_core::Measure::Value,
                MeasureConfig::Weight => ebb_core::Measure::Weight,
                MeasureConfig::Field(path) => ebb_core::Measure::Number(number(path)),
            },
            over: self.over,
            method: self.method,
            epsilon: self.epsilon,
            delta: self.delta,
            decay: self.decay.as_ref().map(|decay| decay.decay.clone()),
            horizon_ms: self.horizon.0,
            keys: self.keys.map(|keys| keys as u32),
            memory: self.memory.map(|memory| memory.0),
            top: self.top.as_ref().map(|_| 0),
            step: self.step,
            max: self.max,
            weights: if event.weight.is_some() { Weighting::ByEvent } else { Weighting::Unit },
            seed: 0,
        }
    }
}

fn check_aggregate(aggregate: &mut AggregateConfig, node: &Node, parser: &mut ConfigParser) {
    if aggregate.memory.is_none() && aggregate.method.has_budget() {
        aggregate.memory = Some(DEFAULT_MEMORY);
    }
    if aggregate.distinct.is_some() && aggregate.of != MeasureConfig::Count {
        let message =
            "cannot be combined with of, because different values are counted instead of events; remove one of them";
        parser.key_error(node, "distinct", &["of"], message);
    }
    if let Some(message) = decay_error(aggregate) {
        parser.key_error(node, "decay", &["method", "horizon"], message);
    }
    let decay = aggregate.decay.as_ref().map(|decay| &decay.decay);
    if let Some(width) = decay.and_then(|decay| decay.width()).filter(|width| *width > aggregate.horizon.0) {
        let message = format!("{} is longer than the horizon; set horizon: {0} or more", DurationMs(width));
        parser.key_error(node, "decay", &["horizon"], message);
    }
    if aggregate.step > aggregate.max {
        parser.key_error(node, "step", &["max"], format_args!("must not exceed max, which is {}", aggregate.max));
    }
}

/// Why the decay does not suit the method.
fn decay_error(aggregate: &AggregateConfig) -> Option<String> {
    let decay = aggregate.decay.as_ref().map(|decay| &decay.decay);
    let method = aggregate.method.name();
    match (aggregate.method, decay) {
        (Method::Forward | Method::Division | Method::Integral, None) => Some(format!(
            "is required by method {method}; set one, such as exponential:half_life=10m"
        )),
        (Method::Forward, Some(decay)) if decay.rate().is_none() => {
            Some("must be exponential for method forward, such as exponential:half_life=10m".into())
        }
        (Method::Division, Some(decay)) if !decay.is_smooth(aggregate.horizon.0) => Some(
            "must be smooth for method division (g(a)/g(a+1) must not increase); set an exponential or polynomial decay, \
             or method: cascade"
                .into(),
        ),
        _ => None,
    }
}

/// Checks an aggregate against the event. `at` is the aggregate's path within the section `stream`.
pub(super) fn check_with_event(
    aggregate: &AggregateConfig,
    event: &EventConfig,
    at: &str,
    stream: &Node,
    parser: &mut ConfigParser,
) {
    let missing = match aggregate.of {
        MeasureConfig::Value if event.value.is_none() => Some("value"),
        MeasureConfig::Weight if event.weight.is_none() => Some("weight"),
        _ => None,
    };
    if let Some(field) = missing {
        let message = format!("the event has no {field}; add event: {{{field}: PATH}}, or set of: count");
        parser.key_error(stream, &format!("{at}.of"), &[&format!("event.{field}")], message);
    }
    if aggregate.keys.is_some() && event.key.is_none() {
        let message = "the event has no key; add event: {key: PATH}";
        parser.key_error(stream, &format!("{at}.keys"), &["event.key"], message);
    }
    let is_reported = missing.is_some() || decay_error(aggregate).is_some() || aggregate.step > aggregate.max;
    if let Some(error) = AggregateSpec::new(aggregate.parameters(at, event, |_| 0)).err().filter(|_| !is_reported) {
        parser.key_error(stream, &format!("{at}.{}", error.key()), &[], error);
    }
}
