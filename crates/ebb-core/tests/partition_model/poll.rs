//! The poll thread of an instance: answers rebalances and positions the client, as the service does.

use ebb_core::partition::{ConsumerAction, GroupEvent, PartitionEvent, Revocation};

use crate::client::{Client, Queued};
use crate::coordinator::{Partitions, members_of};
use crate::group::{Checked, Group, PARTITIONS};
use crate::instance::Instance;
use crate::operation::Kind;

impl Group {
    pub fn poll(&mut self, i: usize) -> Checked {
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

    pub fn next_event(&mut self, i: usize) -> Option<GroupEvent<usize, ()>> {
        let instance = &mut self.instances[i];
        let (now, holds_any) = (instance.membership(self.guards), instance.holds_any());
        instance.tracker.next(now, holds_any)
    }

    /// Takes one entry off the client's queue; whether it was a callback.
    pub fn poll_once(&mut self, i: usize) -> bool {
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

    pub fn settle(&mut self, i: usize) {
        let instance = &mut self.instances[i];
        let queue_is_empty = instance.client.queue.is_empty() || !self.guards.drains_queue;
        let (now, holds_any) = (instance.membership(self.guards), instance.holds_any());
        instance.tracker.settle(now, holds_any, queue_is_empty);
    }

    /// Calls the client, which acts on the group at once, and deals with the consequences.
    pub fn call(&mut self, i: usize, call: impl FnOnce(&mut Client)) {
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

    pub fn step(&mut self, i: usize, p: usize, event: PartitionEvent) {
        let now = self.now;
        self.instances[i].states[p].step(event, now);
    }

    pub fn assign(&mut self, i: usize, partitions: &[usize]) {
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

    pub fn revoke(&mut self, i: usize, partitions: &[usize], revocation: Revocation) -> Checked {
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

    pub fn release(&mut self, i: usize, is_chosen: impl Fn(usize) -> bool) {
        let chosen: Vec<usize> =
            (0..PARTITIONS).filter(|p| self.instances[i].states[*p].is_held() && is_chosen(*p)).collect();
        chosen.iter().for_each(|p| self.step(i, *p, PartitionEvent::Released));
        let set = chosen.iter().fold(0, |set, p| set | 1 << p);
        self.call(i, |client| client.unassign(set));
    }

    pub fn seek_restored(&mut self, i: usize) {
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

    pub fn release_refused(&mut self, i: usize) {
        let now = self.now;
        let is_refused =
            |one: &Instance, p: usize| one.states[p].actions(now).consumer == Some(ConsumerAction::Release);
        let refused: Vec<usize> = (0..PARTITIONS).filter(|p| is_refused(&self.instances[i], *p)).collect();
        if !refused.is_empty() {
            self.release(i, |p| refused.contains(&p));
        }
    }

    /// The client has stopped fetching a partition: it is rolled back, and assigned again instead of sought.
    pub fn reassign(&mut self, i: usize, p: usize) {
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
}
