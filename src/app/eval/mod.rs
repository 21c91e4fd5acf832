//! `ebb eval`: what the service would decide about a file of real events, held against an exact memory.
//!
//! Every stream of the configuration reads the file through the shards that the service runs, and beside them stands an
//! oracle with the same windows that forgets nothing and errs never. What comes out: false and missed duplicates, what
//! they cost, whether stated chances come true, memory against an exact map, and every aggregate under several decays
//! against exact answers. With the service's hash key the figures are those of the service, to the last one.
//!
//! The oracle is exact: it needs memory for every different item and every observation of the file.

mod chance;
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

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::{plans, secret};
use crate::config::Config;
use crate::config::dedup::Window;
use crate::config::stream::Stream;
use crate::decay::Decay;
use crate::hash::HashKey;
use crate::shard::{Path, Plan, TimeUnit};
use rows::{Reading, Rows};
use trial::{Labels, Trial, TrialOptions};

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
    /// All when empty.
    pub streams: Vec<String>,
    pub decays: Vec<Decay>,
    /// Aggregates are asked after each so many lines, and at the end.
    pub every: Option<u64>,
}

/// Reads the file once, with all streams.
pub fn evaluate(config: &Config, options: &EvalOptions) -> anyhow::Result<Report> {
    let file = &options.file;
    let format = options.format.or_else(|| Format::of(file)).with_context(|| {
        format!("{}: cannot tell its format from its name; add --format jsonl, csv or tsv", file.display())
    })?;
    let mut trials = trials(config, options)?;
    let plans: Vec<Arc<Plan>> = trials.iter().map(|trial| trial.plan().clone()).collect();
    let reading = Reading { format, numbers: number_columns(&plans), most_bytes: config.limits.record.0 as usize };
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

fn trials(config: &Config, options: &EvalOptions) -> anyhow::Result<Vec<Trial>> {
    if let Some(unknown) = options.streams.iter().find(|name| !config.streams.contains_key(*name)) {
        let known: Vec<&str> = config.streams.keys().map(String::as_str).collect();
        anyhow::bail!("there is no stream {unknown:?}; there is {}", known.join(", "));
    }
    let (key, now_ms) = (hash_key(config)?, now_ms());
    let chosen = config.streams.iter().filter(|(name, _)| options.streams.is_empty() || options.streams.contains(name));
    let trial = |(name, stream): (&String, &Stream)| {
        anyhow::ensure!(
            stream.event.time.is_some(),
            "streams.{name}.event.time: is missing, and lines of a file have no time of their own; name the field"
        );
        let plan = plans::plan(stream, &config.limits, &key).with_context(|| format!("streams.{name}"))?;
        let labels = Labels {
            name: name.clone(),
            window: plan.dedup.window().map(|_| match stream.dedup.window {
                Window::Time(window) => window.to_string(),
                Window::Events(events) => format!("{events} events"),
            }),
            filter: stream.dedup.filter.word(),
        };
        let partitions = stream.partitions as u32;
        Ok(Trial::new(TrialOptions { labels, plan, partitions, decays: &options.decays, now_ms })?)
    };
    chosen.map(trial).collect()
}

/// The service's own where there is one, so that its figures come out; otherwise always the same.
fn hash_key(config: &Config) -> anyhow::Result<HashKey> {
    match config.hash_key_file.exists() {
        true => secret::load_or_create(&config.hash_key_file),
        false => Ok(HashKey::new(*b"a key for trials")),
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
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

#[cfg(test)]
mod tests;
