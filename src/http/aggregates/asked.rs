//! Questions to aggregates, as queries: what every statistic takes, and what only some do.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::frequency::{read_at_least, read_partition};
use super::super::problem::{Kind, Problem};
use crate::workers::{AtLeast, Stream};
use ebb_core::{KeyScope, Statistic};
use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::decay::{Decay, DecayError};

/// Quantiles of one question.
const MOST_PHIS: usize = 100;

/// What can be asked of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Wanted {
    Sum,
    Count,
    Mean,
    Quantiles,
    Rank,
    Top,
    Share,
}

impl Wanted {
    pub(in crate::http) const ALL: [Self; 7] =
        [Self::Sum, Self::Count, Self::Mean, Self::Quantiles, Self::Rank, Self::Top, Self::Share];

    pub(in crate::http) fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Count => "count",
            Self::Mean => "mean",
            Self::Quantiles => "quantiles",
            Self::Rank => "rank",
            Self::Top => "top",
            Self::Share => "share",
        }
    }
}

/// The query of any question.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Asked {
    decay: Option<String>,
    key: Option<String>,
    part: Option<String>,
    partition: Option<String>,
    at_least: Option<String>,
    phi: Option<String>,
    value: Option<String>,
    r#where: Option<String>,
    mode: Option<String>,
}

/// Of which events, and up to where in the log.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described: `Asked` is read")]
pub(super) struct PartParams {
    /// Only events of this key, where the aggregate is kept by key.
    key: Option<String>,
    /// Only events of keys that have no place of their own.
    #[param(value_type = Option<OnlyOther>, inline)]
    part: Option<String>,
    /// The only partition to be asked.
    #[param(maximum = 2147483647)]
    partition: Option<u32>,
    /// Waits until the log is folded up to and with an offset: `17`, or by partition `0:17,3:5`.
    #[param(format = "ebb-at-least")]
    at_least: Option<String>,
}

