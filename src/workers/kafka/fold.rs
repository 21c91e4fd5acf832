//! Records to verdicts to outputs: what a worker does with what was fetched.

use std::time::Instant;

use super::super::faults::{self, Mutant};
use super::super::message::Recorded;
use super::super::owned::count;
use super::tenant::{Mark, Owned, State};
use super::worker::KafkaWorker;
use super::{Command, Delivery, StreamSpec};
use crate::kafka::{self, Fault, Remedy, Taken, TopicPartition};
use ebb_core::{AsOf, NextOffset, Record};

/// How often records that cannot be read are asked for again; then they are damaged where they lie.
const MOST_READINGS: u32 = 3;

/// Why records could not be folded and emitted.
enum Stumble {
    Fault(Fault),
    Refused(String),
    /// Records were passed over because they could not be read.
    Damaged(String),
}

impl KafkaWorker {
    pub(super) fn take(&mut self, shard: usize, epoch: u64, taken: Taken) {
        let tenant = &mut self.tenants[shard];
        let delivery = tenant.stream.delivery;
        let part = tenant.part.clone();
        let Some(owned) = tenant.owned().filter(|owned| owned.epoch == epoch) else { return };
        let result = match taken {
            Taken::Records(messages) => self.fold(shard, &messages),
            Taken::End(next) => match owned.expected {
                Some(mark) => Err(Stumble::Refused(not_the_same(&part, mark.offset))),
                None => {
                    owned.position = owned.position.max(next);
                    Ok(())
                }
            },
            Taken::OutOfRange => Err(Stumble::Refused(format!(
                "the log of {part} no longer holds position {}: retention removed it, or the topic was made anew",
                owned.position.0
            ))),
            Taken::Damaged(why) => Err(Stumble::Damaged(why)),
            Taken::Trouble(fault) if fault.remedy == Remedy::End => Err(Stumble::Fault(fault)),
            Taken::Trouble(fault) => {
                tracing::warn!(%part, %fault, "fetching");
                Ok(())
            }
        };
        match result {
            Ok(()) => self.notice_progress(shard),
            Err(Stumble::Refused(why)) => self.give_up(shard, why),
            Err(Stumble::Damaged(why)) => self.read_again(shard, &why),
            Err(Stumble::Fault(fault)) if fault.remedy == Remedy::End => self.end(&fault),
            Err(Stumble::Fault(fault)) => self.start_over(delivery, &fault),
        }
    }

    /// Reads no more of a partition, and says why.
    fn give_up(&mut self, shard: usize, why: String) {
        let _ = self.links.commands.send(Command::Drop(self.tenants[shard].part.clone()));
        self.refuse(shard, why);
    }

    /// Commits what is folded, and has the partition read again from there: what comes now lies behind records that were
    /// not read (K6).
    fn read_again(&mut self, shard: usize, why: &str) {
        self.commit();
        let tenant = &mut self.tenants[shard];
        let part = tenant.part.clone();
        // A failed commit has sent it back already.
        let Some(next) = tenant.owned().map(|owned| owned.position) else { return };
        let times = tenant.unread.filter(|(place, _)| *place == next).map_or(1, |(_, times)| times + 1);
        tenant.unread = Some((next, times));
        if times > MOST_READINGS {
            let why = format!("the log of {part} cannot be read from {} on: {why}; the brokers must mend it", next.0);
            return self.give_up(shard, why);
        }
        tracing::warn!(%part, next = next.0, why, times, "records could not be read: reading them again");
        tenant.state = State::Returning;
        self.tell_restored();
        let _ = self.links.commands.send(Command::Return(vec![part]));
    }

    fn notice_progress(&mut self, shard: usize) {
        self.notice_caught_up(shard);
        if self.tenants[shard].owned().is_some_and(|owned| owned.is_dirty()) {
            self.dirty_since.get_or_insert_with(Instant::now);
        }
    }

