//! Questions about an aggregate, and their answers, in the units of the events.

use super::export::ExportError;
use super::sketch::IncompatibleSketches;
use crate::offset::AsOf;
use ebb_sketch::aggregate::QueryError;
use ebb_sketch::aggregate::answer::{Estimate, Evidence, Guarantee, TopMode};
use ebb_sketch::aggregate::predicate::Predicate;
use ebb_sketch::decay::Decay;
use ebb_sketch::hash::Fingerprint;

/// The events that a question covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScope {
    /// The events of all keys; every aggregate has this.
    Whole,
    /// The events of one key.
    Key(Fingerprint),
    /// The events of all keys without a sketch of their own.
    Other,
}

/// The statistic that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Statistic {
    /// The weighted sum of the measured number.
    Sum,
    /// The weighted number of events.
    Count,
    /// The weighted mean of the measured number.
    Mean,
    /// The values below which these shares of the events lie.
    Quantiles(Vec<f64>),
    /// The share of the events up to this value.
    Rank(f64),
    /// The labels (or, without `top`, the values) that make up at least a share `phi` of the events.
    Top {
        /// The minimum share.
        phi: f64,
        /// Which errors are allowed near the minimum.
        mode: TopMode,
    },
    /// The share of the events that match a predicate, which is written in the units of the events.
    Share(Predicate<f64>),
    /// The number of different values of the field that the aggregate counts.
    Distinct,
}

/// The time at which a decay is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueryTime {
    /// The newest event of all shards that answer.
    #[default]
    Newest,
    /// This event time, or the newest event if that is later: decays what an idle stream has kept.
    NotBefore(i64),
    /// This event time. Later events are left out, which not every method can do.
    At(i64),
}

impl QueryTime {
    /// The time in milliseconds, given the newest event.
    pub(super) fn resolve(self, newest_ms: Option<i64>) -> i64 {
        match self {
            Self::Newest => newest_ms.unwrap_or(0),
            Self::NotBefore(time_ms) => newest_ms.map_or(time_ms, |newest| newest.max(time_ms)),
            Self::At(time_ms) => time_ms,
        }
    }
}

/// A question about a named aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateQuestion {
    /// The name of the aggregate.
    pub aggregate: String,
    /// The events to cover.
    pub scope: KeyScope,
    /// Overrides the configured decay or, where none is configured, the whole horizon.
    pub decay: Option<Decay>,
    /// Instead of a decay: only the newest events, about this many by their weight.
    pub last: Option<u64>,
    /// The time at which the decay is applied.
    pub time: QueryTime,
    /// The statistic.
    pub statistic: Statistic,
}

impl AggregateQuestion {
    /// A question whose [`crate::PartialAggregate`] contains everything that is known of a scope, label texts included.
    pub fn for_export(aggregate: &str, scope: KeyScope) -> Self {
        let statistic = Statistic::Top { phi: 1.0, mode: TopMode::NoFalseNegatives };
        Self { aggregate: aggregate.to_owned(), scope, decay: None, last: None, time: QueryTime::Newest, statistic }
    }
}

/// One quantile with its bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileAnswer {
    /// The requested share.
    pub phi: f64,
    /// The estimated quantile.
    pub value: f64,
    /// Lower bound of the quantile.
    pub lower: f64,
    /// Upper bound of the quantile.
    pub upper: f64,
    /// Whether the bounds are deterministic or hold with a probability.
    pub guarantee: Guarantee,
    /// Whether some events that the question covers have been forgotten.
    pub incomplete: bool,
    /// How much data the estimate is based on.
    pub evidence: Evidence,
}

/// The name of a top item.
#[derive(Debug, Clone, PartialEq)]
pub enum TopName {
    /// The text of a label, cut to [`super::MAX_TEXT_BYTES`].
    Text(Box<str>),
    /// A value.
    Value(f64),
    /// A label whose text is unknown here.
    Label(u128),
}

