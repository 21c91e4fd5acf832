//! From the cells of a stable filter to a probability and a decision.
//!
//! The values of an item's cells are evidence of when it was last seen: high right after an observation, lower with every
//! decrement since, and distributed like all cells if it was never seen. [`StablePosterior`] keeps the likelihoods of all
//! cell values for a few ages, classes and "never" ([`likelihood`]), a prior over the same ages that is learned from
//! sampled items or follows from a constant share of arrivals ([`age_prior`]), and the class mix. Combined they give the
//! probability that an item was seen within the window, for which [`Penalties`](super::inference::decision::Penalties)
//! find the cheaper answer: more or less certain than the filter's own answer, which is only whether a cell is zero.
//!
//! An item is assumed to keep its class. Everything here is a function of the log: the likelihoods are renewed at fixed
//! numbers of arrivals, and what they were computed from is part of the state.

pub mod age_prior;
pub mod classes;
pub mod likelihood;

use std::num::NonZeroU64;

use self::age_prior::{SampledAges, SharePrior};
use self::classes::ClassCounts;
use self::likelihood::{AgeGrid, CellEvidence, CellLikelihood};
use super::belief::{ArrivalShare, Belief};
use super::parameter::{ParameterError, check_range};
use super::planning::stable_sizing::ClassMix;
use super::structure::stable::{StableFilter, StableSpec};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::hash::Fingerprint;

const KIND: Kind = *b"fpst";
const VERSION: u16 = 1;

/// Larger cell values make the likelihood tables too large.
pub const MAX_VALUE: u8 = 31;
/// Cells that are sampled for the distribution of all cells.
const SAMPLED_CELLS: NonZeroU64 = NonZeroU64::new(4096).unwrap();
/// More arrivals are taken for damage.
const MAX_ARRIVALS: u64 = 1 << 62;
/// Arrivals between the first renewals of the likelihoods; later ones are further apart.
const MIN_RENEWAL: u64 = 64;

/// Where the prior comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SharePriorSpec {
    /// Every item has this share of arrivals.
    Constant(ArrivalShare),
    /// Learned from the arrivals of sampled items.
    Learned,
}

/// The parameters of the inference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StablePosteriorSpec {
    /// The window that the posterior is about, in arrivals.
    pub window: u64,
    /// The prior.
    pub prior: SharePriorSpec,
    /// The class mix; learned if absent.
    pub mix: Option<ClassMix>,
}

/// The inference over one stable filter.
///
/// ```
/// use ebb_sketch::filter::structure::layout::CellLayout;
/// use ebb_sketch::filter::structure::stable::{StableFilter, StableSpec, importance::ImportanceRule};
/// use ebb_sketch::filter::stable_posterior::{classes::ClassCounts, likelihood::CellEvidence};
/// use ebb_sketch::filter::stable_posterior::{SharePriorSpec, StablePosterior, StablePosteriorSpec};
/// use ebb_sketch::{hash::HashKey, random::Random};
///
/// let spec = StableSpec::new(CellLayout::in_memory(4096).unwrap(), 4, 8, 7, ImportanceRule::MultiClass).unwrap();
/// let (mut filter, key) = (StableFilter::new(spec), HashKey::new([7; 16]));
/// let parameters = StablePosteriorSpec { window: 500, prior: SharePriorSpec::Learned, mix: None };
/// let (mut posterior, mut classes) = (StablePosterior::new(parameters, &spec).unwrap(), ClassCounts::new(7));
/// for n in 0..2_000u64 {
///     let item = key.fingerprint(&(n / 2).to_le_bytes()); // every item comes twice
///     posterior.learn(item);
///     classes.add(7);
///     filter.observe(item, 7, &mut Random::for_record(1, 0, n));
///     posterior.renew(&filter, &classes);
/// }
/// let evidence = |name: &[u8]| CellEvidence::new(&filter, key.fingerprint(name));
/// let belief = |name: &[u8]| posterior.belief(&evidence(name), Some(7), None);
/// assert!(belief(&999u64.to_le_bytes()).inside > 0.9);
/// assert!(belief(b"never seen").inside < 0.5);
/// ```
#[derive(Debug, Clone)]
pub struct StablePosterior {
    spec: StablePosteriorSpec,
    /// Arrivals so far.
    arrivals: u64,
    /// Arrivals at the next renewal of the likelihoods.
    next_renewal: u64,
    ages: SampledAges,
    basis: LikelihoodBasis,
    likelihood: Box<CellLikelihood>,
}

/// What the likelihoods are computed from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LikelihoodBasis {
    /// Sampled cells by value.
    cells: Vec<u64>,
    classes: ClassCounts,
}

impl StablePosterior {
    /// Nothing learned yet, for an empty filter of this shape.
    pub fn new(spec: StablePosteriorSpec, filter: &StableSpec) -> Result<Self, ParameterError> {
        let values = usize::from(filter.max_value());
        check_range(
            "the largest value",
            filter.max_value(),
            1..=MAX_VALUE,
            "the likelihood of each value is tabulated",
        )?;
        check_range("the window", spec.window, 1..=1 << 40, "it is a number of arrivals")?;
        let mut cells = vec![0; values + 1];
        cells[0] = filter.hasher().cells().min(SAMPLED_CELLS.get());
        let basis = LikelihoodBasis { cells, classes: ClassCounts::new(filter.max_value()) };
        let likelihood = basis.likelihood(&spec, filter)?;
        Ok(Self {
            spec,
            arrivals: 0,
            next_renewal: MIN_RENEWAL,
            ages: SampledAges::new(AgeGrid::new(spec.window)),
            basis,
            likelihood,
        })
    }

