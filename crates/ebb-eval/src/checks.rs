//! Answers of one aggregate against the exact ones, moment by moment.

use std::collections::BTreeMap;

use serde::Serialize;

use super::chance;
use super::compare::{Comparison, Found, name, shown, statistics};
use super::exact::{ExactAggregate, OBSERVATION_BYTES};
use ebb_core::{AggregateAnswer, AggregateError, AggregateQuestion, AggregateSpec, KeyScope};
use ebb_sketch::aggregate::answer::Guarantee;
use ebb_sketch::decay::Decay;

/// One aggregate against its exact answers.
#[derive(Debug, Serialize)]
pub struct AggregateReport {
    pub name: String,
    pub method: &'static str,
    pub epsilon: f64,
    /// Observations that an exact answer needs.
    pub observations: u64,
    pub exact_bytes: u64,
    pub memory_bytes: u64,
    /// By decay and statistic.
    pub checks: Vec<Check>,
    /// Questions that the method does not answer, and why not.
    pub refused: BTreeMap<String, String>,
}

/// One statistic under one decay, over all moments.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub decay: String,
    pub statistic: String,
    /// `relative`, of a `rank`, or of a `share`.
    pub error: &'static str,
    pub answers: u64,
    pub worst_error: f64,
    pub mean_error: f64,
    /// Answers whose bounds are certain, and how many of them did not hold the truth.
    pub certain: u64,
    pub certain_outside: u64,
    /// Answers whose bounds may fail with chance `delta`, and how many did.
    pub chancy: u64,
    pub chancy_outside: u64,
    pub delta: f64,
    /// Answers that reached past what is remembered: not compared.
    pub incomplete: u64,
    pub over_time: Vec<Point>,
}

/// One answer beside the truth.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    pub events: u64,
    pub time_ms: i64,
    pub truth: f64,
    pub value: f64,
    pub lower: f64,
    pub upper: f64,
}

/// Where in the file an answer was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub events: u64,
    pub time_ms: i64,
}

impl Check {
    pub(super) fn new(decay: &str, statistic: &str, error: &'static str) -> Self {
        Self {
            decay: decay.to_owned(),
            statistic: statistic.to_owned(),
            error,
            answers: 0,
            worst_error: 0.0,
            mean_error: 0.0,
            certain: 0,
            certain_outside: 0,
            chancy: 0,
            chancy_outside: 0,
            delta: 0.0,
            incomplete: 0,
            over_time: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, found: &Found) {
        self.answers += 1;
        self.worst_error = self.worst_error.max(found.error);
        self.mean_error += (found.error - self.mean_error) / self.answers as f64;
        self.over_time.push(found.point);
        match found.guarantee {
            Guarantee::Probabilistic { delta, .. } => {
                self.chancy += 1;
                self.chancy_outside += u64::from(!found.inside);
                self.delta = self.delta.max(delta);
            }
            Guarantee::Exact | Guarantee::Deterministic { .. } => {
                self.certain += 1;
                self.certain_outside += u64::from(!found.inside);
            }
        }
    }

    /// Whether the bounds held as often as they promise.
    pub fn holds(&self) -> bool {
        self.certain_outside == 0 && chance::tail(self.chancy, self.chancy_outside, self.delta) > chance::UNLIKELY
    }
}

/// One aggregate, its exact observations and what was found so far.
#[derive(Debug)]
pub struct Checked {
    pub exact: ExactAggregate,
    spec: AggregateSpec,
    decays: Vec<Decay>,
    checks: Vec<Check>,
    refused: BTreeMap<String, String>,
}

impl Checked {
    /// Asked with its own decay and with `decays`.
    pub fn new(spec: &AggregateSpec, decays: &[Decay]) -> Self {
        let given = spec.parameters();
        let own = given.decay.clone().or_else(|| Decay::window(given.horizon_ms).ok());
        let mut all: Vec<Decay> = Vec::new();
        for decay in own.into_iter().chain(decays.iter().cloned()) {
            if !all.contains(&decay) {
                all.push(decay);
            }
        }
        let exact = ExactAggregate::new(given);
        Self { exact, spec: spec.clone(), decays: all, checks: Vec::new(), refused: BTreeMap::new() }
    }

