//! Which integers of an element are sampled at which level.
//!
//! An element of weight w owns the integers 0..w. Integer j hashes to S\[j\] = (u + a·j) mod p, where u is a multilinear
//! hash of the id; level i samples it if S\[j\] < p >> i. The values of two different (id, j) are pairwise independent for
//! all weights, which the error bounds require. Ids are fingerprints under a secret key, so the constants need not be secret:
//! they derive from a seed and are part of the state.

use super::element::ElementId;
use super::progression::Progression;
use super::record_lows::RecordLows;
use super::sizing::Sizing;
use crate::random::Random;

/// The modulus 2^61 - 1: reduction is a shift and an addition.
pub const MERSENNE: u64 = (1 << 61) - 1;
/// The highest level under [`MERSENNE`]: enough for 2^57 times the sample size.
pub const TOP_LEVEL: u8 = 57;

/// Under a step with more record lows the integers of one element are sampled together.
const MAX_WANTED_LOWS: usize = 256;

/// About the number of hits up to which visiting them is faster than counting by the Euclidean algorithm.
const MAX_VISITED_HITS: u64 = 24;

/// The constants of one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashConstants {
    /// p.
    pub modulus: u64,
    /// a: the distance of the hashes of consecutive integers.
    pub step: u64,
    /// The constant term of u.
    pub offset: u64,
    /// The factor of the lower half of the id in u.
    pub low: u64,
    /// The factor of the upper half of the id in u.
    pub high: u64,
}

/// A hash of (id, j), with tables for weights up to `max_weight`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleHash {
    constants: HashConstants,
    max_weight: u32,
    top_level: u8,
    falls: RecordLows,
    rises: RecordLows,
    pub(super) sizing: Sizing,
}

/// The levels `from..=to` at which integer `first_hit` is the first that is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstHit {
    /// The first sampled integer.
    pub first_hit: u32,
    /// The lowest of the levels.
    pub from: u8,
    /// The highest of the levels.
    pub to: u8,
}

impl SampleHash {
    /// The hash of `seed`, for weights up to `max_weight`.
    pub fn from_seed(seed: u64, max_weight: u32) -> Self {
        let mut random = Random::new(seed);
        loop {
            let constants = HashConstants {
                modulus: MERSENNE,
                step: 1 + random.below(MERSENNE - 1),
                offset: random.below(MERSENNE),
                low: 1 + random.below(MERSENNE - 1),
                high: 1 + random.below(MERSENNE - 1),
            };
            match Self::with_constants(constants, max_weight, TOP_LEVEL) {
                Some(hash) if hash.falls.count() <= MAX_WANTED_LOWS => return hash,
                _ => continue,
            }
        }
    }

    /// The published layout: h(max_weight · id + j) = (a · (max_weight · id + j) + b) mod p.
    pub fn published(modulus: u64, step: u64, offset: u64, max_weight: u32, top_level: u8) -> Option<Self> {
        let low = (u128::from(step) * u128::from(max_weight) % u128::from(modulus.max(1))) as u64;
        Self::with_constants(HashConstants { modulus, step, offset, low, high: 0 }, max_weight, top_level)
    }

    /// `None` if a constant is not below the modulus, the modulus is too small for the weights or the levels, or the step has
    /// too many record lows.
    pub fn with_constants(constants: HashConstants, max_weight: u32, top_level: u8) -> Option<Self> {
        let HashConstants { modulus, step, offset, low, high } = constants;
        let residues = [step, offset, low, high].into_iter().all(|c| c < modulus);
        let room = modulus <= MERSENNE && u64::from(max_weight) < modulus && max_weight > 0;
        if !residues || !room || step == 0 || top_level > 60 || modulus >> top_level == 0 {
            return None;
        }
        let falls = RecordLows::new(modulus, step, u64::from(max_weight))?;
        let rises = RecordLows::new(modulus, modulus - step, u64::from(max_weight))?;
        Some(Self { constants, max_weight, top_level, falls, rises, sizing: Sizing::Integers })
    }