    /// The parameters.
    pub fn spec(&self) -> &StablePosteriorSpec {
        &self.spec
    }

    /// Whether a prior is known: a constant one is, a learned one needs some arrivals.
    pub fn is_ready(&self) -> bool {
        matches!(self.spec.prior, SharePriorSpec::Constant(_)) || self.ages.is_ready()
    }

    /// The share of arrivals that repeat an item of the window, as far as it is learned; `None` for a constant prior.
    pub fn repeats(&self) -> Option<f64> {
        match self.spec.prior {
            SharePriorSpec::Constant(_) => None,
            SharePriorSpec::Learned => Some(self.ages.inside()),
        }
    }

    /// The posterior that an item with these cells was seen within the window. `value` is the item's class; without it all
    /// classes are weighed. `share` replaces the prior.
    pub fn belief(&self, evidence: &CellEvidence, value: Option<u8>, share: Option<ArrivalShare>) -> Belief {
        let weights = self.likelihood.weights(evidence, value);
        let grid = self.likelihood.grid();
        match (self.spec.prior, share) {
            (_, Some(share)) | (SharePriorSpec::Constant(share), None) => {
                grid.belief(&weights, SharePrior::new(grid, share).masses())
            }
            (SharePriorSpec::Learned, None) => grid.belief(&weights, self.ages.shares()),
        }
    }

    /// Learns from one arrival.
    pub fn learn(&mut self, item: Fingerprint) {
        self.arrivals += 1;
        if self.spec.prior == SharePriorSpec::Learned {
            self.ages.add(item);
        }
    }

    /// Renews the likelihoods from the filter's cells and the counted classes if they are due.
    pub fn renew(&mut self, filter: &StableFilter, classes: &ClassCounts) {
        if self.arrivals >= self.next_renewal {
            self.renew_now(filter, classes);
        }
    }

    /// Renews the likelihoods now: for a filter that already has items when the inference begins.
    pub fn renew_now(&mut self, filter: &StableFilter, classes: &ClassCounts) {
        let max_interval = (self.spec.window / 16).max(16 * MIN_RENEWAL);
        self.next_renewal = self.arrivals + (self.arrivals / 8).clamp(MIN_RENEWAL, max_interval);
        self.basis = LikelihoodBasis { cells: filter.count_values(SAMPLED_CELLS), classes: classes.clone() };
        // The parameters were accepted before, so that the likelihoods can be computed again.
        if let Ok(likelihood) = self.basis.likelihood(&self.spec, filter.spec()) {
            self.likelihood = likelihood;
        }
    }

    /// Bytes of the likelihoods and the sample.
    pub fn memory_bytes(&self) -> u64 {
        self.likelihood.memory_bytes() + self.ages.memory_bytes()
    }

    /// Encodes what was learned.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.u64(self.spec.window);
        writer.varint(self.arrivals);
        writer.varint(self.next_renewal);
        writer.varint(self.basis.cells.len() as u64);
        self.basis.cells.iter().for_each(|count| writer.varint(*count));
        self.basis.classes.encode(&mut writer);
        self.ages.encode(&mut writer);
        writer.seal()
    }

    /// Reads what [`StablePosterior::encode`] wrote. What was learned under another window starts anew.
    pub fn decode(spec: StablePosteriorSpec, filter: &StableSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let invalid = |error: ParameterError| CodecError::invalid("posterior", error.to_string());
        let mut posterior = Self::new(spec, filter).map_err(invalid)?;
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let window = reader.u64()?;
        posterior.arrivals = reader.varint()?;
        posterior.next_renewal = reader.varint()?;
        if reader.varint()? != posterior.basis.cells.len() as u64 {
            return Err(CodecError::invalid("posterior", "its number of cell values differs from the filter's"));
        }
        for count in &mut posterior.basis.cells {
            *count = reader.varint()?;
        }
        let sampled = posterior.basis.cells.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        let is_counted = sampled.is_some_and(|sampled| sampled <= SAMPLED_CELLS.get());
        if posterior.arrivals.max(posterior.next_renewal) >= MAX_ARRIVALS || !is_counted {
            return Err(CodecError::invalid("posterior", "a count is out of range"));
        }
        posterior.basis.classes = ClassCounts::decode(filter.max_value(), &mut reader)?;
        let ages = SampledAges::decode(AgeGrid::new(spec.window), &mut reader)?;
        reader.finish()?;
        if window == spec.window {
            posterior.ages = ages;
        }
        posterior.likelihood = posterior.basis.likelihood(&spec, filter).map_err(invalid)?;
        Ok(posterior)
    }
}

impl LikelihoodBasis {
    fn likelihood(
        &self,
        spec: &StablePosteriorSpec,
        filter: &StableSpec,
    ) -> Result<Box<CellLikelihood>, ParameterError> {
        let values = match spec.mix {
            Some(mix) => mix.values(filter.max_value()),
            None => self.classes.values(),
        };
        CellLikelihood::new(filter, &values, &self.cells, spec.window).map(Box::new)
    }
}

#[cfg(test)]
mod tests;
