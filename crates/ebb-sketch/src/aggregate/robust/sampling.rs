//! Which integers of an element are sampled at which level.
//!
//! An element of weight w owns the integers 0..w. Integer j hashes to S\[j\] = (u + a·j) mod p, where u is a multilinear
//! hash of the id; level i keeps it when S\[j\] < p >> i. For two different (id, j) the values are pairwise independent,
//! whatever the weights, which is what the error bounds rest on. The ids are fingerprints under a secret key, so the
//! constants need not be secret: they are drawn from a seed and stand in the state.

use super::element::ElementId;
use super::linear::Progression;
use super::records::Records;
use crate::random::Random;

/// 2^61 - 1: reduction is a shift and an addition.
pub const MERSENNE: u64 = (1 << 61) - 1;
/// Levels 0..=57 of [`MERSENNE`]: enough for 2^57 times the sample size.
pub const TOP_LEVEL: u8 = 57;

/// A step with more records than this makes the integers of one element hit together.
const RECORDS_WANTED: usize = 256;

/// Up to about this many hits are visited; more are counted by Euclid.
const FEW: u64 = 24;

/// The constants of one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    pub modulus: u64,
    pub step: u64,
    pub offset: u64,
    pub low: u64,
    pub high: u64,
}

/// One hash of (id, j), with what was precomputed for weights up to `w_max`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleHash {
    constants: Constants,
    w_max: u32,
    top_level: u8,
    falls: Records,
    rises: Records,
}

/// The levels `from..=to` at which integer `first_hit` is the first that is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstHit {
    pub first_hit: u32,
    pub from: u8,
    pub to: u8,
}

impl SampleHash {
    /// The hash that `seed` names, for weights up to `w_max`.
    pub fn drawn(seed: u64, w_max: u32) -> Self {
        let mut random = Random::new(seed);
        loop {
            let constants = Constants {
                modulus: MERSENNE,
                step: 1 + random.below(MERSENNE - 1),
                offset: random.below(MERSENNE),
                low: 1 + random.below(MERSENNE - 1),
                high: 1 + random.below(MERSENNE - 1),
            };
            match Self::with_constants(constants, w_max, TOP_LEVEL) {
                Some(hash) if hash.falls.count() <= RECORDS_WANTED => return hash,
                _ => continue,
            }
        }
    }

    /// The paper's own layout, h(w_max · id + j) = (a · (w_max · id + j) + b) mod p.
    pub fn published(modulus: u64, step: u64, offset: u64, w_max: u32, top_level: u8) -> Option<Self> {
        let low = (u128::from(step) * u128::from(w_max) % u128::from(modulus.max(1))) as u64;
        Self::with_constants(Constants { modulus, step, offset, low, high: 0 }, w_max, top_level)
    }

    /// `None` when the constants are not below the modulus, the modulus has no room for the weights or the levels, or
    /// the step creeps.
    pub fn with_constants(constants: Constants, w_max: u32, top_level: u8) -> Option<Self> {
        let Constants { modulus, step, offset, low, high } = constants;
        let residues = [step, offset, low, high].into_iter().all(|c| c < modulus);
        let room = modulus <= MERSENNE && u64::from(w_max) < modulus && w_max > 0;
        if !residues || !room || step == 0 || top_level > 60 || modulus >> top_level == 0 {
            return None;
        }
        let falls = Records::new(modulus, step, u64::from(w_max))?;
        let rises = Records::new(modulus, modulus - step, u64::from(w_max))?;
        Some(Self { constants, w_max, top_level, falls, rises })
    }

    pub fn constants(&self) -> Constants {
        self.constants
    }

    pub fn w_max(&self) -> u32 {
        self.w_max
    }

    pub fn top_level(&self) -> u8 {
        self.top_level
    }

    /// u: where the progression of an id starts.
    #[inline]
    pub fn start(&self, id: ElementId) -> u64 {
        let Constants { modulus, offset, low, high, .. } = self.constants;
        let (id_low, id_high) = id.halves();
        let sum = u128::from(low) * u128::from(id_low) + u128::from(high) * u128::from(id_high) + u128::from(offset);
        if modulus == MERSENNE { reduce(sum) } else { (sum % u128::from(modulus)) as u64 }
    }

    /// p >> level: values below it are sampled there.
    #[inline]
    pub fn threshold(&self, level: u8) -> u64 {
        self.constants.modulus >> level
    }

