//! Answers of the aggregates compared with exact ones over all lines of the log.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::decisions::tail;
use crate::log::Line;
use crate::support::Ebb;

/// The weight of a line by its age in ms.
type Weight = fn(f64) -> f64;

const DECAYS: [(&str, Weight); 4] = [
    ("window:10m", |age| if age < 600_000.0 { 1.0 } else { 0.0 }),
    ("exponential:half_life=10m", |age| (-age / 600_000.0).exp2()),
    ("polynomial:alpha=1,unit=1m", |age| 1.0 / (1.0 + age / 60_000.0)),
    // More than a day: everything.
    ("window:2d", |age| if age < 172_800_000.0 { 1.0 } else { 0.0 }),
];
/// Aggregates of the configuration, the minimum share of a top URL, and the decays to query.
const AGGREGATES: [(&str, f64, &[usize]); 4] = [
    ("sent", 0.1, &[0, 1, 2, 3]),
    ("sent_for_sure", 0.4, &[0, 1, 2, 3]),
    ("sent_lately", 0.05, &[1]),
    ("sent_at_all", 0.1, &[2]),
];
const STREAM: &str = "within_10m";
const ROUNDING: f64 = 1e-9;

/// One answer beside the exact one.
#[derive(Debug, Clone, Copy)]
pub struct AnswerPoint {
    pub truth: f64,
    pub value: f64,
    pub lower: f64,
    pub upper: f64,
}

/// All answers to one query over time.
#[derive(Debug, Default)]
pub struct AnswerSeries {
    pub points: Vec<AnswerPoint>,
    pub deterministic: u64,
    pub deterministic_outside: u64,
    pub probabilistic: u64,
    pub probabilistic_outside: u64,
    pub delta: f64,
    worst: f64,
}

/// The accepted lines and the answers.
#[derive(Debug, Default)]
pub struct Answers {
    lines: Vec<Line>,
    now_ms: i64,
    /// By aggregate, decay and statistic.
    pub series: BTreeMap<(&'static str, &'static str, &'static str), AnswerSeries>,
}

/// Lines with a positive weight, by bytes, and the total weight.
struct WeightedLines<'a> {
    lines: Vec<(&'a Line, f64)>,
    total: f64,
}

impl WeightedLines<'_> {
    fn bytes(&self) -> f64 {
        self.lines.iter().map(|(line, weight)| weight * line.bytes.unwrap()).sum()
    }

    fn quantile(&self, phi: f64) -> f64 {
        let (mut reached, target) = (0.0, phi * self.total);
        let at = self.lines.iter().find(|(_, weight)| {
            reached += weight;
            reached >= target
        });
        at.or(self.lines.last()).unwrap().0.bytes.unwrap()
    }

    fn urls(&self) -> BTreeMap<&str, f64> {
        let mut shares = BTreeMap::new();
        self.lines
            .iter()
            .for_each(|(line, weight)| *shares.entry(line.url.as_str()).or_default() += weight / self.total);
        shares
    }
}

impl Answers {
    /// Adds lines that were sent to the service, without those that it rejects.
    pub fn add(&mut self, lines: &[&Line]) {
        let accepted = lines.iter().filter(|line| line.bytes.is_some()).map(|line| (*line).clone());
        self.lines.extend(accepted);
        self.now_ms = self.lines.iter().map(|line| line.time_ms).max().unwrap_or(0);
        self.lines.sort_by(|a, b| a.bytes.partial_cmp(&b.bytes).unwrap());
    }

    /// Queries every aggregate and compares the answers.
    pub fn query(&mut self, ebb: &Ebb) {
        let (lines, now_ms) = (std::mem::take(&mut self.lines), self.now_ms);
        for (aggregate, phi, decays) in AGGREGATES {
            for (decay, weight) in decays.iter().map(|index| DECAYS[*index]) {
                let weighted = lines.iter().map(|line| (line, weight((now_ms - line.time_ms) as f64)));
                let weighted: Vec<_> = weighted.filter(|(_, weight)| *weight > 0.0).collect();
                let weighted =
                    WeightedLines { total: weighted.iter().map(|(_, weight)| weight).sum(), lines: weighted };
                let query = |rest: &str| self::query(ebb, now_ms, &format!("{aggregate}/{rest}decay={decay}"));
                let mut add = |statistic, found: (AnswerPoint, bool, f64), guarantee: &Value| {
                    self.series.entry((aggregate, decay, statistic)).or_default().add(found, guarantee);
                };
                let sum = query("sum?");
                add("sum", number(&sum, weighted.bytes()), &sum["guarantee"]);
                let quantiles = query("quantiles?phi=0.5,0.9,0.99&");
                for (index, (statistic, phi)) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)].into_iter().enumerate() {
                    let answer = &quantiles["quantiles"][index];
                    add(statistic, quantile(answer, phi, &weighted), &answer["guarantee"]);
                }
                let top = query(&format!("top?phi={phi}&"));
                add("top", self::top(&top, phi, &weighted), &top["guarantee"]);
            }
        }
        self.lines = lines;
    }

    /// Deterministic bounds never fail; probabilistic ones no more often than `delta` allows.
    pub fn check(&self) {
        for (question, series) in &self.series {
            assert_eq!(series.deterministic_outside, 0, "{question:?}: {:?}", series.points);
            let tail_probability = tail(series.probabilistic, series.probabilistic_outside, series.delta);
            assert!(
                tail_probability > 1e-4,
                "{question:?}: {} of {}",
                series.probabilistic_outside,
                series.probabilistic
            );
        }
        let all = |of: fn(&AnswerSeries) -> u64| self.series.values().map(of).sum::<u64>();
        let (probabilistic, outside) = (all(|series| series.probabilistic), all(|series| series.probabilistic_outside));
        let delta = self.series.values().map(|series| series.delta).fold(0.0, f64::max);
        assert!(tail(probabilistic, outside, delta) > 1e-4, "{outside} of {probabilistic} with probability {delta}");
        assert!(probabilistic > 50 && all(|series| series.deterministic) > 50, "both kinds of bounds must be checked");
    }
}

