//! The keys of the connection to Kafka. librdkafka properties are passed on under their own names, except those that
//! Ebb sets itself because its guarantees depend on them. Secret values never appear in errors or printed configurations.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::composite::Optional;
use super::declare::{OneOf, choice, section};
use super::parser::{Children, ConfigParser, Schema};
use super::scalars::{DurationRange, IntegerRange, ShortText, TopicName};
use super::suggest::excerpt;
use super::tree::{Node, NodeKind};

/// Printed instead of a secret.
pub(super) const MASK: &str = "********";
const MAX_SECRET_BYTES: u64 = 64 << 10;

section! {
    /// The connection to Kafka. Without this section the service runs embedded and receives events over HTTP.
    pub struct KafkaConfig {
        /// The bootstrap brokers, separated by commas.
        brokers: BrokerList, eg "localhost:9092";
        /// The consumer group. Instances with the same group share the partitions.
        group: ShortText = "ebb";
        /// The static name of this instance in the group (`group.instance.id`). With it a quick restart causes no rebalance.
        instance: Optional<ShortText>, eg "ebb-0";
        /// The interval between commits of outputs and offsets.
        commit_every: DurationRange<10, 10_000> = "100ms";
        /// Where to start reading a partition without a committed offset: `earliest`, `latest`, or `error` to stop instead.
        start: OneOf<StartOffset> = "error";
        /// Create missing output topics, with as many partitions as their source. Without it a missing topic is an error.
        create_topics: Optional<CreateTopicsConfig>, eg "{replication: 3}";
        /// Write the state of shards to a compacted topic, so that the next owner of a partition does not have to replay the
        /// log.
        snapshots: Optional<SnapshotTopicConfig>, eg "{topic: ebb-snapshots}";
        /// Further librdkafka properties, by their own names. Read secrets from files:
        /// `sasl.password: {file: /run/secrets/password}`.
        properties: PropertyMap = "{}", eg "{security.protocol: SASL_SSL, sasl.password: {file: password.txt}}";
    }
}

section! {
    /// How missing topics are created.
    pub struct CreateTopicsConfig {
        /// The replication factor.
        replication: IntegerRange<1, 1000> = "1";
    }
}

section! {
    /// The snapshot topic. It must be compacted and have as many partitions as the source topic with the most.
    pub struct SnapshotTopicConfig {
        /// The name of the topic.
        topic: TopicName = "ebb-snapshots";
        /// The interval between snapshots of a shard. A snapshot is also written when a partition is revoked.
        every: DurationRange<1_000, 86_400_000> = "5m";
    }
}

choice! {
    /// Where to start reading a partition without a committed offset.
    pub enum StartOffset {
        /// Stop with an error.
        Error = "error",
        Earliest = "earliest",
        Latest = "latest",
    }
}

/// `host:port`, several separated by commas.
#[derive(Debug)]
pub struct BrokerList;

impl Schema for BrokerList {
    type Value = String;

    fn syntax() -> String {
        "host:port, several separated by commas".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<String> {
        let text = parser.scalar_text(node, &Self::syntax())?;
        let brokers: Vec<&str> = text.split(',').map(str::trim).collect();
        let bad = brokers.iter().find(|broker| !is_broker(broker));
        if let Some(bad) = bad {
            parser.error(node, format_args!("{} is not a valid broker; expected {}", excerpt(bad), Self::syntax()));
            return None;
        }
        Some(brokers.join(","))
    }

    fn to_node(value: &String) -> Option<Node> {
        Some(Node::scalar(value))
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
pub struct KafkaProperty {
    /// The value for librdkafka.
    pub value: String,
    /// The file that the value was read from.
    pub file: Option<PathBuf>,
    is_secret: bool,
}

impl fmt::Debug for KafkaProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.is_secret { MASK } else { &self.value };
        f.debug_struct("KafkaProperty").field("value", &shown).field("file", &self.file).finish()
    }
}

/// The map of librdkafka properties.
#[derive(Debug)]
pub struct PropertyMap;

impl Schema for PropertyMap {
    type Value = BTreeMap<String, KafkaProperty>;

    fn syntax() -> String {
        "a map from librdkafka's property names to values or {file: PATH}".into()
    }

    fn from_node(node: &Node, parser: &mut ConfigParser) -> Option<Self::Value> {
        let NodeKind::Map(entries) = &node.kind else {
            parser.error(node, format_args!("is not a map; expected {}", Self::syntax()));
            return None;
        };
        let read: Vec<Option<(String, KafkaProperty)>> = entries
            .iter()
            .map(|(name, entry)| parser.at(name, |parser| Some((name.clone(), property(name, entry, parser)?))))
            .collect();
        read.into_iter().collect()
    }

