//! `ebb plan`: from wishes on the command line, or a configuration, to what to expect.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Refused, Source};
use crate::app::{self, TrafficAssumptions};
use crate::config::Config;
use crate::kafka::properties;

/// The name of the stream that stands for the wishes.
const STREAM: &str = "planned";

#[derive(Debug, Args)]
pub struct Planning {
    /// A configuration whose streams are planned; without it the wishes below
    #[arg(required_unless_present = "window")]
    pub file: Option<PathBuf>,
    /// How long an item is to be remembered: 24h, or '1000000 events'
    #[arg(long, conflicts_with = "file")]
    pub window: Option<String>,
    /// Events a second, of all partitions together
    #[arg(long, value_name = "EVENTS")]
    pub rate: Option<f64>,
    /// Distinct items among the events of a window [default: what the file says, or 0.9]
    #[arg(long, value_name = "SHARE")]
    pub distinct: Option<f64>,
    /// Memory of the filter, for each partition [default: 64MiB]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["file", "error"])]
    pub memory: Option<String>,
    /// Instead of the memory: the share of new events that may be called duplicates
    #[arg(long, value_name = "SHARE", conflicts_with = "file")]
    pub error: Option<f64>,
    /// Partitions that share the events
    #[arg(long, conflicts_with = "file", default_value_t = 1)]
    pub partitions: u32,
    /// From which sighting the window counts
    #[arg(long, conflicts_with = "file", value_enum, default_value_t = SeenWord::First)]
    pub seen: SeenWord,
    /// What a new event called a duplicate costs [default: what the file says, or 1]
    #[arg(long, value_name = "COST")]
    pub false_duplicate: Option<f64>,
    /// What a repeat called unique costs [default: what the file says, or 1]
    #[arg(long, value_name = "COST")]
    pub missed_duplicate: Option<f64>,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SeenWord {
    First,
    Last,
}

impl Planning {
    /// What `ebb plan` prints.
    pub fn text(&self) -> anyhow::Result<String> {
        let config = match &self.file {
            Some(file) => Source { file: Some(file.clone()) }.load()?,
            None => self.wished()?,
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

    /// The wishes as a configuration, so that they are read and refused as one.
    fn wished(&self) -> Result<Config, Refused> {
        let mut dedup = serde_json::Map::new();
        let mut set = |key: &str, value: Option<serde_json::Value>| {
            value.into_iter().for_each(|value| drop(dedup.insert(key.into(), value)));
        };
        set("window", self.window.clone().map(Into::into));
        set("memory", self.memory.clone().map(Into::into));
        set("error", self.error.map(Into::into));
        set("rate", self.rate.map(|rate| (rate / f64::from(self.partitions.max(1))).into()));
        let seen = match self.seen {
            SeenWord::First => "first",
            SeenWord::Last => "last",
        };
        set("seen", Some(seen.into()));
        let stream = serde_json::json!({"partitions": self.partitions, "event": {"item": ["item"]}, "dedup": dedup});
        let text = serde_json::json!({ "streams": { STREAM: stream } }).to_string();
        let refused = |mistakes| Refused { name: "the arguments".into(), mistakes };
        let config = Config::parse(&text, [], properties::check).map_err(refused)?;
        app::verify(&config).map_err(refused)?;
        Ok(config)
    }
}
