//! Decayed counts per item: how often was it seen, if an observation counts half after one half-life?
//!
//! Three methods with one guarantee: never an undercount, unless the answer is marked as a lower bound. [`forward`] is the
//! default: it decays exactly and costs nothing as time passes. [`basic`] and [`optimised`] are the paper's methods, with
//! whole counters and with small digits plus a shared pool, in half the memory. Time is event time; the clock is the latest time seen.

pub mod basic;
mod digit_array;
pub mod digit_plan;
mod digit_pool;
pub mod epochs;
pub mod forward;
mod lost;
pub mod optimised;
mod packed;
mod rounding;
mod weight;

pub use weight::ObservationWeight;

use self::basic::{BasicFrequency, BasicSpec};
use self::forward::{ForwardFrequency, ForwardSpec};
use self::optimised::{OptimisedFrequency, OptimisedSpec};
use super::layout::CellList;
use crate::codec::{CodecError, Writer};
use crate::hash::Fingerprint;

/// A decayed count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecayedCount {
    /// The estimate; never below the true count unless `lower_bound` is set.
    pub value: f64,
    /// Counters ran out of room: the true count may be higher.
    pub lower_bound: bool,
}

/// The minimum over an item's cells, in counter units; over the cells without lost increments if there are any.
struct MinimumCount {
    units: u64,
    lower_bound: bool,
}

impl MinimumCount {
    fn scaled(self, unit: f64) -> DecayedCount {
        let value = self.units as f64 * unit;
        // The product may underflow; an observed item is never reported as 0.
        let value = if self.units > 0 { value.max(f64::from_bits(1)) } else { 0.0 };
        DecayedCount { value, lower_bound: self.lower_bound }
    }
}

fn minimum_count(
    cells: &CellList,
    value: impl Fn(u64) -> u64,
    has_lost_increments: impl Fn(u64) -> bool,
) -> MinimumCount {
    let complete = cells.as_slice().iter().filter(|cell| !has_lost_increments(**cell)).map(|cell| value(*cell)).min();
    let any = || cells.as_slice().iter().map(|cell| value(*cell)).min().unwrap_or(0);
    MinimumCount { units: complete.unwrap_or_else(any), lower_bound: complete.is_none() }
}

/// A method and its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FrequencySpec {
    /// Exact decay without sweeps.
    Forward(ForwardSpec),
    /// Whole counters, swept every epoch.
    Basic(BasicSpec),
    /// Small digits with a pool, swept every epoch.
    Optimised(OptimisedSpec),
}

impl FrequencySpec {
    /// The half-life, rounded up.
    pub fn half_life_ms(&self) -> u64 {
        match self {
            Self::Forward(spec) => spec.half_life_ms(),
            Self::Basic(spec) => spec.epochs().half_life_ms(),
            Self::Optimised(spec) => spec.epochs().half_life_ms(),
        }
    }

    /// The interval between sweeps; `None` if counts decay continuously.
    pub fn epoch_ms(&self) -> Option<u64> {
        match self {
            Self::Forward(_) => None,
            Self::Basic(spec) => Some(spec.epochs().epoch_ms()),
            Self::Optimised(spec) => Some(spec.epochs().epoch_ms()),
        }
    }

    /// Appends what identifies counters with these parameters.
    pub fn write_identity(&self, writer: &mut Writer) {
        match self {
            Self::Forward(spec) => {
                writer.u8(0);
                spec.encode(writer);
            }
            Self::Basic(spec) => {
                writer.u8(1);
                spec.encode(writer);
            }
            // The tag 2 identified counters whose state can no longer be read.
            Self::Optimised(spec) => {
                writer.u8(3);
                spec.encode(writer);
            }
        }
    }
}

