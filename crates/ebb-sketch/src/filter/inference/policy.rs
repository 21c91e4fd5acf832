//! Which way of answering costs least? Compared on the sampled items, whose history is known exactly.
//!
//! Three policies can answer a question with penalties: the posterior's decision, the filter's own answer, and "unique" for
//! everything. For every sampled arrival the guard adds up what each of them would have cost. The posterior is used unless
//! another policy was cheaper by a margin that chance does not explain; returning to it takes less evidence than leaving
//! it. Costs fade with a half-life of a quarter of a window, so that a change of the stream takes effect within a window.
//!
//! ```
//! use ebb_sketch::filter::inference::policy::{Policy, PolicyCosts, PolicyGuard};
//!
//! let mut guard = PolicyGuard::default();
//! // The posterior drops good events that the other policies accept.
//! (0..50).for_each(|_| guard.record(&PolicyCosts { posterior: 3.0, standard: 0.0, accept_all: 0.1 }, 1.0));
//! assert_eq!(guard.in_force(), Policy::Standard);
//! ```

use libm::sqrt;

use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"poli";
const VERSION: u16 = 1;

/// Standard deviations by which another policy must be cheaper than the posterior before it replaces it.
const LEAVING: f64 = 4.0;
/// The same, between other policies and back to the posterior.
const RETURNING: f64 = 2.0;
/// A policy replaces another only if it saves at least this part of the costs.
const MIN_SAVING: f64 = 0.05;

/// A way to answer questions with penalties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The smaller expected penalty under the posterior.
    #[default]
    Posterior,
    /// The filter's own answer, which misses no repeat.
    Standard,
    /// Every event is unique.
    AcceptAll,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Posterior, Self::Standard, Self::AcceptAll];

    /// The name in answers, status and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Posterior => "posterior",
            Self::Standard => "standard",
            Self::AcceptAll => "accept_all",
        }
    }
}

/// What one arrival, or a sum of arrivals, costs under each policy.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PolicyCosts {
    /// Under the posterior.
    pub posterior: f64,
    /// Under the filter's own answer.
    pub standard: f64,
    /// If every event is unique.
    pub accept_all: f64,
}

impl PolicyCosts {
    fn of(&self, policy: Policy) -> f64 {
        match policy {
            Policy::Posterior => self.posterior,
            Policy::Standard => self.standard,
            Policy::AcceptAll => self.accept_all,
        }
    }

    fn as_array(self) -> [f64; 3] {
        [self.posterior, self.standard, self.accept_all]
    }
}

/// Pairs of policies whose costs are compared.
const PAIRS: [(Policy, Policy); 3] = [
    (Policy::Posterior, Policy::Standard),
    (Policy::Posterior, Policy::AcceptAll),
    (Policy::Standard, Policy::AcceptAll),
];

/// The running comparison of the policies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyGuard {
    in_force: Policy,
    costs: PolicyCosts,
    /// Sums of the squared differences of the pairs.
    squares: [f64; 3],
}

impl PolicyGuard {
    /// The policy to answer with.
    pub fn in_force(&self) -> Policy {
        self.in_force
    }

    /// Decayed costs of the policies on the sample.
    pub fn costs(&self) -> PolicyCosts {
        self.costs
    }

    /// Adds the costs of one sampled arrival, `weight` times.
    pub fn record(&mut self, costs: &PolicyCosts, weight: f64) {
        self.costs.posterior += weight * costs.posterior;
        self.costs.standard += weight * costs.standard;
        self.costs.accept_all += weight * costs.accept_all;
        for ((one, other), squares) in PAIRS.iter().zip(&mut self.squares) {
            let difference = weight * (costs.of(*one) - costs.of(*other));
            *squares += difference * difference;
        }
        self.choose();
    }

    /// Fades the costs by half for every quarter of a window that ended.
    pub fn fade(&mut self, quarters: u32) {
        let factor = libm::exp2(-f64::from(quarters));
        let PolicyCosts { posterior, standard, accept_all } = &mut self.costs;
        for value in [posterior, standard, accept_all].into_iter().chain(&mut self.squares) {
            *value *= factor;
        }
    }

    /// Replaces the policy in force by the cheapest one that is cheaper beyond chance.
    fn choose(&mut self) {
        let current = self.in_force;
        let better = Policy::ALL.into_iter().filter(|other| self.is_better(*other, current));
        let cheapest = better.min_by(|a, b| self.costs.of(*a).total_cmp(&self.costs.of(*b)));
        self.in_force = cheapest.unwrap_or(current);
    }

