//! The simulated group: operations, the shell of each instance, and the checks.

use std::time::{Duration, Instant};

use ebb_core::NextOffset;
use ebb_core::partition::{ConsumerAction, GroupEvent, PartitionEvent, Phase, Revocation, WorkerAction};
use ebb_sketch::random::Random;

use crate::client::Queued;
use crate::coordinator::{Claim, Coordinator, Partitions, contains, members_of};
use crate::instance::{Guards, Instance, Loaded};

pub const PARTITIONS: usize = 3;
const INSTANCES: usize = 3;
/// Rounds after which every partition must have an owner once the faults have ended.
const QUIET_ROUNDS: usize = 40;

/// What must never happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// An accepted commit does not continue where the last one ended: records are lost or processed twice.
    Commit { partition: usize, committed: u64, base: u64 },
    /// The group assigns a partition to nobody and does not notice.
    Orphan { partition: usize },
    /// After a rebalance without faults a partition is not live on exactly one instance.
    Owners { partition: usize, live: Vec<usize> },
}

/// One step of a sequence; the first number is an instance, the second a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Start(usize),
    Crash(usize),
    Stop(usize),
    Poll(usize),
    /// Polls, and the client does not join again yet.
    PollWithoutRejoin(usize),
    Fold(usize, usize),
    /// Fetches records that reach the worker later.
    Fetch(usize, usize),
    Deliver(usize, usize),
    Commit(usize),
    /// The commit is accepted, and nobody hears of it.
    CommitInDoubt(usize),
    Restore(usize),
    FailRestores(usize),
    /// The fetcher of a partition stops: it is rolled back, released and assigned again.
    StopFetcher(usize, usize),
    Refuse(usize, usize),
    QueueStatistic(usize),
    /// The coordinator removes the member.
    ExpireSession(usize),
    /// The client hears that its member was removed.
    NoticeExpiry(usize),
    /// A static member joins under a new id without hearing that it was removed.
    RejoinSilently(usize),
    /// The group rebalances with another preference.
    Rebalance(usize),
}

impl Operation {
    pub fn random(random: &mut Random) -> Self {
        let i = random.below(INSTANCES as u64) as usize;
        let p = random.below(PARTITIONS as u64) as usize;
        match random.below(40) {
            0..=2 => Self::Start(i),
            3 => Self::Crash(i),
            4 => Self::Stop(i),
            5..=14 => Self::Poll(i),
            15 => Self::PollWithoutRejoin(i),
            16..=20 => Self::Fold(i, p),
            21 => Self::Fetch(i, p),
            22 => Self::Deliver(i, p),
            23..=25 => Self::Commit(i),
            26 => Self::CommitInDoubt(i),
            27..=28 => Self::Restore(i),
            29 => Self::FailRestores(i),
            30 => Self::StopFetcher(i, p),
            31 => Self::Refuse(i, p),
            32 => Self::QueueStatistic(i),
            33..=34 => Self::ExpireSession(i),
            35..=36 => Self::NoticeExpiry(i),
            37 => Self::RejoinSilently(i),
            _ => Self::Rebalance(i),
        }
    }
}

/// How often each kind of event happened.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    counts: [u64; 11],
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Assigned,
    Revoked,
    Lost,
    MemberIdChanged,
    Commit,
    Fenced,
    Doubt,
    LateFetch,
    RestoreFailed,
    Seek,
    OutdatedCommit,
}

impl Coverage {
    fn count(&mut self, kind: Kind) {
        self.counts[kind as usize] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, one)| *sum += one);
    }

    /// Every kind but the last must happen; commits of outdated state are stopped by a second line of defence.
    pub fn is_complete(&self) -> bool {
        self.counts[..Kind::OutdatedCommit as usize].iter().all(|count| *count > 0)
    }
}

pub struct Group {
    guards: Guards,
    is_static: bool,
    coordinator: Coordinator,
    instances: [Instance; INSTANCES],
    now: Instant,
    /// Clients act on the group as soon as they are called.
    is_eager: bool,
    pub coverage: Coverage,
}

type Checked = Result<(), Violation>;

impl Group {
    pub fn new(guards: Guards, is_static: bool) -> Self {
        Self {
            guards,
            is_static,
            coordinator: Coordinator::default(),
            instances: Default::default(),
            now: Instant::now(),
            is_eager: true,
            coverage: Coverage::default(),
        }
    }

