//! Starts the workers over topics and the thread that polls for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::cursor::KafkaSource;
use super::log::{FailureReport, KafkaLog};
use super::orphan_detector::OrphanDetector;
use super::poll::{PollLoop, PolledPartition, ShutdownFlags};
use super::{FEED_CAPACITY, KafkaOptions, StreamSpec};
use crate::kafka::{Consumer, TopicPartition};
use crate::store::ShardId;
use crate::workers::pool::{Poller, StartError, Workers, WorkersOptions};
use crate::workers::slot::PartitionSlot;
use crate::workers::stream::{Readiness, ShardPlacement, StreamLayout};
use ebb_core::NextOffset;
use ebb_core::partition::Epoch;

/// The workers of every stream's partitions, by stream.
pub type StreamLayouts = BTreeMap<String, StreamLayout>;

impl Workers {
    /// Joins the group and folds the partitions that it assigns, on `threads` threads. Partitions are dealt to workers by
    /// number, so that each returns to the same producer after a restart.
    pub fn follow(
        options: &WorkersOptions,
        kafka: KafkaOptions,
        streams: &BTreeMap<String, Arc<StreamSpec>>,
        threads: usize,
    ) -> Result<(Self, StreamLayouts), StartError> {
        #[cfg(any(feature = "fault-points", feature = "mutants"))]
        crate::workers::fault_injection::check_variables();
        let topics: Vec<&str> = streams.values().map(|stream| &*stream.topic).collect();
        let consumer = Consumer::subscribe(&kafka.settings, &topics)?;
        let mut workers = Self::without_threads(options)?;
        let Dealt { slots, layouts, partitions } = workers.deal(streams, threads);
        let shutdown = ShutdownFlags::default();
        let names = partitions.iter().map(|one| one.partition.clone()).collect();
        OrphanDetector::start(&kafka.settings, names, shutdown.clone())?;
        let ((membership, membership_seen), (failure, failure_seen)) =
            (watch::channel(Readiness::Restoring), watch::channel(None));
        let failures = FailureReport { membership: Arc::new(membership), failure: Arc::new(failure) };
        let (kafka, mut feeds) = (Arc::new(kafka), Vec::new());
        for (index, slots) in slots.into_iter().enumerate() {
            let (feed, fed) = mpsc::channel(FEED_CAPACITY);
            let log = KafkaLog::new(index, kafka.clone(), consumer.group(), failures.clone(), fed)?;
            workers.spawn_worker(options, slots, log)?;
            feeds.push(feed);
        }
        let poll = PollLoop::new(consumer, partitions, feeds, failures, shutdown.clone(), options.metrics.clone());
        let thread = workers.spawn("poll".into(), move || poll.run())?;
        workers.poller = Some(Poller { shutdown, thread, membership: membership_seen, failure: failure_seen });
        Ok((workers, layouts))
    }

    /// Deals the partitions to the workers in turn.
    fn deal(&mut self, streams: &BTreeMap<String, Arc<StreamSpec>>, threads: usize) -> Dealt {
        let total: usize = streams.values().map(|stream| stream.partitions as usize).sum();
        let mut slots: Vec<Vec<PartitionSlot<KafkaLog>>> = Vec::new();
        slots.resize_with(threads.min(total).max(1), Vec::new);
        let (mut layouts, mut partitions) = (StreamLayouts::new(), Vec::new());
        for (name, stream) in streams {
            let mut shards = Vec::new();
            for number in 0..stream.partitions {
                let worker = partitions.len() % slots.len();
                let slot = slots[worker].len();
                let partition = TopicPartition { topic: stream.topic.clone(), partition: number };
                let id = ShardId { stream: name.clone(), partition: number };
                let cell = self.add_cell(id.clone());
                slots[worker].push(PartitionSlot {
                    id,
                    plan: stream.plan.clone(),
                    cell: cell.clone(),
                    source: KafkaSource::new(partition.clone(), stream.clone()),
                    loaded: None,
                });
                shards.push(ShardPlacement { worker, slot });
                partitions.push(PolledPartition { partition, cell, worker, slot, reported: (Epoch(0), NextOffset(0)) });
            }
            layouts.insert(name.clone(), StreamLayout { plan: stream.plan.clone(), shards });
        }
        Dealt { slots, layouts, partitions }
    }
}

/// Partitions as their workers, the rest of the service and the poll thread know them.
struct Dealt {
    /// By worker.
    slots: Vec<Vec<PartitionSlot<KafkaLog>>>,
    layouts: StreamLayouts,
    partitions: Vec<PolledPartition>,
}
