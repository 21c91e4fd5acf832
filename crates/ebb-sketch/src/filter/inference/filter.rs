//! The timing filter with a prior and penalties: which answer costs less, and how certain is it?
//!
//! [`InferentialFilter::observe`] reads, infers, decides and records one arrival; [`InferentialFilter::ask`] only answers.
//! Without penalties and while a learned prior is not ready, the answer is the filter's own. Otherwise it is that of the
//! policy in force, which is the posterior's unless another one is cheaper on the sample. [`Answer::basis`] names it.

mod codec;
mod learned;
mod mass_cache;

use super::calibration::Calibration;
use super::policy::{Policy, PolicyGuard};
use super::posterior::{AgePrior, Posterior, PriorMasses};
use super::prior::ReusePrior;
use super::question::{Answer, Basis, Explanation, PosteriorDetails, PriorSpec, Question, Seen};
use crate::filter::belief::{ArrivalShare, Belief};
use crate::filter::structure::timing::{
    AgeLikelihood, AgeUnit, ClockSpec, LikelihoodScope, Reading, TimingError, TimingFilter, TimingSpec,
};
use crate::hash::Fingerprint;
pub use learned::LearnedPrior;
use mass_cache::MassCache;

/// Beliefs that the item's line may change.
const DOUBT: std::ops::Range<f64> = 0.01..0.99;

/// A timing filter with a prior.
///
/// ```
/// use ebb_sketch::filter::belief::ArrivalShare;
/// use ebb_sketch::filter::inference::decision::Penalties;
/// use ebb_sketch::filter::inference::{Basis, InferentialFilter, PriorSpec, Question, Seen};
/// use ebb_sketch::{filter::structure::timing::TimingSpec, hash::HashKey};
///
/// let prior = PriorSpec::Constant(ArrivalShare::new(1e-4).unwrap());
/// let mut filter = InferentialFilter::new(TimingSpec::time(60_000, 0, 4096).unwrap(), Seen::First, prior).unwrap();
/// let click = HashKey::new([7; 16]).fingerprint(b"click-1");
/// let at = |ms| Question::new(click, ms, 60_000).with_penalties(Penalties::new(1.0, 0.5).unwrap());
/// assert!(!filter.observe(&at(0)).unwrap().duplicate);
/// let answer = filter.observe(&at(1_000)).unwrap();
/// assert!(answer.duplicate && answer.basis == Basis::Posterior && answer.belief.unwrap().inside > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct InferentialFilter {
    filter: TimingFilter,
    seen: Seen,
    prior: PriorState,
    /// Derived.
    cache: MassCache,
}

#[derive(Debug, Clone)]
enum PriorState {
    Constant(ArrivalShare),
    Learned(Box<LearnedPrior>),
}

impl InferentialFilter {
    /// An empty filter.
    pub fn new(spec: TimingSpec, seen: Seen, prior: PriorSpec) -> Result<Self, TimingError> {
        let prior = match prior {
            PriorSpec::Constant(share) => PriorState::Constant(share),
            PriorSpec::Learned(spec) => PriorState::Learned(Box::new(LearnedPrior {
                reuse: ReusePrior::new(spec),
                calibration: Calibration::default(),
                guard: PolicyGuard::default(),
            })),
        };
        Ok(Self { filter: TimingFilter::new(spec)?, seen, prior, cache: MassCache::new() })
    }

    /// The timing filter.
    pub fn filter(&self) -> &TimingFilter {
        &self.filter
    }

    /// What the sample teaches; `None` for a constant prior.
    pub fn learned(&self) -> Option<&LearnedPrior> {
        match &self.prior {
            PriorState::Constant(_) => None,
            PriorState::Learned(learned) => Some(learned),
        }
    }

    /// The basis of answers to questions with penalties.
    pub fn basis(&self) -> Basis {
        basis_of(self.learned().map_or(Some(Policy::Posterior), LearnedPrior::policy))
    }

    /// Loads the item's cells into the cache.
    #[inline]
    pub fn prefetch(&self, item: Fingerprint) {
        self.filter.prefetch(item);
    }

    /// Advances event time. Earlier times have no effect.
    pub fn advance(&mut self, now_ms: i64) {
        self.filter.advance(now_ms);
    }

