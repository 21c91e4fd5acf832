//! A partition in the hands of its worker: the shard while it is loaded, and its checkpoints.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

use tokio::sync::oneshot;

use super::checkpointer::CheckpointJob;
use super::hooks;
use super::log::Log;
use super::messages::{CheckpointProgress, StoredCheckpoint};
use super::partition_cell::PartitionCell;
use crate::store::{CheckpointIdentity, CheckpointRefusal, ShardId, Store};
use ebb_core::partition::Epoch;
use ebb_core::{HASH_KEY, NextOffset, Plan, Shard};
use ebb_sketch::codec::CodecError;

/// A partition that a worker may own.
pub(super) struct PartitionSlot<L: Log> {
    pub(super) id: ShardId,
    pub(super) plan: Arc<Plan>,
    pub(super) cell: Arc<PartitionCell>,
    /// What the log knows about the partition across assignments.
    pub(super) source: L::Source,
    /// The shard, while this worker owns the partition.
    pub(super) loaded: Option<Box<LoadedShard<L::Cursor>>>,
}

/// A shard in memory and its position in the log.
#[derive(Debug)]
pub(super) struct LoadedShard<C> {
    /// The assignment or rollback that it was restored under.
    pub(super) epoch: Epoch,
    pub(super) shard: Shard,
    pub(super) cursor: C,
    /// Timestamp of the newest record.
    pub(super) timestamp_ms: Option<i64>,
    /// The newest stored checkpoint.
    stored: Option<StoredCheckpoint>,
    /// A checkpoint that is being written.
    storing: Option<oneshot::Receiver<StoredCheckpoint>>,
}

/// Checkpoints that were not used, by generation.
type Refusals = Vec<(u64, CheckpointRefusal)>;

/// Whether a checkpoint could be handed to the checkpoint thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handover {
    Done,
    /// The disk is behind: to be retried with a newer state.
    Postponed,
}

impl<L: Log> PartitionSlot<L> {
    /// The shard, if questions may be answered from it.
    pub(super) fn live(&self) -> Option<&LoadedShard<L::Cursor>> {
        self.loaded.as_deref().filter(|loaded| self.cell.is_live(loaded.epoch))
    }

    /// CheckpointIdentity of its checkpoints.
    pub(super) fn identity(&self) -> CheckpointIdentity {
        CheckpointIdentity {
            config_hash: self.plan.identity(),
            key_digest: self.plan.reader.key_digest(),
            log: L::log_name(self),
            schema: L::SCHEMA,
        }
    }

    /// Identities of usable checkpoints; the second one is of state from before a key rotation.
    pub(super) fn identities(&self) -> impl Iterator<Item = CheckpointIdentity> + use<L> {
        let identity = self.identity();
        let previous_key = || {
            let config_hash = self.plan.previous_identity()?;
            Some(CheckpointIdentity {
                config_hash,
                key_digest: self.plan.reader.previous_key_digest()?,
                ..identity.clone()
            })
        };
        let previous_key = previous_key();
        [Some(identity), previous_key].into_iter().flatten()
    }

    /// Loads the newest usable checkpoint that is not ahead of `limit`.
    pub(super) fn load<T>(
        &self,
        store: &Store,
        limit: Option<NextOffset>,
        decode: impl Fn(&[u8]) -> Result<T, CodecError>,
    ) -> Result<LoadResult<T>, String> {
        let mut has_unknown_key = false;
        for identity in self.identities() {
            match self.load_as(&identity, store, limit, &decode)? {
                (Some(loaded), _) => return Ok(LoadResult { loaded: Some(loaded), has_unknown_key: false }),
                (None, refused) => {
                    has_unknown_key = refused.iter().any(|(_, reason)| matches!(reason, CheckpointRefusal::HashKey(_)));
                }
            }
        }
        Ok(LoadResult { loaded: None, has_unknown_key })
    }

