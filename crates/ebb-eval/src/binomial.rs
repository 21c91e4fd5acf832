//! A binomial test: is a number of failures compatible with a stated probability?

/// Significance level: a count with a smaller tail probability refutes the stated probability.
pub const SIGNIFICANCE: f64 = 1e-4;

/// The exact tail P(X >= failures) for X ~ Binomial(trials, probability).
pub fn upper_tail(trials: u64, failures: u64, probability: f64) -> f64 {
    if failures == 0 || probability >= 1.0 {
        return 1.0;
    }
    if failures > trials || probability <= 0.0 {
        return 0.0;
    }
    let log_coefficient = |k: u64| {
        let (n, k) = (trials as f64, k as f64);
        libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
    };
    let (hit, miss) = (libm::log(probability), libm::log1p(-probability));
    let term = |k: u64| libm::exp(log_coefficient(k) + k as f64 * hit + (trials - k) as f64 * miss);
    // Beyond the mean the terms decrease, so the rest is below the rounding of the sum.
    let mut sum = 0.0;
    for k in failures..=trials {
        let term = term(k);
        sum += term;
        if k as f64 > probability * trials as f64 && term < sum * 1e-17 {
            break;
        }
    }
    f64::min(sum, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_matches_tabulated_values() {
        for (trials, failures, probability, truth) in [
            (3, 0, 0.5, 1.0),
            (3, 1, 0.5, 0.875),
            (3, 3, 0.5, 0.125),
            (20, 6, 0.05, 3.293_0e-4),
            (100, 5, 0.05, 0.564_018_8),
            (10, 11, 0.5, 0.0),
            (10, 1, 0.0, 0.0),
            (10, 1, 1.0, 1.0),
        ] {
            let found = upper_tail(trials, failures, probability);
            assert!((found - truth).abs() <= 1e-4 * truth + 1e-15, "{trials} {failures} {probability}: {found}");
        }
    }

    #[test]
    fn large_counts_do_not_overflow() {
        assert!((upper_tail(10_000_000, 10_000, 0.001) - 0.5).abs() < 0.01);
        assert!(upper_tail(10_000_000, 11_000, 0.001) < 1e-20);
    }
}