    fn to_node(value: &Self::Value) -> Option<Node> {
        let entries = value.iter().map(|(name, property)| (name.clone(), property_node(property))).collect();
        Some(Node::new(NodeKind::Map(entries)))
    }

    fn children() -> Children {
        Children::Properties
    }
}

fn property_node(property: &KafkaProperty) -> Node {
    match (&property.file, property.is_secret) {
        (Some(path), _) => Node::new(NodeKind::Map(vec![("file".into(), Node::scalar(path.display()))])),
        (None, true) => Node::scalar(MASK),
        (None, false) => Node::scalar(&property.value),
    }
}

fn property(name: &str, node: &Node, parser: &mut ConfigParser) -> Option<KafkaProperty> {
    if let Some((_, reason)) = RESERVED.iter().find(|(reserved, _)| *reserved == name) {
        parser.error(node, reason);
        return None;
    }
    let is_secret = is_secret(name);
    let (value, file) = match node.child("file") {
        Some(file) => {
            parser.expect_keys(node, &["file"]);
            let path = PathBuf::from(parser.scalar_text(file, "the path of a file with the value")?);
            (from_file(&path).map_err(|message| parser.error(file, message)).ok()?, Some(path))
        }
        None => (parser.scalar_text(node, "a value, or {file: PATH}")?.to_string(), None),
    };
    if value == MASK {
        parser.error(node, "is the mask of a secret; set the secret itself, or {file: PATH}");
        return None;
    }
    if let Err(message) = (parser.property_check)(name, &value) {
        let reveals_secret = is_secret && message.contains(&value);
        parser.error(node, if reveals_secret { "librdkafka rejects this value; set another" } else { &message });
        return None;
    }
    Some(KafkaProperty { value, file, is_secret })
}

/// Whether the value of a property must be masked.
fn is_secret(name: &str) -> bool {
    let is_reference = name.ends_with(".location") || name.ends_with("username");
    !is_reference
        && ["password", "secret", "key", "jaas", "token", "oauthbearer.config", ".pem"]
            .iter()
            .any(|part| name.contains(part))
}

fn from_file(path: &Path) -> Result<String, String> {
    let failed = |cause: String| format!("cannot read {}: {cause}; set the path of a readable file", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > MAX_SECRET_BYTES {
        return Err(failed("larger than 64KiB".into()));
    }
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    if text.is_empty() { Err(failed("empty file".into())) } else { Ok(text) }
}

/// Properties that Ebb sets itself, and what to do instead.
const RESERVED: [(&str, &str); 18] = [
    ("bootstrap.servers", "is set by Ebb; use kafka.brokers"),
    ("metadata.broker.list", "is set by Ebb; use kafka.brokers"),
    ("group.id", "is set by Ebb; use kafka.group"),
    ("group.instance.id", "is set by Ebb; use kafka.instance"),
    ("auto.offset.reset", "is set by Ebb: a reset would silently skip or repeat events; use kafka.start"),
    ("enable.auto.commit", "is set by Ebb: offsets are committed with the outputs; use kafka.commit_every"),
    ("auto.commit.enable", "is set by Ebb: offsets are committed with the outputs; use kafka.commit_every"),
    ("auto.commit.interval.ms", "is set by Ebb: offsets are committed with the outputs; use kafka.commit_every"),
    ("enable.auto.offset.store", "is set by Ebb: offsets are committed with the outputs; remove it"),
    ("isolation.level", "is set by Ebb: only committed records are read; remove it"),
    ("transactional.id", "is set by Ebb: it fences the previous owner of a partition; remove it"),
    ("transaction.timeout.ms", "is set by Ebb: its deadlines depend on it; remove it"),
    ("message.max.bytes", "is set by Ebb from the limits of the output topics; remove it"),
    ("enable.idempotence", "is set by Ebb: transactions need it; remove it"),
    ("enable.partition.eof", "is set by Ebb: replay depends on it; remove it"),
    ("enable.gapless.guarantee", "is set by Ebb: transactions replace it; remove it"),
    ("check.crcs", "is set by Ebb: every record is checked; remove it"),
    ("acks", "is set by Ebb: transactions need all replicas; remove it"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_properties_are_recognised_by_name() {
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
    fn broker_has_a_host_and_a_port() {
        for broker in ["localhost:9092", "10.0.0.1:1", "[::1]:9092", "kafka-0.kafka.svc:9092"] {
            assert!(is_broker(broker), "{broker}");
        }
        for broker in ["", "localhost", ":9092", "a:0", "a:65536", "a:b", "a b:1", "SSL://a:1", "a:"] {
            assert!(!is_broker(broker), "{broker}");
        }
    }
}
