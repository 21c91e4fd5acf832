//! The state of one partition of one stream: a deterministic fold over its log.
//!
//! Guarantees:
//! - F1: the same log and the same plan give the same bytes, whatever the batches, crashes, restarts and machines in
//!   between. Nothing here reads a clock, draws unseeded random numbers, depends on the order of a hash map, or calls the
//!   platform's `exp`. Time is event time: the shard's clock is the largest accepted one.
//! - F2: every record ends as exactly one verdict and is counted once.
//! - F3: an event dated more than the allowed skew after its record changes nothing but a count.
//! - F4: an event that is too old for the filter to judge is `late`, never unique.
//!
//! A shard does not know where records come from, when checkpoints are taken, or who owns the partition.

mod query;
mod snapshot;
mod status;

pub use snapshot::HASH_KEY;
pub use status::ShardStatus;

use std::sync::Arc;

use crate::aggregate::{Aggregate, Occurrence};
use crate::dedup::{Dedup, Lookup};
use crate::event::{Event, PreviousKey, Record};
use crate::frequency::{FrequencyView, ItemCount};
use crate::key_rotation::KeyRotation;
use crate::offset::{AsOf, NextOffset};
use crate::plan::Plan;
use crate::question::Answer;
use crate::verdict::{Reason, Verdict, VerdictCounts};
use ebb_sketch::aggregate::robust::ElementId;
use ebb_sketch::filter::parameter::ParameterError as FilterError;
use ebb_sketch::filter::structure::timing::TimingError;
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::Random;

#[cfg(test)]
mod tests;

/// Number of records or questions whose cache lines are prefetched before the first of them is processed.
pub const PREFETCH_BATCH: usize = 32;

/// The state of one partition: `apply(record) -> verdict`, and questions about what was applied.
///
/// ```
/// # use std::sync::Arc;
/// # use ebb_core::{DedupSpec, EventSpec, FilterSpec, Plan, Question, Reader, Record, Seen, Shard, Verdict};
/// # use ebb_sketch::{filter::structure::timing::TimingSpec, hash::HashKey};
/// # let event = EventSpec::of_item(vec!["ip".parse()?, "ad".parse()?]);
/// # let filter = TimingSpec::time(86_400_000, 60_000, 1 << 16)?;
/// # let plan = Arc::new(Plan {
/// #     reader: Arc::new(Reader::new(event, HashKey::new([7; 16]))?),
/// #     max_skew_ms: 60_000,
/// #     dedup: DedupSpec::new(FilterSpec::learning(filter, 1024)?, Seen::First),
/// #     frequency: None,
/// #     aggregates: Vec::new(),
/// # });
/// let payload = br#"{"ip": "10.0.0.1", "ad": "a7"}"#;
/// let mut shard = Shard::new(plan.clone(), 0)?;
/// assert_eq!(shard.apply(Record { offset: 0, timestamp_ms: 1_000, payload }).verdict, Verdict::Unique);
/// assert_eq!(shard.apply(Record { offset: 1, timestamp_ms: 2_000, payload }).verdict, Verdict::Duplicate);
///
/// let question = Question::about(plan.reader.read_subject(payload).expect("a valid payload"));
/// assert_eq!(shard.ask(&question)?.verdict, Verdict::Duplicate);
///
/// let restored = Shard::restore(plan, 0, &shard.snapshot())?;
/// assert_eq!(restored.snapshot(), shard.snapshot());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Shard {
    plan: Arc<Plan>,
    partition: u32,
    next: NextOffset,
    clock_ms: Option<i64>,
    counts: VerdictCounts,
    dedup: Dedup,
    frequency: Option<FrequencyView>,
    /// In the order of the plan.
    aggregates: Vec<Aggregate>,
    seed: u64,
    /// Present while state recorded under the previous hash key is remembered.
    rotation: Option<KeyRotation>,
}

/// Why a view cannot be created.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ViewError {
    /// The timing filter cannot be created.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// A filter of another kind cannot be created.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// The result of applying a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The answer about the item before the record was applied; absent when the record was rejected.
    pub answer: Option<Answer>,
}

impl Shard {
    /// The state of the empty log.
    pub fn new(plan: Arc<Plan>, partition: u32) -> Result<Self, ViewError> {
        let dedup = Dedup::new(&plan.dedup)?;
        let frequency = plan.frequency.as_ref().map(|spec| FrequencyView::new(spec, plan.reader.spec()));
        let seed = plan.reader.seed();
        let aggregates = plan.aggregates.iter().map(Aggregate::new).collect();
        Ok(Self {
            plan,
            partition,
            next: NextOffset(0),
            clock_ms: None,
            counts: VerdictCounts::default(),
            dedup,
            frequency,
            aggregates,
            seed,
            rotation: None,
        })
    }

    /// The plan that the shard was created or restored with.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The offset of the next record to apply.
    pub fn next(&self) -> NextOffset {
        self.next
    }

    /// The position and event time of answers given now.
    pub fn as_of(&self) -> AsOf {
        AsOf { partition: self.partition, next: self.next, time_ms: self.clock_ms }
    }

    /// Applies one record. Records must come in the order of their offsets; offsets may have gaps.
    pub fn apply(&mut self, record: Record<'_>) -> Outcome {
        let event = self.plan.reader.read(record.payload);
        self.fold(record.offset, record.timestamp_ms, event.as_ref().map_err(|reason| *reason))
    }

