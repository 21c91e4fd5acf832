//! Which rebalance callbacks can be trusted, and under which membership offsets may be committed.
//!
//! The Kafka client joins, leaves and rejoins the group on a thread of its own and reports it by callbacks that the
//! application polls. It may therefore be a member again, with a new generation, before the application has heard that it
//! lost everything. Four properties of librdkafka make that dangerous, and each has its rule here:
//!
//! 1. Any call that assigns or releases partitions is taken as the answer to whatever rebalance is pending, also one that
//!    the application has not polled yet. After every such call the pending revocations count as losses, and pending
//!    assignments are only good for the membership of that moment ([`MembershipTracker::distrust_pending`]).
//! 2. A poll that returns nothing may have served a statistic while a callback is still queued. The membership is settled
//!    only when the client's queue is empty ([`MembershipTracker::settle`]).
//! 3. A partition that was released and assigned again is not claimed by a join that happened in between. The next
//!    rebalance after that counts as a loss ([`MembershipTracker::reassigned`]).
//! 4. A static member whose session expired while it was joining gets a new member id, and no callback. A new id means that
//!    everything held begins again ([`GroupEvent::MemberIdChanged`]).

use std::collections::VecDeque;

/// A member of a consumer group in one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The member id that the coordinator gave.
    pub member: String,
    /// The generation of the group.
    pub generation: i32,
}

/// Something the client reported, in order. `P` names a partition, `E` is any other event of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEvent<P, E> {
    /// The group assigns partitions; the client waits for the answer.
    Assigned(Vec<P>),
    /// The group revokes partitions and waits for the answer: what is processed can still be committed.
    Revoked(Vec<P>),
    /// Other members may own these already: nothing can be committed for them.
    Lost(Vec<P>),
    /// This client is another member than the one its partitions were assigned to.
    MemberIdChanged,
    /// Anything else.
    Other(E),
}

impl<P, E> GroupEvent<P, E> {
    fn is_rebalance(&self) -> bool {
        matches!(self, Self::Assigned(_) | Self::Revoked(_) | Self::Lost(_))
    }

    /// The same event, when what it revokes may belong to another member already.
    fn distrusted(self) -> Self {
        match self {
            Self::Revoked(partitions) => Self::Lost(partitions),
            other => other,
        }
    }
}

/// Orders the client's reports and decides when offsets may be committed.
#[derive(Debug)]
pub struct MembershipTracker<P, E> {
    pending: VecDeque<GroupEvent<P, E>>,
    /// The member id that the partitions held now were assigned to.
    member: Option<String>,
    /// The membership under which partitions were last released and assigned again, until the group has rebalanced.
    reassigned_under: Option<Option<Membership>>,
    /// The membership under which a pending assignment was answered by another call, until it is answered itself.
    answered_under: Option<Option<Membership>>,
    /// The membership whose consequences have all been dealt with.
    settled: Option<Membership>,
}

impl<P, E> Default for MembershipTracker<P, E> {
    fn default() -> Self {
        Self { pending: VecDeque::new(), member: None, reassigned_under: None, answered_under: None, settled: None }
    }
}

impl<P, E> MembershipTracker<P, E> {
    /// Queues what the client reported.
    pub fn push(&mut self, event: GroupEvent<P, E>) {
        self.pending.push_back(event);
    }

