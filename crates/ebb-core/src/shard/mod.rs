//! The state of one partition of one stream: a deterministic fold over its log.
//!
//! Pure. The law of the fold (F1): the same log and the same plan give the same bytes, whatever the batches, crashes,
//! restarts and machines in between. Therefore nothing here sees a clock, a generator of its own, the order of a hash map
//! or the platform's `exp`. Time is event time: the shard's clock is the largest accepted one.
//!
//! F2: every record ends as exactly one verdict and is counted once. F3: an event dated more than the allowed skew after
//! its record changes nothing but a count. F4: an event older than the memory can judge is `late`, never silently unique.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;

use crate::aggregate::{
    Aggregate, AggregateAnswer, AggregateError, AggregatePart, AggregateQuestion, AggregateStatus, Occurrence,
};
use crate::dedup::{Dedup, Sight};
use crate::event::{Counts, Event, Former, NextOffset, Reason, Record, Verdict};
use crate::plan::Plan;
use crate::question::{Answer, AsOf, Details, Question, QuestionError};
use crate::reader::Subject;
use crate::turn::Turn;
use ebb_sketch::aggregate::robust::ElementId;
use ebb_sketch::codec::{self, CodecError};
use ebb_sketch::filter::frequency::{Count, Frequency};
use ebb_sketch::filter::inference::Basis;
use ebb_sketch::filter::spec_error::SpecError as FilterError;
use ebb_sketch::filter::timing::TimingError;
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::draws;

#[cfg(test)]
mod tests;

const KIND: codec::Kind = *b"shrd";
const VERSION: u16 = 2;
/// Before hash keys could be exchanged.
const WITHOUT_TURN: u16 = 1;

/// Records whose cache lines are asked for before the first of them is folded.
pub const TOUCH_AHEAD: usize = 32;

/// See the module.
#[derive(Debug, Clone)]
pub struct Shard {
    plan: Arc<Plan>,
    partition: u32,
    next: NextOffset,
    clock_ms: Option<i64>,
    counts: Counts,
    dedup: Dedup,
    frequency: Option<Frequency>,
    /// In the order of the plan.
    aggregates: Vec<Aggregate>,
    seed: u64,
    /// While something recorded under the previous hash key is remembered.
    turn: Option<Turn>,
}

/// Why a view cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ViewError {
    #[error(transparent)]
    Timing(#[from] TimingError),
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub verdict: Verdict,
    /// What the memory said before the record was folded; absent when the record was rejected.
    pub answer: Option<Answer>,
}

/// Figures for people and metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub as_of: AsOf,
    pub counts: Counts,
    pub fill: f64,
    pub false_duplicate_rate: f64,
    /// Whether chances are believed: learned well enough, and coming true.
    pub basis: Basis,
    /// The greatest difference between stated chances and how often they came true lately, where that is followed.
    pub calibration_error: Option<f64>,
    /// Keys with a filter of their own.
    pub isolated_keys: usize,
    /// Whether something recorded under the previous hash key is still remembered.
    pub needs_previous_key: bool,
    /// How often a counter of the frequency view had no room.
    pub exhausted_counts: u64,
    /// In the order of the plan.
    pub aggregates: Vec<AggregateStatus>,
    pub memory_bytes: u64,
}

