//! A shard in the hands of its worker: restored from the store, journalled, checkpointed.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

use tokio::sync::oneshot;

use super::checkpoints::Job;
use super::message::{PartitionStatus, Recorded, Saved, Stored, Submission};
use super::report::{self, Report};
use super::worker::WorkersOptions;
use crate::metrics::Metrics;
use crate::store::{CheckpointIdentity, CheckpointRefusal, JournalRecord, ShardId, Store};
use ebb_core::{Basis, HASH_KEY, NextOffset, Outcome, Plan, Reason, Shard, Verdict, VerdictCounts};

/// How far the restoring of a worker's shards is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Restored {
    Working,
    /// Nothing can be done before somebody else has done something.
    Waiting(String),
    Done,
    Failed(String),
}

pub(super) struct OwnedShard {
    pub(super) id: ShardId,
    pub(super) shard: Shard,
    identity: CheckpointIdentity,
    /// The newest timestamp given to a record: the log's time never runs backwards.
    timestamp_ms: i64,
    /// The newest stored checkpoint.
    stored: Option<Stored>,
    /// A checkpoint on its way.
    storing: Option<oneshot::Receiver<Stored>>,
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
const OTHER_KEY: &str = "the state was made under another hash key; name its file as hash_key_file, or as \
                         hash_key_previous_file to exchange it";

impl OwnedShard {
    /// The newest usable checkpoint, brought up to date from the journal.
    pub(super) fn restore(id: ShardId, plan: Arc<Plan>, options: &WorkersOptions) -> Result<Self, String> {
        let identity = CheckpointIdentity {
            config_hash: plan.identity(),
            key_digest: plan.reader.key_digest(),
            log: JOURNAL.into(),
            schema: SCHEMA,
        };
        let Found { shard, stored, other_key } = load(&id, &plan, &identity, &options.store)?;
        if shard.status().needs_previous_key {
            tracing::info!(shard = %id, "what was recorded under the previous hash key is still remembered");
        }
        let mut owned = Self { id, shard, identity, timestamp_ms: i64::MIN, stored, storing: None };
        let replayed = owned.replay(&options.store).map_err(|why| match other_key {
            true => format!("{OTHER_KEY} ({why})"),
            false => why,
        })?;
        tracing::info!(shard = %owned.id, checkpoint = ?stored.map(|stored| stored.next.0), replayed, "shard restored");
        owned.report(&options.metrics);
        Ok(owned)
    }

