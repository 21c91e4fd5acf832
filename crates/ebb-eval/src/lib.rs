//! Offline evaluation: what Ebb would decide about a file of real events, compared with an exact memory.
//!
//! Every stream reads the file through the shards that the service runs. Beside them an exact oracle with the same windows
//! forgets nothing and makes no mistakes. What comes out: false and missed duplicates, what
//! they cost, whether stated chances come true, memory against an exact map, and every aggregate under several decays
//! against exact answers. With the service's hash key the figures are those of the service, to the last one.
//!
//! The oracle is exact: it needs memory for every different item and every observation of the file.

pub mod chance;
mod checks;
mod compare;
mod exact;
mod html;
mod oracle;
mod plot;
mod report;
mod rows;
mod table;
mod tally;
mod trial;

pub use report::{Report, StreamReport};
pub use rows::Format;
pub use trial::Labels;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use ebb_core::{Path, Plan, TimeUnit};
use ebb_sketch::decay::Decay;
use rows::{Reading, Rows};
use trial::Trial;

/// What aggregates are asked for besides their own decay, when nothing else is wanted.
pub const DECAYS: [&str; 3] = ["window:10m", "exponential:half_life=10m", "polynomial:alpha=1,unit=1m"];
/// How often aggregates are asked, unless told otherwise.
const MOMENTS: u64 = 24;
/// Lines between two steps of the progress bar.
const STEP: u64 = 1024;

/// What is evaluated.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    pub file: PathBuf,
    /// By the file's name when absent.
    pub format: Option<Format>,
    pub decays: Vec<Decay>,
    /// Aggregates are queried each time this many lines were read, and at the end.
    pub every: Option<u64>,
    /// Longest line that is read.
    pub record_bytes_max: usize,
    /// Wall-clock time of the evaluation: events dated much later are rejected, as by the service.
    pub now_ms: i64,
}

/// One stream to evaluate.
#[derive(Debug, Clone)]
pub struct EvalStream {
    pub labels: Labels,
    pub plan: Arc<Plan>,
    pub partitions: u32,
}

/// Reads the file once, with all streams.
pub fn evaluate(streams: Vec<EvalStream>, options: &EvalOptions) -> anyhow::Result<Report> {
    let file = &options.file;
    let format = options.format.or_else(|| Format::of(file)).with_context(|| {
        format!("{}: cannot tell its format from its name; add --format jsonl, csv or tsv", file.display())
    })?;
    let new_trial = |stream: EvalStream| Trial::new(stream, &options.decays, options.now_ms);
    let mut trials: Vec<Trial> = streams.into_iter().map(new_trial).collect::<Result<_, _>>()?;
    let plans: Vec<Arc<Plan>> = trials.iter().map(|trial| trial.plan().clone()).collect();
    let reading = Reading { format, numbers: number_columns(&plans), most_bytes: options.record_bytes_max };
    let mut rows = Rows::open(file, &reading)?;
    let every = match options.every {
        Some(every) => every.max(1),
        None => (rows::count_lines(file)? / MOMENTS).max(1),
    };
    let progress = progress(std::fs::metadata(file)?.len());
    let (mut payload, mut lines, mut bad_lines) = (Vec::new(), 0, BTreeMap::new());
    let read = |error: anyhow::Error| error.context(format!("reading {}", file.display()));
    while let Some(row) = rows.next(&mut payload).map_err(read)? {
        lines += 1;
        match row {
            Ok(()) => trials.iter_mut().for_each(|trial| trial.feed(&payload)),
            Err(bad) => *bad_lines.entry(bad.name()).or_default() += 1,
        }
        if lines % every == 0 {
            trials.iter_mut().for_each(Trial::pause);
        }
        if lines % STEP == 0 {
            progress.set_position(rows.bytes_read());
        }
    }
    if lines % every != 0 {
        trials.iter_mut().for_each(Trial::pause);
    }
    progress.finish_and_clear();
    let streams = trials.into_iter().map(Trial::report).collect();
    Ok(Report { file: file.display().to_string(), lines, bad_lines, streams })
}

/// On standard error, and only when that is a terminal.
fn progress(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {eta}");
    let bar = ProgressBar::new(bytes);
    style.map_or(bar.clone(), |style| bar.with_style(style))
}

/// The columns that some stream reads as numbers.
fn number_columns(plans: &[Arc<Plan>]) -> BTreeSet<String> {
    let mut columns = BTreeSet::new();
    for spec in plans.iter().map(|plan| plan.reader.spec()) {
        let time = spec.time.as_ref().filter(|(_, unit)| *unit != TimeUnit::Rfc3339).map(|(path, _)| path);
        let single = [spec.value.as_ref(), spec.weight.as_ref(), spec.importance.as_ref(), time];
        let paths = spec.numbers.iter().chain(single.into_iter().flatten());
        columns.extend(paths.filter_map(|path: &Path| match path.segments() {
            [column] => Some(column.clone()),
            _ => None,
        }));
    }
    columns
}
