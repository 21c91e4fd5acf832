//! Reads output topics as a read-committed consumer.

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::Cluster;
use crate::testbed::VERDICTS;
use crate::wait::TIMEOUT;

/// Visits every committed output of an input topic, with the verdict of its output topic.
pub fn for_each_output(cluster: &Cluster, topic: &str, mut visit: impl FnMut(&'static str, &BorrowedMessage<'_>)) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.brokers())
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .create()
        .expect("create a consumer");
    let (mut list, mut unfinished, admin) = (TopicPartitionList::new(), 0, cluster.admin());
    for name in VERDICTS.map(|verdict| format!("{topic}.{verdict}")) {
        for partition in 0..admin.partitions(&name).expect("an output topic") as i32 {
            list.add_partition_offset(&name, partition, Offset::Beginning).expect("add a partition");
            unfinished += 1;
        }
    }
    consumer.assign(&list).expect("assign partitions");
    while unfinished > 0 {
        match consumer.poll(TIMEOUT).expect("receive an output in time") {
            Err(KafkaError::PartitionEOF(_)) => unfinished -= 1,
            Err(error) => panic!("reading outputs: {error}"),
            Ok(message) => {
                let verdict = VERDICTS.into_iter().find(|verdict| message.topic().ends_with(verdict));
                visit(verdict.expect("an output topic"), &message);
            }
        }
    }
}

/// The first header with this name, as text.
pub fn header(message: &BorrowedMessage<'_>, name: &str) -> Option<String> {
    let headers = message.headers()?;
    let header = headers.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(header.value.unwrap_or_default()).into_owned())
}

/// Partition and offset of an output's input record.
pub fn source(message: &BorrowedMessage<'_>) -> (i32, i64) {
    let text = header(message, "ebb-source").expect("a source");
    let mut components = text.rsplit('/');
    let mut number = || components.next().and_then(|text| text.parse::<i64>().ok()).expect("a number");
    let offset = number();
    (number() as i32, offset)
}
