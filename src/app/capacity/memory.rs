//! The memory of the views of a shard.

use std::sync::Arc;

use serde::Serialize;

use super::frequency;
use super::table::bytes;
use ebb_core::{
    AggregateParameters, AggregateSpec, DedupSpec, Event, FilterSpec, Numbers, Plan, Seen, Shard, ViewError,
};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};

/// Number of synthetic events with which the memory of an aggregate is measured.
const EVENTS: u64 = 100_000;
/// Number of distinct keys and labels among the synthetic events.
const DISTINCT_KEYS: u64 = 1000;
/// Interval between synthetic events. Together they span more than the default horizon.
const INTERVAL_MS: i64 = 7_000;

/// The memory of one view in one partition.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ViewMemory {
    pub(super) name: String,
    pub(super) memory_bytes: u64,
    pub(super) note: String,
}

pub(super) fn views(plan: &Plan) -> Result<Vec<ViewMemory>, ViewError> {
    let filter = filter_bytes(&plan.dedup.filter);
    let isolated =
        plan.dedup.isolation.map_or(0, |isolation| u64::from(isolation.filters) * isolation.filter.memory_bytes());
    let mut views = vec![ViewMemory { name: "dedup".into(), memory_bytes: filter, note: "fixed".into() }];
    if isolated > 0 {
        views.push(ViewMemory { name: "dedup, isolated keys".into(), memory_bytes: isolated, note: "maximum".into() });
    }
    views.extend(plan.frequency.as_ref().map(|counts| frequency::view(counts.spec())));
    for spec in &plan.aggregates {
        views.push(aggregate(plan, spec)?);
    }
    Ok(views)
}

pub(super) fn filter_bytes(filter: &FilterSpec) -> u64 {
    match filter {
        FilterSpec::Timing { spec, .. } => spec.memory_bytes(),
        FilterSpec::Stable(spec) => spec.filter.cell_bytes() as u64,
        FilterSpec::Classic { size, .. } => match size {
            CellLayout::Lines(lines) => lines * 64,
            CellLayout::Spread(cells) => cells.div_ceil(8),
        },
    }
}

/// The budget of an aggregate or, where its method has none, the memory of as many keys as are configured, each as heavy as
/// the synthetic stream.
fn aggregate(plan: &Plan, spec: &AggregateSpec) -> Result<ViewMemory, ViewError> {
    let given = spec.parameters().clone();
    let alone = AggregateParameters { keys: None, memory: None, ..given.clone() };
    let alone = AggregateSpec::new(alone).expect("an aggregate without keys and budget is valid if it is with them");
    let heavy = measured_bytes(plan, alone)?;
    let (memory_bytes, note) = match (given.memory, given.keys) {
        (Some(limit), None) => (limit, format!("maximum; {EVENTS} synthetic events take {}", bytes(heavy))),
        (Some(limit), Some(keys)) => {
            let fitting = (limit / 4 * 3).saturating_sub(heavy) / heavy.max(1);
            let fitting = fitting.min(u64::from(keys));
            let note = format!(
                "maximum; {fitting} of {keys} keys with {EVENTS} events each ({}) keep epsilon {}, more share the rest",
                bytes(heavy),
                given.epsilon
            );
            (limit, note)
        }
        (None, None) => (heavy, format!("measured after {EVENTS} synthetic events, without a limit")),
        (None, Some(keys)) => {
            let note = format!("{keys} keys with {EVENTS} synthetic events each ({}), without a limit", bytes(heavy));
            (heavy.saturating_mul(u64::from(keys) + 2), note)
        }
    };
    Ok(ViewMemory { name: format!("aggregate {}", spec.name()), memory_bytes, note })
}

/// Folds synthetic events into a shard that has only this aggregate.
fn measured_bytes(plan: &Plan, spec: AggregateSpec) -> Result<u64, ViewError> {
    let filter = FilterSpec::Classic { size: CellLayout::Spread(1024), hashes: 1, share: None };
    let dedup = DedupSpec::new(filter, Seen::Last);
    let alone = Plan { dedup, frequency: None, aggregates: vec![spec], ..plan.clone() };
    let mut shard = Shard::new(Arc::new(alone), 0)?;
    let mut random = Random::new(1);
    for number in 0..EVENTS {
        let event = synthetic(plan, number, &mut random);
        shard.fold(number, event.time_ms.unwrap_or_default(), Ok(&event));
    }
    Ok(shard.status().aggregates.iter().map(|aggregate| aggregate.memory_bytes).sum())
}

fn synthetic(plan: &Plan, number: u64, random: &mut Random) -> Event {
    let fingerprint = |number: u64| Fingerprint(u128::from(mix(number)) << 64 | u128::from(number));
    let mut amount = || Some(random.below(10_000) as f64 / 100.0 + 1.0);
    let numbers: Numbers = plan.reader.spec().numbers.iter().map(|_| amount()).collect();
    let value = amount();
    Event {
        item: fingerprint(number),
        key: Some(fingerprint(mix(number) % DISTINCT_KEYS)),
        time_ms: Some(number as i64 * INTERVAL_MS),
        id: Some(fingerprint(number)),
        value,
        weight: Some(1.0),
        importance: None,
        numbers,
        labels: plan.reader.spec().labels.iter().map(|_| format!("{}", mix(number) % DISTINCT_KEYS).into()).collect(),
        previous_key: None,
        route: fingerprint(number),
    }
}
