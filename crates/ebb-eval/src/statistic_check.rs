//! The errors and bounds of one statistic over all moments.

use serde::Serialize;

use super::binomial;
use ebb_sketch::aggregate::answer::Guarantee;

/// One statistic of an aggregate under one decay, over all moments.
#[derive(Debug, Clone, Serialize)]
pub struct StatisticCheck {
    /// The decay as people write it.
    pub decay: String,
    /// The name of the statistic, such as `sum` or `p90`.
    pub statistic: String,
    /// The kind of error: `relative`, of a `rank`, or of a `share`.
    pub error: &'static str,
    /// Answers that were compared.
    pub answers: u64,
    /// The largest error.
    pub worst_error: f64,
    /// The mean error.
    pub mean_error: f64,
    /// Answers with deterministic bounds.
    #[serde(rename = "certain")]
    pub deterministic: u64,
    /// Those of them whose bounds did not contain the exact answer.
    #[serde(rename = "certain_outside")]
    pub deterministic_outside: u64,
    /// Answers whose bounds may fail with probability `delta`.
    #[serde(rename = "chancy")]
    pub probabilistic: u64,
    /// Those of them whose bounds did not contain the exact answer.
    #[serde(rename = "chancy_outside")]
    pub probabilistic_outside: u64,
    /// The largest stated failure probability.
    pub delta: f64,
    /// Answers that reached beyond the retained data and were not compared.
    pub incomplete: u64,
    /// All answers in order.
    pub over_time: Vec<AnswerPoint>,
}

/// One answer beside the exact one.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AnswerPoint {
    /// Events read before the query.
    pub events: u64,
    /// Event time of the query.
    pub time_ms: i64,
    /// The exact answer.
    pub truth: f64,
    /// The answer of the aggregate.
    pub value: f64,
    /// Lower bound of the answer.
    pub lower: f64,
    /// Upper bound of the answer.
    pub upper: f64,
}

/// Position in the file at which aggregates are queried.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub events: u64,
    pub time_ms: i64,
}

/// One answer after the comparison with the exact one.
pub(super) struct ComparedAnswer {
    pub(super) point: AnswerPoint,
    pub(super) error: f64,
    pub(super) is_inside: bool,
    pub(super) guarantee: Guarantee,
}

impl StatisticCheck {
    pub(super) fn new(decay: &str, statistic: &str, error: &'static str) -> Self {
        Self {
            decay: decay.to_owned(),
            statistic: statistic.to_owned(),
            error,
            answers: 0,
            worst_error: 0.0,
            mean_error: 0.0,
            deterministic: 0,
            deterministic_outside: 0,
            probabilistic: 0,
            probabilistic_outside: 0,
            delta: 0.0,
            incomplete: 0,
            over_time: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, answer: &ComparedAnswer) {
        self.answers += 1;
        self.worst_error = self.worst_error.max(answer.error);
        self.mean_error += (answer.error - self.mean_error) / self.answers as f64;
        self.over_time.push(answer.point);
        match answer.guarantee {
            Guarantee::Probabilistic { delta, .. } => {
                self.probabilistic += 1;
                self.probabilistic_outside += u64::from(!answer.is_inside);
                self.delta = self.delta.max(delta);
            }
            Guarantee::Exact | Guarantee::Deterministic { .. } => {
                self.deterministic += 1;
                self.deterministic_outside += u64::from(!answer.is_inside);
            }
        }
    }

    /// Whether the bounds held as often as guaranteed.
    pub fn holds(&self) -> bool {
        let tail = binomial::upper_tail(self.probabilistic, self.probabilistic_outside, self.delta);
        self.deterministic_outside == 0 && tail > binomial::SIGNIFICANCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answers: &[(bool, Guarantee)]) -> StatisticCheck {
        let mut check = StatisticCheck::new("window:1m", "sum", "relative");
        let point = AnswerPoint { events: 0, time_ms: 0, truth: 1.0, value: 1.0, lower: 1.0, upper: 1.0 };
        for (is_inside, guarantee) in answers {
            check.add(&ComparedAnswer { point, error: 0.5, is_inside: *is_inside, guarantee: *guarantee });
        }
        check
    }

    #[test]
    fn deterministic_bounds_never_fail_and_probabilistic_ones_rarely() {
        let (certain, likely) = (Guarantee::Exact, Guarantee::Probabilistic { epsilon: 0.1, delta: 0.05 });
        assert!(check(&[(true, certain); 9]).holds());
        assert!(!check(&[(true, certain), (false, certain)]).holds());
        let of_twenty = |failed: usize| check(&(0..20).map(|index| (index >= failed, likely)).collect::<Vec<_>>());
        assert!(of_twenty(0).holds() && of_twenty(4).holds());
        assert!(!of_twenty(9).holds(), "9 failures of 20 with probability 0.05 each: 2e-7");
        assert_eq!((of_twenty(3).probabilistic, of_twenty(3).probabilistic_outside), (20, 3));
    }
}