    fn is_better(&self, other: Policy, current: Policy) -> bool {
        let is_pair =
            |(one, two): &&(Policy, Policy)| (*one, *two) == (current, other) || (*two, *one) == (current, other);
        let Some(index) = PAIRS.iter().position(|pair| is_pair(&pair)) else { return false };
        let saving = self.costs.of(current) - self.costs.of(other);
        let deviations = if current == Policy::Posterior { LEAVING } else { RETURNING };
        saving > deviations * sqrt(self.squares[index]) && saving > MIN_SAVING * self.costs.of(current)
    }

    /// Encodes the comparison.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.u8(self.in_force as u8);
        self.costs.as_array().iter().chain(&self.squares).for_each(|&value| writer.f64(value));
        writer.seal()
    }

    /// Reads what [`PolicyGuard::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let number = reader.u8()?;
        let Some(&in_force) = Policy::ALL.get(usize::from(number)) else {
            return Err(CodecError::invalid("policy", number.to_string()));
        };
        let mut values = [0.0; 6];
        for value in &mut values {
            *value = reader.f64()?;
            if value.is_nan() || *value < 0.0 {
                return Err(CodecError::invalid("policy costs", value.to_string()));
            }
        }
        reader.finish()?;
        let [posterior, standard, accept_all, squares @ ..] = values;
        Ok(Self { in_force, costs: PolicyCosts { posterior, standard, accept_all }, squares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const POSTERIOR_BEST: PolicyCosts = PolicyCosts { posterior: 1.0, standard: 3.0, accept_all: 2.0 };

    #[test]
    fn a_few_unlucky_arrivals_do_not_replace_the_posterior() {
        let mut guard = PolicyGuard::default();
        (0..15).for_each(|_| guard.record(&PolicyCosts { posterior: 5.0, standard: 0.0, accept_all: 0.0 }, 1.0));
        assert_eq!(guard.in_force(), Policy::Posterior);
        (0..5).for_each(|_| guard.record(&PolicyCosts { posterior: 5.0, standard: 0.0, accept_all: 1.0 }, 1.0));
        assert_eq!(guard.in_force(), Policy::Standard);
    }

    #[test]
    fn the_cheapest_policy_wins_and_the_posterior_returns_within_a_window() {
        let mut guard = PolicyGuard::default();
        let mut quarter = |costs: &PolicyCosts| {
            (0..100).for_each(|_| guard.record(costs, 1.0));
            guard.fade(1);
            guard.in_force()
        };
        let accepting_best = PolicyCosts { posterior: 4.0, standard: 3.0, accept_all: 1.0 };
        let policies: Vec<Policy> = (0..20).map(|_| quarter(&accepting_best)).collect();
        assert_eq!(policies[19], Policy::AcceptAll);
        // One window in which the posterior is best again.
        let policies: Vec<Policy> = (0..4).map(|_| quarter(&POSTERIOR_BEST)).collect();
        assert_eq!(policies[3], Policy::Posterior, "{policies:?}");
    }

    #[test]
    fn equal_policies_rarely_replace_each_other() {
        let mut random = Random::new(9);
        let mut guard = PolicyGuard::default();
        let mut away = 0;
        for arrival in 0..200_000 {
            let mut cost = || if random.below(10) == 0 { 1.0 } else { 0.0 };
            guard.record(&PolicyCosts { posterior: cost(), standard: cost(), accept_all: cost() }, 1.0);
            if arrival % 100 == 0 {
                guard.fade(1);
            }
            away += u32::from(guard.in_force() != Policy::Posterior);
        }
        assert!(away < 10_000, "{away} of 200000 arrivals under another policy");
    }

    #[test]
    fn decoding_restores_the_comparison_and_rejects_damage() {
        let mut guard = PolicyGuard::default();
        (0..60).for_each(|_| guard.record(&PolicyCosts { posterior: 5.0, standard: 0.5, accept_all: 1.0 }, 0.5));
        assert_eq!(PolicyGuard::decode(&guard.encode()), Ok(guard.clone()));
        let mut writer = Writer::new(KIND, VERSION);
        writer.u8(3);
        (0..6).for_each(|_| writer.f64(0.0));
        assert!(PolicyGuard::decode(&writer.seal()).is_err());
        let mut writer = Writer::new(KIND, VERSION);
        writer.u8(0);
        (0..6).for_each(|_| writer.f64(f64::NAN));
        assert!(PolicyGuard::decode(&writer.seal()).is_err());
    }
}
