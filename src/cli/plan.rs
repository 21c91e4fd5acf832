//! The arguments of `ebb plan`: a configuration, or the keys of a single stream.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{ConfigSource, InvalidConfig};
use crate::app::{self, TrafficAssumptions};
use crate::config::{Config, ConfigEnum};
use crate::kafka::properties;
use ebb_core::Seen;

/// The name of the stream that the arguments describe.
const STREAM: &str = "planned";

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Configuration whose streams are planned; without it the options below describe a stream
    #[arg(required_unless_present = "window")]
    pub file: Option<PathBuf>,
    /// How long an item is remembered: 24h, or '1000000 events'
    #[arg(long, conflicts_with = "file")]
    pub window: Option<String>,
    /// Events per second in all partitions together
    #[arg(long, value_name = "EVENTS")]
    pub rate: Option<f64>,
    /// Share of distinct items among the events of a window [default: from the file, or 0.9]
    #[arg(long, value_name = "SHARE")]
    pub distinct: Option<f64>,
    /// Memory of the filter in each partition [default: 64MiB]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["file", "error"])]
    pub memory: Option<String>,
    /// Instead of the memory: the largest acceptable share of false duplicates
    #[arg(long, value_name = "SHARE", conflicts_with = "file")]
    pub error: Option<f64>,
    /// Number of partitions
    #[arg(long, conflicts_with = "file", default_value_t = 1)]
    pub partitions: u32,
    /// Whether the window starts at the first or the last event with an item
    #[arg(long, conflicts_with = "file", value_parser = PossibleValuesParser::new(Seen::names()), default_value = Seen::First.name())]
    pub seen: String,
    /// Penalty of taking a unique event for a duplicate [default: from the file, or 1]
    #[arg(long, value_name = "COST")]
    pub false_duplicate: Option<f64>,
    /// Penalty of taking a duplicate for unique [default: from the file, or 1]
    #[arg(long, value_name = "COST")]
    pub missed_duplicate: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl PlanArgs {
    /// The output of `ebb plan`.
    pub fn text(&self) -> anyhow::Result<String> {
        let config = match &self.file {
            Some(file) => ConfigSource { file: Some(file.clone()) }.load()?,
            None => self.to_config()?,
        };
        let plan = app::plan_capacity(&config, &self.assumptions())?;
        Ok(if self.json { plan.json() } else { plan.table() })
    }

    fn assumptions(&self) -> TrafficAssumptions {
        TrafficAssumptions {
            rate: self.rate,
            distinct: self.distinct,
            false_duplicate: self.false_duplicate,
            missed_duplicate: self.missed_duplicate,
        }
    }

    /// The options as a configuration, so that they are parsed and checked like one.
    fn to_config(&self) -> Result<Config, InvalidConfig> {
        let mut dedup = serde_json::Map::new();
        let mut set = |key: &str, value: Option<serde_json::Value>| {
            value.into_iter().for_each(|value| drop(dedup.insert(key.into(), value)));
        };
        set("window", self.window.clone().map(Into::into));
        set("memory", self.memory.clone().map(Into::into));
        set("error", self.error.map(Into::into));
        set("rate", self.rate.map(|rate| (rate / f64::from(self.partitions.max(1))).into()));
        set("seen", Some(self.seen.clone().into()));
        let stream = serde_json::json!({"partitions": self.partitions, "event": {"item": ["item"]}, "dedup": dedup});
        let text = serde_json::json!({ "streams": { STREAM: stream } }).to_string();
        let invalid = |errors| InvalidConfig { source_name: "the arguments".into(), errors };
        let config = Config::parse(&text, [], properties::check).map_err(invalid)?;
        app::verify(&config).map_err(invalid)?;
        Ok(config)
    }
}
