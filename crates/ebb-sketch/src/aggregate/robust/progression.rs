//! Arithmetic progressions modulo a number: where they first fall below a bound, and how often.
//!
//! Exact for every modulus below 2^63 and up to 2^32 terms: products are `u128`. The number of steps is logarithmic in the
//! modulus, as in the Euclidean algorithm, and does not depend on the number of terms.

/// The values (start + j · step) mod modulus, j = 0, 1, …; `start` and `step` are below `modulus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progression {
    /// The modulus.
    pub modulus: u64,
    /// The difference of consecutive terms.
    pub step: u64,
    /// The first term.
    pub start: u64,
}

impl Progression {
    /// The smallest j below `terms` whose value is below `below` (MinHit in the paper).
    pub fn min_hit(self, terms: u64, below: u64) -> Option<u64> {
        if terms == 0 || below == 0 {
            return None;
        }
        if self.start < below {
            return Some(0);
        }
        if self.step == 0 {
            return None;
        }
        let (p, a, u) = (u128::from(self.modulus), u128::from(self.step), u128::from(self.start));
        let first_wrap = (p - u).div_ceil(a);
        if first_wrap >= u128::from(terms) {
            return None;
        }
        if a == 1 {
            return Some((p - u) as u64);
        }
        let landing = u + first_wrap * a - p;
        let wraps = (u + u128::from(terms - 1) * a) / p;
        let wrap = self.landings(landing, below).min_hit(wraps as u64, below)?;
        // The landings may have been searched backwards; the landing of that wrap is recomputed forwards.
        let hit = (landing + u128::from(wrap) * (a - p % a)) % a;
        Some((((u128::from(wrap) + 1) * p - u + hit) / a) as u64)
    }

    /// The first values after each wrap are again a progression, modulo the step. It runs backwards if that is shorter.
    fn landings(self, landing: u128, below: u64) -> Self {
        let a = self.step;
        let rest = self.modulus % a;
        let landing = landing as u64;
        if a - rest <= a / 2 {
            Self { modulus: a, step: a - rest, start: landing }
        } else {
            let start = (u128::from(a - landing) + u128::from(below) - 1) % u128::from(a);
            Self { modulus: a, step: rest, start: start as u64 }
        }
    }

    /// How many of the first `terms` values are below `below` (RangeSample in the paper).
    pub fn count_below(self, terms: u64, below: u64) -> u64 {
        if terms == 0 || below == 0 {
            return 0;
        }
        if below >= self.modulus {
            return terms;
        }
        // [y mod p < K] = floor(y/p) - floor((y - K)/p); shifting by p keeps the second numerator positive.
        let shifted = self.start + (self.modulus - below);
        let all = floor_sum(terms, self.modulus, self.step, self.start);
        let above = floor_sum(terms, self.modulus, self.step, shifted);
        (all + u128::from(terms) - above) as u64
    }
}

/// The sum of floor((start + j · step) / modulus) over j below `terms` (at most 2^32).
pub fn floor_sum(terms: u64, modulus: u64, step: u64, start: u64) -> u128 {
    let (mut n, mut m, mut a, mut b) = (terms, modulus, step, start);
    let mut sum = 0;
    while n > 0 {
        let pairs = u128::from(n) * u128::from(n - 1) / 2;
        sum += pairs * u128::from(a / m) + u128::from(n) * u128::from(b / m);
        a %= m;
        b %= m;
        let last = u128::from(a) * u128::from(n) + u128::from(b);
        if last < u128::from(m) {
            break;
        }
        (n, b) = divide(last, m);
        std::mem::swap(&mut m, &mut a);
    }
    sum
}

/// Quotient and remainder; the quotient must fit. A 64-bit division is several times faster than a 128-bit one.
fn divide(dividend: u128, divisor: u64) -> (u64, u64) {
    match u64::try_from(dividend) {
        Ok(small) => (small / divisor, small % divisor),
        Err(_) => ((dividend / u128::from(divisor)) as u64, (dividend % u128::from(divisor)) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(p: Progression, terms: u64) -> impl Iterator<Item = u64> {
        (0..terms).map(move |j| (p.start + j * p.step) % p.modulus)
    }

    #[test]
    fn small_progressions_match_counting() {
        for modulus in 1..16u64 {
            for (step, start) in (0..modulus).flat_map(|a| (0..modulus).map(move |u| (a, u))) {
                let p = Progression { modulus, step, start };
                for (terms, below) in (0..modulus + 4).flat_map(|n| (0..=modulus).map(move |k| (n, k))) {
                    let first = values(p, terms).position(|v| v < below).map(|j| j as u64);
                    assert_eq!(p.min_hit(terms, below), first, "{p:?} {terms} {below}");
                    let hits = values(p, terms).filter(|v| *v < below).count() as u64;
                    assert_eq!(p.count_below(terms, below), hits, "{p:?} {terms} {below}");
                }
            }
        }
    }

    #[test]
    fn small_floor_sums_match_adding() {
        for (m, a) in (1..12u64).flat_map(|m| (0..30).map(move |a| (m, a))) {
            for (b, n) in (0..30u64).flat_map(|b| (0..9).map(move |n| (b, n))) {
                let added: u64 = (0..n).map(|j| (a * j + b) / m).sum();
                assert_eq!(floor_sum(n, m, a, b), u128::from(added), "{n} {m} {a} {b}");
            }
        }
    }

    #[test]
    fn largest_arguments_do_not_overflow() {
        let modulus = (1u64 << 63) - 25;
        let p = Progression { modulus, step: modulus - 1, start: modulus - 1 };
        assert_eq!(p.min_hit(1 << 32, modulus - 1), Some(1));
        assert_eq!(p.min_hit(1 << 32, 1), None);
        assert_eq!(p.count_below(1 << 32, modulus - (1 << 31)), 1 << 31);
        assert_eq!(floor_sum(1 << 32, u64::MAX, u64::MAX, u64::MAX), (1u128 << 31) * ((1 << 32) + 1));
        assert_eq!(
            floor_sum(1 << 32, 1, u64::MAX, 0) % 1000,
            ((1u128 << 31) * ((1 << 32) - 1) * u128::from(u64::MAX)) % 1000
        );
    }
}
