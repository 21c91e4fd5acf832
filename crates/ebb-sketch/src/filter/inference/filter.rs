//! The timing filter with a prior and penalties: which answer costs less, and how certain is it?
//!
//! [`InferentialFilter::observe`] reads, infers, decides and records one arrival; [`InferentialFilter::ask`] only answers.
//! Without penalties, while a learned prior is not ready, and while its predictions do not come true, the answer is the
//! filter's own, and [`Answer::basis`] says so.

mod codec;

use super::calibration::{Calibration, Outcome};
use super::posterior::{AgePrior, Posterior};
use super::prior::{LastSighting, ReusePrior};
use super::question::{Answer, Basis, Explanation, PriorSpec, Question, Seen};
use crate::filter::belief::{ArrivalShare, Belief};
use crate::filter::structure::timing::{
    AgeLikelihood, AgeUnit, ClockSpec, LikelihoodScope, Reading, TimingError, TimingFilter, TimingSpec,
};
use crate::hash::Fingerprint;

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
}

#[derive(Debug, Clone)]
enum PriorState {
    Constant(ArrivalShare),
    Learned(Box<LearnedPrior>),
}

#[derive(Debug, Clone)]
struct LearnedPrior {
    reuse: ReusePrior,
    calibration: Calibration,
}

impl InferentialFilter {
    /// An empty filter.
    pub fn new(spec: TimingSpec, seen: Seen, prior: PriorSpec) -> Result<Self, TimingError> {
        let prior = match prior {
            PriorSpec::Constant(share) => PriorState::Constant(share),
            PriorSpec::Learned(spec) => PriorState::Learned(Box::new(LearnedPrior {
                reuse: ReusePrior::new(spec),
                calibration: Calibration::default(),
            })),
        };
        Ok(Self { filter: TimingFilter::new(spec)?, seen, prior })
    }

    /// The timing filter.
    pub fn filter(&self) -> &TimingFilter {
        &self.filter
    }

    /// The learned prior and its calibration; `None` for a constant prior.
    pub fn learned(&self) -> Option<(&ReusePrior, &Calibration)> {
        match &self.prior {
            PriorState::Constant(_) => None,
            PriorState::Learned(learned) => Some((&learned.reuse, &learned.calibration)),
        }
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
        self.answer(question, reading)
    }