    /// The hash of `seed` for elements that are sampled as a whole; `sizing` is their size.
    pub(super) fn of_whole_elements(seed: u64, max_weight: u32, sizing: Sizing) -> Self {
        Self { max_weight, sizing, ..Self::from_seed(seed, 1) }
    }

    /// The constants.
    pub fn constants(&self) -> HashConstants {
        self.constants
    }

    /// The largest weight the tables serve.
    pub fn max_weight(&self) -> u32 {
        self.max_weight
    }

    /// The highest level.
    pub fn top_level(&self) -> u8 {
        self.top_level
    }

    /// u: the start of the progression of an id.
    #[inline]
    pub fn start(&self, id: ElementId) -> u64 {
        let HashConstants { modulus, offset, low, high, .. } = self.constants;
        let (id_low, id_high) = id.halves();
        let sum = u128::from(low) * u128::from(id_low) + u128::from(high) * u128::from(id_high) + u128::from(offset);
        if modulus == MERSENNE { reduce(sum) } else { (sum % u128::from(modulus)) as u64 }
    }

    /// p >> level: values below it are sampled there.
    #[inline]
    pub fn threshold(&self, level: u8) -> u64 {
        self.constants.modulus >> level
    }

    /// How many integers a sampled integer of this level represents.
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

    /// The highest level at which one of the first `live` (1..=max_weight) integers is sampled.
    #[inline]
    pub fn highest_level(&self, start: u64, live: u32) -> u8 {
        let lowest = if live == 1 { start } else { self.falls.minimum(start, u64::from(live)) };
        self.level_of(lowest)
    }

