//! What the views of a shard take in memory.

use std::sync::Arc;

use serde::Serialize;

use ebb_core::{AggregateSpec, DedupSpec, Event, FilterSpec, KeyRules, Numbers, Plan, Seen, Shard, ViewError};
use ebb_sketch::filter::frequency::Frequency;
use ebb_sketch::filter::places::Size;
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};

/// Synthetic events that aggregates are measured with.
const EVENTS: u64 = 100_000;
/// Keys and labels among them.
const NAMES: u64 = 1000;
/// One event a second: a window of the default horizon and more.
const APART_MS: i64 = 7_000;

/// One view and its memory, in one partition.
#[derive(Debug, Clone, Serialize)]
pub(super) struct View {
    pub(super) name: String,
    pub(super) memory_bytes: u64,
    pub(super) note: String,
}

pub(super) fn views(plan: &Plan) -> Result<Vec<View>, ViewError> {
    let filter = filter_bytes(&plan.dedup.filter);
    let isolated = plan.dedup.isolation.map_or(0, |own| u64::from(own.filters) * own.filter.memory_bytes());
    let mut views = vec![View { name: "dedup".into(), memory_bytes: filter, note: "fixed".into() }];
    if isolated > 0 {
        views.push(View { name: "dedup, isolated keys".into(), memory_bytes: isolated, note: "at most".into() });
    }
    if let Some(spec) = plan.frequency {
        let memory_bytes = Frequency::new(spec).memory_bytes();
        views.push(View { name: "frequency".into(), memory_bytes, note: "fixed".into() });
    }
    for spec in &plan.aggregates {
        views.push(aggregate(plan, spec)?);
    }
    Ok(views)
}

pub(super) fn filter_bytes(filter: &FilterSpec) -> u64 {
    match filter {
        FilterSpec::Timing { spec, .. } => spec.memory_bytes(),
        FilterSpec::Fading { spec, .. } => spec.cell_bytes() as u64,
        FilterSpec::Classic { size, .. } => match size {
            Size::Lines(lines) => lines * 64,
            Size::Cells(cells) => cells.div_ceil(8),
        },
    }
}

/// The aggregate alone, after synthetic events.
fn aggregate(plan: &Plan, spec: &AggregateSpec) -> Result<View, ViewError> {
    let filter = FilterSpec::Classic { size: Size::Cells(1024), hashes: 1, share: None };
    let dedup = DedupSpec { filter, seen: Seen::Last, penalty: None, rules: KeyRules::new([]), isolation: None };
    let alone = Plan { dedup, frequency: None, aggregates: vec![spec.clone()], ..plan.clone() };
    let mut shard = Shard::new(Arc::new(alone), 0)?;
    let mut random = Random::new(1);
    for number in 0..EVENTS {
        let event = synthetic(plan, number, &mut random);
        shard.fold(number, event.time_ms.unwrap_or_default(), Ok(&event));
    }
    let status = shard.status();
    let memory_bytes = status.aggregates.iter().map(|aggregate| aggregate.memory_bytes).sum();
    let keys = status.aggregates.iter().find_map(|aggregate| aggregate.keys);
    let keys = keys.map(|keys| format!(" of {} keys", keys.keys)).unwrap_or_default();
    let note = format!("measured after {EVENTS} synthetic events{keys}, in {}s", EVENTS as i64 * APART_MS / 1000);
    Ok(View { name: format!("aggregate {}", spec.name()), memory_bytes, note })
}

fn synthetic(plan: &Plan, number: u64, random: &mut Random) -> Event {
    let print = |number: u64| Fingerprint(u128::from(mix(number)) << 64 | u128::from(number));
    let mut amount = || Some(random.below(10_000) as f64 / 100.0 + 1.0);
    let numbers: Numbers = plan.reader.spec().numbers.iter().map(|_| amount()).collect();
    let value = amount();
    Event {
        item: print(number),
        key: Some(print(mix(number) % NAMES)),
        time_ms: Some(number as i64 * APART_MS),
        id: Some(print(number)),
        value,
        weight: Some(1.0),
        importance: None,
        numbers,
        labels: plan.reader.spec().labels.iter().map(|_| format!("{}", mix(number) % NAMES).into()).collect(),
        previous_key: None,
        route: print(number),
    }
}
