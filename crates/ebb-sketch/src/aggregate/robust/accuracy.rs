//! How large a sample an error needs, and how many copies a small risk needs.
//!
//! The sample size is tau = C / epsilon². The standard error of a sum is at most sqrt(2 / tau) and measured at about
//! 1.05 / sqrt(tau), so C = 1.1 z² puts the error z standard errors away: C = 10 fails in fewer than 1 of 200 questions,
//! C = 12 in fewer than 1 of 1000. (The theorems ask for C = 60, and promise 2/3.) Below that risk the median of an odd
//! number of independent copies is cheaper than a still larger sample.

/// The sample of one copy for C = 10, and how often one copy then misses its epsilon at most.
const PLAIN: (f64, f64) = (10.0, 0.005);
/// A somewhat larger sample instead of copies.
const CAREFUL: (f64, f64) = (12.0, 0.001);

/// Sample sizes beyond this hold more than they summarise.
pub const TAU_MOST: u32 = 1 << 22;
/// More copies than this guard against nothing.
pub const COPIES_MOST: u8 = 15;

/// The promised relative error and risk, and what keeping the promise takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    epsilon: f64,
    delta: f64,
    tau: u32,
    copies: u8,
}

/// Why an accuracy was refused, and what would be right.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AccuracyError {
    #[error("epsilon {asked} must lie within {least} and 0.5; the nearest valid is {nearest}")]
    Epsilon { asked: f64, least: f64, nearest: f64 },
    #[error("delta {asked} must lie within {least} and 0.5; the nearest valid is {nearest}")]
    Delta { asked: f64, least: f64, nearest: f64 },
    #[error("a sample of {asked} must lie within 1 and {TAU_MOST}")]
    Tau { asked: u32 },
}

impl Accuracy {
    /// Errors above `epsilon` with probability at most `delta`.
    pub fn new(epsilon: f64, delta: f64) -> Result<Self, AccuracyError> {
        let least = libm::sqrt(CAREFUL.0 / f64::from(TAU_MOST));
        if !(least..=0.5).contains(&epsilon) {
            let nearest = if epsilon < least { least } else { 0.5 };
            return Err(AccuracyError::Epsilon { asked: epsilon, least, nearest });
        }
        let least = failure_of_median(COPIES_MOST);
        if !(least..=0.5).contains(&delta) {
            let nearest = if delta < least { least } else { 0.5 };
            return Err(AccuracyError::Delta { asked: delta, least, nearest });
        }
        let constant = if (CAREFUL.1..PLAIN.1).contains(&delta) { CAREFUL.0 } else { PLAIN.0 };
        let tau = libm::ceil(constant / (epsilon * epsilon)) as u32;
        let enough = |copies: &u8| delta >= CAREFUL.1 || failure_of_median(*copies) <= delta;
        let copies = (1..=COPIES_MOST).step_by(2).find(enough).unwrap_or(COPIES_MOST);
        Ok(Self { epsilon, delta, tau, copies })
    }

    /// One copy that keeps `tau` elements a level, with the error that follows.
    pub fn of_sample(tau: u32) -> Result<Self, AccuracyError> {
        if !(1..=TAU_MOST).contains(&tau) {
            return Err(AccuracyError::Tau { asked: tau });
        }
        Ok(Self { epsilon: libm::sqrt(PLAIN.0 / f64::from(tau)), delta: PLAIN.1, tau, copies: 1 })
    }

    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// Elements kept at a level, at most.
    pub fn tau(&self) -> u32 {
        self.tau
    }

    pub fn copies(&self) -> u8 {
        self.copies
    }

    /// Standard errors within `epsilon`: the width of bounds that are computed from the sample itself.
    pub(super) fn deviations(&self) -> f64 {
        self.epsilon * libm::sqrt(f64::from(self.tau) / 1.1)
    }
}

/// The probability that at least half of `copies` (odd) miss, when each does with that of a plain sample.
fn failure_of_median(copies: u8) -> f64 {
    let (n, p) = (f64::from(copies), PLAIN.1);
    let mut ways = 1.0;
    let mut total = 0.0;
    for missed in 0..=copies {
        let k = f64::from(missed);
        if 2 * missed > copies {
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
    fn the_sample_grows_with_the_square_and_copies_come_only_with_small_risks() {
        let plan = |epsilon, delta| Accuracy::new(epsilon, delta).map(|a| (a.tau(), a.copies())).unwrap();
        assert_eq!(plan(0.05, 0.01), (4000, 1));
        assert_eq!(plan(0.02, 0.01), (25_000, 1));
        assert_eq!(plan(0.05, 0.002), (4800, 1));
        assert_eq!(plan(0.05, 1e-4), (4000, 3));
        assert_eq!(plan(0.05, 1e-6), (4000, 7));
    }

    #[test]
    fn the_failure_of_a_median_is_the_binomial_tail() {
        assert_eq!(failure_of_median(1), 0.005);
        assert!((failure_of_median(3) - (3.0 * 0.005 * 0.005 * 0.995 + 0.005 * 0.005 * 0.005)).abs() < 1e-18);
    }

    #[test]
    fn impossible_accuracies_are_refused_with_the_nearest_that_is_possible() {
        for (epsilon, delta) in
            [(0.0, 0.1), (-1.0, 0.1), (0.6, 0.1), (f64::NAN, 0.1), (0.1, 0.0), (0.1, 0.6), (0.1, f64::NAN)]
        {
            let refused = Accuracy::new(epsilon, delta).unwrap_err();
            let nearest = match refused {
                AccuracyError::Epsilon { nearest, .. } => Accuracy::new(nearest, delta),
                AccuracyError::Delta { nearest, .. } => Accuracy::new(epsilon, nearest),
                AccuracyError::Tau { .. } => unreachable!("no sample size was given"),
            };
            assert!(nearest.is_ok(), "{refused}");
        }
        assert!(Accuracy::of_sample(0).is_err() && Accuracy::of_sample(TAU_MOST + 1).is_err());
    }
}
