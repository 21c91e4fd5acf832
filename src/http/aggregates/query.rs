//! Query parameters of aggregates, and which of them each operation accepts.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::{Deserialize, Serialize};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::super::fields::{AtLeastField, query_partition};
use super::super::problem::{Problem, ProblemKind};
use super::super::routes::parse_query;
use crate::workers::{AtLeast, Stream};
use ebb_core::{KeyScope, QueryTime, Statistic};
use ebb_sketch::aggregate::MAX_TIME_MS;
use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::aggregate::predicate::PredicateError;
use ebb_sketch::decay::{Decay, DecayError};

/// Maximum number of quantiles of one question.
const MAX_PHIS: usize = 100;

/// A statistic of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StatisticName {
    Sum,
    Count,
    Mean,
    Quantiles,
    Rank,
    Top,
    Share,
    Distinct,
}

impl StatisticName {
    pub(crate) const ALL: [Self; 8] =
        [Self::Sum, Self::Count, Self::Mean, Self::Quantiles, Self::Rank, Self::Top, Self::Share, Self::Distinct];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Count => "count",
            Self::Mean => "mean",
            Self::Quantiles => "quantiles",
            Self::Rank => "rank",
            Self::Top => "top",
            Self::Share => "share",
            Self::Distinct => "distinct",
        }
    }

    /// The parameters that belong to this statistic alone.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Sum | Self::Count | Self::Mean | Self::Distinct => &[],
            Self::Quantiles => &["phi"],
            Self::Rank => &["value"],
            Self::Top => &["phi", "mode"],
            Self::Share => &["where"],
        }
    }
}

/// The query parameters of all operations on aggregates.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct AggregateQuery {
    /// How old events lose weight: `window:1h`, `exponential:half_life=10m`, `exponential:rate=0.01` (per second),
    /// `polynomial:alpha=1.5,unit=1s`, `gaussian:sigma=10m`, `logarithmic:unit=1m` or `table:0s=1,1m=0.5,1h=0`. The
    /// default is the configured decay, or the whole horizon.
    #[param(format = "ebb-decay", example = "window:1m")]
    decay: Option<String>,
    /// The event time at which the decay is applied, if the newest event is not later: an idle stream decays. Milliseconds
    /// since 1970, or a time such as `2026-11-18T05:00:00Z`. The default is the time of the newest event.
    #[param(format = "ebb-time")]
    now: Option<String>,
    /// The event time at which the decay is applied, in the past too: later events are left out (`robust` and `cascade`).
    /// Written like `now`, and instead of it.
    #[param(format = "ebb-time")]
    as_of: Option<String>,
    /// Instead of `decay`: only the newest events, about this many by their weight (`robust`, `cascade` and `levels`). They
    /// are found as a window of time, which the answer names.
    #[param(value_type = Option<u64>, minimum = 1)]
    last: Option<String>,
    /// Only events of this key, if the aggregate is kept by key.
    key: Option<String>,
    /// Only events of keys without a sketch of their own.
    #[param(inline)]
    part: Option<PartName>,
    /// The only partition to ask.
    #[serde(default, deserialize_with = "query_partition")]
    #[param(maximum = 2147483647)]
    partition: Option<u32>,
    /// Delays the answer until the log is processed up to and including an offset: `17`, or by partition `0:17,3:5`.
    #[param(value_type = Option<String>, format = "ebb-at-least")]
    at_least: Option<AtLeastField>,
    /// Required for `quantiles`: the shares of the events that lie below the quantiles, separated by commas. Required for
    /// `top`: the minimum share of an item.
    #[param(style = Form, explode = false, min_items = 1, max_items = 100, value_type = Vec<Phi>, required = false)]
    phi: Option<String>,
    /// Required for `rank`: the largest value of the events to count.
    #[param(value_type = Option<f64>)]
    value: Option<String>,
    /// Required for `share`: comparisons of value or weight, joined by `and`, `or`, `not` and parentheses, such as
    /// `value >= 0.25 and not (weight < 5 or value = 7)`.
    #[param(format = "ebb-predicate")]
    r#where: Option<String>,
    /// For `top`: whether the result may contain items slightly below `phi` (`no-false-negatives`, the default) or may
    /// omit items slightly above it.
    #[param(inline)]
    mode: Option<TopModeName>,
}

/// Events of an aggregate that have no key of their own.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum PartName {
    Other,
}

/// Which errors of a list of top items are excluded.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TopModeName {
    NoFalseNegatives,
    NoFalsePositives,
}

impl From<TopMode> for TopModeName {
    fn from(mode: TopMode) -> Self {
        match mode {
            TopMode::NoFalseNegatives => Self::NoFalseNegatives,
            TopMode::NoFalsePositives => Self::NoFalsePositives,
        }
    }
}

