//! What polling and taking come to.

use std::sync::Arc;

use super::fault::Fault;
use super::raw::Message;
use ebb_core::NextOffset;

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

/// What polling came to.
#[derive(Debug)]
pub enum Event {
    Quiet,
    /// These are to be ours, once [`assign`](super::Consumer::assign) is called.
    Assign(Vec<TopicPartition>),
    /// These are to be another's, once [`release`](super::Consumer::release) is called.
    Revoke(Vec<TopicPartition>),
    /// These are another's already: nothing can be committed for them.
    Lost(Vec<TopicPartition>),
    /// We are another member than before, and what is held may have been another's meanwhile: nothing that was made of it
    /// can be committed.
    MemberIdChanged,
    /// A record of this came outside of its queue: librdkafka has made the partition anew. It must be sought again.
    Stray(TopicPartition),
    /// No broker can be reached.
    Down(String),
    /// The membership has ended for good.
    Failed(Fault),
}

impl Event {
    /// What was asked of somebody whose partitions may be another's already.
    pub(super) fn distrusted(self) -> Self {
        match self {
            Event::Revoke(parts) => Event::Lost(parts),
            other => other,
        }
    }
}

/// What a partition's queue held.
#[derive(Debug)]
pub enum Taken {
    /// In the order of their offsets; never empty.
    Records(Vec<Message>),
    /// There is no record before this offset that was not taken.
    End(NextOffset),
    /// The position asked for is not in the log.
    OutOfRange,
    /// Records here could not be read, and were passed over: what comes behind them must not be taken.
    Damaged(String),
    Trouble(Fault),
}