fn query(ebb: &Ebb, now_ms: i64, path: &str) -> Value {
    let answer = ebb.get(&format!("/v1/streams/{STREAM}/aggregates/{path}"));
    let Some((200, answer)) = answer else { panic!("{path}: {answer:?}") };
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["as_of"][0]["time_ms"], now_ms, "{path}");
    assert_eq!(answer["incomplete"], false, "{path}");
    answer
}

fn point(answer: &Value, truth: f64) -> AnswerPoint {
    let part = |name: &str| answer[name].as_f64().unwrap_or_else(|| panic!("no {name} in {answer}"));
    AnswerPoint { truth, value: part("value"), lower: part("lower"), upper: part("upper") }
}

/// The point, whether the exact answer is within the bounds, and the error.
fn number(answer: &Value, truth: f64) -> (AnswerPoint, bool, f64) {
    let point = point(answer, truth);
    let slack = ROUNDING * truth.abs();
    let inside = point.lower - slack <= truth && truth <= point.upper + slack;
    (point, inside, (point.value - truth).abs() / truth.abs().max(f64::MIN_POSITIVE))
}

fn quantile(answer: &Value, phi: f64, weighted: &WeightedLines<'_>) -> (AnswerPoint, bool, f64) {
    let point = point(answer, weighted.quantile(phi));
    // Rounding may decide which of two values is the quantile.
    let (low, high) = (weighted.quantile(phi - ROUNDING), weighted.quantile(phi + ROUNDING));
    let share = |selects: &dyn Fn(f64) -> bool| {
        let selected = weighted.lines.iter().filter(|(line, _)| selects(line.bytes.unwrap()));
        selected.map(|(_, weight)| weight).sum::<f64>() / weighted.total
    };
    let (below, through) = (share(&|bytes| bytes < point.value), share(&|bytes| bytes <= point.value));
    (point, point.lower <= high && low <= point.upper, (below - phi).max(phi - through).max(0.0))
}

fn top(answer: &Value, phi: f64, weighted: &WeightedLines<'_>) -> (AnswerPoint, bool, f64) {
    let urls = weighted.urls();
    let items = answer["items"].as_array().unwrap();
    let points = items.iter().map(|item| {
        let part = |name: &str| item[name].as_f64().unwrap();
        let truth = urls.get(item["name"].as_str().unwrap()).copied().unwrap_or(0.0);
        AnswerPoint { truth, value: part("share"), lower: part("lower"), upper: part("upper") }
    });
    let points: Vec<AnswerPoint> = points.collect();
    let within = |one: &AnswerPoint| one.lower <= one.truth + ROUNDING && one.truth <= one.upper + ROUNDING;
    let is_listed = |url: &str| items.iter().any(|item| item["name"] == url);
    let complete = urls.iter().all(|(url, share)| *share < phi + ROUNDING || is_listed(url));
    let difference = points.iter().map(|one| (one.value - one.truth).abs()).fold(0.0, f64::max);
    let first = points.first().copied().unwrap_or(AnswerPoint { truth: 0.0, value: 0.0, lower: 0.0, upper: 0.0 });
    (first, complete && points.iter().all(within), difference)
}

impl AnswerSeries {
    fn add(&mut self, (point, inside, error): (AnswerPoint, bool, f64), guarantee: &Value) {
        self.points.push(point);
        self.worst = self.worst.max(error);
        let (answers, outside) = match guarantee["kind"].as_str() {
            Some("probabilistic") => (&mut self.probabilistic, &mut self.probabilistic_outside),
            Some("deterministic" | "exact") => (&mut self.deterministic, &mut self.deterministic_outside),
            other => panic!("{other:?}"),
        };
        *answers += 1;
        *outside += u64::from(!inside);
        self.delta = self.delta.max(guarantee["delta"].as_f64().unwrap_or(0.0));
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((aggregate, decay, statistic), series) in &self.series {
            writeln!(
                f,
                "{aggregate} {statistic} under {decay}: worst error {:.4}%, outside {} of {} deterministic and {} of {} probabilistic \
                 bounds",
                100.0 * series.worst,
                series.deterministic_outside,
                series.deterministic,
                series.probabilistic_outside,
                series.probabilistic
            )?;
        }
        Ok(())
    }
}
