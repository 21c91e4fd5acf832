//! `ebb plan`: the memory that a configuration needs and the errors to expect of it, before it is deployed.
//!
//! Filter layouts are those of the service. Error rates and penalties come from `filter::forecast`, which assumes steady
//! traffic of equally frequent items. Aggregates show their memory budget; without one, their
//! memory is measured with synthetic events. All figures are per
//! partition unless stated otherwise.

mod frequency;
mod memory;
mod scenario;
mod table;

use anyhow::Context;
use serde::Serialize;

use super::plans;
use crate::config::Config;
use crate::config::stream::StreamConfig;
use ebb_core::Plan;
use memory::ViewMemory;
use scenario::Scenario;

/// The share of distinct items in a window that is assumed if neither the configuration nor the caller states it.
pub const DEFAULT_DISTINCT_SHARE: f64 = 0.9;

/// Assumptions about the traffic that the configuration does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrafficAssumptions {
    /// Events per second in all partitions together.
    pub rate: Option<f64>,
    /// The share of distinct items among the events of a window.
    pub distinct: Option<f64>,
    pub false_duplicate: Option<f64>,
    pub missed_duplicate: Option<f64>,
}

/// The expected memory and errors of every stream.
#[derive(Debug, Clone, Serialize)]
pub struct CapacityPlan {
    streams: Vec<StreamCapacity>,
}

#[derive(Debug, Clone, Serialize)]
struct StreamCapacity {
    name: String,
    partitions: u64,
    assumed: ScenarioInputs,
    views: Vec<ViewMemory>,
    memory_bytes: u64,
    /// First as configured, then with one quantity doubled at a time.
    dedup: Vec<FilterForecast>,
}

/// The inputs that the figures depend on.
#[derive(Debug, Clone, Copy, Serialize)]
struct ScenarioInputs {
    events_per_second: Option<f64>,
    events_per_window: f64,
    distinct_share: f64,
    false_duplicate_penalty: f64,
    missed_duplicate_penalty: f64,
}

/// One filter and its forecast.
#[derive(Debug, Clone, Serialize)]
struct FilterForecast {
    what: &'static str,
    window: String,
    events_per_window: f64,
    memory_bytes: u64,
    bytes_per_item: f64,
    layout: String,
    /// The share of new items that the standard answer takes for duplicates.
    false_duplicate_share: f64,
    /// How filters with random decrements forget.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgetting: Option<ForgettingForecast>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fill: Option<f64>,
    /// Only the timing filter has a forecast of penalties.
    #[serde(skip_serializing_if = "Option::is_none")]
    penalty: Option<ExpectedPenalty>,
}

/// How a filter with random decrements forgets.
#[derive(Debug, Clone, Serialize)]
struct ForgettingForecast {
    /// The age at which half of the most important items are forgotten; absent if other items keep them found.
    #[serde(skip_serializing_if = "Option::is_none")]
    half_forgotten_events: Option<u64>,
    /// The same as a time, at the assumed rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    half_forgotten: Option<String>,
    /// The share of repeats after a whole window that are missed.
    missed_share: f64,
    /// The importance classes, least important first; one entry if all items are alike.
    classes: Vec<ClassForecast>,
}

/// The errors of one importance class.
#[derive(Debug, Clone, Serialize)]
struct ClassForecast {
    class: String,
    /// The share of events in this class.
    share: f64,
    false_duplicate_share: f64,
    missed_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    half_forgotten_events: Option<u64>,
}

/// Expected penalties per event.
#[derive(Debug, Clone, Copy, Serialize)]
struct ExpectedPenalty {
    without_filter: f64,
    standard: f64,
    posterior: f64,
}

/// The capacity plan of all streams of a configuration.
pub fn plan_capacity(config: &Config, assumptions: &TrafficAssumptions) -> anyhow::Result<CapacityPlan> {
    let key = ebb_sketch::hash::HashKey::new([0; 16]);
    let streams = config.streams.iter().map(|(name, stream)| {
        let scenario = Scenario::new(stream, assumptions)?;
        let assumed = StreamConfig { dedup: scenario.dedup().clone(), ..stream.clone() };
        let plan = plans::plan(&assumed, &config.limits, &key)?;
        StreamCapacity::new(name, &plan, &scenario, stream.partitions).with_context(|| format!("streams.{name}"))
    });
    Ok(CapacityPlan { streams: streams.collect::<anyhow::Result<_>>()? })
}

impl StreamCapacity {
    fn new(name: &str, plan: &Plan, scenario: &Scenario, partitions: u64) -> anyhow::Result<Self> {
        let views = memory::views(plan)?;
        Ok(Self {
            name: name.to_string(),
            partitions,
            assumed: scenario.inputs(),
            memory_bytes: views.iter().map(|view| view.memory_bytes).sum(),
            views,
            dedup: scenario.forecasts()?,
        })
    }
}

impl CapacityPlan {
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers can be written as JSON") + "\n"
    }

    pub fn table(&self) -> String {
        self.streams.iter().map(table::stream).collect::<Vec<_>>().join("\n")
    }
}
