//! The steps of a sequence, and which kinds of events they caused.

use ebb_sketch::random::Random;

use crate::group::{INSTANCES, PARTITIONS};

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
pub enum Kind {
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
    pub fn count(&mut self, kind: Kind) {
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
