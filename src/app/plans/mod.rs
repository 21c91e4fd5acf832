//! Maps the configuration of a stream to the plan of its shards. All defaults are already in the configuration.

mod dedup;
mod frequency;

use std::sync::Arc;

use anyhow::Context;

use crate::config::aggregate::{AggregateConfig, MeasureConfig};
use crate::config::dedup::{CostConfig, PriorConfig};
use crate::config::service::LimitsConfig;
use crate::config::stream::{EventConfig, StreamConfig};
use ebb_core::{AggregateParameters, AggregateSpec, EventSpec, Measure, Path, PayloadLimits, Plan, Reader};
use ebb_sketch::hash::{HashKey, HashKeys};

pub(super) use dedup::filter_spec;

/// Seeds the hashes by which sketches sample. It need not be secret, because items are hashed with a secret key before,
/// and it must not change when that key is rotated.
const SAMPLING_SEED: u64 = 0x6562_625f_7365_6564;

/// The plan of one stream under one hash key.
pub fn plan(stream: &StreamConfig, limits: &LimitsConfig, key: &HashKey) -> anyhow::Result<Arc<Plan>> {
    plan_with_keys(stream, limits, &key.clone().into())
}

/// The plan of one stream, possibly during a key rotation.
pub(super) fn plan_with_keys(
    stream: &StreamConfig,
    limits: &LimitsConfig,
    keys: &HashKeys,
) -> anyhow::Result<Arc<Plan>> {
    let (numbers, labels) = (number_paths(stream), label_paths(stream));
    let event = EventSpec {
        importance_classes: stream.dedup.named_classes(),
        ..event_spec(&stream.event, (numbers.clone(), labels.clone()), limits)
    };
    let reader = Reader::new(event, keys.clone()).context("event")?;
    let frequency = stream.frequency.as_ref().map(frequency::frequency_plan).transpose().context("frequency")?;
    Ok(Arc::new(Plan {
        dedup: dedup::dedup_spec(&stream.dedup, &numbers, &reader).context("dedup")?,
        aggregates: aggregate_specs(stream, &numbers, &labels)?,
        reader: Arc::new(reader),
        max_skew_ms: stream.event.max_skew.0,
        frequency,
    }))
}

/// The paths of all numbers that aggregates, costs and priors refer to, each once.
fn number_paths(stream: &StreamConfig) -> Vec<Path> {
    let measured = stream.aggregates.values().filter_map(|aggregate| match &aggregate.of {
        MeasureConfig::Field(path) => Some(path),
        MeasureConfig::Count | MeasureConfig::Value | MeasureConfig::Weight => None,
    });
    let rules = stream.dedup.rules.iter().filter_map(|rule| rule.penalty.as_ref());
    let costs = stream.dedup.penalty.iter().chain(rules).flat_map(|p| [&p.false_duplicate, &p.missed_duplicate]);
    let costs = costs.filter_map(|cost| match cost {
        CostConfig::Field(path) => Some(path),
        CostConfig::Constant(_) => None,
    });
    let rules = stream.dedup.rules.iter().filter_map(|rule| rule.prior.as_ref());
    let priors = rules.chain([&stream.dedup.prior]).filter_map(|prior| match prior {
        PriorConfig::Field(path) => Some(path),
        PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Constant(_) | PriorConfig::Classes(_) => None,
    });
    // Measured numbers come first: their indices are part of the state, those of costs and priors are not.
    distinct(measured.chain(costs).chain(priors))
}

/// The paths of all fields whose values aggregates list or count, each once.
fn label_paths(stream: &StreamConfig) -> Vec<Path> {
    distinct(stream.aggregates.values().flat_map(|aggregate| aggregate.top.iter().chain(&aggregate.distinct)))
}

/// The paths without repetitions, in their order.
fn distinct<'p>(paths: impl Iterator<Item = &'p Path>) -> Vec<Path> {
    let mut found: Vec<Path> = Vec::new();
    for path in paths {
        if !found.contains(path) {
            found.push(path.clone());
        }
    }
    found
}

fn index_of(path: &Path, paths: &[Path]) -> usize {
    paths.iter().position(|known| known == path).expect("the paths of all aggregates and costs were collected")
}

fn aggregate_specs(stream: &StreamConfig, numbers: &[Path], labels: &[Path]) -> anyhow::Result<Vec<AggregateSpec>> {
    let spec = |(name, config): (&String, &AggregateConfig)| {
        let given = config.parameters(name, &stream.event, |path| index_of(path, numbers));
        let parameters = AggregateParameters {
            seed: SAMPLING_SEED,
            top: config.top.as_ref().map(|path| index_of(path, labels)),
            of: config.distinct.as_ref().map_or(given.of, |path| Measure::Distinct(index_of(path, labels))),
            ..given
        };
        AggregateSpec::new(parameters).map_err(|error| anyhow::anyhow!("aggregates.{name}.{}: {error}", error.key()))
    };
    stream.aggregates.iter().map(spec).collect()
}

fn event_spec(event: &EventConfig, (numbers, labels): (Vec<Path>, Vec<Path>), limits: &LimitsConfig) -> EventSpec {
    EventSpec {
        item: event.item.clone(),
        key: event.key.clone(),
        time: event.time.as_ref().map(|time| (time.path.clone(), time.unit)),
        id: event.id.clone(),
        value: event.value.clone(),
        weight: event.weight.clone(),
        importance: event.importance.clone(),
        importance_classes: None,
        numbers,
        labels,
        limits: PayloadLimits {
            record_bytes: limits.record.0 as usize,
            depth: limits.depth as u32,
            fields: limits.fields as u32,
            key_bytes: limits.key.0 as usize,
        },
    }
}
