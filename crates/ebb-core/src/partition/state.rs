//! The state machine of one partition.
//!
//! ```text
//! Unassigned ──Assigned──► Restoring ──Positioned──► Replaying ──CaughtUp──► Live
//!      ▲                     │  ▲  ▲                     │                     │
//!      │                     │  └──┴─────RolledBack──────┴─────────────────────┤
//!      └───────Drained──── Draining ◄───────────Revoked, Lost──────────────────┘
//!                            any of them ──Refused──► Refused
//! ```
//!
//! Every assignment and every rollback begins a new [`Epoch`]. Events and records of an earlier epoch change nothing, so a
//! fetch, a restore or a commit that finishes late can do no harm.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::offset::NextOffset;

/// Numbers the assignments and rollbacks of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Epoch(pub u64);

/// Delay before a failed restore is retried; it doubles with every failure up to the maximum.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(200);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3);

/// The phase of a partition, as reported to the rest of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Another instance owns it, or nobody does.
    Unassigned,
    /// Its state is being loaded, or the load will be retried.
    Restoring,
    /// Records between the checkpoint and the committed offset are folded without output.
    Replaying,
    /// Records are folded and emitted; questions are answered.
    Live,
    /// It was revoked or lost; its worker has not let go of it yet.
    Draining,
    /// Its log is not the one that its state belongs to; an operator has to decide.
    Refused,
}

/// How a partition is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// The group waits: what is folded can still be committed.
    Graceful,
    /// Another instance may own it already: nothing can be committed.
    Lost,
}

/// What happened to a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionEvent {
    /// The group assigned it to this instance.
    Assigned,
    /// The group revoked it, or took it away without asking.
    Revoked(Revocation),
    /// Its state in memory can no longer be trusted: a commit is in doubt, records could not be read, or this instance is
    /// a new member of the group.
    RolledBack,
    /// The worker restored its state under this epoch; reading starts at the offset.
    Restored(Epoch, NextOffset),
    /// The worker could not restore it under this epoch; it will be retried.
    RestoreFailed(Epoch),
    /// The consumer holds it, and delivers its records from the offset that was asked for, if there was one.
    Positioned(Epoch),
    /// The consumer could not be positioned; the restore will be retried.
    PositionFailed(Epoch),
    /// Everything up to the committed offset is folded. May be reported before the consumer is positioned.
    CaughtUp(Epoch),
    /// Its log cannot be the one that its state belongs to.
    Refused(Arc<str>),
    /// The worker has let go of it.
    Drained,
    /// The consumer does not hold it any more.
    Released,
}

/// What the worker that owns the shard has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerAction {
    /// Load the state and report [`PartitionEvent::Restored`] or [`PartitionEvent::RestoreFailed`].
    Restore(Epoch),
    /// Commit what is folded, let go of the shard, and report [`PartitionEvent::Drained`].
    Drain,
    /// Let go of the shard without committing, and report [`PartitionEvent::Drained`].
    Discard,
}

/// What the thread that polls the consumer has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerAction {
    /// Answer the group's assignment: hold the partition, and read from the offset if there is one. It is held even while
    /// it cannot be restored, because the group gives away what its members do not hold without telling them.
    Hold(Epoch, Option<NextOffset>),
    /// Read from the offset, and nothing that was fetched before.
    Seek(Epoch, NextOffset),
    /// Give up the partition.
    Release,
}

/// The actions that are outstanding. Each is returned until its outcome is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actions {
    /// For the worker that owns the shard.
    pub worker: Option<WorkerAction>,
    /// For the thread that polls the consumer.
    pub consumer: Option<ConsumerAction>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Unassigned,
    /// The worker restores it, not before the given time.
    RestoreDue(Option<Instant>),
    /// Restored; the consumer has to be positioned.
    PositionDue {
        start: NextOffset,
        is_caught_up: bool,
    },
    Replaying,
    Live,
    Draining(Revocation),
    Refused(Arc<str>),
}

/// The control state of one partition on one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    stage: Stage,
    epoch: Epoch,
    retry_delay: Duration,
    is_held: bool,
}

impl Default for PartitionState {
    fn default() -> Self {
        Self { stage: Stage::Unassigned, epoch: Epoch(0), retry_delay: Duration::ZERO, is_held: false }
    }
}

impl PartitionState {
    /// Applies an event and returns what has to be done now.
    pub fn step(&mut self, event: PartitionEvent, now: Instant) -> Actions {
        match event {
            PartitionEvent::Assigned => self.begin(None),
            PartitionEvent::Revoked(revocation) => self.revoke(revocation),
            PartitionEvent::RolledBack => {
                if matches!(
                    self.stage,
                    Stage::RestoreDue(_) | Stage::PositionDue { .. } | Stage::Replaying | Stage::Live
                ) {
                    self.begin(None);
                }
            }
            PartitionEvent::Restored(epoch, start) if self.is_restoring(epoch) => {
                self.stage = Stage::PositionDue { start, is_caught_up: false };
            }
            PartitionEvent::RestoreFailed(epoch) if self.is_restoring(epoch) => self.retry(now),
            PartitionEvent::Positioned(epoch) => self.positioned(epoch),
            PartitionEvent::PositionFailed(epoch)
                if epoch == self.epoch && matches!(self.stage, Stage::PositionDue { .. }) =>
            {
                self.retry(now);
            }
            PartitionEvent::CaughtUp(epoch) if epoch == self.epoch => self.caught_up(),
            PartitionEvent::Refused(reason) => {
                if !matches!(self.stage, Stage::Unassigned | Stage::Draining(_)) {
                    self.stage = Stage::Refused(reason);
                }
            }
            PartitionEvent::Drained => {
                if matches!(self.stage, Stage::Draining(_)) {
                    self.stage = Stage::Unassigned;
                }
            }
            PartitionEvent::Released => self.is_held = false,
            // Reports of an earlier epoch.
            PartitionEvent::Restored(..)
            | PartitionEvent::RestoreFailed(_)
            | PartitionEvent::PositionFailed(_)
            | PartitionEvent::CaughtUp(_) => {}
        }
        self.actions(now)
    }

