//! The coordinator of the group, with a cooperative sticky assignment. It knows members, generations and committed offsets,
//! not who folds what.

use std::collections::BTreeMap;

use crate::group::{PARTITIONS, Violation};

/// A set of partitions.
pub type Partitions = u8;

pub fn contains(set: Partitions, partition: usize) -> bool {
    set & 1 << partition != 0
}

pub fn members_of(set: Partitions) -> impl Iterator<Item = usize> {
    (0..PARTITIONS).filter(move |partition| contains(set, *partition))
}

#[derive(Debug)]
pub struct MemberRecord {
    pub instance: usize,
    pub assigned: Partitions,
}

#[derive(Debug, Default)]
pub struct Coordinator {
    pub generation: i32,
    pub members: BTreeMap<u32, MemberRecord>,
    next_member: u32,
    /// The instance that the assignor prefers for the first partition; the others follow in turn.
    pub preference: usize,
    pub needs_rebalance: bool,
    pub committed: [u64; PARTITIONS],
}

/// What a client tells when it joins.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    pub member: u32,
    pub held: Partitions,
    /// The generation in which it was assigned; older claims are ignored.
    pub generation: i32,
}

impl Coordinator {
    /// A new member id for an instance.
    pub fn join(&mut self, instance: usize) -> u32 {
        self.next_member += 1;
        self.members.insert(self.next_member, MemberRecord { instance, assigned: 0 });
        self.needs_rebalance = true;
        self.next_member
    }

    /// A static member returns: it gets a new id, the stored assignment, and no rebalance.
    pub fn replace(&mut self, old: u32) -> u32 {
        let record = self.members.remove(&old).expect("a static member is replaced while it is known");
        self.next_member += 1;
        self.members.insert(self.next_member, record);
        self.next_member
    }

    pub fn evict(&mut self, member: u32) {
        if self.members.remove(&member).is_some() {
            self.needs_rebalance = true;
        }
    }

    /// Decides a new generation from the members' claims.
    pub fn rebalance(&mut self, claims: &[Claim]) {
        let instances: Vec<usize> = self.members.values().map(|member| member.instance).collect();
        let previous = self.generation;
        (self.generation, self.needs_rebalance) = (previous + 1, false);
        self.members.values_mut().for_each(|member| member.assigned = 0);
        for partition in 0..PARTITIONS {
            let claimant = claims
                .iter()
                .find(|claim| claim.generation == previous && contains(claim.held, partition))
                .map(|claim| claim.member);
            let target = instances[(self.preference + partition) % instances.len()];
            let owner = self.members.iter_mut().find(|(_, member)| member.instance == target);
            let (target, record) = owner.expect("the target is a member");
            // A partition that moves is first revoked from its owner, and assigned in the next round.
            if claimant.is_none_or(|claimant| claimant == *target) {
                record.assigned |= 1 << partition;
            }
        }
    }

    /// Accepts a commit of any member of the present generation, as brokers do.
    pub fn commit(
        &mut self,
        member: u32,
        generation: i32,
        partition: usize,
        (base, position): (u64, u64),
    ) -> Result<bool, Violation> {
        if generation != self.generation || !self.members.contains_key(&member) {
            return Ok(false);
        }
        let committed = &mut self.committed[partition];
        if base != *committed {
            return Err(Violation::Commit { partition, committed: *committed, base });
        }
        *committed = position;
        Ok(true)
    }
}