    /// Whether events wait to be dealt with.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The next event to deal with. `now` is the membership that the client has at this moment; `holds_any` says whether it
    /// holds partitions.
    pub fn next(&mut self, now: Option<Membership>, holds_any: bool) -> Option<GroupEvent<P, E>> {
        let mut event = self.pending.pop_front()?;
        let is_last = !self.pending.iter().any(GroupEvent::is_rebalance);
        if let GroupEvent::Assigned(partitions) = &mut event
            && !partitions.is_empty()
            && self.answered_under.as_ref().is_some_and(|then| *then != now)
        {
            // The group took the call for the whole answer, has rebalanced since, and may have assigned them to others.
            self.answered_under = None;
            event = GroupEvent::Lost(std::mem::take(partitions));
        }
        if matches!(event, GroupEvent::Assigned(_) | GroupEvent::Revoked(_)) {
            if self.has_rebalanced(now.as_ref()) {
                self.reassigned_under = None;
                event = event.distrusted();
            }
            if matches!(event, GroupEvent::Assigned(_) | GroupEvent::Revoked(_)) {
                if self.is_other_member(now.as_ref(), holds_any) {
                    self.member = None;
                    self.pending.push_front(event.distrusted());
                    return Some(GroupEvent::MemberIdChanged);
                }
                if is_last {
                    self.note(now);
                }
            }
        }
        if let GroupEvent::Lost(_) = event {
            // What is lost may belong to another member in the membership that the client has now.
            self.member = None;
        }
        Some(event)
    }

    /// To be called after partitions were assigned or released, once every queued callback is pushed: the client has taken
    /// that call for the answer to all of them. `now` is the membership after the call.
    ///
    /// Every rebalance ends with one assignment, which may be empty. One that is followed by another is therefore outdated,
    /// and its partitions may belong to others; the last one is good for as long as the membership stays.
    pub fn distrust_pending(&mut self, now: Option<Membership>) {
        let is_assignment = |event: &GroupEvent<P, E>| matches!(event, GroupEvent::Assigned(_));
        let last = self.pending.iter().rposition(is_assignment);
        for (index, event) in self.pending.iter_mut().enumerate() {
            match event {
                GroupEvent::Assigned(partitions) if Some(index) != last && !partitions.is_empty() => {
                    *event = GroupEvent::Lost(std::mem::take(partitions));
                }
                GroupEvent::Revoked(partitions) => *event = GroupEvent::Lost(std::mem::take(partitions)),
                GroupEvent::Assigned(_) | GroupEvent::Lost(_) | GroupEvent::MemberIdChanged | GroupEvent::Other(_) => {}
            }
        }
        if last.is_some() {
            self.answered_under.get_or_insert(now);
        }
    }

    /// To be called when an assignment is answered. Returns the membership under which the client has taken another call for
    /// the answer, if it has: if the membership has changed since, the partitions may belong to others; if not, the
    /// partitions count as [`reassigned`](Self::reassigned).
    pub fn take_earlier_answer(&mut self) -> Option<Option<Membership>> {
        self.answered_under.take()
    }

    /// To be called after partitions were released and assigned again under the membership `before`.
    pub fn reassigned(&mut self, before: Option<Membership>) {
        self.reassigned_under = Some(before);
    }

    /// Allows commits under the membership `now`, if nothing is pending. `queue_is_empty` says that the client has no
    /// callback left to deliver; a poll that returned nothing does not.
    pub fn settle(&mut self, now: Option<Membership>, holds_any: bool, queue_is_empty: bool) {
        let is_idle = queue_is_empty && self.pending.is_empty();
        if is_idle && !self.is_other_member(now.as_ref(), holds_any) && !self.has_rebalanced(now.as_ref()) {
            self.note(now);
        }
    }

    /// Whether offsets may be committed under the membership that the client has now. The brokers check only that the
    /// committer is a member.
    pub fn is_settled(&self, now: Option<&Membership>) -> bool {
        now.is_some() && self.settled.as_ref() == now
    }

    fn note(&mut self, now: Option<Membership>) {
        self.member = now.as_ref().map(|now| now.member.clone()).or(self.member.take());
        self.settled = now;
    }

    fn is_other_member(&self, now: Option<&Membership>, holds_any: bool) -> bool {
        holds_any && matches!((&self.member, now), (Some(member), Some(now)) if *member != now.member)
    }

    fn has_rebalanced(&self, now: Option<&Membership>) -> bool {
        self.reassigned_under.as_ref().is_some_and(|then| then.as_ref() != now)
    }
}
