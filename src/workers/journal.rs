//! The embedded service: events arrive by HTTP and are written to the journal before they are folded and answered (W4).

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;

use super::log::{Log, Wake};
use super::messages::{Message, RecordError, RecordReceipt, RecordRequest, Reply, Submission};
use super::shard_metrics;
use super::slot::{LoadResult, LoadedShard, PartitionSlot};
use super::worker::Worker;
use crate::store::{JournalBatch, JournalRecord, Store};
use ebb_core::partition::{Epoch, PartitionEvent};
use ebb_core::{NextOffset, Shard};

const UNKNOWN_KEY: &str = "the state was made under another hash key; configure its file as hash_key_file, or as \
                           hash_key_previous_file to rotate keys";

/// The journal of the store.
#[derive(Debug, Default)]
pub(super) struct Journal;

impl Log for Journal {
    type Source = ();
    type Cursor = ();
    type Input = std::convert::Infallible;
    type Appended = Result<(), RecordError>;

    const SCHEMA: u16 = 1;

    fn log_name(_: &PartitionSlot<Self>) -> String {
        "journal".into()
    }

    fn encode(loaded: &LoadedShard<()>) -> Vec<u8> {
        loaded.shard.snapshot()
    }

    fn is_durable(&self, _: &LoadedShard<()>) -> bool {
        true
    }

    /// Events are folded as soon as the journal has them.
    fn lag(&self, _: &PartitionSlot<Self>, _: &LoadedShard<()>) -> Option<u64> {
        Some(0)
    }

    fn wait(_: &mut Worker<Self>, inbox: &mut mpsc::Receiver<Message>) -> Wake<Self::Input> {
        inbox.blocking_recv().map_or(Wake::Closed, Wake::Message)
    }

    fn handle(_: &mut Worker<Self>, input: Self::Input) {
        match input {}
    }

    fn restore(worker: &mut Worker<Self>, slot: usize, epoch: Epoch) {
        let store = worker.options.store.clone();
        let slot = &mut worker.slots[slot];
        match slot.restore(&store, epoch) {
            Ok(loaded) => {
                let start = loaded.shard.next();
                slot.loaded = Some(Box::new(loaded));
                slot.cell.step(PartitionEvent::Restored(epoch, start));
                // There is no consumer to position, and the journal is replayed already.
                slot.cell.step(PartitionEvent::Positioned(epoch));
                slot.cell.step(PartitionEvent::CaughtUp(epoch));
            }
            Err(reason) => {
                let reason = format!("shard {} cannot be restored: {reason}", slot.id);
                slot.cell.step(PartitionEvent::Refused(reason.into()));
            }
        }
    }

    /// Writes all records of the group at once: one flush for all of them.
    fn append(worker: &mut Worker<Self>, group: &mut [Message]) -> Self::Appended {
        let mut batches: Vec<JournalBatch> = Vec::new();
        let now_ms = wall_clock_ms();
        let next_of = |slot: &PartitionSlot<Self>| slot.loaded.as_deref().map(|loaded| loaded.shard.next());
        let mut next: Vec<Option<NextOffset>> = worker.slots.iter().map(next_of).collect();
        for message in group {
            let Message::Record(RecordRequest { slot, events, .. }) = message else { continue };
            let PartitionSlot { id, loaded, .. } = &mut worker.slots[*slot];
            let (Some(loaded), Some(next)) = (loaded.as_deref_mut(), &mut next[*slot]) else { continue };
            let timestamp_ms = loaded.stamp(now_ms);
            let records = events
                .iter_mut()
                .map(|event| JournalRecord { timestamp_ms, payload: std::mem::take(&mut event.payload) });
            let records: Vec<JournalRecord> = records.collect();
            let first = *next;
            next.0 += records.len() as u64;
            batches.push(JournalBatch { shard: id.clone(), first, records });
        }
        if batches.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let appended = worker.options.store.append(&batches);
        worker.options.metrics.journal_seconds.observe(started.elapsed().as_secs_f64());
        appended.map_err(|error| {
            worker.options.metrics.journal_failures.inc();
            tracing::error!(%error, "writing to the journal failed, events not recorded");
            RecordError::from(&error)
        })
    }

