//! Statistics of aggregates as JSON. An unknown bound is null, and so are the mean and the shares of no events.

use serde::Serialize;
use utoipa::ToSchema;

use super::super::position::{AsOfResponse, PartitionCoverage};
use super::query::{StatisticName, TopModeName};
use crate::workers::{MergedAnswer, Stream};
use ebb_core::{AggregateAnswer, AggregateResult, LogDigest, QuantileAnswer, TopAnswer, TopName};
use ebb_sketch::aggregate::answer::{Estimate, Evidence, Guarantee};

/// A statistic: a number, quantiles or top items.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct AggregateResponse {
    aggregate: String,
    #[schema(inline)]
    statistic: StatisticName,
    /// The decay that was applied.
    decay: String,
    #[serde(flatten)]
    result: StatisticResponse,
    /// For `last`: how many events there are in the window that was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_events: Option<EstimateResponse>,
    /// The event time at which the decay was applied.
    time_ms: i64,
    /// True if the error is larger than configured because the aggregate reached its memory budget; `guarantee` states the
    /// error in force.
    degraded: bool,
    /// True if part of the requested events is no longer kept or some partitions did not answer: the result covers the
    /// rest.
    incomplete: bool,
    /// One entry per partition.
    as_of: Vec<AsOfResponse>,
    /// The partitions that the result covers; absent for merged exports.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<PartitionCoverage>,
    /// For merged exports: the partitions of each log that the result covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<LogCoverage>>,
}

/// The partitions of a log that exports cover.
#[derive(Serialize, ToSchema)]
struct LogCoverage {
    /// An opaque identifier of the log.
    log: String,
    answered: Vec<u32>,
    /// The number of partitions of the log.
    of: u32,
}

#[derive(Default, Serialize, ToSchema)]
struct StatisticResponse {
    /// Null for the mean and the shares of no events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    value: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guarantee: Option<GuaranteeResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<EvidenceResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantiles: Option<Vec<QuantileResponse>>,
    /// Largest share first.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<TopItemResponse>>,
    /// The total that the shares refer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<EstimateResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<TopModeName>,
}

/// An estimate and its bounds; an unknown bound is null.
#[derive(Serialize, ToSchema)]
struct EstimateResponse {
    #[schema(value_type = Option<f64>)]
    value: f64,
    #[schema(value_type = Option<f64>)]
    lower: f64,
    #[schema(value_type = Option<f64>)]
    upper: f64,
    guarantee: GuaranteeResponse,
    evidence: EvidenceResponse,
}

#[derive(Serialize, ToSchema)]
struct QuantileResponse {
    phi: f64,
    #[serde(flatten)]
    estimate: EstimateResponse,
}

/// A top item: a text, or a value if the aggregate has no `top` field.
#[derive(Serialize, ToSchema)]
struct TopItemResponse {
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

/// How reliable the bounds are: `exact`, `deterministic`, or `probabilistic`, which hold with probability 1 - delta.
#[derive(Serialize, ToSchema)]
struct GuaranteeResponse {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
}

/// The part of the sketch that the estimate was computed from.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum EvidenceResponse {
    Level { level: u8, elements: u64 },
    Cells { cells: u64 },
}

impl AggregateResponse {
    pub(super) fn from_stream(
        stream: &Stream,
        (aggregate, statistic): (&str, StatisticName),
        answer: AggregateAnswer,
    ) -> Self {
        let partitions = PartitionCoverage::of_positions(&answer.as_of, stream);
        let incomplete = answer.incomplete || !partitions.is_complete();
        Self { incomplete, partitions: Some(partitions), ..Self::from_answer(aggregate, statistic, answer) }
    }

    pub(super) fn from_exports((aggregate, statistic): (&str, StatisticName), merged: MergedAnswer) -> Self {
        let positions = merged.logs.iter().zip(&merged.answer.as_of);
        let mut logs: Vec<(LogDigest, LogCoverage)> = Vec::new();
        for ((digest, of), as_of) in positions {
            match logs.iter_mut().find(|(known, _)| known == digest) {
                Some((_, log)) => log.answered.push(as_of.partition),
                None => {
                    let log = digest.0.iter().map(|byte| format!("{byte:02x}")).collect();
                    logs.push((*digest, LogCoverage { log, answered: vec![as_of.partition], of: *of }));
                }
            }
        }
        let mut logs: Vec<LogCoverage> = logs.into_iter().map(|(_, log)| log).collect();
        for log in &mut logs {
            log.answered.sort_unstable();
            log.answered.dedup();
        }
        let incomplete = merged.answer.incomplete || logs.iter().any(|log| log.answered.len() < log.of as usize);
        Self { incomplete, logs: Some(logs), ..Self::from_answer(aggregate, statistic, merged.answer) }
    }

    fn from_answer(aggregate: &str, statistic: StatisticName, answer: AggregateAnswer) -> Self {
        Self {
            aggregate: aggregate.to_owned(),
            statistic,
            decay: answer.decay.to_string(),
            result: answer.result.into(),
            window_events: answer.window_events.map(EstimateResponse::from),
            time_ms: answer.time_ms,
            degraded: answer.degraded,
            incomplete: answer.incomplete,
            as_of: answer.as_of.into_iter().map(AsOfResponse::from).collect(),
            partitions: None,
            logs: None,
        }
    }
}

impl From<AggregateResult> for StatisticResponse {
    fn from(result: AggregateResult) -> Self {
        match result {
            AggregateResult::Number(None) => Self { value: Some(None), ..Self::default() },
            AggregateResult::Number(Some(estimate)) => {
                let EstimateResponse { value, lower, upper, guarantee, evidence } = estimate.into();
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
                Self { quantiles: Some(quantiles.into_iter().map(QuantileResponse::from).collect()), ..Self::default() }
            }
            AggregateResult::Top { items, total, mode, guarantee } => Self {
                items: Some(items.into_iter().map(TopItemResponse::from).collect()),
                total: Some(total.into()),
                mode: Some(mode.into()),
                guarantee: Some(guarantee.into()),
                ..Self::default()
            },
        }
    }
}

impl From<Estimate> for EstimateResponse {
    fn from(estimate: Estimate) -> Self {
        let Estimate { value, lower, upper, guarantee, evidence, .. } = estimate;
        Self { value, lower, upper, guarantee: guarantee.into(), evidence: evidence.into() }
    }
}

impl From<QuantileAnswer> for QuantileResponse {
    fn from(quantile: QuantileAnswer) -> Self {
        let QuantileAnswer { phi, value, lower, upper, guarantee, evidence, .. } = quantile;
        let (guarantee, evidence) = (guarantee.into(), evidence.into());
        Self { phi, estimate: EstimateResponse { value, lower, upper, guarantee, evidence } }
    }
}

impl From<TopAnswer> for TopItemResponse {
    fn from(item: TopAnswer) -> Self {
        let (name, value) = match item.name {
            TopName::Text(text) => (Some(text.into_string()), None),
            TopName::Value(value) => (None, Some(value)),
            TopName::Label(label) => (Some(format!("#{label:032x}")), None),
        };
        Self { name, value, share: item.share, lower: item.lower, upper: item.upper }
    }
}

impl From<Guarantee> for GuaranteeResponse {
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

impl From<Evidence> for EvidenceResponse {
    fn from(evidence: Evidence) -> Self {
        match evidence {
            Evidence::Level { level, elements } => Self::Level { level, elements },
            Evidence::Cells(cells) => Self::Cells { cells },
        }
    }
}