/// Decayed counters of one of the methods.
///
/// ```
/// use ebb_sketch::filter::structure::frequency::{FrequencyFilter, FrequencySpec, forward::ForwardSpec};
/// use ebb_sketch::filter::structure::layout::CellLayout;
/// use ebb_sketch::hash::HashKey;
///
/// let spec = ForwardSpec::new(CellLayout::Spread(4096), 4, 60_000).unwrap(); // half-life of one minute
/// let (mut counts, item) = (FrequencyFilter::new(FrequencySpec::Forward(spec)), HashKey::new([7; 16]).fingerprint(b"ip"));
/// (0..8).for_each(|_| counts.add(item, 0));
/// let count = counts.estimate(item, 120_000);
/// assert!(!count.lower_bound && count.value >= 2.0 && count.value < 2.01);
/// ```
#[derive(Debug, Clone)]
pub enum FrequencyFilter {
    /// Exact decay without sweeps.
    Forward(ForwardFrequency),
    /// Whole counters.
    Basic(BasicFrequency),
    /// Small digits with a pool.
    Optimised(Box<OptimisedFrequency>),
}

impl FrequencyFilter {
    /// Empty counters.
    pub fn new(spec: FrequencySpec) -> Self {
        match spec {
            FrequencySpec::Forward(spec) => Self::Forward(ForwardFrequency::new(spec)),
            FrequencySpec::Basic(spec) => Self::Basic(BasicFrequency::new(spec)),
            FrequencySpec::Optimised(spec) => Self::Optimised(Box::new(OptimisedFrequency::new(spec))),
        }
    }

    /// Bytes of the counters.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Forward(counts) => counts.memory_bytes(),
            Self::Basic(counts) => counts.memory_bytes(),
            Self::Optimised(counts) => counts.memory_bytes(),
        }
    }

    /// Advances the clock. Earlier times have no effect.
    pub fn advance(&mut self, now_ms: i64) {
        match self {
            Self::Forward(counts) => counts.advance(now_ms),
            Self::Basic(counts) => counts.advance(now_ms),
            Self::Optimised(counts) => counts.advance(now_ms),
        }
    }

    /// Counts one observation. A later time advances the clock; an earlier one counts at its own age.
    #[inline]
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        match self {
            Self::Forward(counts) => counts.add(item, time_ms),
            Self::Basic(counts) => counts.add(item, time_ms),
            Self::Optimised(counts) => counts.add(item, time_ms),
        }
    }

    /// Counts an event that stands for `weight` observations.
    #[inline]
    pub fn add_weighted(&mut self, item: Fingerprint, time_ms: i64, weight: ObservationWeight) {
        match self {
            Self::Forward(counts) => counts.add_weighted(item, time_ms, weight),
            Self::Basic(counts) => counts.add_weighted(item, time_ms, weight),
            Self::Optimised(counts) => counts.add_weighted(item, time_ms, weight),
        }
    }

    /// The decayed count at `as_of_ms`, or at the clock if that is later.
    #[inline]
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> DecayedCount {
        match self {
            Self::Forward(counts) => counts.estimate(item, as_of_ms),
            Self::Basic(counts) => counts.estimate(item, as_of_ms),
            Self::Optimised(counts) => counts.estimate(item, as_of_ms),
        }
    }

    /// The decayed count of all observations together.
    pub fn total(&self, as_of_ms: i64) -> f64 {
        match self {
            Self::Forward(counts) => counts.total(as_of_ms),
            Self::Basic(counts) => counts.total(as_of_ms),
            Self::Optimised(counts) => counts.total(as_of_ms),
        }
    }

    /// How often a counter had no room for an observation.
    pub fn lost_increments(&self) -> u64 {
        match self {
            Self::Forward(_) => 0,
            Self::Basic(counts) => counts.lost_increments(),
            Self::Optimised(counts) => counts.lost_increments(),
        }
    }

    /// Encodes parameters, clock and counters.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Forward(counts) => counts.encode(),
            Self::Basic(counts) => counts.encode(),
            Self::Optimised(counts) => counts.encode(),
        }
    }

    /// Reads what [`FrequencyFilter::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match bytes.first_chunk::<4>() {
            Some(&basic::KIND) => BasicFrequency::decode(bytes).map(Self::Basic),
            Some(&optimised::KIND) => OptimisedFrequency::decode(bytes).map(|counts| Self::Optimised(Box::new(counts))),
            _ => ForwardFrequency::decode(bytes).map(Self::Forward),
        }
    }
}

#[cfg(test)]
mod tests;
