//! The keys of a stream: its topic, how an event is read from a record, the views over it, and where verdicts go.

use super::aggregate::{Aggregate, Frequency, Measure};
use super::declare::{choice, section};
use super::dedup::{Cost, Dedup, Prior};
use super::kinds::{List, Maybe, Named};
use super::read::{Kind, Reader};
use super::scalars::{Count, Duration, OWN_NAME, Topic, scalar};
use super::tree::{Node, NodeKind};
use ebb_core::EventSpecError;

const MOST_PATHS: usize = 32;
const DAY: u64 = 86_400_000;

section! {
    /// One topic, how to read an event from it, and the views kept over it.
    pub struct Stream {
        /// The topic that is read.
        topic: Topic = "<stream>";
        /// How many partitions the embedded service keeps. With Kafka the topic decides.
        partitions: Count<1, 4096> = "1";
        /// How a record becomes an event.
        event: Event, eg "{item: [ip, ad]}";
        /// Which events are duplicates.
        dedup: Dedup = "{}";
        /// How often items were seen lately.
        frequency: Maybe<Frequency>;
        /// Sums, counts, quantiles and top items whose old data fades away, by names of your choice.
        aggregates: Named<Aggregate> = "{}";
        /// The topics that events go to after their verdict (Kafka only).
        output: Maybe<Output>;
        /// What Kafka's readers may rely on (Kafka only).
        delivery: Delivery = "exactly-once";
    }
    rules check_stream
}

choice! {
    /// What readers of the outputs may rely on.
    pub enum Delivery {
        /// Outputs and offsets are committed in one transaction.
        ExactlyOnce = "exactly-once",
        /// No transactions: a crash may repeat outputs.
        AtLeastOnce = "at-least-once",
    }
}

section! {
    /// How a record's JSON becomes an event. Fields are named by paths: `user.id`; a dot in a name is written `\.`.
    pub struct Event {
        /// What must not repeat: one field or several, together.
        item: List<FieldPath, MOST_PATHS>, eg "[ip, ad]";
        /// Whose state the event belongs to, such as a campaign.
        key: Maybe<FieldPath>, eg "campaign";
        /// When it happened: a path, or `{path: ts, unit: s}`. Without it the record's own timestamp counts.
        time: Maybe<TimeField>, eg "{path: ts, unit: ms}";
        /// The identity of the observation, so that a redelivery is not counted twice by aggregates.
        id: Maybe<FieldPath>, eg "click_id";
        /// A number to aggregate, such as a cost.
        value: Maybe<FieldPath>, eg "cost";
        /// How many observations the event stands for.
        weight: Maybe<FieldPath>, eg "count";
        /// How much the event matters to the importance filters.
        importance: Maybe<FieldPath>, eg "tier";
        /// An event dated further than this after its record is rejected: it would expire the window.
        max_skew: Duration<0, DAY> = "5m";
    }
    rules check_event
}

section! {
    /// The topics that events go to after their verdict. A verdict without a topic is only counted.
    pub struct Output {
        /// Events seen for the first time within the window.
        unique: Maybe<Topic>, eg "<stream>.unique";
        /// Events seen before within the window.
        duplicate: Maybe<Topic>, eg "<stream>.duplicate";
        /// Events older than the window.
        late: Maybe<Topic>, eg "<stream>.late";
        /// Records that are no event, with the reason in a header.
        rejected: Maybe<Topic>, eg "<stream>.rejected";
    }
    rules check_output
}

impl Output {
    /// The topics with their verdicts.
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

impl Stream {
    /// Puts the stream's name where its topics ask for it.
    pub(super) fn take_name(&mut self, name: &str) {
        let outputs = self.output.iter_mut().flat_map(|output| {
            [&mut output.unique, &mut output.duplicate, &mut output.late, &mut output.rejected].into_iter().flatten()
        });
        for topic in outputs.chain([&mut self.topic]) {
            *topic = topic.replace(OWN_NAME, name);
        }
    }

