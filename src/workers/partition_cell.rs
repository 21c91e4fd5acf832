//! The control state of a partition, shared by the threads that act on it.
//!
//! The shard itself belongs to its worker alone (W1). What is shared here is only which phase the partition is in: the poll
//! thread and the worker step the same state machine, and everybody else reads its phase.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use crate::store::ShardId;
use ebb_core::partition::{Actions, Epoch, PartitionEvent, PartitionState, Phase};

/// One partition's state machine.
#[derive(Debug)]
pub(super) struct PartitionCell {
    id: ShardId,
    state: Mutex<PartitionState>,
    phase_changes: PhaseChanges,
}

/// Counts the phase changes of all partitions, so that one can wait for the next.
#[derive(Debug, Clone)]
pub(super) struct PhaseChanges(Arc<watch::Sender<u64>>);

impl Default for PhaseChanges {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl PhaseChanges {
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

impl PartitionCell {
    pub(super) fn new(id: ShardId, phase_changes: PhaseChanges) -> Arc<Self> {
        Arc::new(Self { id, state: Mutex::default(), phase_changes })
    }

    pub(super) fn id(&self) -> &ShardId {
        &self.id
    }

    fn lock(&self) -> MutexGuard<'_, PartitionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies an event and returns what has to be done now.
    pub(super) fn step(&self, event: PartitionEvent) -> Actions {
        let (before, after, refusal, actions) = {
            let mut state = self.lock();
            let before = state.phase();
            let actions = state.step(event, Instant::now());
            (before, state.phase(), state.refusal().cloned(), actions)
        };
        if before != after {
            match refusal {
                Some(reason) => tracing::error!(shard = %self.id, %reason, "partition refused"),
                None => tracing::debug!(shard = %self.id, from = ?before, to = ?after, "partition phase changed"),
            }
            self.phase_changes.0.send_modify(|count| *count += 1);
        }
        actions
    }

    pub(super) fn actions(&self) -> Actions {
        self.lock().actions(Instant::now())
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.lock().retry_at()
    }

    pub(super) fn phase(&self) -> Phase {
        self.lock().phase()
    }

    pub(super) fn refusal(&self) -> Option<Arc<str>> {
        self.lock().refusal().cloned()
    }

    pub(super) fn is_held(&self) -> bool {
        self.lock().is_held()
    }

    /// The epoch under which records are fetched, if they are.
    pub(super) fn fetch_epoch(&self) -> Option<Epoch> {
        self.lock().fetch_epoch()
    }

    /// Whether questions may be answered from state restored under this epoch.
    pub(super) fn is_live(&self, epoch: Epoch) -> bool {
        let state = self.lock();
        state.phase() == Phase::Live && state.epoch() == epoch
    }

    /// Whether state restored under this epoch is the present one.
    pub(super) fn is_current(&self, epoch: Epoch) -> bool {
        self.lock().epoch() == epoch
    }

    pub(super) fn has_caught_up(&self, epoch: Epoch) -> bool {
        self.lock().has_caught_up(epoch)
    }

    pub(super) fn may_commit(&self, epoch: Epoch) -> bool {
        self.lock().may_commit(epoch)
    }
}