/// How old events fade.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described: `Asked` is read")]
pub(super) struct DecayParam {
    /// `window:1h`, `exponential:half_life=10m`, `exponential:rate=0.01` (per second), `polynomial:alpha=1.5,unit=1s` or
    /// `table:0s=1,1m=0.5,1h=0`; otherwise the configured one, or the whole horizon.
    #[param(format = "ebb-decay", example = "window:1m")]
    decay: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described: `Asked` is read")]
pub(super) struct PhisParam {
    /// The values below which these shares of the events lie, separated by commas.
    #[param(style = Form, explode = false, min_items = 1, max_items = 100, value_type = Vec<Phi>, example = json!([0.5, 0.99]))]
    phi: Vec<f64>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described: `Asked` is read")]
pub(super) struct TopParams {
    /// What makes up at least this share.
    #[param(value_type = Phi, inline, example = json!(0.05))]
    phi: f64,
    /// Which mistakes are borne: items a little below `phi` (the default), or some just above it left out.
    #[param(value_type = Option<Mode>, inline)]
    mode: Option<String>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described: `Asked` is read")]
pub(super) struct ValueParam {
    /// The share of the events up to this value.
    #[param(example = json!(0.05))]
    value: f64,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described: `Asked` is read")]
pub(super) struct WhereParam {
    /// Comparisons of value or weight, joined by `and`, `or` and parentheses: `value >= 0.25 and (weight < 5 or value = 7)`.
    #[param(format = "ebb-predicate", example = "value >= 0.25")]
    r#where: String,
}

/// A text that can only be one of a few, or a number within bounds.
macro_rules! described {
    ($name:ident: $builder:expr) => {
        #[derive(Debug)]
        pub(in crate::http) struct $name;

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $builder.build().into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

fn object(of: utoipa::openapi::schema::Type) -> utoipa::openapi::ObjectBuilder {
    utoipa::openapi::ObjectBuilder::new().schema_type(of)
}

described!(OnlyOther: object(utoipa::openapi::schema::Type::String).enum_values(Some(["other"])));
described!(Mode: object(utoipa::openapi::schema::Type::String)
    .enum_values(Some(["no-false-negatives", "no-false-positives"])));
described!(Phi: object(utoipa::openapi::schema::Type::Number).minimum(Some(0.0)).maximum(Some(1.0)));

/// What a question asks, besides of which aggregate.
pub(super) struct Question {
    pub(super) decay: Option<Decay>,
    pub(super) parts: Vec<KeyScope>,
    pub(super) partition: Option<u32>,
    pub(super) at_least: AtLeast,
}

impl Asked {
    pub(super) fn read(asked: Result<Query<Self>, QueryRejection>) -> Result<Self, Problem> {
        let Query(asked) = asked.map_err(|error| Problem::new(Kind::InvalidQuery, error.body_text()))?;
        Ok(asked)
    }

    pub(super) fn question(&self, stream: &Stream) -> Result<Question, Problem> {
        Ok(Question {
            decay: self.decay()?,
            parts: self.parts(stream)?,
            partition: read_partition(self.partition.as_deref())?,
            at_least: read_at_least(self.at_least.as_deref())?,
        })
    }

    fn decay(&self) -> Result<Option<Decay>, Problem> {
        let parsed = self.decay.as_deref().map(str::parse).transpose();
        parsed.map_err(|error: DecayError| {
            let kind = match error {
                DecayError::Unknown(_) => Kind::InvalidQuery,
                DecayError::EmptyWindow
                | DecayError::NotPositive(_)
                | DecayError::TableShape { .. }
                | DecayError::TableStart
                | DecayError::TableRises(_) => Kind::Unanswerable,
            };
            Problem::new(kind, format!("decay: {error}"))
        })
    }

    fn parts(&self, stream: &Stream) -> Result<Vec<KeyScope>, Problem> {
        match (&self.key, self.part.as_deref()) {
            (None, None) => Ok(vec![KeyScope::Whole]),
            (Some(key), None) => Ok(stream.reader().key_fingerprints(key).into_iter().map(KeyScope::Key).collect()),
            (None, Some("other")) => Ok(vec![KeyScope::Other]),
            (Some(_), Some("other")) => {
                let detail = "other does not know whose its events are: ask for a key or for part=other, not for both";
                Err(Problem::new(Kind::Unanswerable, detail))
            }
            (_, Some(_)) => Err(Problem::new(Kind::InvalidQuery, "part: the only part without a key is other")),
        }
    }

    /// The statistic with what it needs, and nothing that it does not.
    pub(in crate::http) fn statistic(&self, wanted: Wanted) -> Result<Statistic, Problem> {
        self.refuse_idle(wanted)?;
        let needed = |given: Option<&str>, needed: &str, example: &str| {
            let detail = || format!("{} needs {needed}=, such as {example}", wanted.name());
            given.map(str::to_owned).ok_or_else(|| Problem::new(Kind::InvalidQuery, detail()))
        };
        Ok(match wanted {
            Wanted::Sum => Statistic::Sum,
            Wanted::Count => Statistic::Count,
            Wanted::Mean => Statistic::Mean,
            Wanted::Quantiles => Statistic::Quantiles(phis(&needed(self.phi.as_deref(), "phi", "phi=0.5")?)?),
            Wanted::Rank => {
                let value = number(&needed(self.value.as_deref(), "value", "value=10")?);
                let refused = || Problem::new(Kind::InvalidQuery, "value: write a number, such as 10 or 0.25");
                Statistic::Rank(value.ok_or_else(refused)?)
            }
            Wanted::Share => {
                let text = needed(self.r#where.as_deref(), "where", "where=value >= 10")?;
                let refused = |error| Problem::new(Kind::InvalidQuery, format!("where: {error}"));
                Statistic::Share(
                    text.parse().map_err(|error: ebb_sketch::aggregate::predicate::PredicateError| refused(error))?,
                )
            }
            Wanted::Top => match phis(&needed(self.phi.as_deref(), "phi", "phi=0.5")?)?.as_slice() {
                [phi] => Statistic::Top { phi: *phi, mode: self.mode()? },
                _ => return Err(Problem::new(Kind::InvalidQuery, "top takes one phi=, such as 0.05")),
            },
        })
    }

    fn refuse_idle(&self, wanted: Wanted) -> Result<(), Problem> {
        let takes: &[&str] = match wanted {
            Wanted::Quantiles => &["phi"],
            Wanted::Rank => &["value"],
            Wanted::Share => &["where"],
            Wanted::Top => &["phi", "mode"],
            Wanted::Sum | Wanted::Count | Wanted::Mean => &[],
        };
        self.refuse_but(takes, wanted.name())
    }

    /// An export is of everything; what is asked of it is asked later.
    pub(super) fn refuse_statistic(&self) -> Result<(), Problem> {
        if self.decay.is_some() {
            return Err(Problem::new(Kind::InvalidQuery, "decay= has no meaning for an export; leave it out"));
        }
        self.refuse_but(&[], "an export")
    }

    /// Exports are what they are; of which events was decided when they were made.
    pub(super) fn refuse_part(&self) -> Result<(), Problem> {
        let given =
            [("key", &self.key), ("part", &self.part), ("partition", &self.partition), ("at_least", &self.at_least)];
        match given.iter().find(|(_, given)| given.is_some()) {
            None => Ok(()),
            Some((idle, _)) => {
                let detail = format!("{idle}= belongs to the exports; leave it out");
                Err(Problem::new(Kind::InvalidQuery, detail))
            }
        }
    }

    fn refuse_but(&self, takes: &[&str], name: &str) -> Result<(), Problem> {
        let given = [("phi", &self.phi), ("value", &self.value), ("where", &self.r#where), ("mode", &self.mode)];
        match given.iter().find(|(key, given)| given.is_some() && !takes.contains(key)) {
            None => Ok(()),
            Some((idle, _)) => {
                Err(Problem::new(Kind::InvalidQuery, format!("{idle}= has no meaning for {name}; leave it out")))
            }
        }
    }

    fn mode(&self) -> Result<TopMode, Problem> {
        match self.mode.as_deref() {
            None | Some("no-false-negatives") => Ok(TopMode::NoFalseNegatives),
            Some("no-false-positives") => Ok(TopMode::NoFalsePositives),
            Some(_) => Err(Problem::new(Kind::InvalidQuery, "mode: write no-false-negatives or no-false-positives")),
        }
    }
}

/// A finite number as JSON has them: Rust's own reading also takes `inf`, `NaN` and `+1`.
fn number(text: &str) -> Option<f64> {
    serde_json::from_str::<serde_json::Number>(text).ok()?.as_f64().filter(|number| number.is_finite())
}

fn phis(text: &str) -> Result<Vec<f64>, Problem> {
    let phis: Option<Vec<f64>> = text.split(',').map(number).collect();
    phis.filter(|phis| phis.len() <= MOST_PHIS && phis.iter().all(|phi| (0.0..=1.0).contains(phi))).ok_or_else(|| {
        let detail = format!("phi: write up to {MOST_PHIS} numbers from 0 to 1, such as 0.5,0.99");
        Problem::new(Kind::InvalidQuery, detail)
    })
}
