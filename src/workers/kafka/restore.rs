//! What a worker does when partitions are assigned to it: fence, read C, restore, and say where to begin (K1).

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use super::super::faults::{self, Mutant};
use super::proof::{self, Ledger};
use super::snapshots;
use super::tenant::{self, Found, Owned, State, Tenant};
use super::worker::KafkaWorker;
use super::{Beginning, Delivery, Start};
use crate::kafka::{self, CommittedOffset, Extent, Fault, Output, Position, Producer, Remedy};
use ebb_core::{NextOffset, Shard};

/// How long a question takes that needs nobody's decision.
const SHORT: Duration = Duration::from_secs(5);

/// Records that are replayed rather than looked for in the snapshot topic.
const WORTH_READING: u64 = 1_000;

/// Why a partition was not restored.
enum Hindrance {
    Fault(Fault),
    /// For good: somebody has to decide.
    Refused(String),
}

impl From<Fault> for Hindrance {
    fn from(fault: Fault) -> Self {
        Hindrance::Fault(fault)
    }
}

impl KafkaWorker {
    pub(super) fn assign(&mut self, shards: Vec<(usize, u64)>, reply: &Sender<(usize, Start)>) {
        // Restoring may take long: nothing else is to wait for it.
        self.commit();
        for (shard, _) in &shards {
            self.tenants[*shard].state = State::Returning;
        }
        self.tell_restored();
        if shards.is_empty() {
            self.end_former_life();
        }
        for (shard, epoch) in shards {
            let start = self.restore(shard, epoch);
            // The poll thread waits for it, or is gone and needs nothing any more.
            let _ = reply.send((shard, start));
        }
        self.tail = None;
        // Where a partition begins is told to the group before anything comes: whoever is next must not begin later.
        if self.tenants.iter_mut().filter_map(Tenant::owned).any(|owned| owned.is_unknown) {
            self.commit();
        }
        self.tell_restored();
    }

    /// A worker that got nothing may have had something before it died: others wait until that is given up.
    fn end_former_life(&mut self) {
        let has_outputs = self.tenants.iter().any(|tenant| tenant.stream.delivery == Delivery::ExactlyOnce);
        if !has_outputs || self.has_fenced {
            return;
        }
        match self.require_producer(Delivery::ExactlyOnce) {
            Ok(()) => _ = self.producers.remove(&Delivery::ExactlyOnce),
            Err(fault) => tracing::info!(%fault, "what an earlier life left open is given up by the brokers, later"),
        }
    }

    /// Tries once: whoever cannot be restored yet is tried again after others had their turn (K9).
    fn restore(&mut self, shard: usize, epoch: u64) -> Start {
        match self.try_restore(shard, epoch) {
            Ok(start) => {
                self.tenants[shard].forget_trying();
                Start::At(start)
            }
            Err(Hindrance::Fault(fault)) if fault.remedy == Remedy::End => {
                self.end(&fault);
                Start::Nowhere
            }
            Err(Hindrance::Fault(fault)) => {
                tracing::warn!(shard = %self.tenants[shard].id, %fault, "restoring: again");
                self.tenants[shard].tried_since.get_or_insert_with(Instant::now);
                Start::Later
            }
            Err(Hindrance::Refused(why)) => {
                self.refuse(shard, why);
                Start::Nowhere
            }
        }
    }

    fn try_restore(&mut self, shard: usize, epoch: u64) -> Result<NextOffset, Hindrance> {
        let began = Instant::now();
        self.require_producer(self.tenants[shard].stream.delivery)?;
        let watchdog = self.watchdog.clone();
        let tenant = &mut self.tenants[shard];
        // Before anything else is asked: whatever is read of a topic made later is noticed before it is committed.
        let topic_id = watchdog.during("asking for the topic", || self.links.group.topic_id(&tenant.part.topic))?;
        if let Some(why) = tenant.note_topic(topic_id) {
            return Err(Hindrance::Refused(why));
        }
        faults::pass("before_committed");
        let told = watchdog.during("reading the committed offset", || self.committed(shard))?;
        faults::pass("after_committed");
        let tenant = &self.tenants[shard];
        let extent = watchdog.during("reading the ends of the log", || self.links.group.extent(&tenant.part))?;
        let committed = told.as_ref().map(|told| told.next);
        if let Some(why) = tenant.disagreement(committed, extent).filter(|_| !Mutant::SkipIdentity.is_on()) {
            return Err(Hindrance::Refused(why));
        }
        let (mut owned, start) = match &told {
            Some(told) => {
                let ledger = watchdog.during("looking at the outputs", || self.ledger(shard, told))?;
                self.resume(shard, told.next, ledger, extent, epoch)?
            }
            None => self.begin(shard, extent, epoch)?,
        };
        if Mutant::SkipReplay.is_on() && told.is_some() {
            (owned.position, owned.expected) = (owned.committed, None);
        }
        owned.began = began;
        let tenant = &mut self.tenants[shard];
        tracing::info!(
            shard = %tenant.id, committed = owned.committed.0, state = owned.shard.next().0, start = start.0,
            "partition taken on"
        );
        let start = if Mutant::SkipReplay.is_on() { owned.committed } else { start };
        tenant.state = State::Owned(Box::new(owned));
        self.notice_caught_up(shard);
        Ok(start)
    }

