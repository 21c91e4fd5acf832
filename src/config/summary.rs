//! A configuration on one screen, for people who want to see what a file amounts to.

use super::Config;
use super::aggregate::{Aggregate, MeasureForm};
use super::dedup::{Dedup, Sizing, Window};
use super::emit;
use super::read::Kind;
use super::stream::{Event, Stream};

const MOST_STREAMS: usize = 12;

/// A few lines for the service and a few for each stream.
pub(super) fn summary(config: &Config) -> String {
    let source = match &config.kafka {
        Some(kafka) => format!("kafka {}, group {}", kafka.brokers, kafka.group),
        None => "embedded: events come by HTTP".into(),
    };
    let mut lines = vec![
        format!("  {source}; {} workers; data in {}", config.workers, config.data_dir.display()),
        format!("  http on {}; checkpoints every {}", config.http.listen, config.checkpoint.every),
    ];
    for (name, stream) in config.streams.iter().take(MOST_STREAMS) {
        lines.extend(stream_lines(name, stream));
    }
    if config.streams.len() > MOST_STREAMS {
        lines.push(format!("  and {} more streams", config.streams.len() - MOST_STREAMS));
    }
    lines.join("\n") + "\n"
}

fn stream_lines(name: &str, stream: &Stream) -> Vec<String> {
    let mut lines = vec![
        format!("  stream {name} from topic {}", stream.topic),
        format!("    event     {}", event(&stream.event)),
        format!("    dedup     {}", dedup(&stream.dedup)),
    ];
    if let Some(frequency) = &stream.frequency {
        let (method, memory) = (frequency.method.word(), frequency.memory);
        lines.push(format!("    frequency half-life {}, {memory}, {method}", frequency.half_life));
    }
    lines.extend(stream.aggregates.iter().map(|(name, kept)| format!("    aggregate {name}: {}", aggregate(kept))));
    if let Some(output) = &stream.output {
        let topics: Vec<String> = output.topics().map(|(verdict, topic)| format!("{verdict} to {topic}")).collect();
        lines.push(format!("    output    {}, {}", topics.join(", "), stream.delivery.word()));
    }
    lines
}

fn event(event: &Event) -> String {
    let item: Vec<String> = event.item.iter().map(ToString::to_string).collect();
    let key = event.key.as_ref().map(|key| format!(", per {key}")).unwrap_or_default();
    let time = event.time.as_ref().map_or("the record".to_string(), |time| time.path.to_string());
    format!("item {}{key}, time from {time}", item.join(" + "))
}

fn dedup(dedup: &Dedup) -> String {
    let window = shown::<Window>(&dedup.window);
    let size = match dedup.sizing() {
        Sizing::Memory(bytes) => format!("{bytes} a partition"),
        Sizing::Error { error, items } => format!("as large as error {error} needs with {items} items"),
    };
    format!("{}, window {window} from the {} sighting, {size}", dedup.filter.word(), dedup.seen.word())
}

fn aggregate(aggregate: &Aggregate) -> String {
    let (of, over, method) = (shown::<MeasureForm>(&aggregate.of), aggregate.over.word(), aggregate.method.word());
    let keys = aggregate.keys.map(|keys| format!(", up to {keys} keys")).unwrap_or_default();
    format!("{of} over {over}, {method}, within {}%{keys}", aggregate.epsilon * 100.0)
}

fn shown<K: Kind>(out: &K::Out) -> String {
    K::show(out).map(|node| emit::plain(&node)).unwrap_or_default()
}
