//! Which levels of an any-window store answer for which ages.
//!
//! A window is answered by the first level whose floor is at or before its beginning. Any other decay is a mixture of
//! windows: level i answers for the windows that begin between its floor and the floor of the level below, so each of its
//! elements weighs the fall of the decay over that band (one pass, no sorting, no negative weights). The first level that
//! reaches back as far as any level does answers for everything older, too.

use super::floors::NO_FLOOR;
use super::sample::{Sample, SampleRow};
use super::sketch::SampleStore;
use super::store::WindowStore;
use crate::decay::Decay;

impl WindowStore {
    /// The sample as of `as_of`, weighted by `decay`. Elements with later times are left out. The store must be compacted.
    pub fn sample(&self, as_of: i64, decay: &Decay) -> Sample {
        match decay.width() {
            Some(width) => self.window_sample(as_of, width),
            None => self.decayed_sample(as_of, decay),
        }
    }

    fn window_sample(&self, as_of: i64, width: u64) -> Sample {
        let begin = as_of.saturating_sub_unsigned(width);
        let lowest = self.lowest_floor();
        let after = begin.max(lowest);
        let level = self.floors().partition_point(|floor| *floor > after);
        let mut sample = self.empty_sample(lowest > begin);
        sample.level = level as u8;
        self.add_band(&mut sample, (after, as_of), |_| 1.0);
        sample.later = self.weight_after(level as u8, as_of);
        sample
    }

    fn decayed_sample(&self, as_of: i64, decay: &Decay) -> Sample {
        let age = |time: i64| as_of.saturating_sub(time).max(0) as u64;
        let lowest = self.lowest_floor();
        let mut sample = self.empty_sample(lowest != NO_FLOOR && decay.weight(age(lowest)) > 0.0);
        let mut newer_floor = i64::MAX;
        for (level, floor) in self.floors().iter().copied().enumerate() {
            if floor <= as_of {
                let is_last = floor == lowest;
                let above = if is_last { 0.0 } else { decay.weight(age(floor)) };
                sample.level = level as u8;
                self.add_band(&mut sample, (floor, as_of), |time| decay.weight(age(time.min(newer_floor))) - above);
                if is_last {
                    sample.later = self.weight_after(sample.level, as_of);
                    break;
                }
            }
            newer_floor = floor;
        }
        sample
    }

    /// Adds the elements of the sample's current level within `span`. `band` is the weight that this level answers for.
    fn add_band(&self, sample: &mut Sample, span: (i64, i64), band: impl Fn(i64) -> f64) {
        let (level, first) = (sample.level, sample.rows.len());
        for element in self.within(usize::from(level), span.0, span.1) {
            let band = band(element.time_ms);
            if band > 0.0 {
                let (value, weight) = (element.value, element.weight);
                let share = self.hash().level_share(element, level);
                sample.rows.push(SampleRow { value, weight, live: weight, share, level, band });
            }
        }
        let added = sample.rows[first..].iter().map(|row| row.live);
        sample.cluster = sample.cluster.max(self.hash().cluster(added, level));
    }

    /// The estimated weight of the elements after a time. They compete for places at a level with those that a question is
    /// about.
    fn weight_after(&self, level: u8, time_ms: i64) -> f64 {
        let later = self.within(usize::from(level), time_ms, i64::MAX);
        later.map(|element| self.hash().level_share(element, level).estimate).sum()
    }

    fn empty_sample(&self, incomplete: bool) -> Sample {
        let hash = self.hash().clone();
        Sample { hash, rows: Vec::new(), level: 0, incomplete, weight_scale: 1, cluster: 1.0, later: 0.0 }
    }
}