    /// What the group has committed. A transaction that is never decided, because its producer is gone and the brokers lost
    /// sight of it, is waited for until none can be open any more; from then on the outputs say what came of it.
    fn committed(&self, shard: usize) -> Result<Option<CommittedOffset>, Fault> {
        let tenant = &self.tenants[shard];
        let fault = match self.links.group.committed(&tenant.part) {
            Err(fault) if fault.remedy == Remedy::Retry => fault,
            told => return told,
        };
        if tenant.tried_since.is_none_or(|since| since.elapsed() < proof::DECIDED_AFTER) {
            return Err(fault);
        }
        tracing::warn!(shard = %tenant.id, %fault, "not waiting any longer for a transaction that hangs");
        kafka::committed_offset_ignoring_pending(&self.links.options.settings, &tenant.part, SHORT)
    }

    /// Ends what an earlier life of a producer left open in the outputs of its partitions and in the group's offsets.
    /// Brokers have been seen to decide a transaction without saying so in every log: the next commit there would have
    /// counted in what was given up, and nobody could read the offsets. What was committed and is given up here is
    /// found missing, and emitted again ([`proof`](super::proof)).
    fn close_former(&self, producer: &mut Producer) -> Result<(), Fault> {
        let mine = || self.tenants.iter().filter(|tenant| tenant.stream.delivery == Delivery::ExactlyOnce);
        producer.begin_transaction()?;
        for (topic, partition) in mine().flat_map(|tenant| tenant.stream.outputs.places(&tenant.part)) {
            // With a key, as compacted topics ask for it.
            let key = Some(&b"ebb"[..]);
            let nothing =
                Output { topic, partition, key, payload: None, timestamp_ms: 0, source: None, headers: &[], tag: 0 };
            producer.send(&nothing)?;
        }
        producer.flush()?;
        let nowhere =
            |tenant: &Tenant| Position { part: tenant.part.clone(), next: NextOffset(0), note: String::new() };
        producer.send_offsets(&self.links.group, &mine().take(1).map(nowhere).collect::<Vec<_>>())?;
        producer.abort_transaction()
    }

    /// The best state there is for what is committed, and where reading begins.
    fn resume(
        &mut self,
        shard: usize,
        committed: NextOffset,
        ledger: Ledger,
        extent: Extent,
        epoch: u64,
    ) -> Result<(Owned, NextOffset), Hindrance> {
        let at_most = ledger.emit_from;
        let kept = self.kept.remove(&shard).filter(|_| Mutant::KeepStateAfterAbort.is_on());
        let tenant = &self.tenants[shard];
        // An unreadable store means replay, never a wrong answer.
        let local = tenant.load(&self.links.store, at_most).unwrap_or_else(|error| {
            tracing::error!(shard = %tenant.id, error, "checkpoints cannot be read");
            None
        });
        let found = self.better(shard, local, at_most);
        if let Some(shard) = kept {
            let owned = Owned::new(Found { shard, last: None, stored: None }, committed, ledger, epoch);
            return Ok((owned, committed));
        }
        let Some(found) = found else {
            let mut owned = Owned::new(self.empty(shard)?, committed, ledger, epoch);
            owned.position = extent.first;
            if extent.first > NextOffset(0) {
                tracing::warn!(shard = %self.tenants[shard].id, from = extent.first.0, "no state: replaying what retention has left");
            }
            return Ok((owned, extent.first));
        };
        let next = found.shard.next();
        if next < extent.first && !Mutant::SkipIdentity.is_on() {
            return Err(Hindrance::Refused(format!(
                "the log of {} begins at {}, but the newest state reaches only to {}: retention removed the records \
                 between; remove data_dir to replay what is left",
                tenant.part, extent.first.0, next.0
            )));
        }
        let mut owned = Owned::new(found, committed, ledger, epoch);
        // A record that retention has removed cannot be looked at again.
        owned.expected = owned.expected.filter(|mark| mark.offset >= extent.first.0 && !Mutant::SkipIdentity.is_on());
        let start = owned.expected.map_or(next.max(extent.first), |mark| NextOffset(mark.offset));
        Ok((owned, start))
    }