    /// Every path that is read from a record, each once, in order.
    pub fn paths(&self) -> Vec<&Path> {
        let event = &self.event;
        let single = [&event.key, &event.id, &event.value, &event.weight, &event.importance];
        let penalties = self.dedup.rules.iter().filter_map(|rule| rule.penalty.as_ref()).chain(&self.dedup.penalty);
        let costs = penalties.flat_map(|penalty| [&penalty.false_duplicate, &penalty.missed_duplicate]);
        let costs = costs.filter_map(|cost| match cost {
            Cost::Field(path) => Some(path),
            Cost::Constant(_) => None,
        });
        let aggregates = self.aggregates.values().flat_map(|aggregate| match &aggregate.of {
            Measure::Field(path) => [Some(path), aggregate.top.as_ref()],
            Measure::Count | Measure::Value | Measure::Weight => [None, aggregate.top.as_ref()],
        });
        let time = event.time.iter().map(|time| &time.path);
        let all = event.item.iter().chain(time).chain(single.into_iter().flatten()).chain(costs);
        let mut paths: Vec<&Path> = all.chain(aggregates.flatten()).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

fn check_event(event: &mut Event, node: &Node, reader: &mut Reader) {
    if event.item.is_empty() {
        reader.rule(node, "item", &[], "is an empty list; name at least one field");
    }
    for (index, path) in event.item.iter().enumerate() {
        if event.item[..index].contains(path) {
            reader.rule(node, "item", &[], format_args!("names {path} twice; once is enough"));
        }
    }
}

fn check_output(output: &mut Output, node: &Node, reader: &mut Reader) {
    if !reader.with_kafka {
        reader.report(node, "needs Kafka, and there is no kafka section; add kafka: {brokers: …} or remove this");
    } else if output.topics().next().is_none() {
        reader.report(node, "names no topic; set unique, duplicate, late or rejected");
    }
}

fn check_stream(stream: &mut Stream, node: &Node, reader: &mut Reader) {
    if reader.with_kafka && stream.partitions != 1 {
        let message = "belongs to the embedded service; with Kafka the topic decides, remove it";
        reader.rule(node, "partitions", &[], message);
    }
    if stream.dedup.prior == Prior::AutoFrequency && stream.frequency.is_none() {
        let message = "auto-frequency needs the frequency view; add frequency: {}";
        reader.rule(node, "dedup.prior", &["frequency"], message);
    }
    super::dedup::check_with_event(&stream.dedup, &stream.event, node, reader);
    for (name, aggregate) in &stream.aggregates {
        let at = format!("aggregates.{name}");
        super::aggregate::check_with_event(aggregate, &stream.event, &at, node, reader);
    }
    let paths = stream.paths().len();
    if paths > MOST_PATHS {
        let message = format!("the stream reads {paths} fields of a record in all; name at most {MOST_PATHS}");
        reader.rule(node, "event", &[], message);
    }
}

pub use ebb_core::Path;

/// Reads `user.id`; a dot within a name is written `\.`, a backslash `\\`.
pub(super) fn parse_path(text: &str) -> Result<Path, String> {
    text.parse().map_err(|error: EventSpecError| format!("{error}; write {}", FieldPath::form()))
}

/// A path to a field.
#[derive(Debug)]
pub struct FieldPath;

impl Kind for FieldPath {
    type Out = Path;

    fn form() -> String {
        "a path of at most 8 steps such as user.id (a dot in a name is \\.)".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Path> {
        scalar(node, reader, &Self::form(), parse_path)
    }

    fn show(out: &Path) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

choice! {
    /// How a time is written.
    pub enum TimeUnit {
        /// Milliseconds since 1970.
        Ms = "ms",
        /// Seconds since 1970.
        S = "s",
        /// Microseconds since 1970.
        Us = "us",
        /// Nanoseconds since 1970.
        Ns = "ns",
        /// `2026-11-16T02:35:00Z`.
        Rfc3339 = "rfc3339",
    }
}

section! {
    /// Where an event's time stands, and how it is written.
    pub struct EventTime {
        /// The field.
        path: FieldPath, eg "ts";
        /// How it is written.
        unit: TimeUnit = "ms";
    }
}

/// A path, or a path with a unit.
#[derive(Debug)]
pub struct TimeField;

impl Kind for TimeField {
    type Out = EventTime;

    fn form() -> String {
        "a path, or {path: PATH, unit: ms | s | us | ns | rfc3339}".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<EventTime> {
        match &node.kind {
            NodeKind::Map(_) => EventTime::read(node, reader),
            _ => Some(EventTime { path: FieldPath::read(node, reader)?, unit: TimeUnit::Ms }),
        }
    }

    fn show(out: &EventTime) -> Option<Node> {
        EventTime::show(out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_split_at_dots_that_are_not_escaped() {
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
    fn impossible_paths_are_refused_with_what_would_be_right() {
        let long = "x".repeat(1025);
        for text in ["", ".", "a.", ".a", "a..b", r"a\", r"a\b", "a.b.c.d.e.f.g.h.i", &long] {
            let told = parse_path(text).unwrap_err();
            assert!(told.contains("write a path of at most 8 steps such as user.id"), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn a_path_reads_back_from_what_is_shown(steps in proptest::collection::vec(r"[a-c.\\ü]{1,6}", 1..=8)) {
            let text = steps.iter().map(|s| s.replace('\\', r"\\").replace('.', r"\.")).collect::<Vec<_>>().join(".");
            let path = parse_path(&text).unwrap();
            prop_assert_eq!(path.segments(), steps.as_slice());
            prop_assert_eq!(path.to_string(), text);
        }
    }
}