    pub fn perform(&mut self, operation: Operation) -> Checked {
        match operation {
            Operation::Start(i) => self.start(i),
            Operation::Crash(i) => self.instances[i] = Instance::default(),
            Operation::Stop(i) => self.stop(i)?,
            Operation::Poll(i) => self.poll(i)?,
            Operation::PollWithoutRejoin(i) => {
                self.is_eager = false;
                let polled = self.poll(i);
                self.is_eager = true;
                return polled;
            }
            Operation::Fold(i, p) => self.fold(i, p),
            Operation::Fetch(i, p) => self.instances[i].in_flight[p] = self.instances[i].states[p].fetch_epoch(),
            Operation::Deliver(i, p) => self.deliver(i, p),
            Operation::Commit(i) => self.commit(i)?,
            Operation::CommitInDoubt(i) => {
                self.coverage.count(Kind::Doubt);
                self.commit(i)?;
                self.roll_back_all(i);
            }
            Operation::Restore(i) => self.restore_due(i),
            Operation::FailRestores(i) => self.instances[i].fails_restores ^= true,
            Operation::StopFetcher(i, p) => self.reassign(i, p),
            Operation::Refuse(i, p) => self.refuse(i, p),
            Operation::QueueStatistic(i) => self.instances[i].client.queue.push_back(Queued::Statistic),
            Operation::ExpireSession(i) => self.expire_session(i),
            Operation::NoticeExpiry(i) => self.notice_expiry(i),
            Operation::RejoinSilently(i) => self.rejoin_silently(i),
            Operation::Rebalance(i) => (self.coordinator.preference, self.coordinator.needs_rebalance) = (i, true),
        }
        self.progress();
        self.now += Duration::from_millis(150);
        Ok(())
    }

    // The group.

    fn start(&mut self, i: usize) {
        if self.instances[i].is_alive {
            return;
        }
        let mut instance = Instance { is_alive: true, ..Instance::default() };
        let known = self.coordinator.members.iter().find(|(_, member)| member.instance == i).map(|(id, _)| *id);
        match known {
            Some(old) if self.is_static => {
                let member = self.coordinator.replace(old);
                instance.client.member = Some(member);
                instance.client.assigned(self.coordinator.generation, self.coordinator.members[&member].assigned);
            }
            // The old member stays until its session expires.
            _ => instance.client.member = Some(self.coordinator.join(i)),
        }
        self.instances[i] = instance;
    }

    fn stop(&mut self, i: usize) -> Checked {
        self.commit(i)?;
        if let Some(member) = self.instances[i].client.member {
            self.coordinator.evict(member);
        }
        self.instances[i] = Instance::default();
        Ok(())
    }

    fn expire_session(&mut self, i: usize) {
        let expired = self.coordinator.members.iter().find(|(_, member)| member.instance == i).map(|(id, _)| *id);
        if let Some(member) = expired {
            self.coordinator.evict(member);
        }
    }

    fn is_expired(&self, i: usize) -> bool {
        let client = &self.instances[i].client;
        !client.is_lost && client.member.is_some_and(|member| !self.coordinator.members.contains_key(&member))
    }

    fn notice_expiry(&mut self, i: usize) {
        // A rebalance that is under way is finished first.
        if self.is_expired(i) && self.instances[i].client.unanswered.is_empty() {
            let client = &mut self.instances[i].client;
            client.is_lost = true;
            client.callback(Queued::Revoke(client.held));
        }
    }

    fn rejoin_silently(&mut self, i: usize) {
        if self.is_static && self.is_expired(i) && self.instances[i].client.unanswered.is_empty() {
            self.instances[i].client.member = Some(self.coordinator.join(i));
        }
    }

    /// What clients and the coordinator do on their own.
    fn progress(&mut self) {
        if !self.is_eager {
            return;
        }
        for i in 0..INSTANCES {
            let client = &mut self.instances[i].client;
            if client.is_lost && client.unanswered.is_empty() {
                client.is_lost = false;
                client.member = Some(self.coordinator.join(i));
            }
            if client.must_rejoin && client.unanswered.is_empty() {
                client.must_rejoin = false;
                self.coordinator.needs_rebalance = true;
            }
        }
        let mut claims: Vec<Claim> = Vec::new();
        for (id, member) in &self.coordinator.members {
            let client = &self.instances[member.instance].client;
            let is_ready = client.member == Some(*id) && client.unanswered.is_empty() && !client.is_lost;
            match client.claim().filter(|_| is_ready) {
                Some(claim) => claims.push(claim),
                None => return,
            }
        }
        if self.coordinator.needs_rebalance && !claims.is_empty() {
            self.coordinator.rebalance(&claims);
            for (id, member) in &self.coordinator.members {
                let client = &mut self.instances[member.instance].client;
                debug_assert_eq!(client.member, Some(*id));
                client.assigned(self.coordinator.generation, member.assigned);
            }
        }
    }