    /// How much one sampled integer of this level stands for.
    pub fn scale(&self, level: u8) -> f64 {
        self.constants.modulus as f64 / self.threshold(level) as f64
    }

    /// The highest level at which a value is sampled.
    #[inline]
    pub fn level_of(&self, value: u64) -> u8 {
        if self.constants.modulus == MERSENNE {
            return ((value + 1).leading_zeros() as u8 - 3).min(self.top_level);
        }
        let mut level = 0;
        while level < self.top_level && value < self.threshold(level + 1) {
            level += 1;
        }
        level
    }

    /// The highest level at which one of the first `live` (1..=w_max) integers is sampled.
    #[inline]
    pub fn highest_level(&self, start: u64, live: u32) -> u8 {
        let least = if live == 1 { start } else { self.falls.minimum(start, u64::from(live)) };
        self.level_of(least)
    }

    /// Visits the first hits of all levels in rising order, until `visit` returns false.
    #[inline]
    pub fn first_hits(&self, start: u64, weight: u32, mut visit: impl FnMut(FirstHit) -> bool) {
        let mut level = self.level_of(start);
        let (mut at, terms) = ((0, start), u64::from(weight));
        if !visit(FirstHit { first_hit: 0, from: 0, to: level }) {
            return;
        }
        while level < self.top_level {
            let Some(next) = self.falls.next_towards(at, self.threshold(level + 1), terms) else { return };
            at = next;
            let reached = self.level_of(at.1);
            if reached > level {
                if !visit(FirstHit { first_hit: at.0 as u32, from: level + 1, to: reached }) {
                    return;
                }
                level = reached;
            }
        }
    }

    /// How many of the first `live` integers are sampled at `level`.
    pub fn hits(&self, start: u64, live: u32, level: u8) -> u64 {
        if level == 0 {
            return u64::from(live);
        }
        if u64::from(live) >> level <= FEW {
            return self.visited_hits(start, live, level);
        }
        let progression = Progression { modulus: self.constants.modulus, step: self.constants.step, start };
        progression.count_below(u64::from(live), self.threshold(level))
    }

    /// The same by going from hit to hit. From a value below the threshold the next one below it comes after the first skip
    /// that falls by less than the threshold, the first that rises by less, or both: whichever leaves it there soonest.
    fn visited_hits(&self, start: u64, live: u32, level: u8) -> u64 {
        let (below, terms) = (self.threshold(level), u64::from(live));
        let mut at = (0, start);
        while at.1 >= below {
            match self.falls.next_towards(at, below, terms) {
                Some(next) => at = next,
                None => return 0,
            }
        }
        let (fall_skip, fall) = self.falls.at_most(below - 1);
        let (rise_skip, rise) = self.rises.at_most(below - 1);
        let (mut left, mut value, mut hits) = (terms - 1 - at.0, at.1, 1);
        loop {
            let (falls, rises) = (value >= fall, value + rise < below);
            let skip = match (falls, rises) {
                (true, true) => fall_skip.min(rise_skip),
                (true, false) => fall_skip,
                (false, true) => rise_skip,
                (false, false) => fall_skip.saturating_add(rise_skip),
            };
            if skip > left {
                return hits;
            }
            left -= skip;
            hits += 1;
            value = match (falls, rises) {
                (false, false) => value + rise - fall,
                _ if skip == fall_skip => value - fall,
                _ => value + rise,
            };
        }
    }

    /// The probability that at least one of `live` integers is sampled at `level`, over all starts: the share of the
    /// circle that `live` arcs cover. Their starts divide it into gaps of at most three lengths.
    pub fn hit_probability(&self, live: u32, level: u8) -> f64 {
        if level == 0 {
            return 1.0;
        }
        let (p, arc, n) = (self.constants.modulus, self.threshold(level), u64::from(live));
        let (Some((q1, d1)), Some((q2, d2))) = (self.falls.last_within(n), self.rises.last_within(n)) else {
            return arc as f64 / p as f64;
        };
        let covered = |gaps: u64, length: u64| gaps as f64 * length.min(arc) as f64;
        let total = covered(n - q1, d1) + covered(n - q2, d2) + covered(q1 + q2 - n, d1 + d2);
        total / p as f64
    }
}

