//! Finds partitions that the group has assigned to nobody and will not notice (see [`GroupInspector`]).
//!
//! A static member that gave up a partition and died before the group rebalanced again returns to the assignment that was
//! decided before, without a rebalance: the partition then has no owner. Static members therefore check the group now and
//! then, and one of them triggers a rebalance.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::poll::ShutdownFlags;
use crate::kafka::{Fault, GroupInspector, Member, Settings, TopicPartition};
use crate::workers::pool::StartError;

const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// What was seen once may be an unfinished rebalance.
const CONFIRM_AFTER: Duration = Duration::from_secs(5);
const SLEEP: Duration = Duration::from_millis(200);

/// Checks the group on a thread of its own.
pub(super) struct OrphanDetector {
    inspector: GroupInspector,
    /// This instance's own name in the group.
    name: String,
    partitions: BTreeSet<TopicPartition>,
    shutdown: ShutdownFlags,
}

impl OrphanDetector {
    /// Starts checking, if this instance is a static member; ends when the service stops.
    pub(super) fn start(
        settings: &Settings,
        partitions: BTreeSet<TopicPartition>,
        shutdown: ShutdownFlags,
    ) -> Result<(), StartError> {
        let Some(name) = settings.instance.clone().filter(|_| settings.uses_classic_protocol()) else { return Ok(()) };
        let inspector = GroupInspector::new(settings)?;
        let detector = Self { inspector, name, partitions, shutdown };
        thread::Builder::new().name("orphan-detector".into()).spawn(move || detector.run())?;
        Ok(())
    }

    fn run(self) {
        let (mut seen, mut wait) = (BTreeSet::new(), CONFIRM_AFTER);
        while self.is_running_after(wait) {
            let orphans = self.check(&seen).unwrap_or_else(|fault| {
                tracing::debug!(%fault, "the group's members could not be read, retrying");
                BTreeSet::new()
            });
            wait = if orphans.is_empty() { CHECK_INTERVAL } else { CONFIRM_AFTER };
            seen = orphans;
        }
    }

    fn is_running_after(&self, wait: Duration) -> bool {
        let started = Instant::now();
        loop {
            if self.shutdown.is_stopping.load(Ordering::Acquire) {
                return false;
            }
            if started.elapsed() >= wait {
                return true;
            }
            thread::sleep(SLEEP);
        }
    }

    /// The partitions without an owner; triggers a rebalance if they had none at the last check either.
    fn check(&self, seen: &BTreeSet<TopicPartition>) -> Result<BTreeSet<TopicPartition>, Fault> {
        let Some(members) = self.inspector.members()? else { return Ok(BTreeSet::new()) };
        let orphans = orphans(&self.partitions, &members);
        if !orphans.is_empty() && orphans == *seen && is_first(&self.name, &members) {
            tracing::warn!(partitions = orphans.len(), "partitions have no owner, triggering a rebalance");
            let topics: BTreeSet<&str> = self.partitions.iter().map(|one| &*one.topic).collect();
            self.inspector.trigger_rebalance(&topics.into_iter().collect::<Vec<_>>())?;
        }
        Ok(orphans)
    }
}

fn orphans(all: &BTreeSet<TopicPartition>, members: &[Member]) -> BTreeSet<TopicPartition> {
    let assigned: BTreeSet<&TopicPartition> = members.iter().flat_map(|member| &member.assignment).collect();
    all.iter().filter(|partition| !assigned.contains(partition)).cloned().collect()
}

/// Whether this instance acts: one is enough. Brokers put a static member's name before the rest of its member id.
fn is_first(name: &str, members: &[Member]) -> bool {
    let first = members.iter().map(|member| &member.id).min();
    first.and_then(|id| id.strip_prefix(name)).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unassigned_partitions_are_orphans_and_the_first_member_acts() {
        let part = |partition| TopicPartition { topic: "clicks".into(), partition };
        let member =
            |id: &str, parts: &[u32]| Member { id: id.into(), assignment: parts.iter().copied().map(part).collect() };
        let all: BTreeSet<TopicPartition> = (0..4).map(part).collect();
        let members = [member("ebb-1-x", &[2, 3]), member("ebb-0-y", &[])];
        assert_eq!(orphans(&all, &members), BTreeSet::from([part(0), part(1)]));
        assert!(orphans(&all, &[member("a", &[0, 3]), member("b", &[1, 2])]).is_empty());
        assert!(is_first("ebb-0", &members) && !is_first("ebb-1", &members) && !is_first("ebb", &[]));
    }
}
