//! The keys of a stream: its topic, how a record becomes an event, the views over it, and the output topics.

use super::aggregate::{AggregateConfig, MeasureConfig};
use super::composite::{ListOf, MapOf, Optional};
use super::declare::{OneOf, choice, enum_names, section};
use super::dedup::{CostConfig, DedupConfig, PriorConfig};
use super::frequency::FrequencyConfig;
use super::parser::{ConfigParser, Schema};
use super::scalars::{DurationRange, IntegerRange, STREAM_PLACEHOLDER, TopicName, scalar};
use super::tree::{Node, NodeKind};
use ebb_core::{EventSpecError, TimeUnit};

const MAX_PATHS: usize = 32;
const DAY_MS: u64 = 86_400_000;

section! {
    /// One topic, how its records become events, and the views over these events.
    pub struct StreamConfig {
        /// The source topic.
        topic: TopicName = "<stream>";
        /// Number of partitions of the embedded service. With Kafka the topic determines it.
        partitions: IntegerRange<1, 4096> = "1";
        /// How a record becomes an event.
        event: EventConfig, eg "{item: [ip, ad]}";
        /// Duplicate detection.
        dedup: DedupConfig = "{}";
        /// Decayed number of events per item.
        frequency: Optional<FrequencyConfig>;
        /// Decayed sums, counts, quantiles and top items, by name.
        aggregates: MapOf<AggregateConfig> = "{}";
        /// The topics that events are written to, by verdict (Kafka only).
        output: Optional<OutputConfig>;
        /// Delivery guarantee of the output topics (Kafka only).
        delivery: OneOf<DeliveryConfig> = "exactly-once";
    }
    check check_stream
}

choice! {
    /// Delivery guarantee of the output topics.
    pub enum DeliveryConfig {
        /// Outputs and offsets are committed in one transaction.
        ExactlyOnce = "exactly-once",
        /// No transactions: outputs may be repeated after a crash.
        AtLeastOnce = "at-least-once",
    }
}

section! {
    /// How a record's JSON becomes an event. Fields are named by paths such as `user.id`; a dot within a name is written
    /// `\.`.
    pub struct EventConfig {
        /// The field or fields that together identify an item. Two events with the same item are duplicates.
        item: ListOf<PathSyntax, MAX_PATHS>, eg "[ip, ad]";
        /// The key that the event belongs to, such as a campaign. Items of different keys are different.
        key: Optional<PathSyntax>, eg "campaign";
        /// The event time: a path, or `{path: ts, unit: s}`. Without it the timestamp of the record is used.
        time: Optional<EventTimeSyntax>, eg "{path: ts, unit: ms}";
        /// The identity of the observation, so that aggregates count a redelivered event once.
        id: Optional<PathSyntax>, eg "click_id";
        /// A number to aggregate, such as a cost.
        value: Optional<PathSyntax>, eg "cost";
        /// The number of observations that the event represents. Aggregates and `frequency` count it that often.
        weight: Optional<PathSyntax>, eg "count";
        /// The importance of the event, for the importance filters.
        importance: Optional<PathSyntax>, eg "tier";
        /// An event whose time is further than this ahead of its record's timestamp is rejected: it would expire the
        /// window.
        max_skew: DurationRange<0, DAY_MS> = "5m";
    }
    check check_event
}

section! {
    /// The topics that events are written to, by verdict. Events of a verdict without a topic are only counted.
    pub struct OutputConfig {
        /// Events whose item was not seen within the window.
        unique: Optional<TopicName>, eg "<stream>.unique";
        /// Events whose item was seen within the window.
        duplicate: Optional<TopicName>, eg "<stream>.duplicate";
        /// Events older than the window.
        late: Optional<TopicName>, eg "<stream>.late";
        /// Records that cannot be read as an event. A header contains the reason.
        rejected: Optional<TopicName>, eg "<stream>.rejected";
    }
    check check_output
}

impl OutputConfig {
    /// The configured topics with their verdicts.
    pub fn topics(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("unique", &self.unique),
            ("duplicate", &self.duplicate),
            ("late", &self.late),
            ("rejected", &self.rejected),
        ];
        all.into_iter().filter_map(|(verdict, topic)| Some((verdict, topic.as_deref()?)))
    }
}

impl StreamConfig {
    /// Replaces the placeholder in topic names by the stream's name.
    pub(super) fn resolve_topics(&mut self, name: &str) {
        let outputs = self.output.iter_mut().flat_map(|output| {
            [&mut output.unique, &mut output.duplicate, &mut output.late, &mut output.rejected].into_iter().flatten()
        });
        for topic in outputs.chain([&mut self.topic]) {
            *topic = topic.replace(STREAM_PLACEHOLDER, name);
        }
    }

