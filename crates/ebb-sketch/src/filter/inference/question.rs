//! Questions to an inferential filter, and its answers.

use super::decision::{Decision, Penalties};
use super::prior::ReuseSpec;
use crate::filter::belief::{ArrivalShare, Belief};
use crate::filter::structure::timing::{AgeUnit, Reading};
use crate::hash::Fingerprint;

/// The sighting from which the window is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The one answered "unique"; repeats do not renew it.
    First,
    /// The latest.
    Last,
}

/// Where the prior comes from if the question has no share of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PriorSpec {
    /// Every item has this share of arrivals.
    Constant(ArrivalShare),
    /// Learned from sampled items.
    Learned(ReuseSpec),
}

/// A question about one item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// The item.
    pub item: Fingerprint,
    /// Event time; the window reaches back from here.
    pub time_ms: i64,
    /// Length of the window in the unit of the filter's clock; at most the configured window.
    pub window: u64,
    /// Costs of wrong answers. Without them the filter's own answer is given.
    pub penalties: Option<Penalties>,
    /// The item's share of arrivals, if known.
    pub share: Option<ArrivalShare>,
    /// An estimate of the item's frequency, if there is one; it selects the stratum of a learned prior.
    pub frequency: Option<f64>,
    /// The key that the item belongs to, if there is one; a learned prior may know its share of repeats.
    pub key: Option<Fingerprint>,
}

impl Question {
    /// A question without penalties, share, frequency and key.
    pub fn new(item: Fingerprint, time_ms: i64, window: u64) -> Self {
        Self { item, time_ms, window, penalties: None, share: None, frequency: None, key: None }
    }

    /// The same question with penalties.
    pub fn with_penalties(self, penalties: Penalties) -> Self {
        Self { penalties: Some(penalties), ..self }
    }
}

/// How an answer was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The filter's own answer, because the question has no penalties or because this policy costs least at present.
    Standard,
    /// The smallest expected penalty.
    Posterior,
    /// The filter's own answer, because the prior is not ready.
    Learning,
    /// "Unique", because accepting everything costs least at present.
    AcceptAll,
}

impl Basis {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Standard, Self::Posterior, Self::Learning, Self::AcceptAll];

    /// The name in answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Posterior => "posterior",
            Self::Learning => "learning",
            Self::AcceptAll => "accept_all",
        }
    }
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Whether the item is a duplicate.
    pub duplicate: bool,
    /// How the answer was obtained.
    pub basis: Basis,
    /// Expected penalties of both answers; absent without penalties and while the prior is not ready.
    pub decision: Option<Decision>,
    /// Posterior; absent without penalties and while the prior is not ready.
    pub belief: Option<Belief>,
    /// What the timers showed.
    pub reading: Reading,
    /// The filter's own answer: whether it takes the item for a duplicate.
    pub standard: bool,
}

impl Answer {
    /// Whether the filter takes the item for a duplicate and the answer is "unique" because that costs less.
    pub fn is_overruled(&self) -> bool {
        self.standard && !self.duplicate
    }
}

/// Details about an item's last sighting.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The answer to the question.
    pub answer: Answer,
    /// The posterior; absent while the prior is not ready.
    pub posterior: Option<PosteriorDetails>,
}

/// The posterior distribution of an item's age, counted from the time of the question.
#[derive(Debug, Clone, PartialEq)]
pub struct PosteriorDetails {
    /// The posterior for the window.
    pub belief: Belief,
    /// Probability of each block, youngest first; the rest to 1 is "older or never".
    pub blocks: Vec<f64>,
    /// The most probable block, unless "older or never" is more probable.
    pub likely_block: Option<u8>,
    /// Mean age, in `unit`.
    pub expected_age: f64,
    /// The unit of ages.
    pub unit: AgeUnit,
    /// Probability that it was never seen; with a learned prior, not within its horizon.
    pub never: f64,
}