    /// Applies each record like [`Shard::apply`], but prefetches the filter's memory for several records at a time.
    pub fn apply_batch(&mut self, records: &[Record<'_>], outcomes: &mut Vec<Outcome>) {
        let reader = self.plan.reader.clone();
        for batch in records.chunks(PREFETCH_BATCH) {
            let events: Vec<_> = batch.iter().map(|record| reader.read(record.payload)).collect();
            events.iter().flatten().for_each(|event| self.dedup.prefetch(event.item));
            for (record, event) in batch.iter().zip(&events) {
                outcomes.push(self.fold(record.offset, record.timestamp_ms, event.as_ref().map_err(|reason| *reason)));
            }
        }
    }

    /// Applies a record whose payload was already read by this plan's reader.
    pub fn fold(&mut self, offset: u64, timestamp_ms: i64, event: Result<&Event, Reason>) -> Outcome {
        debug_assert!(offset >= self.next.0, "record {offset} was already applied: next is {:?}", self.next);
        self.next = NextOffset::after(offset);
        let outcome = match event.and_then(|event| self.observe(offset, timestamp_ms, event)) {
            Err(reason) => Outcome { verdict: Verdict::Rejected(reason), answer: None },
            Ok(answer) => Outcome { verdict: answer.verdict, answer: Some(answer) },
        };
        self.counts.add(outcome.verdict);
        self.finish_key_rotation();
        outcome
    }

    fn finish_key_rotation(&mut self) {
        if let (Some(rotation), Some(clock_ms)) = (self.rotation, self.clock_ms)
            && rotation.is_over(&self.plan, clock_ms, self.counts.accepted())
        {
            self.rotation = None;
        }
    }

    /// The previous-key fingerprints, unless nothing is remembered under the previous key.
    fn previous_key_in_use(&self, previous_key: Option<PreviousKey>) -> Option<PreviousKey> {
        previous_key.filter(|_| self.rotation.is_some())
    }

    /// Decides about an event and updates all views. A rejected event changes none of them.
    fn observe(&mut self, offset: u64, timestamp_ms: i64, event: &Event) -> Result<Answer, Reason> {
        let time_ms = self.event_time(event, timestamp_ms)?;
        self.plan.dedup.check_numbers(event.key, &event.numbers)?;
        self.advance(time_ms);
        let previous_key = self.previous_key_in_use(event.previous_key);
        let frequency = self.estimate_frequency(event.item, previous_key, time_ms);
        let lookup = Lookup {
            item: event.item,
            key: event.key,
            previous_key,
            time_ms,
            importance: event.importance,
            numbers: &event.numbers,
            frequency: frequency.map(|count| count.value),
            window: None,
            penalties: None,
            share: None,
        };
        let answer = self.dedup.observe(&lookup, &mut Random::for_record(self.seed, self.partition, offset))?;
        if let Some(counts) = &mut self.frequency {
            counts.observe(event, time_ms);
        }
        self.add_to_aggregates(offset, time_ms, event, answer.verdict);
        Ok(Answer { frequency, ..answer })
    }

    fn add_to_aggregates(&mut self, offset: u64, time_ms: i64, event: &Event, verdict: Verdict) {
        if self.aggregates.is_empty() {
            return;
        }
        let id = event.id.map_or_else(|| position_id(self.seed, self.partition, offset), ElementId::from);
        let previous_key = self.previous_key_in_use(event.previous_key).and_then(|previous| previous.key);
        let at = Occurrence { time_ms, id, clock_ms: self.clock_ms.unwrap_or(time_ms), previous_key };
        for (aggregate, spec) in self.aggregates.iter_mut().zip(&self.plan.aggregates) {
            aggregate.add(spec, event, verdict, &at, &self.plan.reader);
        }
    }

    /// The item's decayed count, where the stream has a frequency view.
    fn estimate_frequency(
        &self,
        item: Fingerprint,
        previous_key: Option<PreviousKey>,
        as_of_ms: i64,
    ) -> Option<ItemCount> {
        let (counts, plan) = self.frequency.as_ref().zip(self.plan.frequency.as_ref())?;
        Some(counts.estimate(plan, (item, previous_key), as_of_ms))
    }

    /// The time of the event, unless it is too far after the record's timestamp (F3).
    fn event_time(&self, event: &Event, timestamp_ms: i64) -> Result<i64, Reason> {
        let time_ms = event.time_ms.unwrap_or(timestamp_ms);
        if time_ms > timestamp_ms.saturating_add_unsigned(self.plan.max_skew_ms) {
            Err(Reason::Future)
        } else {
            Ok(time_ms)
        }
    }

    fn advance(&mut self, time_ms: i64) {
        let clock_ms = self.clock_ms.map_or(time_ms, |clock| clock.max(time_ms));
        self.clock_ms = Some(clock_ms);
        self.dedup.advance(clock_ms);
        if let Some(counts) = &mut self.frequency {
            counts.advance(clock_ms);
        }
    }
}

/// Identity of an event without an id: derived from its position, so that it is unique and the same on every replay.
fn position_id(seed: u64, partition: u32, offset: u64) -> ElementId {
    // The filters draw with the seed itself; the complement gives independent numbers.
    let mut drawn = Random::for_record(!seed, partition, offset);
    ElementId::from_bits(u128::from(drawn.next_u64()) << 64 | u128::from(drawn.next_u64()))
}
