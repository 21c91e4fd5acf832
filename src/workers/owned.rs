//! A shard in the hands of its worker: restored from the store, journalled, checkpointed.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

use tokio::sync::oneshot;

use super::checkpoints::Job;
use super::message::{Recorded, ShardStatus, Submission};
use super::worker::WorkersOptions;
use crate::metrics::Metrics;
use crate::shard::{self, Basis, Counts, NextOffset, Outcome, Plan, Reason, Shard, Verdict};
use crate::store::{Identity, Record, ShardId, Store};

/// How far the restoring of a worker's shards is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Restored {
    Working,
    Done,
    Failed(String),
}

pub(super) struct OwnedShard {
    pub(super) id: ShardId,
    pub(super) shard: Shard,
    identity: Identity,
    /// The newest timestamp given to a record: the log's time never runs backwards.
    timestamp_ms: i64,
    /// Up to where the newest stored checkpoint reaches.
    stored: Option<NextOffset>,
    /// A checkpoint on its way.
    storing: Option<oneshot::Receiver<NextOffset>>,
}

/// Whether a checkpoint was taken care of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    Over,
    /// The disk is behind: to be tried again, with a newer copy.
    PutOff,
}

/// Which log the positions of an embedded stream belong to.
const JOURNAL: &str = "journal";
/// Version of the shard's bytes, as the store sees it.
const SCHEMA: u16 = 1;

impl OwnedShard {
    /// The newest usable checkpoint, brought up to date from the journal.
    pub(super) fn restore(id: ShardId, plan: Arc<Plan>, options: &WorkersOptions) -> Result<Self, String> {
        let identity = Identity {
            config_hash: plan.identity(),
            key_print: plan.reader.key_print(),
            log: JOURNAL.into(),
            schema: SCHEMA,
        };
        let (shard, stored) = load(&id, &plan, &identity, &options.store)?;
        let mut owned = Self { id, shard, identity, timestamp_ms: i64::MIN, stored, storing: None };
        let replayed = owned.replay(&options.store)?;
        tracing::info!(shard = %owned.id, checkpoint = ?stored.map(|next| next.0), replayed, "shard restored");
        owned.report(&options.metrics);
        Ok(owned)
    }

    /// Folds what the journal holds beyond the checkpoint.
    fn replay(&mut self, store: &Store) -> Result<u64, String> {
        let from = self.shard.next();
        let mut replayed = 0;
        for logged in store.replay(&self.id, from).map_err(|error| error.to_string())? {
            let logged = logged.map_err(|error| error.to_string())?;
            let Record { timestamp_ms, payload } = &logged.record;
            self.timestamp_ms = self.timestamp_ms.max(*timestamp_ms);
            self.shard.apply(shard::Record { offset: logged.offset, timestamp_ms: *timestamp_ms, payload });
            replayed += 1;
        }
        Ok(replayed)
    }

    /// The timestamp of a record that the journal takes at `now_ms`.
    pub(super) fn stamp(&mut self, now_ms: i64) -> i64 {
        self.timestamp_ms = self.timestamp_ms.max(now_ms);
        self.timestamp_ms
    }

    /// Folds events that the journal has taken at the last [`OwnedShard::stamp`].
    pub(super) fn record(&mut self, events: &[Submission], metrics: &Metrics) -> Vec<Recorded> {
        let recorded: Vec<Recorded> = events
            .iter()
            .map(|submission| {
                let offset = self.shard.next().0;
                let outcome = self.shard.fold(offset, self.timestamp_ms, Ok(&submission.event));
                Recorded { outcome, offset, as_of: self.shard.as_of() }
            })
            .collect();
        count(&self.id.stream, recorded.iter().map(|recorded| &recorded.outcome), metrics);
        recorded
    }

    pub(super) fn status(&mut self) -> ShardStatus {
        self.notice_stored();
        ShardStatus { status: self.shard.status(), checkpoint: self.stored }
    }

    /// Hands a copy of the state to the checkpoint thread, unless one is still on its way or nothing changed.
    pub(super) fn checkpoint(&mut self, jobs: &SyncSender<Job>) -> Handed {
        self.notice_stored();
        if self.storing.is_some() || !self.is_unsaved() {
            return Handed::Over;
        }
        let (job, storing) = self.job();
        match jobs.try_send(job) {
            Ok(()) => self.storing = Some(storing),
            Err(TrySendError::Full(_)) => return Handed::PutOff,
            Err(TrySendError::Disconnected(_)) => tracing::error!(shard = %self.id, "the checkpoint thread is gone"),
        }
        Handed::Over
    }

