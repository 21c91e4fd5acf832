//! The dedup view: was this item seen within the window, and which answer costs less if it is wrong?
//!
//! One filter of a configurable kind remembers the items of all keys. A key may have a window and penalties of its own,
//! and the heaviest keys may have filters of their own, so that a flood on one key does not raise false duplicates on the
//! others.

mod age;
mod classic_view;
mod filter;
mod forgetting;
mod isolation;
mod lookup;
mod penalty;
mod prior;
mod spec;
mod stable_view;

pub use filter::FilterSpec;
pub use forgetting::{ClassForgetting, Forgetting};
pub use isolation::IsolationSpec;
pub(crate) use lookup::Lookup;
pub use penalty::{Cost, KeyRule, KeyRules, PenaltySpec};
pub use prior::{PriorStrata, ShareSource};
pub use spec::DedupSpec;
pub use stable_view::{ClassScale, StableViewSpec};

use super::question::{AgeExplanation, Answer, AnswerDetails, ExpectedAge, QuestionError};
use super::shard::ViewError;
use super::verdict::{Reason, Verdict};
use age::{age_range, is_late};
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::filter::inference::prior::ShareEstimate;
use ebb_sketch::filter::inference::{self, Basis, Seen};
use ebb_sketch::filter::stable_posterior::classes::ClassCounts;
use ebb_sketch::filter::structure::timing::{AgeUnit, ClockSpec, Reading, TimingFilter};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::Random;
use filter::Filter;
use isolation::Isolation;

/// The state of a dedup view.
#[derive(Debug, Clone)]
pub(super) struct Dedup {
    spec: DedupSpec,
    filter: Filter,
    isolation: Option<Isolation>,
}

impl Dedup {
    pub(super) fn new(spec: &DedupSpec) -> Result<Self, ViewError> {
        Ok(Self {
            filter: Filter::new(&spec.filter, spec.seen)?,
            isolation: spec.isolation.map(Isolation::new),
            spec: spec.clone(),
        })
    }

    /// Decides about an event and records it. The caller has advanced the clock and checked the costs.
    pub(super) fn observe(&mut self, lookup: &Lookup<'_>, draws: &mut Random) -> Result<Answer, Reason> {
        let question = self.filter_question(lookup).map_err(|_| Reason::Schema)?;
        self.rename_key(lookup);
        let previous = self.ask_previous(lookup, &question);
        if let (Some(answer), Seen::First, Filter::Timing(filter)) = (&previous, self.spec.seen, &mut self.filter) {
            filter.count_arrival(lookup.time_ms);
            if let (Some(isolation), Some(key)) = (&mut self.isolation, lookup.key) {
                isolation.count_event(key);
            }
            return Ok(self.judge(lookup, answer));
        }
        let answer = match (&mut self.isolation, lookup.key, &mut self.filter) {
            (Some(isolation), Some(key), Filter::Timing(shared)) => isolation.observe(key, &question, shared),
            (_, _, Filter::Timing(filter)) => filter.observe(&question),
            (_, _, Filter::Stable(filter)) => Some(filter.observe(lookup, &question, draws)),
            (_, _, Filter::Classic(filter)) => Some(filter.observe(&question)),
        };
        Ok(match previous.or(answer) {
            Some(answer) => self.judge(lookup, &answer),
            // Too old to be recorded; the filter may still know the item.
            None => self.decide(lookup).unwrap_or(Answer::plain(Verdict::Late)),
        })
    }

    /// Decides without recording.
    pub(super) fn decide(&self, lookup: &Lookup<'_>) -> Result<Answer, QuestionError> {
        let question = self.filter_question(lookup)?;
        let answer = self.ask_previous(lookup, &question).unwrap_or_else(|| self.ask(lookup, &question));
        Ok(self.judge(lookup, &answer))
    }

    fn ask(&self, lookup: &Lookup<'_>, question: &inference::Question) -> inference::Answer {
        match (&self.isolation, lookup.key, &self.filter) {
            (Some(isolation), Some(key), Filter::Timing(shared)) => isolation.ask(key, question, shared),
            (_, _, Filter::Timing(filter)) => filter.ask(question),
            (_, _, Filter::Stable(filter)) => filter.ask(lookup, question),
            (_, _, Filter::Classic(filter)) => filter.ask(question),
        }
    }

