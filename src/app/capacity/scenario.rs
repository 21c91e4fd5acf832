//! A dedup view under assumed traffic, and variations of it.

use anyhow::Context;

use super::{ClassForecast, ExpectedPenalty, FilterForecast, ForgettingForecast, ScenarioInputs, TrafficAssumptions};
use super::{DEFAULT_DISTINCT_SHARE, memory, plans, table};
use crate::config::dedup::{CostConfig, DedupConfig, WindowConfig};
use crate::config::stream::StreamConfig;
use ebb_core::{FilterSpec, Penalties, StableViewSpec};
use ebb_sketch::filter::planning::classic_sizing;
use ebb_sketch::filter::planning::forecast::{Forecast, TrafficModel};
use ebb_sketch::filter::planning::stable_sizing;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::units::{Bytes, DurationMs};

/// The dedup view of a stream and the traffic in one of its partitions.
#[derive(Clone)]
pub(super) struct Scenario {
    dedup: DedupConfig,
    events_per_window: f64,
    distinct_share: f64,
    penalties: Penalties,
}

impl Scenario {
    pub(super) fn new(stream: &StreamConfig, assumptions: &TrafficAssumptions) -> anyhow::Result<Self> {
        let mut dedup = stream.dedup.clone();
        if let Some(rate) = assumptions.rate {
            dedup.rate = Some(rate / stream.partitions as f64);
        }
        let stated = match (dedup.window, dedup.rate) {
            (WindowConfig::Events(events), _) => Some(events as f64),
            (WindowConfig::Time(window), Some(rate)) => Some((rate * window.0 as f64 / 1e3).max(1.0)),
            (WindowConfig::Time(_), None) => None,
        };
        let (events_per_window, distinct_share) = match (stated, dedup.items, assumptions.distinct) {
            (Some(events), _, Some(distinct)) => (events, distinct),
            (Some(events), Some(items), None) => (events, (items as f64 / events).min(1.0)),
            (Some(events), None, None) => (events, DEFAULT_DISTINCT_SHARE),
            (None, Some(items), distinct) => {
                let distinct = distinct.unwrap_or(DEFAULT_DISTINCT_SHARE);
                (items as f64 / distinct, distinct)
            }
            (None, None, _) => {
                anyhow::bail!("dedup: neither rate nor items is configured; add --rate (events per second)")
            }
        };
        TrafficModel::new(events_per_window, distinct_share)?;
        if assumptions.distinct.is_some() || dedup.items.is_some() {
            dedup.items = Some((events_per_window * distinct_share).ceil() as u64);
        }
        Ok(Self { penalties: penalties(&dedup, assumptions)?, dedup, events_per_window, distinct_share })
    }

    pub(super) fn dedup(&self) -> &DedupConfig {
        &self.dedup
    }

    pub(super) fn inputs(&self) -> ScenarioInputs {
        let events_per_second = match self.dedup.window {
            WindowConfig::Time(window) => Some(self.events_per_window / (window.0 as f64 / 1e3)),
            WindowConfig::Events(_) => None,
        };
        ScenarioInputs {
            events_per_second,
            events_per_window: self.events_per_window,
            distinct_share: self.distinct_share,
            false_duplicate_penalty: self.penalties.false_duplicate(),
            missed_duplicate_penalty: self.penalties.missed_duplicate(),
        }
    }

    /// The forecast of this scenario, then of its variations.
    pub(super) fn forecasts(&self) -> anyhow::Result<Vec<FilterForecast>> {
        let planned = self.forecast("as planned")?;
        let doubled_memory = self.with_memory(2 * planned.memory_bytes)?.forecast("twice the memory")?;
        let mut forecasts = vec![planned, doubled_memory];
        if matches!(self.dedup.window, WindowConfig::Time(_)) {
            forecasts.push(self.with_doubled_rate().forecast("twice the rate")?);
        }
        forecasts.push(self.with_doubled_window().forecast("twice the window")?);
        Ok(forecasts)
    }

    /// The same cells per item and bits in another memory.
    fn with_memory(&self, bytes: u64) -> anyhow::Result<Self> {
        let mut scenario = self.clone();
        match plans::filter_spec(&self.dedup)? {
            FilterSpec::Timing { .. } => {}
            FilterSpec::Stable(spec) => {
                scenario.dedup.cells = Some(u64::from(spec.filter.hasher().hashes()));
                scenario.dedup.bits = Some(u64::from(spec.filter.max_value().ilog2()) + 1);
            }
            FilterSpec::Classic { hashes, .. } => scenario.dedup.cells = Some(u64::from(hashes)),
        }
        (scenario.dedup.memory, scenario.dedup.error) = (Some(Bytes(bytes)), None);
        Ok(scenario)
    }

    fn with_doubled_rate(&self) -> Self {
        let mut scenario = self.clone();
        scenario.events_per_window *= 2.0;
        scenario.dedup.rate = scenario.dedup.rate.map(|rate| rate * 2.0);
        scenario.dedup.items = scenario.dedup.items.map(|items| items * 2);
        scenario
    }

    fn with_doubled_window(&self) -> Self {
        let mut scenario = self.clone();
        scenario.events_per_window *= 2.0;
        scenario.dedup.items = scenario.dedup.items.map(|items| items * 2);
        scenario.dedup.lateness = scenario.dedup.lateness.map(|lateness| DurationMs(lateness.0 * 2));
        scenario.dedup.window = match scenario.dedup.window {
            WindowConfig::Time(window) => WindowConfig::Time(DurationMs(window.0 * 2)),
            WindowConfig::Events(events) => WindowConfig::Events(events * 2),
        };
        scenario
    }

