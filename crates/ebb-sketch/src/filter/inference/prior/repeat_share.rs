//! The share of sightings that repeat an item of the window: of the whole stream, and of single keys.
//!
//! The share of repeats is the part of the prior that a sender can move most easily: a flood of items that never repeat
//! lowers it for everyone. Two rules limit that. Keys with repeats have shares of their own, so that what other keys send
//! does not count for them. And the highest share that the sample supported is kept for a quarter of a window, then halved
//! every half window ([`RepeatShare::floor`]), so that a sudden flood does not change decisions about repeats. While a flood
//! lasts ([`super::flood`]) it is kept on; after a quarter without a flood it follows the sample.

use std::collections::BTreeMap;

use libm::{exp2, sqrt};

use super::survival::{MAX_COUNT, PSEUDO_SIGHTINGS, SIGHTING};

/// Keys with a share of their own.
pub(super) const MAX_KEYS: usize = 256;
/// Weight, in sightings, with which the share of all keys is mixed into that of one key.
const SHRINKAGE: f64 = 16.0;
/// Standard deviations of the stated intervals.
const INTERVAL_DEVIATIONS: f64 = 2.0;

/// Decayed counts of repeats and first sightings, and the highest share that they supported lately.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct RepeatShare {
    pub(super) inside: u64,
    pub(super) outside: u64,
    /// The highest lower bound of the share, and its time.
    pub(super) peak: f64,
    pub(super) peak_at: i64,
}

/// An estimate of a share with its interval at two standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShareEstimate {
    /// The estimate.
    pub share: f64,
    /// Lower end of Wilson's interval.
    pub lower: f64,
    /// Upper end of Wilson's interval.
    pub upper: f64,
}

pub(super) fn odds(share: f64) -> f64 {
    share / (1.0 - share)
}

impl RepeatShare {
    fn record(&mut self, inside: bool) {
        let count = if inside { &mut self.inside } else { &mut self.outside };
        *count = (*count + SIGHTING).min(MAX_COUNT);
    }

    /// Raises the peak to what the counts support now.
    fn raise_peak(&mut self, now: i64, window: u64) {
        self.hold_peak(self.estimate().lower, now, window);
    }

    /// The smallest share to assume: the peak for a quarter of a window, then halved for every half window.
    pub(super) fn floor(&self, now: i64, window: u64) -> f64 {
        let windows = now.saturating_sub(self.peak_at) as f64 / window as f64;
        self.peak * exp2(-2.0 * (windows - 0.25).max(0.0))
    }

    /// Assumes no more than this share because of the past.
    pub(super) fn lower_peak(&mut self, share: f64) {
        self.peak = self.peak.min(share);
    }

    /// Assumes at least this share from now on.
    pub(super) fn hold_peak(&mut self, share: f64, now: i64, window: u64) {
        if share > self.floor(now, window) {
            (self.peak, self.peak_at) = (share, now);
        }
    }

    pub(super) fn estimate(&self) -> ShareEstimate {
        let (inside, total) = (self.inside as f64, (self.inside + self.outside) as f64);
        let (n, z2) = (total / SIGHTING as f64, INTERVAL_DEVIATIONS * INTERVAL_DEVIATIONS);
        let p = if total > 0.0 { inside / total } else { 0.0 };
        let centre = (p * n + PSEUDO_SIGHTINGS) / (n + 2.0 * PSEUDO_SIGHTINGS);
        let half = INTERVAL_DEVIATIONS * sqrt(p * (1.0 - p) * n + z2 / 4.0) / (n + z2);
        ShareEstimate { share: centre, lower: (centre - half).max(0.0), upper: (centre + half).min(1.0) }
    }

    fn shrunk_to(&self, share: f64) -> f64 {
        let unit = SIGHTING as f64;
        let total = (self.inside + self.outside) as f64;
        (self.inside as f64 + SHRINKAGE * unit * share) / (total + SHRINKAGE * unit)
    }

    fn fade(&mut self, fade: impl Fn(u64) -> u64) {
        (self.inside, self.outside) = (fade(self.inside), fade(self.outside));
    }
}

/// The shares of all keys together and of the keys with repeats.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RepeatShares {
    pub(super) all: RepeatShare,
    pub(super) keys: BTreeMap<u64, RepeatShare>,
}