/// One top item and its share of the total.
#[derive(Debug, Clone, PartialEq)]
pub struct TopAnswer {
    /// The item.
    pub name: TopName,
    /// The estimated share.
    pub share: f64,
    /// Lower bound of the share.
    pub lower: f64,
    /// Upper bound of the share.
    pub upper: f64,
}

/// The value of a statistic.
#[derive(Debug, Clone, PartialEq)]
pub enum AggregateResult {
    /// A number; `None` where it is undefined, such as the mean of no events.
    Number(Option<Estimate>),
    /// Quantiles in the order of the question; empty where there are no events.
    Quantiles(Vec<QuantileAnswer>),
    /// Top items.
    Top {
        /// The items, largest share first.
        items: Vec<TopAnswer>,
        /// The total that shares refer to.
        total: Estimate,
        /// Which errors are allowed near the minimum share.
        mode: TopMode,
        /// Whether the bounds are deterministic or hold with a probability.
        guarantee: Guarantee,
    },
}

/// The answer to an [`AggregateQuestion`].
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateAnswer {
    /// The value of the statistic.
    pub result: AggregateResult,
    /// The decay that was applied.
    pub decay: Decay,
    /// For a question about the newest events: how many there are in the window of time that was applied.
    pub window_events: Option<Estimate>,
    /// The time at which the decay was applied.
    pub time_ms: i64,
    /// Whether some events that the question covers have been forgotten; the answer covers the others.
    pub incomplete: bool,
    /// Whether the error is larger than configured, because the aggregate reached its memory budget.
    pub degraded: bool,
    /// The position of each partition that contributed.
    pub as_of: Vec<AsOf>,
}

/// Why a question about an aggregate cannot be answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AggregateError {
    /// No aggregate has the name.
    #[error("unknown aggregate {requested:?}; configured: {}", if .known.is_empty() { "none".into() } else { .known.join(", ") })]
    Unknown {
        /// The requested name.
        requested: String,
        /// The names of all aggregates.
        known: Vec<String>,
    },
    /// The aggregate has no sketches by key.
    #[error("this aggregate is not kept by key; configure keys: 1000, or ask without a key")]
    NotByKey,
    /// The table of keys does not contain the key.
    #[error("no events of this key are known; they may have been added to other")]
    NoSuchKey,
    /// The aggregate does not keep what the statistic needs.
    #[error("this aggregate keeps no {missing}; {hint}")]
    NotKept {
        /// What would be needed.
        missing: &'static str,
        /// How to configure it.
        hint: &'static str,
    },
    /// `integral` answers for one decay only.
    #[error("decay {requested} is not available: method integral answers only for its configured decay {configured}")]
    OtherDecay {
        /// The decay of the question.
        requested: String,
        /// The configured decay.
        configured: String,
    },
    /// The method does not answer for every window.
    #[error(
        "{what} cannot answer for a number of events, because it does not answer for every window; ask with a decay, or \
         configure method: robust or cascade"
    )]
    NoWindows {
        /// What cannot answer.
        what: &'static str,
    },
    /// The number of events is 0.
    #[error("last must be at least 1 event")]
    NoEvents,
    /// The method cannot leave out events.
    #[error(
        "{what} cannot answer for {requested_ms}, which is before the newest event at {newest_ms}; ask for that time or \
         later, or configure method: robust or cascade"
    )]
    Past {
        /// What cannot answer.
        what: &'static str,
        /// The requested time.
        requested_ms: i64,
        /// The newest event time.
        newest_ms: i64,
    },
    /// The value of a rank is not a number.
    #[error("{0} is not a valid value")]
    Value(f64),
    /// The sketch cannot answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The partial aggregates do not fit together.
    #[error(transparent)]
    Mixed(#[from] IncompatibleSketches),
    /// The exports cannot be merged.
    #[error(transparent)]
    Export(#[from] ExportError),
}
