//! Named aggregates: `GET /v1/streams/{stream}/aggregates/{aggregate}/{statistic}`.
//!
//! What is asked stands in the query: `decay`, `key` or `part=other`, and what the statistic needs. Bounds that are not
//! known are null, and so are the mean and the shares of nothing.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::body::json;
use super::decision::AsOf;
use super::problem::{Kind, Problem};
use super::routes::Api;
use crate::decay::Decay;
use crate::shard::{
    AggregateAnswer, AggregateError, AggregateQuestion, AggregateResult, Part, QuantileAnswer, Statistic, TopAnswer,
    TopName,
};
use crate::sketch::answer::{Estimate, Evidence, Guarantee, TopMode};
use crate::workers::{AggregateAskError, Stream};

/// Quantiles of one question.
const MOST_PHIS: usize = 100;

/// The query of a question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    decay: Option<String>,
    key: Option<String>,
    part: Option<String>,
    /// One, or for quantiles several, separated by commas.
    phi: Option<String>,
    value: Option<f64>,
    r#where: Option<String>,
    mode: Option<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    aggregate: &'a str,
    statistic: &'a str,
    decay: String,
    #[serde(flatten)]
    result: Found,
    incomplete: bool,
    as_of: Vec<AsOf>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Found {
    Nothing { value: Option<f64> },
    Number(Number),
    Quantiles { quantiles: Vec<Quantile> },
    Top { items: Vec<Item>, total: Number, mode: &'static str, guarantee: Promise },
}

#[derive(Serialize)]
struct Number {
    value: f64,
    lower: f64,
    upper: f64,
    guarantee: Promise,
    evidence: Basis,
}

#[derive(Serialize)]
struct Quantile {
    phi: f64,
    #[serde(flatten)]
    number: Number,
}

#[derive(Serialize)]
struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    share: f64,
    lower: f64,
    upper: f64,
}

#[derive(Serialize)]
struct Promise {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<f64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Basis {
    Level { level: u8, elements: u64 },
    Cells { cells: u64 },
}

pub(super) async fn answer(
    State(api): State<Arc<Api>>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Path((stream, aggregate, statistic)) = path
        .map_err(|_| Problem::new(Kind::InvalidPath, "names in a path are UTF-8 text, percent-encoded where needed"))?;
    let (_, stream) = api.stream(Ok(Path(stream)))?;
    // Before the query: what a statistic needs is no use for an aggregate that is not there.
    stream.plan().aggregate(&aggregate)?;
    let Query(asked) = asked.map_err(|error| Problem::new(Kind::InvalidQuery, error.body_text()))?;
    let (decay, wanted) = (asked.decay()?, asked.statistic(&statistic)?);
    let parts = asked.parts(stream)?;
    api.require_ready()?;
    let answered = timeout(
        api.limits.request_timeout,
        first_known(stream, parts, |part| AggregateQuestion {
            aggregate: aggregate.clone(),
            part,
            decay: decay.clone(),
            statistic: wanted.clone(),
        }),
    );
    match answered.await {
        Ok(answer) => Ok(json(&Answer::of(&aggregate, &statistic, answer?))),
        Err(_) => Err(Problem::new(Kind::AnswerTimeout, "the service is overloaded; ask again later")),
    }
}

/// A key may stand in events with quotes or without: the first that is known answers.
async fn first_known(
    stream: &Stream,
    parts: Vec<Part>,
    question: impl Fn(Part) -> AggregateQuestion,
) -> Result<AggregateAnswer, AggregateAskError> {
    let mut answered = Err(AggregateAskError::Refused(AggregateError::NoSuchKey));
    for part in parts {
        answered = stream.aggregate(question(part)).await;
        if !matches!(answered, Err(AggregateAskError::Refused(AggregateError::NoSuchKey))) {
            break;
        }
    }
    answered
}

impl Asked {
    fn decay(&self) -> Result<Option<Decay>, Problem> {
        let parsed = self.decay.as_deref().map(str::parse).transpose();
        parsed.map_err(|error: crate::decay::DecayError| Problem::new(Kind::InvalidQuery, format!("decay: {error}")))
    }

    fn parts(&self, stream: &Stream) -> Result<Vec<Part>, Problem> {
        match (&self.key, self.part.as_deref()) {
            (None, None) => Ok(vec![Part::Whole]),
            (None, Some("other")) => Ok(vec![Part::Other]),
            (Some(key), None) => {
                let reader = stream.reader();
                let keys = [Some(reader.key_of_text(key)), reader.key_of_bare(key)];
                Ok(keys.into_iter().flatten().map(Part::Key).collect())
            }
            (None, Some(_)) => Err(Problem::new(Kind::InvalidQuery, "part: the only part without a key is other")),
            (Some(_), Some(_)) => {
                Err(Problem::new(Kind::InvalidQuery, "ask for a key or for part=other, not for both"))
            }
        }
    }

