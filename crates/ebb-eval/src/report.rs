//! What an evaluation found, as it is written with `--json`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::chance;
use super::checks::AggregateReport;
use super::tally::{AgeBin, ChanceBin, Mistakes, OwnAnswers, Penalty};

/// Everything, for each stream that read the file.
#[derive(Debug, Serialize)]
pub struct Report {
    pub file: String,
    /// Lines that are events or claim to be.
    pub lines: u64,
    /// Lines that no stream could read, by reason.
    pub bad_lines: BTreeMap<&'static str, u64>,
    pub streams: Vec<StreamReport>,
}

/// One stream.
#[derive(Debug, Serialize)]
pub struct StreamReport {
    pub name: String,
    pub window: Option<String>,
    pub seen: &'static str,
    pub filter: &'static str,
    pub partitions: usize,
    pub verdicts: Verdicts,
    /// What the answers rested on.
    pub bases: BTreeMap<&'static str, u64>,
    /// Of the service.
    pub mistakes: Mistakes,
    /// Of the same filter without penalties.
    pub standard: Mistakes,
    pub penalty: Penalty,
    pub own_answers: OwnAnswers,
    pub calibration: Vec<ChanceBin>,
    pub ages: Vec<AgeBin>,
    pub never_seen: AgeBin,
    pub memory: Memory,
    pub aggregates: Vec<AggregateReport>,
    pub promises: Vec<Promise>,
}

/// How many events ended how.
#[derive(Debug, Serialize)]
pub struct Verdicts {
    pub unique: u64,
    pub duplicate: u64,
    pub late: u64,
    /// By reason.
    pub rejected: BTreeMap<&'static str, u64>,
}

/// The filter against an exact map of the same reach.
#[derive(Debug, Serialize)]
pub struct Memory {
    pub filter_bytes: u64,
    pub exact_items: u64,
    pub exact_bytes: u64,
    /// At each moment.
    pub over_time: Vec<MemoryPoint>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryPoint {
    pub events: u64,
    pub exact_bytes: u64,
}

/// Something that is promised, and whether it was kept.
#[derive(Debug, Serialize)]
pub struct Promise {
    pub promise: String,
    pub kept: bool,
    pub found: String,
}

impl Report {
    /// Every promise that was not kept.
    pub fn broken(&self) -> impl Iterator<Item = (&str, &Promise)> {
        let streams = self.streams.iter();
        streams
            .flat_map(|stream| stream.promises.iter().map(|promise| (stream.name.as_str(), promise)))
            .filter(|(_, promise)| !promise.kept)
    }
}

/// What a timing filter's own answers promise.
pub fn filter_promises(own: &OwnAnswers) -> Vec<Promise> {
    let OwnAnswers { denied, strangers, taken_for_seen, expected } = *own;
    let rate = if strangers == 0 { 0.0 } else { expected / strangers as f64 };
    vec![
        Promise {
            promise: "what was accepted within the window is never called unique".into(),
            kept: denied == 0,
            found: format!("{denied} were"),
        },
        Promise {
            promise: "strangers are taken for seen as rarely as the filter says".into(),
            kept: taken_for_seen == 0 || chance::tail(strangers, taken_for_seen, rate) > chance::UNLIKELY,
            found: format!("{taken_for_seen} of {strangers}, {expected:.2} expected"),
        },
    ]
}

/// What the bounds of an aggregate promise.
pub fn aggregate_promises(aggregate: &AggregateReport) -> Vec<Promise> {
    let of = |count: fn(&super::checks::Check) -> u64| aggregate.checks.iter().map(count).sum::<u64>();
    let (certain, outside) = (of(|check| check.certain), of(|check| check.certain_outside));
    let mut promises = Vec::new();
    if certain > 0 {
        promises.push(Promise {
            promise: format!("{}: certain bounds always hold the truth", aggregate.name),
            kept: outside == 0,
            found: format!("{outside} of {certain} did not"),
        });
    }
    let (chancy, outside) = (of(|check| check.chancy), of(|check| check.chancy_outside));
    let delta = aggregate.checks.iter().map(|check| check.delta).fold(0.0, f64::max);
    if chancy > 0 {
        let likely = aggregate.checks.iter().all(super::checks::Check::holds);
        promises.push(Promise {
            promise: format!("{}: bounds fail with a chance of at most {delta}", aggregate.name),
            kept: likely && chance::tail(chancy, outside, delta) > chance::UNLIKELY,
            found: format!("{outside} of {chancy} failed"),
        });
    }
    promises
}
