//! Comparison of the answers of one aggregate with exact ones.

use std::collections::BTreeMap;

use serde::Serialize;

use super::compare::{Comparison, decay_text, statistic_name, statistics};
use super::exact::{ExactAggregate, OBSERVATION_BYTES};
use super::statistic_check::{Moment, StatisticCheck};
use ebb_core::{AggregateAnswer, AggregateError, AggregateQuestion, AggregateSpec, KeyScope, QueryTime};
use ebb_sketch::decay::Decay;

/// One aggregate compared with exact answers.
#[derive(Debug, Serialize)]
pub struct AggregateReport {
    /// The name of the aggregate.
    pub name: String,
    /// The sketch method.
    pub method: &'static str,
    /// The configured error bound.
    pub epsilon: f64,
    /// Observations that an exact answer needs.
    pub observations: u64,
    /// Memory for these observations.
    pub exact_bytes: u64,
    /// Memory of the sketches.
    pub memory_bytes: u64,
    /// One check for each decay and statistic.
    pub checks: Vec<StatisticCheck>,
    /// Queries that the method refuses, with the reason.
    pub refused: BTreeMap<String, String>,
}

/// One aggregate with its exact observations and the results so far.
#[derive(Debug)]
pub struct AggregateCheck {
    pub exact: ExactAggregate,
    spec: AggregateSpec,
    decays: Vec<Decay>,
    checks: Vec<StatisticCheck>,
    refused: BTreeMap<String, String>,
}

impl AggregateCheck {
    /// Checks an aggregate under its own decay and under `decays`.
    pub fn new(spec: &AggregateSpec, decays: &[Decay]) -> Self {
        let parameters = spec.parameters();
        let own = parameters.decay.clone().or_else(|| Decay::window(parameters.horizon_ms).ok());
        let mut all: Vec<Decay> = Vec::new();
        for decay in own.into_iter().chain(decays.iter().cloned()) {
            if !all.contains(&decay) {
                all.push(decay);
            }
        }
        let exact = ExactAggregate::new(parameters);
        Self { exact, spec: spec.clone(), decays: all, checks: Vec::new(), refused: BTreeMap::new() }
    }

    /// Queries every statistic with `query` and compares the answers.
    pub fn compare(
        &mut self,
        moment: Moment,
        query: impl Fn(&AggregateSpec, &AggregateQuestion) -> Result<AggregateAnswer, AggregateError>,
    ) {
        self.exact.sort();
        for decay in self.decays.clone() {
            let mut answers = Vec::new();
            for statistic in statistics(self.spec.parameters()) {
                let question = AggregateQuestion {
                    aggregate: self.spec.name().to_owned(),
                    scope: KeyScope::Whole,
                    decay: Some(decay.clone()),
                    last: None,
                    time: QueryTime::Newest,
                    statistic,
                };
                match query(&self.spec, &question) {
                    Ok(answer) => answers.push((question.statistic, answer)),
                    Err(error) => {
                        let question = format!("{} {}", statistic_name(&question.statistic), decay_text(&decay));
                        self.refused.insert(question, error.to_string());
                    }
                }
            }
            if answers.is_empty() {
                continue;
            }
            let exact = self.exact.at(moment.time_ms, &decay);
            let decay = decay_text(&decay);
            let mut comparison = Comparison { checks: &mut self.checks, decay, exact: &exact, moment };
            answers.iter().for_each(|(statistic, answer)| comparison.add(statistic, answer));
        }
    }

    pub fn report(&self, memory_bytes: u64) -> AggregateReport {
        let parameters = self.spec.parameters();
        AggregateReport {
            name: self.spec.name().to_owned(),
            method: parameters.method.name(),
            epsilon: parameters.epsilon,
            observations: self.exact.len(),
            exact_bytes: self.exact.len() * OBSERVATION_BYTES,
            memory_bytes,
            checks: self.checks.clone(),
            refused: self.refused.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_core::{AggregateParameters, AggregateResult, Measure, Method, Selection, Weighting};
    use ebb_sketch::aggregate::answer::{Estimate, Evidence};

    #[test]
    fn decays_are_written_with_half_lives_and_round_units() {
        for text in ["window:10m", "exponential:half_life=1h30m", "polynomial:alpha=1.5,unit=1m", "table:0ms=1,1m=0"] {
            assert_eq!(decay_text(&text.parse().unwrap()), text);
        }
    }

    #[test]
    fn wrong_answer_is_counted_as_outside_its_bounds() {
        let given = AggregateParameters {
            name: "bytes".into(),
            of: Measure::Count,
            over: Selection::All,
            method: Method::Cascade,
            epsilon: 0.1,
            delta: 0.05,
            decay: None,
            horizon_ms: 60_000,
            keys: None,
            memory: None,
            top: None,
            step: 1.0,
            max: 1.0,
            weights: Weighting::Unit,
            seed: 1,
        };
        let mut checked = AggregateCheck::new(&AggregateSpec::new(given).unwrap(), &[]);
        for (value, moment) in [(0.0, 1), (2.0, 2)] {
            let estimate = Estimate::exact(value, Evidence::Cells(1));
            let answer = |_: &AggregateSpec, question: &AggregateQuestion| {
                let decay = question.decay.clone().unwrap();
                let result = AggregateResult::Number(Some(estimate));
                let (time_ms, as_of) = (0, Vec::new());
                Ok(AggregateAnswer {
                    result,
                    decay,
                    window_events: None,
                    time_ms,
                    incomplete: false,
                    degraded: false,
                    as_of,
                })
            };
            checked.compare(Moment { events: moment, time_ms: 0 }, answer);
        }
        let report = checked.report(0);
        let [check] = report.checks.as_slice() else { panic!("{report:?}") };
        assert_eq!((check.decay.as_str(), check.statistic.as_str()), ("window:1m", "count"));
        assert_eq!((check.answers, check.deterministic, check.deterministic_outside), (2, 2, 1));
    }
}