    fn statistic(&self, name: &str) -> Result<Statistic, Problem> {
        let takes = match name {
            "quantiles" => vec![("phi", self.phi.is_some())],
            "rank" => vec![("value", self.value.is_some())],
            "share" => vec![("where", self.r#where.is_some())],
            "top" => vec![("phi", self.phi.is_some()), ("mode", true)],
            "sum" | "count" | "mean" => Vec::new(),
            _ => {
                let detail = "the statistics are: sum, count, mean, quantiles, rank, top, share";
                return Err(Problem::new(Kind::UnknownPath, detail));
            }
        };
        if let Some((needed, _)) = takes.iter().find(|(_, given)| !given) {
            return Err(Problem::new(
                Kind::InvalidQuery,
                format!("{name} needs {needed}=, such as {}", example(needed)),
            ));
        }
        let given = [
            ("phi", self.phi.is_some()),
            ("value", self.value.is_some()),
            ("where", self.r#where.is_some()),
            ("mode", self.mode.is_some()),
        ];
        if let Some((idle, _)) =
            given.iter().find(|(key, given)| *given && !takes.iter().any(|(takes, _)| takes == key))
        {
            return Err(Problem::new(Kind::InvalidQuery, format!("{idle}= has no meaning for {name}; leave it out")));
        }
        self.read_statistic(name)
    }

    fn read_statistic(&self, name: &str) -> Result<Statistic, Problem> {
        Ok(match name {
            "sum" => Statistic::Sum,
            "count" => Statistic::Count,
            "mean" => Statistic::Mean,
            "quantiles" => Statistic::Quantiles(self.phis()?),
            "rank" => Statistic::Rank(self.value.unwrap_or_default()),
            "share" => {
                let predicate = self.r#where.as_deref().unwrap_or_default().parse();
                Statistic::Share(predicate.map_err(|error: crate::sketch::predicate::PredicateError| {
                    Problem::new(Kind::InvalidQuery, format!("where: {error}"))
                })?)
            }
            _ => match self.phis()?.as_slice() {
                [phi] => Statistic::Top { phi: *phi, mode: self.mode()? },
                _ => return Err(Problem::new(Kind::InvalidQuery, "top takes one phi=, such as 0.05")),
            },
        })
    }

    fn phis(&self) -> Result<Vec<f64>, Problem> {
        let phis: Result<Vec<f64>, _> = self.phi.as_deref().unwrap_or_default().split(',').map(str::parse).collect();
        phis.ok().filter(|phis| phis.len() <= MOST_PHIS).ok_or_else(|| {
            let detail = format!("phi: write up to {MOST_PHIS} numbers from 0 to 1, such as 0.5,0.99");
            Problem::new(Kind::InvalidQuery, detail)
        })
    }

    fn mode(&self) -> Result<TopMode, Problem> {
        match self.mode.as_deref() {
            None | Some("no-false-negatives") => Ok(TopMode::NoFalseNegatives),
            Some("no-false-positives") => Ok(TopMode::NoFalsePositives),
            Some(_) => Err(Problem::new(Kind::InvalidQuery, "mode: write no-false-negatives or no-false-positives")),
        }
    }
}

fn example(parameter: &str) -> &'static str {
    match parameter {
        "phi" => "phi=0.5",
        "value" => "value=10",
        _ => "where=value >= 10",
    }
}

impl From<AggregateAskError> for Problem {
    fn from(error: AggregateAskError) -> Self {
        match error {
            AggregateAskError::Stopping => Problem::new(Kind::Stopping, "ask again, elsewhere or later"),
            AggregateAskError::Refused(error) => error.into(),
        }
    }
}

impl From<AggregateError> for Problem {
    fn from(error: AggregateError) -> Self {
        let kind = match error {
            AggregateError::Unknown { .. } => Kind::UnknownAggregate,
            AggregateError::NoSuchKey => Kind::UnknownKey,
            AggregateError::NotByKey
            | AggregateError::NotKept { .. }
            | AggregateError::OtherDecay { .. }
            | AggregateError::Value(_)
            | AggregateError::Cells(_)
            | AggregateError::Sampled(_)
            | AggregateError::Statistic(_)
            | AggregateError::Mixed(_) => Kind::Unanswerable,
        };
        Problem::new(kind, error.to_string())
    }
}

impl<'a> Answer<'a> {
    fn of(aggregate: &'a str, statistic: &'a str, answer: AggregateAnswer) -> Self {
        let result = match answer.result {
            AggregateResult::Number(None) => Found::Nothing { value: None },
            AggregateResult::Number(Some(estimate)) => Found::Number(estimate.into()),
            AggregateResult::Quantiles(quantiles) => {
                Found::Quantiles { quantiles: quantiles.into_iter().map(Quantile::from).collect() }
            }
            AggregateResult::Top { items, total, mode, guarantee } => Found::Top {
                items: items.into_iter().map(Item::from).collect(),
                total: total.into(),
                mode: match mode {
                    TopMode::NoFalsePositives => "no-false-positives",
                    TopMode::NoFalseNegatives => "no-false-negatives",
                },
                guarantee: guarantee.into(),
            },
        };
        let as_of = answer.as_of.into_iter().map(AsOf::from).collect();
        Self { aggregate, statistic, decay: answer.decay.to_string(), result, incomplete: answer.incomplete, as_of }
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
