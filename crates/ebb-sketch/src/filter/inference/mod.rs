//! The timing filter with a prior and penalties: which answer costs less, and how sure is it?
//!
//! Look, believe, decide, record: [`InferentialFilter::observe`] does all four for one arrival; [`InferentialFilter::ask`]
//! only answers. Without penalties, while a learned prior is still learning, and where its predictions do not come true,
//! the answer is the filter's standard one, and the answer says so.

mod codec;

use super::calibration::{Calibration, Outcome};
use super::decision::{Decision, Penalties};
use super::posterior::{AgePrior, Belief, Evidence, Posterior, Share};
use super::prior::{Past, ReusePrior, ReuseSpec};
use super::timing::{AgeUnit, Drive, Likelihood, Reading, TimingError, TimingFilter, TimingSpec};
use crate::hash::Fingerprint;

/// From which sighting the window is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// From the one that was answered "unique": a repeat does not renew it.
    First,
    /// From the latest.
    Last,
}

/// Where the prior comes from, when the question does not bring a share of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PriorSpec {
    /// Every item has this share of the arrivals.
    Constant(Share),
    /// Learned from sampled items.
    Learned(ReuseSpec),
}

/// What is asked about one item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    pub item: Fingerprint,
    /// The event's time: the window reaches back from here.
    pub time_ms: i64,
    /// Milliseconds or arrivals, as the filter is driven; at most the configured window.
    pub window: u64,
    pub penalties: Option<Penalties>,
    /// The item's own share of the arrivals, where it is known.
    pub share: Option<Share>,
    /// An estimate of how often the item comes, where there is one: chooses the learned stratum.
    pub frequency: Option<f64>,
}

impl Question {
    pub fn new(item: Fingerprint, time_ms: i64, window: u64) -> Self {
        Self { item, time_ms, window, penalties: None, share: None, frequency: None }
    }

    pub fn with_penalties(self, penalties: Penalties) -> Self {
        Self { penalties: Some(penalties), ..self }
    }
}

/// Why the answer is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// No penalties were given: the filter's own answer.
    Standard,
    /// The least expected penalty.
    Posterior,
    /// The prior has not seen enough: the filter's own answer.
    Learning,
    /// Predictions did not come true lately: the filter's own answer.
    Miscalibrated,
}

impl Basis {
    pub const ALL: [Self; 4] = [Self::Standard, Self::Posterior, Self::Learning, Self::Miscalibrated];

    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Posterior => "posterior",
            Self::Learning => "learning",
            Self::Miscalibrated => "miscalibrated",
        }
    }
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    pub duplicate: bool,
    pub basis: Basis,
    /// Set with [`Basis::Posterior`].
    pub decision: Option<Decision>,
    /// Set with [`Basis::Posterior`].
    pub belief: Option<Belief>,
    pub reading: Reading,
}

/// Everything that can be said about an item's last sighting.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub answer: Answer,
    pub belief: Belief,
    /// Chance of each block, youngest first; what is missing to 1 is older or never.
    pub blocks: Vec<f64>,
    /// The likeliest block, unless "older or never" is likelier.
    pub likely_block: Option<u8>,
    /// In the unit of `unit`.
    pub expected_age: f64,
    pub unit: AgeUnit,
    /// Chance that it was never seen; with a learned prior, not within its horizon.
    pub never: f64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct InferentialFilter {
    filter: TimingFilter,
    seen: Seen,
    prior: Prior,
}

#[derive(Debug, Clone)]
enum Prior {
    Constant(Share),
    Learned(Box<Learned>),
}

#[derive(Debug, Clone)]
struct Learned {
    reuse: ReusePrior,
    calibration: Calibration,
}

impl InferentialFilter {
    pub fn new(spec: TimingSpec, seen: Seen, prior: PriorSpec) -> Result<Self, TimingError> {
        let prior = match prior {
            PriorSpec::Constant(share) => Prior::Constant(share),
            PriorSpec::Learned(spec) => {
                Prior::Learned(Box::new(Learned { reuse: ReusePrior::new(spec), calibration: Calibration::default() }))
            }
        };
        Ok(Self { filter: TimingFilter::new(spec)?, seen, prior })
    }

