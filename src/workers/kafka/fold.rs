//! Records to verdicts to outputs: what a worker does with fetched records.

use std::time::Instant;

use super::cursor::RecordMark;
use super::log::KafkaLog;
use super::{Delivery, StreamSpec};
use crate::kafka::{self, Fault, Fetched, Remedy, TopicPartition};
use crate::workers::hooks;
use crate::workers::messages::RecordReceipt;
use crate::workers::shard_metrics;
use crate::workers::worker::Worker;
use ebb_core::partition::{Epoch, PartitionEvent};
use ebb_core::{AsOf, NextOffset, Record};

/// How often records that cannot be decoded are fetched again before the log counts as corrupt.
const MAX_FETCHES: u32 = 3;

/// Why fetched records were not processed.
enum FoldError {
    Fault(Fault),
    /// The log is not the one that the state belongs to.
    Refused(String),
    /// Records were skipped because they could not be decoded.
    Corrupt(String),
}

impl Worker<KafkaLog> {
    /// Processes what was fetched of a partition under an epoch. What was fetched under another epoch is discarded.
    pub(super) fn take_fetched(&mut self, slot: usize, epoch: Epoch, fetched: Fetched) {
        let source = &self.slots[slot].source;
        let (partition, delivery) = (source.partition.clone(), source.stream.delivery);
        if self.slots[slot].cell.fetch_epoch() != Some(epoch) {
            return;
        }
        let Some(cursor) = self.slots[slot].cursor() else { return };
        let result = match fetched {
            Fetched::Records(messages) => self.fold(slot, &messages),
            Fetched::UpTo(next) => match cursor.expected {
                Some(mark) => Err(FoldError::Refused(recreated(&partition, mark.offset))),
                None => {
                    cursor.position = cursor.position.max(next);
                    Ok(())
                }
            },
            Fetched::OutOfRange => Err(FoldError::Refused(format!(
                "the log of {partition} no longer contains offset {}: retention deleted it, or the topic was recreated",
                cursor.position.0
            ))),
            Fetched::Corrupt(reason) => Err(FoldError::Corrupt(reason)),
            Fetched::Error(fault) if fault.remedy == Remedy::End => Err(FoldError::Fault(fault)),
            Fetched::Error(fault) => {
                tracing::warn!(%partition, %fault, "fetch failed, retrying");
                Ok(())
            }
        };
        match result {
            Ok(()) => self.note_progress(slot),
            Err(FoldError::Refused(reason)) => self.refuse(slot, reason),
            Err(FoldError::Corrupt(reason)) => self.fetch_again(slot, &reason),
            Err(FoldError::Fault(fault)) if fault.remedy == Remedy::End => self.fail(&fault),
            Err(FoldError::Fault(fault)) => self.start_over(delivery, &fault),
        }
    }

    /// Stops work on a partition whose log cannot be trusted (K5).
    pub(super) fn refuse(&mut self, slot: usize, reason: String) {
        self.slots[slot].loaded = None;
        self.slots[slot].cell.step(PartitionEvent::Refused(reason.into()));
    }

    /// Commits what is folded and has the partition fetched again from there: what follows lies behind records that were
    /// not processed (K6).
    fn fetch_again(&mut self, slot: usize, reason: &str) {
        self.commit();
        let source = &mut self.slots[slot].source;
        let (partition, before) = (source.partition.clone(), source.undecodable);
        // A failed commit has rolled it back already.
        let Some(next) = self.slots[slot].cursor().map(|cursor| cursor.position) else { return };
        let times = before.filter(|(offset, _)| *offset == next).map_or(1, |(_, times)| times + 1);
        self.slots[slot].source.undecodable = Some((next, times));
        if times > MAX_FETCHES {
            let reason =
                format!("the log of {partition} cannot be decoded from offset {} on: {reason}; repair it", next.0);
            return self.refuse(slot, reason);
        }
        tracing::warn!(%partition, next = next.0, reason, times, "records could not be decoded, fetching them again");
        self.roll_back(slot);
    }

    /// Notes that a partition has caught up, and that there is something to commit.
    pub(super) fn note_progress(&mut self, slot: usize) {
        let slot = &self.slots[slot];
        let Some(loaded) = &slot.loaded else { return };
        if loaded.cursor.is_caught_up() && !slot.cell.has_caught_up(loaded.epoch) {
            slot.cell.step(PartitionEvent::CaughtUp(loaded.epoch));
            let seconds = loaded.cursor.restore_started.elapsed().as_secs_f64();
            self.options.metrics.restore_seconds.observe(seconds);
            tracing::info!(shard = %slot.id, next = loaded.cursor.position.0, seconds, "shard restored");
        }
        if loaded.cursor.is_dirty() {
            self.log.dirty_since.get_or_insert_with(Instant::now);
        }
    }

