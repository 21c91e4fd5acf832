//! The state of one partition of one stream: a deterministic fold over its log.
//!
//! Pure. The law of the fold (F1): the same log and the same plan give the same bytes, whatever the batches, crashes,
//! restarts and machines in between. Therefore nothing here sees a clock, a generator of its own, the order of a hash map
//! or the platform's `exp`. Time is event time: the shard's clock is the largest accepted one.
//!
//! F2: every record ends as exactly one verdict and is counted once. F3: an event dated more than the allowed skew after
//! its record changes nothing but a count. F4: an event older than the memory can judge is `late`, never silently unique.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod dedup;
mod event;
mod plan;
mod question;
mod reader;
mod spec;

pub use dedup::{DedupSpec, Seen};
pub use event::{Counts, Event, NextOffset, PenaltyFields, Reason, Record, Verdict};
pub use plan::Plan;
pub use question::{AgeRange, Answer, AsOf, Question, QuestionError, Span};
pub use reader::{Reader, Subject};
pub use spec::{EventSpec, Limits, Path, SpecError, TimeUnit};

use std::sync::Arc;

use crate::codec::{self, CodecError};
use crate::filter::timing::TimingError;
use dedup::Dedup;

#[cfg(test)]
mod tests;

const KIND: codec::Kind = *b"shrd";
const VERSION: u16 = 1;

/// Records whose cache lines are asked for before the first of them is folded.
const TOUCH_AHEAD: usize = 32;

/// See the module.
#[derive(Debug, Clone)]
pub struct Shard {
    plan: Arc<Plan>,
    partition: u32,
    next: NextOffset,
    clock_ms: Option<i64>,
    counts: Counts,
    dedup: Dedup,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub verdict: Verdict,
    /// What the memory said before the record was folded; absent when the record was rejected.
    pub answer: Option<Answer>,
}

/// Figures for people and metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    pub as_of: AsOf,
    pub counts: Counts,
    pub fill: f64,
    pub false_duplicate_rate: f64,
    pub memory_bytes: u64,
}

impl Shard {
    /// The fold of the empty log.
    pub fn new(plan: Arc<Plan>, partition: u32) -> Result<Self, TimingError> {
        let dedup = Dedup::new(plan.dedup)?;
        Ok(Self { plan, partition, next: NextOffset(0), clock_ms: None, counts: Counts::default(), dedup })
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
        let outcome = match event.and_then(|event| self.date(event, timestamp_ms).map(|time_ms| (event, time_ms))) {
            Err(reason) => Outcome { verdict: Verdict::Rejected(reason), answer: None },
            Ok((event, time_ms)) => {
                self.advance(time_ms);
                let answer = self.dedup.observe(event.item, time_ms);
                Outcome { verdict: answer.verdict, answer: Some(answer) }
            }
        };
        self.counts.add(outcome.verdict);
        outcome
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
    }

    /// Answers from what is folded so far; changes nothing.
    pub fn ask(&self, question: &Question) -> Result<Answer, QuestionError> {
        let window = self.plan.dedup.window_of(question.window)?;
        let now = self.clock_ms.unwrap_or(i64::MIN);
        Ok(self.dedup.decide(question.subject.item, question.subject.time_ms.unwrap_or(now), window))
    }

    pub fn status(&self) -> Status {
        let filter = self.dedup.filter();
        Status {
            as_of: self.as_of(),
            counts: self.counts,
            fill: filter.fill(),
            false_duplicate_rate: filter.false_duplicate_rate(),
            memory_bytes: filter.memory_bytes(),
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
        writer.bytes(&self.dedup.encode());
        writer.seal()
    }

    /// The shard whose [`Shard::snapshot`] these bytes are; refused unless plan and partition are the same.
    pub fn restore(plan: Arc<Plan>, partition: u32, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = codec::Reader::open(KIND, VERSION, bytes)?;
        if reader.raw(32)? != plan.identity() {
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
        let dedup = Dedup::decode(plan.dedup, reader.bytes()?)?;
        reader.finish()?;
        Ok(Self { plan, partition, next, clock_ms, counts: Counts::from_array(counts), dedup })
    }
}
