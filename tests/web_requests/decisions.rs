//! Decisions of one stream compared with an exact map of every host and URL.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Value, json};

use crate::log::Line;
use crate::support::Ebb;

/// A stream of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct StreamWindow {
    pub stream: &'static str,
    pub window_ms: i64,
    pub lateness_ms: i64,
    pub reads_bytes: bool,
    /// Configured penalties of a false and of a missed duplicate.
    pub penalty: Option<(f64, f64)>,
}

pub const WINDOWS: [StreamWindow; 4] = [
    StreamWindow { stream: "within_10s", window_ms: 10_000, lateness_ms: 10_000, reads_bytes: false, penalty: None },
    StreamWindow { stream: "within_60s", window_ms: 60_000, lateness_ms: 60_000, reads_bytes: false, penalty: None },
    StreamWindow { stream: "within_10m", window_ms: 600_000, lateness_ms: 75_000, reads_bytes: true, penalty: None },
    StreamWindow {
        stream: "priced",
        window_ms: 600_000,
        lateness_ms: 75_000,
        reads_bytes: false,
        penalty: Some((1.0, 0.1)),
    },
];

/// Blocks that four-bit timers can distinguish.
const BLOCKS: i64 = 12;
/// Bins of stated probabilities.
const BINS: usize = 10;

/// The decisions of one stream compared with the exact ones.
#[derive(Debug)]
pub struct Decisions {
    pub window: StreamWindow,
    /// When each item was last accepted by the exact map, and by the service.
    exact: HashMap<(String, String), i64>,
    service: HashMap<(String, String), i64>,
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
    pub penalty_paid: f64,
    pub penalty_without_filter: f64,
    /// Of decisions without a posterior: items accepted within the window but called unique.
    pub false_negatives: u64,
    /// Of decisions without a posterior: items never accepted, and those of them called duplicate.
    unseen: u64,
    false_positives: u64,
    worst_rate: f64,
    /// Count, sum and repeats of the stated probabilities by bin.
    pub probabilities: [(u64, f64, u64); BINS],
}

impl Decisions {
    pub fn new(window: &StreamWindow) -> Self {
        Self {
            window: *window,
            exact: HashMap::new(),
            service: HashMap::new(),
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
            penalty_paid: 0.0,
            penalty_without_filter: 0.0,
            false_negatives: 0,
            unseen: 0,
            false_positives: 0,
            worst_rate: 0.0,
            probabilities: [(0, 0.0, 0); BINS],
        }
    }

    /// Sends the lines to the service and compares its decisions.
    pub fn record(&mut self, ebb: &Ebb, lines: &[&Line]) {
        let events: Vec<&Value> = lines.iter().map(|line| &line.json).collect();
        let body = json!({"events": events, "record": true}).to_string();
        let answer = ebb.post(&format!("/v1/streams/{}/decide", self.window.stream), &body);
        let Some((200, answer)) = answer else { panic!("{answer:?}") };
        let decisions = answer["decisions"].as_array().unwrap();
        assert_eq!(decisions.len(), lines.len());
        lines.iter().zip(decisions).for_each(|(line, decision)| self.compare(line, decision));
    }

    fn compare(&mut self, line: &Line, decision: &Value) {
        let verdict = decision["verdict"].as_str().unwrap();
        if verdict == "rejected" {
            assert!(self.window.reads_bytes && line.bytes.is_none(), "{decision} for {line:?}");
            self.rejected += 1;
            return;
        }
        let (item, time_ms) = ((line.host.clone(), line.url.clone()), line.time_ms);
        let age = |past: &HashMap<_, i64>| past.get(&item).map(|accepted_ms| (time_ms - accepted_ms).max(0));
        let (exact_age, service_age) = (age(&self.exact), age(&self.service));
        let within = |age: Option<i64>| age.is_some_and(|age| age < self.window.window_ms);
        let (repeat, in_service_memory) = (within(exact_age), within(service_age));
        let update = |past: &mut HashMap<_, i64>| {
            let accepted_ms = past.entry(item.clone()).or_insert(time_ms);
            *accepted_ms = time_ms.max(*accepted_ms);
        };
        if !repeat {
            update(&mut self.exact);
        }
        if verdict != "duplicate" {
            update(&mut self.service);
        }
        *if repeat { &mut self.repeats } else { &mut self.firsts } += 1;
        self.count(verdict, (repeat, in_service_memory), exact_age.into_iter().chain(service_age).min());
        match decision["posterior"]["seen"].as_f64() {
            Some(probability) => self.count_probability(probability, in_service_memory),
            None => self.count_standard(verdict, in_service_memory, service_age),
        }
    }

