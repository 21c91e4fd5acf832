//! Outputs and positions become final together, or are given up together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::super::faults::{self, Mutant};
use super::tenant::{Owned, State, Tenant};
use super::worker::{Emitted, KafkaWorker};
use super::{Command, Delivery};
use crate::kafka::{CommitOutcome, Fault, Position, Remedy, TopicId};
use ebb_core::NextOffset;

impl KafkaWorker {
    /// Commits everything that is folded, one kind of delivery after the other.
    pub(super) fn commit(&mut self) {
        for delivery in Delivery::ALL {
            let positions = self.positions(delivery);
            if positions.is_empty() {
                continue;
            }
            let begun = Instant::now();
            let watchdog = self.watchdog.clone();
            let result = watchdog.during("committing", || self.commit_positions(delivery, &positions));
            self.links.metrics.transaction_seconds.observe(begun.elapsed().as_secs_f64());
            match result {
                Ok(CommitOutcome::Clean) => self.settle(delivery),
                // A request of it may still be on its way, and nobody knows what came of it (K3).
                Ok(CommitOutcome::ReplaceProducer) => self.start_over(delivery, &doubt()),
                Err(fault) if fault.remedy == Remedy::End => self.end(&fault),
                Err(_) if Mutant::IgnoreCommitError.is_on() => {
                    self.producers.remove(&delivery);
                    self.settle(delivery);
                    let _ = self.require_producer(delivery);
                }
                Err(fault) => self.start_over(delivery, &fault),
            }
        }
        (self.emitted, self.dirty_since) = (Emitted::default(), None);
        self.checkpoint();
    }

    fn positions(&mut self, delivery: Delivery) -> Vec<Position> {
        let dirty = self.tenants.iter_mut().filter(|tenant| tenant.stream.delivery == delivery);
        let position = |tenant: &mut Tenant| {
            let (part, note) = (tenant.part.clone(), tenant.note());
            let owned = tenant.owned().filter(|owned| owned.is_dirty())?;
            let next = match () {
                () if Mutant::OffsetNotPlusOne.is_on() => NextOffset(owned.position.0.saturating_sub(1)),
                () if Mutant::OffsetPlusTwo.is_on() => NextOffset(owned.position.0 + 1),
                () => owned.position,
            };
            Some(Position { part, next, note })
        };
        dirty.filter_map(position).collect()
    }

    fn commit_positions(&mut self, delivery: Delivery, positions: &[Position]) -> Result<CommitOutcome, Fault> {
        let group = self.links.group.clone();
        self.require_same_topics(delivery)?;
        if Mutant::OffsetsFirst.is_on() {
            group.commit(positions)?;
        }
        if Mutant::NoTransaction.is_on()
            && let Some(plain) = self.producers.get(&Delivery::AtLeastOnce)
        {
            plain.flush()?;
        }
        let missing = || Fault::new("committing", Remedy::StartOver, "the producer was given up");
        match delivery {
            Delivery::Nothing => group.commit(positions).map(|()| CommitOutcome::Clean),
            Delivery::AtLeastOnce => {
                self.producers.get(&delivery).ok_or_else(missing)?.flush()?;
                group.commit(positions).map(|()| CommitOutcome::Clean)
            }
            Delivery::ExactlyOnce => {
                let producer = self.producers.get_mut(&delivery).ok_or_else(missing)?;
                producer.begin_transaction()?;
                producer.flush()?;
                faults::pass("before_offsets");
                producer.send_offsets(&group, positions)?;
                faults::pass("after_offsets");
                let committed = faults::pass_during("during_commit", || producer.commit_transaction())?;
                faults::pass("after_commit");
                Ok(committed)
            }
        }
    }

    /// A topic that was made anew is read on where the old one stood: nothing that was read of it is committed (K5).
    fn require_same_topics(&mut self, delivery: Delivery) -> Result<(), Fault> {
        let group = self.links.group.clone();
        let mut found: BTreeMap<Arc<str>, TopicId> = BTreeMap::new();
        for tenant in self.tenants.iter_mut().filter(|tenant| tenant.stream.delivery == delivery) {
            let topic = tenant.part.topic.clone();
            if !tenant.owned().is_some_and(|owned| owned.is_dirty()) {
                continue;
            }
            let now = match found.get(&topic) {
                Some(now) => *now,
                None => group.topic_id(&topic)?,
            };
            if tenant.topic_id != Some(now) && !Mutant::SkipIdentity.is_on() {
                return Err(Fault::new("committing", Remedy::StartOver, format!("topic {topic} was made anew")));
            }
            found.insert(topic, now);
        }
        Ok(())
    }

    /// What was sent to the group is committed.
    fn settle(&mut self, delivery: Delivery) {
        self.links.metrics.commits.inc();
        for owned in self.owned_of(delivery).filter(|owned| owned.is_dirty()) {
            (owned.committed, owned.is_unknown) = (owned.position.max(owned.committed), false);
            owned.ledger.settle(owned.committed);
        }
    }

    pub(super) fn owned_of(&mut self, delivery: Delivery) -> impl Iterator<Item = &mut Owned> {
        self.tenants.iter_mut().filter(move |tenant| tenant.stream.delivery == delivery).filter_map(Tenant::owned)
    }

    /// Gives up what is not committed: the partitions come back, restored, under a new producer (K3).
    pub(super) fn start_over(&mut self, delivery: Delivery, fault: &Fault) {
        tracing::warn!(?delivery, %fault, "going back to what is committed");
        self.links.metrics.aborts.inc();
        self.producers.remove(&delivery);
        let mut parts = Vec::new();
        for (shard, tenant) in self.tenants.iter_mut().enumerate() {
            if tenant.stream.delivery != delivery || tenant.owned().is_none() {
                continue;
            }
            if let State::Owned(owned) = std::mem::replace(&mut tenant.state, State::Returning)
                && Mutant::KeepStateAfterAbort.is_on()
            {
                self.kept.insert(shard, owned.shard);
            }
            parts.push(tenant.part.clone());
        }
        self.tell_restored();
        // A closed channel means that the service stops: nothing is committed any more.
        let _ = self.links.commands.send(Command::Return(parts));
    }
}

fn doubt() -> Fault {
    Fault::new("committing", Remedy::StartOver, "a connection was lost meanwhile, or it took too long")
}
