//! The simulated group: what operations do to it, and the checks.

use std::time::{Duration, Instant};

use ebb_core::partition::Phase;

use crate::client::Queued;
use crate::coordinator::{Claim, Coordinator, Partitions, contains};
use crate::instance::{Guards, Instance};
use crate::operation::{Coverage, Kind, Operation};

pub const PARTITIONS: usize = 3;
pub const INSTANCES: usize = 3;
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

pub struct Group {
    pub guards: Guards,
    pub is_static: bool,
    pub coordinator: Coordinator,
    pub instances: [Instance; INSTANCES],
    pub now: Instant,
    /// Clients act on the group as soon as they are called.
    pub is_eager: bool,
    pub coverage: Coverage,
}

pub type Checked = Result<(), Violation>;

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
    pub fn progress(&mut self) {
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
