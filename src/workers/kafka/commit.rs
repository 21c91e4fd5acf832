//! Outputs and offsets become visible together, or are rolled back together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Delivery;
use super::cursor::KafkaCursor;
use super::log::{Emitted, KafkaLog};
use crate::kafka::{CommitOutcome, Fault, OffsetCommit, Remedy, TopicId};
use crate::workers::hooks;
use crate::workers::log::Log;
use crate::workers::slot::{LoadedShard, PartitionSlot};
use crate::workers::worker::Worker;
use ebb_core::partition::PartitionEvent;

impl Worker<KafkaLog> {
    /// Commits everything that is folded, one kind of delivery after the other.
    pub(super) fn commit(&mut self) {
        for delivery in Delivery::ALL {
            if self.has_outdated_outputs(delivery) {
                let reason = "partitions moved away since they were folded";
                self.start_over(delivery, &Fault::new("committing", Remedy::StartOver, reason));
                continue;
            }
            let offsets = self.offsets_to_commit(delivery);
            if offsets.is_empty() {
                continue;
            }
            let started = Instant::now();
            let watchdog = self.log.watchdog.clone();
            let result = watchdog.during("committing", || self.commit_offsets(delivery, &offsets));
            self.options.metrics.transaction_seconds.observe(started.elapsed().as_secs_f64());
            let result = self.log.rules.commit_result(delivery, result);
            if let Some(delivery) = self.log.rules.producer_to_replace() {
                self.log.producers.remove(&delivery);
                let _ = self.require_producer(delivery);
            }
            match result {
                Ok(CommitOutcome::Clean) => self.note_committed(delivery),
                // One of its requests may still be in flight, and its outcome is unknown (K3).
                Ok(CommitOutcome::ReplaceProducer) => self.start_over(delivery, &commit_in_doubt()),
                Err(fault) if fault.remedy == Remedy::End => self.fail(&fault),
                Err(fault) => self.start_over(delivery, &fault),
            }
        }
        (self.log.emitted, self.log.dirty_since) = (Emitted::default(), None);
        self.take_due_checkpoints();
        if let Some(every) = self.log.options.snapshots.as_ref().map(|topic| topic.every) {
            (0..self.slots.len()).for_each(|slot| self.write_snapshot(slot, every));
        }
    }

    /// Whether the open transaction holds outputs of a partition that this instance may not commit any more.
    fn has_outdated_outputs(&self, delivery: Delivery) -> bool {
        self.slots_of(delivery).any(|slot| {
            let is_outdated =
                |loaded: &LoadedShard<KafkaCursor>| loaded.cursor.is_dirty() && !slot.cell.may_commit(loaded.epoch);
            slot.loaded.as_deref().is_some_and(is_outdated)
        })
    }

    fn slots_of(&self, delivery: Delivery) -> impl Iterator<Item = &PartitionSlot<KafkaLog>> {
        self.slots.iter().filter(move |slot| slot.source.stream.delivery == delivery)
    }

    fn offsets_to_commit(&self, delivery: Delivery) -> Vec<OffsetCommit> {
        let offset = |slot: &PartitionSlot<KafkaLog>| {
            let loaded = slot.loaded.as_deref().filter(|loaded| loaded.cursor.is_dirty())?;
            let next = self.log.rules.offset_to_commit(loaded.cursor.position);
            Some(OffsetCommit { partition: slot.source.partition.clone(), next, note: slot.commit_note() })
        };
        self.slots_of(delivery).filter_map(offset).collect()
    }

    fn commit_offsets(&mut self, delivery: Delivery, offsets: &[OffsetCommit]) -> Result<CommitOutcome, Fault> {
        self.require_same_topics(delivery)?;
        let KafkaLog { group, producers, rules, .. } = &mut self.log;
        rules.before_commit(group, offsets, producers)?;
        let missing = || Fault::new("committing", Remedy::StartOver, "the producer was closed");
        match delivery {
            Delivery::OffsetsOnly => group.commit(offsets).map(|()| CommitOutcome::Clean),
            Delivery::AtLeastOnce => {
                producers.get(&delivery).ok_or_else(missing)?.flush()?;
                group.commit(offsets).map(|()| CommitOutcome::Clean)
            }
            Delivery::ExactlyOnce => {
                let producer = producers.get_mut(&delivery).ok_or_else(missing)?;
                producer.begin_transaction()?;
                producer.flush()?;
                hooks::reached("before_offsets");
                producer.send_offsets(group, offsets)?;
                hooks::reached("after_offsets");
                let outcome = hooks::reached_during("during_commit", || producer.commit_transaction())?;
                hooks::reached("after_commit");
                Ok(outcome)
            }
        }
    }

