//! What a worker does when partitions are assigned to it: fence, read C, restore, report where to read from (K1).

use std::time::{Duration, Instant};

use super::cursor::{KafkaCursor, RestoreAttempt, SavedState};
use super::log::KafkaLog;
use super::output_ledger::{self, OutputLedger};
use super::snapshots;
use super::{Delivery, StartPosition};
use crate::kafka::{self, CommittedOffset, Fault, LogRange, OffsetCommit, Output, Producer, Remedy};
use crate::workers::hooks;
use crate::workers::slot::{LoadedShard, PartitionSlot};
use crate::workers::worker::Worker;
use ebb_core::partition::{Epoch, PartitionEvent};
use ebb_core::{NextOffset, Shard};

/// Longest wait for an answer that depends on no open transaction.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Replaying fewer records than this is cheaper than reading the snapshot topic.
const MIN_REPLAY_FOR_SNAPSHOT: u64 = 1_000;

/// Why a partition was not restored.
enum RestoreError {
    Fault(Fault),
    /// An operator has to decide.
    Refused(String),
}

impl From<Fault> for RestoreError {
    fn from(fault: Fault) -> Self {
        RestoreError::Fault(fault)
    }
}

impl Worker<KafkaLog> {
    /// Restores what the group has just assigned. A worker without assigned partitions ends the transactions of an earlier
    /// process instead: other members wait until those are aborted.
    pub(super) fn restore_assigned(&mut self) {
        // Restoring may take long: nothing should wait for it.
        self.commit();
        let is_due = |slot: &PartitionSlot<KafkaLog>| slot.cell.actions().worker.is_some();
        if !self.slots.iter().any(is_due) {
            self.abort_previous_transactions();
        }
        self.restore_due();
        self.log.tail_reader = None;
        // The group learns where a partition starts before anything is read: the next owner must not start later.
        let is_new = |slot: &mut PartitionSlot<KafkaLog>| slot.cursor().is_some_and(|cursor| cursor.is_new_to_group);
        if self.slots.iter_mut().any(is_new) {
            self.commit();
        }
    }

    fn abort_previous_transactions(&mut self) {
        let has_outputs = self.slots.iter().any(|slot| slot.source.stream.delivery == Delivery::ExactlyOnce);
        if !has_outputs || self.log.has_fenced {
            return;
        }
        match self.require_producer(Delivery::ExactlyOnce) {
            Ok(()) => _ = self.log.producers.remove(&Delivery::ExactlyOnce),
            Err(fault) => tracing::info!(%fault, "transactions of an earlier process are left to their timeout"),
        }
    }

    /// Tries once to restore a partition and reports the outcome; a failure is retried after others had their turn (K9).
    pub(super) fn restore_partition(&mut self, slot: usize, epoch: Epoch) {
        match self.try_restore(slot, epoch) {
            Ok(start) => {
                let PartitionSlot { cell, source, .. } = &mut self.slots[slot];
                source.attempt = RestoreAttempt::default();
                cell.step(PartitionEvent::Restored(epoch, start));
                self.note_progress(slot);
            }
            Err(RestoreError::Fault(fault)) if fault.remedy == Remedy::End => self.fail(&fault),
            Err(RestoreError::Fault(fault)) => {
                let PartitionSlot { id, cell, source, .. } = &mut self.slots[slot];
                tracing::warn!(shard = %id, %fault, "restore failed, retrying");
                source.attempt.since.get_or_insert_with(Instant::now);
                cell.step(PartitionEvent::RestoreFailed(epoch));
            }
            Err(RestoreError::Refused(reason)) => self.refuse(slot, reason),
        }
    }

    fn try_restore(&mut self, slot: usize, epoch: Epoch) -> Result<NextOffset, RestoreError> {
        let started = Instant::now();
        self.slots[slot].loaded = None;
        self.require_producer(self.slots[slot].source.stream.delivery)?;
        let watchdog = self.log.watchdog.clone();
        let partition = self.slots[slot].source.partition.clone();
        // Before everything else: what is read of a topic that is recreated later is noticed before it is committed.
        let topic_id = watchdog.during("describing the topic", || self.log.group.topic_id(&partition.topic))?;
        let checks_log = self.log.rules.checks_log();
        if let Some(reason) = self.slots[slot].source.note_topic(topic_id).filter(|_| checks_log) {
            return Err(RestoreError::Refused(reason));
        }
        hooks::reached("before_committed");
        let committed = watchdog.during("reading the committed offset", || self.committed(slot))?;
        hooks::reached("after_committed");
        let range = watchdog.during("reading the log's offsets", || self.log.group.log_range(&partition))?;
        let next = committed.as_ref().map(|committed| committed.next);
        if let Some(reason) = self.slots[slot].source.log_mismatch(next, range).filter(|_| checks_log) {
            return Err(RestoreError::Refused(reason));
        }
        let restore = Restore { slot, range, epoch, started };
        let (mut loaded, mut start) = match &committed {
            Some(committed) => {
                let ledger = watchdog.during("reading the outputs", || self.ledger(slot, committed))?;
                self.resume(&restore, committed.next, ledger)?
            }
            None => self.start_new(&restore)?,
        };
        if committed.is_some() && !self.log.rules.replays() {
            (loaded.cursor.position, loaded.cursor.expected) = (loaded.cursor.committed, None);
            start = loaded.cursor.committed;
        }
        let slot = &mut self.slots[slot];
        tracing::info!(
            shard = %slot.id, committed = loaded.cursor.committed.0, state = loaded.shard.next().0, start = start.0,
            "partition state loaded"
        );
        slot.loaded = Some(Box::new(loaded));
        Ok(start)
    }

