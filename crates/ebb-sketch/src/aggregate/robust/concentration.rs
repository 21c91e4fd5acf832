//! How far a sample can be from the truth: the bounds behind every probabilistic answer.
//!
//! Ids are fingerprints under a secret key, so different elements are sampled independently (the published theorems assume
//! pairwise independence only, and need constants of 60 and 492 instead). Then, for one window:
//!
//! 1. The answering level l is the first with at most tau elements. Let l* be the first level whose expected number of
//!    elements is at most tau − z·sqrt(tau). Levels above l* answer with a probability of at most [`SKIPPED`]·delta over all
//!    windows at once, and level l* expects at least half of that number of elements: [`expected_units`].
//! 2. In units of the smallest estimate that an element contributes at a level, the estimate is a sum of independent numbers
//!    within 0 and 1, plus elements that are certain. Such a sum is below a Poisson number of the same mean in the convex
//!    order. Its relative error is below (Poisson(m) − m) / m, where m is the number of units expected at l*.
//! 3. An answer under another decay is a mixture of windows. Its relative error is the same mixture of relative errors, and
//!    E f(mixture) <= max E f(window) for convex f, whatever the dependence between the windows.
//! 4. From the convex order to a probability costs at most a factor e, because the tails of a Poisson number are log-concave
//!    (Pinelis). [`poisson_tail`] bounds those tails (Short). Lower levels expect 2, 4, … times as many units and are added.
//!
//! A share is a ratio A / (A + B) with true share q. Its error is ((1 − q)·error of A − q·error of B) / total: a convex
//! combination of errors of the kind above, so what holds for totals holds for shares as an absolute error.

/// The part of delta that is spent on levels above l*.
const SKIPPED: f64 = 0.02;
/// Levels that may answer instead of l*.
const LEVELS: f64 = 57.0;
/// Levels below l* are added until one contributes less than this part: the next ones contribute far less still.
const NEGLIGIBLE: f64 = 1e-6;

/// The number of units that the answering level of a sample of `tau` elements expects at least.
pub(super) fn expected_units(tau: u32, delta: f64) -> f64 {
    let tau = f64::from(tau);
    let skipped = bisect(0.0, 40.0, |z| normal_tail(z) <= SKIPPED * delta / LEVELS);
    ((tau - skipped * libm::sqrt(tau)) / 2.0).max(0.0)
}

/// Whether a relative error above `epsilon` has a probability of at most `delta`.
pub(super) fn suffices(units: f64, epsilon: f64, delta: f64) -> bool {
    let failure =
        deviation_probability(units, epsilon, poisson_tail) + deviation_probability(units, epsilon, lower_tail);
    failure <= (1.0 - SKIPPED) * delta
}

/// The smallest relative error that is exceeded with a probability of at most `delta`; infinite without any units.
pub(super) fn relative_error(units: f64, delta: f64) -> f64 {
    if units <= 0.0 {
        return f64::INFINITY;
    }
    let exponent = bisect(-40.0, 40.0, |exponent| suffices(units, libm::exp2(exponent), delta));
    if exponent < 40.0 { libm::exp2(exponent) } else { f64::INFINITY }
}

/// The errors of estimated shares. Small and large shares have smaller errors than the `epsilon` of all shares.
#[derive(Debug)]
pub(super) struct ShareErrors {
    units: f64,
    epsilon: f64,
    /// How many standard deviations a part may be off, with the probabilities delta / 8 · [`WIDENING`]^k.
    deviations: Vec<f64>,
}

/// The factor between the parts that [`ShareErrors`] considers.
const WIDENING: f64 = 1.5;

impl ShareErrors {
    /// Errors that are exceeded with a probability of at most `delta`, and are at most `epsilon`.
    pub fn new(units: f64, delta: f64, epsilon: f64) -> Self {
        let probabilities = std::iter::successors(Some(delta / 8.0), |last| Some(last * WIDENING));
        let deviations = probabilities.take_while(|probability| *probability < 1.0).map(deviation).collect();
        Self { units, epsilon, deviations }
    }

    /// The error of a part whose true share is `share`.
    pub fn of(&self, share: f64) -> f64 {
        let error = (1.0 - share) * self.of_part(share) + share * self.of_part(1.0 - share);
        if self.epsilon < 1.0 { (error / (1.0 - self.epsilon)).min(self.epsilon) } else { self.epsilon }
    }

    /// The error of a part, relative to the whole. In single windows of a mixture the part may be `larger` than `share`, but
    /// only as often as the mean over all windows allows.
    fn of_part(&self, share: f64) -> f64 {
        let mut larger = share;
        let mut worst = 0.0f64;
        for z in &self.deviations {
            if larger > 1.0 {
                break;
            }
            // From the tail back to the deviation: Bernstein's bound of the divergence.
            let (mean, half) = (self.units * larger, z * z / (2.0 * self.units * larger));
            let off = mean * (half / 3.0 + libm::sqrt(half * half / 9.0 + 2.0 * half)) + 1.0;
            worst = if larger > 0.0 { worst.max(off / self.units) } else { 0.0 };
            larger *= WIDENING;
        }
        worst
    }
}

/// How many standard deviations are exceeded at l* or a level below with a probability of at most `probability`.
fn deviation(probability: f64) -> f64 {
    // In units of variance the tail of a level is that of a mean of z²; twice the mean is twice the square.
    let tail = |mean: f64, _| normal_tail(libm::sqrt(mean));
    let mut precise = (0.0, 64.0);
    while precise.1 - precise.0 > 1e-6 {
        let square = (precise.0 + precise.1) / 2.0;
        if deviation_probability(square, 0.0, tail) <= probability { precise.1 = square } else { precise.0 = square }
    }
    libm::sqrt(precise.1)
}

