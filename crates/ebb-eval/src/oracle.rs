//! The exact memory that decisions are held against: one entry for every item ever seen.
//!
//! It knows two pasts of every item. In the *exact* one, the oracle itself decided, without error: what an unbounded map
//! with the same window would have answered. In the *told* one, the service decided: what the service's own memory should
//! hold. They part when `seen: first` and a wrong answer kept an item from being accepted. As in the service, the newest
//! stamp counts: an event that comes late is a repeat when the item was accepted after it, too.
//!
//! Exact, and therefore as large as the number of different items.

use std::collections::HashMap;

use ebb_core::{Seen, Verdict};
use ebb_sketch::hash::Fingerprint;

/// What is true of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truth {
    /// How long ago the oracle last accepted (or with `seen: last` saw) the item; absent when never.
    pub exact_age: Option<u64>,
    /// How long ago the service did, by its own decisions.
    pub told_age: Option<u64>,
    pub window: u64,
}

impl Truth {
    /// Whether an exact memory calls it a duplicate.
    pub fn is_repeat(&self) -> bool {
        self.exact_age.is_some_and(|age| age < self.window)
    }

    /// Whether the service's own memory ought to hold it.
    pub fn is_held(&self) -> bool {
        self.told_age.is_some_and(|age| age < self.window)
    }
}

/// One event as the oracle sees it. Stamps are event times, or in a window of events how many came before.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    pub item: Fingerprint,
    pub stamp: i64,
    pub window: u64,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Copy, Default)]
struct Past {
    exact: Option<i64>,
    told: Option<i64>,
}

/// See the module.
#[derive(Debug)]
pub struct Oracle {
    seen: Seen,
    items: HashMap<Fingerprint, Past>,
}

impl Oracle {
    pub fn new(seen: Seen) -> Self {
        Self { seen, items: HashMap::new() }
    }

    /// What was true of an event before it came; remembers it.
    pub fn judge(&mut self, sighting: &Sighting) -> Truth {
        let Sighting { item, stamp, window, verdict } = *sighting;
        let past = self.items.entry(item).or_default();
        let age = |of: Option<i64>| of.map(|of| stamp.saturating_sub(of).max(0) as u64);
        let truth = Truth { exact_age: age(past.exact), told_age: age(past.told), window };
        let renew = |of: &mut Option<i64>| *of = Some(of.map_or(stamp, |of| of.max(stamp)));
        if self.seen == Seen::Last || !truth.is_repeat() {
            renew(&mut past.exact);
        }
        if self.seen == Seen::Last || verdict != Verdict::Duplicate {
            renew(&mut past.told);
        }
        truth
    }

    /// How many items an exact memory must hold to answer as of `stamp`, when it forgets what is `reach` old.
    pub fn live(&self, stamp: i64, reach: u64) -> u64 {
        let after = stamp.saturating_sub_unsigned(reach);
        self.items.values().filter(|past| past.exact.is_some_and(|exact| exact > after)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_sketch::random::Random;

    fn sighting(item: u128, stamp: i64, verdict: Verdict) -> Sighting {
        Sighting { item: Fingerprint(item), stamp, window: 10, verdict }
    }

    #[test]
    fn a_window_holds_the_ages_below_it() {
        for (seen, repeats) in [(Seen::First, [false, true, false, true]), (Seen::Last, [false, true, true, true])] {
            let mut oracle = Oracle::new(seen);
            let found = [0, 9, 10, 19].map(|at| oracle.judge(&sighting(1, at, Verdict::Unique)).is_repeat());
            assert_eq!(found, repeats, "{seen:?}");
        }
    }

    #[test]
    fn the_two_pasts_part_at_a_wrong_answer() {
        let mut oracle = Oracle::new(Seen::First);
        // A first sighting thrown away: the service holds nothing, an exact memory would.
        assert!(!oracle.judge(&sighting(1, 0, Verdict::Duplicate)).is_repeat());
        let second = oracle.judge(&sighting(1, 5, Verdict::Unique));
        assert_eq!((second.is_repeat(), second.is_held()), (true, false));
        let third = oracle.judge(&sighting(1, 12, Verdict::Duplicate));
        assert_eq!((third.exact_age, third.told_age), (Some(12), Some(7)));
        assert_eq!((third.is_repeat(), third.is_held()), (false, true));
    }

    #[test]
    fn a_late_event_is_a_repeat_of_what_was_accepted_after_it() {
        let mut oracle = Oracle::new(Seen::First);
        oracle.judge(&sighting(1, 100, Verdict::Unique));
        assert_eq!(oracle.judge(&sighting(1, 40, Verdict::Duplicate)).exact_age, Some(0));
        assert_eq!((oracle.live(105, 10), oracle.live(110, 10)), (1, 0));
    }

    #[test]
    fn it_answers_like_a_list_of_everything_that_was_accepted() {
        let (mut oracle, mut random) = (Oracle::new(Seen::First), Random::new(4));
        let mut accepted: Vec<(u128, i64)> = Vec::new();
        for at in 0..4_000 {
            let (item, stamp) = (u128::from(random.below(40)), at - random.below(8) as i64);
            let repeat = accepted.iter().any(|(other, before)| *other == item && stamp - before < 10);
            if !repeat {
                accepted.push((item, stamp));
            }
            assert_eq!(oracle.judge(&sighting(item, stamp, Verdict::Late)).is_repeat(), repeat, "{at}");
        }
    }
}
