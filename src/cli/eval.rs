//! `ebb eval`: a file of real events, what the service would decide about it, and how right that is.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::{Source, print};
use crate::app::{self, EvalFormat, EvalOptions};
use ebb_sketch::decay::Decay;

pub(super) const EXAMPLES: &str = "\
The file is JSONL, or CSV or TSV whose first line names the columns: each line becomes a JSON event with these fields.
How times are written stands in the configuration: event: {time: {path: ts, unit: s}}, or ms, us, ns, rfc3339.
Every stream of the configuration reads the file. The oracle beside them is exact: it keeps every item and observation.

Examples:
  ebb eval clicks.jsonl -c ebb.yaml                      tables
  ebb eval access.tsv -c ebb.yaml --html report.html     and a page with plots
  ebb eval access.csv -c ebb.yaml --stream clicks --json | jq '.streams[0].mistakes'
  ebb eval clicks.jsonl -c ebb.yaml --decay window:1h --decay exponential:half_life=5m
  ebb eval clicks.jsonl -c ebb.yaml --check              fails when a promise was broken";

#[derive(Debug, Args)]
pub struct Eval {
    /// JSONL, CSV or TSV
    #[arg(value_name = "EVENTS")]
    pub file: PathBuf,
    /// The configuration; EBB_CONFIG names it when absent
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How the file is written; by its name when absent
    #[arg(long, value_enum)]
    pub format: Option<FormatName>,
    /// Only this stream; may be given several times
    #[arg(long = "stream", value_name = "NAME")]
    pub streams: Vec<String>,
    /// What aggregates are asked for besides their own decay; may be given several times
    #[arg(long = "decay", value_name = "DECAY", default_values = app::EVAL_DECAYS)]
    pub decays: Vec<Decay>,
    /// Ask aggregates after each so many lines; 24 times in all when absent
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Print everything as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Fail when a promise was broken
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum FormatName {
    Jsonl,
    Csv,
    Tsv,
}

impl Eval {
    /// Evaluates, prints and writes what was asked for.
    pub fn run(self) -> anyhow::Result<()> {
        let config = Source { file: self.config.clone() }.load()?;
        let format = self.format.map(|name| match name {
            FormatName::Jsonl => EvalFormat::Jsonl,
            FormatName::Csv => EvalFormat::Csv,
            FormatName::Tsv => EvalFormat::Tsv,
        });
        let Self { file, streams, decays, every, .. } = self;
        let report = app::evaluate(&config, &EvalOptions { file, format, streams, decays, every })?;
        match self.json {
            true => print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?,
            false => print(&report.text())?,
        }
        if let Some(path) = &self.html {
            fs::write(path, report.page()?).with_context(|| format!("writing {}", path.display()))?;
        }
        let broken: Vec<String> =
            report.violations().map(|(stream, one)| format!("{stream}: {}", one.guarantee)).collect();
        anyhow::ensure!(!self.check || broken.is_empty(), "broken: {}", broken.join("; "));
        Ok(())
    }
}