    // The shell of an instance.

    fn poll(&mut self, i: usize) -> Checked {
        if !self.instances[i].is_alive {
            return Ok(());
        }
        let mut event = self.next_event(i);
        if event.is_none() {
            self.poll_once(i);
            event = self.next_event(i);
        }
        match event {
            None => self.settle(i),
            Some(GroupEvent::Assigned(partitions)) => self.assign(i, &partitions),
            Some(GroupEvent::Revoked(partitions)) => {
                self.coverage.count(Kind::Revoked);
                self.revoke(i, &partitions, Revocation::Graceful)?;
            }
            Some(GroupEvent::Lost(partitions)) => {
                self.coverage.count(Kind::Lost);
                self.revoke(i, &partitions, Revocation::Lost)?;
            }
            Some(GroupEvent::MemberIdChanged) => {
                self.coverage.count(Kind::MemberIdChanged);
                self.roll_back_all(i);
            }
            Some(GroupEvent::Other(())) => {}
        }
        self.seek_restored(i);
        self.release_refused(i);
        Ok(())
    }

    fn next_event(&mut self, i: usize) -> Option<GroupEvent<usize, ()>> {
        let instance = &mut self.instances[i];
        let (now, holds_any) = (instance.membership(self.guards), instance.holds_any());
        instance.tracker.next(now, holds_any)
    }

    /// Takes one entry off the client's queue; whether it was a callback.
    fn poll_once(&mut self, i: usize) -> bool {
        let Instance { client, tracker, .. } = &mut self.instances[i];
        let list = |set: Partitions| members_of(set).collect::<Vec<_>>();
        match client.queue.pop_front() {
            Some(Queued::Assign(set)) => tracker.push(GroupEvent::Assigned(list(set))),
            Some(Queued::Revoke(set)) if client.is_lost => tracker.push(GroupEvent::Lost(list(set))),
            Some(Queued::Revoke(set)) => tracker.push(GroupEvent::Revoked(list(set))),
            Some(Queued::Statistic) | None => return false,
        }
        true
    }

    fn settle(&mut self, i: usize) {
        let instance = &mut self.instances[i];
        let queue_is_empty = instance.client.queue.is_empty() || !self.guards.drains_queue;
        let (now, holds_any) = (instance.membership(self.guards), instance.holds_any());
        instance.tracker.settle(now, holds_any, queue_is_empty);
    }

    /// Calls the client, which acts on the group at once, and deals with the consequences.
    fn call(&mut self, i: usize, call: impl FnOnce(&mut crate::client::Client)) {
        call(&mut self.instances[i].client);
        self.progress();
        while !self.instances[i].client.queue.is_empty() {
            if !self.poll_once(i) && !self.guards.drains_queue {
                break;
            }
        }
        if self.guards.distrusts_pending {
            let now = self.instances[i].membership(self.guards);
            self.instances[i].tracker.distrust_pending(now);
        }
    }

    fn step(&mut self, i: usize, p: usize, event: PartitionEvent) {
        let now = self.now;
        self.instances[i].states[p].step(event, now);
    }

    fn assign(&mut self, i: usize, partitions: &[usize]) {
        self.coverage.count(Kind::Assigned);
        partitions.iter().for_each(|p| self.step(i, *p, PartitionEvent::Assigned));
        self.restore_due(i);
        let (now, mut set) = (self.now, 0);
        let mut held = Vec::new();
        for p in partitions {
            if let Some(ConsumerAction::Hold(epoch, start)) = self.instances[i].states[*p].actions(now).consumer
                && (start.is_some() || self.guards.holds_while_restoring)
            {
                set |= 1 << p;
                held.push((*p, epoch));
            }
        }
        let earlier_answer = self.instances[i].tracker.take_earlier_answer();
        self.call(i, |client| client.assign(set));
        if let Some(before) = earlier_answer {
            if self.instances[i].membership(self.guards) != before {
                // The service ends in this case.
                self.instances[i] = Instance::default();
                return;
            }
            self.instances[i].tracker.reassigned(before);
        }
        held.into_iter().for_each(|(p, epoch)| self.step(i, p, PartitionEvent::Positioned(epoch)));
    }