    /// The committed offset. If an open transaction is never decided, because its producer is gone and the brokers lost
    /// track of it, the wait ends once no transaction can be open any more; then the outputs show what was committed.
    fn committed(&self, slot: usize) -> Result<Option<CommittedOffset>, Fault> {
        let PartitionSlot { id, source, .. } = &self.slots[slot];
        let fault = match self.log.group.committed(&source.partition) {
            Err(fault) if fault.remedy == Remedy::Retry => fault,
            result => return result,
        };
        if source.attempt.since.is_none_or(|since| since.elapsed() < output_ledger::DECISION_TIMEOUT) {
            return Err(fault);
        }
        tracing::warn!(shard = %id, %fault, "a transaction hangs, reading the committed offset without it");
        let settings = &self.log.options.settings;
        kafka::committed_offset_ignoring_pending(settings, &source.partition, REQUEST_TIMEOUT)
    }

    /// The best state for the committed offset, and where reading starts.
    fn resume(
        &mut self,
        restore: &Restore,
        committed: NextOffset,
        ledger: OutputLedger,
    ) -> Result<(LoadedShard<KafkaCursor>, NextOffset), RestoreError> {
        let Restore { slot, range, epoch, started } = *restore;
        let limit = ledger.emit_from;
        let found = self.checkpoint_or_snapshot(slot, limit);
        let found = self.log.rules.state_to_restore(slot, found);
        let id = &self.slots[slot].id;
        let Some(found) = found else {
            let mut loaded = self.empty_state(slot)?.load(committed, ledger, epoch, started);
            loaded.cursor.position = range.start;
            if range.start > NextOffset(0) {
                tracing::warn!(shard = %id, from = range.start.0, "no state found, replaying the records that retention left");
            }
            return Ok((loaded, range.start));
        };
        let (next, checks_log) = (found.shard.next(), self.log.rules.checks_log());
        if next < range.start && checks_log {
            return Err(RestoreError::Refused(format!(
                "the log of {} starts at {}, but the newest state ends at {}: retention deleted the records in between; \
                 remove data_dir to replay what is left",
                self.slots[slot].source.partition, range.start.0, next.0
            )));
        }
        let mut loaded = found.load(committed, ledger, epoch, started);
        // A record that retention has deleted cannot be compared.
        loaded.cursor.expected = loaded.cursor.expected.filter(|mark| mark.offset >= range.start.0 && checks_log);
        let start = loaded.cursor.expected.map_or(next.max(range.start), |mark| NextOffset(mark.offset));
        Ok((loaded, start))
    }

    /// The newest checkpoint, or a snapshot of another owner if that saves much replaying.
    fn checkpoint_or_snapshot(&self, slot: usize, limit: NextOffset) -> Option<SavedState> {
        let slot = &self.slots[slot];
        let checkpoint_limit = self.log.rules.checkpoint_limit(limit);
        // An unreadable store means replay, never a wrong answer.
        let local = slot.load_checkpoint(&self.options.store, checkpoint_limit).unwrap_or_else(|error| {
            tracing::error!(shard = %slot.id, error, "checkpoints cannot be read, replaying instead");
            None
        });
        let options = &self.log.options;
        let Some(topic) = &options.snapshots else { return local };
        let reached = local.as_ref().map_or(0, |found| found.shard.next().0);
        if reached + MIN_REPLAY_FOR_SNAPSHOT >= limit.0 {
            return local;
        }
        let find = |identity| {
            snapshots::find(&options.settings, topic, &slot.id, &identity, limit).unwrap_or_else(|fault| {
                tracing::warn!(shard = %slot.id, %fault, "the snapshot topic cannot be read, replaying instead");
                None
            })
        };
        let Some(snapshot) = slot.identities().find_map(find).filter(|snapshot| snapshot.next.0 > reached) else {
            return local;
        };
        match slot.decode(&snapshot.bytes) {
            Ok((shard, last)) => {
                tracing::info!(shard = %slot.id, next = snapshot.next.0, "using the snapshot of the previous owner");
                Some(SavedState { shard, last, stored: None })
            }
            Err(error) => {
                tracing::warn!(shard = %slot.id, %error, "snapshot not usable, replaying instead");
                local
            }
        }
    }

