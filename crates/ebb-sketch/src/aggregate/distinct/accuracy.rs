//! How many values a level must keep for an error, and what the error of a level is.
//!
//! Let n be the number of different values in a window, and X the number of those sampled at a level with probability p. With
//! pairwise independent hashes X has the mean m = n·p and a variance of at most m. The level that answers is the first with
//! X <= tau. By Chebyshev's inequality:
//!
//! - It has m >= 5/4 tau with probability at most 21.7 / tau (the sum of m / (m − tau)² over the levels m = 5/4 tau · 2^j).
//! - It has m <= 3/8 tau, so that the level below had X > tau at a mean of at most 3/4 tau, with probability at most
//!   13.5 / tau.
//! - Otherwise it is one of at most two levels, because 5/4 is less than four times 3/8. On each of them X is further than
//!   k·sqrt(m) from m with probability at most 1 / k².
//!
//! Together a copy fails with probability f <= 2 / k² + 40 / tau, and otherwise errs by at most
//! epsilon = k / sqrt(3/8 tau). So tau = (16/3 / epsilon² + 40) / f. Where several copies are cheaper than one, the medians of
//! their bounds fail only if half of the copies do.

use crate::aggregate::robust::{AccuracyError, MAX_COPIES, MAX_TAU};

/// 2 / (3/8): two levels, each with at least 3/8 tau expected values.
const SPREAD: f64 = 16.0 / 3.0;
/// The probability times tau that a level outside these two answers, rounded up.
const OTHER_LEVELS: f64 = 40.0;
/// The smallest probability of failure.
const MIN_DELTA: f64 = 1e-6;

/// The error of a window, the probability of a larger one, and the sample that achieves it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DistinctAccuracy {
    delta: f64,
    tau: u32,
    copies: u8,
    /// The probability that a copy fails.
    failure: f64,
}

impl DistinctAccuracy {
    /// Windows err by more than `epsilon` with probability at most `delta`.
    pub fn new(epsilon: f64, delta: f64) -> Result<Self, AccuracyError> {
        if !(MIN_DELTA..=0.5).contains(&delta) {
            let nearest = if delta > MIN_DELTA { 0.5 } else { MIN_DELTA };
            return Err(AccuracyError::Delta { delta, min: MIN_DELTA, nearest });
        }
        let plans = || (1..=MAX_COPIES).step_by(2).map(|copies| (copies, copy_failure(copies, delta)));
        let min = plans().map(|(_, failure)| error_of(MAX_TAU, failure)).fold(0.5, f64::min);
        if !(min..=0.5).contains(&epsilon) {
            return Err(AccuracyError::Epsilon { epsilon, min, nearest: if epsilon < min { min } else { 0.5 } });
        }
        let tau = |failure: f64| libm::ceil((SPREAD / (epsilon * epsilon) + OTHER_LEVELS) / failure);
        let size = |(copies, failure): &(u8, f64)| f64::from(*copies) * tau(*failure);
        let fits = plans().filter(|(_, failure)| tau(*failure) <= f64::from(MAX_TAU));
        let best = fits.min_by(|a, b| size(a).total_cmp(&size(b)));
        let (copies, failure) = best.ok_or(AccuracyError::Epsilon { epsilon, min, nearest: min })?;
        Ok(Self { delta, tau: tau(failure) as u32, copies, failure })
    }

    /// The relative error of a window.
    pub fn epsilon(&self) -> f64 {
        error_of(self.tau, self.failure)
    }

    /// The probability of a larger error.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// The most values kept per level.
    pub fn tau(&self) -> u32 {
        self.tau
    }

    /// Independent copies of the sample.
    pub fn copies(&self) -> u8 {
        self.copies
    }

    /// Half the sample, and the error that follows from it.
    pub fn halved(&self) -> Self {
        Self { tau: self.tau.div_ceil(2), ..*self }
    }

    /// How often the sample can be halved until the error would exceed `max_epsilon`.
    pub fn halvings_within(&self, max_epsilon: f64) -> u8 {
        let halvings = std::iter::successors(Some(self.halved()), |coarser| Some(coarser.halved()));
        halvings.take_while(|coarser| coarser.epsilon() <= max_epsilon).count() as u8
    }