    fn count(&mut self, verdict: &str, (repeat, in_service_memory): (bool, bool), age: Option<i64>) {
        let (refused, served) = self.window.penalty.unwrap_or((1.0, 1.0));
        match verdict {
            "unique" => self.unique += 1,
            "duplicate" => self.duplicate += 1,
            "late" => self.late += 1,
            other => panic!("{other}"),
        }
        if verdict != "late" && repeat {
            self.penalty_without_filter += served;
        }
        if verdict == "duplicate" && !repeat {
            self.false_duplicates += 1;
            self.at_the_edge += u64::from(age.is_some_and(|age| age < self.window.window_ms + self.block_ms()));
            self.penalty_paid += refused;
        }
        if verdict == "unique" && repeat {
            self.missed += 1;
            self.forgotten += u64::from(in_service_memory);
            self.penalty_paid += served;
        }
    }

    fn count_probability(&mut self, probability: f64, in_service_memory: bool) {
        let (stated, sum, came_true) = &mut self.probabilities[((probability * BINS as f64) as usize).min(BINS - 1)];
        *stated += 1;
        *sum += probability;
        *came_true += u64::from(in_service_memory);
    }

    fn count_standard(&mut self, verdict: &str, in_service_memory: bool, service_age: Option<i64>) {
        self.false_negatives += u64::from(in_service_memory && verdict == "unique");
        if service_age.is_none_or(|age| age >= self.window.window_ms + self.block_ms()) {
            self.unseen += 1;
            self.false_positives += u64::from(verdict == "duplicate");
        }
    }

    fn block_ms(&self) -> i64 {
        (self.window.window_ms + self.window.lateness_ms + BLOCKS - 1) / BLOCKS
    }

    /// Reads the estimated false duplicate rate of the filter.
    pub fn read_rate(&mut self, ebb: &Ebb) {
        let status = ebb.get(&format!("/v1/streams/{}", self.window.stream));
        let Some((200, status)) = status else { panic!("{status:?}") };
        let status: Value = serde_json::from_str(&status).unwrap();
        self.worst_rate = self.worst_rate.max(status["shards"][0]["false_duplicate_rate"].as_f64().unwrap());
    }

    /// Checks the guarantees of the filter.
    pub fn check(&self) {
        assert_eq!(self.false_negatives, 0, "{self}");
        let tail_probability = tail(self.unseen, self.false_positives, self.worst_rate);
        assert!(tail_probability > 1e-4, "{self}: {tail_probability:e}");
        if self.window.penalty.is_none() {
            let elsewhere = self.false_duplicates - self.at_the_edge;
            assert!(elsewhere <= self.false_positives, "{self}");
            assert_eq!(self.forgotten, 0, "{self}");
        }
        for (stated, sum, came_true) in self.probabilities.iter().filter(|(stated, ..)| *stated >= 256) {
            // With a larger deviation the calibration guard would have disabled the posterior.
            let (stated, came_true) = (*stated as f64, *came_true as f64);
            assert!((sum / stated - came_true / stated).abs() < 0.1, "{self}");
        }
    }
}

/// P(X >= failures) for X ~ Binomial(trials, probability), from the complement.
pub fn tail(trials: u64, failures: u64, probability: f64) -> f64 {
    let mut term = (1.0 - probability).powf(trials as f64);
    let mut below = 0.0;
    for k in 0..failures {
        below += term;
        term *= (trials - k) as f64 / (k + 1) as f64 * probability / (1.0 - probability);
    }
    1.0 - below
}

impl fmt::Display for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} unique, {} duplicate, {} late, {} rejected; false duplicates {} of {} ({} at the edge), missed \
             duplicates {} of {} ({} accepted by the service before); false positives {} of {} unseen (at most {:.1} expected); \
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
            self.false_positives,
            self.unseen,
            self.worst_rate * self.unseen as f64,
            self.penalty_paid,
            self.penalty_without_filter
        )
    }
}
