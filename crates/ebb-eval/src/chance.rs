//! Is a count of failures what a stated chance allows? The exact binomial tail, no approximation.

/// A count this unlikely, or less, is taken as proof that the chance is higher than stated.
pub const UNLIKELY: f64 = 1e-4;

/// P(X >= failures) for X ~ Binomial(trials, chance).
pub fn tail(trials: u64, failures: u64, chance: f64) -> f64 {
    if failures == 0 || chance >= 1.0 {
        return 1.0;
    }
    if failures > trials || chance <= 0.0 {
        return 0.0;
    }
    let ways = |k: u64| {
        let (n, k) = (trials as f64, k as f64);
        libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0)
    };
    let (hit, miss) = (libm::log(chance), libm::log1p(-chance));
    let term = |k: u64| libm::exp(ways(k) + k as f64 * hit + (trials - k) as f64 * miss);
    // Beyond the mean the terms fall; what is left then is below the last one's rounding.
    let mut sum = 0.0;
    for k in failures..=trials {
        let term = term(k);
        sum += term;
        if k as f64 > chance * trials as f64 && term < sum * 1e-17 {
            break;
        }
    }
    f64::min(sum, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_sum_of_the_terms() {
        for (trials, failures, chance, truth) in [
            (3, 0, 0.5, 1.0),
            (3, 1, 0.5, 0.875),
            (3, 3, 0.5, 0.125),
            (20, 6, 0.05, 3.293_0e-4),
            (100, 5, 0.05, 0.564_018_8),
            (10, 11, 0.5, 0.0),
            (10, 1, 0.0, 0.0),
            (10, 1, 1.0, 1.0),
        ] {
            let found = tail(trials, failures, chance);
            assert!((found - truth).abs() <= 1e-4 * truth + 1e-15, "{trials} {failures} {chance}: {found}");
        }
    }

    #[test]
    fn large_counts_do_not_overflow() {
        assert!((tail(10_000_000, 10_000, 0.001) - 0.5).abs() < 0.01);
        assert!(tail(10_000_000, 11_000, 0.001) < 1e-20);
    }
}