    fn revoke(&mut self, i: usize, partitions: &[usize], revocation: Revocation) -> Checked {
        partitions.iter().for_each(|p| self.step(i, *p, PartitionEvent::Revoked(revocation)));
        if revocation == Revocation::Graceful {
            self.commit(i)?;
        }
        for p in partitions {
            self.instances[i].loaded[*p] = None;
            self.step(i, *p, PartitionEvent::Drained);
        }
        self.release(i, |p| partitions.contains(&p));
        Ok(())
    }

    fn release(&mut self, i: usize, is_chosen: impl Fn(usize) -> bool) {
        let chosen: Vec<usize> =
            (0..PARTITIONS).filter(|p| self.instances[i].states[*p].is_held() && is_chosen(*p)).collect();
        chosen.iter().for_each(|p| self.step(i, *p, PartitionEvent::Released));
        let set = chosen.iter().fold(0, |set, p| set | 1 << p);
        self.call(i, |client| client.unassign(set));
    }

    fn seek_restored(&mut self, i: usize) {
        for p in 0..PARTITIONS {
            match self.instances[i].states[p].actions(self.now).consumer {
                Some(ConsumerAction::Seek(epoch, _)) => {
                    self.coverage.count(Kind::Seek);
                    self.step(i, p, PartitionEvent::Positioned(epoch));
                }
                // Only without the guard: a partition that was released for its restore is assigned again.
                Some(ConsumerAction::Hold(epoch, Some(_))) if !self.guards.holds_while_restoring => {
                    self.call(i, |client| client.assign(1 << p));
                    self.step(i, p, PartitionEvent::Positioned(epoch));
                }
                Some(ConsumerAction::Hold(..) | ConsumerAction::Release) | None => {}
            }
        }
    }

    fn release_refused(&mut self, i: usize) {
        let now = self.now;
        let is_refused =
            |one: &Instance, p: usize| one.states[p].actions(now).consumer == Some(ConsumerAction::Release);
        let refused: Vec<usize> = (0..PARTITIONS).filter(|p| is_refused(&self.instances[i], *p)).collect();
        if !refused.is_empty() {
            self.release(i, |p| refused.contains(&p));
        }
    }

    /// The client has stopped fetching a partition: it is rolled back, and assigned again instead of sought.
    fn reassign(&mut self, i: usize, p: usize) {
        if !self.instances[i].states[p].is_held() || self.instances[i].states[p].fetch_epoch().is_none() {
            return;
        }
        let before = self.instances[i].membership(self.guards);
        self.call(i, |client| client.unassign(1 << p));
        self.call(i, |client| client.assign(1 << p));
        if self.instances[i].membership(self.guards) != before {
            // The service ends in this case.
            self.instances[i] = Instance::default();
            return;
        }
        self.instances[i].tracker.reassigned(before);
        self.roll_back(i, p);
    }

    // The worker of an instance.

    fn restore_due(&mut self, i: usize) {
        for p in 0..PARTITIONS {
            let Some(WorkerAction::Restore(epoch)) = self.instances[i].states[p].actions(self.now).worker else {
                continue;
            };
            if self.instances[i].fails_restores {
                self.coverage.count(Kind::RestoreFailed);
                self.step(i, p, PartitionEvent::RestoreFailed(epoch));
                continue;
            }
            let base = self.coordinator.committed[p];
            self.instances[i].loaded[p] = Some(Loaded { epoch, base, position: base });
            self.step(i, p, PartitionEvent::Restored(epoch, NextOffset(base)));
            self.step(i, p, PartitionEvent::CaughtUp(epoch));
        }
    }

    fn fold(&mut self, i: usize, p: usize) {
        let Instance { states, loaded, .. } = &mut self.instances[i];
        if let Some(loaded) = loaded[p].as_mut().filter(|loaded| states[p].fetch_epoch() == Some(loaded.epoch)) {
            loaded.position += 1;
        }
    }

    fn deliver(&mut self, i: usize, p: usize) {
        let Instance { states, in_flight, .. } = &mut self.instances[i];
        match in_flight[p].take() {
            Some(epoch) if states[p].fetch_epoch() == Some(epoch) => self.fold(i, p),
            Some(_) => self.coverage.count(Kind::LateFetch),
            None => {}
        }
    }

    fn refuse(&mut self, i: usize, p: usize) {
        self.step(i, p, PartitionEvent::Refused("on purpose".into()));
        if self.instances[i].states[p].phase() == Phase::Refused {
            self.instances[i].loaded[p] = None;
            self.release_refused(i);
        }
    }