    /// Bounds of the expected number of sampled values when `seen` were sampled: the solutions m of |seen − m| = k·sqrt(m).
    pub(super) fn mean_bounds(&self, seen: u64) -> (f64, f64) {
        let k = self.epsilon() * libm::sqrt(2.0 / SPREAD * f64::from(self.tau));
        let root = libm::sqrt(k * k + 4.0 * seen as f64);
        let square = |side: f64| side * side / 4.0;
        (square(root - k), square(root + k))
    }
}

/// The error of a level, given the probability that a copy may fail; infinite if the sample is too small for it.
fn error_of(tau: u32, failure: f64) -> f64 {
    let room = failure * f64::from(tau) - OTHER_LEVELS;
    if room > 0.0 { libm::sqrt(SPREAD / room) } else { f64::INFINITY }
}

/// The largest probability of failure of each of `copies` (odd) for which at least half of them fail with probability at
/// most `delta`.
fn copy_failure(copies: u8, delta: f64) -> f64 {
    let (mut low, mut high) = (0.0, 0.5);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if majority_fails(copies, middle) <= delta { low = middle } else { high = middle }
    }
    low
}

/// The probability that more than half of `copies` (odd) fail, each with probability `p`.
fn majority_fails(copies: u8, p: f64) -> f64 {
    let n = f64::from(copies);
    let (mut ways, mut total) = (1.0, 0.0);
    for failed in 0..=copies {
        let k = f64::from(failed);
        if 2 * failed > copies {
            total += ways * libm::pow(p, k) * libm::pow(1.0 - p, n - k);
        }
        ways = ways * (n - k) / (k + 1.0);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_follows_from_the_theorem() {
        let accuracy = DistinctAccuracy::new(0.1, 0.05).unwrap();
        assert_eq!((accuracy.tau(), accuracy.copies()), (11_467, 1));
        assert!(accuracy.epsilon() <= 0.1 && accuracy.epsilon() > 0.0999);
        let rare = DistinctAccuracy::new(0.1, 1e-3).unwrap();
        assert!(rare.copies() > 1, "{rare:?}");
        assert!(
            u32::from(rare.copies()) * rare.tau() < DistinctAccuracy { copies: 1, failure: 1e-3, ..rare }.tau() * 60
        );
    }

    #[test]
    fn halving_raises_the_error_until_the_limit() {
        let mut accuracy = DistinctAccuracy::new(0.02, 0.05).unwrap();
        let halvings = accuracy.halvings_within(0.5);
        assert!(halvings > 5, "{halvings}");
        for _ in 0..halvings {
            let coarser = accuracy.halved();
            assert!(coarser.epsilon() > accuracy.epsilon() && coarser.epsilon() <= 0.5);
            accuracy = coarser;
        }
        assert!(accuracy.halved().epsilon() > 0.5);
    }

    #[test]
    fn bounds_of_the_mean_invert_chebyshev() {
        let accuracy = DistinctAccuracy::new(0.1, 0.05).unwrap();
        for seen in [0, 1, 50, 5_000, 11_000] {
            let (low, high) = accuracy.mean_bounds(seen);
            let k = accuracy.epsilon() * libm::sqrt(0.375 * f64::from(accuracy.tau()));
            assert!((low + k * libm::sqrt(low) - seen as f64).abs() < 1e-6 * (1.0 + seen as f64));
            assert!((high - k * libm::sqrt(high) - seen as f64).abs() < 1e-6 * (1.0 + seen as f64));
        }
    }

    #[test]
    fn unachievable_accuracies_are_rejected_with_the_nearest_valid() {
        for (epsilon, delta) in
            [(0.0, 0.1), (0.6, 0.1), (f64::NAN, 0.1), (1e-5, 0.1), (0.1, 0.0), (0.1, 0.6), (0.1, f64::NAN)]
        {
            let nearest = match DistinctAccuracy::new(epsilon, delta).unwrap_err() {
                AccuracyError::Epsilon { nearest, .. } => DistinctAccuracy::new(nearest, delta),
                AccuracyError::Delta { nearest, .. } => DistinctAccuracy::new(epsilon, nearest),
                AccuracyError::Tau { .. } => unreachable!("only epsilon and delta are requested"),
            };
            assert!(nearest.is_ok(), "{epsilon} {delta}");
        }
    }
}