    fn load_as<T>(
        &self,
        identity: &CheckpointIdentity,
        store: &Store,
        mut limit: Option<NextOffset>,
        decode: &impl Fn(&[u8]) -> Result<T, CodecError>,
    ) -> Result<(Option<(T, StoredCheckpoint)>, Refusals), String> {
        let reader = &self.plan.reader;
        // During a key rotation there are checkpoints under both keys.
        let is_expected = |reason: &CheckpointRefusal| match reason {
            CheckpointRefusal::HashKey(digest) => {
                [Some(reader.key_digest()), reader.previous_key_digest()].contains(&Some(*digest))
            }
            _ => false,
        };
        loop {
            let loaded = store.load(&self.id, identity, limit).map_err(|error| error.to_string())?;
            for (generation, reason) in loaded.refused.iter().filter(|(_, reason)| !is_expected(reason)) {
                tracing::warn!(shard = %self.id, generation, %reason, "checkpoint not usable, trying an older one");
            }
            let Some(checkpoint) = loaded.checkpoint else { return Ok((None, loaded.refused)) };
            match decode(&checkpoint.state) {
                Ok(state) => {
                    let bytes = checkpoint.state.len() as u64;
                    let stored = StoredCheckpoint { next: checkpoint.next, time_ms: None, bytes };
                    return Ok((Some((state, stored)), loaded.refused));
                }
                // An older checkpoint would need the key as well.
                Err(error) if error.is_about(HASH_KEY) => return Err(error.to_string()),
                Err(error) => {
                    let generation = checkpoint.generation;
                    tracing::warn!(shard = %self.id, generation, %error, "checkpoint not usable, trying an older one");
                }
            }
            match checkpoint.next.0.checked_sub(1) {
                Some(before) => limit = Some(NextOffset(before)),
                None => return Ok((None, loaded.refused)),
            }
        }
    }

    /// Hands a copy of the state to the checkpoint thread, unless nothing changed or a checkpoint is still being written.
    pub(super) fn checkpoint(&mut self, checkpointer: &SyncSender<CheckpointJob>) -> Handover {
        let identity = self.identity();
        let Some(loaded) = self.loaded.as_deref_mut() else { return Handover::Done };
        loaded.notice_stored();
        if loaded.storing.is_some() || !loaded.is_unsaved() {
            return Handover::Done;
        }
        hooks::reached("before_checkpoint");
        let (stored, storing) = oneshot::channel();
        match checkpointer.try_send(job::<L>(&self.id, identity, loaded, stored)) {
            Ok(()) => loaded.storing = Some(storing),
            Err(TrySendError::Full(_)) => return Handover::Postponed,
            Err(TrySendError::Disconnected(_)) => {
                tracing::error!(shard = %self.id, "the checkpoint thread has ended, no checkpoint taken");
            }
        }
        Handover::Done
    }

    /// Takes the last checkpoint and waits until it is stored.
    pub(super) fn checkpoint_and_wait(&mut self, checkpointer: &SyncSender<CheckpointJob>) {
        let identity = self.identity();
        let Some(loaded) = self.loaded.as_deref_mut() else { return };
        loaded.wait_for_checkpoint();
        if loaded.is_unsaved() {
            let (stored, storing) = oneshot::channel();
            let sent = checkpointer.send(job::<L>(&self.id, identity, loaded, stored));
            // Without the checkpoint thread there is no checkpoint; the log has everything.
            loaded.storing = sent.is_ok().then_some(storing);
            loaded.wait_for_checkpoint();
        }
    }
}

fn job<L: Log>(
    id: &ShardId,
    identity: CheckpointIdentity,
    loaded: &LoadedShard<L::Cursor>,
    stored: oneshot::Sender<StoredCheckpoint>,
) -> CheckpointJob {
    CheckpointJob { shard: id.clone(), identity, next: loaded.shard.next(), bytes: L::encode(loaded), stored }
}

/// The result of looking for a checkpoint.
pub(super) struct LoadResult<T> {
    pub(super) loaded: Option<(T, StoredCheckpoint)>,
    /// There is state under a hash key that is not configured.
    pub(super) has_unknown_key: bool,
}

impl<C> LoadedShard<C> {
    pub(super) fn new(epoch: Epoch, shard: Shard, cursor: C, stored: Option<StoredCheckpoint>) -> Self {
        Self { epoch, shard, cursor, timestamp_ms: None, stored, storing: None }
    }

    /// The newest stored checkpoint.
    pub(super) fn stored(&mut self) -> Option<StoredCheckpoint> {
        self.notice_stored();
        self.stored
    }

    pub(super) fn checkpoint_progress(&mut self) -> CheckpointProgress {
        let next = self.shard.next();
        CheckpointProgress { next: (next != NextOffset(0)).then_some(next), stored: self.stored() }
    }

    fn is_unsaved(&self) -> bool {
        let next = self.shard.next();
        self.stored.map(|stored| stored.next) != Some(next) && next != NextOffset(0)
    }

    fn wait_for_checkpoint(&mut self) {
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
}