    /// librdkafka continues in a recreated topic at the old position: nothing that was read there is committed (K5).
    fn require_same_topics(&self, delivery: Delivery) -> Result<(), Fault> {
        let mut known: BTreeMap<Arc<str>, TopicId> = BTreeMap::new();
        for slot in self.slots_of(delivery).filter(|slot| slot.is_dirty()) {
            let topic = slot.source.partition.topic.clone();
            let now = match known.get(&topic) {
                Some(now) => *now,
                None => self.log.group.topic_id(&topic)?,
            };
            if slot.source.topic_id != Some(now) && self.log.rules.checks_log() {
                return Err(Fault::new("committing", Remedy::StartOver, format!("topic {topic} was recreated")));
            }
            known.insert(topic, now);
        }
        Ok(())
    }

    fn note_committed(&mut self, delivery: Delivery) {
        self.options.metrics.commits.inc();
        for slot in self.slots.iter_mut().filter(|slot| slot.source.stream.delivery == delivery) {
            if let Some(cursor) = slot.cursor().filter(|cursor| cursor.is_dirty()) {
                (cursor.committed, cursor.is_new_to_group) = (cursor.position.max(cursor.committed), false);
                cursor.ledger.note_committed(cursor.committed);
            }
        }
    }

    /// Gives up what is not committed: the partitions are restored under a new producer (K3).
    pub(super) fn start_over(&mut self, delivery: Delivery, fault: &Fault) {
        tracing::warn!(?delivery, %fault, "transaction given up, restoring its partitions from the committed offsets");
        self.options.metrics.aborts.inc();
        self.log.producers.remove(&delivery);
        for slot in 0..self.slots.len() {
            if self.slots[slot].source.stream.delivery == delivery && self.slots[slot].loaded.is_some() {
                self.roll_back(slot);
            }
        }
    }

    /// Drops what is folded; the partition is restored from the committed offset.
    pub(super) fn roll_back(&mut self, slot: usize) {
        let PartitionSlot { cell, loaded, .. } = &mut self.slots[slot];
        cell.step(PartitionEvent::RolledBack);
        if let Some(loaded) = loaded.take() {
            self.log.rules.rolled_back(slot, loaded.shard);
        }
    }

    /// Writes a state for the next owner, unless the last one is newer than `age`. Only what is committed (K4).
    pub(super) fn write_snapshot(&mut self, slot: usize, age: Duration) {
        let KafkaLog { options, snapshots, .. } = &mut self.log;
        let Some(topic) = &options.snapshots else { return };
        let slot = &mut self.slots[slot];
        let identity = slot.identity();
        let is_committed = |cursor: &KafkaCursor| !cursor.is_dirty() && cursor.last.is_some();
        let Some(loaded) = slot.loaded.as_deref_mut().filter(|loaded| is_committed(&loaded.cursor)) else { return };
        let next = loaded.shard.next();
        let (written, written_next) = loaded.cursor.snapshot;
        if written.elapsed() < age || written_next == next {
            return;
        }
        hooks::reached("before_snapshot");
        loaded.cursor.snapshot = (Instant::now(), next);
        let bytes = KafkaLog::encode(loaded);
        match snapshots.write(&options.settings, topic, (&slot.id, &identity, next), &bytes) {
            Ok(()) => self.options.metrics.snapshots.inc(),
            Err(fault) => {
                tracing::warn!(shard = %slot.id, %fault, "snapshot not written, the next owner replays instead")
            }
        }
        hooks::reached("after_snapshot");
    }
}

fn commit_in_doubt() -> Fault {
    Fault::new("committing", Remedy::StartOver, "a connection was lost during the commit, or it took too long")
}
