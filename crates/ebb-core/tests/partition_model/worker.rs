//! The worker of an instance: restores, folds and commits, as the service does.

use ebb_core::NextOffset;
use ebb_core::partition::{PartitionEvent, Phase, WorkerAction};

use crate::group::{Checked, Group, PARTITIONS};
use crate::instance::{Instance, Loaded};
use crate::operation::Kind;

impl Group {
    pub fn restore_due(&mut self, i: usize) {
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

    pub fn fold(&mut self, i: usize, p: usize) {
        let Instance { states, loaded, .. } = &mut self.instances[i];
        if let Some(loaded) = loaded[p].as_mut().filter(|loaded| states[p].fetch_epoch() == Some(loaded.epoch)) {
            loaded.position += 1;
        }
    }

    pub fn deliver(&mut self, i: usize, p: usize) {
        let Instance { states, in_flight, .. } = &mut self.instances[i];
        match in_flight[p].take() {
            Some(epoch) if states[p].fetch_epoch() == Some(epoch) => self.fold(i, p),
            Some(_) => self.coverage.count(Kind::LateFetch),
            None => {}
        }
    }

    pub fn refuse(&mut self, i: usize, p: usize) {
        self.step(i, p, PartitionEvent::Refused("on purpose".into()));
        if self.instances[i].states[p].phase() == Phase::Refused {
            self.instances[i].loaded[p] = None;
            self.release_refused(i);
        }
    }

    /// Commits everything that is folded, if the membership is settled.
    pub fn commit(&mut self, i: usize) -> Checked {
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

    pub fn roll_back_all(&mut self, i: usize) {
        (0..PARTITIONS).for_each(|p| self.roll_back(i, p));
    }

    pub fn roll_back(&mut self, i: usize, p: usize) {
        self.instances[i].loaded[p] = None;
        self.step(i, p, PartitionEvent::RolledBack);
        if !self.guards.holds_while_restoring && self.instances[i].states[p].is_held() {
            self.step(i, p, PartitionEvent::Released);
            self.call(i, |client| client.unassign(1 << p));
        }
    }
}
