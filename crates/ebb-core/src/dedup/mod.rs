//! The dedup view: was this item seen within the window, and which answer costs less if it is wrong?
//!
//! One filter of a chosen kind remembers the items of all keys; a key may have a window and penalties of its own, and the
//! heaviest keys may have filters of their own ([`isolation`]), so that a flood on one leaves the others alone.

mod filter;
mod isolation;
mod penalty;

pub use filter::FilterSpec;
pub use isolation::IsolationSpec;
pub use penalty::{Cost, KeyRule, KeyRules, PenaltySpec};

use super::ViewError;
use super::event::PreviousKey;
use super::key_rotation::Retention;
use super::question::{AgeRange, Answer, AnswerDetails, ExpectedAge, QuestionError, Span};
use super::verdict::{Reason, Verdict};
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::filter::decision::Penalties;
use ebb_sketch::filter::inference::{self, Basis, Seen};
use ebb_sketch::filter::posterior::Share;
use ebb_sketch::filter::stable::FadingSpec;
use ebb_sketch::filter::timing::{AgeUnit, Drive, Reading, TimingFilter};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::Random;
use filter::Filter;
use isolation::Isolation;

/// What a dedup view is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct DedupSpec {
    pub filter: FilterSpec,
    pub seen: Seen,
    /// Without it the filter's own answer stands.
    pub penalty: Option<PenaltySpec>,
    pub rules: KeyRules,
    pub isolation: Option<IsolationSpec>,
}

impl DedupSpec {
    /// One filter for all keys, and its own answers.
    pub fn new(filter: FilterSpec, seen: Seen) -> Self {
        Self { filter, seen, penalty: None, rules: KeyRules::default(), isolation: None }
    }

    /// The window that counts when neither rule nor question names one, and the longest they may name. Filters that
    /// forget at random have none.
    pub fn window(&self) -> Option<Span> {
        self.filter.timing().map(|spec| match spec.drive() {
            Drive::Time { window_ms, .. } => Span::Milliseconds(window_ms),
            Drive::Count { window, .. } => Span::Events(window),
        })
    }

    /// How long after it was recorded an item can still be found.
    pub(super) fn retention(&self) -> Retention {
        match &self.filter {
            FilterSpec::Timing { spec, .. } => match spec.drive() {
                Drive::Time { window_ms, lateness_ms, tick_ms } => {
                    Retention::Milliseconds(window_ms.saturating_add(lateness_ms).saturating_add(tick_ms))
                }
                Drive::Count { window, block } => Retention::Events(window.saturating_add(block)),
            },
            FilterSpec::Fading { spec, .. } => Retention::Events(faded_after(spec)),
            FilterSpec::Classic { .. } => Retention::Forever,
        }
    }

    /// A window that is asked for, in the unit of the configured one.
    pub fn requested_window(&self, asked: Option<Span>) -> Result<Option<u64>, QuestionError> {
        let Some(asked) = asked else { return Ok(None) };
        let most = self.window().ok_or(QuestionError::NoWindow)?;
        match (asked, most) {
            (Span::Milliseconds(0) | Span::Events(0), _) => Err(QuestionError::EmptyWindow),
            (Span::Milliseconds(w), Span::Milliseconds(m)) | (Span::Events(w), Span::Events(m)) if w <= m => {
                Ok(Some(w))
            }
            (Span::Milliseconds(_), Span::Milliseconds(_)) | (Span::Events(_), Span::Events(_)) => {
                Err(QuestionError::WindowTooLong { requested: asked, max: most })
            }
            _ => Err(QuestionError::WindowKind { requested: asked, max: most }),
        }
    }

    /// The window that counts for events of a key, in the unit of the view's own.
    pub fn key_window(&self, key: Option<Fingerprint>) -> Option<u64> {
        let own = key.and_then(|key| self.rules.of(key)).and_then(|rule| rule.window);
        self.filter.timing().map(|spec| own.unwrap_or(spec.drive().window()))
    }

    /// What wrong answers about such an event cost; none when nothing says so.
    pub fn penalties(&self, key: Option<Fingerprint>, numbers: &[Option<f64>]) -> Option<Penalties> {
        let rule = key.and_then(|key| self.rules.of(key)).and_then(|rule| rule.penalty.as_ref());
        rule.or(self.penalty.as_ref())?.of(numbers).ok().flatten()
    }

    /// The same memory without penalties: it gives the filter's own answers.
    pub fn without_penalties(&self) -> Self {
        Self { penalty: None, rules: self.rules.without_penalties(), ..self.clone() }
    }