    /// Answers one arrival and records it. `None` means that the event is too late: it was only counted.
    #[inline]
    pub fn observe(&mut self, question: &Question) -> Option<Answer> {
        self.filter.advance(question.time_ms);
        let reading = self.filter.read(question.item);
        let answer = self.answer(question, reading);
        let at = self.clock_of(question.time_ms);
        self.learn(question, &reading, at);
        let renews = self.seen == Seen::Last || !answer.duplicate;
        let recorded = !renews || self.filter.insert(question.item, question.time_ms);
        if let PriorState::Learned(learned) = &mut self.prior
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
                let duplicate = self.filter.standard_answer(&reading, question.time_ms, question.window);
                Answer { duplicate, basis, decision: None, belief: None, reading }
            }
        }
    }

    #[inline]
    fn basis(&self, question: &Question) -> Basis {
        match &self.prior {
            _ if question.penalties.is_none() => Basis::Standard,
            _ if question.share.is_some() => Basis::Posterior,
            PriorState::Constant(_) => Basis::Posterior,
            PriorState::Learned(learned) if !learned.reuse.is_ready() => Basis::Learning,
            PriorState::Learned(learned) if !learned.calibration.is_trusted() => Basis::Miscalibrated,
            PriorState::Learned(_) => Basis::Posterior,
        }
    }

    /// The posterior that the item was seen within the window.
    #[inline]
    pub fn belief(&self, question: &Question, reading: &Reading) -> Belief {
        if reading.age.is_none() || !self.filter.standard_answer(reading, question.time_ms, question.window) {
            return Belief::OUTSIDE;
        }
        let (posterior, unit) = self.posterior(question, reading);
        posterior.within(self.filter.window_in(unit, question.time_ms, question.window))
    }

    #[inline]
    fn posterior(&self, question: &Question, reading: &Reading) -> (Posterior<'_>, AgeUnit) {
        let (prior, unit) = match (&self.prior, question.share) {
            (PriorState::Constant(share), None) => (self.share_prior(*share), AgeUnit::Arrivals),
            (_, Some(share)) => (self.share_prior(share), AgeUnit::Arrivals),
            (PriorState::Learned(learned), None) => {
                (AgePrior::Learned(learned.reuse.curve(question.frequency)), AgeUnit::Clock)
            }
        };
        let mut likelihood = self.filter.likelihood(question.item, reading, unit, LikelihoodScope::Line);
        if unit == AgeUnit::Clock {
            likelihood = self.shifted_to(likelihood, question.time_ms);
        }
        (Posterior::new(likelihood, prior), unit)
    }

    /// Shifts ages to the time of a late event: sightings after it get the smallest age.
    #[inline]
    fn shifted_to(&self, likelihood: AgeLikelihood, time_ms: i64) -> AgeLikelihood {
        let behind = match (self.filter.spec().clock(), self.filter.now()) {
            (ClockSpec::Time { .. }, Some(now)) => now.saturating_sub(time_ms).max(0) as f64,
            (ClockSpec::Time { .. }, None) | (ClockSpec::Count { .. }, _) => 0.0,
        };
        let end = likelihood.from + likelihood.length - behind;
        let from = (likelihood.from - behind).max(0.0);
        AgeLikelihood { from, length: (end - from).max(if behind > 0.0 { 1.0 } else { 0.0 }), ..likelihood }
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
        let (posterior, unit) = self.posterior(question, &reading);
        let belief = self.belief(question, &reading);
        let oldest = self.filter.spec().oldest_live_age();
        let probability = |age: u8| {
            let (from, length) = self.filter.age_range(&Reading { age: Some(age), cells: 1, oldest: 1 }, unit);
            posterior.between(from, from + length)
        };
        let blocks: Vec<f64> = (0..=oldest).map(probability).collect();
        let older = 1.0 - blocks.iter().sum::<f64>();
        let most_probable = (0..=oldest).max_by(|a, b| blocks[usize::from(*a)].total_cmp(&blocks[usize::from(*b)]));
        let beginning = match (unit, &self.prior) {
            (AgeUnit::Clock, PriorState::Learned(learned)) => learned.reuse.curve(None).horizon(),
            (AgeUnit::Clock, PriorState::Constant(_)) | (AgeUnit::Arrivals, _) => self.filter.total_arrivals() as f64,
        };
        Explanation {
            answer: self.answer(question, reading),
            belief,
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

    /// Updates the learned prior and its calibration with a sampled item, before the arrival is recorded.
    #[inline]
    fn learn(&mut self, question: &Question, reading: &Reading, at: i64) {
        let PriorState::Learned(learned) = &self.prior else { return };
        let sampled = learned.reuse.is_sampled(question.item);
        let check = (sampled && learned.reuse.is_ready()).then(|| self.belief(question, reading).inside);
        let counted = matches!(self.filter.spec().clock(), ClockSpec::Count { .. });
        let PriorState::Learned(learned) = &mut self.prior else { return };
        let LearnedPrior { reuse, calibration } = learned.as_mut();
        match reuse.advance(at) {
            0 => {}
            halvings => calibration.fade(halvings),
        }
        if !sampled {
            return;
        }
        // On a clock of arrivals, the arrival just before has age 0.
        let last = reuse.last_sighting(question.item, if counted { at.saturating_sub(1) } else { at });
        let outcome = match last {
            LastSighting::Unknown => return,
            LastSighting::Age(age) if age < question.window => Outcome::Inside,
            LastSighting::Age(_) | LastSighting::Never => Outcome::Outside,
        };
        if let Some(probability) = check {
            calibration.record(probability, outcome);
        }
        reuse.record_sighting(last, question.frequency);
    }
}
