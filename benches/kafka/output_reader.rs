//! Reads committed outputs as they arrive.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::rig::{Rig, VERDICTS, now_ms, output_topic};

/// A read-committed consumer of all output topics of one input.
pub struct OutputReader(BaseConsumer);

impl OutputReader {
    /// Starts at the current end of the outputs.
    pub fn new(rig: &Rig, topic: &str, partitions: usize) -> Self {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", rig.cluster.brokers())
            .set("group.id", "output-reader")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("log_level", "0");
        let consumer: BaseConsumer = config.create().expect("create a consumer");
        let mut list = TopicPartitionList::new();
        for verdict in VERDICTS {
            let name = output_topic(topic, verdict);
            for partition in 0..partitions as i32 {
                let (_, end) = rig.admin.watermarks(&name, partition);
                list.add_partition_offset(&name, partition, Offset::Offset(end)).expect("add a partition");
            }
        }
        consumer.assign(&list).expect("assign partitions");
        Self(consumer)
    }

    /// The age of the next output in milliseconds, or `None` if none arrives within `timeout`.
    pub fn next_age_ms(&self, timeout: Duration) -> Option<i64> {
        let message = self.0.poll(timeout)?.expect("receive an output");
        Some(now_ms() - message.timestamp().to_millis().expect("a timestamp"))
    }
}
