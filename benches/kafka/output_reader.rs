//! Reads committed outputs as they come.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use crate::rig::{Rig, VERDICTS, now_ms, output};

/// See the module.
pub struct Tail(BaseConsumer);

impl Tail {
    /// From the present end of all outputs of a topic.
    pub fn of(rig: &Rig, topic: &str, partitions: usize) -> Self {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", rig.cluster.brokers())
            .set("group.id", "tail")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("log_level", "0");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        for verdict in VERDICTS {
            let name = output(topic, verdict);
            for partition in 0..partitions as i32 {
                let (_, end) = rig.admin.watermarks(&name, partition);
                list.add_partition_offset(&name, partition, Offset::Offset(end)).expect("an offset");
            }
        }
        consumer.assign(&list).expect("assigned");
        Self(consumer)
    }

    /// How long ago the next output's record was made, in milliseconds; nothing when none comes within `wait`.
    pub fn next_age_ms(&self, wait: Duration) -> Option<i64> {
        let message = self.0.poll(wait)?.expect("an output");
        Some(now_ms() - message.timestamp().to_millis().expect("the time of the record"))
    }
}
