//! The arguments of `ebb ask` and the API requests that they describe.

use std::io::{BufRead, stdin};
use std::path::PathBuf;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::app::{ApiClient, ApiRequest, render};
use crate::http::StatisticName;

/// The maximum number of events in a batch.
const MAX_BATCH: usize = 10_000;

#[derive(Debug, Args)]
pub struct AskArgs {
    /// Base URL of the service
    #[arg(long, global = true, default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// File with the bearer token
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// PEM certificates of the authority that signed the service's certificate, if it is not a public one
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Print answers as JSON, one line per request
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: AskCommand,
}

#[derive(Debug, Subcommand)]
pub enum AskCommand {
    /// Status of streams and their shards
    Status {
        /// Without it a summary of all streams
        stream: Option<String>,
    },
    /// Whether an event was seen within the window
    Decide(DecideArgs),
    /// Decayed number of events per item
    Frequency {
        stream: String,
        /// Events as JSON, with at least the fields of the item
        #[arg(required = true)]
        items: Vec<String>,
    },
    /// Sum, count, mean, quantiles, rank, top, share or distinct values of an aggregate, with any decay
    Aggregate(AggregateArgs),
    /// Write a checkpoint of every shard now
    Checkpoint,
    /// Whether the service is ready
    Ready,
}

#[derive(Debug, Args)]
pub struct DecideArgs {
    pub stream: String,
    /// Events as JSON; without any, one per line from standard input
    pub events: Vec<String>,
    /// Also record the events
    #[arg(long)]
    pub record: bool,
    /// A shorter window than the configured one
    #[arg(long, conflicts_with = "record")]
    pub window: Option<String>,
    /// Penalty of taking a unique event for a duplicate
    #[arg(long, value_name = "COST", requires = "missed_duplicate", conflicts_with = "record")]
    pub false_duplicate: Option<f64>,
    /// Penalty of taking a duplicate for unique
    #[arg(long, value_name = "COST", requires = "false_duplicate")]
    pub missed_duplicate: Option<f64>,
    /// The item's share of all events, if it is known
    #[arg(long, value_name = "SHARE", conflicts_with = "record")]
    pub prior: Option<f64>,
    /// Include the whole posterior in the answer
    #[arg(long, conflicts_with = "record")]
    pub explain: bool,
    /// Wait until this offset is processed
    #[arg(long, value_name = "OFFSET", conflicts_with = "record")]
    pub at_least: Option<u64>,
    /// Query only this partition
    #[arg(long)]
    pub partition: Option<u32>,
}

#[derive(Debug, Args)]
pub struct AggregateArgs {
    pub stream: String,
    pub aggregate: String,
    #[arg(value_parser = PossibleValuesParser::new(StatisticName::ALL.map(StatisticName::as_str)))]
    pub statistic: String,
    /// Decay function: window:10m, exponential:half_life=1h, polynomial:alpha=1.5,unit=1s
    #[arg(long)]
    pub decay: Option<String>,
    /// Instead of a decay: only about this many of the newest events (robust and cascade)
    #[arg(long, value_name = "EVENTS", conflicts_with = "decay")]
    pub last: Option<u64>,
    /// Event time at which the decay is applied, unless the newest event is later: milliseconds or RFC 3339
    #[arg(long, conflicts_with = "as_of")]
    pub now: Option<String>,
    /// Event time at which the decay is applied, in the past too (robust and cascade)
    #[arg(long, value_name = "TIME")]
    pub as_of: Option<String>,
    /// Aggregate of this key
    #[arg(long)]
    pub key: Option<String>,
    /// For quantiles: which ones (0.5,0.99); for top: the minimum share
    #[arg(long)]
    pub phi: Option<String>,
    /// For rank: the value
    #[arg(long)]
    pub value: Option<f64>,
    /// For share: the condition, such as 'value>0.1'
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Wait until this offset is processed: 17, or by partition 0:17,3:5
    #[arg(long, value_name = "OFFSET")]
    pub at_least: Option<String>,
}