    /// Folds what the journal holds beyond the checkpoint.
    fn replay(&mut self, store: &Store) -> Result<u64, String> {
        let from = self.shard.next();
        let mut replayed = 0;
        for logged in store.replay(&self.id, from).map_err(|error| error.to_string())? {
            let logged = logged.map_err(|error| error.to_string())?;
            let JournalRecord { timestamp_ms, payload } = &logged.record;
            self.timestamp_ms = self.timestamp_ms.max(*timestamp_ms);
            self.shard.apply(ebb_core::Record { offset: logged.offset, timestamp_ms: *timestamp_ms, payload });
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

    pub(super) fn status(&mut self) -> PartitionStatus {
        self.notice_stored();
        // Events are folded when the journal has them.
        PartitionStatus { status: self.shard.status(), lag: Some(0), checkpoint: self.stored }
    }

    /// Where the shard stands, and up to where it is stored.
    pub(super) fn saved(&mut self) -> Saved {
        self.notice_stored();
        let next = self.shard.next();
        Saved { next: (next != NextOffset(0)).then_some(next), stored: self.stored }
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
        self.stored.map(|stored| stored.next) != Some(self.shard.next()) && self.shard.next() != NextOffset(0)
    }

    fn job(&self) -> (Job, oneshot::Receiver<Stored>) {
        let (stored, storing) = oneshot::channel();
        let (shard, identity) = (self.id.clone(), self.identity.clone());
        (Job { shard, identity, next: self.shard.next(), bytes: self.shard.snapshot(), stored }, storing)
    }

    /// Waits for the checkpoint that is on its way.
    pub(super) fn await_checkpoint(&mut self) {
        if let Some(storing) = self.storing.take()
            && let Ok(stored) = storing.blocking_recv()
        {
            self.stored = Some(stored);
        }
    }

    fn notice_stored(&mut self) {
        if let Some(storing) = &mut self.storing {
            match storing.try_recv() {
                Ok(stored) => (self.stored, self.storing) = (Some(stored), None),
                Err(oneshot::error::TryRecvError::Closed) => self.storing = None,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
        }
    }

    pub(super) fn report(&self, metrics: &Metrics) {
        let timestamp_ms = (self.timestamp_ms != i64::MIN).then_some(self.timestamp_ms);
        report::report(&Report { id: &self.id, status: &self.shard.status(), lag: Some(0), timestamp_ms }, metrics);
    }
}

/// The newest usable checkpoint, or else the newest that was made under the previous hash key, or else nothing.
fn load(id: &ShardId, plan: &Arc<Plan>, identity: &CheckpointIdentity, store: &Store) -> Result<Found, String> {
    let mut other_key = false;
    for identity in [Some(identity.clone()), former(identity, plan)].into_iter().flatten() {
        match load_as(id, plan, &identity, store)? {
            (Some((shard, stored)), _) => return Ok(Found { shard, stored: Some(stored), other_key: false }),
            (None, refused) => {
                other_key = refused.iter().any(|(_, reason)| matches!(reason, CheckpointRefusal::HashKey(_)))
            }
        }
    }
    let shard = Shard::new(plan.clone(), id.partition).map_err(|error| error.to_string())?;
    Ok(Found { shard, stored: None, other_key })
}

struct Found {
    shard: Shard,
    stored: Option<Stored>,
    /// There is state, under a key that is not known here.
    other_key: bool,
}

type Refused = Vec<(u64, CheckpointRefusal)>;

fn load_as(
    id: &ShardId,
    plan: &Arc<Plan>,
    identity: &CheckpointIdentity,
    store: &Store,
) -> Result<(Option<(Shard, Stored)>, Refused), String> {
    let mut at_most = None;
    loop {
        let loaded = store.load(id, identity, at_most).map_err(|error| error.to_string())?;
        // While keys are exchanged there are checkpoints under both.
        let is_expected = |reason: &CheckpointRefusal| matches!(reason, CheckpointRefusal::HashKey(print) if [Some(plan.reader.key_digest()), plan.reader.previous_key_digest()].contains(&Some(*print)));
        for (generation, reason) in loaded.refused.iter().filter(|(_, reason)| !is_expected(reason)) {
            tracing::warn!(shard = %id, generation, %reason, "checkpoint not used");
        }
        let Some(checkpoint) = loaded.checkpoint else { return Ok((None, loaded.refused)) };
        match Shard::restore(plan.clone(), id.partition, &checkpoint.state) {
            Ok(shard) => {
                let bytes = checkpoint.state.len() as u64;
                let stored = Stored { next: checkpoint.next, time_ms: None, bytes };
                return Ok((Some((shard, stored)), loaded.refused));
            }
            // An older one would need the key as well.
            Err(error) if error.is_about(HASH_KEY) => return Err(error.to_string()),
            Err(error) => {
                tracing::warn!(shard = %id, generation = checkpoint.generation, %error, "checkpoint not used")
            }
        }
        match checkpoint.next.0.checked_sub(1) {
            Some(before) => at_most = Some(NextOffset(before)),
            None => return Ok((None, loaded.refused)),
        }
    }
}

/// What identifies the same state made under the previous hash key, while keys are exchanged.
pub(super) fn former(identity: &CheckpointIdentity, plan: &Plan) -> Option<CheckpointIdentity> {
    let (config_hash, key_digest) = (plan.previous_identity()?, plan.reader.previous_key_digest()?);
    Some(CheckpointIdentity { config_hash, key_digest, ..identity.clone() })
}

/// Counted per batch, not per record.
pub(super) fn count<'a>(stream: &str, outcomes: impl Iterator<Item = &'a Outcome>, metrics: &Metrics) {
    let (mut verdicts, mut bases) = (VerdictCounts::default(), [0; Basis::ALL.len()]);
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
