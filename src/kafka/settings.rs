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

/// Requests of clients that are not told otherwise; transactional ones are told by the timeout above.
const USUAL_REQUEST_TIMEOUT: Duration = Duration::from_secs(19);

const PROTOCOL: &str = "group.protocol";
const STRATEGY: &str = "partition.assignment.strategy";
const COOPERATIVE: &str = "cooperative-sticky";
/// What is fetched ahead of one partition's worker at most, unless configured.
const AHEAD_KBYTES: (&str, &str) = ("queued.max.messages.kbytes", "16384");
/// As above, in records: what waits longer than it takes to fetch more is out of the processor's cache when its turn
/// comes, and its memory is new every time.
const AHEAD_RECORDS: (&str, &str) = ("queued.min.messages", "10000");
/// When a partition that had enough of either is looked at again. The client's second would let workers run dry.
const LOOK_AGAIN_MS: (&str, &str) = ("fetch.queue.backoff.ms", "10");
/// What one producer holds at most until it is written, unless configured.
const HELD_KBYTES: (&str, &str) = ("queue.buffering.max.kbytes", "65536");

/// How long outputs wait for others in a transaction, unless configured: nobody sees them before its commit, which lets
/// nothing wait, and large batches cost everybody less.
const LINGER_MS: (&str, &str) = ("linger.ms", "25");

/// How often the consumer says how its membership stands, unless configured.
const TELLS_EVERY_MS: (&str, &str) = ("statistics.interval.ms", "5000");
/// How long members that say nothing are missed, unless configured.
const USUAL_SESSION: Duration = Duration::from_secs(45);

/// Which outputs a producer hears of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hears {
    /// Of all, with the offset of each.
    All,
    /// Of those that were not written: to hear of the others costs as much as writing them.
    Failures,
}

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

    /// When a request is given up, and sent again.
    pub(super) fn request_timeout(&self) -> Duration {
        let told = self.properties.get("socket.timeout.ms").and_then(|told| told.parse().ok());
        told.map_or(USUAL_REQUEST_TIMEOUT, Duration::from_millis)
    }

    /// Whether members deal the partitions out among themselves. Otherwise brokers do (`group.protocol: consumer`).
    pub fn is_dealt_out_by_members(&self) -> bool {
        self.properties.get(PROTOCOL).is_none_or(|protocol| protocol != "consumer")
    }

    /// A coordinator that is not there for so long is not found by waiting any longer.
    pub(super) fn coordinator_patience(&self) -> Duration {
        let told = self.properties.get("session.timeout.ms").and_then(|told| told.parse().ok());
        2 * told.map_or(USUAL_SESSION, Duration::from_millis)
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

    fn set_unless_told(&self, config: &mut ClientConfig, (name, value): (&str, &str)) {
        if !self.properties.contains_key(name) {
            config.set(name, value);
        }
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
        if self.is_dealt_out_by_members() {
            config.set(STRATEGY, COOPERATIVE);
        }
        for usual in [AHEAD_KBYTES, AHEAD_RECORDS, LOOK_AGAIN_MS, TELLS_EVERY_MS] {
            self.set_unless_told(&mut config, usual);
        }
        config
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            // In a batch, the end of a partition counts as a record: after the next rebalance one would be skipped.
            .set("enable.partition.eof", "false")
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
            // Nothing is believed for being committed: a transaction that somebody left open must not end the reading.
            .set("isolation.level", "read_uncommitted")
            .set("enable.partition.eof", "true")
            .set("check.crcs", "true");
        config
    }

    /// As [`Settings::reader`], of what is committed, and without waiting for more.
    pub(super) fn tail(&self) -> ClientConfig {
        let mut config = self.reader();
        config.set("isolation.level", "read_committed").set("fetch.wait.max.ms", "5");
        config
    }

    /// No message may be larger than `most_bytes`, nor any batch of them.
    pub(super) fn producer(&self, most_bytes: usize, hears: Hears) -> ClientConfig {
        let mut config = self.asker();
        self.set_unless_told(&mut config, HELD_KBYTES);
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.max.bytes", most_bytes.to_string())
            .set("delivery.report.only.error", (hears == Hears::Failures).to_string());
        config
    }

    pub(super) fn transactional(&self, id: &str, most_bytes: usize) -> ClientConfig {
        let mut config = self.producer(most_bytes, Hears::Failures);
        self.set_unless_told(&mut config, LINGER_MS);
        config.set("transactional.id", id).set("transaction.timeout.ms", TRANSACTION_TIMEOUT.as_millis().to_string());
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(properties: &[(&str, &str)]) -> Settings {
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings { brokers: "b:1".into(), group: "g".into(), instance: Some("i".into()), properties }
    }

    #[test]
    fn what_promises_rest_on_is_set_whatever_passes_through() {
        let consumer = settings(&[("isolation.level", "read_uncommitted"), ("fetch.max.bytes", "1048576")]).consumer();
        assert_eq!(consumer.get("isolation.level"), Some("read_committed"));
        assert_eq!(consumer.get("auto.offset.reset"), Some("error"));
        assert_eq!(consumer.get("group.instance.id"), Some("i"));
        assert_eq!(consumer.get("fetch.max.bytes"), Some("1048576"));
        assert_eq!(consumer.get("queued.min.messages"), Some("10000"));
        let told = settings(&[("queued.min.messages", "7")]).consumer();
        assert_eq!(told.get("queued.min.messages"), Some("7"));
        let producer = settings(&[]).transactional("t", 5_000);
        assert_eq!((producer.get("transactional.id"), producer.get("acks")), (Some("t"), Some("all")));
        assert_eq!(producer.get("message.max.bytes"), Some("5000"));
    }

    #[test]
    fn the_new_group_protocol_gets_no_strategy_and_another_strategy_is_refused() {
        assert_eq!(settings(&[]).consumer().get(STRATEGY), Some(COOPERATIVE));
        let new = settings(&[(PROTOCOL, "consumer")]);
        assert_eq!((new.consumer().get(STRATEGY), new.consumer().get(PROTOCOL)), (None, Some("consumer")));
        assert!(new.check().is_ok());
        assert_eq!(new.producer(5_000, Hears::All).get(PROTOCOL), None);
        let refusal = settings(&[(STRATEGY, "range")]).check().unwrap_err();
        assert!(refusal.to_string().contains("cooperative-sticky"), "{refusal}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", settings(&[("sasl.password", "hunter2")]));
        assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
    }
}
