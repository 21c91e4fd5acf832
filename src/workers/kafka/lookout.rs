//! Looks for partitions that the group has given to nobody and does not know of (see [`GroupInspector`]).

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::super::worker::StartError;
use super::Running;
use crate::kafka::{Fault, GroupInspector, Member, Settings, TopicPartition};

const LOOK_EVERY: Duration = Duration::from_secs(30);
/// What was seen once may be a rebalance half-way.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
const TURN: Duration = Duration::from_millis(200);

struct Lookout {
    roll: GroupInspector,
    /// This instance's own name in the group.
    name: String,
    parts: BTreeSet<TopicPartition>,
    running: Running,
}

/// Begins to look, where it can come to that; ends when the service stops.
pub(in crate::workers) fn look_out(
    settings: &Settings,
    parts: BTreeSet<TopicPartition>,
    running: Running,
) -> Result<(), StartError> {
    let Some(name) = settings.instance.clone().filter(|_| settings.uses_classic_protocol()) else { return Ok(()) };
    let roll = GroupInspector::new(settings)?;
    let lookout = Lookout { roll, name, parts, running };
    thread::Builder::new().name("lookout".into()).spawn(move || lookout.run())?;
    Ok(())
}

impl Lookout {
    fn run(self) {
        let (mut seen, mut wait) = (BTreeSet::new(), AGAIN_AFTER);
        while self.is_running_after(wait) {
            let orphans = self.look(&seen).unwrap_or_else(|fault| {
                tracing::debug!(%fault, "looking for partitions that nobody has");
                BTreeSet::new()
            });
            wait = if orphans.is_empty() { LOOK_EVERY } else { AGAIN_AFTER };
            seen = orphans;
        }
    }

    fn is_running_after(&self, wait: Duration) -> bool {
        let begun = Instant::now();
        loop {
            if self.running.is_stopping.load(Ordering::Acquire) {
                return false;
            }
            if begun.elapsed() >= wait {
                return true;
            }
            thread::sleep(TURN);
        }
    }

    /// What nobody has; acts on it when it was seen before.
    fn look(&self, seen: &BTreeSet<TopicPartition>) -> Result<BTreeSet<TopicPartition>, Fault> {
        let Some(members) = self.roll.members()? else { return Ok(BTreeSet::new()) };
        let orphans = orphans(&self.parts, &members);
        if !orphans.is_empty() && orphans == *seen && is_first(&self.name, &members) {
            tracing::warn!(partitions = orphans.len(), "nobody has these partitions: calling the group together");
            let topics: BTreeSet<&str> = self.parts.iter().map(|part| &*part.topic).collect();
            self.roll.trigger_rebalance(&topics.into_iter().collect::<Vec<_>>())?;
        }
        Ok(orphans)
    }
}

fn orphans(all: &BTreeSet<TopicPartition>, members: &[Member]) -> BTreeSet<TopicPartition> {
    let given: BTreeSet<&TopicPartition> = members.iter().flat_map(|member| &member.assignment).collect();
    all.iter().filter(|part| !given.contains(part)).cloned().collect()
}

/// Whether it is this instance's turn: one call is enough. Brokers put a member's own name before what they add to it.
fn is_first(name: &str, members: &[Member]) -> bool {
    let first = members.iter().map(|member| &member.id).min();
    first.and_then(|id| id.strip_prefix(name)).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_is_an_orphan_and_one_member_acts_on_it() {
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
