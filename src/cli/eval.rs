//! The arguments of `ebb eval`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{ConfigSource, print};
use crate::app::{self, EvalFormat, EvalOptions};
use ebb_sketch::decay::Decay;

pub(super) const EXAMPLES: &str = "\
The file is JSONL, or CSV or TSV with column names in the first line: each line becomes a JSON event with these fields.
The configuration states the unit of time: event: {time: {path: ts, unit: s}}, or ms, us, ns, rfc3339.
Every stream of the configuration processes the file and is compared with an exact oracle, which keeps every item.

Examples:
  ebb eval clicks.jsonl -c ebb.yaml                      tables
  ebb eval access.tsv -c ebb.yaml --html report.html     and an HTML page with plots
  ebb eval access.csv -c ebb.yaml --stream clicks --json | jq '.streams[0].mistakes'
  ebb eval clicks.jsonl -c ebb.yaml --decay window:1h --decay exponential:half_life=5m
  ebb eval clicks.jsonl -c ebb.yaml --check              fail if a guarantee does not hold";

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Events as JSONL, CSV or TSV
    #[arg(value_name = "EVENTS")]
    pub file: PathBuf,
    /// The configuration; by default the file named by EBB_CONFIG
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Format of the file; by default derived from its name
    #[arg(long, value_parser = format_parser())]
    pub format: Option<EvalFormat>,
    /// Evaluate only this stream; can be repeated
    #[arg(long = "stream", value_name = "NAME")]
    pub streams: Vec<String>,
    /// Decay with which aggregates are queried besides their own; can be repeated
    #[arg(long = "decay", value_name = "DECAY", default_values = app::EVAL_DECAYS)]
    pub decays: Vec<Decay>,
    /// Query aggregates every so many lines [default: 24 times in total]
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Fail if a guarantee does not hold
    #[arg(long)]
    pub check: bool,
}

const FORMATS: [(&str, EvalFormat); 3] =
    [("jsonl", EvalFormat::Jsonl), ("csv", EvalFormat::Csv), ("tsv", EvalFormat::Tsv)];

fn format_parser() -> impl TypedValueParser<Value = EvalFormat> {
    PossibleValuesParser::new(FORMATS.map(|(name, _)| name)).try_map(|text| {
        let format = FORMATS.iter().find(|(name, _)| *name == text).map(|(_, format)| *format);
        format.ok_or_else(|| format!("unknown format {text}"))
    })
}

impl EvalArgs {
    /// Evaluates the file and prints or writes the report.
    pub fn run(self) -> anyhow::Result<()> {
        let config = ConfigSource { file: self.config.clone() }.load()?;
        let Self { file, format, streams, decays, every, .. } = self;
        let report = app::evaluate(&config, &EvalOptions { file, format, streams, decays, every })?;
        match self.json {
            true => print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?,
            false => print(&report.text())?,
        }
        if let Some(path) = &self.html {
            fs::write(path, report.page()?).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let violations: Vec<String> =
            report.violations().map(|(stream, one)| format!("{stream}: {}", one.guarantee)).collect();
        anyhow::ensure!(!self.check || violations.is_empty(), "violated guarantees: {}", violations.join("; "));
        Ok(())
    }
}
