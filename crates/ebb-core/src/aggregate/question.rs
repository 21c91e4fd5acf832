//! Questions to an aggregate, and its answers, in the units of the configuration.

use super::export::ExportError;
use super::sketch::MixedParts;
use crate::offset::AsOf;
use ebb_sketch::aggregate::answer::{Estimate, Evidence, Guarantee, TopMode};
use ebb_sketch::aggregate::predicate::Predicate;
use ebb_sketch::aggregate::{content, robust};
use ebb_sketch::decay::Decay;
use ebb_sketch::hash::Fingerprint;

/// Of which events, where the aggregate is kept by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScope {
    /// Of all keys together; there for every aggregate.
    Whole,
    Key(Fingerprint),
    /// Of the keys that have no place of their own.
    Other,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Statistic {
    /// Of what is measured, each event as often as its weight says.
    Sum,
    /// Events, each as often as its weight says.
    Count,
    /// Of what is measured.
    Mean,
    /// The values below which these shares of the events lie.
    Quantiles(Vec<f64>),
    /// The share of the events up to this value.
    Rank(f64),
    /// What makes up at least `phi` of the events: labels where the aggregate has a `top`, else values.
    Top { phi: f64, mode: TopMode },
    /// The share of the events that a predicate, in the units of the events, selects.
    Share(Predicate<f64>),
}

/// A question to a named aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateQuestion {
    pub aggregate: String,
    pub scope: KeyScope,
    /// Instead of the configured decay, or of the whole horizon where none is configured.
    pub decay: Option<Decay>,
    pub statistic: Statistic,
}

impl AggregateQuestion {
    /// For all that is kept of a part, the names of its labels included.
    pub fn for_export(aggregate: &str, scope: KeyScope) -> Self {
        let statistic = Statistic::Top { phi: 1.0, mode: TopMode::NoFalseNegatives };
        Self { aggregate: aggregate.to_owned(), scope, decay: None, statistic }
    }
}

/// One quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileAnswer {
    pub phi: f64,
    pub value: f64,
    pub lower: f64,
    pub upper: f64,
    pub guarantee: Guarantee,
    pub incomplete: bool,
    pub evidence: Evidence,
}

/// What a top item is called.
#[derive(Debug, Clone, PartialEq)]
pub enum TopName {
    /// Cut to [`super::MAX_TEXT_BYTES`].
    Text(Box<str>),
    Value(f64),
    /// A label whose text is not known here.
    Label(u128),
}

/// One top item and its share of the whole.
#[derive(Debug, Clone, PartialEq)]
pub struct TopAnswer {
    pub name: TopName,
    pub share: f64,
    pub lower: f64,
    pub upper: f64,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub enum AggregateResult {
    /// None where there is nothing to speak of: the mean and the shares of no events.
    Number(Option<Estimate>),
    /// In the order of the question; empty where there is nothing to speak of.
    Quantiles(Vec<QuantileAnswer>),
    Top {
        /// Largest share first.
        items: Vec<TopAnswer>,
        /// What the shares are shares of.
        total: Estimate,
        mode: TopMode,
        guarantee: Guarantee,
    },
}

/// An answer and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateAnswer {
    pub result: AggregateResult,
    /// The decay that was meant.
    pub decay: Decay,
    /// True when the question reached past what is still known: the answer speaks of the rest.
    pub incomplete: bool,
    /// Of each partition.
    pub as_of: Vec<AsOf>,
}

/// Why an aggregate does not answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AggregateError {
    #[error("there is no aggregate {requested:?}; there is {}", if .known.is_empty() { "none".into() } else { .known.join(", ") })]
    Unknown { requested: String, known: Vec<String> },
    #[error("this aggregate is not kept by key; add keys: 1000 to it, or ask without a key")]
    NotByKey,
    #[error("no event of this key is known; it may be in other")]
    NoSuchKey,
    #[error("this aggregate keeps no {kept}; {instead}")]
    NotKept { kept: &'static str, instead: &'static str },
    #[error("{asked} cannot be asked here: integral answers for {kept} only")]
    OtherDecay { asked: String, kept: String },
    #[error("{0} is not a value")]
    Value(f64),
    #[error(transparent)]
    Cells(#[from] content::QuestionError),
    #[error(transparent)]
    Sampled(#[from] robust::QuestionError),
    #[error(transparent)]
    Statistic(#[from] robust::StatisticError),
    #[error(transparent)]
    Mixed(#[from] MixedParts),
    #[error(transparent)]
    Export(#[from] ExportError),
}
