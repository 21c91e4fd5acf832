//! `ebb plan`: what a configuration will need and how often it will err, before anything is deployed.
//!
//! Layouts come from the code that the service itself uses; errors and penalties from `filter::forecast`, whose model is
//! steady traffic of equally frequent items. Memory of aggregates is measured on synthetic events. Everything is for one
//! partition, unless it says otherwise.

mod table;
mod views;

use anyhow::Context;
use serde::Serialize;

use super::plans;
use crate::config::Config;
use crate::config::dedup::{CostConfig, DedupConfig, WindowConfig};
use crate::config::stream::StreamConfig;
use ebb_core::{FilterSpec, Plan};
use ebb_sketch::filter::decision::Penalties;
use ebb_sketch::filter::forecast::{Forecast, Traffic};
use ebb_sketch::filter::limiting::{Law, ValueShares};
use ebb_sketch::filter::timing::TimingSpec;
use ebb_sketch::units::{Bytes, DurationMs};
use views::View;

/// Distinct items among the events of a window, where nothing says how many there are.
pub const DISTINCT: f64 = 0.9;

/// What the configuration does not say.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Assumptions {
    /// Events a second, of all partitions together.
    pub rate: Option<f64>,
    /// Distinct items among the events of a window.
    pub distinct: Option<f64>,
    pub false_duplicate: Option<f64>,
    pub missed_duplicate: Option<f64>,
}

/// What to expect of every stream.
#[derive(Debug, Clone, Serialize)]
pub struct Outlook {
    streams: Vec<StreamOutlook>,
}

#[derive(Debug, Clone, Serialize)]
struct StreamOutlook {
    name: String,
    partitions: u64,
    assumed: Assumed,
    views: Vec<View>,
    memory_bytes: u64,
    /// First as configured, then with each thing doubled.
    dedup: Vec<Choice>,
}

/// On what the figures rest.
#[derive(Debug, Clone, Copy, Serialize)]
struct Assumed {
    events_per_second: Option<f64>,
    events_per_window: f64,
    distinct_share: f64,
    false_duplicate_penalty: f64,
    missed_duplicate_penalty: f64,
}

/// One filter and what to expect of it.
#[derive(Debug, Clone, Serialize)]
struct Choice {
    what: &'static str,
    window: String,
    events_per_window: f64,
    memory_bytes: u64,
    bytes_per_item: f64,
    layout: String,
    /// Events not seen within the window that the standard answer calls duplicates.
    false_duplicate_share: f64,
    /// Repeats that are missed after a whole window, by filters that forget at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fill: Option<f64>,
    /// Expected for each event; only a timing filter has a forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    penalty: Option<Penalty>,
}

/// Expected for each event.
#[derive(Debug, Clone, Copy, Serialize)]
struct Penalty {
    without_filter: f64,
    standard: f64,
    posterior: f64,
}

/// What to expect of the streams of a configuration.
pub fn outlook(config: &Config, assumptions: &Assumptions) -> anyhow::Result<Outlook> {
    let key = ebb_sketch::hash::HashKey::new([0; 16]);
    let streams = config.streams.iter().map(|(name, stream)| {
        let case = Case::new(stream, assumptions)?;
        let assumed = StreamConfig { dedup: case.dedup.clone(), ..stream.clone() };
        let plan = plans::plan(&assumed, &config.limits, &key)?;
        StreamOutlook::new(name, &plan, &case, stream.partitions).with_context(|| format!("streams.{name}"))
    });
    Ok(Outlook { streams: streams.collect::<anyhow::Result<_>>()? })
}

impl StreamOutlook {
    fn new(name: &str, plan: &Plan, case: &Case, partitions: u64) -> anyhow::Result<Self> {
        let views = views::views(plan)?;
        let memory_bytes = views.iter().map(|view| view.memory_bytes).sum();
        let (name, assumed, dedup) = (name.to_string(), case.assumed(), case.choices()?);
        Ok(Self { name, partitions, assumed, views, memory_bytes, dedup })
    }
}

impl Outlook {
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers can be written as JSON") + "\n"
    }

    pub fn table(&self) -> String {
        self.streams.iter().map(table::stream).collect::<Vec<_>>().join("\n")
    }
}

/// The dedup view of a stream and what it is to be asked for.
#[derive(Clone)]
struct Case {
    dedup: DedupConfig,
    /// Events in a window of one partition.
    events: f64,
    distinct: f64,
    penalties: Penalties,
}

impl Case {
    fn new(stream: &StreamConfig, assumptions: &Assumptions) -> anyhow::Result<Self> {
        let mut dedup = stream.dedup.clone();
        if let Some(rate) = assumptions.rate {
            dedup.rate = Some(rate / stream.partitions as f64);
        }
        let stated = match (dedup.window, dedup.rate) {
            (WindowConfig::Events(events), _) => Some(events as f64),
            (WindowConfig::Time(window), Some(rate)) => Some((rate * window.0 as f64 / 1e3).max(1.0)),
            (WindowConfig::Time(_), None) => None,
        };
        let (events, distinct) = match (stated, dedup.items, assumptions.distinct) {
            (Some(events), _, Some(distinct)) => (events, distinct),
            (Some(events), Some(items), None) => (events, (items as f64 / events).min(1.0)),
            (Some(events), None, None) => (events, DISTINCT),
            (None, Some(items), distinct) => {
                let distinct = distinct.unwrap_or(DISTINCT);
                (items as f64 / distinct, distinct)
            }
            (None, None, _) => anyhow::bail!("dedup: says neither rate nor items; add --rate (events a second)"),
        };
        Traffic::new(events, distinct)?;
        if assumptions.distinct.is_some() || dedup.items.is_some() {
            dedup.items = Some((events * distinct).ceil() as u64);
        }
        Ok(Self { penalties: penalties(&dedup, assumptions)?, dedup, events, distinct })
    }

