//! The keys of the frequency view and of the named aggregates.

use super::declare::{choice, section};
use super::kinds::Maybe;
use super::read::{Kind, Reader};
use super::scalars::{Count, DecayForm, Duration, Fraction, Positive, Size, scalar};
use super::stream::{Event, FieldPath, Path, parse_path};
use super::tree::Node;
use ebb_core::{AggregateParameters, AggregateSpec, Weighting};
use ebb_sketch::units::DurationMs;

const DAY: u64 = 86_400_000;

section! {
    /// How often an item was seen lately: a count that halves, never an undercount.
    pub struct Frequency {
        /// How long it takes a count to halve.
        half_life: Duration<1, {3660 * DAY}> = "1h";
        /// Memory of the counters, for each partition.
        memory: Size<1024, {1 << 40}> = "16MiB";
        /// How counts fade.
        method: FrequencyMethod = "forward";
        /// Counters that each item touches.
        cells: Count<1, 16> = "4";
        /// How often counters are swept (`basic` and `optimised`). A sixteenth of the half-life when absent.
        epoch: Maybe<Duration<1, {3660 * DAY}>>, eg "1m";
        /// When a full digit overflows (`optimised`): `each` counter on its own, or only when `all` of an item are full.
        carry: Carry = "each";
    }
    rules check_frequency
}

choice! {
    /// How counts fade.
    pub enum FrequencyMethod {
        /// Exact decay without sweeps.
        Forward = "forward",
        /// Counters swept every epoch.
        Basic = "basic",
        /// Small digits with a pool for overflow.
        Optimised = "optimised",
    }
}

choice! {
    /// When a full digit overflows.
    pub enum Carry {
        Each = "each",
        All = "all",
    }
}

section! {
    /// A sum, count, mean, quantiles and top items over the stream, whose old data fades away.
    pub struct Aggregate {
        /// What is added up: `count`, `value`, `weight`, or the path of a numeric field.
        of: MeasureForm = "count";
        /// Which events: `all`, or only `unique` ones.
        over: Over = "all";
        /// How it is kept.
        method: Method = "robust";
        /// The relative error that is promised.
        epsilon: Fraction = "0.02";
        /// The chance that a promise of `robust` and `integral` fails.
        delta: Fraction = "0.05";
        /// How old data fades. Needed by `forward`, `division` and `integral`; the others take any decay with the
        /// question.
        decay: Maybe<DecayForm>, eg "exponential:half_life=10m";
        /// The oldest data that a question may reach.
        horizon: Duration<1, {3660 * DAY}> = "7d";
        /// How many keys get an aggregate of their own; the rest is folded into `other`. Without it there is one for
        /// the whole stream.
        keys: Maybe<Count<1, 10_000_000>>, eg "10000";
        /// The field whose most frequent values are kept.
        top: Maybe<FieldPath>, eg "country";
        /// The smallest difference between two values that matters: values are kept as the nearest multiple of it.
        step: Positive<1_000_000_000> = "0.01";
        /// The largest value; larger and negative ones are refused by this aggregate and counted.
        max: Positive<1_000_000_000_000> = "10000";
    }
    rules check_aggregate
}

choice! {
    /// Which events are added up.
    pub enum Over {
        All = "all",
        Unique = "unique",
    }
}

choice! {
    /// How an aggregate is kept.
    pub enum Method {
        /// Repeats and order do not matter; any decay with the question; bounds hold with a probability.
        Robust = "robust",
        /// As `robust`, for one integral decay given here.
        Integral = "integral",
        /// Exponential decay: exact sums, cheapest.
        Forward = "forward",
        /// Smooth decays: aligned cells, certain bounds.
        Division = "division",
        /// Any window or decay with the question; certain bounds.
        Cascade = "cascade",
        /// Replicated levels, for comparison.
        Levels = "levels",
    }
}

/// What is added up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measure {
    Count,
    Value,
    Weight,
    Field(Path),
}

/// `count`, `value`, `weight` or a path.
#[derive(Debug)]
pub struct MeasureForm;

impl Kind for MeasureForm {
    type Out = Measure;