    /// Refuses an event whose costs are no costs.
    pub(super) fn check_costs(&self, key: Option<Fingerprint>, numbers: &[Option<f64>]) -> Result<(), Reason> {
        let rule = key.and_then(|key| self.rules.of(key)).and_then(|rule| rule.penalty.as_ref());
        match rule.or(self.penalty.as_ref()).map(|spec| spec.of(numbers)) {
            Some(Err(_)) => Err(Reason::Schema),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// What identifies state made under this specification: layouts and modes, not penalties.
    pub(super) fn write_identity(&self, writer: &mut Writer) {
        self.filter.write_identity(writer);
        writer.u8(match self.seen {
            Seen::First => 0,
            Seen::Last => 1,
        });
        match &self.isolation {
            None => writer.u8(0),
            Some(isolation) => {
                writer.u8(1);
                isolation.write_identity(writer);
            }
        }
    }
}

/// Events after which a filter that forgets at random has hardly anything left: each lowers `decrements` of the cells, so
/// that a cell at the top is expected to be at zero after top × cells / decrements of them.
fn faded_after(spec: &FadingSpec) -> u64 {
    const TIMES: u64 = 4;
    let lowered = u64::from(spec.decrements().max(1));
    (u64::from(spec.top()) * TIMES).saturating_mul(spec.places().cells().div_ceil(lowered))
}

/// One event, or one question, as the view sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup<'a> {
    pub(super) item: Fingerprint,
    pub(super) key: Option<Fingerprint>,
    /// While a hash key is exchanged.
    pub(super) previous_key: Option<PreviousKey>,
    pub(super) time_ms: i64,
    pub(super) importance: Option<f64>,
    /// The numbers of the event that costs may refer to.
    pub(super) numbers: &'a [Option<f64>],
    /// A decayed count of the item, where the stream keeps one.
    pub(super) frequency: Option<f64>,
    /// What the question brings: it goes before rules and configuration.
    pub(super) window: Option<u64>,
    pub(super) penalties: Option<Penalties>,
    pub(super) share: Option<Share>,
}

/// See the module.
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

    /// Decides about an event and remembers it; the clock has been moved to it, and its costs have been checked.
    pub(super) fn observe(&mut self, lookup: &Lookup<'_>, draws: &mut Random) -> Result<Answer, Reason> {
        let question = self.question(lookup).map_err(|_| Reason::Schema)?;
        self.rename(lookup);
        let formerly = self.formerly(lookup, &question);
        if let (Some(answer), Seen::First, Filter::Timing(filter)) = (&formerly, self.spec.seen, &mut self.filter) {
            filter.pass(lookup.time_ms);
            if let (Some(isolation), Some(key)) = (&mut self.isolation, lookup.key) {
                isolation.pass(key);
            }
            return Ok(self.told(lookup, answer));
        }
        let answer = match (&mut self.isolation, lookup.key, &mut self.filter) {
            (Some(isolation), Some(key), Filter::Timing(shared)) => isolation.observe(key, &question, shared),
            (_, _, Filter::Timing(filter)) => filter.observe(&question),
            (_, _, Filter::Fading(filter)) => Some(filter.observe(lookup, draws)),
            (_, _, Filter::Classic(filter)) => Some(filter.observe(&question)),
        };
        Ok(match formerly.or(answer) {
            Some(answer) => self.told(lookup, &answer),
            // Too old to be remembered; whether it was seen can still be said.
            None => self.decide(lookup).unwrap_or(Answer::plain(Verdict::Late)),
        })
    }

    /// Decides without remembering.
    pub(super) fn decide(&self, lookup: &Lookup<'_>) -> Result<Answer, QuestionError> {
        let question = self.question(lookup)?;
        let answer = self.formerly(lookup, &question).unwrap_or_else(|| self.answer(lookup, &question));
        Ok(self.told(lookup, &answer))
    }

    fn answer(&self, lookup: &Lookup<'_>, question: &inference::Question) -> inference::Answer {
        match (&self.isolation, lookup.key, &self.filter) {
            (Some(isolation), Some(key), Filter::Timing(shared)) => isolation.ask(key, question, shared),
            (_, _, Filter::Timing(filter)) => filter.ask(question),
            (_, _, Filter::Fading(filter)) => filter.ask(question.item),
            (_, _, Filter::Classic(filter)) => filter.ask(question),
        }
    }

    /// What is remembered of the item under the previous hash key; that it is not remembered says nothing.
    fn formerly(&self, lookup: &Lookup<'_>, question: &inference::Question) -> Option<inference::Answer> {
        let former = self.known_as(lookup)?;
        let question = inference::Question { item: former.item, ..*question };
        Some(self.answer(&former, &question)).filter(|answer| answer.duplicate)
    }