    fn assumed(&self) -> Assumed {
        let events_per_second = match self.dedup.window {
            WindowConfig::Time(window) => Some(self.events / (window.0 as f64 / 1e3)),
            WindowConfig::Events(_) => None,
        };
        Assumed {
            events_per_second,
            events_per_window: self.events,
            distinct_share: self.distinct,
            false_duplicate_penalty: self.penalties.false_duplicate(),
            missed_duplicate_penalty: self.penalties.missed_duplicate(),
        }
    }

    fn choices(&self) -> anyhow::Result<Vec<Choice>> {
        let planned = self.choice("as planned")?;
        let mut choices = vec![self.with_memory(2 * planned.memory_bytes).choice("twice the memory")?];
        if matches!(self.dedup.window, WindowConfig::Time(_)) {
            choices.push(self.with_twice_the_events().choice("twice the rate")?);
        }
        choices.push(self.with_twice_the_window().choice("twice the window")?);
        choices.insert(0, planned);
        Ok(choices)
    }

    fn with_memory(&self, bytes: u64) -> Self {
        let mut case = self.clone();
        (case.dedup.memory, case.dedup.error) = (Some(Bytes(bytes)), None);
        case
    }

    fn with_twice_the_events(&self) -> Self {
        let mut case = self.clone();
        case.events *= 2.0;
        case.dedup.rate = case.dedup.rate.map(|rate| rate * 2.0);
        case.dedup.items = case.dedup.items.map(|items| items * 2);
        case
    }

    fn with_twice_the_window(&self) -> Self {
        let mut case = self.clone();
        case.events *= 2.0;
        case.dedup.items = case.dedup.items.map(|items| items * 2);
        case.dedup.lateness = case.dedup.lateness.map(|lateness| DurationMs(lateness.0 * 2));
        case.dedup.window = match case.dedup.window {
            WindowConfig::Time(window) => WindowConfig::Time(DurationMs(window.0 * 2)),
            WindowConfig::Events(events) => WindowConfig::Events(events * 2),
        };
        case
    }

    fn choice(&self, what: &'static str) -> anyhow::Result<Choice> {
        let filter = plans::filter_spec(&self.dedup).with_context(|| what.to_string())?;
        let memory_bytes = views::filter_bytes(&filter);
        let items = self.events * self.distinct;
        let window = match self.dedup.window {
            WindowConfig::Time(window) => window.to_string(),
            WindowConfig::Events(events) => format!("{events} events"),
        };
        let mut choice = Choice {
            what,
            window,
            events_per_window: self.events,
            memory_bytes,
            bytes_per_item: memory_bytes as f64 / items,
            layout: table::layout(&filter),
            false_duplicate_share: 0.0,
            missed_share: None,
            fill: None,
            penalty: None,
        };
        self.predict(&filter, &mut choice)?;
        Ok(choice)
    }

    fn predict(&self, filter: &FilterSpec, choice: &mut Choice) -> anyhow::Result<()> {
        match filter {
            FilterSpec::Timing { spec, .. } => self.predict_timing(spec, choice)?,
            FilterSpec::Fading { spec, .. } => {
                let law = Law::of(spec, &ValueShares::even(spec.top())).context("no steady state")?;
                choice.false_duplicate_share = law.false_duplicate();
                choice.missed_share = Some(law.missed_overall(self.events as u64));
                choice.fill = Some(1.0 - law.zero_share());
            }
            FilterSpec::Classic { hashes, .. } => {
                let (cells, hashes) = (8.0 * choice.memory_bytes as f64, f64::from(*hashes));
                let fill = -libm::expm1(-hashes * self.events * self.distinct / cells);
                choice.false_duplicate_share = libm::pow(fill, hashes);
                choice.fill = Some(fill);
            }
        }
        Ok(())
    }

    fn predict_timing(&self, spec: &TimingSpec, choice: &mut Choice) -> anyhow::Result<()> {
        let forecast = Forecast::new(spec, &Traffic::new(self.events, self.distinct)?, self.dedup.seen);
        let standard = forecast.standard(&self.penalties);
        choice.false_duplicate_share = standard.false_duplicates / (1.0 - forecast.repeats).max(f64::MIN_POSITIVE);
        choice.fill = Some(forecast.fill);
        choice.penalty = Some(Penalty {
            without_filter: forecast.forgetful(&self.penalties).penalty,
            standard: standard.penalty,
            posterior: forecast.posterior(&self.penalties).penalty,
        });
        Ok(())
    }
}

/// Costs that are fields of the event differ from event to event: then, and where none are given, 1 counts.
fn penalties(dedup: &DedupConfig, assumptions: &Assumptions) -> anyhow::Result<Penalties> {
    let constant = |cost: &CostConfig| match cost {
        CostConfig::Constant(cost) => Some(*cost),
        CostConfig::Field(_) => None,
    };
    let stated = dedup.penalty.as_ref();
    let false_duplicate = stated.and_then(|penalty| constant(&penalty.false_duplicate));
    let missed_duplicate = stated.and_then(|penalty| constant(&penalty.missed_duplicate));
    Ok(Penalties::new(
        assumptions.false_duplicate.or(false_duplicate).unwrap_or(1.0),
        assumptions.missed_duplicate.or(missed_duplicate).unwrap_or(1.0),
    )?)
}
