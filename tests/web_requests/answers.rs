//! Answers of the aggregates against every line of the log, weighed one by one.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::decisions::tail;
use crate::log::Line;
use crate::support::Ebb;

/// What a line still weighs at an age in ms.
type Weight = fn(f64) -> f64;

const DECAYS: [(&str, Weight); 4] = [
    ("window:10m", |age| if age < 600_000.0 { 1.0 } else { 0.0 }),
    ("exponential:half_life=10m", |age| (-age / 600_000.0).exp2()),
    ("polynomial:alpha=1,unit=1m", |age| 1.0 / (1.0 + age / 60_000.0)),
    // More than a day: everything.
    ("window:2d", |age| if age < 172_800_000.0 { 1.0 } else { 0.0 }),
];
/// Aggregates of the configuration, the share that makes a url a top one, and the decays they are asked for.
const AGGREGATES: [(&str, f64, &[usize]); 4] = [
    ("sent", 0.1, &[0, 1, 2, 3]),
    ("sent_for_sure", 0.4, &[0, 1, 2, 3]),
    ("sent_lately", 0.05, &[1]),
    ("sent_at_all", 0.1, &[2]),
];
const STREAM: &str = "within_10m";
const SLACK: f64 = 1e-9;

/// One number beside the truth.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub truth: f64,
    pub value: f64,
    pub lower: f64,
    pub upper: f64,
}

/// All answers to one question, over time.
#[derive(Debug, Default)]
pub struct Asked {
    pub points: Vec<Point>,
    pub certain: u64,
    pub certain_outside: u64,
    pub likely: u64,
    pub likely_outside: u64,
    pub delta: f64,
    worst: f64,
}

/// What was taken, and what was answered.
#[derive(Debug, Default)]
pub struct Answers {
    lines: Vec<Line>,
    now_ms: i64,
    /// By aggregate, decay and statistic.
    pub asked: BTreeMap<(&'static str, &'static str, &'static str), Asked>,
}

/// Bytes and weight of every line that weighs something, by bytes, and what they weigh together.
struct Weighed<'a> {
    lines: Vec<(&'a Line, f64)>,
    total: f64,
}

impl Weighed<'_> {
    fn bytes(&self) -> f64 {
        self.lines.iter().map(|(line, weight)| weight * line.bytes.unwrap()).sum()
    }

    fn quantile(&self, phi: f64) -> f64 {
        let (mut reached, wanted) = (0.0, phi * self.total);
        let at = self.lines.iter().find(|(_, weight)| {
            reached += weight;
            reached >= wanted
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
    /// Notes what the service was given; what it rejects is left out.
    pub fn take(&mut self, lines: &[&Line]) {
        let taken = lines.iter().filter(|line| line.bytes.is_some()).map(|line| (*line).clone());
        self.lines.extend(taken);
        self.now_ms = self.lines.iter().map(|line| line.time_ms).max().unwrap_or(0);
        self.lines.sort_by(|a, b| a.bytes.partial_cmp(&b.bytes).unwrap());
    }

    /// Asks every aggregate for everything, and compares.
    pub fn ask(&mut self, ebb: &Ebb) {
        let (lines, now_ms) = (std::mem::take(&mut self.lines), self.now_ms);
        for (aggregate, phi, decays) in AGGREGATES {
            for (decay, weight) in decays.iter().map(|place| DECAYS[*place]) {
                let weighed = lines.iter().map(|line| (line, weight((now_ms - line.time_ms) as f64)));
                let weighed: Vec<_> = weighed.filter(|(_, weight)| *weight > 0.0).collect();
                let weighed = Weighed { total: weighed.iter().map(|(_, weight)| weight).sum(), lines: weighed };
                let ask = |rest: &str| self::ask(ebb, now_ms, &format!("{aggregate}/{rest}decay={decay}"));
                let mut note = |statistic, found: (Point, bool, f64), guarantee: &Value| {
                    self.asked.entry((aggregate, decay, statistic)).or_default().add(found, guarantee);
                };
                let sum = ask("sum?");
                note("sum", number(&sum, weighed.bytes()), &sum["guarantee"]);
                let quantiles = ask("quantiles?phi=0.5,0.9,0.99&");
                for (place, (statistic, phi)) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)].into_iter().enumerate() {
                    let told = &quantiles["quantiles"][place];
                    note(statistic, quantile(told, phi, &weighed), &told["guarantee"]);
                }
                let top = ask(&format!("top?phi={phi}&"));
                note("top", self::top(&top, phi, &weighed), &top["guarantee"]);
            }
        }
        self.lines = lines;
    }

    /// Certain bounds never fail; likely ones no more often than their chance allows.
    pub fn check(&self) {
        for (question, asked) in &self.asked {
            assert_eq!(asked.certain_outside, 0, "{question:?}: {:?}", asked.points);
            let unlikely = tail(asked.likely, asked.likely_outside, asked.delta);
            assert!(unlikely > 1e-4, "{question:?}: {} of {}", asked.likely_outside, asked.likely);
        }
        let all = |of: fn(&Asked) -> u64| self.asked.values().map(of).sum::<u64>();
        let (likely, outside) = (all(|asked| asked.likely), all(|asked| asked.likely_outside));
        let delta = self.asked.values().map(|asked| asked.delta).fold(0.0, f64::max);
        assert!(tail(likely, outside, delta) > 1e-4, "{outside} of {likely} with a chance of {delta}");
        assert!(likely > 50 && all(|asked| asked.certain) > 50, "both kinds of bounds were looked at");
    }
}

fn ask(ebb: &Ebb, now_ms: i64, path: &str) -> Value {
    let answer = ebb.get(&format!("/v1/streams/{STREAM}/aggregates/{path}"));
    let Some((200, answer)) = answer else { panic!("{path}: {answer:?}") };
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["as_of"][0]["time_ms"], now_ms, "{path}");
    assert_eq!(answer["incomplete"], false, "{path}");
    answer
}