    pub fn filter(&self) -> &TimingFilter {
        &self.filter
    }

    /// The learned prior and how well it predicts, if the prior is learned.
    pub fn learned(&self) -> Option<(&ReusePrior, &Calibration)> {
        match &self.prior {
            Prior::Constant(_) => None,
            Prior::Learned(learned) => Some((&learned.reuse, &learned.calibration)),
        }
    }

    #[inline]
    pub fn touch(&self, item: Fingerprint) {
        self.filter.touch(item);
    }

    pub fn advance(&mut self, now_ms: i64) {
        self.filter.advance(now_ms);
    }

    /// The answer as things stand; nothing is recorded.
    pub fn ask(&self, question: &Question) -> Answer {
        let reading = self.filter.look(question.item);
        self.answer(question, reading)
    }

    /// Answers one arrival and records it. `None`: it is older than the filter remembers, and was only counted.
    #[inline]
    pub fn observe(&mut self, question: &Question) -> Option<Answer> {
        self.filter.advance(question.time_ms);
        let reading = self.filter.look(question.item);
        let answer = self.answer(question, reading);
        let at = self.clock_of(question.time_ms);
        self.learn(question, &reading, at);
        let renews = self.seen == Seen::Last || !answer.duplicate;
        let recorded = !renews || self.filter.insert(question.item, question.time_ms);
        if let Prior::Learned(learned) = &mut self.prior
            && renews
            && recorded
        {
            learned.reuse.inserted(question.item, at);
        }
        self.filter.arrive(question.time_ms);
        recorded.then_some(answer)
    }

    /// Counts an arrival whose answer came from elsewhere.
    pub fn pass(&mut self, time_ms: i64) {
        self.filter.advance(time_ms);
        self.filter.arrive(time_ms);
    }

    #[inline]
    fn answer(&self, question: &Question, reading: Reading) -> Answer {
        let basis = self.basis(question);
        match question.penalties {
            Some(penalties) if basis == Basis::Posterior => {
                let belief = self.belief(question, &reading);
                let decision = penalties.decide(&belief);
                let (belief, decision, duplicate) = (Some(belief), Some(decision), decision.duplicate);
                Answer { duplicate, basis, decision, belief, reading }
            }
            _ => {
                let duplicate = self.filter.standard(&reading, question.time_ms, question.window);
                Answer { duplicate, basis, decision: None, belief: None, reading }
            }
        }
    }

    #[inline]
    fn basis(&self, question: &Question) -> Basis {
        match &self.prior {
            _ if question.penalties.is_none() => Basis::Standard,
            _ if question.share.is_some() => Basis::Posterior,
            Prior::Constant(_) => Basis::Posterior,
            Prior::Learned(learned) if !learned.reuse.is_ready() => Basis::Learning,
            Prior::Learned(learned) if !learned.calibration.is_trusted() => Basis::Miscalibrated,
            Prior::Learned(_) => Basis::Posterior,
        }
    }

    /// Was the item seen within the window?
    #[inline]
    pub fn belief(&self, question: &Question, reading: &Reading) -> Belief {
        if reading.age.is_none() || !self.filter.standard(reading, question.time_ms, question.window) {
            return Belief::OUTSIDE;
        }
        let (posterior, unit) = self.posterior(question, reading);
        posterior.within(self.filter.window_in(unit, question.time_ms, question.window))
    }

    #[inline]
    fn posterior(&self, question: &Question, reading: &Reading) -> (Posterior<'_>, AgeUnit) {
        let (prior, unit) = match (&self.prior, question.share) {
            (Prior::Constant(share), None) => (self.share_prior(*share), AgeUnit::Arrivals),
            (_, Some(share)) => (self.share_prior(share), AgeUnit::Arrivals),
            (Prior::Learned(learned), None) => {
                (AgePrior::Learned(learned.reuse.curve(question.frequency)), AgeUnit::Clock)
            }
        };
        let mut evidence = self.filter.evidence(question.item, reading, unit, Likelihood::Line);
        if unit == AgeUnit::Clock {
            evidence = self.seen_from(evidence, question.time_ms);
        }
        (Posterior::new(evidence, prior), unit)
    }