/// The probability that a relative error exceeds `epsilon` in the direction of `tail`, over l* and the levels below.
fn deviation_probability(units: f64, epsilon: f64, tail: impl Fn(f64, f64) -> f64) -> f64 {
    let (mut sum, mut mean) = (0.0, units);
    loop {
        let probability = tail(mean, epsilon * mean);
        sum += probability;
        if probability <= NEGLIGIBLE * sum || sum >= 1.0 {
            return std::f64::consts::E * sum;
        }
        mean *= 2.0;
    }
}

/// A bound of P(Poisson(mean) >= mean + off) that is log-concave in `off`.
fn poisson_tail(mean: f64, off: f64) -> f64 {
    if off <= 1.0 { 1.0 } else { normal_tail(libm::sqrt(2.0 * divergence(mean, off - 1.0))) }
}

/// A bound of P(Poisson(mean) <= mean - off).
fn lower_tail(mean: f64, off: f64) -> f64 {
    match off {
        _ if off > mean => 0.0,
        _ if off <= 1.0 => 1.0,
        _ => normal_tail(libm::sqrt(2.0 * divergence(mean, 1.0 - off))),
    }
}

/// The divergence between Poisson numbers of the means `mean + off` and `mean`.
fn divergence(mean: f64, off: f64) -> f64 {
    let x = off / mean;
    (mean * ((1.0 + x) * libm::log1p(x) - x)).max(0.0)
}

fn normal_tail(z: f64) -> f64 {
    libm::erfc(z / std::f64::consts::SQRT_2) / 2.0
}

/// The smallest argument for which a monotone condition holds, or `high`.
fn bisect(low: f64, high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..48 {
        let middle = (low + high) / 2.0;
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P(Poisson(mean) = k) for k = 0, 1, …
    fn poisson(mean: f64, count: u32) -> Vec<f64> {
        (0..count)
            .map(|k| libm::exp(f64::from(k) * libm::log(mean) - mean - libm::lgamma(f64::from(k) + 1.0)))
            .collect()
    }

    #[test]
    fn tails_bound_those_of_a_poisson_number() {
        for mean in [0.7, 3.0, 20.0, 150.0] {
            let masses = poisson(mean, 600);
            for k in 0..500 {
                let off = k as f64 - mean;
                let (above, below) = (masses[k..].iter().sum::<f64>(), masses[..=k].iter().sum::<f64>());
                assert!(off < 0.0 || above <= poisson_tail(mean, off) + 1e-15, "{mean} {k}: {above}");
                assert!(off > 0.0 || below <= lower_tail(mean, -off) + 1e-15, "{mean} {k}: {below}");
            }
        }
        assert!(poisson_tail(100.0, 30.0) < 3.0 * poisson(100.0, 400)[130..].iter().sum::<f64>(), "not much larger");
    }

    #[test]
    fn convex_order_costs_at_most_a_factor_e() {
        // The best bound from E(X - d)+ for all d, which is what mixtures of windows inherit.
        for (mean, off) in [(50.0, 20.0), (400.0, 60.0), (400.0, 90.0)] {
            let masses = poisson(mean, 900);
            let stop_loss = |d: usize| masses.iter().enumerate().skip(d).map(|(k, p)| p * (k - d) as f64).sum::<f64>();
            let best = (0..(mean + off) as usize).map(|d| stop_loss(d) / (mean + off - d as f64)).fold(1.0, f64::min);
            assert!(best <= std::f64::consts::E * poisson_tail(mean, off), "{mean} {off}: {best}");
        }
    }

    #[test]
    fn errors_shrink_with_the_square_root_of_the_sample() {
        let errors = [1e3, 4e3, 1.6e4].map(|units| relative_error(units, 0.05));
        assert!((errors[0] / errors[1] - 2.0).abs() < 0.1 && (errors[1] / errors[2] - 2.0).abs() < 0.1, "{errors:?}");
        assert!(suffices(1e3, errors[0], 0.05) && !suffices(1e3, errors[0] * 0.999, 0.05));
        assert_eq!(relative_error(0.0, 0.05), f64::INFINITY);
    }

    #[test]
    fn error_of_a_share_is_smaller_towards_the_ends_and_never_above_epsilon() {
        let epsilon = relative_error(5e3, 0.05);
        let errors = ShareErrors::new(5e3, 0.05, epsilon);
        let at = [0.0, 0.001, 0.01, 0.1, 0.5].map(|share| errors.of(share));
        assert!(at.windows(2).all(|pair| pair[0] < pair[1]), "{at:?}");
        assert!(at[0] == 0.0 && at[4] <= epsilon && at[2] < epsilon / 2.0, "{at:?} {epsilon}");
        assert!((errors.of(0.125) - errors.of(0.875)).abs() < 1e-12);
    }

    #[test]
    fn part_of_a_window_is_within_its_error() {
        let errors = ShareErrors::new(5e3, 0.05, 0.9);
        for share in [0.001, 0.01, 0.1, 0.5, 1.0] {
            let (mean, off) = (5e3 * share, errors.of_part(share) * 5e3);
            let failure = deviation_probability(mean, off / mean, poisson_tail);
            assert!(failure <= 0.05 / 8.0, "{share}: {off} {failure}");
        }
    }
}
