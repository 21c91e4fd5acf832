//! A client that behaves like librdkafka: it joins on its own, queues callbacks, and takes every assigning or releasing call
//! for the answer to whatever is pending.

use std::collections::VecDeque;

use ebb_core::partition::Membership;

use crate::coordinator::{Claim, Partitions};

/// What waits in the client's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    Assign(Partitions),
    Revoke(Partitions),
    /// Something that a poll serves without returning anything.
    Statistic,
}

#[derive(Debug, Default)]
pub struct Client {
    pub member: Option<u32>,
    /// The generation that the client has joined.
    pub generation: i32,
    pub held: Partitions,
    pub queue: VecDeque<Queued>,
    /// Callbacks that are not answered, in order.
    pub unanswered: VecDeque<Queued>,
    /// The assignment was lost; cleared by the next answer.
    pub is_lost: bool,
    /// A revocation was answered: the client joins again to give the partitions to others.
    pub must_rejoin: bool,
}

impl Client {
    /// The membership that the client has now.
    pub fn membership(&self) -> Option<Membership> {
        let member = self.member.filter(|_| !self.is_lost && self.generation > 0)?;
        Some(Membership { member: member.to_string(), generation: self.generation })
    }

    pub fn claim(&self) -> Option<Claim> {
        Some(Claim { member: self.member?, held: self.held, generation: self.generation })
    }

    /// The group has decided; callbacks for the difference are queued.
    pub fn assigned(&mut self, generation: i32, assignment: Partitions) {
        self.generation = generation;
        let (revoked, added) = (self.held & !assignment, assignment & !self.held);
        if revoked != 0 {
            self.callback(Queued::Revoke(revoked));
        }
        self.callback(Queued::Assign(added));
    }

    pub fn callback(&mut self, callback: Queued) {
        self.queue.push_back(callback);
        self.unanswered.push_back(callback);
    }

    pub fn assign(&mut self, partitions: Partitions) {
        self.held |= partitions;
        self.answer();
    }

    pub fn unassign(&mut self, partitions: Partitions) {
        self.held &= !partitions;
        self.answer();
    }

    fn answer(&mut self) {
        if let Some(Queued::Revoke(_)) = self.unanswered.pop_front() {
            self.must_rejoin = true;
        }
    }
}
