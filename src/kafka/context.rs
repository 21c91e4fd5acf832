//! Callbacks of librdkafka, queued for the thread that polls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, TopicPartitionList};
use serde::Deserialize;

use super::event::{Notice, TopicPartition};
use ebb_core::partition::{GroupEvent, MembershipTracker};

#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) tracker: Mutex<MembershipTracker<TopicPartition, Notice>>,
    /// The consumer is being dropped: rebalances are answered here.
    pub(super) is_closing: AtomicBool,
    /// Since when the client has no connection to the group's coordinator.
    pub(super) coordinator_missing_since: Mutex<Option<Instant>>,
}

/// The part of librdkafka's statistics that is used.
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
            let mut since = lock(&self.coordinator_missing_since);
            *since = (group.state != "up").then(|| since.unwrap_or_else(Instant::now));
        }
    }

    /// Errors that matter are also returned by polling.
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, reason, "consumer error");
    }
}

impl ConsumerContext for Context {
    /// Queues the rebalance: the polling thread answers it after this has returned.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, error: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let is_assign = error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.is_closing.load(Ordering::Acquire) {
            let answered =
                if is_assign { consumer.incremental_assign(list) } else { consumer.incremental_unassign(list) };
            if let Err(error) = answered {
                tracing::debug!(%error, "answering a rebalance while closing failed");
            }
            return;
        }
        let partitions = list.elements().iter().map(topic_partition).collect();
        lock(&self.tracker).push(match is_assign {
            true => GroupEvent::Assigned(partitions),
            false if consumer.assignment_lost() => GroupEvent::Lost(partitions),
            false => GroupEvent::Revoked(partitions),
        });
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn topic_partition(element: &TopicPartitionListElem<'_>) -> TopicPartition {
    TopicPartition { topic: element.topic().into(), partition: element.partition().max(0) as u32 }
}
