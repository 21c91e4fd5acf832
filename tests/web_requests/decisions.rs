//! Decisions of one stream against a map that holds every host and url.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Value, json};

use crate::log::Line;
use crate::support::Ebb;

/// A stream of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub stream: &'static str,
    pub window_ms: i64,
    pub lateness_ms: i64,
    pub reads_bytes: bool,
    /// What a wrong answer costs, where the stream says so: a request refused, a repeat served.
    pub penalty: Option<(f64, f64)>,
}

pub const WINDOWS: [Window; 4] = [
    Window { stream: "within_10s", window_ms: 10_000, lateness_ms: 10_000, reads_bytes: false, penalty: None },
    Window { stream: "within_60s", window_ms: 60_000, lateness_ms: 60_000, reads_bytes: false, penalty: None },
    Window { stream: "within_10m", window_ms: 600_000, lateness_ms: 75_000, reads_bytes: true, penalty: None },
    Window { stream: "priced", window_ms: 600_000, lateness_ms: 75_000, reads_bytes: false, penalty: Some((1.0, 0.1)) },
];

/// Timers of four bits tell so many blocks apart.
const BLOCKS: i64 = 12;
/// Bins of stated chances.
const BINS: usize = 10;

/// What one stream decided, and what was true.
#[derive(Debug)]
pub struct Decisions {
    pub window: Window,
    /// When each was last accepted: by a memory that does not err, and by the service.
    exact: HashMap<(String, String), i64>,
    told: HashMap<(String, String), i64>,
    pub unique: u64,
    pub duplicate: u64,
    pub late: u64,
    pub rejected: u64,
    pub firsts: u64,
    pub repeats: u64,
    pub false_duplicates: u64,
    pub at_the_edge: u64,
    pub missed: u64,
    pub forgotten: u64,
    pub paid: f64,
    pub paid_without_filter: f64,
    /// By the filter's own answers: unique though accepted within the window, and strangers called duplicates.
    pub denied: u64,
    strangers: u64,
    taken_for_seen: u64,
    worst_rate: f64,
    /// How many, the sum of what was stated, how many came true.
    pub chances: [(u64, f64, u64); BINS],
}

impl Decisions {
    pub fn new(window: &Window) -> Self {
        Self {
            window: *window,
            exact: HashMap::new(),
            told: HashMap::new(),
            unique: 0,
            duplicate: 0,
            late: 0,
            rejected: 0,
            firsts: 0,
            repeats: 0,
            false_duplicates: 0,
            at_the_edge: 0,
            missed: 0,
            forgotten: 0,
            paid: 0.0,
            paid_without_filter: 0.0,
            denied: 0,
            strangers: 0,
            taken_for_seen: 0,
            worst_rate: 0.0,
            chances: [(0, 0.0, 0); BINS],
        }
    }

    /// Sends the lines to the service, and judges what it answers.
    pub fn record(&mut self, ebb: &Ebb, lines: &[&Line]) {
        let events: Vec<&Value> = lines.iter().map(|line| &line.json).collect();
        let body = json!({"events": events, "record": true}).to_string();
        let answer = ebb.post(&format!("/v1/streams/{}/decide", self.window.stream), &body);
        let Some((200, answer)) = answer else { panic!("{answer:?}") };
        let decisions = answer["decisions"].as_array().unwrap();
        assert_eq!(decisions.len(), lines.len());
        lines.iter().zip(decisions).for_each(|(line, decision)| self.judge(line, decision));
    }

    fn judge(&mut self, line: &Line, decision: &Value) {
        let verdict = decision["verdict"].as_str().unwrap();
        if verdict == "rejected" {
            assert!(self.window.reads_bytes && line.bytes.is_none(), "{decision} for {line:?}");
            self.rejected += 1;
            return;
        }
        let (item, time_ms) = ((line.host.clone(), line.url.clone()), line.time_ms);
        let age = |past: &HashMap<_, i64>| past.get(&item).map(|accepted_ms| (time_ms - accepted_ms).max(0));
        let (exact_age, told_age) = (age(&self.exact), age(&self.told));
        let within = |age: Option<i64>| age.is_some_and(|age| age < self.window.window_ms);
        let (repeat, held) = (within(exact_age), within(told_age));
        let newer = |past: &mut HashMap<_, i64>| {
            let kept = past.entry(item.clone()).or_insert(time_ms);
            *kept = time_ms.max(*kept);
        };
        if !repeat {
            newer(&mut self.exact);
        }
        if verdict != "duplicate" {
            newer(&mut self.told);
        }
        *if repeat { &mut self.repeats } else { &mut self.firsts } += 1;
        self.count(verdict, (repeat, held), exact_age.into_iter().chain(told_age).min());
        match decision["posterior"]["seen"].as_f64() {
            Some(chance) => self.count_chance(chance, held),
            None => self.count_own(verdict, held, told_age),
        }
    }

