//! The prefix minima of a progression, without visiting it: a walk along precomputed records.
//!
//! From a prefix minimum `value` at j the next smaller one lies q further on and is d(q) = (-q·a) mod p smaller, where q
//! is the first with d(q) <= `value`. Those q are the records of d: they depend on the step alone, so they are found once
//! and shared by all elements. A walk takes a handful of steps where a MinHit per level takes dozens.

use super::linear::Progression;

/// More records than this would mean a step under which the integers of one element hit together: such steps are redrawn.
pub const RECORDS_MOST: usize = 4096;

const FIRST_SLOTS: usize = 64 * 8;

/// The records of d(q) for q below some number of terms: q rises, d falls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// Ends with a record that every value has and no progression is long enough for.
    pairs: Vec<Record>,
    /// By bit length and the next three bits of a value: where the search for its record begins.
    first: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    skip: u64,
    drop: u64,
}

const END: Record = Record { skip: u64::MAX, drop: 0 };

impl Records {
    /// The records over the skips 1..`terms`; `None` when there are more than [`RECORDS_MOST`].
    pub fn new(modulus: u64, step: u64, terms: u64) -> Option<Self> {
        let down = modulus - step;
        let drops = Progression { modulus, step: down, start: down };
        let mut pairs: Vec<Record> = Vec::new();
        let mut below = modulus;
        while let Some(index) = drops.min_hit(terms.saturating_sub(1), below) {
            if pairs.len() == RECORDS_MOST {
                return None;
            }
            let skip = index + 1;
            let drop = (u128::from(skip) * u128::from(down) % u128::from(modulus)) as u64;
            if drop == 0 {
                break;
            }
            pairs.push(Record { skip, drop });
            below = drop;
        }
        pairs.push(END);
        let first = (0..FIRST_SLOTS).map(|slot| pairs.partition_point(|r| r.drop > slot_top(slot)) as u16).collect();
        Some(Self { pairs, first })
    }

    /// How many records there are.
    pub fn count(&self) -> usize {
        self.pairs.len() - 1
    }

    /// The last record with a skip below `terms`, as (skip, drop).
    pub fn last_within(&self, terms: u64) -> Option<(u64, u64)> {
        let after = self.pairs.partition_point(|record| record.skip < terms);
        after.checked_sub(1).map(|last| (self.pairs[last].skip, self.pairs[last].drop))
    }

    /// The first record whose drop is at most `value`, as (skip, drop); the skip is beyond all terms when there is none.
    #[inline]
    pub fn at_most(&self, value: u64) -> (u64, u64) {
        let mut index = usize::from(self.first[slot_of(value)]);
        while self.pairs[index].drop > value {
            index += 1;
        }
        (self.pairs[index].skip, self.pairs[index].drop)
    }

    /// The smallest of the first `terms` (at least 1) values of the progression that starts at `start`.
    #[inline]
    pub fn minimum(&self, start: u64, terms: u64) -> u64 {
        let (mut left, mut value) = (terms - 1, start);
        loop {
            let (skip, drop) = self.at_most(value);
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

    /// The next prefix minimum after `value` at `j` that is below `below`, or the last one before its record changes:
    /// `None` when it is not among the first `terms`. `value` must be at least `below`.
    #[inline]
    pub fn next_towards(&self, (j, value): (u64, u64), below: u64, terms: u64) -> Option<(u64, u64)> {
        let (skip, drop) = self.at_most(value);
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
        let mut least = value;
        for _ in 1..terms {
            value = (value + p.step) % p.modulus;
            least = least.min(value);
        }
        least
    }

    #[test]
    fn the_walk_finds_the_minimum_that_a_visit_to_every_term_finds() {
        let mut random = Random::new(1);
        for _ in 0..4000 {
            let p = random_progression(&mut random);
            let most = 2 + random.below(p.modulus.min(400) - 1);
            let records = Records::new(p.modulus, p.step, most).unwrap();
            let terms = 1 + random.below(most);
            assert_eq!(records.minimum(p.start, terms), naive_minimum(p, terms), "{p:?} {terms} of {most}");
        }
    }

    #[test]
    fn every_slot_holds_the_values_it_says() {
        let mut random = Random::new(2);
        for _ in 0..10_000 {
            let value = random.next_u64() >> (1 + random.below(63));
            let slot = slot_of(value);
            assert!(value <= slot_top(slot), "{value}");
            assert!(slot == 0 || slot_of(slot_top(slot)) == slot, "{value}");
        }
    }

    #[test]
    fn a_step_that_creeps_is_refused() {
        assert_eq!(Records::new((1 << 61) - 1, 1, 1 << 20), None);
        assert_eq!(Records::new((1 << 61) - 1, 1, 100).map(|r| r.count()), Some(99));
    }

    #[test]
    fn a_single_term_needs_no_records() {
        let records = Records::new((1 << 61) - 1, 12345, 1).unwrap();
        assert_eq!(records.count(), 0);
        assert_eq!(records.minimum(77, 1), 77);
        assert_eq!(records.last_within(1), None);
    }
}
