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

/// The exact (Clopper–Pearson) interval of a probability after `hits` of `trials`, wrong with probability `alpha`.
pub fn interval(trials: u64, hits: u64, alpha: f64) -> (f64, f64) {
    let bisect = |is_below: &dyn Fn(f64) -> bool| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if is_below(middle) { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    };
    let lower = if hits == 0 { 0.0 } else { bisect(&|p| upper_tail(trials, hits, p) < alpha / 2.0) };
    // At most `hits` hits is at least `trials - hits` misses.
    let upper =
        if hits == trials { 1.0 } else { bisect(&|p| upper_tail(trials, trials - hits, 1.0 - p) > alpha / 2.0) };
    (lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_matches_tabulated_values() {
        for (trials, hits, low, high) in [(10, 0, 0.0, 0.3085), (10, 3, 0.0667, 0.6525), (100, 50, 0.3983, 0.6017)] {
            let found = interval(trials, hits, 0.05);
            assert!((found.0 - low).abs() < 2e-4 && (found.1 - high).abs() < 2e-4, "{trials} {hits}: {found:?}");
        }
    }

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
