//! What tests ask of a cluster beside producing and consuming: topics, partitions, retention, offsets.

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

const CALL: Duration = Duration::from_secs(60);

/// An administrator of one cluster. Calls block, and panic when the cluster refuses.
pub struct Admin {
    brokers: String,
    client: AdminClient<DefaultClientContext>,
    runtime: tokio::runtime::Runtime,
}

impl Admin {
    pub fn new(brokers: &str) -> Self {
        let client = config(brokers).create().expect("an admin client");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self { brokers: brokers.to_owned(), client, runtime }
    }

    fn run<T>(&self, what: &str, call: impl Future<Output = KafkaResult<T>>) -> T {
        self.runtime.block_on(call).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// How many brokers the cluster says it has; nothing when nobody answers within a moment.
    pub fn broker_count(&self) -> Option<usize> {
        let metadata = self.client.inner().fetch_metadata(None, Duration::from_millis(500)).ok()?;
        Some(metadata.brokers().len())
    }

    /// Makes a topic with as many replicas as the broker's default says, and waits until its leaders are known.
    pub fn create_topic(&self, name: &str, partitions: usize, settings: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions as i32, TopicReplication::Fixed(-1));
        topic.config.extend_from_slice(settings);
        for result in self.run(name, self.client.create_topics([&topic], &options())) {
            result.unwrap_or_else(|(name, code)| panic!("topic {name}: {code}"));
        }
        self.wait(&format!("topic {name}"), || self.partitions(name) == Some(partitions));
    }

    /// Deletes a topic and waits until it is gone.
    pub fn delete_topic(&self, name: &str) {
        for result in self.run(name, self.client.delete_topics(&[name], &options())) {
            result.unwrap_or_else(|(name, code)| panic!("topic {name}: {code}"));
        }
        self.wait(&format!("the end of topic {name}"), || self.partitions(name).is_none());
    }

    /// Raises the number of partitions.
    pub fn add_partitions(&self, name: &str, partitions: usize) {
        let more = NewPartitions::new(name, partitions);
        for result in self.run(name, self.client.create_partitions([&more], &options())) {
            result.unwrap_or_else(|(name, code)| panic!("topic {name}: {code}"));
        }
        self.wait(&format!("partitions of {name}"), || self.partitions(name) == Some(partitions));
    }

    /// Sets properties of a topic; those not named fall back to their defaults.
    pub fn configure_topic(&self, name: &str, settings: &[(&str, &str)]) {
        let mut change = AlterConfig::new(ResourceSpecifier::Topic(name));
        change.entries.extend(settings.iter().copied());
        for result in self.run(name, self.client.alter_configs([&change], &options())) {
            result.unwrap_or_else(|(name, code)| panic!("configuration of {name:?}: {code}"));
        }
    }

    /// What retention does, at once: everything before `offset` is gone.
    pub fn delete_records(&self, name: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(name, partition, Offset::Offset(offset)).expect("an offset");
        let result = self.run(name, self.client.delete_records(&list, &options()));
        result.elements().iter().for_each(|element| element.error().expect("records are deleted"));
    }

    /// The number of partitions, each with a leader; nothing when the topic is not there.
    pub fn partitions(&self, name: &str) -> Option<usize> {
        let metadata = self.client.inner().fetch_metadata(Some(name), Duration::from_secs(2)).ok()?;
        let topic = metadata.topics().first()?;
        let led = topic.partitions().iter().filter(|partition| partition.leader() >= 0).count();
        (topic.error().is_none() && led > 0 && led == topic.partitions().len()).then_some(led)
    }

    /// The number of partitions of a topic that is there, however long its broker takes to say so.
    fn known_partitions(&self, name: &str) -> usize {
        let begun = Instant::now();
        loop {
            match self.partitions(name) {
                Some(partitions) => return partitions,
                None => assert!(begun.elapsed() < CALL, "no topic {name}"),
            }
        }
    }

    /// First and next offset of a partition, transactions still open included.
    pub fn watermarks(&self, name: &str, partition: i32) -> (i64, i64) {
        patiently(name, || self.client.inner().fetch_watermarks(name, partition, CALL))
    }

    /// Where committed records end: before the end while a transaction is open.
    pub fn stable_end(&self, name: &str, partition: i32) -> i64 {
        let mut config = config(&self.brokers);
        let reader: BaseConsumer = config.set("isolation.level", "read_committed").create().expect("a consumer");
        patiently(name, || reader.fetch_watermarks(name, partition, CALL)).1
    }

    /// Records and control records in all partitions of a topic.
    pub fn length(&self, name: &str) -> i64 {
        let partitions = self.known_partitions(name);
        (0..partitions as i32).map(|partition| self.watermarks(name, partition)).map(|(first, next)| next - first).sum()
    }

    /// What a group has committed, by partition: nothing for a partition without.
    pub fn committed(&self, group: &str, name: &str) -> Vec<Option<i64>> {
        let mut config = config(&self.brokers);
        config.set("group.id", group).set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        let partitions = self.known_partitions(name);
        list.add_partition_range(name, 0, partitions as i32 - 1);
        let committed = patiently(group, || consumer.committed_offsets(list.clone(), CALL));
        committed.elements().iter().map(|element| element.offset().to_raw().filter(|raw| *raw >= 0)).collect()
    }

    fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < CALL, "no {what} after {CALL:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A question, again and again: a broker that has just started refuses for a while what it has not loaded yet.
fn patiently<T>(what: &str, ask: impl Fn() -> KafkaResult<T>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => assert!(begun.elapsed() < CALL, "{what}: {error}"),
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
    AdminOptions::new().operation_timeout(Some(CALL)).request_timeout(Some(CALL))
}