    /// Answers without recording anything.
    pub fn ask(&self, question: &Question) -> Answer {
        let reading = self.filter.read(question.item);
        self.answer(question, reading, None)
    }

    /// Answers one arrival and records it. `None` means that the event is too late: it was only counted.
    #[inline]
    pub fn observe(&mut self, question: &Question) -> Option<Answer> {
        self.filter.advance(question.time_ms);
        let at = self.clock_of(question.time_ms);
        self.advance_prior(at);
        let reading = self.filter.read(question.item);
        let masses = self.cached_masses(question, &reading);
        let answer = self.answer(question, reading, masses);
        let is_sampled = self.learned().is_some_and(|learned| learned.reuse.is_sampled(question.item));
        if is_sampled {
            self.learn(question, &answer, at);
        }
        let renews = self.seen == Seen::Last || !answer.duplicate;
        let recorded = !renews || self.filter.insert(question.item, question.time_ms);
        if let PriorState::Learned(learned) = &mut self.prior
            && is_sampled
            && renews
            && recorded
        {
            learned.reuse.record_insert(question.item, at);
        }
        self.filter.count_arrival(question.time_ms);
        recorded.then_some(answer)
    }

    /// Counts an arrival that another filter answered.
    pub fn count_arrival(&mut self, time_ms: i64) {
        self.filter.advance(time_ms);
        self.filter.count_arrival(time_ms);
    }

    #[inline]
    fn is_standard_duplicate(&self, question: &Question, reading: &Reading) -> bool {
        self.filter.standard_answer(reading, question.time_ms, question.window)
    }

    #[inline]
    fn answer(&self, question: &Question, reading: Reading, masses: Option<PriorMasses>) -> Answer {
        let standard = self.is_standard_duplicate(question, &reading);
        let policy = self.policy(question);
        let Some((penalties, policy)) = question.penalties.zip(policy) else {
            let basis = if question.penalties.is_some() { Basis::Learning } else { Basis::Standard };
            return Answer { duplicate: standard, basis, decision: None, belief: None, reading, standard };
        };
        let belief = match masses {
            _ if !standard => Belief::OUTSIDE,
            Some(masses) => self.refined(question, &reading, |collision| masses.posterior(collision)),
            None => self.positive_belief(question, &reading),
        };
        let decision = penalties.decide(&belief);
        let duplicate = match policy {
            Policy::Posterior => decision.duplicate,
            Policy::Standard => standard,
            Policy::AcceptAll => false,
        };
        let (decision, belief) = (Some(decision), Some(belief));
        Answer { duplicate, basis: basis_of(Some(policy)), decision, belief, reading, standard }
    }

    /// The policy for a question; `None` while the prior is not ready.
    #[inline]
    fn policy(&self, question: &Question) -> Option<Policy> {
        match &self.prior {
            PriorState::Learned(learned) if question.share.is_none() => learned.policy(),
            PriorState::Learned(_) | PriorState::Constant(_) => Some(Policy::Posterior),
        }
    }

    /// The posterior that the item was seen within the window.
    #[inline]
    pub fn belief(&self, question: &Question, reading: &Reading) -> Belief {
        if self.is_standard_duplicate(question, reading) {
            self.positive_belief(question, reading)
        } else {
            Belief::OUTSIDE
        }
    }

    /// The posterior of a reading that the filter's own answer calls a duplicate.
    #[inline]
    fn positive_belief(&self, question: &Question, reading: &Reading) -> Belief {
        let (posterior, unit) = self.posterior(question, reading, LikelihoodScope::Filter);
        let window = self.window_in(question, unit);
        self.refined(question, reading, |collision| posterior.with_collision(collision).within(window))
    }

    /// The belief from the whole filter's collision probability or, where that leaves doubt, from the item's line, which
    /// is more precise and takes longer.
    #[inline]
    fn refined(&self, question: &Question, reading: &Reading, belief: impl Fn(f64) -> Belief) -> Belief {
        let first = belief(self.filter.collision(reading));
        if DOUBT.contains(&first.inside) { belief(self.filter.collision_of(question.item, reading)) } else { first }
    }

