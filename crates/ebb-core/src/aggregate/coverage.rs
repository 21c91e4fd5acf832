//! Which theorem covers which answer of an aggregate.
//!
//! TDS are the theorems of *Time-decaying sketches for robust aggregation of sensor data* (Cormode, Tirthapura, Xu), OOO those
//! of *Time-decaying aggregates in out-of-order streams* (Cormode, Korn, Tirthapura). The constants of TDS are replaced by
//! those of [`ebb_sketch::aggregate::robust`], because ids are hashed under a secret key.

use super::method::Method;

/// Statistics and what their bounds rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// The statistics.
    pub statistics: &'static str,
    /// The theorem, and the error that it bounds.
    pub by: &'static str,
}

const fn covered(statistics: &'static str, by: &'static str) -> Coverage {
    Coverage { statistics, by }
}

const SAMPLED_COUNT: Coverage = covered("count", "TDS 3.11, lemma 4.2: relative error epsilon, except with delta");
const SAMPLED_SHARES: Coverage =
    covered("quantiles, rank, share, top", "TDS 3.26, 3.27, lemma 4.2: epsilon of the count, except with delta");
const ROBUST: &[Coverage] = &[
    covered("sum", "TDS 3.11, lemma 4.2, sampled by amount: relative error epsilon, except with delta"),
    SAMPLED_COUNT,
    covered("mean", "the theorems of sum and count, each with delta / 2"),
    SAMPLED_SHARES,
    covered(
        "distinct",
        "Chebyshev, pairwise independent samples: relative error epsilon of a window, except with delta",
    ),
];
const INTEGRAL: &[Coverage] = &[
    covered("sum, mean", "TDS 3.26: epsilon of max times the count, except with delta"),
    covered("count", "TDS 3.11: relative error epsilon or as stated in the answer, except with delta"),
    covered("quantiles, rank, share, top", "TDS 3.26, 3.27: epsilon or as stated in the answer, except with delta"),
];
const FORWARD: &[Coverage] = &[
    covered("sum, count, mean", "exact"),
    covered("quantiles, rank, share, top", "always within the error of the summary: epsilon of the count"),
];
const DIVISION: &[Coverage] = &[
    covered("count", "OOO 4, lemma 2: relative error epsilon, always"),
    covered("sum, mean", "OOO 4: always within the stated bounds"),
    covered("quantiles, rank, share, top", "OOO 4 and the error of the summary: always within the stated bounds"),
];
const RANGES: &[Coverage] = &[
    covered("count", "OOO 1, 3: relative error epsilon, always"),
    covered("sum, mean", "OOO 3: always within the stated bounds"),
    covered("quantiles, rank, share, top", "OOO 2, 3, corollary 1: always within the stated bounds"),
];

impl Method {
    /// What the bounds of each statistic rest on.
    pub fn coverage(self) -> &'static [Coverage] {
        match self {
            Method::Robust => ROBUST,
            Method::Integral => INTEGRAL,
            Method::Forward => FORWARD,
            Method::Division => DIVISION,
            Method::Cascade | Method::Levels => RANGES,
        }
    }
}

impl Coverage {
    /// The covered statistics that are among `kept`.
    pub fn among(&self, kept: &[&str]) -> Vec<&'static str> {
        self.statistics.split(", ").filter(|name| kept.contains(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statistic_of_every_method_is_covered_once() {
        let all = ["count", "mean", "quantiles", "rank", "share", "sum", "top"];
        for method in Method::ALL {
            let mut named: Vec<&str> = method.coverage().iter().flat_map(|one| one.among(&all)).collect();
            named.sort_unstable();
            assert_eq!(named, all, "{method:?}");
            assert_eq!(method.coverage().iter().flat_map(|one| one.among(&["top"])).count(), 1, "{method:?}");
        }
    }
}