impl AskArgs {
    /// Sends the requests and prints each answer.
    pub fn run(self) -> anyhow::Result<()> {
        let service = ApiClient::new(&self.url, self.token_file.as_deref(), self.ca_file.as_deref())?;
        let print = |answer: &Value| {
            super::print(&if self.json { format!("{answer}\n") } else { render(answer) })
                .context("cannot print the answer")
        };
        match self.command {
            AskCommand::Decide(decide) if decide.events.is_empty() => {
                let mut lines = stdin().lock().lines().enumerate().peekable();
                while lines.peek().is_some() {
                    let batch = lines.by_ref().take(MAX_BATCH).map(|(number, line)| event(&line?, number + 1));
                    print(&service.send(&decide.request("events", batch.collect::<anyhow::Result<Value>>()?))?)?;
                }
                Ok(())
            }
            command => print(&service.send(&command.request()?)?),
        }
    }
}

fn event(text: &str, number: usize) -> anyhow::Result<Value> {
    serde_json::from_str(text).with_context(|| format!("event {number} is not JSON"))
}

fn events(texts: &[String]) -> anyhow::Result<Value> {
    texts.iter().enumerate().map(|(index, text)| event(text, index + 1)).collect()
}

fn get(path: &[&str]) -> ApiRequest {
    ApiRequest { path: path.iter().map(ToString::to_string).collect(), query: Vec::new(), body: None }
}

impl AskCommand {
    fn request(&self) -> anyhow::Result<ApiRequest> {
        Ok(match self {
            Self::Status { stream: None } => get(&["v1", "streams"]),
            Self::Status { stream: Some(stream) } => get(&["v1", "streams", stream]),
            Self::Decide(decide) => match decide.events.as_slice() {
                [one] => decide.request("event", event(one, 1)?),
                many => decide.request("events", events(many)?),
            },
            Self::Frequency { stream, items } => {
                let body = Some(json!({ "items": events(items)? }));
                ApiRequest { body, ..get(&["v1", "streams", stream, "frequency"]) }
            }
            Self::Aggregate(aggregate) => aggregate.request(),
            Self::Checkpoint => ApiRequest { body: Some(json!({})), ..get(&["v1", "checkpoint"]) },
            Self::Ready => get(&["readyz"]),
        })
    }
}

impl DecideArgs {
    fn request(&self, name: &str, events: Value) -> ApiRequest {
        let mut body = Map::from_iter([(name.to_string(), events)]);
        let mut set = |key: &str, value: Option<Value>| {
            value.into_iter().for_each(|value| drop(body.insert(key.into(), value)));
        };
        set("record", self.record.then_some(true.into()));
        set("explain", self.explain.then_some(true.into()));
        set("window", self.window.clone().map(Into::into));
        set("prior", self.prior.map(Into::into));
        set("at_least", self.at_least.map(Into::into));
        set("partition", self.partition.map(Into::into));
        if let (Some(false_duplicate), Some(missed)) = (self.false_duplicate, self.missed_duplicate) {
            set("penalty", Some(json!({"false_duplicate": false_duplicate, "missed_duplicate": missed})));
        }
        ApiRequest { body: Some(body.into()), ..get(&["v1", "streams", &self.stream, "decide"]) }
    }
}

impl AggregateArgs {
    fn request(&self) -> ApiRequest {
        let parameters = [
            ("decay", self.decay.clone()),
            ("last", self.last.map(|last| last.to_string())),
            ("now", self.now.clone()),
            ("as_of", self.as_of.clone()),
            ("key", self.key.clone()),
            ("phi", self.phi.clone()),
            ("value", self.value.map(|value| value.to_string())),
            ("where", self.condition.clone()),
            ("at_least", self.at_least.clone()),
        ];
        let query = parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        ApiRequest { query, ..get(&["v1", "streams", &self.stream, "aggregates", &self.aggregate, &self.statistic]) }
    }
}