/// `x` modulo 2^61 - 1, for `x` below 2^123.
#[inline]
fn reduce(x: u128) -> u64 {
    let folded = (x as u64 & MERSENNE) + ((x >> 61) as u64 & MERSENNE) + (x >> 122) as u64;
    let once = (folded & MERSENNE) + (folded >> 61);
    if once >= MERSENNE { once - MERSENNE } else { once }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive_hits(hash: &SampleHash, start: u64, live: u32, level: u8) -> Vec<u32> {
        let Constants { modulus, step, .. } = hash.constants();
        let value = |j: u32| ((u128::from(start) + u128::from(j) * u128::from(step)) % u128::from(modulus)) as u64;
        (0..live).filter(|j| value(*j) < hash.threshold(level)).collect()
    }

    fn hashes() -> Vec<SampleHash> {
        let small = [(31177, 15096, 19317, 50, 9), (2707, 118, 1967, 12, 7), (101, 37, 5, 40, 6)];
        let small = small.map(|(p, a, b, w, top)| SampleHash::published(p, a, b, w, top).unwrap());
        small.into_iter().chain((0..4).map(|seed| SampleHash::drawn(seed, 300))).collect()
    }

    #[test]
    fn the_walk_agrees_with_min_hit_and_with_counting_at_every_level() {
        let mut random = Random::new(3);
        for hash in hashes() {
            for _ in 0..200 {
                let start = random.below(hash.constants().modulus);
                let weight = 1 + random.below(u64::from(hash.w_max())) as u32;
                let mut walked = Vec::new();
                hash.first_hits(start, weight, |hit| {
                    walked.extend((hit.from..=hit.to).map(|_| hit.first_hit));
                    true
                });
                let Constants { modulus, step, .. } = hash.constants();
                let progression = Progression { modulus, step, start };
                for level in 0..=hash.top_level() {
                    let hits = naive_hits(&hash, start, weight, level);
                    assert_eq!(walked.get(usize::from(level)), hits.first());
                    let first = progression.min_hit(u64::from(weight), hash.threshold(level));
                    assert_eq!(first, hits.first().map(|j| u64::from(*j)));
                    assert_eq!(hash.hits(start, weight, level), hits.len() as u64);
                }
                assert_eq!(usize::from(hash.highest_level(start, weight)) + 1, walked.len());
            }
        }
    }

    #[test]
    fn the_probability_of_a_hit_is_the_share_of_starts_that_hit() {
        for hash in hashes().into_iter().filter(|hash| hash.constants().modulus < 40_000) {
            let p = hash.constants().modulus;
            for live in (1..=hash.w_max()).step_by(7) {
                for level in 0..=hash.top_level() {
                    let hit = (0..p).filter(|start| hash.highest_level(*start, live) >= level).count();
                    let probability = hash.hit_probability(live, level);
                    assert!((probability - hit as f64 / p as f64).abs() < 1e-12, "{live} {level}");
                }
            }
        }
    }

    #[test]
    fn reduction_is_the_remainder() {
        let mut random = Random::new(4);
        for shift in 0..123 {
            let x = ((u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())) >> 5) >> (122 - shift);
            assert_eq!(u128::from(reduce(x)), x % u128::from(MERSENNE));
        }
        let m = u128::from(MERSENNE);
        for x in [0, m - 1, m, m + 1, m * m, m * m + m, (1 << 123) - 1] {
            assert_eq!(u128::from(reduce(x)), x % m, "{x}");
        }
    }

    #[test]
    fn no_value_is_sampled_above_the_top_level() {
        let hash = SampleHash::drawn(1, 9);
        assert_eq!([0, 1, MERSENNE - 1].map(|value| hash.level_of(value)), [TOP_LEVEL, TOP_LEVEL, 0]);
        let thresholds = (0..=TOP_LEVEL).map(|level| hash.threshold(level));
        assert!(thresholds.enumerate().all(|(level, below)| usize::from(hash.level_of(below - 1)) == level));
    }

    #[test]
    fn constants_that_cannot_sample_are_refused() {
        let hash = |modulus, step, w_max, top| SampleHash::published(modulus, step, 1, w_max, top).is_some();
        assert!(hash(101, 37, 40, 6));
        for (modulus, step, w_max, top) in [
            (101, 0, 40, 6),
            (101, 101, 40, 6),
            (101, 37, 101, 6),
            (101, 37, 40, 7),
            (101, 37, 0, 6),
            (0, 0, 1, 0),
            (u64::MAX, 5, 9, 9),
        ] {
            assert!(!hash(modulus, step, w_max, top), "{modulus} {step} {w_max} {top}");
        }
    }
}
