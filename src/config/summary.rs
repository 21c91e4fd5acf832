//! A short description of a configuration for a terminal, printed by `ebb check`.

use super::Config;
use super::aggregate::{AggregateConfig, MeasureConfig, MeasureSyntax};
use super::declare::ConfigEnum;
use super::dedup::{DedupConfig, FilterSizing, WindowConfig};
use super::emit;
use super::parser::Schema;
use super::stream::{EventConfig, StreamConfig};
use ebb_core::Coverage;

const MAX_STREAMS: usize = 12;

/// A few lines for the service and for each stream.
pub(super) fn summary(config: &Config) -> String {
    let source = match &config.kafka {
        Some(kafka) => format!("kafka {}, group {}", kafka.brokers, kafka.group),
        None => "embedded, events over HTTP".into(),
    };
    let mut lines = vec![
        format!("  {source}; {} workers; data in {}", config.workers, config.data_dir.display()),
        format!("  http on {}; checkpoints every {}", config.http.listen, config.checkpoint.every),
    ];
    for (name, stream) in config.streams.iter().take(MAX_STREAMS) {
        lines.extend(stream_lines(name, stream));
    }
    if config.streams.len() > MAX_STREAMS {
        lines.push(format!("  and {} more streams", config.streams.len() - MAX_STREAMS));
    }
    lines.join("\n") + "\n"
}

fn stream_lines(name: &str, stream: &StreamConfig) -> Vec<String> {
    let mut lines = vec![
        format!("  stream {name} from topic {}", stream.topic),
        format!("    event     {}", event(&stream.event)),
        format!("    dedup     {}", dedup(&stream.dedup)),
    ];
    if let Some(frequency) = &stream.frequency {
        let (method, memory) = (frequency.method.name(), frequency.memory);
        lines.push(format!("    frequency half-life {}, {memory}, {method}", frequency.half_life));
    }
    for (name, config) in &stream.aggregates {
        lines.push(format!("    aggregate {name}: {}", aggregate(config)));
        lines.extend(coverage(config));
    }
    if let Some(output) = &stream.output {
        let topics: Vec<String> = output.topics().map(|(verdict, topic)| format!("{verdict} to {topic}")).collect();
        lines.push(format!("    output    {}, {}", topics.join(", "), stream.delivery.name()));
    }
    lines
}

fn event(event: &EventConfig) -> String {
    let item: Vec<String> = event.item.iter().map(ToString::to_string).collect();
    let key = event.key.as_ref().map(|key| format!(", per {key}")).unwrap_or_default();
    let time = event.time.as_ref().map_or("the record".to_string(), |time| time.path.to_string());
    format!("item {}{key}, time from {time}", item.join(" + "))
}

fn dedup(dedup: &DedupConfig) -> String {
    let window = printed::<WindowConfig>(&dedup.window);
    let size = match dedup.sizing() {
        FilterSizing::Memory(bytes) => format!("{bytes} per partition"),
        FilterSizing::Error { error, items } => format!("sized for error {error} with {items} items"),
    };
    let filter = dedup.filter.name();
    match (dedup.filter.has_counters(), dedup.missed) {
        (true, Some(missed)) => format!("{filter}, forgets at random: misses {missed} at an age of {window}, {size}"),
        (true, None) => format!("{filter}, forgets at random, {size}"),
        (false, _) => format!("{filter}, window {window} from the {} event with an item, {size}", dedup.seen().name()),
    }
}

fn aggregate(aggregate: &AggregateConfig) -> String {
    let of = match &aggregate.distinct {
        Some(path) => format!("different {path}"),
        None => printed::<MeasureSyntax>(&aggregate.of),
    };
    let (over, method) = (aggregate.over.name(), aggregate.method.name());
    let keys = aggregate.keys.map(|keys| format!(", up to {keys} keys")).unwrap_or_default();
    let memory = aggregate.memory.map(|memory| format!(", at most {memory} per partition")).unwrap_or_default();
    format!("{of} over {over}, {method}, within {}%{keys}{memory}", aggregate.epsilon * 100.0)
}

/// What the bounds of each statistic rest on.
fn coverage(aggregate: &AggregateConfig) -> impl Iterator<Item = String> {
    let kept: &[&str] = match (&aggregate.of, &aggregate.top) {
        (MeasureConfig::Count, None) => &["count"],
        (MeasureConfig::Count, Some(_)) => &["count", "top"],
        _ => &["sum", "count", "mean", "quantiles", "rank", "share", "top"],
    };
    let line = |coverage: &Coverage| (coverage.among(kept).join(", "), coverage.by);
    let lines = aggregate.method.coverage().iter().map(line).filter(|(statistics, _)| !statistics.is_empty());
    lines.map(|(statistics, by)| format!("      {statistics}: {by}"))
}

fn printed<S: Schema>(value: &S::Value) -> String {
    S::to_node(value).map(|node| emit::plain(&node)).unwrap_or_default()
}
