//! How large a sample an error and its probability need.
//!
//! The sample size tau is the smallest for which [`concentration`](super::concentration) guarantees the error: about
//! 12 / epsilon² for a delta of 0.05, 17 / epsilon² for 0.01.

use super::concentration::{self, ShareErrors};

/// The probability of a larger error under [`Accuracy::with_sample_size`].
const SAMPLE_DELTA: f64 = 0.005;
/// The range of probabilities.
const MIN_DELTA: f64 = 1e-9;

/// The largest sample size.
pub const MAX_TAU: u32 = 1 << 22;
/// The most copies.
pub const MAX_COPIES: u8 = 15;

/// The guaranteed relative error, the probability of a larger one, and the sample that achieves it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    epsilon: f64,
    delta: f64,
    tau: u32,
    copies: u8,
}

/// Why an accuracy cannot be achieved.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AccuracyError {
    /// The error is out of range.
    #[error("epsilon {epsilon} must be within {min} and 0.5; the nearest valid value is {nearest}")]
    Epsilon {
        /// The requested error.
        epsilon: f64,
        /// The smallest valid error.
        min: f64,
        /// The nearest valid error.
        nearest: f64,
    },
    /// The probability of failure is out of range.
    #[error("delta {delta} must be within {min} and 0.5; the nearest valid value is {nearest}")]
    Delta {
        /// The requested probability.
        delta: f64,
        /// The smallest valid probability.
        min: f64,
        /// The nearest valid probability.
        nearest: f64,
    },
    /// The sample size is out of range.
    #[error("sample size {tau} must be within 1 and {MAX_TAU}")]
    Tau {
        /// The requested sample size.
        tau: u32,
    },
}

impl Accuracy {
    /// Errors above `epsilon` have a probability of at most `delta`.
    pub fn new(epsilon: f64, delta: f64) -> Result<Self, AccuracyError> {
        if !(MIN_DELTA..=0.5).contains(&delta) {
            let nearest = if delta < MIN_DELTA { MIN_DELTA } else { 0.5 };
            return Err(AccuracyError::Delta { delta, min: MIN_DELTA, nearest });
        }
        let min = concentration::relative_error(concentration::expected_units(MAX_TAU, delta), delta);
        if !(min..=0.5).contains(&epsilon) {
            let nearest = if epsilon < min { min } else { 0.5 };
            return Err(AccuracyError::Epsilon { epsilon, min, nearest });
        }
        let (mut below, mut tau) = (0, MAX_TAU);
        while tau - below > 1 {
            let middle = below + (tau - below) / 2;
            let units = concentration::expected_units(middle, delta);
            if concentration::suffices(units, epsilon, delta) { tau = middle } else { below = middle }
        }
        Ok(Self { epsilon, delta, tau, copies: 1 })
    }

    /// One copy that keeps `tau` elements per level, and the error that follows: infinite if `tau` is too small for any.
    pub fn with_sample_size(tau: u32) -> Result<Self, AccuracyError> {
        if !(1..=MAX_TAU).contains(&tau) {
            return Err(AccuracyError::Tau { tau });
        }
        let units = concentration::expected_units(tau, SAMPLE_DELTA);
        let epsilon = concentration::relative_error(units, SAMPLE_DELTA);
        Ok(Self { epsilon, delta: SAMPLE_DELTA, tau, copies: 1 })
    }

    /// Keeps `copies` (odd, at most [`MAX_COPIES`]) independent copies and answers with their median, which errs more seldom
    /// than one copy. The same accuracy costs less with one larger sample.
    pub fn with_copies(self, copies: u8) -> Self {
        Self { copies: copies.clamp(1, MAX_COPIES) | 1, ..self }
    }

    /// The guaranteed error.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The probability of a larger error.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// The most elements kept per level.
    pub fn tau(&self) -> u32 {
        self.tau
    }

    /// Independent copies of the sample.
    pub fn copies(&self) -> u8 {
        self.copies
    }

    /// Half the sample, and the error that follows from it.
    pub fn halved(&self) -> Self {
        let tau = self.tau.div_ceil(2);
        let epsilon = concentration::relative_error(concentration::expected_units(tau, self.delta), self.delta);
        Self { epsilon, tau, ..*self }
    }

    /// How often the sample can be halved until the error would exceed `max_epsilon`.
    pub fn halvings_within(&self, max_epsilon: f64) -> u8 {
        let halvings = std::iter::successors(Some(self.halved()), |coarser| Some(coarser.halved()));
        halvings.take_while(|coarser| coarser.epsilon <= max_epsilon && coarser.tau > 1).count() as u8
    }

    /// The error if up to `cluster` units are sampled together, and with a probability of `delta` instead of the configured one.
    pub(super) fn epsilon_for(&self, cluster: f64, delta: f64) -> f64 {
        if cluster <= 1.0 && delta >= self.delta {
            return self.epsilon;
        }
        concentration::relative_error(self.units(cluster, delta), delta)
    }

    /// The errors of shares; at most `epsilon`, which is the error of all shares.
    pub(super) fn share_errors(&self, cluster: f64, epsilon: f64) -> ShareErrors {
        ShareErrors::new(self.units(cluster, self.delta), self.delta, epsilon)
    }

    fn units(&self, cluster: f64, delta: f64) -> f64 {
        concentration::expected_units(self.tau, delta) / cluster
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_size_follows_from_error_and_probability() {
        let tau = |epsilon, delta| Accuracy::new(epsilon, delta).unwrap().tau();
        let constant = |epsilon: f64, delta| f64::from(tau(epsilon, delta)) * epsilon * epsilon;
        assert!((11.0..12.5).contains(&constant(0.02, 0.05)), "{}", constant(0.02, 0.05));
        assert!((16.5..18.0).contains(&constant(0.02, 0.01)), "{}", constant(0.02, 0.01));
        assert!((50.0..60.0).contains(&constant(0.02, 1e-6)), "{}", constant(0.02, 1e-6));
        assert!(tau(0.5, 0.5) < 60 && tau(0.1, 0.05) < 1500);
    }

    #[test]
    fn sample_size_and_error_are_inverse() {
        for tau in [300, 4000, 30_000] {
            let epsilon = Accuracy::with_sample_size(tau).unwrap().epsilon();
            let again = Accuracy::new(epsilon, SAMPLE_DELTA).unwrap();
            assert!(again.tau() <= tau && again.tau() + 2 >= tau, "{tau}: {}", again.tau());
        }
        assert_eq!(Accuracy::with_sample_size(3).unwrap().epsilon(), f64::INFINITY);
    }

    #[test]
    fn unachievable_accuracies_are_rejected_with_the_nearest_valid() {
        for (epsilon, delta) in
            [(0.0, 0.1), (-1.0, 0.1), (0.6, 0.1), (f64::NAN, 0.1), (0.1, 0.0), (0.1, 0.6), (0.1, f64::NAN)]
        {
            let rejected = Accuracy::new(epsilon, delta).unwrap_err();
            let nearest = match rejected {
                AccuracyError::Epsilon { nearest, .. } => Accuracy::new(nearest, delta),
                AccuracyError::Delta { nearest, .. } => Accuracy::new(epsilon, nearest),
                AccuracyError::Tau { .. } => unreachable!("only epsilon and delta are requested"),
            };
            assert!(nearest.is_ok(), "{rejected}");
        }
        assert!(Accuracy::with_sample_size(0).is_err() && Accuracy::with_sample_size(MAX_TAU + 1).is_err());
    }
}