    /// The group has no committed offset: start as configured.
    fn start_new(&mut self, restore: &Restore) -> Result<(LoadedShard<KafkaCursor>, NextOffset), RestoreError> {
        let Restore { slot, range, epoch, started } = *restore;
        let PartitionSlot { source, .. } = &self.slots[slot];
        let group = &self.log.options.settings.group;
        // Deleting a topic deletes its offsets, and an idle group's offsets expire: starting over would lose state silently.
        if let Ok(Some(found)) = self.slots[slot].load_checkpoint(&self.options.store, None)
            && self.log.rules.checks_log()
        {
            return Err(RestoreError::Refused(format!(
                "the group {group} has no offset for {}, but there is state up to {}: the topic was recreated, or the \
                 offsets expired; commit offsets for the group, or remove data_dir to start over",
                source.partition,
                found.shard.next().0
            )));
        }
        let start = match self.log.options.start {
            StartPosition::Earliest => range.start,
            StartPosition::Latest => range.end,
            StartPosition::Refuse => {
                return Err(RestoreError::Refused(format!(
                    "the group {group} has no offset for {}; set kafka.start to earliest or latest, or commit one",
                    source.partition
                )));
            }
        };
        let ledger = self.first_ledger(slot, start)?;
        let mut loaded = self.empty_state(slot)?.load(start, ledger, epoch, started);
        (loaded.cursor.position, loaded.cursor.is_new_to_group) = (start, true);
        Ok((loaded, start))
    }

    fn empty_state(&self, slot: usize) -> Result<SavedState, RestoreError> {
        let PartitionSlot { id, plan, .. } = &self.slots[slot];
        let shard = Shard::new(plan.clone(), id.partition).map_err(|error| RestoreError::Refused(error.to_string()))?;
        Ok(SavedState { shard, last: None, stored: None })
    }

    /// Opens the producer of a kind of delivery; a transactional one fences its predecessor.
    pub(super) fn require_producer(&mut self, delivery: Delivery) -> Result<(), Fault> {
        let options = &self.log.options;
        let producer = match delivery {
            Delivery::OffsetsOnly => return Ok(()),
            _ if self.log.producers.contains_key(&delivery) => return Ok(()),
            Delivery::ExactlyOnce => {
                hooks::reached("before_fence");
                let (settings, id) = (&options.settings, &self.log.transactional_id);
                let producer = self
                    .log
                    .watchdog
                    .during("fencing", || Producer::transactional(settings, id, options.max_output_bytes));
                hooks::reached("after_fence");
                let mut producer = producer?;
                self.log.watchdog.during("closing outputs", || self.abort_hanging(&mut producer))?;
                self.log.has_fenced = true;
                producer
            }
            Delivery::AtLeastOnce => Producer::idempotent(&options.settings, options.max_output_bytes)?,
        };
        self.log.producers.insert(delivery, producer);
        Ok(())
    }

    /// Aborts a transaction over all outputs of the worker and the group's offsets. Brokers have been seen to decide a
    /// transaction without writing the marker to every log: the next commit there would include what was aborted, and the
    /// offsets could not be read. What was committed and is aborted here is found missing and emitted again
    /// ([`output_ledger`]).
    fn abort_hanging(&self, producer: &mut Producer) -> Result<(), Fault> {
        let transactional =
            || self.slots.iter().map(|slot| &slot.source).filter(|one| one.stream.delivery == Delivery::ExactlyOnce);
        producer.begin_transaction()?;
        for (topic, partition) in transactional().flat_map(|source| source.stream.outputs.partitions(&source.partition))
        {
            // With a key, because compacted topics require one.
            let key = Some(&b"ebb"[..]);
            let empty =
                Output { topic, partition, key, payload: None, timestamp_ms: 0, source: None, headers: &[], tag: 0 };
            producer.send(&empty)?;
        }
        producer.flush()?;
        let offset = transactional().take(1).map(|source| OffsetCommit {
            partition: source.partition.clone(),
            next: NextOffset(0),
            note: String::new(),
        });
        producer.send_offsets(&self.log.group, &offset.collect::<Vec<_>>())?;
        producer.abort_transaction()
    }
}

/// One attempt to restore a partition.
#[derive(Debug, Clone, Copy)]
struct Restore {
    slot: usize,
    range: LogRange,
    epoch: Epoch,
    started: Instant,
}

impl PartitionSlot<KafkaLog> {
    fn load_checkpoint(
        &self,
        store: &crate::store::Store,
        limit: Option<NextOffset>,
    ) -> Result<Option<SavedState>, String> {
        let loaded = self.load(store, limit, |bytes| self.decode(bytes))?.loaded;
        Ok(loaded.map(|((shard, last), stored)| SavedState { shard, last, stored: Some(stored) }))
    }
}