    /// Folds records and emits those that were not emitted before.
    fn fold(&mut self, slot: usize, messages: &[kafka::Message]) -> Result<(), FoldError> {
        let source = &self.slots[slot].source;
        let (partition, stream) = (source.partition.clone(), source.stream.clone());
        let log = &mut self.log;
        let Some(loaded) = self.slots[slot].loaded.as_deref_mut() else { return Ok(()) };
        let known = messages.partition_point(|message| message.offset() < loaded.shard.next().0);
        if let Some(mark) = loaded.cursor.expected.take() {
            let read = messages[..known].iter().find(|message| message.offset() == mark.offset);
            if read.map(RecordMark::of) != Some(mark) {
                return Err(FoldError::Refused(recreated(&partition, mark.offset)));
            }
        }
        let fresh = &messages[known..];
        let Some(last) = fresh.last() else { return Ok(()) };
        let started = Instant::now();
        let records: Vec<Record<'_>> = fresh.iter().map(record).collect();
        log.outcomes.clear();
        loaded.shard.apply_batch(&records, &mut log.outcomes);
        (loaded.cursor.last, loaded.cursor.position) = (Some(RecordMark::of(last)), NextOffset(last.offset() + 1));
        loaded.timestamp_ms = Some(last.timestamp_ms());
        let emit_from = log.rules.emit_from(loaded.cursor.ledger.emit_from);
        let silent = fresh.partition_point(|message| message.offset() < emit_from.0);
        if silent > 0 {
            hooks::reached("mid_replay");
        }
        if log.ingest.is_busy() {
            let as_of = loaded.shard.as_of();
            for (message, outcome) in fresh.iter().zip(&log.outcomes) {
                let offset = message.offset();
                let as_of = AsOf { next: NextOffset(offset + 1), ..as_of };
                log.ingest.note_outcome(slot, RecordReceipt { outcome: *outcome, offset, as_of });
            }
        }
        let stream_name = &self.slots[slot].id.stream;
        shard_metrics::count_outcomes(stream_name, log.outcomes[silent..].iter(), &self.options.metrics);
        if !stream.outputs.is_empty() && silent < fresh.len() {
            self.emit(slot, &stream, &fresh[silent..], silent).map_err(FoldError::Fault)?;
        }
        self.options.metrics.apply_seconds.observe(started.elapsed().as_secs_f64());
        if self.log.rules.checkpoints_after_fold() {
            self.checkpoint_now(slot);
        }
        Ok(())
    }

    fn emit(
        &mut self,
        slot: usize,
        stream: &StreamSpec,
        messages: &[kafka::Message],
        silent: usize,
    ) -> Result<(), Fault> {
        hooks::reached("before_produce");
        let delivery = self.log.rules.delivery(stream.delivery);
        if delivery != stream.delivery {
            self.require_producer(delivery)?;
        }
        let log = &mut self.log;
        let missing = || Fault::new("producing", Remedy::StartOver, "the producer was closed");
        let producer = log.producers.get_mut(&delivery).ok_or_else(missing)?;
        if delivery == Delivery::ExactlyOnce {
            producer.begin_transaction()?;
        }
        let partition = self.slots[slot].source.partition.clone();
        let Some(cursor) = self.slots[slot].cursor() else { return Ok(()) };
        log.emitter.set_source(&partition);
        for (message, outcome) in messages.iter().zip(&log.outcomes[silent..]) {
            if stream.outputs.has_topic(outcome.verdict) && cursor.ledger.enter(message.offset(), cursor.committed) {
                log.emitted.bytes += log.emitter.emit(producer, &stream.outputs, &partition, message, outcome)?;
            }
        }
        producer.poll();
        log.emitted.records += messages.len();
        hooks::reached("after_produce");
        Ok(())
    }
}

/// A record without a value and one with an empty value are both no event.
fn record(message: &kafka::Message) -> Record<'_> {
    let payload = message.payload().unwrap_or_default();
    Record { offset: message.offset(), timestamp_ms: message.timestamp_ms(), payload }
}

fn recreated(partition: &TopicPartition, offset: u64) -> String {
    format!(
        "record {offset} of {partition} is not the one that was folded last: the topic was recreated; if that is intended, \
         reset the group's offsets and remove data_dir"
    )
}
