//! Answers of aggregates as JSON. Bounds that are not known are null, and so are the mean and the shares of nothing.

use serde::Serialize;
use utoipa::ToSchema;

use super::super::position::{AsOf, Partitions};
use crate::workers::{MergedAnswer, Stream};
use ebb_core::{AggregateAnswer, AggregateResult, LogDigest, QuantileAnswer, TopAnswer, TopName};
use ebb_sketch::aggregate::answer::{Estimate, Evidence, Guarantee, TopMode};

/// What was found: a number, quantiles or top items, as the statistic is.
#[derive(Default, Serialize, ToSchema)]
pub(in crate::http) struct Answer {
    aggregate: String,
    statistic: String,
    /// The decay that was meant.
    decay: String,
    #[serde(flatten)]
    found: Found,
    /// True when the question reached past what is still known, or not all partitions answered: it speaks of the rest.
    incomplete: bool,
    /// Of each partition.
    as_of: Vec<AsOf>,
    /// Of how many partitions it speaks; of merged exports, [`Answer::logs`] tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Partitions>,
    /// Of merged exports: of how many partitions of each log it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<Log>>,
}

/// A log that exports are of.
#[derive(Serialize, ToSchema)]
struct Log {
    /// Tells it from others, and nothing more.
    log: String,
    answered: Vec<u32>,
    of: u32,
}

#[derive(Default, Serialize, ToSchema)]
struct Found {
    /// Null where there is nothing to speak of: the mean and the shares of no events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    value: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guarantee: Option<Promise>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Basis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantiles: Option<Vec<Quantile>>,
    /// Largest share first.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Item>>,
    /// What the shares are shares of.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
}

/// A number between its bounds; a bound that is not known is null.
#[derive(Serialize, ToSchema)]
struct Number {
    #[schema(value_type = Option<f64>)]
    value: f64,
    #[schema(value_type = Option<f64>)]
    lower: f64,
    #[schema(value_type = Option<f64>)]
    upper: f64,
    guarantee: Promise,
    evidence: Basis,
}

#[derive(Serialize, ToSchema)]
struct Quantile {
    phi: f64,
    #[serde(flatten)]
    number: Number,
}

/// A top item: a text, or a value where the aggregate has no `top`.
#[derive(Serialize, ToSchema)]
struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    share: f64,
    #[schema(value_type = Option<f64>)]
    lower: f64,
    #[schema(value_type = Option<f64>)]
    upper: f64,
}

/// Whether the bounds are certain: `exact`, `deterministic`, or `probabilistic`, which hold with chance 1 - delta.
#[derive(Serialize, ToSchema)]
struct Promise {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
}

/// On how much the answer rests.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Basis {
    Level { level: u8, elements: u64 },
    Cells { cells: u64 },
}

impl Answer {
    pub(super) fn of(stream: &Stream, (aggregate, statistic): (&str, &str), answer: AggregateAnswer) -> Self {
        let partitions = Partitions::of_places(&answer.as_of, stream);
        let incomplete = answer.incomplete || !partitions.is_all();
        Self { incomplete, partitions: Some(partitions), ..Self::found(aggregate, statistic, answer) }
    }

    pub(super) fn merged((aggregate, statistic): (&str, &str), merged: MergedAnswer) -> Self {
        let places = merged.logs.iter().zip(&merged.answer.as_of);
        let mut logs: Vec<(LogDigest, Log)> = Vec::new();
        for ((print, of), as_of) in places {
            match logs.iter_mut().find(|(known, _)| known == print) {
                Some((_, log)) => log.answered.push(as_of.partition),
                None => {
                    let name = print.0.iter().map(|byte| format!("{byte:02x}")).collect();
                    logs.push((*print, Log { log: name, answered: vec![as_of.partition], of: *of }));
                }
            }
        }
        let mut logs: Vec<Log> = logs.into_iter().map(|(_, log)| log).collect();
        for log in &mut logs {
            log.answered.sort_unstable();
            log.answered.dedup();
        }
        let incomplete = merged.answer.incomplete || logs.iter().any(|log| log.answered.len() < log.of as usize);
        Self { incomplete, logs: Some(logs), ..Self::found(aggregate, statistic, merged.answer) }
    }

    fn found(aggregate: &str, statistic: &str, answer: AggregateAnswer) -> Self {
        Self {
            aggregate: aggregate.to_owned(),
            statistic: statistic.to_owned(),
            decay: answer.decay.to_string(),
            found: answer.result.into(),
            incomplete: answer.incomplete,
            as_of: answer.as_of.into_iter().map(AsOf::from).collect(),
            partitions: None,
            logs: None,
        }
    }
}

impl From<AggregateResult> for Found {
    fn from(result: AggregateResult) -> Self {
        match result {
            AggregateResult::Number(None) => Self { value: Some(None), ..Self::default() },
            AggregateResult::Number(Some(estimate)) => {
                let Number { value, lower, upper, guarantee, evidence } = estimate.into();
                Self {
                    value: Some(Some(value)),
                    lower: Some(lower),
                    upper: Some(upper),
                    guarantee: Some(guarantee),
                    evidence: Some(evidence),
                    ..Self::default()
                }
            }
            AggregateResult::Quantiles(quantiles) => {
                Self { quantiles: Some(quantiles.into_iter().map(Quantile::from).collect()), ..Self::default() }
            }
            AggregateResult::Top { items, total, mode, guarantee } => Self {
                items: Some(items.into_iter().map(Item::from).collect()),
                total: Some(total.into()),
                mode: Some(match mode {
                    TopMode::NoFalsePositives => "no-false-positives",
                    TopMode::NoFalseNegatives => "no-false-negatives",
                }),
                guarantee: Some(guarantee.into()),
                ..Self::default()
            },
        }
    }
}

impl From<Estimate> for Number {
    fn from(estimate: Estimate) -> Self {
        let Estimate { value, lower, upper, guarantee, evidence, .. } = estimate;
        Self { value, lower, upper, guarantee: guarantee.into(), evidence: evidence.into() }
    }
}

impl From<QuantileAnswer> for Quantile {
    fn from(quantile: QuantileAnswer) -> Self {
        let QuantileAnswer { phi, value, lower, upper, guarantee, evidence, .. } = quantile;
        Self { phi, number: Number { value, lower, upper, guarantee: guarantee.into(), evidence: evidence.into() } }
    }
}

impl From<TopAnswer> for Item {
    fn from(item: TopAnswer) -> Self {
        let (name, value) = match item.name {
            TopName::Text(text) => (Some(text.into_string()), None),
            TopName::Value(value) => (None, Some(value)),
            TopName::Label(label) => (Some(format!("#{label:032x}")), None),
        };
        Self { name, value, share: item.share, lower: item.lower, upper: item.upper }
    }
}

impl From<Guarantee> for Promise {
    fn from(guarantee: Guarantee) -> Self {
        match guarantee {
            Guarantee::Exact => Self { kind: "exact", epsilon: None, delta: None },
            Guarantee::Deterministic { epsilon } => Self { kind: "deterministic", epsilon: Some(epsilon), delta: None },
            Guarantee::Probabilistic { epsilon, delta } => {
                Self { kind: "probabilistic", epsilon: Some(epsilon), delta: Some(delta) }
            }
        }
    }
}

impl From<Evidence> for Basis {
    fn from(evidence: Evidence) -> Self {
        match evidence {
            Evidence::Level { level, elements } => Self::Level { level, elements },
            Evidence::Cells(cells) => Self::Cells { cells },
        }
    }
}
