//! How much less a sample says about the past.
//!
//! A level keeps the newest elements. For a window that ends before the newest one, only the elements up to its end count,
//! but the level was chosen for all elements since its beginning: n of them instead of the u that are used. The variance is
//! that of the level, so the relative error grows by sqrt(n / u). Other decays are mixtures of windows, and their error is at
//! most the same mixture of errors.

use super::sketch::SampleStore;
use super::store::WindowStore;
use crate::decay::Decay;

impl WindowStore {
    /// By how much the relative error as of `as_of` exceeds that of the newest time; infinite if nothing was sampled. The
    /// store must be compacted.
    pub(super) fn dilution(&self, as_of: i64, decay: &Decay) -> f64 {
        if self.newest_ms().is_none_or(|newest| newest <= as_of) {
            return 1.0;
        }
        let bands = match decay.width() {
            Some(width) => vec![self.window_band(as_of.saturating_sub_unsigned(width))],
            None => self.decay_bands(as_of, decay),
        };
        let (mut used_amount, mut spread) = (0.0, 0.0);
        for (level, after, fall) in bands {
            let (used, all) = self.hits_after(level, after, as_of);
            let amount = fall * self.hash().scale(level as u8);
            used_amount += amount * used;
            spread += amount * libm::sqrt(used * all);
        }
        if used_amount > 0.0 { spread / used_amount } else { f64::INFINITY }
    }

    /// The level that answers for a window, the time after which it does, and the fall of the decay there.
    fn window_band(&self, begin: i64) -> (usize, i64, f64) {
        let after = begin.max(self.lowest_floor());
        (self.floors().partition_point(|floor| *floor > after), after, 1.0)
    }

    /// The levels that answer for a decay, the times after which they do, and the fall of the decay there.
    fn decay_bands(&self, as_of: i64, decay: &Decay) -> Vec<(usize, i64, f64)> {
        let weight = |time: i64| decay.weight(as_of.saturating_sub(time).max(0) as u64);
        let (lowest, mut newer) = (self.lowest_floor(), 1.0);
        let mut bands = Vec::new();
        for (level, floor) in self.floors().iter().copied().enumerate().filter(|(_, floor)| *floor <= as_of) {
            let older = if floor == lowest { 0.0 } else { weight(floor) };
            bands.push((level, floor, newer - older));
            newer = older;
            if floor == lowest {
                break;
            }
        }
        bands
    }

    /// Sampled integers of a level after a time: up to `as_of`, and all.
    fn hits_after(&self, level: usize, after: i64, as_of: i64) -> (f64, f64) {
        let (mut used, mut all) = (0.0, 0.0);
        for element in self.within(level, after, i64::MAX) {
            let hits = self.hash().hits(self.hash().start(element.id), element.weight, level as u8) as f64;
            all += hits;
            used += if element.time_ms <= as_of { hits } else { 0.0 };
        }
        (used, all)
    }
}
