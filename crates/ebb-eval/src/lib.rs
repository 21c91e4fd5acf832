//! Offline evaluation: the decisions and answers of Ebb for a file of events, compared with exact ones.
//!
//! Each stream reads the file through the same shards as the service. An exact oracle with the same windows runs beside
//! them. The report has false and missed duplicates and their penalty, the calibration of stated probabilities, memory
//! compared with an exact map, and the error of every aggregate under several decays. With the hash key of the service the
//! figures are exactly those of the service.
//!
//! The oracle needs memory for every distinct item and every observation of the file.
#![deny(missing_docs)]

mod aggregate_check;
pub mod binomial;
mod compare;
mod exact;
mod html;
mod oracle;
mod plot;
mod report;
mod rows;
mod statistic_check;
mod stream_eval;
mod table;
mod tally;

pub use aggregate_check::AggregateReport;
pub use report::{ClassErrors, GuaranteeCheck, MemoryPoint, MemoryReport, Report, StreamReport, VerdictTotals};
pub use rows::InputFormat;
pub use statistic_check::{AnswerPoint, StatisticCheck};
pub use stream_eval::StreamLabels;
pub use tally::{AgeBin, CalibrationBin, ErrorCounts, PenaltyTotals, StandardAnswers};

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use ebb_core::{Path, Plan, TimeUnit};
use ebb_sketch::decay::Decay;
use rows::{EventRows, RowOptions};
use stream_eval::StreamEvaluation;

/// The decays that aggregates are queried with by default, besides their own.
pub const DECAYS: [&str; 3] = ["window:10m", "exponential:half_life=10m", "polynomial:alpha=1,unit=1m"];
/// How often aggregates are queried by default.
const MOMENTS: u64 = 24;
/// Lines between two updates of the progress bar.
const PROGRESS_LINES: u64 = 1024;

/// The input of an evaluation.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    /// The file of events.
    pub file: PathBuf,
    /// Derived from the file's name when absent.
    pub format: Option<InputFormat>,
    /// Decays that aggregates are queried with, besides their own.
    pub decays: Vec<Decay>,
    /// Aggregates are queried each time this many lines were read, and at the end.
    pub every: Option<u64>,
    /// Longest line that is read.
    pub max_record_bytes: usize,
    /// Wall-clock time of the evaluation: events dated much later are rejected, as by the service.
    pub now_ms: i64,
}

/// One stream to evaluate.
#[derive(Debug, Clone)]
pub struct EvalStream {
    /// How the report describes the stream.
    pub labels: StreamLabels,
    /// The views of the stream.
    pub plan: Arc<Plan>,
    /// The number of shards that events are distributed to.
    pub partitions: u32,
}

/// Reads the file once and evaluates all streams.
pub fn evaluate(streams: Vec<EvalStream>, options: &EvalOptions) -> anyhow::Result<Report> {
    let file = &options.file;
    let format = options
        .format
        .or_else(|| InputFormat::of(file))
        .with_context(|| format!("{}: unknown file extension; add --format jsonl, csv or tsv", file.display()))?;
    let new = |stream: EvalStream| StreamEvaluation::new(stream, &options.decays, options.now_ms);
    let mut evaluations: Vec<StreamEvaluation> = streams.into_iter().map(new).collect::<Result<_, _>>()?;
    let plans: Vec<Arc<Plan>> = evaluations.iter().map(|evaluation| evaluation.plan().clone()).collect();
    let number_columns = number_columns(&plans);
    let mut rows =
        EventRows::open(file, &RowOptions { format, number_columns, max_line_bytes: options.max_record_bytes })?;
    let every = match options.every {
        Some(every) => every.max(1),
        None => (rows::count_lines(file)? / MOMENTS).max(1),
    };
    let progress = progress_bar(std::fs::metadata(file)?.len());
    let (mut payload, mut lines, mut bad_lines) = (Vec::new(), 0, BTreeMap::new());
    while let Some(row) = rows.next(&mut payload).with_context(|| format!("reading {}", file.display()))? {
        lines += 1;
        match row {
            Ok(()) => evaluations.iter_mut().for_each(|evaluation| evaluation.add_line(&payload)),
            Err(bad) => *bad_lines.entry(bad.name()).or_default() += 1,
        }
        if lines % every == 0 {
            evaluations.iter_mut().for_each(StreamEvaluation::query_aggregates);
        }
        if lines % PROGRESS_LINES == 0 {
            progress.set_position(rows.bytes_read());
        }
    }
    if lines % every != 0 {
        evaluations.iter_mut().for_each(StreamEvaluation::query_aggregates);
    }
    progress.finish_and_clear();
    let streams = evaluations.into_iter().map(StreamEvaluation::report).collect();
    Ok(Report { file: file.display().to_string(), lines, bad_lines, streams })
}

/// A bar on standard error, hidden unless that is a terminal.
fn progress_bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}");
    let bar = ProgressBar::new(bytes);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

/// The columns that some stream reads as numbers.
fn number_columns(plans: &[Arc<Plan>]) -> BTreeSet<String> {
    let mut columns = BTreeSet::new();
    for spec in plans.iter().map(|plan| plan.reader.spec()) {
        let time = spec.time.as_ref().filter(|(_, unit)| *unit != TimeUnit::Rfc3339).map(|(path, _)| path);
        let importance = spec.importance.as_ref().filter(|_| spec.importance_classes.is_none());
        let single = [spec.value.as_ref(), spec.weight.as_ref(), importance, time];
        let paths = spec.numbers.iter().chain(single.into_iter().flatten());
        columns.extend(paths.filter_map(|path: &Path| match path.segments() {
            [column] => Some(column.clone()),
            _ => None,
        }));
    }
    columns
}
