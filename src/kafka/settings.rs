//! How clients are configured: what Ebb's promises rest on is set here, everything else passes through.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::ClientConfig;

use super::fault::{Fault, Remedy};

/// The connection, as the configuration gives it.
#[derive(Clone)]
pub struct Settings {
    pub brokers: String,
    pub group: String,
    /// This instance's own name in the group: static membership.
    pub instance: Option<String>,
    /// Any other property of librdkafka.
    pub properties: BTreeMap<String, String>,
}

/// How long the brokers wait for a transaction before they give it up.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(20);

const PROTOCOL: &str = "group.protocol";
const STRATEGY: &str = "partition.assignment.strategy";
const COOPERATIVE: &str = "cooperative-sticky";
/// What is fetched ahead of one partition's worker at most, unless configured.
const AHEAD_KBYTES: (&str, &str) = ("queued.max.messages.kbytes", "16384");

/// Values may be secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.properties.keys().collect();
        let Self { brokers, group, instance, .. } = self;
        write!(f, "Settings(brokers {brokers}, group {group}, instance {instance:?}, properties {names:?})")
    }
}

impl Settings {
    /// Refuses what would break a promise although librdkafka takes it.
    pub fn check(&self) -> Result<(), Fault> {
        let refuse = |message: &str| Err(Fault::new("kafka.properties", Remedy::End, message));
        match self.properties.get(STRATEGY).map(String::as_str) {
            None | Some(COOPERATIVE) => {}
            Some(_) => return refuse("partition.assignment.strategy must be cooperative-sticky; remove it"),
        }
        Ok(())
    }

    fn base(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("client.id", self.instance.as_deref().unwrap_or("ebb"));
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    /// A client that only asks.
    pub(super) fn asker(&self) -> ClientConfig {
        let mut config = self.base();
        config.remove(PROTOCOL);
        config.remove(STRATEGY);
        config
    }

    pub(super) fn consumer(&self) -> ClientConfig {
        let mut config = self.base();
        config.set("group.id", &self.group);
        if let Some(instance) = &self.instance {
            config.set("group.instance.id", instance);
        }
        if self.properties.get(PROTOCOL).is_none_or(|protocol| protocol != "consumer") {
            config.set(STRATEGY, COOPERATIVE);
        }
        if !self.properties.contains_key(AHEAD_KBYTES.0) {
            config.set(AHEAD_KBYTES.0, AHEAD_KBYTES.1);
        }
        config
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("check.crcs", "true");
        config
    }

    /// A consumer that is in no group and reads what it is told to.
    pub(super) fn reader(&self) -> ClientConfig {
        let mut config = self.asker();
        // librdkafka wants a name although nothing is joined or committed.
        config
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("check.crcs", "true");
        config
    }

    /// No message may be larger than `most_bytes`, nor any batch of them.
    pub(super) fn producer(&self, most_bytes: usize) -> ClientConfig {
        let mut config = self.asker();
        config.set("enable.idempotence", "true").set("acks", "all").set("message.max.bytes", most_bytes.to_string());
        config
    }

    pub(super) fn transactional(&self, id: &str, most_bytes: usize) -> ClientConfig {
        let mut config = self.producer(most_bytes);
        config.set("transactional.id", id).set("transaction.timeout.ms", TRANSACTION_TIMEOUT.as_millis().to_string());
        config
    }
}
