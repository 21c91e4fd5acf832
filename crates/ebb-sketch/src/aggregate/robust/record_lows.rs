//! The prefix minima of a progression, from precomputed record lows instead of a visit to every term.
//!
//! After a prefix minimum `value` at j, the next smaller one is q terms later and d(q) = (-q·a) mod p smaller, where q is the
//! first with d(q) <= `value`. Those q are the record lows of d. They depend on the step alone, so all elements share them. A
//! walk takes a handful of steps where a MinHit per level takes dozens.

use super::progression::Progression;

/// Steps with more record lows are rejected: under them the integers of one element are sampled together.
pub const MAX_RECORD_LOWS: usize = 4096;

const FIRST_SLOTS: usize = 64 * 8;

/// The record lows of d(q) for q below some number of terms: q rises, d falls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLows {
    /// Ends with a sentinel whose drop is 0 and whose skip exceeds every progression.
    lows: Vec<RecordLow>,
    /// By bit length and the next three bits of a value: where the search begins.
    first: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordLow {
    skip: u64,
    drop: u64,
}

const END: RecordLow = RecordLow { skip: u64::MAX, drop: 0 };

impl RecordLows {
    /// The record lows over the skips 1..`terms`; `None` if there are more than [`MAX_RECORD_LOWS`].
    pub fn new(modulus: u64, step: u64, terms: u64) -> Option<Self> {
        let down = modulus - step;
        let drops = Progression { modulus, step: down, start: down };
        let mut lows: Vec<RecordLow> = Vec::new();
        let mut below = modulus;
        while let Some(index) = drops.min_hit(terms.saturating_sub(1), below) {
            if lows.len() == MAX_RECORD_LOWS {
                return None;
            }
            let skip = index + 1;
            let drop = (u128::from(skip) * u128::from(down) % u128::from(modulus)) as u64;
            if drop == 0 {
                break;
            }
            lows.push(RecordLow { skip, drop });
            below = drop;
        }
        lows.push(END);
        let first = (0..FIRST_SLOTS).map(|slot| lows.partition_point(|r| r.drop > slot_top(slot)) as u16).collect();
        Some(Self { lows, first })
    }

    /// The number of record lows.
    pub fn count(&self) -> usize {
        self.lows.len() - 1
    }

    /// The last record low with a skip below `terms`, as (skip, drop).
    pub fn last_within(&self, terms: u64) -> Option<(u64, u64)> {
        let after = self.lows.partition_point(|record| record.skip < terms);
        after.checked_sub(1).map(|last| (self.lows[last].skip, self.lows[last].drop))
    }

    /// The first record low whose drop is at most `value`, as (skip, drop). If there is none, the skip exceeds all terms.
    #[inline]
    pub fn first_within(&self, value: u64) -> (u64, u64) {
        let mut index = usize::from(self.first[slot_of(value)]);
        while self.lows[index].drop > value {
            index += 1;
        }
        (self.lows[index].skip, self.lows[index].drop)
    }

    /// The smallest of the first `terms` (at least 1) values of the progression that starts at `start`.
    #[inline]
    pub fn minimum(&self, start: u64, terms: u64) -> u64 {
        let (mut left, mut value) = (terms - 1, start);
        loop {
            let (skip, drop) = self.first_within(value);
            if skip > left {
                return value;
            }
            if drop > value / 8 {
                left -= skip;
                value -= drop;
            } else {
                let times = (value / drop).min(left / skip);
                left -= times * skip;
                value -= times * drop;
            }
        }
    }

    /// The next prefix minimum after `value` at `j` that is below `below`, or the last one that the same record low reaches.
    /// `None` if it is not among the first `terms`. `value` must be at least `below`.
    #[inline]
    pub fn next_towards(&self, (j, value): (u64, u64), below: u64, terms: u64) -> Option<(u64, u64)> {
        let (skip, drop) = self.first_within(value);
        let left = terms - 1 - j;
        if skip > left {
            return None;
        }
        if drop > value / 8 {
            return Some((j + skip, value - drop));
        }
        let times = ((value - below) / drop + 1).min(value / drop);
        (times <= left / skip).then(|| (j + times * skip, value - times * drop))
    }
}

#[inline]
fn slot_of(value: u64) -> usize {
    let bits = 64 - value.leading_zeros() as usize;
    let next = if bits >= 4 { (value >> (bits - 4)) as usize & 7 } else { 0 };
    (bits * 8 + next).min(FIRST_SLOTS - 1)
}

/// The largest value of a slot.
fn slot_top(slot: usize) -> u64 {
    let (bits, next) = (slot / 8, (slot % 8) as u64);
    match bits {
        0 => 0,
        1..4 => (1 << bits) - 1,
        _ => (1 << (bits - 1)) + ((next + 1) << (bits - 4)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn random_progression(random: &mut Random) -> Progression {
        let modulus = [13, 101, 7517, 8_640_000_007, (1 << 61) - 1][random.below(5) as usize];
        Progression { modulus, step: 1 + random.below(modulus - 1), start: random.below(modulus) }
    }

    fn naive_minimum(p: Progression, terms: u64) -> u64 {
        let mut value = p.start;
        let mut lowest = value;
        for _ in 1..terms {
            value = (value + p.step) % p.modulus;
            lowest = lowest.min(value);
        }
        lowest
    }

    #[test]
    fn walk_finds_the_minimum_of_all_terms() {
        let mut random = Random::new(1);
        for _ in 0..4000 {
            let p = random_progression(&mut random);
            let max_terms = 2 + random.below(p.modulus.min(400) - 1);
            let records = RecordLows::new(p.modulus, p.step, max_terms).unwrap();
            let terms = 1 + random.below(max_terms);
            assert_eq!(records.minimum(p.start, terms), naive_minimum(p, terms), "{p:?} {terms} of {max_terms}");
        }
    }

    #[test]
    fn slots_cover_their_values() {
        let mut random = Random::new(2);
        for _ in 0..10_000 {
            let value = random.next_u64() >> (1 + random.below(63));
            let slot = slot_of(value);
            assert!(value <= slot_top(slot), "{value}");
            assert!(slot == 0 || slot_of(slot_top(slot)) == slot, "{value}");
        }
    }

    #[test]
    fn step_with_too_many_record_lows_is_rejected() {
        assert_eq!(RecordLows::new((1 << 61) - 1, 1, 1 << 20), None);
        assert_eq!(RecordLows::new((1 << 61) - 1, 1, 100).map(|r| r.count()), Some(99));
    }

    #[test]
    fn single_term_has_no_record_lows() {
        let records = RecordLows::new((1 << 61) - 1, 12345, 1).unwrap();
        assert_eq!(records.count(), 0);
        assert_eq!(records.minimum(77, 1), 77);
        assert_eq!(records.last_within(1), None);
    }
}
