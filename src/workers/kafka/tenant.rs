//! One partition in the hands of its worker: where its fold stands, what is committed of it, how it was restored.
//!
//! Three positions, in this order: what the newest checkpoint holds, what is committed (C), and what is folded. Records
//! before C are folded without being emitted. The last folded record is remembered by its hash and read again after a
//! restart: a log that was made anew under the same name is not the log that the state is a fold of.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Instant;

use tokio::sync::oneshot;

use super::super::checkpoints::Job;
use super::super::faults::{self, Mutant};
use super::super::message::{PartitionStatus, Saved, Stored};
use super::super::owned;
use super::super::report::{self, Report};
use super::StreamSpec;
use super::proof::Ledger;
use crate::kafka::{Extent, Message, TopicId, TopicPartition};
use crate::metrics::Metrics;
use crate::store::{CheckpointIdentity, ShardId, Store};
use ebb_core::{NextOffset, Plan, Shard};
use ebb_sketch::codec::{CodecError, Reader, Writer};

/// Version of what is stored, as the store sees it.
const SCHEMA: u16 = 2;
const KIND: ebb_sketch::codec::Kind = *b"kchk";
const VERSION: u16 = 1;

/// A partition that a worker may own.
#[derive(Debug)]
pub(in crate::workers) struct Tenant {
    pub(in crate::workers) id: ShardId,
    pub(super) part: TopicPartition,
    pub(super) stream: Arc<StreamSpec>,
    pub(super) state: State,
    /// The topic that this process reads; another of the same name is another log.
    pub(super) topic_id: Option<TopicId>,
    /// Where records could not be read, and how often in a row.
    pub(super) unread: Option<(NextOffset, u32)>,
    /// Since when it is being restored in vain, and where its outputs ended at the first look.
    pub(super) tried_since: Option<Instant>,
    pub(super) first_seen: Option<Vec<u64>>,
}

#[derive(Debug)]
pub(super) enum State {
    /// Another instance's, or nobody's.
    Away,
    /// Given up for a moment: the poll thread is asked to assign it again.
    Returning,
    /// Ours, but its log is not what it was: nothing is done until somebody decides.
    Refused(String),
    Owned(Box<Owned>),
}

/// A record, to be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) offset: u64,
    hash: [u8; 32],
}

impl Mark {
    pub(super) fn of(message: &Message) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&message.offset().to_be_bytes());
        hasher.update(&message.timestamp_ms().to_be_bytes());
        for part in [message.key(), message.payload()] {
            hasher.update(&part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            hasher.update(part.unwrap_or_default());
        }
        Self { offset: message.offset(), hash: *hasher.finalize().as_bytes() }
    }
}

/// A shard and its positions.
#[derive(Debug)]
pub(super) struct Owned {
    /// Which assignment it is: records of an earlier one are not ours.
    pub(super) epoch: u64,
    pub(super) shard: Shard,
    /// C: what the group has committed.
    pub(super) committed: NextOffset,
    pub(super) ledger: Ledger,
    /// What the next commit will say. Behind the last record, and behind what is no record.
    pub(super) position: NextOffset,
    /// The record that must come first, because the state says that it was folded last.
    pub(super) expected: Option<Mark>,
    pub(super) last: Option<Mark>,
    /// Of the last record that was folded here.
    pub(super) timestamp_ms: Option<i64>,
    /// The group knows no position of it yet.
    pub(super) is_unknown: bool,
    pub(super) began: Instant,
    pub(super) is_caught_up: bool,
    pub(super) wants_checkpoint: bool,
    /// When the last snapshot was written, and up to where it holds.
    pub(super) snapshot: (Instant, NextOffset),
    stored: Option<Stored>,
    storing: Option<oneshot::Receiver<Stored>>,
}

/// A state and where it comes from.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) shard: Shard,
    pub(super) last: Option<Mark>,
    pub(super) stored: Option<Stored>,
}

impl Tenant {
    pub(in crate::workers) fn away(id: ShardId, part: TopicPartition, stream: Arc<StreamSpec>) -> Self {
        Self { id, part, stream, state: State::Away, topic_id: None, unread: None, tried_since: None, first_seen: None }
    }