    /// The same lookup under the previous hash key. A key that came since then is known by its new name.
    fn known_as<'a>(&self, lookup: &Lookup<'a>) -> Option<Lookup<'a>> {
        let former = lookup.previous_key?;
        let is_renamed = |key| self.isolation.as_ref().is_some_and(|isolation| isolation.knows(key));
        let key = lookup.key.filter(|key| is_renamed(*key)).or(former.key);
        Some(Lookup { item: former.item, key, previous_key: None, ..*lookup })
    }

    /// A key's own filter goes with it when its name changes.
    fn rename(&mut self, lookup: &Lookup<'_>) {
        if let (Some(isolation), Some(key), Some(former)) =
            (&mut self.isolation, lookup.key, lookup.previous_key.and_then(|former| former.key))
        {
            isolation.rename(former, key);
        }
    }

    /// Everything that can be said about the item's last sighting; only the timing filter can say more than yes or no.
    pub(super) fn explain(&self, lookup: &Lookup<'_>) -> Result<Option<AnswerDetails>, QuestionError> {
        let question = self.question(lookup)?;
        let former = self.known_as(lookup).filter(|_| self.formerly(lookup, &question).is_some());
        let lookup = former.as_ref().unwrap_or(lookup);
        let question = inference::Question { item: lookup.item, ..question };
        let home = match (&self.isolation, lookup.key, &self.filter) {
            (Some(isolation), Some(key), Filter::Timing(shared)) => isolation.home(key, shared),
            (_, _, Filter::Timing(filter)) => filter,
            (_, _, Filter::Fading(_) | Filter::Classic(_)) => return Ok(None),
        };
        let found = home.explain(&question);
        let ages = |block: u8| age_range(home.filter(), &Reading { age: Some(block), cells: 1, oldest: 1 });
        let blocks = (0..).zip(&found.blocks).filter_map(|(block, chance)| Some((ages(block)?, *chance)));
        Ok(Some(AnswerDetails {
            belief: found.belief,
            decision: question.penalties.map(|penalties| penalties.decide(&found.belief)),
            blocks: blocks.collect(),
            likely: found.likely_block.and_then(ages),
            expected_age: match (found.unit, home.filter().spec().drive()) {
                (AgeUnit::Clock, Drive::Time { .. }) => ExpectedAge::Milliseconds(found.expected_age),
                (AgeUnit::Clock, Drive::Count { .. }) | (AgeUnit::Arrivals, _) => {
                    ExpectedAge::Events(found.expected_age)
                }
            },
            never: found.never,
        }))
    }

    /// The question as the filter takes it: windows and penalties by question, rule and configuration, in this order.
    fn question(&self, lookup: &Lookup<'_>) -> Result<inference::Question, QuestionError> {
        let rule = lookup.key.and_then(|key| self.spec.rules.of(key));
        let most = self.spec.filter.timing().map_or(u64::MAX, |spec| spec.drive().window());
        let window = lookup.window.or(rule.and_then(|rule| rule.window)).unwrap_or(most);
        let spec = rule.and_then(|rule| rule.penalty.as_ref()).or(self.spec.penalty.as_ref());
        let penalties = match (lookup.penalties, spec) {
            (Some(asked), _) => Some(asked),
            (None, Some(spec)) => spec.of(lookup.numbers)?,
            (None, None) => None,
        };
        let plain = inference::Question::new(lookup.item, lookup.time_ms, window);
        Ok(inference::Question { penalties, share: lookup.share, frequency: lookup.frequency, ..plain })
    }

    fn told(&self, lookup: &Lookup<'_>, answer: &inference::Answer) -> Answer {
        let timing = self.timing();
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
            age: timing.and_then(|filter| age_range(filter, &answer.reading)),
            frequency: None,
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
            filter.touch(item);
        }
    }

    fn timing(&self) -> Option<&TimingFilter> {
        match &self.filter {
            Filter::Timing(filter) => Some(filter.filter()),
            Filter::Fading(_) | Filter::Classic(_) => None,
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

    /// Whether chances are believed: learned well enough, and coming true.
    pub(super) fn basis(&self) -> Basis {
        self.filter.basis()
    }

    pub(super) fn calibration_error(&self) -> Option<f64> {
        self.filter.calibration_error()
    }

    pub(super) fn isolated_keys(&self) -> usize {
        self.isolation.as_ref().map_or(0, Isolation::active)
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

/// KeyScope of the window before such an event is already forgotten: not finding it proves nothing.
fn is_late(filter: &TimingFilter, time_ms: i64) -> bool {
    match (filter.spec().drive(), filter.now()) {
        (Drive::Time { lateness_ms, .. }, Some(now)) => now.saturating_sub_unsigned(lateness_ms) > time_ms,
        _ => false,
    }
}

/// The ages of the block in which the item's oldest timer was written.
fn age_range(filter: &TimingFilter, reading: &Reading) -> Option<AgeRange> {
    let drive = filter.spec().drive();
    let (age, now) = (i64::from(reading.age?), filter.now()?);
    let length = i64::try_from(drive.block()).ok()?;
    let start = (now.div_euclid(length).saturating_sub(age)).saturating_mul(length);
    let least = now.saturating_sub(start.saturating_add(length)).saturating_add(1).max(0) as u64;
    let below = now.saturating_sub(start).saturating_add(1).max(0) as u64;
    Some(match drive {
        Drive::Time { .. } => AgeRange { min: Span::Milliseconds(least), below: Span::Milliseconds(below) },
        Drive::Count { .. } => AgeRange { min: Span::Events(least), below: Span::Events(below) },
    })
}
