//! Recovery rules with one of them broken, in place of `kafka/recovery_rules.rs`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::unknown_name;
use crate::kafka::{CommitOutcome, Fault, Group, OffsetCommit, Producer, Remedy};
use crate::workers::kafka::cursor::SavedState;
use crate::workers::kafka::output_ledger::CommitNote;
use crate::workers::kafka::{Delivery, Producers};
use ebb_core::{NextOffset, Shard};

const VARIABLE: &str = "EBB_MUTANT";

/// Rules that can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    /// Commits the offset of the last record instead of the next one.
    OffsetNotPlusOne,
    /// Commits one record that was not read yet.
    OffsetPlusTwo,
    /// Emits what is only replayed.
    EmitDuringReplay,
    /// Skips the replay between the checkpoint and the committed offset.
    SkipReplay,
    /// Takes checkpoints of what is not committed, and restores them.
    CheckpointBeforeCommit,
    /// Takes a failed commit for a successful one.
    IgnoreCommitError,
    /// Continues with the state that an aborted transaction left.
    KeepStateAfterAbort,
    /// Writes outputs outside of the transaction.
    NoTransaction,
    /// Commits the offsets separately, before the outputs.
    OffsetsFirst,
    /// Does not check whether the log is the one that was folded.
    SkipIdentity,
    /// Does not check which outputs consumers can read.
    BelieveOffsets,
}

const ALL: [(&str, Mutant); 11] = [
    ("offset-not-plus-one", Mutant::OffsetNotPlusOne),
    ("offset-plus-two", Mutant::OffsetPlusTwo),
    ("emit-during-replay", Mutant::EmitDuringReplay),
    ("skip-replay", Mutant::SkipReplay),
    ("checkpoint-before-commit", Mutant::CheckpointBeforeCommit),
    ("ignore-commit-error", Mutant::IgnoreCommitError),
    ("keep-state-after-abort", Mutant::KeepStateAfterAbort),
    ("no-transaction", Mutant::NoTransaction),
    ("offsets-first", Mutant::OffsetsFirst),
    ("skip-identity", Mutant::SkipIdentity),
    ("believe-offsets", Mutant::BelieveOffsets),
];

static ACTIVE: LazyLock<Option<Mutant>> = LazyLock::new(|| {
    let name = std::env::var(VARIABLE).ok()?;
    ALL.iter().find(|(known, _)| *known == name).map(|(_, mutant)| *mutant)
});

pub(super) fn check_variables() {
    if let Ok(name) = std::env::var(VARIABLE)
        && ACTIVE.is_none()
    {
        unknown_name(VARIABLE, &name);
    }
}

fn is_active(mutant: Mutant) -> bool {
    *ACTIVE == Some(mutant)
}

/// The same methods as the production rules.
#[derive(Debug, Default)]
pub(in crate::workers) struct RecoveryRules {
    /// States of aborted transactions, by slot.
    kept: BTreeMap<usize, Shard>,
    /// The producer whose failed commit was ignored.
    to_replace: Option<Delivery>,
}

impl RecoveryRules {
    pub(in crate::workers) fn new() -> Self {
        Self::default()
    }

    pub(in crate::workers) fn offset_to_commit(&self, position: NextOffset) -> NextOffset {
        match () {
            () if is_active(Mutant::OffsetNotPlusOne) => NextOffset(position.0.saturating_sub(1)),
            () if is_active(Mutant::OffsetPlusTwo) => NextOffset(position.0 + 1),
            () => position,
        }
    }

    pub(in crate::workers) fn emit_from(&self, first: NextOffset) -> NextOffset {
        if is_active(Mutant::EmitDuringReplay) { NextOffset(0) } else { first }
    }

    pub(in crate::workers) fn replays(&self) -> bool {
        !is_active(Mutant::SkipReplay)
    }

    pub(in crate::workers) fn checkpoint_limit(&self, committed: NextOffset) -> Option<NextOffset> {
        (!is_active(Mutant::CheckpointBeforeCommit)).then_some(committed)
    }

    pub(in crate::workers) fn may_checkpoint(&self, is_committed: bool) -> bool {
        is_committed || is_active(Mutant::CheckpointBeforeCommit)
    }

    pub(in crate::workers) fn checkpoints_after_fold(&self) -> bool {
        is_active(Mutant::CheckpointBeforeCommit)
    }

    pub(in crate::workers) fn commit_result(
        &mut self,
        delivery: Delivery,
        result: Result<CommitOutcome, Fault>,
    ) -> Result<CommitOutcome, Fault> {
        match result {
            Err(fault) if fault.remedy != Remedy::End && is_active(Mutant::IgnoreCommitError) => {
                self.to_replace = Some(delivery);
                Ok(CommitOutcome::Clean)
            }
            other => other,
        }
    }

    pub(in crate::workers) fn producer_to_replace(&mut self) -> Option<Delivery> {
        self.to_replace.take()
    }

    pub(in crate::workers) fn rolled_back(&mut self, slot: usize, shard: Shard) {
        if is_active(Mutant::KeepStateAfterAbort) {
            self.kept.insert(slot, shard);
        }
    }

    pub(in crate::workers) fn state_to_restore(
        &mut self,
        slot: usize,
        found: Option<SavedState>,
    ) -> Option<SavedState> {
        match self.kept.remove(&slot) {
            Some(shard) => Some(SavedState { shard, last: None, stored: None }),
            None => found,
        }
    }

    pub(in crate::workers) fn delivery(&self, configured: Delivery) -> Delivery {
        if is_active(Mutant::NoTransaction) { Delivery::AtLeastOnce } else { configured }
    }

    pub(in crate::workers) fn before_commit(
        &self,
        group: &Group,
        offsets: &[OffsetCommit],
        producers: &Producers,
    ) -> Result<(), Fault> {
        if is_active(Mutant::OffsetsFirst) {
            group.commit(offsets)?;
        }
        if is_active(Mutant::NoTransaction) {
            producers.get(&Delivery::AtLeastOnce).map_or(Ok(()), Producer::flush)?;
        }
        Ok(())
    }

    pub(in crate::workers) fn checks_log(&self) -> bool {
        !is_active(Mutant::SkipIdentity)
    }

    /// Counting the outputs would repair most of the mistakes unnoticed.
    pub(in crate::workers) fn trusted_note(&self, note: Option<CommitNote>) -> Option<CommitNote> {
        note.filter(|_| ACTIVE.is_none())
    }
}
