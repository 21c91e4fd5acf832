//! An exact dedup memory with one entry per distinct item, as the ground truth for decisions.
//!
//! It keeps two histories of every item. The *exact* history follows the oracle's own decisions: the answers of an unbounded
//! map with the same window. The *service* history follows the service's decisions: what its memory should contain. The two
//! differ under `seen: first` after a wrong decision. As in the service, the newest stamp counts: a late event is a repeat
//! also when the item was accepted after it.

use std::collections::HashMap;

use ebb_core::{Seen, Verdict};
use ebb_sketch::hash::Fingerprint;

/// The truth about one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroundTruth {
    /// Time since the oracle last accepted (or with `seen: last` saw) the item; `None` if never.
    pub exact_age: Option<u64>,
    /// The same by the decisions of the service.
    pub service_age: Option<u64>,
    pub window: u64,
}

impl GroundTruth {
    /// Whether an exact memory would call the event a duplicate.
    pub fn is_repeat(&self) -> bool {
        self.exact_age.is_some_and(|age| age < self.window)
    }

    /// Whether the memory of the service should contain the item.
    pub fn is_in_service_memory(&self) -> bool {
        self.service_age.is_some_and(|age| age < self.window)
    }
}

/// An event and the decision of the service. Stamps are event times or, for windows of events, sequence numbers.
#[derive(Debug, Clone, Copy)]
pub struct DecidedItem {
    pub item: Fingerprint,
    pub stamp: i64,
    pub window: u64,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Copy, Default)]
struct ItemHistory {
    exact: Option<i64>,
    service: Option<i64>,
}

/// The histories of all items.
#[derive(Debug)]
pub struct Oracle {
    seen: Seen,
    items: HashMap<Fingerprint, ItemHistory>,
}

impl Oracle {
    pub fn new(seen: Seen) -> Self {
        Self { seen, items: HashMap::new() }
    }

    /// The truth about an event before it is added to the histories.
    pub fn observe(&mut self, decided: &DecidedItem) -> GroundTruth {
        let DecidedItem { item, stamp, window, verdict } = *decided;
        let past = self.items.entry(item).or_default();
        let age = |of: Option<i64>| of.map(|of| stamp.saturating_sub(of).max(0) as u64);
        let truth = GroundTruth { exact_age: age(past.exact), service_age: age(past.service), window };
        let renew = |of: &mut Option<i64>| *of = Some(of.map_or(stamp, |of| of.max(stamp)));
        if self.seen == Seen::Last || !truth.is_repeat() {
            renew(&mut past.exact);
        }
        if self.seen == Seen::Last || verdict != Verdict::Duplicate {
            renew(&mut past.service);
        }
        truth
    }

    /// The number of items in an exact memory as of `stamp` that forgets after `reach`.
    pub fn live_items(&self, stamp: i64, reach: u64) -> u64 {
        let after = stamp.saturating_sub_unsigned(reach);
        self.items.values().filter(|past| past.exact.is_some_and(|exact| exact > after)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_sketch::random::Random;

    fn decided(item: u128, stamp: i64, verdict: Verdict) -> DecidedItem {
        DecidedItem { item: Fingerprint(item), stamp, window: 10, verdict }
    }

    #[test]
    fn window_contains_ages_below_it() {
        for (seen, repeats) in [(Seen::First, [false, true, false, true]), (Seen::Last, [false, true, true, true])] {
            let mut oracle = Oracle::new(seen);
            let found = [0, 9, 10, 19].map(|at| oracle.observe(&decided(1, at, Verdict::Unique)).is_repeat());
            assert_eq!(found, repeats, "{seen:?}");
        }
    }

    #[test]
    fn histories_differ_after_a_wrong_decision() {
        let mut oracle = Oracle::new(Seen::First);
        // A unique event called duplicate: an exact memory has the item, the service has not.
        assert!(!oracle.observe(&decided(1, 0, Verdict::Duplicate)).is_repeat());
        let second = oracle.observe(&decided(1, 5, Verdict::Unique));
        assert_eq!((second.is_repeat(), second.is_in_service_memory()), (true, false));
        let third = oracle.observe(&decided(1, 12, Verdict::Duplicate));
        assert_eq!((third.exact_age, third.service_age), (Some(12), Some(7)));
        assert_eq!((third.is_repeat(), third.is_in_service_memory()), (false, true));
    }

    #[test]
    fn late_event_is_a_repeat_of_an_item_accepted_after_it() {
        let mut oracle = Oracle::new(Seen::First);
        oracle.observe(&decided(1, 100, Verdict::Unique));
        assert_eq!(oracle.observe(&decided(1, 40, Verdict::Duplicate)).exact_age, Some(0));
        assert_eq!((oracle.live_items(105, 10), oracle.live_items(110, 10)), (1, 0));
    }

    #[test]
    fn oracle_agrees_with_a_list_of_accepted_events() {
        let (mut oracle, mut random) = (Oracle::new(Seen::First), Random::new(4));
        let mut accepted: Vec<(u128, i64)> = Vec::new();
        for at in 0..4_000 {
            let (item, stamp) = (u128::from(random.below(40)), at - random.below(8) as i64);
            let repeat = accepted.iter().any(|(other, before)| *other == item && stamp - before < 10);
            if !repeat {
                accepted.push((item, stamp));
            }
            assert_eq!(oracle.observe(&decided(item, stamp, Verdict::Late)).is_repeat(), repeat, "{at}");
        }
    }
}