impl Shard {
    /// The fold of the empty log.
    pub fn new(plan: Arc<Plan>, partition: u32) -> Result<Self, ViewError> {
        let dedup = Dedup::new(&plan.dedup)?;
        let frequency = plan.frequency.map(Frequency::new);
        let seed = plan.reader.seed();
        let aggregates = plan.aggregates.iter().map(Aggregate::new).collect();
        Ok(Self {
            plan,
            partition,
            next: NextOffset(0),
            clock_ms: None,
            counts: Counts::default(),
            dedup,
            frequency,
            aggregates,
            seed,
            turn: None,
        })
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub fn next(&self) -> NextOffset {
        self.next
    }

    pub fn as_of(&self) -> AsOf {
        AsOf { partition: self.partition, next: self.next, time_ms: self.clock_ms }
    }

    /// Folds one record. Records come in the order of their offsets; offsets may have gaps.
    pub fn apply(&mut self, record: Record<'_>) -> Outcome {
        let event = self.plan.reader.read(record.payload);
        self.fold(record.offset, record.timestamp_ms, event.as_ref().map_err(|reason| *reason))
    }

    /// As [`Shard::apply`] for each record in turn, faster: the memory of a whole stretch is asked for before it is used.
    pub fn apply_batch(&mut self, records: &[Record<'_>], outcomes: &mut Vec<Outcome>) {
        let reader = self.plan.reader.clone();
        for stretch in records.chunks(TOUCH_AHEAD) {
            let events: Vec<_> = stretch.iter().map(|record| reader.read(record.payload)).collect();
            events.iter().flatten().for_each(|event| self.dedup.touch(event.item));
            for (record, event) in stretch.iter().zip(&events) {
                outcomes.push(self.fold(record.offset, record.timestamp_ms, event.as_ref().map_err(|reason| *reason)));
            }
        }
    }

    /// Folds a record whose payload was already read by this plan's reader.
    pub fn fold(&mut self, offset: u64, timestamp_ms: i64, event: Result<&Event, Reason>) -> Outcome {
        debug_assert!(offset >= self.next.0, "record {offset} was folded before: next is {:?}", self.next);
        self.next = NextOffset(offset.saturating_add(1));
        let outcome = match event.and_then(|event| self.observe(offset, timestamp_ms, event)) {
            Err(reason) => Outcome { verdict: Verdict::Rejected(reason), answer: None },
            Ok(answer) => Outcome { verdict: answer.verdict, answer: Some(answer) },
        };
        self.counts.add(outcome.verdict);
        self.end_turn();
        outcome
    }

    fn end_turn(&mut self) {
        if let (Some(turn), Some(clock_ms)) = (self.turn, self.clock_ms)
            && turn.is_over(&self.plan, clock_ms, self.counts.accepted())
        {
            self.turn = None;
        }
    }

    /// What counts of the names under the previous hash key: nothing, unless something is remembered under them.
    fn former(&self, former: Option<Former>) -> Option<Former> {
        former.filter(|_| self.turn.is_some())
    }

    /// Decides and remembers. Nothing is changed when the event is rejected.
    fn observe(&mut self, offset: u64, timestamp_ms: i64, event: &Event) -> Result<Answer, Reason> {
        let time_ms = self.date(event, timestamp_ms)?;
        self.plan.dedup.check_costs(event.key, &event.numbers)?;
        self.advance(time_ms);
        let former = self.former(event.former);
        let frequency = self.count(event.item, former, time_ms);
        let sight = Sight {
            item: event.item,
            key: event.key,
            former,
            time_ms,
            importance: event.importance,
            numbers: &event.numbers,
            frequency: frequency.map(|count| count.value),
            window: None,
            penalties: None,
            share: None,
        };
        let answer = self.dedup.observe(&sight, &mut draws(self.seed, self.partition, offset))?;
        if let Some(counts) = &mut self.frequency {
            counts.add(event.item, time_ms);
        }
        self.add_up(offset, time_ms, event, answer.verdict);
        Ok(Answer { frequency, ..answer })
    }

    /// Adds an event to the aggregates. Without an id of its own it is known by its position.
    fn add_up(&mut self, offset: u64, time_ms: i64, event: &Event, verdict: Verdict) {
        if self.aggregates.is_empty() {
            return;
        }
        let id = event.id.map_or_else(|| position_id(self.seed, self.partition, offset), ElementId::from);
        let former_key = self.former(event.former).and_then(|former| former.key);
        let at = Occurrence { time_ms, id, clock_ms: self.clock_ms.unwrap_or(time_ms), former_key };
        for (aggregate, spec) in self.aggregates.iter_mut().zip(&self.plan.aggregates) {
            aggregate.add(spec, event, verdict, &at, &self.plan.reader);
        }
    }

    /// Never too low: what was counted under the previous hash key is added.
    fn count(&self, item: Fingerprint, former: Option<Former>, as_of_ms: i64) -> Option<Count> {
        let counts = self.frequency.as_ref()?;
        let count = counts.estimate(item, as_of_ms);
        let Some(former) = former else { return Some(count) };
        let before = counts.estimate(former.item, as_of_ms);
        Some(Count { value: count.value + before.value, lower_bound: count.lower_bound || before.lower_bound })
    }

    /// When the event happened, unless it claims a future that its record cannot know (F3).
    fn date(&self, event: &Event, timestamp_ms: i64) -> Result<i64, Reason> {
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

    /// Answers from what is folded so far; changes nothing.
    pub fn ask(&self, question: &Question) -> Result<Answer, QuestionError> {
        let sight = self.sight(question)?;
        let frequency = self.count(sight.item, sight.former, sight.time_ms);
        Ok(Answer { frequency, ..self.dedup.decide(&sight)? })
    }

    /// Asks for the memory that these questions need, before it is used.
    pub fn touch(&self, questions: &[Question]) {
        if questions.len() > 1 {
            questions.iter().for_each(|question| self.dedup.touch(question.subject.item));
        }
    }

    /// Everything that can be said about the item's last sighting; only timing filters have it.
    pub fn explain(&self, question: &Question) -> Result<Option<Details>, QuestionError> {
        self.dedup.explain(&self.sight(question)?)
    }

    fn sight<'a>(&self, question: &'a Question) -> Result<Sight<'a>, QuestionError> {
        let subject = &question.subject;
        let time_ms = subject.time_ms.or(self.clock_ms).unwrap_or(i64::MIN);
        let former = self.former(subject.former);
        Ok(Sight {
            item: subject.item,
            key: subject.key,
            former,
            time_ms,
            importance: subject.importance,
            numbers: &subject.numbers,
            frequency: self.count(subject.item, former, time_ms).map(|count| count.value),
            window: self.plan.dedup.window_of(question.window)?,
            penalties: question.penalties,
            share: question.share,
        })
    }

    /// Answers from this shard alone.
    pub fn aggregate(&self, question: &AggregateQuestion) -> Result<AggregateAnswer, AggregateError> {
        self.plan.aggregate(&question.aggregate)?.1.answer(question, vec![self.aggregate_part(question)?])
    }

    /// What this shard has to say to a question that all shards of the stream answer together.
    pub fn aggregate_part(&self, question: &AggregateQuestion) -> Result<AggregatePart, AggregateError> {
        let (place, spec) = self.plan.aggregate(&question.aggregate)?;
        self.aggregates[place].part(spec, question, self.as_of())
    }

    /// The item's decayed count, where the stream keeps one.
    pub fn frequency(&self, subject: &Subject) -> Option<Count> {
        self.count(subject.item, self.former(subject.former), self.clock_ms.unwrap_or(i64::MIN))
    }

    pub fn status(&self) -> Status {
        let aggregates: Vec<AggregateStatus> =
            self.aggregates.iter().zip(&self.plan.aggregates).map(|(kept, spec)| kept.status(spec)).collect();
        Status {
            as_of: self.as_of(),
            counts: self.counts,
            fill: self.dedup.fill(),
            false_duplicate_rate: self.dedup.false_duplicate_rate(),
            basis: self.dedup.basis(),
            calibration_error: self.dedup.calibration_error(),
            isolated_keys: self.dedup.isolated(),
            needs_previous_key: self.turn.is_some(),
            exhausted_counts: self.frequency.as_ref().map_or(0, Frequency::exhausted),
            memory_bytes: self.dedup.memory_bytes()
                + self.frequency.as_ref().map_or(0, Frequency::memory_bytes)
                + aggregates.iter().map(|kept| kept.memory_bytes).sum::<u64>(),
            aggregates,
        }
    }

    /// All of the state, canonically: equal states have equal bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut writer = codec::Writer::new(KIND, VERSION);
        writer.raw(&self.plan.identity());
        writer.u32(self.partition);
        writer.u64(self.next.0);
        writer.u8(u8::from(self.clock_ms.is_some()));
        writer.i64(self.clock_ms.unwrap_or(0));
        self.counts.as_array().into_iter().for_each(|count| writer.u64(count));
        Turn::write(self.turn.as_ref(), &mut writer);
        self.dedup.encode(&mut writer);
        if let Some(counts) = &self.frequency {
            writer.bytes(&counts.encode());
        }
        self.aggregates.iter().for_each(|aggregate| aggregate.encode(&mut writer));
        writer.seal()
    }