    /// Ages as they look from a late event: what was seen after it is as young as can be.
    #[inline]
    fn seen_from(&self, evidence: Evidence, time_ms: i64) -> Evidence {
        let behind = match (self.filter.spec().drive(), self.filter.now()) {
            (Drive::Time { .. }, Some(now)) => now.saturating_sub(time_ms).max(0) as f64,
            _ => 0.0,
        };
        let end = evidence.from + evidence.length - behind;
        let from = (evidence.from - behind).max(0.0);
        Evidence { from, length: (end - from).max(if behind > 0.0 { 1.0 } else { 0.0 }), ..evidence }
    }

    fn share_prior(&self, share: Share) -> AgePrior<'static> {
        match self.seen {
            Seen::Last => AgePrior::Geometric(share),
            Seen::First => self.first_seen(share),
        }
    }

    /// An accepted item is quiet for a window, and in the mean for half a block more; false duplicates make it rarer.
    fn first_seen(&self, share: Share) -> AgePrior<'static> {
        let spec = self.filter.spec();
        let accepted = share.get() * (1.0 - self.filter.false_duplicate_rate());
        let now = self.filter.now().unwrap_or(0);
        let window = self.filter.window_in(AgeUnit::Arrivals, now, spec.drive().window());
        let half_block = window / (spec.drive().window() as f64 / spec.drive().block() as f64) / 2.0;
        AgePrior::FirstSeen { share: Share::new(accepted).unwrap_or(share), window: window + half_block }
    }

    /// Everything about the item's last sighting; for people, not for the hot path.
    pub fn explain(&self, question: &Question) -> Explanation {
        let reading = self.filter.look(question.item);
        let (posterior, unit) = self.posterior(question, &reading);
        let belief = self.belief(question, &reading);
        let oldest = self.filter.spec().oldest_live_age();
        let chance = |age: u8| {
            let (from, length) = self.filter.segment(&Reading { age: Some(age), cells: 1, oldest: 1 }, unit);
            posterior.between(from, from + length)
        };
        let blocks: Vec<f64> = (0..=oldest).map(chance).collect();
        let older = 1.0 - blocks.iter().sum::<f64>();
        let likeliest = (0..=oldest).max_by(|a, b| blocks[usize::from(*a)].total_cmp(&blocks[usize::from(*b)]));
        let beginning = match (unit, &self.prior) {
            (AgeUnit::Clock, Prior::Learned(learned)) => learned.reuse.curve(None).horizon(),
            _ => self.filter.arrived() as f64,
        };
        Explanation {
            answer: self.answer(question, reading),
            belief,
            likely_block: likeliest.filter(|age| blocks[usize::from(*age)] >= older),
            blocks,
            expected_age: posterior.expected_age(),
            unit,
            never: posterior.never(beginning),
        }
    }

    /// The clock's reading for an arrival: its event time, or how many came before it.
    #[inline]
    fn clock_of(&self, time_ms: i64) -> i64 {
        match self.filter.spec().drive() {
            Drive::Time { .. } => time_ms,
            Drive::Count { .. } => self.filter.now().unwrap_or(0),
        }
    }

    /// Sampled items teach the prior and check its predictions, before this arrival is remembered.
    #[inline]
    fn learn(&mut self, question: &Question, reading: &Reading, at: i64) {
        let Prior::Learned(learned) = &self.prior else { return };
        let sampled = learned.reuse.samples(question.item);
        let check = (sampled && learned.reuse.is_ready()).then(|| self.belief(question, reading).inside);
        let counted = matches!(self.filter.spec().drive(), Drive::Count { .. });
        let Prior::Learned(learned) = &mut self.prior else { return };
        let Learned { reuse, calibration } = learned.as_mut();
        match reuse.advance(at) {
            0 => {}
            halvings => calibration.fade(halvings),
        }
        if !sampled {
            return;
        }
        // What arrived just before has age 0 on a clock of arrivals.
        let past = reuse.past(question.item, if counted { at.saturating_sub(1) } else { at });
        let outcome = match past {
            Past::Unknown => return,
            Past::Age(age) if age < question.window => Outcome::Inside,
            Past::Age(_) | Past::Never => Outcome::Outside,
        };
        if let Some(chance) = check {
            calibration.record(chance, outcome);
        }
        reuse.sighted(past, question.frequency);
    }
}
