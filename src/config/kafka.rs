//! The keys of the connection to Kafka. librdkafka's own properties pass through under their own names, but for those
//! that Ebb's promises rest on. Values that look secret never leave this module in a message or a dump.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::declare::{choice, section};
use super::kinds::Maybe;
use super::read::{Inside, Kind, Reader};
use super::scalars::{Count, Duration, Text, Topic};
use super::tree::{Node, NodeKind};
use super::words::excerpt;

/// What stands in place of a secret.
pub(super) const MASK: &str = "********";
const MOST_SECRET_BYTES: u64 = 64 << 10;

section! {
    /// The connection to Kafka. Without this section the service runs embedded: events come by HTTP.
    pub struct Kafka {
        /// The brokers to begin with, separated by commas.
        brokers: Brokers, eg "localhost:9092";
        /// The consumer group. Instances with the same group share the partitions.
        group: Text = "ebb";
        /// This instance's own name in the group: with it a quick restart does not move partitions.
        instance: Maybe<Text>, eg "ebb-0";
        /// How often outputs and offsets are committed together.
        commit_every: Duration<10, 10_000> = "100ms";
        /// Where a partition without a committed offset begins: `error` refuses to guess.
        start: Start = "error";
        /// Makes output topics that are missing, with as many partitions as their source. Without it a missing one is an error.
        create_topics: Maybe<CreateTopics>, eg "{replication: 3}";
        /// Leaves states in a compacted topic, so that a partition's next owner need not replay the log.
        snapshots: Maybe<Snapshots>, eg "{topic: ebb-snapshots}";
        /// Any other property of librdkafka, under its own name. A secret is best read from a file:
        /// `sasl.password: {file: /run/secrets/password}`.
        properties: Properties = "{}", eg "{security.protocol: SASL_SSL, sasl.password: {file: password.txt}}";
    }
}

section! {
    /// How missing topics are made.
    pub struct CreateTopics {
        /// How many brokers keep each partition.
        replication: Count<1, 1000> = "1";
    }
}

section! {
    /// The topic of states. It must be compacted, with as many partitions as the widest source.
    pub struct Snapshots {
        /// Its name.
        topic: Topic = "ebb-snapshots";
        /// How often the state of each shard is written; also whenever a partition moves.
        every: Duration<1_000, 86_400_000> = "5m";
    }
}

choice! {
    /// Where a partition without a committed offset begins.
    pub enum Start {
        /// Refuse to start.
        Error = "error",
        Earliest = "earliest",
        Latest = "latest",
    }
}

/// `host:port`, several separated by commas.
#[derive(Debug)]
pub struct Brokers;

impl Kind for Brokers {
    type Out = String;

    fn form() -> String {
        "host:port, several separated by commas".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<String> {
        let text = reader.text(node, &Self::form())?;
        let brokers: Vec<&str> = text.split(',').map(str::trim).collect();
        let bad = brokers.iter().find(|broker| !is_broker(broker));
        if let Some(bad) = bad {
            reader.report(node, format_args!("{} is not a broker; write {}", excerpt(bad), Self::form()));
            return None;
        }
        Some(brokers.join(","))
    }

    fn show(out: &String) -> Option<Node> {
        Some(Node::scalar(out))
    }
}

fn is_broker(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    !host.is_empty()
        && host.len() <= 255
        && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-:[]".contains(c))
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// One librdkafka property.
#[derive(Clone, PartialEq, Eq)]
pub struct Property {
    /// The value as librdkafka gets it.
    pub value: String,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    is_secret: bool,
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.is_secret { MASK } else { &self.value };
        f.debug_struct("Property").field("value", &shown).field("file", &self.file).finish()
    }
}

/// The map of librdkafka properties.
#[derive(Debug)]
pub struct Properties;

impl Kind for Properties {
    type Out = BTreeMap<String, Property>;

    fn form() -> String {
        "a map from librdkafka's property names to values or {file: PATH}".into()
    }

    fn read(node: &Node, reader: &mut Reader) -> Option<Self::Out> {
        let NodeKind::Map(entries) = &node.kind else {
            reader.report(node, format_args!("is not a map; write {}", Self::form()));
            return None;
        };
        let read: Vec<Option<(String, Property)>> = entries
            .iter()
            .map(|(name, entry)| reader.at(name, |reader| Some((name.clone(), property(name, entry, reader)?))))
            .collect();
        read.into_iter().collect()
    }

    fn show(out: &Self::Out) -> Option<Node> {
        let entries = out.iter().map(|(name, property)| (name.clone(), shown(property))).collect();
        Some(Node::new(NodeKind::Map(entries)))
    }