    pub(super) fn identity(&self) -> CheckpointIdentity {
        identity(&self.stream.plan, &self.part)
    }

    pub(super) fn owned(&mut self) -> Option<&mut Owned> {
        match &mut self.state {
            State::Owned(owned) => Some(owned),
            State::Away | State::Returning | State::Refused(_) => None,
        }
    }

    /// It is restored, or another's: the next time begins anew.
    pub(super) fn forget_trying(&mut self) {
        (self.tried_since, self.first_seen) = (None, None);
    }

    pub(super) fn forget_figures(&self, metrics: &Metrics) {
        report::forget(&self.id, &self.stream.plan, metrics);
    }

    /// The newest checkpoint that is not ahead of `committed`.
    pub(super) fn load(&self, store: &Store, committed: NextOffset) -> Result<Option<Found>, String> {
        for identity in self.identities() {
            if let Some(found) = self.load_as(&identity, store, committed)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// As which state may be known here: the second is of state made under the previous hash key.
    pub(super) fn identities(&self) -> impl Iterator<Item = CheckpointIdentity> {
        let identity = self.identity();
        let former = owned::former(&identity, &self.stream.plan);
        [Some(identity), former].into_iter().flatten()
    }

    fn load_as(
        &self,
        identity: &CheckpointIdentity,
        store: &Store,
        committed: NextOffset,
    ) -> Result<Option<Found>, String> {
        let mut at_most = if Mutant::CheckpointBeforeCommit.is_on() { None } else { Some(committed) };
        loop {
            let loaded = store.load(&self.id, identity, at_most).map_err(|error| error.to_string())?;
            for (generation, reason) in &loaded.refused {
                tracing::warn!(shard = %self.id, generation, %reason, "checkpoint not used");
            }
            let Some(checkpoint) = loaded.checkpoint else { return Ok(None) };
            match decode(self.stream.plan.clone(), self.id.partition, &checkpoint.state) {
                Ok((shard, last)) => {
                    let bytes = checkpoint.state.len() as u64;
                    let stored = Some(Stored { next: checkpoint.next, time_ms: None, bytes });
                    return Ok(Some(Found { shard, last, stored }));
                }
                Err(error) => {
                    tracing::warn!(shard = %self.id, generation = checkpoint.generation, %error, "checkpoint not used")
                }
            }
            match checkpoint.next.0.checked_sub(1) {
                Some(before) => at_most = Some(NextOffset(before)),
                None => return Ok(None),
            }
        }
    }

    /// Hands a copy of the state to the checkpoint thread. Only called when all that is folded is committed.
    pub(super) fn checkpoint(&mut self, jobs: &SyncSender<Job>) {
        let (id, identity) = (self.id.clone(), self.identity());
        let Some(owned) = self.owned() else { return };
        owned.notice_stored();
        let next = owned.shard.next();
        if owned.stored.is_some_and(|stored| stored.next == next) || owned.last.is_none() {
            owned.wants_checkpoint = false;
            return;
        }
        if owned.storing.is_some() {
            return;
        }
        faults::pass("before_checkpoint");
        let (stored, storing) = oneshot::channel();
        let job = Job { shard: id, identity, next, bytes: owned.encode(), stored };
        match jobs.try_send(job) {
            Ok(()) => (owned.storing, owned.wants_checkpoint) = (Some(storing), false),
            // The disk is behind: the next round takes a newer copy.
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => tracing::error!(shard = %self.id, "the checkpoint thread is gone"),
        }
    }

    /// Notes which topic is read; why it cannot be, when it is not the one that was read before.
    pub(super) fn note_topic(&mut self, topic_id: TopicId) -> Option<String> {
        let is_other = *self.topic_id.get_or_insert(topic_id) != topic_id && !Mutant::SkipIdentity.is_on();
        is_other.then(|| {
            format!(
                "the topic of {} was made anew while it was read; give the group new offsets, remove data_dir and start \
                 again if that is meant",
                self.part
            )
        })
    }

    /// The log, compared with what is known of it: why it cannot be the one, if so.
    pub(super) fn disagreement(&self, committed: Option<NextOffset>, extent: Extent) -> Option<String> {
        let committed = committed?;
        if committed > extent.next {
            return Some(format!(
                "the group has committed {}, but the log of {} ends at {}: the topic was made anew or cut off; give the \
                 group new offsets and remove data_dir if that is meant",
                committed.0, self.part, extent.next.0
            ));
        }
        (committed < extent.first).then(|| {
            format!(
                "the log of {} begins at {}, but only what is before {} was processed: retention removed the records \
                 between; give the group new offsets and remove data_dir to go on without them",
                self.part, extent.first.0, committed.0
            )
        })
    }
}

fn identity(plan: &Plan, part: &TopicPartition) -> CheckpointIdentity {
    CheckpointIdentity {
        config_hash: plan.identity(),
        key_digest: plan.reader.key_digest(),
        log: format!("kafka:{}", part.topic),
        schema: SCHEMA,
    }
}

impl Owned {
    pub(super) fn new(found: Found, committed: NextOffset, ledger: Ledger, epoch: u64) -> Self {
        Self {
            epoch,
            committed,
            ledger,
            position: found.shard.next(),
            expected: found.last,
            last: found.last,
            timestamp_ms: None,
            is_unknown: false,
            began: Instant::now(),
            is_caught_up: false,
            wants_checkpoint: false,
            snapshot: (Instant::now(), found.shard.next()),
            stored: found.stored,
            storing: None,
            shard: found.shard,
        }
    }

    /// Whether there is something to tell the group.
    pub(super) fn is_dirty(&self) -> bool {
        self.position > self.committed || self.is_unknown || self.ledger.owes && self.position >= self.committed
    }

    /// The state and how to recognise its log.
    pub(super) fn encode(&self) -> Vec<u8> {
        sealed(self.last, &self.shard.snapshot())
    }

    fn notice_stored(&mut self) {
        if let Some(storing) = &mut self.storing {
            match storing.try_recv() {
                Ok(stored) => (self.stored, self.storing) = (Some(stored), None),
                Err(oneshot::error::TryRecvError::Closed) => self.storing = None,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
        }
    }

    /// Waits for the checkpoint that is on its way.
    pub(super) fn await_checkpoint(&mut self) {
        if let Some(storing) = self.storing.take()
            && let Ok(stored) = storing.blocking_recv()
        {
            self.stored = Some(stored);
        }
    }

    pub(super) fn status(&mut self, end: Option<NextOffset>) -> PartitionStatus {
        self.notice_stored();
        let lag = end.map(|end| end.0.saturating_sub(self.position.0));
        PartitionStatus { status: self.shard.status(), lag, checkpoint: self.stored }
    }

    /// Where the shard stands, and up to where it is stored.
    pub(super) fn saved(&mut self) -> Saved {
        self.notice_stored();
        Saved { next: self.last.map(|_| self.shard.next()), stored: self.stored }
    }

    pub(super) fn report(&self, id: &ShardId, end: Option<NextOffset>, metrics: &Metrics) {
        let lag = end.map(|end| end.0.saturating_sub(self.position.0));
        let report = Report { id, status: &self.shard.status(), lag, timestamp_ms: self.timestamp_ms };
        report::report(&report, metrics);
    }
}

pub(super) fn sealed(last: Option<Mark>, snapshot: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(KIND, VERSION);
    writer.u8(u8::from(last.is_some()));
    let last = last.unwrap_or(Mark { offset: 0, hash: [0; 32] });
    writer.u64(last.offset);
    writer.raw(&last.hash);
    writer.bytes(snapshot);
    writer.seal()
}

/// The inverse of [`Owned::encode`].
pub(super) fn decode(plan: Arc<Plan>, partition: u32, bytes: &[u8]) -> Result<(Shard, Option<Mark>), CodecError> {
    let mut reader = Reader::open(KIND, VERSION, bytes)?;
    let (is_some, offset) = (reader.u8()?, reader.u64()?);
    let mut hash = [0; 32];
    hash.copy_from_slice(reader.raw(32)?);
    let shard = Shard::restore(plan, partition, reader.bytes()?)?;
    reader.finish()?;
    let last = match is_some {
        0 => None,
        1 => Some(Mark { offset, hash }),
        _ => return Err(CodecError::invalid("last record", "neither absent nor present")),
    };
    Ok((shard, last))
}
