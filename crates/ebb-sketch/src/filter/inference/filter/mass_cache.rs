//! Prior masses by the age of a reading, for the common question: the configured window, now, without strata.
//!
//! They depend on the age, on the position of the clock within its block (in steps of 1/64 block) and on the learned prior.
//! All three change rarely against the number of arrivals, so that most decisions need a multiplication per mass and no
//! evaluation of the curve. The cache is derived: it is not part of the state, and every entry equals what is computed
//! without it.

use std::ops::Range;

use crate::filter::inference::posterior::PriorMasses;

/// The masses of one step of the clock, by age in blocks.
#[derive(Debug, Clone)]
pub(super) struct MassCache {
    /// The step of the clock.
    step: Range<i64>,
    /// Version of the derived values of the prior.
    prior: u64,
    entries: Vec<Option<PriorMasses>>,
}

impl MassCache {
    pub(super) fn new() -> Self {
        Self { step: 0..0, prior: 0, entries: Vec::new() }
    }

    /// Whether the entries hold at this time and for this version of the prior.
    #[inline]
    pub(super) fn is_valid(&self, now: i64, prior: u64) -> bool {
        self.step.contains(&now) && self.prior == prior
    }

    /// Begins a new step.
    pub(super) fn restart(&mut self, step: Range<i64>, prior: u64) {
        (self.step, self.prior) = (step, prior);
        self.entries.clear();
    }

    /// The masses of an age, computed at the first request of a step.
    #[inline]
    pub(super) fn get(&mut self, age: u8, compute: impl FnOnce() -> PriorMasses) -> PriorMasses {
        match self.entries.get(usize::from(age)) {
            Some(Some(masses)) => *masses,
            Some(None) | None => self.insert(age, compute()),
        }
    }

    #[cold]
    fn insert(&mut self, age: u8, masses: PriorMasses) -> PriorMasses {
        self.entries.resize(self.entries.len().max(usize::from(age) + 1), None);
        self.entries[usize::from(age)] = Some(masses);
        masses
    }
}
