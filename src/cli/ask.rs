//! `ebb ask`: questions to a running service, from a terminal.

use std::io::{BufRead, stdin};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use crate::app::{ApiClient, ApiRequest, render};

/// What one batch may have.
const BATCH: usize = 10_000;

#[derive(Debug, Args)]
pub struct Asking {
    /// Where the service listens
    #[arg(long, global = true, default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// A file that holds the bearer token
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) that the service's own is signed by, if it is not a public one
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// The answer as JSON, one line for each request
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub question: Question,
}

#[derive(Debug, Subcommand)]
pub enum Question {
    /// Streams and their shards in figures
    Status {
        /// Without it all streams, in short
        stream: Option<String>,
    },
    /// Was an event seen within the window?
    Decide(Decide),
    /// How often did items come of late?
    Frequency {
        stream: String,
        /// Events as JSON, of which the item's fields are read
        #[arg(required = true)]
        items: Vec<String>,
    },
    /// Sum, count, mean, quantiles, rank, top or share of an aggregate, with any decay
    Aggregate(Aggregate),
    /// Take a checkpoint of every shard now
    Checkpoint,
    /// Whether it is ready
    Ready,
}

#[derive(Debug, Args)]
pub struct Decide {
    pub stream: String,
    /// Events as JSON; without any, one a line from standard input
    pub events: Vec<String>,
    /// Remember them, too
    #[arg(long)]
    pub record: bool,
    /// Another window, up to the configured one
    #[arg(long, conflicts_with = "record")]
    pub window: Option<String>,
    /// What a new event called a duplicate costs
    #[arg(long, value_name = "COST", requires = "missed_duplicate", conflicts_with = "record")]
    pub false_duplicate: Option<f64>,
    /// What a repeat called unique costs
    #[arg(long, value_name = "COST", requires = "false_duplicate")]
    pub missed_duplicate: Option<f64>,
    /// The item's share of the events, where it is known
    #[arg(long, value_name = "SHARE", conflicts_with = "record")]
    pub prior: Option<f64>,
    /// Tell all that is believed about the last sighting
    #[arg(long, conflicts_with = "record")]
    pub explain: bool,
    /// Wait until this offset is folded
    #[arg(long, value_name = "OFFSET", conflicts_with = "record")]
    pub at_least: Option<u64>,
    /// Only this partition
    #[arg(long)]
    pub partition: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Statistic {
    Sum,
    Count,
    Mean,
    Quantiles,
    Rank,
    Top,
    Share,
}

#[derive(Debug, Args)]
pub struct Aggregate {
    pub stream: String,
    pub aggregate: String,
    pub statistic: Statistic,
    /// How old data fades: window:10m, exponential:half_life=1h, polynomial:alpha=1.5,unit=1s
    #[arg(long)]
    pub decay: Option<String>,
    /// Of one key
    #[arg(long)]
    pub key: Option<String>,
    /// Quantiles: which ones (0.5,0.99); top: the least share of the whole
    #[arg(long)]
    pub phi: Option<String>,
    /// Rank: of which value
    #[arg(long)]
    pub value: Option<f64>,
    /// Share: of which values, such as 'value>0.1'
    #[arg(long = "where", value_name = "CONDITION")]
    pub condition: Option<String>,
    /// Wait until this offset is folded: 17, or by partition 0:17,3:5
    #[arg(long, value_name = "OFFSET")]
    pub at_least: Option<String>,
}

impl Asking {
    /// Asks, and prints each answer as it comes.
    pub fn run(self) -> anyhow::Result<()> {
        let service = ApiClient::new(&self.url, self.token_file.as_deref(), self.ca_file.as_deref())?;
        let print = |answer: &Value| {
            super::print(&if self.json { format!("{answer}\n") } else { render(answer) }).context("printing the answer")
        };
        match self.question {
            Question::Decide(decide) if decide.events.is_empty() => {
                let mut lines = stdin().lock().lines().enumerate().peekable();
                while lines.peek().is_some() {
                    let batch = lines.by_ref().take(BATCH).map(|(number, line)| event(&line?, number + 1));
                    print(&service.send(&decide.request("events", batch.collect::<anyhow::Result<Value>>()?))?)?;
                }
                Ok(())
            }
            question => print(&service.send(&question.request()?)?),
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

impl Question {
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

impl Decide {
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

impl Aggregate {
    fn request(&self) -> ApiRequest {
        let statistic = match self.statistic {
            Statistic::Sum => "sum",
            Statistic::Count => "count",
            Statistic::Mean => "mean",
            Statistic::Quantiles => "quantiles",
            Statistic::Rank => "rank",
            Statistic::Top => "top",
            Statistic::Share => "share",
        };
        let given = [
            ("decay", self.decay.clone()),
            ("key", self.key.clone()),
            ("phi", self.phi.clone()),
            ("value", self.value.map(|value| value.to_string())),
            ("where", self.condition.clone()),
            ("at_least", self.at_least.clone()),
        ];
        let query = given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        ApiRequest { query, ..get(&["v1", "streams", &self.stream, "aggregates", &self.aggregate, statistic]) }
    }
}