    fn forecast(&self, what: &'static str) -> anyhow::Result<FilterForecast> {
        let filter = plans::filter_spec(&self.dedup).with_context(|| what.to_string())?;
        let memory_bytes = memory::filter_bytes(&filter);
        let window = match self.dedup.window {
            WindowConfig::Time(window) => window.to_string(),
            WindowConfig::Events(events) => format!("{events} events"),
        };
        let mut forecast = FilterForecast {
            what,
            window,
            events_per_window: self.events_per_window,
            memory_bytes,
            bytes_per_item: memory_bytes as f64 / (self.events_per_window * self.distinct_share),
            layout: table::layout(&filter),
            false_duplicate_share: 0.0,
            forgetting: None,
            fill: None,
            penalty: None,
        };
        self.predict_errors(&filter, &mut forecast)?;
        Ok(forecast)
    }

    fn predict_errors(&self, filter: &FilterSpec, forecast: &mut FilterForecast) -> anyhow::Result<()> {
        match filter {
            FilterSpec::Timing { spec, .. } => self.predict_timing_errors(spec, forecast)?,
            FilterSpec::Stable(spec) => self.predict_forgetting(spec, forecast)?,
            FilterSpec::Classic { size, hashes, .. } => {
                let items = self.events_per_window * self.distinct_share;
                let cells = 8.0 * forecast.memory_bytes as f64;
                forecast.fill = Some(-libm::expm1(-f64::from(*hashes) * items / cells));
                forecast.false_duplicate_share = match size {
                    CellLayout::Lines(lines) => classic_sizing::false_duplicate_rate(*lines, *hashes, items),
                    CellLayout::Spread(_) => libm::pow(forecast.fill.unwrap_or(1.0), f64::from(*hashes)),
                };
            }
        }
        Ok(())
    }

    fn predict_forgetting(&self, spec: &StableViewSpec, forecast: &mut FilterForecast) -> anyhow::Result<()> {
        let window_events = spec.window_events.or(Some(libm::ceil(self.events_per_window) as u64));
        let spec = StableViewSpec { window_events, mix: Some(self.dedup.planned_mix()?), ..*spec };
        let forgetting = spec.forgetting(None).context("the filter has no steady state")?;
        let false_duplicate_share = stable_sizing::false_duplicate_rate(&spec.filter, &spec.planned_values(None));
        let named = self.dedup.named_classes();
        let class = |class: &ebb_core::ClassForgetting| ClassForecast {
            class: spec.class_name(class.value, named.as_ref()),
            share: class.share,
            false_duplicate_share,
            missed_share: class.missed.unwrap_or(1.0),
            half_forgotten_events: class.half_forgotten,
        };
        let per_second = self.inputs().events_per_second;
        let time = forgetting.half_forgotten.zip(per_second).map(|(events, rate)| events as f64 / rate * 1e3);
        forecast.false_duplicate_share = false_duplicate_share;
        forecast.fill = Some(forgetting.fill);
        forecast.forgetting = Some(ForgettingForecast {
            half_forgotten_events: forgetting.half_forgotten,
            half_forgotten: time.map(|ms| DurationMs(rounded(ms)).to_string()),
            missed_share: forgetting.missed().unwrap_or(1.0).min(1.0),
            classes: forgetting.classes.iter().map(class).collect(),
        });
        Ok(())
    }

    fn predict_timing_errors(&self, spec: &TimingSpec, forecast: &mut FilterForecast) -> anyhow::Result<()> {
        let traffic = TrafficModel::new(self.events_per_window, self.distinct_share)?;
        let timing = Forecast::new(spec, &traffic, self.dedup.seen());
        let standard = timing.standard(&self.penalties);
        forecast.false_duplicate_share = timing.false_duplicate_rate();
        forecast.fill = Some(timing.fill);
        forecast.penalty = Some(ExpectedPenalty {
            without_filter: timing.without_filter(&self.penalties).penalty,
            standard: standard.penalty,
            posterior: timing.posterior(&self.penalties).penalty,
        });
        Ok(())
    }
}

/// A duration with at most two units: whole hours above a day, whole minutes above an hour, whole seconds above a minute.
fn rounded(ms: f64) -> u64 {
    let unit = match ms {
        _ if ms >= 86.4e6 => 3.6e6,
        _ if ms >= 3.6e6 => 6e4,
        _ if ms >= 6e4 => 1e3,
        _ => 1.0,
    };
    (libm::round(ms / unit) * unit) as u64
}

/// Costs that are event fields vary from event to event. For them, and where no cost is configured, 1 is assumed.
fn penalties(dedup: &DedupConfig, assumptions: &TrafficAssumptions) -> anyhow::Result<Penalties> {
    let constant = |cost: &CostConfig| match cost {
        CostConfig::Constant(cost) => Some(*cost),
        CostConfig::Field(_) => None,
    };
    let configured = dedup.penalty.as_ref();
    let false_duplicate = configured.and_then(|penalty| constant(&penalty.false_duplicate));
    let missed_duplicate = configured.and_then(|penalty| constant(&penalty.missed_duplicate));
    Ok(Penalties::new(
        assumptions.false_duplicate.or(false_duplicate).unwrap_or(1.0),
        assumptions.missed_duplicate.or(missed_duplicate).unwrap_or(1.0),
    )?)
}