    /// The window of a question, or the time since the filter began if that is shorter: nothing was seen before.
    #[inline]
    fn window_in(&self, question: &Question, unit: AgeUnit) -> f64 {
        match (unit, &self.prior) {
            (AgeUnit::Clock, PriorState::Learned(learned)) => {
                question.window.min(self.filter.spec().clock().window()).min(learned.reuse.known_window()) as f64
            }
            _ => self.filter.window_in(unit, question.time_ms, question.window),
        }
    }

    /// The prior masses of a reading if the question is the common one: the configured window, now, without strata.
    #[inline]
    fn cached_masses(&mut self, question: &Question, reading: &Reading) -> Option<PriorMasses> {
        let PriorState::Learned(learned) = &self.prior else { return None };
        // Without penalties nobody asks for the posterior.
        question.penalties?;
        let age = reading.age?;
        let clock = self.filter.spec().clock();
        let is_late = matches!(clock, ClockSpec::Time { .. }) && Some(question.time_ms) < self.filter.now();
        let is_common = question.share.is_none()
            && question.frequency.is_none()
            && question.key.is_none_or(|key| !learned.reuse.has_share(key))
            && question.window >= clock.window();
        if is_late || !is_common {
            return None;
        }
        let (filter, now, prior) = (&self.filter, self.filter.now()?, learned.reuse.version());
        if !self.cache.is_valid(now, prior) {
            self.cache.restart(filter.clock_step(), prior);
        }
        Some(self.cache.get(age, || {
            let window = clock.window().min(learned.reuse.known_window()) as f64;
            let (from, length) = filter.clock_ages(Some(age));
            let likelihood = AgeLikelihood { from, length, collision: 0.0 };
            Posterior::new(likelihood, AgePrior::Learned(learned.reuse.curve(None, None))).masses(window)
        }))
    }

    #[inline]
    fn posterior(&self, question: &Question, reading: &Reading, scope: LikelihoodScope) -> (Posterior<'_>, AgeUnit) {
        let (prior, unit) = match (&self.prior, question.share) {
            (PriorState::Constant(share), None) => (self.share_prior(*share), AgeUnit::Arrivals),
            (_, Some(share)) => (self.share_prior(share), AgeUnit::Arrivals),
            (PriorState::Learned(learned), None) => {
                (AgePrior::Learned(learned.reuse.curve(question.frequency, question.key)), AgeUnit::Clock)
            }
        };
        let mut likelihood = self.filter.likelihood(question.item, reading, unit, scope);
        if unit == AgeUnit::Clock {
            (likelihood.from, likelihood.length) = self.shifted(likelihood.from, likelihood.length, question.time_ms);
        }
        (Posterior::new(likelihood, prior), unit)
    }

    /// Shifts a range of ages to the time of a late event: sightings after it get the smallest age.
    #[inline]
    fn shifted(&self, from: f64, length: f64, time_ms: i64) -> (f64, f64) {
        let behind = match (self.filter.spec().clock(), self.filter.now()) {
            (ClockSpec::Time { .. }, Some(now)) => now.saturating_sub(time_ms).max(0) as f64,
            (ClockSpec::Time { .. }, None) | (ClockSpec::Count { .. }, _) => 0.0,
        };
        let (begin, end) = ((from - behind).max(0.0), from + length - behind);
        (begin, (end - begin).max(if behind > 0.0 { 1.0 } else { 0.0 }))
    }

