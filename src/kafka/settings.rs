//! librdkafka configuration of every client. Properties that exactly-once processing depends on are fixed here; all
//! others are passed through.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::ClientConfig;

use super::fault::{Fault, Remedy};

/// The configured connection and group.
#[derive(Clone)]
pub struct Settings {
    pub brokers: String,
    pub group: String,
    /// `group.instance.id`: makes this instance a static member.
    pub instance: Option<String>,
    /// Other librdkafka properties.
    pub properties: BTreeMap<String, String>,
}

/// After this time the broker aborts a transaction.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(20);

/// Request timeout of clients without `socket.timeout.ms`, just below [`TRANSACTION_TIMEOUT`].
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(19);

const PROTOCOL: &str = "group.protocol";
const STRATEGY: &str = "partition.assignment.strategy";
const COOPERATIVE: &str = "cooperative-sticky";
/// Limit on bytes prefetched per partition.
const PREFETCH_KBYTES: (&str, &str) = ("queued.max.messages.kbytes", "16384");
/// Limit on records prefetched per partition: with a longer queue, records are no longer in the CPU cache when they are
/// processed, and the allocator cannot reuse their memory.
const PREFETCH_RECORDS: (&str, &str) = ("queued.min.messages", "10000");
/// Pause before a partition whose prefetch queue was full is fetched again. librdkafka's default of a second would let
/// workers idle.
const FETCH_BACKOFF_MS: (&str, &str) = ("fetch.queue.backoff.ms", "10");
/// Limit on bytes queued in one producer.
const PRODUCER_QUEUE_KBYTES: (&str, &str) = ("queue.buffering.max.kbytes", "65536");

/// Linger of transactional outputs. It adds no latency, since outputs are visible only after the commit, which flushes
/// at once; larger batches are cheaper for client and broker.
const LINGER_MS: (&str, &str) = ("linger.ms", "25");

/// Interval of librdkafka's statistics, which report the state of the group coordinator.
const STATISTICS_INTERVAL_MS: (&str, &str) = ("statistics.interval.ms", "5000");
/// librdkafka's default for `session.timeout.ms`.
const DEFAULT_SESSION_TIMEOUT: Duration = Duration::from_secs(45);

/// Which deliveries librdkafka reports to the producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReportMode {
    /// All, with their offsets.
    All,
    /// Only failures: reporting every success would cost as much as sending.
    Failures,
}

/// Shows the names of properties only: values may be secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.properties.keys().collect();
        let Self { brokers, group, instance, .. } = self;
        write!(f, "Settings(brokers {brokers}, group {group}, instance {instance:?}, properties {names:?})")
    }
}

impl Settings {
    /// Rejects properties that librdkafka accepts but that would break exactly-once processing.
    pub fn check(&self) -> Result<(), Fault> {
        let rejected = |message: &str| Err(Fault::new("kafka.properties", Remedy::End, message));
        match self.properties.get(STRATEGY).map(String::as_str) {
            None | Some(COOPERATIVE) => {}
            Some(_) => return rejected("partition.assignment.strategy must be cooperative-sticky; remove it"),
        }
        Ok(())
    }

    /// After this time librdkafka repeats a request.
    pub(super) fn request_timeout(&self) -> Duration {
        self.milliseconds("socket.timeout.ms").unwrap_or(DEFAULT_REQUEST_TIMEOUT)
    }

    /// Whether the members compute the assignment. With `group.protocol: consumer` the brokers do.
    pub fn uses_classic_protocol(&self) -> bool {
        self.properties.get(PROTOCOL).is_none_or(|protocol| protocol != "consumer")
    }

    /// After this time without a group coordinator, waiting longer does not help.
    pub(super) fn coordinator_timeout(&self) -> Duration {
        2 * self.milliseconds("session.timeout.ms").unwrap_or(DEFAULT_SESSION_TIMEOUT)
    }

