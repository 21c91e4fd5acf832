//! Events of the consumer and what was fetched of a partition.

use std::sync::Arc;

use super::fault::Fault;
use super::raw::Message;
use ebb_core::NextOffset;
use ebb_core::partition::GroupEvent;

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: Arc<str>,
    pub partition: u32,
}

impl std::fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// Events returned by [`Consumer::poll`](super::Consumer::poll).
#[derive(Debug)]
pub enum ConsumerEvent {
    Idle,
    /// The group assigns these; the answer is [`Consumer::assign`](super::Consumer::assign).
    Assigned(Vec<TopicPartition>),
    /// The group revokes these; the answer is [`Consumer::unassign`](super::Consumer::unassign).
    Revoked(Vec<TopicPartition>),
    /// Other members may own these already: nothing can be committed for them.
    Lost(Vec<TopicPartition>),
    /// This instance has a new member id. Other members may have owned its partitions in between: nothing that was folded
    /// can be committed.
    MemberIdChanged,
    /// A record arrived outside of its partition's queue, because librdkafka recreated the partition: seek again.
    StrayRecord(TopicPartition),
    /// No broker can be reached.
    BrokersDown(String),
    /// The membership has ended permanently.
    Failed(Fault),
}

/// Consumer events that are not rebalances.
#[derive(Debug)]
pub(super) enum Notice {
    StrayRecord(TopicPartition),
    BrokersDown(String),
    Failed(Fault),
}

impl From<GroupEvent<TopicPartition, Notice>> for ConsumerEvent {
    fn from(event: GroupEvent<TopicPartition, Notice>) -> Self {
        match event {
            GroupEvent::Assigned(partitions) => Self::Assigned(partitions),
            GroupEvent::Revoked(partitions) => Self::Revoked(partitions),
            GroupEvent::Lost(partitions) => Self::Lost(partitions),
            GroupEvent::MemberIdChanged => Self::MemberIdChanged,
            GroupEvent::Other(Notice::StrayRecord(partition)) => Self::StrayRecord(partition),
            GroupEvent::Other(Notice::BrokersDown(reason)) => Self::BrokersDown(reason),
            GroupEvent::Other(Notice::Failed(fault)) => Self::Failed(fault),
        }
    }
}

/// What was fetched of a partition.
#[derive(Debug)]
pub enum Fetched {
    /// In the order of their offsets; never empty.
    Records(Vec<Message>),
    /// Every record before this offset was fetched.
    UpTo(NextOffset),
    /// The position is outside of the log.
    OutOfRange,
    /// Records here could not be decoded and librdkafka skipped them: what follows must not be processed.
    Corrupt(String),
    Error(Fault),
}