    /// Every path that is read from a record, sorted and without duplicates.
    pub fn paths(&self) -> Vec<&Path> {
        let event = &self.event;
        let single = [&event.key, &event.id, &event.value, &event.weight, &event.importance];
        let penalties = self.dedup.rules.iter().filter_map(|rule| rule.penalty.as_ref()).chain(&self.dedup.penalty);
        let costs = penalties.flat_map(|penalty| [&penalty.false_duplicate, &penalty.missed_duplicate]);
        let costs = costs.filter_map(|cost| match cost {
            CostConfig::Field(path) => Some(path),
            CostConfig::Constant(_) => None,
        });
        let rules = self.dedup.rules.iter().filter_map(|rule| rule.prior.as_ref());
        let priors = rules.chain([&self.dedup.prior]).filter_map(|prior| match prior {
            PriorConfig::Field(path) => Some(path),
            PriorConfig::Auto | PriorConfig::AutoFrequency | PriorConfig::Constant(_) | PriorConfig::Classes(_) => None,
        });
        let aggregates = self.aggregates.values().flat_map(|aggregate| match &aggregate.of {
            MeasureConfig::Field(path) => [Some(path), aggregate.top.as_ref()],
            MeasureConfig::Count | MeasureConfig::Value | MeasureConfig::Weight => [None, aggregate.top.as_ref()],
        });
        let time = event.time.iter().map(|time| &time.path);
        let all = event.item.iter().chain(time).chain(single.into_iter().flatten()).chain(costs).chain(priors);
        let mut paths: Vec<&Path> = all.chain(aggregates.flatten()).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

fn check_event(event: &mut EventConfig, node: &Node, parser: &mut ConfigParser) {
    if event.item.is_empty() {
        parser.key_error(node, "item", &[], "is empty; list at least one field");
    }
    for (index, path) in event.item.iter().enumerate() {
        if event.item[..index].contains(path) {
            parser.key_error(node, "item", &[], format_args!("lists {path} twice; list each field once"));
        }
    }
}

fn check_output(output: &mut OutputConfig, node: &Node, parser: &mut ConfigParser) {
    if !parser.with_kafka {
        parser.error(node, "requires Kafka; add a kafka section, or remove this section");
    } else if output.topics().next().is_none() {
        parser.error(node, "has no topics; set unique, duplicate, late or rejected");
    }
}

fn check_stream(stream: &mut StreamConfig, node: &Node, parser: &mut ConfigParser) {
    if parser.with_kafka && stream.partitions != 1 {
        let message = "applies to the embedded service only; remove it, the topic determines the number of partitions";
        parser.key_error(node, "partitions", &[], message);
    }
    if stream.dedup.prior == PriorConfig::AutoFrequency && stream.frequency.is_none() {
        let message = "auto-frequency requires the frequency view; add frequency: {}";
        parser.key_error(node, "dedup.prior", &["frequency"], message);
    }
    super::dedup::check_with_event(&stream.dedup, &stream.event, node, parser);
    for (name, aggregate) in &stream.aggregates {
        let at = format!("aggregates.{name}");
        super::aggregate::check_with_event(aggregate, &stream.event, &at, node, parser);
    }
    let paths = stream.paths().len();
    if paths > MAX_PATHS {
        let message = format!("the stream reads {paths} different fields of a record; the maximum is {MAX_PATHS}");
        parser.key_error(node, "event", &[], message);
    }
}

pub use ebb_core::Path;

/// Reads `user.id`; a dot within a name is text `\.`, a backslash `\\`.
pub(super) fn parse_path(text: &str) -> Result<Path, String> {
    text.parse().map_err(|error: EventSpecError| format!("{error}; expected {}", PathSyntax::syntax()))
}

/// The syntax of a path to a field.
#[derive(Debug)]
pub struct PathSyntax;

impl Schema for PathSyntax {
    type Value = Path;

    fn syntax() -> String {
        "a path of at most 8 names such as user.id (a dot within a name is written \\.)".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Path> {
        scalar(node, parser, &Self::syntax(), parse_path)
    }

    fn to_node(value: &Path) -> Option<Node> {
        Some(Node::scalar(value))
    }
}

enum_names! {
    TimeUnit {
        Milliseconds = "ms",
        Seconds = "s",
        Microseconds = "us",
        Nanoseconds = "ns",
        Rfc3339 = "rfc3339",
    }
}

section! {
    /// The field with the event time, and its unit.
    pub struct EventTimeConfig {
        /// The field.
        path: PathSyntax, eg "ts";
        /// `ms`, `s`, `us` or `ns` since 1970-01-01 UTC, or `rfc3339` such as `2026-11-16T02:35:00Z`.
        unit: OneOf<TimeUnit> = "ms";
    }
}

/// The syntax of an [`EventTimeConfig`]: a path, or a path with a unit.
#[derive(Debug)]
pub struct EventTimeSyntax;

impl Schema for EventTimeSyntax {
    type Value = EventTimeConfig;

    fn syntax() -> String {
        "a path, or {path: PATH, unit: ms | s | us | ns | rfc3339}".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<EventTimeConfig> {
        match &node.kind {
            NodeKind::Map(_) => EventTimeConfig::from_node(node, parser),
            _ => Some(EventTimeConfig { path: PathSyntax::from_node(node, parser)?, unit: TimeUnit::Milliseconds }),
        }
    }

    fn to_node(value: &EventTimeConfig) -> Option<Node> {
        EventTimeConfig::to_node(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_split_at_unescaped_dots() {
        for (text, steps) in [
            ("ip", &["ip"][..]),
            ("user.id", &["user", "id"]),
            (r"a\.b.c", &["a.b", "c"]),
            (r"a\\.b", &[r"a\", "b"]),
            ("a b.ü", &["a b", "ü"]),
        ] {
            assert_eq!(parse_path(text).unwrap().segments(), steps, "{text}");
        }
    }

    #[test]
    fn invalid_paths_are_refused_with_the_expected_syntax() {
        let long = "x".repeat(1025);
        for text in ["", ".", "a.", ".a", "a..b", r"a\", r"a\b", "a.b.c.d.e.f.g.h.i", &long] {
            let message = parse_path(text).unwrap_err();
            assert!(message.contains("expected a path of at most 8 names such as user.id"), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn displayed_path_parses_back(steps in proptest::collection::vec(r"[a-c.\\ü]{1,6}", 1..=8)) {
            let text = steps.iter().map(|s| s.replace('\\', r"\\").replace('.', r"\.")).collect::<Vec<_>>().join(".");
            let path = parse_path(&text).unwrap();
            prop_assert_eq!(path.segments(), steps.as_slice());
            prop_assert_eq!(path.to_string(), text);
        }
    }
}