    fn milliseconds(&self, name: &str) -> Option<Duration> {
        self.properties.get(name).and_then(|value| value.parse().ok()).map(Duration::from_millis)
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

    fn set_default(&self, config: &mut ClientConfig, (name, value): (&str, &str)) {
        if !self.properties.contains_key(name) {
            config.set(name, value);
        }
    }

    /// A client that reads metadata only.
    pub(super) fn metadata_client(&self) -> ClientConfig {
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
        if self.uses_classic_protocol() {
            config.set(STRATEGY, COOPERATIVE);
        }
        for default in [PREFETCH_KBYTES, PREFETCH_RECORDS, FETCH_BACKOFF_MS, STATISTICS_INTERVAL_MS] {
            self.set_default(&mut config, default);
        }
        config
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            // librdkafka counts the end of a partition as a record of a batch: after the next rebalance it would skip one.
            .set("enable.partition.eof", "false")
            .set("check.crcs", "true");
        config
    }

    /// A consumer that joins no group and reads uncommitted records too.
    pub(super) fn reader(&self) -> ClientConfig {
        let mut config = self.metadata_client();
        // Required by librdkafka although this consumer neither joins nor commits.
        config
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            // A transaction that was never decided must not block the read; readers verify the content instead.
            .set("isolation.level", "read_uncommitted")
            .set("enable.partition.eof", "true")
            .set("check.crcs", "true");
        config
    }

    /// Like [`Settings::reader`], for committed records only, with a short wait at the end of the log.
    pub(super) fn tail_reader(&self) -> ClientConfig {
        let mut config = self.reader();
        config.set("isolation.level", "read_committed").set("fetch.wait.max.ms", "5");
        config
    }

    /// An idempotent producer; `max_record_bytes` limits records and batches.
    pub(super) fn producer(&self, max_record_bytes: usize, reports: ReportMode) -> ClientConfig {
        let mut config = self.metadata_client();
        self.set_default(&mut config, PRODUCER_QUEUE_KBYTES);
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.max.bytes", max_record_bytes.to_string())
            .set("delivery.report.only.error", (reports == ReportMode::Failures).to_string());
        config
    }

    pub(super) fn transactional_producer(&self, id: &str, max_record_bytes: usize) -> ClientConfig {
        let mut config = self.producer(max_record_bytes, ReportMode::Failures);
        self.set_default(&mut config, LINGER_MS);
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
    fn required_properties_override_configured_ones() {
        let consumer = settings(&[("isolation.level", "read_uncommitted"), ("fetch.max.bytes", "1048576")]).consumer();
        assert_eq!(consumer.get("isolation.level"), Some("read_committed"));
        assert_eq!(consumer.get("auto.offset.reset"), Some("error"));
        assert_eq!(consumer.get("group.instance.id"), Some("i"));
        assert_eq!(consumer.get("fetch.max.bytes"), Some("1048576"));
        assert_eq!(consumer.get("queued.min.messages"), Some("10000"));
        let configured = settings(&[("queued.min.messages", "7")]).consumer();
        assert_eq!(configured.get("queued.min.messages"), Some("7"));
        let producer = settings(&[]).transactional_producer("t", 5_000);
        assert_eq!((producer.get("transactional.id"), producer.get("acks")), (Some("t"), Some("all")));
        assert_eq!(producer.get("message.max.bytes"), Some("5000"));
    }

    #[test]
    fn consumer_protocol_has_no_strategy_and_other_strategies_are_rejected() {
        assert_eq!(settings(&[]).consumer().get(STRATEGY), Some(COOPERATIVE));
        let new = settings(&[(PROTOCOL, "consumer")]);
        assert_eq!((new.consumer().get(STRATEGY), new.consumer().get(PROTOCOL)), (None, Some("consumer")));
        assert!(new.check().is_ok());
        assert_eq!(new.producer(5_000, ReportMode::All).get(PROTOCOL), None);
        let rejection = settings(&[(STRATEGY, "range")]).check().unwrap_err();
        assert!(rejection.to_string().contains("cooperative-sticky"), "{rejection}");
    }

    #[test]
    fn debug_output_contains_no_property_values() {
        let shown = format!("{:?}", settings(&[("sasl.password", "hunter2")]));
        assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
    }
}
