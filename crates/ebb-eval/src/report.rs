//! The result of an evaluation. Its JSON form is the output of `ebb eval --json`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::aggregate_check::AggregateReport;
use super::binomial;
use super::statistic_check::StatisticCheck;
use super::tally::{AgeBin, CalibrationBin, ErrorCounts, PenaltyTotals, StandardAnswers};

/// The results of all streams.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The file that was read.
    pub file: String,
    /// Lines without the header.
    pub lines: u64,
    /// Lines that no stream could read, by reason.
    pub bad_lines: BTreeMap<&'static str, u64>,
    /// One report per stream.
    pub streams: Vec<StreamReport>,
}

/// The results of one stream.
#[derive(Debug, Serialize)]
pub struct StreamReport {
    /// The name of the stream.
    pub name: String,
    /// The dedup window, if the filter has one.
    pub window: Option<String>,
    /// The window in which repeats are counted, if the filter itself has none.
    pub counted_within: Option<String>,
    /// Which event a window is measured from: `first` or `last`.
    pub seen: &'static str,
    /// The name of the dedup filter.
    pub filter: &'static str,
    /// The number of shards.
    pub partitions: usize,
    /// Events by verdict.
    pub verdicts: VerdictTotals,
    /// Decisions by their basis.
    pub bases: BTreeMap<&'static str, u64>,
    /// Wrong decisions of the service.
    #[serde(rename = "mistakes")]
    pub errors: ErrorCounts,
    /// Wrong decisions of the service by importance class, least important first; empty if the filter has no classes.
    pub classes: Vec<ClassErrors>,
    /// Wrong decisions of the same filter without penalties.
    #[serde(rename = "standard")]
    pub standard_errors: ErrorCounts,
    /// The cost of wrong decisions.
    pub penalty: PenaltyTotals,
    /// Guarantees of the filter.
    #[serde(rename = "own_answers")]
    pub standard_answers: StandardAnswers,
    /// Stated probabilities against observed frequencies.
    pub calibration: Vec<CalibrationBin>,
    /// Decisions by the age of the item.
    pub ages: Vec<AgeBin>,
    /// Decisions about items that were never accepted before.
    pub never_seen: AgeBin,
    /// Memory compared with an exact map.
    pub memory: MemoryReport,
    /// One report per aggregate.
    pub aggregates: Vec<AggregateReport>,
    /// Whether the stated guarantees held.
    #[serde(rename = "promises")]
    pub guarantees: Vec<GuaranteeCheck>,
}

/// Wrong decisions about one importance class.
#[derive(Debug, Serialize)]
pub struct ClassErrors {
    /// The configured name of the class, or its cell value.
    pub class: String,
    /// Its wrong decisions.
    #[serde(flatten)]
    pub errors: ErrorCounts,
}

/// Events by verdict.
#[derive(Debug, Serialize)]
pub struct VerdictTotals {
    /// Events called unique.
    pub unique: u64,
    /// Events called duplicate.
    pub duplicate: u64,
    /// Events older than the window.
    pub late: u64,
    /// Rejected events, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
}

/// Memory of the filter compared with an exact map of the same window.
#[derive(Debug, Serialize)]
pub struct MemoryReport {
    /// Memory of the filters.
    pub filter_bytes: u64,
    /// Largest number of items in an exact map.
    pub exact_items: u64,
    /// Memory of an exact map with that many items.
    pub exact_bytes: u64,
    /// The exact map at each moment.
    pub over_time: Vec<MemoryPoint>,
}

/// Memory of an exact map at one moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryPoint {
    /// Events read so far.
    pub events: u64,
    /// Memory of the exact map.
    pub exact_bytes: u64,
}

/// A stated guarantee and whether it held.
#[derive(Debug, Serialize)]
pub struct GuaranteeCheck {
    /// The guarantee as a sentence.
    #[serde(rename = "promise")]
    pub guarantee: String,
    /// Whether the observations are compatible with it.
    #[serde(rename = "kept")]
    pub holds: bool,
    /// The observations.
    #[serde(rename = "found")]
    pub observed: String,
}

impl Report {
    /// Every guarantee that did not hold, with the name of its stream.
    pub fn violations(&self) -> impl Iterator<Item = (&str, &GuaranteeCheck)> {
        let streams = self.streams.iter();
        streams
            .flat_map(|stream| stream.guarantees.iter().map(|check| (stream.name.as_str(), check)))
            .filter(|(_, check)| !check.holds)
    }
}

/// The guarantees of a timing filter.
pub fn filter_guarantees(answers: &StandardAnswers) -> Vec<GuaranteeCheck> {
    let StandardAnswers { false_negatives, unseen, false_positives, expected_false_positives } = *answers;
    let rate = if unseen == 0 { 0.0 } else { expected_false_positives / unseen as f64 };
    let tail = binomial::upper_tail(unseen, false_positives, rate);
    vec![
        GuaranteeCheck {
            guarantee: "an item accepted within the window is never called unique".into(),
            holds: false_negatives == 0,
            observed: format!("{false_negatives} violations"),
        },
        GuaranteeCheck {
            guarantee: "false positives are as rare as the filter estimates".into(),
            holds: false_positives == 0 || tail > binomial::SIGNIFICANCE,
            observed: format!("{false_positives} of {unseen} unseen items, {expected_false_positives:.2} expected"),
        },
    ]
}

/// The guarantees of an aggregate's bounds.
pub fn aggregate_guarantees(aggregate: &AggregateReport) -> Vec<GuaranteeCheck> {
    let total = |count: fn(&StatisticCheck) -> u64| aggregate.checks.iter().map(count).sum::<u64>();
    let mut guarantees = Vec::new();
    let (answers, outside) = (total(|check| check.deterministic), total(|check| check.deterministic_outside));
    if answers > 0 {
        guarantees.push(GuaranteeCheck {
            guarantee: format!("{}: deterministic bounds always contain the exact answer", aggregate.name),
            holds: outside == 0,
            observed: format!("{outside} of {answers} did not"),
        });
    }
    let (answers, outside) = (total(|check| check.probabilistic), total(|check| check.probabilistic_outside));
    let delta = aggregate.checks.iter().map(|check| check.delta).fold(0.0, f64::max);
    if answers > 0 {
        let each_holds = aggregate.checks.iter().all(StatisticCheck::holds);
        guarantees.push(GuaranteeCheck {
            guarantee: format!("{}: bounds fail with a probability of at most {delta}", aggregate.name),
            holds: each_holds && binomial::upper_tail(answers, outside, delta) > binomial::SIGNIFICANCE,
            observed: format!("{outside} of {answers} failed"),
        });
    }
    guarantees
}
