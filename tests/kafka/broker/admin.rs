//! Administrative calls of tests: topics, partitions, retention, offsets.

use std::future::Future;
use std::time::{Duration, Instant};

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A blocking admin client. Calls panic if the cluster rejects them.
pub struct Admin {
    brokers: String,
    client: AdminClient<DefaultClientContext>,
    runtime: tokio::runtime::Runtime,
}

impl Admin {
    pub fn new(brokers: &str) -> Self {
        let client = config(brokers).create().expect("create an admin client");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("create a runtime");
        Self { brokers: brokers.to_owned(), client, runtime }
    }

    fn run<T>(&self, target: &str, call: impl Future<Output = KafkaResult<T>>) -> T {
        self.runtime.block_on(call).unwrap_or_else(|error| panic!("{target}: {error}"))
    }

    /// The number of brokers, or `None` if none answers within half a second.
    pub fn broker_count(&self) -> Option<usize> {
        let metadata = self.client.inner().fetch_metadata(None, Duration::from_millis(500)).ok()?;
        Some(metadata.brokers().len())
    }

    /// Creates a topic with the default replication factor and waits until its partitions have leaders.
    pub fn create_topic(&self, name: &str, partitions: usize, properties: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions as i32, TopicReplication::Fixed(-1));
        topic.config.extend_from_slice(properties);
        for result in self.run(name, self.client.create_topics([&topic], &options())) {
            result.unwrap_or_else(|(name, code)| panic!("topic {name}: {code}"));
        }
        wait(&format!("topic {name} exists"), || self.partitions(name) == Some(partitions));
    }

    /// Deletes a topic and waits until brokers no longer report it.
    pub fn delete_topic(&self, name: &str) {
        for result in self.run(name, self.client.delete_topics(&[name], &options())) {
            result.unwrap_or_else(|(name, code)| panic!("topic {name}: {code}"));
        }
        wait(&format!("topic {name} is deleted"), || self.partitions(name).is_none());
    }

    /// Raises the number of partitions to `partitions`.
    pub fn add_partitions(&self, name: &str, partitions: usize) {
        let more = NewPartitions::new(name, partitions);
        for result in self.run(name, self.client.create_partitions([&more], &options())) {
            result.unwrap_or_else(|(name, code)| panic!("topic {name}: {code}"));
        }
        wait(&format!("{name} has {partitions} partitions"), || self.partitions(name) == Some(partitions));
    }

    /// Sets a topic's properties; all others return to their defaults.
    pub fn configure_topic(&self, name: &str, properties: &[(&str, &str)]) {
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(name));
        change.entries.extend(properties.iter().copied());
        for result in self.run(name, self.client.alter_configs([&change], &options())) {
            result.unwrap_or_else(|(name, code)| panic!("configuration of {name:?}: {code}"));
        }
    }

    /// Deletes all records before `offset`, as retention would.
    pub fn delete_records(&self, name: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(name, partition, Offset::Offset(offset)).expect("add a partition");
        let result = self.run(name, self.client.delete_records(&list, &options()));
        result.elements().iter().for_each(|element| element.error().expect("delete records"));
    }

    /// The number of partitions, or `None` if the topic does not exist or a partition has no leader.
    pub fn partitions(&self, name: &str) -> Option<usize> {
        let metadata = self.client.inner().fetch_metadata(Some(name), Duration::from_secs(2)).ok()?;
        let topic = metadata.topics().first()?;
        let led = topic.partitions().iter().filter(|partition| partition.leader() >= 0).count();
        (topic.error().is_none() && led > 0 && led == topic.partitions().len()).then_some(led)
    }

    /// Waits until the topic's metadata is known and returns its number of partitions.
    fn known_partitions(&self, name: &str) -> usize {
        let begun = Instant::now();
        loop {
            match self.partitions(name) {
                Some(partitions) => return partitions,
                None => assert!(begun.elapsed() < CALL_TIMEOUT, "topic {name} does not exist"),
            }
        }
    }

    /// Log start offset and high watermark of a partition.
    pub fn watermarks(&self, name: &str, partition: i32) -> (i64, i64) {
        retry(name, || self.client.inner().fetch_watermarks(name, partition, CALL_TIMEOUT))
    }

    /// The last stable offset: below the high watermark while a transaction is open.
    pub fn last_stable_offset(&self, name: &str, partition: i32) -> i64 {
        let mut config = config(&self.brokers);
        let reader: BaseConsumer = config.set("isolation.level", "read_committed").create().expect("create a consumer");
        retry(name, || reader.fetch_watermarks(name, partition, CALL_TIMEOUT)).1
    }

    /// The number of offsets in all partitions of a topic, control records included.
    pub fn length(&self, name: &str) -> i64 {
        let partitions = self.known_partitions(name);
        (0..partitions as i32).map(|partition| self.watermarks(name, partition)).map(|(first, next)| next - first).sum()
    }

    /// The group's committed offset of each partition.
    pub fn committed(&self, group: &str, name: &str) -> Vec<Option<i64>> {
        let mut config = config(&self.brokers);
        config.set("group.id", group).set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create().expect("create a consumer");
        let mut list = TopicPartitionList::new();
        let partitions = self.known_partitions(name);
        list.add_partition_range(name, 0, partitions as i32 - 1);
        let committed = retry(group, || consumer.committed_offsets(list.clone(), CALL_TIMEOUT));
        committed.elements().iter().map(|element| element.offset().to_raw().filter(|raw| *raw >= 0)).collect()
    }
}

fn wait(expectation: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < CALL_TIMEOUT, "{expectation}: not within {CALL_TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Repeats a read: a broker that has just started rejects requests for state that it has not loaded yet.
fn retry<T>(target: &str, read: impl Fn() -> KafkaResult<T>) -> T {
    let begun = Instant::now();
    loop {
        match read() {
            Ok(response) => return response,
            Err(error) => assert!(begun.elapsed() < CALL_TIMEOUT, "{target}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn config(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers)
        .set("log_level", "0")
        .set("isolation.level", "read_uncommitted")
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "200")
        .set("topic.metadata.refresh.sparse", "true");
    config
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(CALL_TIMEOUT)).request_timeout(Some(CALL_TIMEOUT))
}