    fn inside() -> Inside {
        Inside::Properties
    }
}

fn shown(property: &Property) -> Node {
    match (&property.file, property.is_secret) {
        (Some(path), _) => Node::new(NodeKind::Map(vec![("file".into(), Node::scalar(path.display()))])),
        (None, true) => Node::scalar(MASK),
        (None, false) => Node::scalar(&property.value),
    }
}

fn property(name: &str, node: &Node, reader: &mut Reader) -> Option<Property> {
    if let Some((_, reason)) = OWNED.iter().find(|(owned, _)| *owned == name) {
        reader.report(node, reason);
        return None;
    }
    let is_secret = is_secret(name);
    let (value, file) = match node.child("file") {
        Some(file) => {
            reader.entries(node, &["file"]);
            let path = PathBuf::from(reader.text(file, "the path of a file with the value")?);
            (from_file(&path).map_err(|message| reader.report(file, message)).ok()?, Some(path))
        }
        None => (reader.text(node, "a value, or {file: PATH}")?.to_string(), None),
    };
    if value == MASK {
        reader.report(node, "is the mask that stands for a secret; write the secret, or better {file: PATH}");
        return None;
    }
    if let Err(message) = (reader.property_check)(name, &value) {
        let tells = is_secret && message.contains(&value);
        reader.report(node, if tells { "librdkafka refuses its value; write another" } else { &message });
        return None;
    }
    Some(Property { value, file, is_secret })
}

/// Whether the value of a property must not be shown.
fn is_secret(name: &str) -> bool {
    let place_of_a_secret = name.ends_with(".location") || name.ends_with("username");
    !place_of_a_secret
        && ["password", "secret", "key", "jaas", "token", "oauthbearer.config", ".pem"]
            .iter()
            .any(|part| name.contains(part))
}

fn from_file(path: &Path) -> Result<String, String> {
    let refused = |why: String| format!("{} cannot be read: {why}; write the path of a readable file", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| refused(error.to_string()))?;
    file.take(MOST_SECRET_BYTES + 1).read_to_string(&mut text).map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > MOST_SECRET_BYTES {
        return Err(refused("it is larger than 64KiB".into()));
    }
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    if text.is_empty() { Err(refused("it is empty".into())) } else { Ok(text) }
}

/// Properties that are not the user's, and why.
const OWNED: [(&str, &str); 18] = [
    ("bootstrap.servers", "belongs to Ebb; write kafka.brokers"),
    ("metadata.broker.list", "belongs to Ebb; write kafka.brokers"),
    ("group.id", "belongs to Ebb; write kafka.group"),
    ("group.instance.id", "belongs to Ebb; write kafka.instance"),
    ("auto.offset.reset", "belongs to Ebb: a reset would skip or repeat events in silence; write kafka.start"),
    ("enable.auto.commit", "belongs to Ebb: offsets are committed with the outputs; write kafka.commit_every"),
    ("auto.commit.enable", "belongs to Ebb: offsets are committed with the outputs; write kafka.commit_every"),
    ("auto.commit.interval.ms", "belongs to Ebb: offsets are committed with the outputs; write kafka.commit_every"),
    ("enable.auto.offset.store", "belongs to Ebb: offsets are committed with the outputs; remove it"),
    ("isolation.level", "belongs to Ebb: only committed records are read; remove it"),
    ("transactional.id", "belongs to Ebb: it fences a predecessor of the same partition; remove it"),
    ("transaction.timeout.ms", "belongs to Ebb: its deadlines rest on it; remove it"),
    ("message.max.bytes", "belongs to Ebb: the output topics decide; remove it"),
    ("enable.idempotence", "belongs to Ebb: transactions need it; remove it"),
    ("enable.partition.eof", "belongs to Ebb: replay depends on it; remove it"),
    ("enable.gapless.guarantee", "belongs to Ebb: transactions replace it; remove it"),
    ("check.crcs", "belongs to Ebb: every record is checked; remove it"),
    ("acks", "belongs to Ebb: transactions need all replicas; remove it"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_property_hides_is_known_by_its_name() {
        for name in [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "sasl.jaas.config",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["sasl.username", "ssl.key.location", "ssl.ca.location", "security.protocol", "client.id"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn brokers_have_a_host_and_a_port() {
        for broker in ["localhost:9092", "10.0.0.1:1", "[::1]:9092", "kafka-0.kafka.svc:9092"] {
            assert!(is_broker(broker), "{broker}");
        }
        for broker in ["", "localhost", ":9092", "a:0", "a:65536", "a:b", "a b:1", "SSL://a:1", "a:"] {
            assert!(!is_broker(broker), "{broker}");
        }
    }
}
