//! Decayed hit counts per item: how often it was seen, where an observation counts half after a half-life.
//!
//! Three methods, one promise: never an undercount, unless the answer says that it is a lower bound. [`forward`] (the
//! default) decays exactly and costs nothing as time passes; [`basic`] is the paper's plain form; [`optimised`] keeps
//! small digits and a pool for the few counts that outgrow them. Time is event time; the clock is the latest seen.

pub mod basic;
pub mod digits;
pub mod epochs;
pub mod fade;
pub mod forward;
pub mod lookup;
pub mod losses;
pub mod optimised;

use self::basic::{Basic, BasicSpec};
use self::forward::{Forward, ForwardSpec};
use self::losses::Losses;
use self::optimised::{Optimised, OptimisedSpec};
use super::places::CellList;
use crate::codec::{CodecError, Writer};
use crate::hash::Fingerprint;

/// A decayed count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    pub value: f64,
    /// Counters ran out of room: the truth may be higher. Otherwise it never is.
    pub lower_bound: bool,
}

/// The least of an item's cells, in units; of the trusted ones if there are any.
struct Least {
    units: u64,
    lower_bound: bool,
}

impl Least {
    fn scaled(self, unit: f64) -> Count {
        let value = self.units as f64 * unit;
        // A unit may be too small to be scaled by its margin; what was seen is never told as zero.
        let value = if self.units > 0 { value.max(f64::from_bits(1)) } else { 0.0 };
        Count { value, lower_bound: self.lower_bound }
    }
}

fn least_trusted(cells: &CellList, held: impl Fn(u64) -> u64, losses: &Losses) -> Least {
    let trusted = cells.as_slice().iter().filter(|cell| !losses.marks(**cell)).map(|cell| held(*cell)).min();
    let any = || cells.as_slice().iter().map(|cell| held(*cell)).min().unwrap_or(0);
    Least { units: trusted.unwrap_or_else(any), lower_bound: trusted.is_none() }
}

/// The parameters of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FrequencySpec {
    Forward(ForwardSpec),
    Basic(BasicSpec),
    Optimised(OptimisedSpec),
}

impl FrequencySpec {
    /// Rounded up.
    pub fn half_life_ms(&self) -> u64 {
        match self {
            Self::Forward(spec) => spec.half_life_ms(),
            Self::Basic(spec) => spec.epochs().half_life_ms(),
            Self::Optimised(spec) => spec.epochs().half_life_ms(),
        }
    }

    /// What identifies counters made under this specification.
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
            Self::Optimised(spec) => {
                writer.u8(2);
                spec.encode(writer);
            }
        }
    }
}

/// Counters of one of the methods.
#[derive(Debug, Clone)]
pub enum Frequency {
    Forward(Forward),
    Basic(Basic),
    Optimised(Box<Optimised>),
}

impl Frequency {
    pub fn new(spec: FrequencySpec) -> Self {
        match spec {
            FrequencySpec::Forward(spec) => Self::Forward(Forward::new(spec)),
            FrequencySpec::Basic(spec) => Self::Basic(Basic::new(spec)),
            FrequencySpec::Optimised(spec) => Self::Optimised(Box::new(Optimised::new(spec))),
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Forward(counts) => counts.memory_bytes(),
            Self::Basic(counts) => counts.memory_bytes(),
            Self::Optimised(counts) => counts.memory_bytes(),
        }
    }

    /// Moves the clock; a time before it changes nothing.
    pub fn advance(&mut self, now_ms: i64) {
        match self {
            Self::Forward(counts) => counts.advance(now_ms),
            Self::Basic(counts) => counts.advance(now_ms),
            Self::Optimised(counts) => counts.advance(now_ms),
        }
    }

    /// One observation. A time after the clock moves the clock; one before it counts at its own age.
    #[inline]
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        match self {
            Self::Forward(counts) => counts.add(item, time_ms),
            Self::Basic(counts) => counts.add(item, time_ms),
            Self::Optimised(counts) => counts.add(item, time_ms),
        }
    }

    /// The decayed count as of `as_of_ms`, or as of the clock if that is later.
    #[inline]
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> Count {
        match self {
            Self::Forward(counts) => counts.estimate(item, as_of_ms),
            Self::Basic(counts) => counts.estimate(item, as_of_ms),
            Self::Optimised(counts) => counts.estimate(item, as_of_ms),
        }
    }

    /// The decayed count of all observations.
    pub fn total(&self, as_of_ms: i64) -> f64 {
        match self {
            Self::Forward(counts) => counts.total(as_of_ms),
            Self::Basic(counts) => counts.total(as_of_ms),
            Self::Optimised(counts) => counts.total(as_of_ms),
        }
    }

    /// How often counters had no room for an observation.
    pub fn exhausted(&self) -> u64 {
        match self {
            Self::Forward(_) => 0,
            Self::Basic(counts) => counts.exhausted(),
            Self::Optimised(counts) => counts.exhausted(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Forward(counts) => counts.encode(),
            Self::Basic(counts) => counts.encode(),
            Self::Optimised(counts) => counts.encode(),
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        match bytes.first_chunk::<4>() {
            Some(&basic::KIND) => Basic::decode(bytes).map(Self::Basic),
            Some(&optimised::KIND) => Optimised::decode(bytes).map(|counts| Self::Optimised(Box::new(counts))),
            _ => Forward::decode(bytes).map(Self::Forward),
        }
    }
}

#[cfg(test)]
mod tests;