    /// The actions that are outstanding at `now`.
    pub fn actions(&self, now: Instant) -> Actions {
        Actions { worker: self.worker_action(now), consumer: self.consumer_action() }
    }

    fn worker_action(&self, now: Instant) -> Option<WorkerAction> {
        match self.stage {
            Stage::RestoreDue(at) => at.is_none_or(|at| at <= now).then_some(WorkerAction::Restore(self.epoch)),
            Stage::Draining(Revocation::Graceful) => Some(WorkerAction::Drain),
            Stage::Draining(Revocation::Lost) => Some(WorkerAction::Discard),
            Stage::Unassigned | Stage::PositionDue { .. } | Stage::Replaying | Stage::Live | Stage::Refused(_) => None,
        }
    }

    fn consumer_action(&self) -> Option<ConsumerAction> {
        match self.stage {
            Stage::RestoreDue(_) => (!self.is_held).then_some(ConsumerAction::Hold(self.epoch, None)),
            Stage::PositionDue { start, .. } if self.is_held => Some(ConsumerAction::Seek(self.epoch, start)),
            Stage::PositionDue { start, .. } => Some(ConsumerAction::Hold(self.epoch, Some(start))),
            Stage::Unassigned | Stage::Refused(_) => self.is_held.then_some(ConsumerAction::Release),
            Stage::Replaying | Stage::Live | Stage::Draining(_) => None,
        }
    }

    /// When a failed restore is retried, if one is waiting.
    pub fn retry_at(&self) -> Option<Instant> {
        match self.stage {
            Stage::RestoreDue(at) => at,
            _ => None,
        }
    }

    /// The phase, for readiness and status.
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Unassigned => Phase::Unassigned,
            Stage::RestoreDue(_) | Stage::PositionDue { .. } => Phase::Restoring,
            Stage::Replaying => Phase::Replaying,
            Stage::Live => Phase::Live,
            Stage::Draining(_) => Phase::Draining,
            Stage::Refused(_) => Phase::Refused,
        }
    }

    /// Why the partition is refused, if it is.
    pub fn refusal(&self) -> Option<&Arc<str>> {
        match &self.stage {
            Stage::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    /// The epoch of the present assignment or rollback.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the consumer holds the partition: only then may it be released or positioned.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether records fetched now go to the worker, and under which epoch.
    pub fn fetch_epoch(&self) -> Option<Epoch> {
        matches!(self.stage, Stage::Replaying | Stage::Live).then_some(self.epoch)
    }

    /// Whether [`PartitionEvent::CaughtUp`] was reported under this epoch.
    pub fn has_caught_up(&self, epoch: Epoch) -> bool {
        epoch == self.epoch && matches!(self.stage, Stage::Live | Stage::PositionDue { is_caught_up: true, .. })
    }

    /// Whether state that was restored under `epoch` may be committed.
    pub fn may_commit(&self, epoch: Epoch) -> bool {
        let is_owner = matches!(
            self.stage,
            Stage::PositionDue { .. } | Stage::Replaying | Stage::Live | Stage::Draining(Revocation::Graceful)
        );
        is_owner && epoch == self.epoch
    }

    fn is_restoring(&self, epoch: Epoch) -> bool {
        epoch == self.epoch && matches!(self.stage, Stage::RestoreDue(_))
    }

    fn begin(&mut self, at: Option<Instant>) {
        self.epoch.0 += 1;
        self.stage = Stage::RestoreDue(at);
    }

    fn retry(&mut self, now: Instant) {
        self.retry_delay = (2 * self.retry_delay).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
        self.begin(Some(now + self.retry_delay));
    }

    fn positioned(&mut self, epoch: Epoch) {
        // Even an outdated report says that the consumer holds the partition now.
        self.is_held = true;
        if epoch == self.epoch
            && let Stage::PositionDue { is_caught_up, .. } = self.stage
        {
            self.stage = if is_caught_up { Stage::Live } else { Stage::Replaying };
            self.retry_delay = Duration::ZERO;
        }
    }

    fn caught_up(&mut self) {
        match &mut self.stage {
            Stage::PositionDue { is_caught_up, .. } => *is_caught_up = true,
            Stage::Replaying => self.stage = Stage::Live,
            Stage::Unassigned | Stage::RestoreDue(_) | Stage::Live | Stage::Draining(_) | Stage::Refused(_) => {}
        }
    }

    fn revoke(&mut self, revocation: Revocation) {
        self.retry_delay = Duration::ZERO;
        self.stage = match self.stage {
            Stage::Unassigned => return,
            Stage::Draining(Revocation::Lost) => return,
            _ => Stage::Draining(revocation),
        };
        if revocation == Revocation::Lost {
            // Whatever was made of it counts no more, also for a worker that has not been told yet.
            self.epoch.0 += 1;
        }
    }
}
