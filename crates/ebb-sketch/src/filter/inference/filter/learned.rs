//! What an inferential filter learns from its sample: the prior, whether it comes true, and which policy costs least.

use crate::filter::belief::Belief;
use crate::filter::inference::calibration::{Calibration, Outcome};
use crate::filter::inference::policy::{Policy, PolicyCosts, PolicyGuard};
use crate::filter::inference::prior::{LastSighting, ReusePrior};
use crate::filter::inference::question::Question;

/// What the sample of exactly known items teaches.
#[derive(Debug, Clone)]
pub struct LearnedPrior {
    pub(super) reuse: ReusePrior,
    pub(super) calibration: Calibration,
    pub(super) guard: PolicyGuard,
}

impl LearnedPrior {
    /// The prior over ages.
    pub fn reuse(&self) -> &ReusePrior {
        &self.reuse
    }

    /// Whether stated probabilities come true.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The costs of the policies and the one in force.
    pub fn guard(&self) -> &PolicyGuard {
        &self.guard
    }

    /// The policy in force; `None` while the prior is not ready.
    #[inline]
    pub(super) fn policy(&self) -> Option<Policy> {
        self.reuse.is_ready().then(|| self.guard.in_force())
    }

    /// The truth about a sampled arrival, as far as the filter could know it; `None` if the sample is younger.
    pub(super) fn outcome(&self, last: LastSighting, window: u64, at: i64) -> Option<Outcome> {
        let elapsed = self.reuse.started().map_or(0, |started| at.saturating_sub(started).max(0) as u64);
        match last {
            LastSighting::Unknown => None,
            LastSighting::Age(age) if age < window => Some(Outcome::Inside),
            LastSighting::Age(_) => Some(Outcome::Outside),
            LastSighting::NotWithin(known_for) => (known_for >= window.min(elapsed)).then_some(Outcome::Outside),
        }
    }

    /// Compares what was stated, and what each policy would have answered, with the truth. First sightings of a flood count
    /// as much as the prior lets them.
    pub(super) fn check(&mut self, question: &Question, standard: bool, belief: &Belief, outcome: Outcome) {
        let weight = if outcome == Outcome::Inside { 1.0 } else { self.reuse.flood_discount() };
        self.calibration.record(belief.inside, outcome, weight);
        let Some(penalties) = question.penalties else { return };
        let cost = |duplicate| match (duplicate, outcome) {
            (true, Outcome::Outside) => penalties.false_duplicate(),
            (false, Outcome::Inside) => penalties.missed_duplicate(),
            (true, Outcome::Inside) | (false, Outcome::Outside) => 0.0,
        };
        let posterior = penalties.decide(belief).duplicate;
        let costs = PolicyCosts { posterior: cost(posterior), standard: cost(standard), accept_all: cost(false) };
        self.guard.record(&costs, weight);
    }
}