    /// Visits the first hits of all levels in ascending order, until `visit` returns false.
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
        if u64::from(live) >> level <= MAX_VISITED_HITS {
            return self.count_by_visiting(start, live, level);
        }
        let progression = Progression { modulus: self.constants.modulus, step: self.constants.step, start };
        progression.count_below(u64::from(live), self.threshold(level))
    }

    /// The same by going from hit to hit. After a value below the threshold, the next one comes after the first skip that
    /// falls by less than the threshold, the first that rises by less, or both: whichever stays below it soonest.
    fn count_by_visiting(&self, start: u64, live: u32, level: u8) -> u64 {
        let (below, terms) = (self.threshold(level), u64::from(live));
        let mut at = (0, start);
        while at.1 >= below {
            match self.falls.next_towards(at, below, terms) {
                Some(next) => at = next,
                None => return 0,
            }
        }
        let (fall_skip, fall) = self.falls.first_within(below - 1);
        let (rise_skip, rise) = self.rises.first_within(below - 1);
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

    /// Bounds of the number of the first `live` integers that are sampled at `level`, under any start. Their values divide the
    /// circle into gaps, and the arc of the level holds as many of them as fit in between the smallest and the largest gap.
    pub fn hit_range(&self, live: u32, level: u8) -> (u64, u64) {
        let last = |lows: &RecordLows| lows.last_within(u64::from(live)).map(|(_, distance)| distance);
        match (last(&self.falls), last(&self.rises), self.threshold(level)) {
            _ if level == 0 => (u64::from(live), u64::from(live)),
            (Some(fall), Some(rise), arc) => {
                (arc / (fall + rise), ((arc - 1) / fall.min(rise) + 1).min(u64::from(live)))
            }
            _ => (0, 1),
        }
    }

    /// The largest number of integers of which none may be sampled at `level`; larger elements always are.
    pub(super) fn max_missed(&self, level: u8) -> u32 {
        let (mut missed, mut sampled) = (1, self.max_weight + 1);
        while sampled - missed > 1 {
            let middle = missed + (sampled - missed) / 2;
            if self.hit_range(middle, level).0 == 0 { missed = middle } else { sampled = middle }
        }
        missed
    }

    /// The probability over all starts that at least one of `live` integers is sampled at `level`: the share of the circle
    /// that `live` arcs cover. Their starts divide the circle into gaps of at most three lengths.
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
        let HashConstants { modulus, step, .. } = hash.constants();
        let value = |j: u32| ((u128::from(start) + u128::from(j) * u128::from(step)) % u128::from(modulus)) as u64;
        (0..live).filter(|j| value(*j) < hash.threshold(level)).collect()
    }

    fn hashes() -> Vec<SampleHash> {
        let small = [(31177, 15096, 19317, 50, 9), (2707, 118, 1967, 12, 7), (101, 37, 5, 40, 6)];
        let small = small.map(|(p, a, b, w, top)| SampleHash::published(p, a, b, w, top).unwrap());
        small.into_iter().chain((0..4).map(|seed| SampleHash::from_seed(seed, 300))).collect()
    }

    #[test]
    fn walk_matches_min_hit_and_counting_at_every_level() {
        let mut random = Random::new(3);
        for hash in hashes() {
            for _ in 0..200 {
                let start = random.below(hash.constants().modulus);
                let weight = 1 + random.below(u64::from(hash.max_weight())) as u32;
                let mut walked = Vec::new();
                hash.first_hits(start, weight, |hit| {
                    walked.extend((hit.from..=hit.to).map(|_| hit.first_hit));
                    true
                });
                let HashConstants { modulus, step, .. } = hash.constants();
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
    fn hit_probability_is_the_share_of_starts_that_hit() {
        for hash in hashes().into_iter().filter(|hash| hash.constants().modulus < 40_000) {
            let p = hash.constants().modulus;
            for live in (1..=hash.max_weight()).step_by(7) {
                for level in 0..=hash.top_level() {
                    let hit = (0..p).filter(|start| hash.highest_level(*start, live) >= level).count();
                    let probability = hash.hit_probability(live, level);
                    assert!((probability - hit as f64 / p as f64).abs() < 1e-12, "{live} {level}");
                }
            }
        }
    }

    #[test]
    fn hits_of_every_start_are_within_the_range() {
        for hash in hashes().into_iter().filter(|hash| hash.constants().modulus < 40_000) {
            for live in (1..=hash.max_weight()).step_by(7) {
                for level in 1..=hash.top_level() {
                    let (least, most) = hash.hit_range(live, level);
                    let mut hits = (0..hash.constants().modulus).map(|start| hash.hits(start, live, level));
                    assert!(hits.all(|hits| (least..=most).contains(&hits)), "{live} {level}: {least}..={most}");
                    assert!(least > 0 || live <= hash.max_missed(level), "{live} {level}");
                }
            }
        }
    }

    #[test]
    fn reduce_is_the_remainder() {
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
        let hash = SampleHash::from_seed(1, 9);
        assert_eq!([0, 1, MERSENNE - 1].map(|value| hash.level_of(value)), [TOP_LEVEL, TOP_LEVEL, 0]);
        let thresholds = (0..=TOP_LEVEL).map(|level| hash.threshold(level));
        assert!(thresholds.enumerate().all(|(level, below)| usize::from(hash.level_of(below - 1)) == level));
    }

    #[test]
    fn unusable_constants_are_rejected() {
        let hash = |modulus, step, max_weight, top| SampleHash::published(modulus, step, 1, max_weight, top).is_some();
        assert!(hash(101, 37, 40, 6));
        for (modulus, step, max_weight, top) in [
            (101, 0, 40, 6),
            (101, 101, 40, 6),
            (101, 37, 101, 6),
            (101, 37, 40, 7),
            (101, 37, 0, 6),
            (0, 0, 1, 0),
            (u64::MAX, 5, 9, 9),
        ] {
            assert!(!hash(modulus, step, max_weight, top), "{modulus} {step} {max_weight} {top}");
        }
    }
}