    /// A state that another owner has left, when it saves much replaying.
    fn better(&self, shard: usize, local: Option<Found>, at_most: NextOffset) -> Option<Found> {
        let (tenant, options) = (&self.tenants[shard], &self.links.options);
        let Some(topic) = &options.snapshots else { return local };
        let reached = local.as_ref().map_or(0, |found| found.shard.next().0);
        if reached + WORTH_READING >= at_most.0 {
            return local;
        }
        let find = |identity| {
            let found = snapshots::find(&options.settings, topic, &tenant.id, &identity, at_most);
            found.unwrap_or_else(|fault| {
                tracing::warn!(shard = %tenant.id, %fault, "snapshots not read");
                None
            })
        };
        let Some(snapshot) = tenant.identities().find_map(find).filter(|snapshot| snapshot.next.0 > reached) else {
            return local;
        };
        match tenant::decode(tenant.stream.plan.clone(), tenant.id.partition, &snapshot.bytes) {
            Ok((shard, last)) => {
                tracing::info!(shard = %tenant.id, next = snapshot.next.0, "taking the state of a former owner");
                Some(Found { shard, last, stored: None })
            }
            Err(error) => {
                tracing::warn!(shard = %tenant.id, %error, "a snapshot cannot be used");
                local
            }
        }
    }

    /// The group knows no position: begin as configured.
    fn begin(&mut self, shard: usize, extent: Extent, epoch: u64) -> Result<(Owned, NextOffset), Hindrance> {
        let tenant = &self.tenants[shard];
        // Deleting a topic deletes its offsets, and an idle group forgets them: to begin again would be a silent reset.
        if let Ok(Some(found)) = tenant.load(&self.links.store, NextOffset(u64::MAX))
            && !Mutant::SkipIdentity.is_on()
        {
            return Err(Hindrance::Refused(format!(
                "the group {} has no offset for {}, but there is state up to {}: the topic was made anew, or the group \
                 forgot its offsets; give it offsets, or remove data_dir to begin again",
                self.links.options.settings.group,
                tenant.part,
                found.shard.next().0
            )));
        }
        let start = match self.links.options.beginning {
            Beginning::Earliest => extent.first,
            Beginning::Latest => extent.next,
            Beginning::Refuse => {
                return Err(Hindrance::Refused(format!(
                    "the group {} has no offset for {}; set kafka.start to earliest or latest, or give it one",
                    self.links.options.settings.group, self.tenants[shard].part
                )));
            }
        };
        let ledger = self.first_ledger(shard, start)?;
        let mut owned = Owned::new(self.empty(shard)?, start, ledger, epoch);
        (owned.position, owned.is_unknown) = (start, true);
        Ok((owned, start))
    }

    fn empty(&self, shard: usize) -> Result<Found, Hindrance> {
        let tenant = &self.tenants[shard];
        let made = Shard::new(tenant.stream.plan.clone(), tenant.id.partition);
        let shard = made.map_err(|error| Hindrance::Refused(error.to_string()))?;
        Ok(Found { shard, last: None, stored: None })
    }

    /// The producer of a kind of delivery; a transactional one has fenced its predecessor.
    pub(super) fn require_producer(&mut self, delivery: Delivery) -> Result<(), Fault> {
        let options = &self.links.options;
        let made = match delivery {
            Delivery::Nothing => return Ok(()),
            _ if self.producers.contains_key(&delivery) => return Ok(()),
            Delivery::ExactlyOnce => {
                faults::pass("before_fence");
                let made = self.watchdog.during("fencing", || {
                    Producer::transactional(&options.settings, &self.transactional_id, options.most_bytes)
                });
                faults::pass("after_fence");
                let mut made = made?;
                self.watchdog.during("closing outputs", || self.close_former(&mut made))?;
                self.has_fenced = true;
                made
            }
            Delivery::AtLeastOnce => Producer::idempotent(&options.settings, options.most_bytes)?,
        };
        self.producers.insert(delivery, made);
        Ok(())
    }
}