    fn share_prior(&self, share: ArrivalShare) -> AgePrior<'static> {
        match self.seen {
            Seen::Last => AgePrior::Geometric(share),
            Seen::First => self.first_seen(share),
        }
    }

    /// After an accepted sighting, an item is not accepted again for a window plus, on average, half a block. False duplicates
    /// make accepted sightings rarer.
    fn first_seen(&self, share: ArrivalShare) -> AgePrior<'static> {
        let spec = self.filter.spec();
        let accepted = share.get() * (1.0 - self.filter.false_duplicate_rate());
        let now = self.filter.now().unwrap_or(0);
        let window = self.filter.window_in(AgeUnit::Arrivals, now, spec.clock().window());
        let half_block = window / (spec.clock().window() as f64 / spec.clock().block() as f64) / 2.0;
        AgePrior::FirstSeen { share: ArrivalShare::new(accepted).unwrap_or(share), window: window + half_block }
    }

    /// Details about the item's last sighting. Slower than [`InferentialFilter::ask`].
    pub fn explain(&self, question: &Question) -> Explanation {
        let reading = self.filter.read(question.item);
        let answer = self.answer(question, reading, None);
        let posterior = self.policy(question).map(|_| self.posterior_details(question, &reading));
        Explanation { answer, posterior }
    }

    fn posterior_details(&self, question: &Question, reading: &Reading) -> PosteriorDetails {
        let (posterior, unit) = self.posterior(question, reading, LikelihoodScope::Line);
        let oldest = self.filter.spec().oldest_live_age();
        let mut younger = 0.0;
        let probability = |age: u8| {
            let (from, length) = self.filter.age_range(&Reading { age: Some(age), cells: 1, oldest: 1 }, unit);
            let (from, length) = match unit {
                AgeUnit::Clock => self.shifted(from, length, question.time_ms),
                AgeUnit::Arrivals => (from, length),
            };
            // Rounding the clock may let the current block overlap the next.
            let (from, end) = (from.max(younger), from + length);
            younger = end.max(younger);
            posterior.between(from, end.max(from))
        };
        let blocks: Vec<f64> = (0..=oldest).map(probability).collect();
        let older = 1.0 - blocks.iter().sum::<f64>();
        let most_probable = (0..=oldest).max_by(|a, b| blocks[usize::from(*a)].total_cmp(&blocks[usize::from(*b)]));
        let beginning = match (unit, &self.prior) {
            (AgeUnit::Clock, PriorState::Learned(learned)) => learned.reuse.curve(None, None).horizon(),
            (AgeUnit::Clock, PriorState::Constant(_)) | (AgeUnit::Arrivals, _) => self.filter.total_arrivals() as f64,
        };
        PosteriorDetails {
            belief: self.belief(question, reading),
            likely_block: most_probable.filter(|age| blocks[usize::from(*age)] >= older),
            blocks,
            expected_age: posterior.expected_age(),
            unit,
            never: posterior.never(beginning),
        }
    }

    /// The clock at an arrival: its event time, or the number of arrivals before it.
    #[inline]
    fn clock_of(&self, time_ms: i64) -> i64 {
        match self.filter.spec().clock() {
            ClockSpec::Time { .. } => time_ms,
            ClockSpec::Count { .. } => self.filter.now().unwrap_or(0),
        }
    }

    #[inline]
    fn advance_prior(&mut self, at: i64) {
        if let PriorState::Learned(learned) = &mut self.prior {
            match learned.reuse.advance(at) {
                0 => {}
                quarters => {
                    learned.calibration.fade(quarters);
                    learned.guard.fade(quarters);
                }
            }
        }
    }

    /// Learns from a sampled item, before the arrival is recorded.
    #[cold]
    fn learn(&mut self, question: &Question, answer: &Answer, at: i64) {
        let is_ready = self.learned().is_some_and(|learned| learned.reuse.is_ready());
        let stated = answer.belief.filter(|_| question.share.is_none());
        let learned_belief = || self.belief(&Question { share: None, ..*question }, &answer.reading);
        let belief = is_ready.then(|| stated.unwrap_or_else(learned_belief));
        let is_counted = matches!(self.filter.spec().clock(), ClockSpec::Count { .. });
        let PriorState::Learned(learned) = &mut self.prior else { return };
        // On a clock of arrivals, the arrival just before has age 0.
        let at = if is_counted { at.saturating_sub(1) } else { at };
        let last = learned.reuse.last_sighting(question.item, at);
        if let (Some(belief), Some(outcome)) = (belief, learned.outcome(last, question.window, at)) {
            learned.check(question, answer.standard, &belief, outcome);
        }
        learned.reuse.record_sighting(last, question.frequency, question.key);
    }
}

fn basis_of(policy: Option<Policy>) -> Basis {
    match policy {
        None => Basis::Learning,
        Some(Policy::Posterior) => Basis::Posterior,
        Some(Policy::Standard) => Basis::Standard,
        Some(Policy::AcceptAll) => Basis::AcceptAll,
    }
}