    /// The answer under the previous hash key, if it is "duplicate". Any other answer says nothing about the item.
    fn ask_previous(&self, lookup: &Lookup<'_>, question: &inference::Question) -> Option<inference::Answer> {
        let previous = self.previous_lookup(lookup)?;
        let question = inference::Question { item: previous.item, ..*question };
        Some(self.ask(&previous, &question)).filter(|answer| answer.duplicate)
    }

    /// The same lookup under the previous hash key. A key with a filter of its own that was already renamed keeps its new
    /// name.
    fn previous_lookup<'a>(&self, lookup: &Lookup<'a>) -> Option<Lookup<'a>> {
        let previous_key = lookup.previous_key?;
        let is_renamed = |key| self.isolation.as_ref().is_some_and(|isolation| isolation.contains(key));
        let key = lookup.key.filter(|key| is_renamed(*key)).or(previous_key.key);
        Some(Lookup { item: previous_key.item, key, previous_key: None, ..*lookup })
    }

    /// Moves a key's own filter from its previous to its current fingerprint.
    fn rename_key(&mut self, lookup: &Lookup<'_>) {
        if let (Some(isolation), Some(key), Some(previous)) =
            (&mut self.isolation, lookup.key, lookup.previous_key.and_then(|previous| previous.key))
        {
            isolation.rename(previous, key);
        }
    }

    /// The posterior distribution of the item's age; `None` for filters other than the timing filter.
    pub(super) fn explain(&self, lookup: &Lookup<'_>) -> Result<Option<AgeExplanation>, QuestionError> {
        let question = self.filter_question(lookup)?;
        let previous = self.previous_lookup(lookup).filter(|_| self.ask_previous(lookup, &question).is_some());
        let lookup = previous.as_ref().unwrap_or(lookup);
        let question = inference::Question { item: lookup.item, ..question };
        let filter = match (&self.isolation, lookup.key, &self.filter) {
            (Some(isolation), Some(key), Filter::Timing(shared)) => isolation.filter_of(key, shared),
            (_, _, Filter::Timing(filter)) => filter,
            (_, _, Filter::Stable(_) | Filter::Classic(_)) => return Ok(None),
        };
        let Some(posterior) = filter.explain(&question).posterior else { return Ok(Some(AgeExplanation::Learning)) };
        let reading = |block: u8| Reading { age: Some(block), cells: 1, oldest: 1 };
        let ages = |block: u8| age_range(filter.filter(), &reading(block), question.time_ms);
        let blocks = (0..).zip(&posterior.blocks).filter_map(|(block, chance)| Some((ages(block)?, *chance)));
        Ok(Some(AgeExplanation::Posterior(AnswerDetails {
            belief: posterior.belief,
            decision: question.penalties.map(|penalties| penalties.decide(&posterior.belief)),
            blocks: blocks.collect(),
            likely: posterior.likely_block.and_then(ages),
            expected_age: match (posterior.unit, filter.filter().spec().clock()) {
                (AgeUnit::Clock, ClockSpec::Time { .. }) => ExpectedAge::Milliseconds(posterior.expected_age),
                (AgeUnit::Clock, ClockSpec::Count { .. }) | (AgeUnit::Arrivals, _) => {
                    ExpectedAge::Events(posterior.expected_age)
                }
            },
            never: posterior.never,
        })))
    }

    /// The question to the filter. Window, penalties and share come from the question, the key's rule or the
    /// configuration, in this order.
    fn filter_question(&self, lookup: &Lookup<'_>) -> Result<inference::Question, QuestionError> {
        let rule = self.spec.rule(lookup.key);
        let max_window = self.spec.filter.timing().map_or(u64::MAX, |spec| spec.clock().window());
        let window = lookup.window.or(rule.and_then(|rule| rule.window)).unwrap_or(max_window);
        let penalty = rule.and_then(|rule| rule.penalty.as_ref()).or(self.spec.penalty.as_ref());
        let penalties = match (lookup.penalties, penalty) {
            (Some(requested), _) => Some(requested),
            (None, Some(spec)) => spec.evaluate(lookup.numbers)?,
            (None, None) => None,
        };
        let share = match (lookup.share, self.spec.share_source(lookup.key)) {
            (Some(requested), _) => Some(requested),
            (None, Some(source)) => source.evaluate(lookup.numbers, lookup.importance)?,
            (None, None) => None,
        };
        let plain = inference::Question::new(lookup.item, lookup.time_ms, window);
        Ok(inference::Question {
            penalties,
            share,
            frequency: lookup.frequency.filter(|_| self.spec.strata == PriorStrata::KeysAndFrequency),
            key: lookup.key,
            ..plain
        })
    }

    /// The filter's answer as a verdict: an unknown item is late if the filter no longer covers its whole window.
    fn judge(&self, lookup: &Lookup<'_>, answer: &inference::Answer) -> Answer {
        let timing = self.timing_filter();
        let verdict = match (answer.duplicate, timing) {
            (true, _) => Verdict::Duplicate,
            (false, Some(filter)) if is_late(filter, lookup.time_ms) => Verdict::Late,
            (false, _) => Verdict::Unique,
        };
        Answer {
            verdict,
            basis: answer.basis,
            belief: answer.belief,
            decision: answer.decision,
            age: timing.and_then(|filter| age_range(filter, &answer.reading, lookup.time_ms)),
            frequency: None,
            is_overruled: answer.is_overruled(),
        }
    }

    pub(super) fn advance(&mut self, clock_ms: i64) {
        if let Filter::Timing(filter) = &mut self.filter {
            filter.advance(clock_ms);
        }
        if let Some(isolation) = &mut self.isolation {
            isolation.advance(clock_ms);
        }
    }

    pub(super) fn prefetch(&self, item: Fingerprint) {
        if let Filter::Timing(filter) = &self.filter {
            filter.prefetch(item);
        }
    }

    fn timing_filter(&self) -> Option<&TimingFilter> {
        match &self.filter {
            Filter::Timing(filter) => Some(filter.filter()),
            Filter::Stable(_) | Filter::Classic(_) => None,
        }
    }

    pub(super) fn fill(&self) -> f64 {
        self.filter.fill()
    }

    pub(super) fn false_duplicate_rate(&self) -> f64 {
        self.filter.false_duplicate_rate()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.filter.memory_bytes() + self.isolation.as_ref().map_or(0, Isolation::memory_bytes)
    }

    pub(super) fn basis(&self) -> Basis {
        self.filter.basis()
    }

    pub(super) fn calibration_error(&self) -> Option<f64> {
        self.filter.calibration_error()
    }

    pub(super) fn repeats(&self) -> Option<ShareEstimate> {
        self.filter.repeats()
    }

    /// The events by importance class, where the filter has classes.
    pub(super) fn classes(&self) -> Option<&ClassCounts> {
        match &self.filter {
            Filter::Stable(stable) => stable.classes(),
            Filter::Timing(_) | Filter::Classic(_) => None,
        }
    }

    /// The class of an importance, where the filter has classes.
    pub(super) fn importance_class(&self, importance: f64) -> Option<u8> {
        match &self.filter {
            Filter::Stable(stable) => stable.classes().map(|_| stable.raised_value(importance)),
            Filter::Timing(_) | Filter::Classic(_) => None,
        }
    }

    pub(super) fn isolated_keys(&self) -> usize {
        self.isolation.as_ref().map_or(0, Isolation::active_keys)
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.filter.encode());
        if let Some(isolation) = &self.isolation {
            writer.bytes(&isolation.encode());
        }
    }

    pub(super) fn decode(spec: &DedupSpec, reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let filter = Filter::decode(&spec.filter, spec.seen, reader.bytes()?)?;
        let isolation = match spec.isolation {
            None => None,
            Some(isolation) => Some(Isolation::decode(isolation, reader.bytes()?)?),
        };
        Ok(Self { spec: spec.clone(), filter, isolation })
    }
}