    /// Asks everything and compares; `ask` is the service.
    pub fn ask(
        &mut self,
        moment: Moment,
        ask: impl Fn(&AggregateSpec, &AggregateQuestion) -> Result<AggregateAnswer, AggregateError>,
    ) {
        self.exact.settle();
        for decay in self.decays.clone() {
            let mut answers = Vec::new();
            for statistic in statistics(self.spec.parameters()) {
                let question = AggregateQuestion {
                    aggregate: self.spec.name().to_owned(),
                    scope: KeyScope::Whole,
                    decay: Some(decay.clone()),
                    statistic,
                };
                match ask(&self.spec, &question) {
                    Ok(answer) => answers.push((question.statistic, answer)),
                    Err(error) => {
                        self.refused
                            .insert(format!("{} {}", name(&question.statistic), shown(&decay)), error.to_string());
                    }
                }
            }
            if answers.is_empty() {
                continue;
            }
            let exact = self.exact.at(moment.time_ms, &decay);
            let mut comparison = Comparison { checks: &mut self.checks, decay: shown(&decay), exact: &exact, moment };
            answers.iter().for_each(|(statistic, answer)| comparison.add(statistic, answer));
        }
    }

    pub fn report(&self, memory_bytes: u64) -> AggregateReport {
        let given = self.spec.parameters();
        AggregateReport {
            name: self.spec.name().to_owned(),
            method: given.method.name(),
            epsilon: given.epsilon,
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

    fn check(answers: &[(bool, Guarantee)]) -> Check {
        let mut check = Check::new("window:1m", "sum", "relative");
        let point = Point { events: 0, time_ms: 0, truth: 1.0, value: 1.0, lower: 1.0, upper: 1.0 };
        for (inside, guarantee) in answers {
            check.add(&Found { point, error: 0.5, inside: *inside, guarantee: *guarantee });
        }
        check
    }

    #[test]
    fn one_certain_bound_that_fails_is_one_too_many_and_likely_ones_may_fail_sometimes() {
        let (certain, likely) = (Guarantee::Exact, Guarantee::Probabilistic { epsilon: 0.1, delta: 0.05 });
        assert!(check(&[(true, certain); 9]).holds());
        assert!(!check(&[(true, certain), (false, certain)]).holds());
        let of_twenty = |failed: usize| check(&(0..20).map(|place| (place >= failed, likely)).collect::<Vec<_>>());
        assert!(of_twenty(0).holds() && of_twenty(4).holds());
        assert!(!of_twenty(9).holds(), "9 of 20 with a chance of 0.05 each: 2e-7");
        assert_eq!((of_twenty(3).chancy, of_twenty(3).chancy_outside), (20, 3));
    }

    #[test]
    fn decays_are_shown_as_people_write_them() {
        for text in ["window:10m", "exponential:half_life=1h30m", "polynomial:alpha=1.5,unit=1m", "table:0ms=1,1m=0"] {
            assert_eq!(shown(&text.parse().unwrap()), text);
        }
    }

    #[test]
    fn a_wrong_answer_is_found_outside() {
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
            top: None,
            step: 1.0,
            max: 1.0,
            weights: Weighting::Unit,
            seed: 1,
        };
        let mut checked = Checked::new(&AggregateSpec::new(given).unwrap(), &[]);
        for (value, moment) in [(0.0, 1), (2.0, 2)] {
            let estimate = Estimate::exact(value, Evidence::Cells(1));
            let answer = |_: &AggregateSpec, question: &AggregateQuestion| {
                let decay = question.decay.clone().unwrap();
                let result = AggregateResult::Number(Some(estimate));
                Ok(AggregateAnswer { result, decay, incomplete: false, as_of: Vec::new() })
            };
            checked.ask(Moment { events: moment, time_ms: 0 }, answer);
        }
        let report = checked.report(0);
        let [check] = report.checks.as_slice() else { panic!("{report:?}") };
        assert_eq!((check.decay.as_str(), check.statistic.as_str()), ("window:1m", "count"));
        assert_eq!((check.answers, check.certain, check.certain_outside), (2, 2, 1));
    }
}
