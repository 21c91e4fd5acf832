//! A bounded sample of items, chosen by fingerprint, with the exact time of their last insert.

use std::collections::BTreeMap;

use super::{LastSighting, ReuseSpec};
use crate::hash::Fingerprint;
use crate::random::mix;

/// The sampled items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ItemSample {
    /// One item in 2^level is sampled.
    pub(super) level: u8,
    /// When the sample began; nothing is known about earlier inserts.
    pub(super) started: Option<i64>,
    /// Whether the filter remembers inserts from before the sample began.
    pub(super) predated: bool,
    /// When the items that only the present level samples were added.
    pub(super) widened: Option<i64>,
    /// Sampled items and their last insert.
    pub(super) tracked: BTreeMap<u64, i64>,
}

impl ItemSample {
    pub(super) fn new() -> Self {
        Self { level: 0, started: None, predated: false, widened: None, tracked: BTreeMap::new() }
    }

    #[inline]
    pub(super) fn contains(&self, item: Fingerprint) -> bool {
        is_chosen(sample_key(item), self.level)
    }

    /// The item's last insert as of `at`.
    pub(super) fn last_sighting(&self, spec: &ReuseSpec, item: Fingerprint, at: i64) -> LastSighting {
        let key = sample_key(item);
        if !is_chosen(key, self.level) {
            return LastSighting::Unknown;
        }
        let known_since = match self.widened {
            Some(widened) if !is_chosen(key, self.level + 1) => Some(widened),
            _ => self.started,
        };
        let since = |earlier: i64| u64::try_from(at.saturating_sub(earlier)).ok();
        match self.tracked.get(&key) {
            Some(last) => match since(*last) {
                Some(age) if age < spec.horizon() => LastSighting::Age(age),
                Some(_) => LastSighting::NotWithin(spec.horizon()),
                None => LastSighting::Unknown,
            },
            None => match known_since.map_or(Some(0), since) {
                Some(known_for) => LastSighting::NotWithin(known_for.min(spec.horizon())),
                None => LastSighting::Unknown,
            },
        }
    }

    /// Stores that the item was inserted at `at`. Returns how often the sample had to be halved to stay within its bound.
    pub(super) fn record_insert(&mut self, spec: &ReuseSpec, item: Fingerprint, at: i64) -> u32 {
        let key = sample_key(item);
        if !is_chosen(key, self.level) {
            return 0;
        }
        let last = self.tracked.entry(key).or_insert(at);
        *last = at.max(*last);
        let mut halvings = 0;
        while self.tracked.len() > spec.max_tracked as usize {
            self.level += 1;
            self.widened = None;
            let level = self.level;
            self.tracked.retain(|key, _| is_chosen(*key, level));
            halvings += 1;
        }
        halvings
    }

    /// Removes items beyond the horizon. Returns whether the sample was doubled because little is tracked.
    pub(super) fn expire(&mut self, spec: &ReuseSpec, now: i64) -> bool {
        let oldest = now.saturating_sub_unsigned(spec.horizon());
        self.tracked.retain(|_, last| *last > oldest);
        let is_settled = self.widened.is_none_or(|widened| widened <= oldest);
        let widens = self.level > 0 && is_settled && self.tracked.len() * 4 < spec.max_tracked as usize;
        if widens {
            self.level -= 1;
            self.widened = Some(now);
        }
        widens
    }
}

pub(super) fn sample_key(item: Fingerprint) -> u64 {
    mix(item.low() ^ 0x5A4D_504C_4544)
}

pub(super) fn is_chosen(key: u64, level: u8) -> bool {
    key.leading_zeros() >= u32::from(level)
}
