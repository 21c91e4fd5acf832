//! How large a sample an error needs, and how many copies a small probability of failure needs.
//!
//! The sample size is tau = C / epsilon². The standard error of a weight is at most sqrt(2 / tau), and about 1.05 / sqrt(tau)
//! in measurements, so C = 1.1 z² puts epsilon z standard errors away: with C = 10 fewer than 1 of 200 queries fail, with
//! C = 12 fewer than 1 of 1000. (The theorems need C = 60 and guarantee 2/3.) For smaller probabilities the median of an odd
//! number of independent copies is cheaper than a still larger sample.

/// C, and the probability that one copy fails.
const PLAIN: (f64, f64) = (10.0, 0.005);
/// A somewhat larger sample instead of copies.
const CAREFUL: (f64, f64) = (12.0, 0.001);

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
        let min = libm::sqrt(CAREFUL.0 / f64::from(MAX_TAU));
        if !(min..=0.5).contains(&epsilon) {
            let nearest = if epsilon < min { min } else { 0.5 };
            return Err(AccuracyError::Epsilon { epsilon, min, nearest });
        }
        let min = median_failure(MAX_COPIES);
        if !(min..=0.5).contains(&delta) {
            let nearest = if delta < min { min } else { 0.5 };
            return Err(AccuracyError::Delta { delta, min, nearest });
        }
        let constant = if (CAREFUL.1..PLAIN.1).contains(&delta) { CAREFUL.0 } else { PLAIN.0 };
        let tau = libm::ceil(constant / (epsilon * epsilon)) as u32;
        let suffices = |copies: &u8| delta >= CAREFUL.1 || median_failure(*copies) <= delta;
        let copies = (1..=MAX_COPIES).step_by(2).find(suffices).unwrap_or(MAX_COPIES);
        Ok(Self { epsilon, delta, tau, copies })
    }

    /// One copy that keeps `tau` elements per level, and the error that follows.
    pub fn with_sample_size(tau: u32) -> Result<Self, AccuracyError> {
        if !(1..=MAX_TAU).contains(&tau) {
            return Err(AccuracyError::Tau { tau });
        }
        Ok(Self { epsilon: libm::sqrt(PLAIN.0 / f64::from(tau)), delta: PLAIN.1, tau, copies: 1 })
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
        Self { epsilon: self.epsilon * libm::sqrt(f64::from(self.tau) / f64::from(tau)), tau, ..*self }
    }

    /// The same sample with an error that is `factor` times as large.
    pub(super) fn diluted(&self, factor: f64) -> Self {
        Self { epsilon: self.epsilon * factor, ..*self }
    }

    /// How often the sample can be halved until the error would exceed `max_epsilon`.
    pub fn halvings_within(&self, max_epsilon: f64) -> u8 {
        let halvings = std::iter::successors(Some(self.halved()), |coarser| Some(coarser.halved()));
        halvings.take_while(|coarser| coarser.epsilon <= max_epsilon && coarser.tau > 1).count() as u8
    }

    /// How many standard errors epsilon is: the width of bounds computed from the sample.
    pub(super) fn standard_errors(&self) -> f64 {
        self.epsilon * libm::sqrt(f64::from(self.tau) / 1.1)
    }
}

/// The probability that more than half of `copies` (odd) fail, each with the probability of a plain sample.
fn median_failure(copies: u8) -> f64 {
    let (n, p) = (f64::from(copies), PLAIN.1);
    let mut ways = 1.0;
    let mut total = 0.0;
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
    fn sample_grows_quadratically_and_copies_serve_small_deltas() {
        let plan = |epsilon, delta| Accuracy::new(epsilon, delta).map(|a| (a.tau(), a.copies())).unwrap();
        assert_eq!(plan(0.05, 0.01), (4000, 1));
        assert_eq!(plan(0.02, 0.01), (25_000, 1));
        assert_eq!(plan(0.05, 0.002), (4800, 1));
        assert_eq!(plan(0.05, 1e-4), (4000, 3));
        assert_eq!(plan(0.05, 1e-6), (4000, 7));
    }

    #[test]
    fn median_failure_is_the_binomial_tail() {
        assert_eq!(median_failure(1), 0.005);
        assert!((median_failure(3) - (3.0 * 0.005 * 0.005 * 0.995 + 0.005 * 0.005 * 0.005)).abs() < 1e-18);
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