    /// Folds records and emits those that were not emitted before.
    fn fold(&mut self, shard: usize, messages: &[kafka::Message]) -> Result<(), Stumble> {
        let tenant = &mut self.tenants[shard];
        let (part, stream) = (tenant.part.clone(), tenant.stream.clone());
        let Some(owned) = tenant.owned() else { return Ok(()) };
        let known = messages.partition_point(|message| message.offset() < owned.shard.next().0);
        if let Some(mark) = owned.expected.take() {
            let seen = messages[..known].iter().find(|message| message.offset() == mark.offset);
            if seen.map(Mark::of) != Some(mark) {
                return Err(Stumble::Refused(not_the_same(&part, mark.offset)));
            }
        }
        let fresh = &messages[known..];
        let Some(last) = fresh.last() else { return Ok(()) };
        let begun = Instant::now();
        let records: Vec<Record<'_>> = fresh.iter().map(record).collect();
        self.outcomes.clear();
        owned.shard.apply_batch(&records, &mut self.outcomes);
        (owned.last, owned.position) = (Some(Mark::of(last)), NextOffset(last.offset() + 1));
        owned.timestamp_ms = Some(last.timestamp_ms());
        let emit_from = if Mutant::EmitDuringReplay.is_on() { NextOffset(0) } else { owned.ledger.emit_from };
        let silent = fresh.partition_point(|message| message.offset() < emit_from.0);
        if silent > 0 {
            faults::pass("mid_replay");
        }
        if self.ingest.is_busy() {
            let as_of = owned.shard.as_of();
            for (message, outcome) in fresh.iter().zip(&self.outcomes) {
                let offset = message.offset();
                let as_of = AsOf { next: NextOffset(offset + 1), ..as_of };
                self.ingest.see(shard, Recorded { outcome: *outcome, offset, as_of });
            }
        }
        count(&tenant.id.stream, self.outcomes[silent..].iter(), &self.links.metrics);
        if !stream.outputs.is_empty() && silent < fresh.len() {
            self.emit(shard, &stream, &fresh[silent..], silent).map_err(Stumble::Fault)?;
        }
        self.links.metrics.apply_seconds.observe(begun.elapsed().as_secs_f64());
        if Mutant::CheckpointBeforeCommit.is_on() {
            self.tenants[shard].checkpoint(&self.links.jobs);
        }
        Ok(())
    }

    fn emit(
        &mut self,
        shard: usize,
        stream: &StreamSpec,
        messages: &[kafka::Message],
        silent: usize,
    ) -> Result<(), Fault> {
        faults::pass("before_produce");
        let careless = Mutant::NoTransaction.is_on();
        if careless {
            self.require_producer(Delivery::AtLeastOnce)?;
        }
        let used = if careless { Delivery::AtLeastOnce } else { stream.delivery };
        let missing = || Fault::new("producing", Remedy::StartOver, "the producer was given up");
        let producer = self.producers.get_mut(&used).ok_or_else(missing)?;
        if used == Delivery::ExactlyOnce {
            producer.begin_transaction()?;
        }
        let tenant = &mut self.tenants[shard];
        let part = tenant.part.clone();
        let Some(Owned { ledger, committed, .. }) = tenant.owned() else { return Ok(()) };
        self.emitter.turn_to(&part);
        for (message, outcome) in messages.iter().zip(&self.outcomes[silent..]) {
            if stream.outputs.take(outcome.verdict) && ledger.enter(message.offset(), *committed) {
                self.emitted.bytes += self.emitter.emit(producer, &stream.outputs, &part, message, outcome)?;
            }
        }
        producer.poll();
        self.emitted.records += messages.len();
        faults::pass("after_produce");
        Ok(())
    }
}

/// No value and an empty value are both no event.
fn record(message: &kafka::Message) -> Record<'_> {
    let payload = message.payload().unwrap_or_default();
    Record { offset: message.offset(), timestamp_ms: message.timestamp_ms(), payload }
}

fn not_the_same(part: &TopicPartition, offset: u64) -> String {
    format!(
        "record {offset} of {part} is not the one that was folded last: the topic was made anew; give the group new \
         offsets and remove data_dir if that is meant"
    )
}
