//! Questions to a shard. They change nothing.

use super::Shard;
use crate::aggregate::{AggregateAnswer, AggregateError, AggregateQuestion, PartialAggregate};
use crate::dedup::Lookup;
use crate::frequency::ItemCount;
use crate::question::{AgeExplanation, Answer, Question, QuestionError};
use crate::reader::Subject;

impl Shard {
    /// Answers as of the last applied record.
    pub fn ask(&self, question: &Question) -> Result<Answer, QuestionError> {
        let lookup = self.lookup(question)?;
        let frequency = self.estimate_frequency(lookup.item, lookup.previous_key, lookup.time_ms);
        Ok(Answer { frequency, ..self.dedup.decide(&lookup)? })
    }

    /// Prefetches the memory that several questions need.
    pub fn prefetch(&self, questions: &[Question]) {
        if questions.len() > 1 {
            questions.iter().for_each(|question| self.dedup.prefetch(question.subject.item));
        }
    }

    /// The posterior distribution behind the answer; `None` for filters other than the timing filter.
    pub fn explain(&self, question: &Question) -> Result<Option<AgeExplanation>, QuestionError> {
        self.dedup.explain(&self.lookup(question)?)
    }

    fn lookup<'a>(&self, question: &'a Question) -> Result<Lookup<'a>, QuestionError> {
        let window = self.plan.dedup.requested_window(question.window)?;
        self.plan.dedup.check_penalties(question)?;
        let subject = &question.subject;
        let time_ms = subject.time_ms.or(self.clock_ms).unwrap_or(i64::MIN);
        let previous_key = self.previous_key_in_use(subject.previous_key);
        Ok(Lookup {
            item: subject.item,
            key: subject.key,
            previous_key,
            time_ms,
            importance: subject.importance,
            numbers: &subject.numbers,
            frequency: self.estimate_frequency(subject.item, previous_key, time_ms).map(|count| count.value),
            window,
            penalties: question.penalties,
            share: question.share,
        })
    }

    /// Answers a question about an aggregate from this shard alone.
    pub fn aggregate(&self, question: &AggregateQuestion) -> Result<AggregateAnswer, AggregateError> {
        self.plan.aggregate(&question.aggregate)?.1.answer(question, vec![self.partial_aggregate(question)?])
    }

    /// This shard's contribution to a question that all shards of the stream answer together.
    pub fn partial_aggregate(&self, question: &AggregateQuestion) -> Result<PartialAggregate, AggregateError> {
        let (index, spec) = self.plan.aggregate(&question.aggregate)?;
        self.aggregates[index].partial(spec, question, self.as_of())
    }

    /// The item's decayed count, where the stream has a frequency view.
    pub fn frequency(&self, subject: &Subject) -> Option<ItemCount> {
        let previous_key = self.previous_key_in_use(subject.previous_key);
        self.estimate_frequency(subject.item, previous_key, self.clock_ms.unwrap_or(i64::MIN))
    }
}