fn point(told: &Value, truth: f64) -> Point {
    let part = |name: &str| told[name].as_f64().unwrap_or_else(|| panic!("no {name} in {told}"));
    Point { truth, value: part("value"), lower: part("lower"), upper: part("upper") }
}

/// The point, whether the truth is within the bounds, and the error.
fn number(told: &Value, truth: f64) -> (Point, bool, f64) {
    let point = point(told, truth);
    let slack = SLACK * truth.abs();
    let inside = point.lower - slack <= truth && truth <= point.upper + slack;
    (point, inside, (point.value - truth).abs() / truth.abs().max(f64::MIN_POSITIVE))
}

fn quantile(told: &Value, phi: f64, weighed: &Weighed<'_>) -> (Point, bool, f64) {
    let point = point(told, weighed.quantile(phi));
    // Rounding may decide which of two neighbours is the quantile.
    let (low, high) = (weighed.quantile(phi - SLACK), weighed.quantile(phi + SLACK));
    let share = |selects: &dyn Fn(f64) -> bool| {
        let selected = weighed.lines.iter().filter(|(line, _)| selects(line.bytes.unwrap()));
        selected.map(|(_, weight)| weight).sum::<f64>() / weighed.total
    };
    let (below, through) = (share(&|bytes| bytes < point.value), share(&|bytes| bytes <= point.value));
    (point, point.lower <= high && low <= point.upper, (below - phi).max(phi - through).max(0.0))
}

fn top(told: &Value, phi: f64, weighed: &Weighed<'_>) -> (Point, bool, f64) {
    let urls = weighed.urls();
    let items = told["items"].as_array().unwrap();
    let points = items.iter().map(|item| {
        let part = |name: &str| item[name].as_f64().unwrap();
        let truth = urls.get(item["name"].as_str().unwrap()).copied().unwrap_or(0.0);
        Point { truth, value: part("share"), lower: part("lower"), upper: part("upper") }
    });
    let points: Vec<Point> = points.collect();
    let within = |one: &Point| one.lower <= one.truth + SLACK && one.truth <= one.upper + SLACK;
    let named = |url: &str| items.iter().any(|item| item["name"] == url);
    let complete = urls.iter().all(|(url, share)| *share < phi + SLACK || named(url));
    let off = points.iter().map(|one| (one.value - one.truth).abs()).fold(0.0, f64::max);
    let first = points.first().copied().unwrap_or(Point { truth: 0.0, value: 0.0, lower: 0.0, upper: 0.0 });
    (first, complete && points.iter().all(within), off)
}

impl Asked {
    fn add(&mut self, (point, inside, error): (Point, bool, f64), guarantee: &Value) {
        self.points.push(point);
        self.worst = self.worst.max(error);
        let (looked, outside) = match guarantee["kind"].as_str() {
            Some("probabilistic") => (&mut self.likely, &mut self.likely_outside),
            Some("deterministic" | "exact") => (&mut self.certain, &mut self.certain_outside),
            other => panic!("{other:?}"),
        };
        *looked += 1;
        *outside += u64::from(!inside);
        self.delta = self.delta.max(guarantee["delta"].as_f64().unwrap_or(0.0));
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((aggregate, decay, statistic), asked) in &self.asked {
            writeln!(
                f,
                "{aggregate} {statistic} under {decay}: worst error {:.4}%, outside {} of {} certain and {} of {} likely \
                 bounds",
                100.0 * asked.worst,
                asked.certain_outside,
                asked.certain,
                asked.likely_outside,
                asked.likely
            )?;
        }
        Ok(())
    }
}
