//! The plain values of the configuration to the plans of the shards.

use std::sync::Arc;

use anyhow::Context;

use crate::config::dedup::{Dedup, Filter, Seen as SeenChoice, Sizing, Window};
use crate::config::service;
use crate::config::stream::{Event, Stream, TimeUnit as UnitChoice};
use crate::filter::timing::TimingSpec;
use crate::hash::HashKey;
use crate::shard::{DedupSpec, EventSpec, Limits, Plan, Reader, Seen, TimeUnit};

/// The plan of one stream.
pub(super) fn plan(stream: &Stream, limits: &service::Limits, key: &HashKey) -> anyhow::Result<Arc<Plan>> {
    let reader = Reader::new(event_spec(&stream.event, limits), key.clone()).context("event")?;
    Ok(Arc::new(Plan {
        reader: Arc::new(reader),
        max_skew_ms: stream.event.max_skew.0,
        dedup: dedup_spec(&stream.dedup).context("dedup")?,
    }))
}

fn event_spec(event: &Event, limits: &service::Limits) -> EventSpec {
    let unit = |unit| match unit {
        UnitChoice::S => TimeUnit::Seconds,
        UnitChoice::Ms => TimeUnit::Milliseconds,
        UnitChoice::Us => TimeUnit::Microseconds,
        UnitChoice::Ns => TimeUnit::Nanoseconds,
        UnitChoice::Rfc3339 => TimeUnit::Rfc3339,
    };
    EventSpec {
        item: event.item.clone(),
        key: event.key.clone(),
        time: event.time.as_ref().map(|time| (time.path.clone(), unit(time.unit))),
        id: event.id.clone(),
        value: event.value.clone(),
        weight: event.weight.clone(),
        importance: event.importance.clone(),
        false_duplicate: None,
        missed_duplicate: None,
        labels: Vec::new(),
        limits: Limits {
            record_bytes: limits.record.0 as usize,
            depth: limits.depth as u32,
            fields: limits.fields as u32,
            key_bytes: limits.key.0 as usize,
        },
    }
}

fn dedup_spec(dedup: &Dedup) -> anyhow::Result<DedupSpec> {
    anyhow::ensure!(dedup.filter == Filter::Timing, "filter: only timing is built so far");
    let Sizing::Memory(memory) = dedup.sizing() else { anyhow::bail!("error: only memory is built so far") };
    let filter = match dedup.window {
        Window::Time(window) => {
            TimingSpec::time(window.0, dedup.lateness.map_or(window.0 / 8, |late| late.0), memory.0)
        }
        Window::Events(window) => TimingSpec::count(window, memory.0),
    };
    let seen = match dedup.seen {
        SeenChoice::First => Seen::First,
        SeenChoice::Last => Seen::Last,
    };
    Ok(DedupSpec { filter: filter?, seen })
}