    fn form() -> String {
        "count, value, weight, or the path of a numeric field".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Measure> {
        scalar(node, reader, &Self::form(), |text| match text {
            "count" => Ok(Measure::Count),
            "value" => Ok(Measure::Value),
            "weight" => Ok(Measure::Weight),
            path => parse_path(path).map(Measure::Field),
        })
    }

    fn show(out: &Measure) -> Option<Node> {
        Some(match out {
            Measure::Count => Node::scalar("count"),
            Measure::Value => Node::scalar("value"),
            Measure::Weight => Node::scalar("weight"),
            Measure::Field(path) => Node::scalar(path),
        })
    }
}

fn check_frequency(frequency: &mut Frequency, node: &Node, reader: &mut Reader) {
    if frequency.method == FrequencyMethod::Forward {
        if frequency.epoch.is_some() {
            reader.rule(node, "epoch", &["method"], "has no meaning for method forward, which never sweeps; remove it");
        }
        return;
    }
    let epoch = *frequency.epoch.get_or_insert(DurationMs(frequency.half_life.0.div_ceil(16)));
    if epoch.0 > frequency.half_life.0 {
        let message = format!("{epoch} is longer than the half-life; write at most {}", frequency.half_life);
        reader.rule(node, "epoch", &["half_life", "method"], message);
    }
}

impl Aggregate {
    /// As the shards take it. `number` says at which place the number of a field is read; the place of `top` is 0 when
    /// there is one.
    pub fn parameters(&self, name: &str, event: &Event, number: impl Fn(&Path) -> usize) -> AggregateParameters {
        AggregateParameters {
            name: name.to_owned(),
            of: match &self.of {
                Measure::Count => ebb_core::Measure::Count,
                Measure::Value => ebb_core::Measure::Value,
                Measure::Weight => ebb_core::Measure::Weight,
                Measure::Field(path) => ebb_core::Measure::Number(number(path)),
            },
            over: match self.over {
                Over::All => ebb_core::Selection::All,
                Over::Unique => ebb_core::Selection::Unique,
            },
            method: match self.method {
                Method::Robust => ebb_core::Method::Robust,
                Method::Integral => ebb_core::Method::Integral,
                Method::Forward => ebb_core::Method::Forward,
                Method::Division => ebb_core::Method::Division,
                Method::Cascade => ebb_core::Method::Cascade,
                Method::Levels => ebb_core::Method::Levels,
            },
            epsilon: self.epsilon,
            delta: self.delta,
            decay: self.decay.as_ref().map(|written| written.decay.clone()),
            horizon_ms: self.horizon.0,
            keys: self.keys.map(|keys| keys as u32),
            top: self.top.as_ref().map(|_| 0),
            step: self.step,
            max: self.max,
            weights: if event.weight.is_some() { Weighting::ByEvent } else { Weighting::Unit },
            seed: 0,
        }
    }
}

fn check_aggregate(aggregate: &mut Aggregate, node: &Node, reader: &mut Reader) {
    if let Some(message) = decay_fault(aggregate) {
        reader.rule(node, "decay", &["method", "horizon"], message);
    }
    let decay = aggregate.decay.as_ref().map(|decay| &decay.decay);
    if let Some(width) = decay.and_then(|decay| decay.width()).filter(|width| *width > aggregate.horizon.0) {
        let message = format!("{} is longer than the horizon; write horizon: {0} or more", DurationMs(width));
        reader.rule(node, "decay", &["horizon"], message);
    }
    if aggregate.step > aggregate.max {
        reader.rule(node, "step", &["max"], format_args!("is larger than max; write at most {}", aggregate.max));
    }
}

/// Why the decay does not fit the method.
fn decay_fault(aggregate: &Aggregate) -> Option<String> {
    let decay = aggregate.decay.as_ref().map(|decay| &decay.decay);
    let method = aggregate.method.word();
    match (aggregate.method, decay) {
        (Method::Forward | Method::Division | Method::Integral, None) => Some(format!(
            "is missing, and {method} needs it here; write decay: exponential:half_life=10m"
        )),
        (Method::Forward, Some(decay)) if decay.rate().is_none() => {
            Some("is not exponential, as forward needs; write exponential:half_life=10m".into())
        }
        (Method::Division, Some(decay)) if !decay.is_smooth(aggregate.horizon.0) => Some(
            "is not smooth (g(a)/g(a+1) must never rise), as division needs; write an exponential or polynomial decay, \
             or method: cascade"
                .into(),
        ),
        _ => None,
    }
}

/// Rules between an aggregate and the event it sees. `at` is the aggregate's path within the section `stream`.
pub(super) fn check_with_event(aggregate: &Aggregate, event: &Event, at: &str, stream: &Node, reader: &mut Reader) {
    let missing = match aggregate.of {
        Measure::Value if event.value.is_none() => Some("value"),
        Measure::Weight if event.weight.is_none() => Some("weight"),
        _ => None,
    };
    if let Some(field) = missing {
        let message = format!("the event has no {field}; add event: {{{field}: PATH}}, or write of: count");
        reader.rule(stream, &format!("{at}.of"), &[&format!("event.{field}")], message);
    }
    if aggregate.keys.is_some() && event.key.is_none() {
        let message = "the event has no key; add event: {key: PATH}";
        reader.rule(stream, &format!("{at}.keys"), &["event.key"], message);
    }
    let told = missing.is_some() || decay_fault(aggregate).is_some() || aggregate.step > aggregate.max;
    if let Some(error) = AggregateSpec::new(aggregate.parameters(at, event, |_| 0)).err().filter(|_| !told) {
        reader.rule(stream, &format!("{at}.{}", error.key()), &[], error);
    }
}