    /// The last checkpoint: waits for its turn and until it is stored.
    pub(super) fn checkpoint_finally(&mut self, jobs: &SyncSender<Job>) {
        self.await_checkpoint();
        if self.is_unsaved() {
            let (job, storing) = self.job();
            // Without the thread there is no checkpoint; the journal has everything.
            self.storing = jobs.send(job).is_ok().then_some(storing);
            self.await_checkpoint();
        }
    }

    fn is_unsaved(&self) -> bool {
        self.stored != Some(self.shard.next()) && self.shard.next() != NextOffset(0)
    }

    fn job(&self) -> (Job, oneshot::Receiver<NextOffset>) {
        let (stored, storing) = oneshot::channel();
        let (shard, identity) = (self.id.clone(), self.identity.clone());
        (Job { shard, identity, next: self.shard.next(), bytes: self.shard.snapshot(), stored }, storing)
    }

    /// Waits for the checkpoint that is on its way.
    pub(super) fn await_checkpoint(&mut self) {
        if let Some(storing) = self.storing.take()
            && let Ok(next) = storing.blocking_recv()
        {
            self.stored = Some(next);
        }
    }

    fn notice_stored(&mut self) {
        if let Some(storing) = &mut self.storing {
            match storing.try_recv() {
                Ok(next) => (self.stored, self.storing) = (Some(next), None),
                Err(oneshot::error::TryRecvError::Closed) => self.storing = None,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
        }
    }

    pub(super) fn report(&self, metrics: &Metrics) {
        let partition = self.id.partition.to_string();
        let labels = [self.id.stream.as_str(), partition.as_str()];
        let status = self.shard.status();
        metrics.fill.with_label_values(&labels).set(status.fill);
        metrics.false_duplicates.with_label_values(&labels).set(status.false_duplicate_rate);
        metrics.trusted.with_label_values(&labels).set(i64::from(status.basis != Basis::Miscalibrated));
        metrics.isolated_keys.with_label_values(&labels).set(status.isolated_keys as i64);
        metrics.state_bytes.with_label_values(&labels).set(status.memory_bytes as i64);
        metrics.lag.with_label_values(&labels).set(0);
        if let Some(time_ms) = status.as_of.time_ms {
            metrics.event_time.with_label_values(&labels).set(time_ms as f64 / 1e3);
        }
    }
}

fn load(
    id: &ShardId,
    plan: &Arc<Plan>,
    identity: &Identity,
    store: &Store,
) -> Result<(Shard, Option<NextOffset>), String> {
    let mut at_most = None;
    loop {
        let loaded = store.load(id, identity, at_most).map_err(|error| error.to_string())?;
        for (generation, reason) in &loaded.refused {
            tracing::warn!(shard = %id, generation, %reason, "checkpoint not used");
        }
        let Some(checkpoint) = loaded.checkpoint else {
            return Shard::new(plan.clone(), id.partition)
                .map(|shard| (shard, None))
                .map_err(|error| error.to_string());
        };
        match Shard::restore(plan.clone(), id.partition, &checkpoint.state) {
            Ok(shard) => return Ok((shard, Some(checkpoint.next))),
            Err(error) => {
                tracing::warn!(shard = %id, generation = checkpoint.generation, %error, "checkpoint not used")
            }
        }
        match checkpoint.next.0.checked_sub(1) {
            Some(before) => at_most = Some(NextOffset(before)),
            None => return Shard::new(plan.clone(), id.partition).map(|s| (s, None)).map_err(|e| e.to_string()),
        }
    }
}

/// Counted per batch, not per record.
pub(super) fn count<'a>(stream: &str, outcomes: impl Iterator<Item = &'a Outcome>, metrics: &Metrics) {
    let (mut verdicts, mut bases) = (Counts::default(), [0; Basis::ALL.len()]);
    for outcome in outcomes {
        verdicts.add(outcome.verdict);
        if let Some(answer) = &outcome.answer {
            bases[answer.basis as usize] += 1;
        }
    }
    let named = [Verdict::Unique, Verdict::Duplicate, Verdict::Late].into_iter().zip([
        verdicts.unique,
        verdicts.duplicate,
        verdicts.late,
    ]);
    for (verdict, count) in named.filter(|(_, count)| *count > 0) {
        metrics.events.with_label_values(&[stream, verdict.name()]).inc_by(count);
    }
    for reason in Reason::ALL.into_iter().filter(|reason| verdicts.rejected(*reason) > 0) {
        metrics.rejected.with_label_values(&[stream, reason.name()]).inc_by(verdicts.rejected(reason));
        metrics.events.with_label_values(&[stream, "rejected"]).inc_by(verdicts.rejected(reason));
    }
    for (basis, count) in Basis::ALL.into_iter().zip(bases).filter(|(_, count)| *count > 0) {
        metrics.decisions.with_label_values(&[stream, basis.name()]).inc_by(count);
    }
}