    fn count(&mut self, verdict: &str, (repeat, held): (bool, bool), age: Option<i64>) {
        let (refused, served) = self.window.penalty.unwrap_or((1.0, 1.0));
        match verdict {
            "unique" => self.unique += 1,
            "duplicate" => self.duplicate += 1,
            "late" => self.late += 1,
            other => panic!("{other}"),
        }
        if verdict != "late" && repeat {
            self.paid_without_filter += served;
        }
        if verdict == "duplicate" && !repeat {
            self.false_duplicates += 1;
            self.at_the_edge += u64::from(age.is_some_and(|age| age < self.window.window_ms + self.block_ms()));
            self.paid += refused;
        }
        if verdict == "unique" && repeat {
            self.missed += 1;
            self.forgotten += u64::from(held);
            self.paid += served;
        }
    }

    fn count_chance(&mut self, chance: f64, held: bool) {
        let (stated, sum, came_true) = &mut self.chances[((chance * BINS as f64) as usize).min(BINS - 1)];
        *stated += 1;
        *sum += chance;
        *came_true += u64::from(held);
    }

    fn count_own(&mut self, verdict: &str, held: bool, told_age: Option<i64>) {
        self.denied += u64::from(held && verdict == "unique");
        if told_age.is_none_or(|age| age >= self.window.window_ms + self.block_ms()) {
            self.strangers += 1;
            self.taken_for_seen += u64::from(verdict == "duplicate");
        }
    }

    fn block_ms(&self) -> i64 {
        (self.window.window_ms + self.window.lateness_ms + BLOCKS - 1) / BLOCKS
    }

    /// Reads how often the filter says that it errs.
    pub fn look(&mut self, ebb: &Ebb) {
        let status = ebb.get(&format!("/v1/streams/{}", self.window.stream));
        let Some((200, status)) = status else { panic!("{status:?}") };
        let status: Value = serde_json::from_str(&status).unwrap();
        self.worst_rate = self.worst_rate.max(status["shards"][0]["false_duplicate_rate"].as_f64().unwrap());
    }

    /// Holds what came out against what is promised.
    pub fn check(&self) {
        assert_eq!(self.denied, 0, "{self}");
        let unlikely = tail(self.strangers, self.taken_for_seen, self.worst_rate);
        assert!(unlikely > 1e-4, "{self}: {unlikely:e}");
        if self.window.penalty.is_none() {
            let elsewhere = self.false_duplicates - self.at_the_edge;
            assert!(elsewhere <= self.taken_for_seen, "{self}");
            assert_eq!(self.forgotten, 0, "{self}");
        }
        for (stated, sum, came_true) in self.chances.iter().filter(|(stated, ..)| *stated >= 256) {
            // Beyond this the service would not have trusted its chances.
            let (stated, came_true) = (*stated as f64, *came_true as f64);
            assert!((sum / stated - came_true / stated).abs() < 0.1, "{self}");
        }
    }
}

/// P(X >= failures) for X ~ Binomial(trials, chance), by the terms below it.
pub fn tail(trials: u64, failures: u64, chance: f64) -> f64 {
    let mut term = (1.0 - chance).powf(trials as f64);
    let mut below = 0.0;
    for k in 0..failures {
        below += term;
        term *= (trials - k) as f64 / (k + 1) as f64 * chance / (1.0 - chance);
    }
    1.0 - below
}

impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} unique, {} duplicate, {} late, {} rejected; false duplicates {} of {} ({} at the edge), missed \
             duplicates {} of {} ({} accepted by itself); strangers taken for seen {} of {} (at most {:.1} stated); \
             penalty {:.1}, without a filter {:.1}",
            self.window.stream,
            self.unique,
            self.duplicate,
            self.late,
            self.rejected,
            self.false_duplicates,
            self.firsts,
            self.at_the_edge,
            self.missed,
            self.repeats,
            self.forgotten,
            self.taken_for_seen,
            self.strangers,
            self.worst_rate * self.strangers as f64,
            self.paid,
            self.paid_without_filter
        )
    }
}