impl From<TopModeName> for TopMode {
    fn from(mode: TopModeName) -> Self {
        match mode {
            TopModeName::NoFalseNegatives => Self::NoFalseNegatives,
            TopModeName::NoFalsePositives => Self::NoFalsePositives,
        }
    }
}

/// The schema of one share in `phi`.
#[derive(Debug)]
pub(in crate::http) struct Phi;

impl PartialSchema for Phi {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0.0)).maximum(Some(1.0)).build().into()
    }
}

impl ToSchema for Phi {}

/// The parameters that select events.
const SELECTION: [&str; 4] = ["key", "part", "partition", "at_least"];

/// The parameters of every statistic.
const COMMON: [&str; 4] = ["decay", "last", "now", "as_of"];

/// The parameters of an export, which contains everything the aggregate keeps of the selected events.
pub(super) struct ExportParams;

impl IntoParams for ExportParams {
    fn into_params(parameter_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let all = AggregateQuery::into_params(parameter_in).into_iter();
        all.filter(|parameter| SELECTION.contains(&parameter.name.as_str())).collect()
    }
}

/// The parameters of a merge, whose events were selected when the exports were made.
pub(super) struct MergeParams;

impl IntoParams for MergeParams {
    fn into_params(parameter_in: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let all = AggregateQuery::into_params(parameter_in).into_iter();
        all.filter(|parameter| !SELECTION.contains(&parameter.name.as_str())).collect()
    }
}

/// The events that an operation covers, and the position it waits for.
pub(super) struct EventSelection {
    /// A key may be a JSON string or another JSON value in events: the alternatives are tried in order.
    pub(super) scopes: Vec<KeyScope>,
    pub(super) partition: Option<u32>,
    pub(super) at_least: AtLeast,
}

impl AggregateQuery {
    pub(super) fn parse(query: Result<Query<Self>, QueryRejection>) -> Result<Self, Problem> {
        parse_query(query)
    }

    pub(super) fn selection(&mut self, stream: &Stream) -> Result<EventSelection, Problem> {
        let scopes = self.key_scopes(stream)?;
        let at_least = AtLeastField::or_anywhere(self.at_least.take());
        Ok(EventSelection { scopes, partition: self.partition, at_least })
    }

    pub(super) fn decay(&self) -> Result<Option<Decay>, Problem> {
        let parsed = self.decay.as_deref().map(str::parse).transpose();
        parsed.map_err(|error: DecayError| {
            let kind = match error {
                DecayError::Unknown(_) => ProblemKind::InvalidQuery,
                DecayError::EmptyWindow
                | DecayError::NotPositive(_)
                | DecayError::TableShape { .. }
                | DecayError::TableStart
                | DecayError::TableRises(_) => ProblemKind::Unanswerable,
            };
            Problem::new(kind, format!("decay: {error}"))
        })
    }

    /// The number of newest events to cover.
    pub(super) fn last(&self) -> Result<Option<u64>, Problem> {
        let Some(last) = &self.last else { return Ok(None) };
        let invalid = |detail: &'static str| Err(Problem::new(ProblemKind::InvalidQuery, detail));
        match last.parse::<u64>() {
            Ok(events) if i64::try_from(events).is_err() => {
                invalid("last: the largest number of events is 9223372036854775807")
            }
            Ok(_) if self.decay.is_some() => invalid("last= is a window of its own: leave out decay="),
            Ok(events) if events > 0 => Ok(Some(events)),
            _ => invalid("last: expected a number of events, such as 1000"),
        }
    }

    pub(super) fn time(&self) -> Result<QueryTime, Problem> {
        match (&self.now, &self.as_of) {
            (None, None) => Ok(QueryTime::Newest),
            (Some(now), None) => Ok(QueryTime::NotBefore(parse_time("now", now)?)),
            (None, Some(as_of)) => Ok(QueryTime::At(parse_time("as_of", as_of)?)),
            (Some(_), Some(_)) => {
                let detail = "now= and as_of= both set the time of the question: send one of them";
                Err(Problem::new(ProblemKind::InvalidQuery, detail))
            }
        }
    }

    fn key_scopes(&self, stream: &Stream) -> Result<Vec<KeyScope>, Problem> {
        match (&self.key, self.part) {
            (None, None) => Ok(vec![KeyScope::Whole]),
            (Some(key), None) => Ok(stream.reader().key_fingerprints(key).into_iter().map(KeyScope::Key).collect()),
            (None, Some(PartName::Other)) => Ok(vec![KeyScope::Other]),
            (Some(_), Some(PartName::Other)) => {
                let detail = "events in `other` are not kept by key: send key= or part=other, not both";
                Err(Problem::new(ProblemKind::Unanswerable, detail))
            }
        }
    }

