//! Reads what readers of committed records see.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::broker::Cluster;
use crate::site::VERDICTS;

const PATIENCE: Duration = Duration::from_secs(90);

/// Shows every committed output of a topic to `see`, with its verdict's topic.
pub fn each_output(cluster: &Cluster, topic: &str, mut see: impl FnMut(&'static str, &BorrowedMessage<'_>)) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.brokers())
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .create()
        .expect("a consumer");
    let (mut list, mut open, admin) = (TopicPartitionList::new(), 0, cluster.admin());
    for name in VERDICTS.map(|verdict| format!("{topic}.{verdict}")) {
        for partition in 0..admin.partitions(&name).expect("an output topic") as i32 {
            list.add_partition_offset(&name, partition, Offset::Beginning).expect("an offset");
            open += 1;
        }
    }
    consumer.assign(&list).expect("assigned");
    while open > 0 {
        match consumer.poll(PATIENCE).expect("outputs are read in time") {
            Err(KafkaError::PartitionEOF(_)) => open -= 1,
            Err(error) => panic!("reading outputs: {error}"),
            Ok(message) => {
                let verdict = VERDICTS.into_iter().find(|verdict| message.topic().ends_with(verdict));
                see(verdict.expect("a verdict"), &message);
            }
        }
    }
}

/// A header as text.
pub fn header(message: &BorrowedMessage<'_>, name: &str) -> Option<String> {
    let headers = message.headers()?;
    let header = headers.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(header.value.unwrap_or_default()).into_owned())
}

/// Partition and offset that an output came from.
pub fn source(message: &BorrowedMessage<'_>) -> (i32, i64) {
    let text = header(message, "ebb-source").expect("a source");
    let mut parts = text.rsplit('/');
    let mut number = || parts.next().and_then(|part| part.parse::<i64>().ok()).expect("a source");
    let offset = number();
    (number() as i32, offset)
}