    fn record(worker: &mut Worker<Self>, request: RecordRequest, appended: &Self::Appended) {
        let RecordRequest { slot, events, reply } = request;
        let slot = &mut worker.slots[slot];
        let receipts = match (appended, slot.loaded.as_deref_mut()) {
            (Err(error), _) => Err(error.clone()),
            (Ok(()), None) => Err(RecordError::NotOwned { partition: slot.id.partition as usize }),
            (Ok(()), Some(loaded)) => {
                let started = Instant::now();
                let receipts = loaded.record(&events);
                let outcomes = receipts.iter().map(|receipt| &receipt.outcome);
                shard_metrics::count_outcomes(&slot.id.stream, outcomes, &worker.options.metrics);
                worker.options.metrics.apply_seconds.observe(started.elapsed().as_secs_f64());
                Ok(receipts)
            }
        };
        worker.replies.push(Reply::Record(reply, receipts));
    }

    fn end_round(_: &mut Worker<Self>) {}

    fn stop(_: &mut Worker<Self>) {}
}

impl PartitionSlot<Journal> {
    /// Loads the newest usable checkpoint and replays the journal from there on.
    fn restore(&self, store: &Store, epoch: Epoch) -> Result<LoadedShard<()>, String> {
        let decode = |bytes: &[u8]| Shard::restore(self.plan.clone(), self.id.partition, bytes);
        let LoadResult { loaded, has_unknown_key } = self.load(store, None, decode)?;
        let (shard, stored) = match loaded {
            Some((shard, stored)) => (shard, Some(stored)),
            None => (Shard::new(self.plan.clone(), self.id.partition).map_err(|error| error.to_string())?, None),
        };
        if shard.status().needs_previous_key {
            tracing::info!(shard = %self.id, "items recorded under the previous hash key are still remembered");
        }
        let mut loaded = LoadedShard::new(epoch, shard, (), stored);
        let replayed = self.replay(&mut loaded, store).map_err(|error| match has_unknown_key {
            true => format!("{UNKNOWN_KEY} ({error})"),
            false => error,
        })?;
        let checkpoint = stored.map(|stored| stored.next.0);
        tracing::info!(shard = %self.id, ?checkpoint, replayed, "shard restored");
        Ok(loaded)
    }

    /// Folds what the journal holds beyond the checkpoint.
    fn replay(&self, loaded: &mut LoadedShard<()>, store: &Store) -> Result<u64, String> {
        let mut replayed = 0;
        for logged in store.replay(&self.id, loaded.shard.next()).map_err(|error| error.to_string())? {
            let logged = logged.map_err(|error| error.to_string())?;
            let JournalRecord { timestamp_ms, payload } = &logged.record;
            loaded.stamp(*timestamp_ms);
            loaded.shard.apply(ebb_core::Record { offset: logged.offset, timestamp_ms: *timestamp_ms, payload });
            replayed += 1;
        }
        Ok(replayed)
    }
}

impl LoadedShard<()> {
    /// The timestamp of a record that is written at `now_ms`: the journal's time never runs backwards.
    fn stamp(&mut self, now_ms: i64) -> i64 {
        *self.timestamp_ms.insert(self.timestamp_ms.map_or(now_ms, |newest| newest.max(now_ms)))
    }

    /// Folds events that the journal has taken under the last [`LoadedShard::stamp`].
    fn record(&mut self, events: &[Submission]) -> Vec<RecordReceipt> {
        let timestamp_ms = self.timestamp_ms.unwrap_or_default();
        let fold = |submission: &Submission| {
            let offset = self.shard.next().0;
            let outcome = self.shard.fold(offset, timestamp_ms, Ok(&submission.event));
            RecordReceipt { outcome, offset, as_of: self.shard.as_of() }
        };
        events.iter().map(fold).collect()
    }
}

fn wall_clock_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
