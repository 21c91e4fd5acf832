//! One instance of the service: the state machine, the membership tracker, and a worker that folds and commits. What it may
//! do is decided by the code under test; the guards that live in the shell around it can be removed one at a time.

use ebb_core::partition::{Epoch, Membership, MembershipTracker, PartitionState};

use crate::client::Client;
use crate::group::PARTITIONS;

/// Rules that the shell around the state machine follows.
#[derive(Debug, Clone, Copy)]
pub struct Guards {
    /// Pending revocations count as losses after every call that assigns or releases.
    pub distrusts_pending: bool,
    /// The client's queue is emptied, past events that a poll serves silently.
    pub drains_queue: bool,
    /// A partition stays assigned while it is restored.
    pub holds_while_restoring: bool,
    /// A new member id is noticed.
    pub checks_member_id: bool,
    /// Partitions without an owner are found.
    pub detects_orphans: bool,
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            distrusts_pending: true,
            drains_queue: true,
            holds_while_restoring: true,
            checks_member_id: true,
            detects_orphans: true,
        }
    }
}

impl Guards {
    /// Each guard's name, the guards with it, and the guards without it. A callback that stays in the queue is also noticed
    /// by the new member id, so that the queue's guard is tested without that one.
    pub fn each_removed() -> [(&'static str, Self, Self); 5] {
        let all = Self::default();
        let without_member_id = Self { checks_member_id: false, ..all };
        [
            ("distrusts_pending", all, Self { distrusts_pending: false, ..all }),
            ("drains_queue", without_member_id, Self { drains_queue: false, ..without_member_id }),
            ("holds_while_restoring", all, Self { holds_while_restoring: false, ..all }),
            ("checks_member_id", all, without_member_id),
            ("detects_orphans", all, Self { detects_orphans: false, ..all }),
        ]
    }
}

/// A restored shard: records from `base` to `position` are folded and not committed.
#[derive(Debug, Clone, Copy)]
pub struct Loaded {
    pub epoch: Epoch,
    pub base: u64,
    pub position: u64,
}

#[derive(Debug, Default)]
pub struct Instance {
    pub is_alive: bool,
    pub client: Client,
    pub tracker: MembershipTracker<usize, ()>,
    pub states: [PartitionState; PARTITIONS],
    pub loaded: [Option<Loaded>; PARTITIONS],
    /// Epochs of fetched records that have not reached the worker.
    pub in_flight: [Option<Epoch>; PARTITIONS],
    pub fails_restores: bool,
}

impl Instance {
    /// The membership as the tracker is told about it.
    pub fn membership(&self, guards: Guards) -> Option<Membership> {
        let now = self.client.membership()?;
        match guards.checks_member_id {
            true => Some(now),
            false => Some(Membership { member: "always the same".into(), ..now }),
        }
    }

    pub fn holds_any(&self) -> bool {
        self.client.held != 0
    }
}