    /// The shard whose [`Shard::snapshot`] these bytes are; refused unless plan and partition are the same. State made under
    /// the previous hash key is taken where that key is known: the turn begins.
    pub fn restore(plan: Arc<Plan>, partition: u32, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = codec::Reader::open(KIND, VERSION, bytes)?;
        let identity = reader.raw(32)?;
        let is_former = plan.former_identity().is_some_and(|former| identity == former);
        if identity != plan.identity() && !is_former {
            return Err(CodecError::invalid("plan", "the state was made under another configuration or hash key"));
        }
        let found = reader.u32()?;
        if found != partition {
            return Err(CodecError::invalid("partition", format!("{found} instead of {partition}")));
        }
        let next = NextOffset(reader.u64()?);
        let clock_ms = match (reader.u8()?, reader.i64()?) {
            (0, 0) => None,
            (1, clock) => Some(clock),
            _ => return Err(CodecError::invalid("clock", "neither absent nor present")),
        };
        let mut counts = Counts::default().as_array();
        for count in &mut counts {
            *count = reader.u64()?;
        }
        let counts = Counts::from_array(counts);
        let turn = if reader.version() == WITHOUT_TURN { None } else { Turn::read(&mut reader)? };
        let turn = match (turn, plan.reader.previous_print().filter(|_| is_former), clock_ms) {
            (Some(_), Some(_), _) => return Err(CodecError::invalid(HASH_KEY, EXCHANGED_TWICE)),
            (None, Some(previous), Some(since_ms)) => {
                Some(Turn { previous, since_ms, since_events: counts.accepted() })
            }
            (turn, _, _) => turn,
        };
        if turn.is_some_and(|turn| Some(turn.previous) != plan.reader.previous_print()) {
            return Err(CodecError::invalid(HASH_KEY, PREVIOUS_NEEDED));
        }
        let dedup = Dedup::decode(&plan.dedup, &mut reader)?;
        let frequency = match plan.frequency {
            None => None,
            Some(_) => Some(Frequency::decode(reader.bytes()?)?),
        };
        let aggregates: Result<Vec<_>, _> =
            plan.aggregates.iter().map(|spec| Aggregate::decode(spec, &mut reader)).collect();
        let aggregates = aggregates?;
        reader.finish()?;
        let seed = plan.reader.seed();
        Ok(Self { plan, partition, next, clock_ms, counts, dedup, frequency, aggregates, seed, turn })
    }
}

/// What is wrong with state that only another hash key makes usable.
pub const HASH_KEY: &str = "hash key";
const EXCHANGED_TWICE: &str = "it was exchanged before, and what was recorded under the key before that is still remembered; go \
                               back to the keys of that exchange until its window is over";
const PREVIOUS_NEEDED: &str = "it was exchanged, and what was recorded under the previous one is still remembered; name its file as \
     hash_key_previous_file until ebb_previous_hash_key_needed is 0";

/// Names the observation at a position of the log: the same on every replay, and different from all others.
fn position_id(seed: u64, partition: u32, offset: u64) -> ElementId {
    // Other draws of the record decide elsewhere.
    let mut drawn = draws(!seed, partition, offset);
    ElementId::from_bits(u128::from(drawn.next_u64()) << 64 | u128::from(drawn.next_u64()))
}
