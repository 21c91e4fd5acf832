//! Tests of the broker fixture: start, kill, terminate, restart, administration.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::{Admin, Cluster, ClusterSpec};
use crate::skip_without_own_kafka;

fn produce(brokers: &str, topic: &str, partition: i32, payloads: &[String]) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true")
        .create()
        .expect("create a producer");
    for payload in payloads {
        producer.send(BaseRecord::<(), _>::to(topic).partition(partition).payload(payload)).expect("queue a record");
    }
    producer.flush(Duration::from_secs(30)).expect("write all records");
}

fn consume(brokers: &str, topic: &str, count: usize) -> Vec<String> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "fixture")
        .set("enable.auto.commit", "false")
        .create()
        .expect("create a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning).expect("add a partition");
    consumer.assign(&list).expect("assign partitions");
    let mut found = Vec::new();
    while found.len() < count {
        let message = consumer.poll(Duration::from_secs(20)).expect("a record in time").expect("a record");
        found.push(String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned());
    }
    found
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn node_keeps_its_port_and_records_after_sigkill_and_sigterm() {
    skip_without_own_kafka!();
    let mut cluster = Cluster::start_own(&ClusterSpec::new("fixture"));
    let (brokers, admin) = (cluster.brokers(), cluster.admin());
    admin.create_topic("numbers", 2, &[]);
    produce(&brokers, "numbers", 0, &numbers(0..100));
    cluster.nodes()[0].kill();
    assert_eq!(Admin::new(&brokers).broker_count(), None, "a killed broker responds");
    cluster.nodes()[0].start();
    cluster.wait_until_ready();
    produce(&brokers, "numbers", 0, &numbers(100..200));
    assert!(cluster.nodes()[0].terminate(Duration::from_secs(30)), "the broker did not stop on SIGTERM");
    cluster.nodes()[0].start();
    cluster.wait_until_ready();
    assert_eq!(cluster.brokers(), brokers, "the port changed");
    assert_eq!(consume(&brokers, "numbers", 200), numbers(0..200));
    assert_eq!(admin.watermarks("numbers", 0), (0, 200));
    admin.delete_records("numbers", 0, 50);
    assert_eq!(admin.watermarks("numbers", 0), (50, 200));
    admin.add_partitions("numbers", 3);
    admin.configure_topic("numbers", &[("retention.ms", "3600000")]);
    assert_eq!(admin.committed("nobody", "numbers"), [None, None, None]);
    admin.delete_topic("numbers");
    assert_eq!(admin.partitions("numbers"), None);
}
