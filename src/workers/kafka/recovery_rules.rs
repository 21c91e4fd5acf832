//! The rules of recovery that decide between exactly once and not, each in one place.
//!
//! Tests compile a set of rules with one of them broken in place of these (feature `mutants`), to show that the fault
//! scenarios notice every one.

use super::Delivery;
use super::Producers;
use super::cursor::SavedState;
use super::output_ledger::CommitNote;
use crate::kafka::{CommitOutcome, Fault, Group, OffsetCommit};
use ebb_core::{NextOffset, Shard};

/// The rules of recovery.
#[derive(Debug)]
pub(in crate::workers) struct RecoveryRules;

impl RecoveryRules {
    pub(in crate::workers) fn new() -> Self {
        Self
    }

    /// The committed offset is the next one to read.
    #[inline(always)]
    pub(in crate::workers) fn offset_to_commit(&self, position: NextOffset) -> NextOffset {
        position
    }

    /// Records before this offset are folded without being emitted.
    #[inline(always)]
    pub(in crate::workers) fn emit_from(&self, first: NextOffset) -> NextOffset {
        first
    }

    /// Records between the checkpoint and the committed offset are replayed.
    #[inline(always)]
    pub(in crate::workers) fn replays(&self) -> bool {
        true
    }

    /// A checkpoint that is ahead of the committed offset is not restored.
    #[inline(always)]
    pub(in crate::workers) fn checkpoint_limit(&self, committed: NextOffset) -> Option<NextOffset> {
        Some(committed)
    }

    /// Only what is committed goes into a checkpoint (K4).
    #[inline(always)]
    pub(in crate::workers) fn may_checkpoint(&self, is_committed: bool) -> bool {
        is_committed
    }

    /// Checkpoints are taken after commits, not after folding.
    #[inline(always)]
    pub(in crate::workers) fn checkpoints_after_fold(&self) -> bool {
        false
    }

    /// A commit that failed has failed.
    #[inline(always)]
    pub(in crate::workers) fn commit_result(
        &mut self,
        _delivery: Delivery,
        result: Result<CommitOutcome, Fault>,
    ) -> Result<CommitOutcome, Fault> {
        result
    }

    /// A producer is replaced only together with the state of its partitions.
    #[inline(always)]
    pub(in crate::workers) fn producer_to_replace(&mut self) -> Option<Delivery> {
        None
    }

    /// The state that an aborted transaction left is dropped.
    #[inline(always)]
    pub(in crate::workers) fn rolled_back(&mut self, _slot: usize, shard: Shard) {
        drop(shard);
    }

    /// A partition is restored from a checkpoint or a snapshot.
    #[inline(always)]
    pub(in crate::workers) fn state_to_restore(
        &mut self,
        _slot: usize,
        found: Option<SavedState>,
    ) -> Option<SavedState> {
        found
    }

    /// Outputs are delivered as configured.
    #[inline(always)]
    pub(in crate::workers) fn delivery(&self, configured: Delivery) -> Delivery {
        configured
    }

    /// Nothing is committed outside of the transaction.
    #[inline(always)]
    pub(in crate::workers) fn before_commit(
        &self,
        _group: &Group,
        _offsets: &[OffsetCommit],
        _producers: &Producers,
    ) -> Result<(), Fault> {
        Ok(())
    }

    /// A log that is not the one that was folded is refused (K5).
    #[inline(always)]
    pub(in crate::workers) fn checks_log(&self) -> bool {
        true
    }

    /// The note of a commit is compared with the outputs (K8).
    #[inline(always)]
    pub(in crate::workers) fn trusted_note(&self, note: Option<CommitNote>) -> Option<CommitNote> {
        note
    }
}