    /// Commits everything that is folded, if the membership is settled.
    fn commit(&mut self, i: usize) -> Checked {
        let instance = &self.instances[i];
        let now = instance.membership(self.guards);
        if !instance.is_alive || !instance.tracker.is_settled(now.as_ref()) {
            return Ok(());
        }
        let dirty: Vec<(usize, Loaded)> = (0..PARTITIONS)
            .filter_map(|p| Some((p, instance.loaded[p]?)))
            .filter(|(_, loaded)| loaded.position > loaded.base)
            .collect();
        if dirty.iter().any(|(p, loaded)| !instance.states[*p].may_commit(loaded.epoch)) {
            self.coverage.count(Kind::OutdatedCommit);
            self.roll_back_all(i);
            return Ok(());
        }
        let (Some(member), generation) = (instance.client.member, instance.client.generation) else { return Ok(()) };
        for (p, loaded) in dirty {
            if !self.coordinator.commit(member, generation, p, (loaded.base, loaded.position))? {
                self.coverage.count(Kind::Fenced);
                self.roll_back_all(i);
                return Ok(());
            }
            self.coverage.count(Kind::Commit);
            if let Some(loaded) = &mut self.instances[i].loaded[p] {
                loaded.base = loaded.position;
            }
        }
        Ok(())
    }

    fn roll_back_all(&mut self, i: usize) {
        (0..PARTITIONS).for_each(|p| self.roll_back(i, p));
    }

    fn roll_back(&mut self, i: usize, p: usize) {
        self.instances[i].loaded[p] = None;
        self.step(i, p, PartitionEvent::RolledBack);
        if !self.guards.holds_while_restoring && self.instances[i].states[p].is_held() {
            self.step(i, p, PartitionEvent::Released);
            self.call(i, |client| client.unassign(1 << p));
        }
    }

    // The end of a sequence.

    /// Ends all faults; every partition must be assigned and, after a rebalance, be live on exactly one instance.
    pub fn quiesce(&mut self) -> Checked {
        for i in 0..INSTANCES {
            self.instances[i].fails_restores = false;
            let is_refused = self.instances[i].states.iter().any(|state| state.phase() == Phase::Refused);
            if !self.instances[i].is_alive || is_refused {
                self.expire_session(i);
                self.instances[i] = Instance::default();
            }
        }
        let current: Vec<Option<u32>> = self.instances.iter().map(|one| one.client.member).collect();
        let gone = self.coordinator.members.iter().filter(|(id, member)| current[member.instance] != Some(**id));
        let gone: Vec<u32> = gone.map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|member| self.coordinator.evict(member));
        self.start(0);
        for _ in 0..QUIET_ROUNDS {
            self.quiet_round()?;
        }
        let assigned = self.assigned();
        if let Some(partition) = (0..PARTITIONS).find(|p| !contains(assigned, *p)) {
            return Err(Violation::Orphan { partition });
        }
        // A partition that the client gave up while the group considers it assigned is assigned again by a rebalance.
        self.coordinator.needs_rebalance = true;
        for _ in 0..QUIET_ROUNDS {
            self.quiet_round()?;
        }
        for p in 0..PARTITIONS {
            let is_live = |i: &usize| self.instances[*i].states[p].phase() == Phase::Live;
            let live: Vec<usize> = (0..INSTANCES).filter(is_live).collect();
            if live.len() != 1 {
                return Err(Violation::Owners { partition: p, live });
            }
        }
        Ok(())
    }

    fn assigned(&self) -> Partitions {
        self.coordinator.members.values().fold(0, |set, member| set | member.assigned)
    }

    fn quiet_round(&mut self) -> Checked {
        self.now += Duration::from_secs(10);
        let assigned = self.assigned();
        let has_orphans = (0..PARTITIONS).any(|p| !contains(assigned, p));
        if has_orphans && self.guards.detects_orphans {
            self.coordinator.needs_rebalance = true;
        }
        // An orchestrator restarts what has ended.
        if self.instances[0].client.member.is_none() {
            self.expire_session(0);
            self.start(0);
        }
        for i in 0..INSTANCES {
            if !self.instances[i].is_alive {
                self.expire_session(i);
            }
            self.notice_expiry(i);
            self.progress();
            self.poll(i)?;
            self.restore_due(i);
            (0..PARTITIONS).for_each(|p| self.fold(i, p));
            self.commit(i)?;
        }
        Ok(())
    }
}