    /// The statistic with its parameters.
    pub(in crate::http) fn statistic(&self, name: StatisticName) -> Result<Statistic, Problem> {
        let is_accepted = |parameter: &str| {
            COMMON.contains(&parameter) || SELECTION.contains(&parameter) || name.parameters().contains(&parameter)
        };
        self.refuse_unless(is_accepted, name.as_str())?;
        let required = |value: &Option<String>, parameter: &str, example: &str| {
            let detail = || format!("{} needs {parameter}=, such as {example}", name.as_str());
            value.clone().ok_or_else(|| Problem::new(ProblemKind::InvalidQuery, detail()))
        };
        Ok(match name {
            StatisticName::Sum => Statistic::Sum,
            StatisticName::Count => Statistic::Count,
            StatisticName::Mean => Statistic::Mean,
            StatisticName::Distinct => Statistic::Distinct,
            StatisticName::Quantiles => Statistic::Quantiles(parse_phis(&required(&self.phi, "phi", "phi=0.5")?)?),
            StatisticName::Rank => {
                let value = parse_number(&required(&self.value, "value", "value=10")?);
                let invalid =
                    || Problem::new(ProblemKind::InvalidQuery, "value: expected a number, such as 10 or 0.25");
                Statistic::Rank(value.ok_or_else(invalid)?)
            }
            StatisticName::Share => {
                let text = required(&self.r#where, "where", "where=value >= 10")?;
                let invalid =
                    |error: PredicateError| Problem::new(ProblemKind::InvalidQuery, format!("where: {error}"));
                Statistic::Share(text.parse().map_err(invalid)?)
            }
            StatisticName::Top => match parse_phis(&required(&self.phi, "phi", "phi=0.5")?)?.as_slice() {
                [phi] => {
                    let mode = self.mode.unwrap_or(TopModeName::NoFalseNegatives).into();
                    Statistic::Top { phi: *phi, mode }
                }
                _ => return Err(Problem::new(ProblemKind::InvalidQuery, "top takes one phi=, such as 0.05")),
            },
        })
    }

    /// An export has no decay and no statistic: they are chosen when it is merged.
    pub(super) fn require_export(&self) -> Result<(), Problem> {
        self.refuse_unless(|parameter| SELECTION.contains(&parameter), "an export")
    }

    /// An export of merged exports covers what they cover.
    pub(super) fn require_none(&self) -> Result<(), Problem> {
        self.refuse_unless(|_| false, "an export of merged exports")
    }

    /// The events of a merge were selected when the exports were made.
    pub(super) fn require_merge(&self) -> Result<(), Problem> {
        self.refuse_unless(
            |parameter| !SELECTION.contains(&parameter),
            "a merge, which covers the events of its exports",
        )
    }

    /// Refuses parameters that would be ignored.
    fn refuse_unless(&self, is_accepted: impl Fn(&str) -> bool, operation: &str) -> Result<(), Problem> {
        let present = [
            ("decay", self.decay.is_some()),
            ("last", self.last.is_some()),
            ("now", self.now.is_some()),
            ("as_of", self.as_of.is_some()),
            ("key", self.key.is_some()),
            ("part", self.part.is_some()),
            ("partition", self.partition.is_some()),
            ("at_least", self.at_least.is_some()),
            ("phi", self.phi.is_some()),
            ("value", self.value.is_some()),
            ("where", self.r#where.is_some()),
            ("mode", self.mode.is_some()),
        ];
        match present.iter().find(|(parameter, is_present)| *is_present && !is_accepted(parameter)) {
            None => Ok(()),
            Some((parameter, _)) => {
                let detail = format!("{parameter}= has no meaning for {operation}; leave it out");
                Err(Problem::new(ProblemKind::InvalidQuery, detail))
            }
        }
    }
}

/// A finite JSON number: Rust's parser also accepts `inf`, `NaN` and `+1`.
fn parse_number(text: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Number>(text).ok()?.as_f64().filter(|number| number.is_finite())
}

/// Milliseconds since 1970, or an RFC 3339 time.
fn parse_time(parameter: &str, text: &str) -> Result<i64, Problem> {
    let whole = text.parse().ok();
    let time_ms = whole.or_else(|| text.parse().ok().map(|time: jiff::Timestamp| time.as_millisecond()));
    time_ms.filter(|time_ms: &i64| time_ms.unsigned_abs() <= MAX_TIME_MS as u64).ok_or_else(|| {
        let detail = format!("{parameter}: expected milliseconds since 1970, or a time such as 2026-11-18T05:00:00Z");
        Problem::new(ProblemKind::InvalidQuery, detail)
    })
}

fn parse_phis(text: &str) -> Result<Vec<f64>, Problem> {
    let phis: Option<Vec<f64>> = text.split(',').map(parse_number).collect();
    phis.filter(|phis| phis.len() <= MAX_PHIS && phis.iter().all(|phi| (0.0..=1.0).contains(phi))).ok_or_else(|| {
        let detail = format!("phi: expected up to {MAX_PHIS} numbers from 0 to 1, such as 0.5,0.99");
        Problem::new(ProblemKind::InvalidQuery, detail)
    })
}