impl RepeatShares {
    /// Counts one sighting. A key gets a share of its own with its first repeat, which itself is not counted: it is the
    /// reason why the key is observed.
    pub(super) fn record(&mut self, key: Option<u64>, inside: bool) {
        self.all.record(inside);
        let Some(key) = key else { return };
        match self.keys.get_mut(&key) {
            Some(share) => share.record(inside),
            None if inside => self.admit(key),
            None => {}
        }
    }

    fn admit(&mut self, key: u64) {
        if self.keys.len() >= MAX_KEYS {
            let lightest = self.keys.iter().min_by_key(|(key, share)| (share.inside, **key)).map(|(key, _)| *key);
            let Some(lightest) = lightest.filter(|key| self.keys[key].inside < SIGHTING) else { return };
            self.keys.remove(&lightest);
        }
        self.keys.insert(key, RepeatShare::default());
    }

    pub(super) fn raise_peaks(&mut self, now: i64, window: u64) {
        self.all.raise_peak(now, window);
        self.keys.values_mut().for_each(|share| share.raise_peak(now, window));
    }

    pub(super) fn fade(&mut self, fade: impl Fn(u64) -> u64) {
        self.all.fade(&fade);
        self.keys.values_mut().for_each(|share| share.fade(&fade));
    }

    /// Removes keys without recent sightings.
    pub(super) fn forget_idle_keys(&mut self) {
        self.keys.retain(|_, share| share.inside + share.outside >= SIGHTING / 4);
    }

    /// The factor by which the odds of a repeat of this key differ from those of the whole stream, not counting floors.
    pub(super) fn relative_odds(&self, share: &RepeatShare) -> f64 {
        let all = self.all.estimate().share;
        odds(share.shrunk_to(all)) / odds(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1000;

    #[test]
    fn a_flood_of_first_sightings_lowers_the_floor_slowly() {
        let mut shares = RepeatShares::default();
        (0..1000).for_each(|n| shares.record(None, n % 2 == 0));
        shares.raise_peaks(0, WINDOW);
        let before = shares.all.floor(0, WINDOW);
        assert!((0.45..0.5).contains(&before), "{before}");
        (0..200_000).for_each(|_| shares.record(None, false));
        shares.raise_peaks(10, WINDOW);
        assert!(shares.all.estimate().share < 0.005);
        assert_eq!(shares.all.floor(250, WINDOW), before);
        let later = shares.all.floor(750, WINDOW);
        assert!((later / before - 0.5).abs() < 1e-9, "{later}");
    }

    #[test]
    fn keys_keep_their_own_share_and_only_keys_with_repeats_are_tracked() {
        let mut shares = RepeatShares::default();
        for n in 0..4000u64 {
            shares.record(Some(1), n % 2 == 0);
            shares.record(Some(1000 + n), false);
        }
        assert_eq!(shares.keys.len(), 1);
        let relative = shares.relative_odds(&shares.keys[&1]);
        let used = relative * odds(shares.all.estimate().share);
        assert!((0.9..1.1).contains(&used), "odds of the key: {used}");
    }

    #[test]
    fn the_table_of_keys_is_bounded_and_forgets() {
        let mut shares = RepeatShares::default();
        for key in 0..2 * MAX_KEYS as u64 {
            (0..3).for_each(|_| shares.record(Some(key), true));
        }
        assert_eq!(shares.keys.len(), MAX_KEYS);
        shares.fade(|count| count >> 12);
        shares.forget_idle_keys();
        assert!(shares.keys.is_empty());
    }

    #[test]
    fn intervals_contain_the_share_and_shrink() {
        let mut share = RepeatShare::default();
        let empty = share.estimate();
        assert!((empty.share, empty.lower, empty.upper) == (0.5, 0.0, 1.0), "{empty:?}");
        (0..100).for_each(|n| share.record(n % 4 == 0));
        let few = share.estimate();
        (0..10_000).for_each(|n| share.record(n % 4 == 0));
        let many = share.estimate();
        assert!(few.lower < 0.25 && few.upper > 0.25 && many.lower < 0.25 && many.upper > 0.25);
        assert!(many.upper - many.lower < (few.upper - few.lower) / 5.0);
    }
}
