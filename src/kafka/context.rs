//! What librdkafka tells of a membership, kept for the thread that polls.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, TopicPartitionList};
use serde::Deserialize;

use super::event::{Event, TopicPartition};
use super::raw::Membership;

#[derive(Debug, Default)]
pub(super) struct Context {
    /// What is asked and told, in its order.
    pub(super) changes: Mutex<VecDeque<Event>>,
    /// The consumer is being dropped: nobody is asked any more.
    pub(super) is_closing: AtomicBool,
    /// Since when the group's coordinator is not there.
    pub(super) missed_since: Mutex<Option<Instant>>,
    /// The membership whose consequences the polling thread has all dealt with. librdkafka's own thread may be ahead of it.
    pub(super) known: Mutex<Option<Membership>>,
}

/// What is looked at of all that librdkafka counts.
#[derive(Deserialize)]
struct Statistics {
    cgrp: Option<GroupStatistics>,
}

#[derive(Deserialize)]
struct GroupStatistics {
    state: String,
}

impl ClientContext for Context {
    fn stats_raw(&self, statistics: &[u8]) {
        if let Ok(Statistics { cgrp: Some(group) }) = serde_json::from_slice(statistics) {
            let mut missed_since = lock(&self.missed_since);
            *missed_since = (group.state != "up").then(|| missed_since.unwrap_or_else(Instant::now));
        }
    }

    /// What matters of it comes by polling.
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, reason, "consumer");
    }
}

impl ConsumerContext for Context {
    /// Only notes what is wanted: the polling thread answers it, after this has returned.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, error: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let is_assign = error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.is_closing.load(Ordering::Acquire) {
            let answered =
                if is_assign { consumer.incremental_assign(list) } else { consumer.incremental_unassign(list) };
            if let Err(error) = answered {
                tracing::debug!(%error, "answering a rebalance while closing");
            }
            return;
        }
        let parts = list.elements().iter().map(topic_partition).collect();
        let change = match is_assign {
            true => Event::Assign(parts),
            false if consumer.assignment_lost() => Event::Lost(parts),
            false => Event::Revoke(parts),
        };
        lock(&self.changes).push_back(change);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn topic_partition(one: &TopicPartitionListElem<'_>) -> TopicPartition {
    TopicPartition { topic: one.topic().into(), partition: one.partition().max(0) as u32 }
}
