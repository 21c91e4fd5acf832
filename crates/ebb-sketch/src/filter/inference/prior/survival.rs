//! The distribution of ages from complete and incomplete observations.
//!
//! A sighting either has an age, or it is known only that the item was not inserted for at least as long as the sample
//! reaches back: its age is censored. The Kaplan–Meier estimator uses both without bias, so that a stream which has run for
//! a tenth of a window already has the right curve for that tenth. Bins of censored ages count half (the actuarial form).

use super::curve::{BEGINS, BINS, CumulativeBins, NEVER, bin_of};

/// Weight of one sighting; fading keeps fractions.
pub(super) const SIGHTING: u64 = 256;
/// Upper bound of a bin, so that sums of bins cannot overflow.
pub(super) const MAX_COUNT: u64 = 1 << 56;
/// Pseudo-sightings inside and outside the window with which every curve begins: the midpoint of Wilson's interval at two
/// standard deviations. They keep a curve without repeats above zero, by as much as its sample permits.
pub(super) const PSEUDO_SIGHTINGS: f64 = 2.0;

/// Decayed counts of sightings by age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgeCounts {
    /// Sightings whose last insert is known.
    pub(super) observed: [u64; BINS],
    /// Sightings of items that were not inserted for at least this long; the last bin means the horizon.
    pub(super) censored: [u64; BINS],
}

impl Default for AgeCounts {
    fn default() -> Self {
        Self { observed: [0; BINS], censored: [0; BINS] }
    }
}

impl AgeCounts {
    pub(super) fn total(&self) -> u64 {
        self.counts().sum()
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.observed.iter().chain(&self.censored).copied()
    }

    pub(super) fn counts_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.observed.iter_mut().chain(&mut self.censored)
    }

    /// Kaplan–Meier over these counts plus `weight` times `shared`, then mixed with the pseudo-sightings, which are spread
    /// evenly over the octaves below `pivot` units.
    pub(super) fn curve(&self, shared: &Self, weight: f64, pivot: f64) -> CumulativeBins {
        let unit = 1.0 / SIGHTING as f64;
        let at = |own: &[u64; BINS], all: &[u64; BINS], bin: usize| unit * (own[bin] as f64 + weight * all[bin] as f64);
        let observed = |bin| at(&self.observed, &shared.observed, bin);
        let censored = |bin| at(&self.censored, &shared.censored, bin);
        let total: f64 = (0..BINS).map(|bin| observed(bin) + censored(bin)).sum();
        let (data, pseudo_bins) = (total / (total + 2.0 * PSEUDO_SIGHTINGS), bin_of(pivot).clamp(1, NEVER));
        let pseudo = (1.0 - data) / 2.0 / pseudo_bins as f64;
        let (mut at_risk, mut surviving, mut below) = (total, 1.0, 0.0);
        let mut curve = [(0.0, 0.0); BINS];
        for (bin, (start, slope)) in curve.iter_mut().enumerate() {
            *start = below;
            if bin == NEVER {
                break;
            }
            let exposed = at_risk - censored(bin) / 2.0;
            let mass = if exposed > 0.0 { surviving * (observed(bin) / exposed).min(1.0) } else { 0.0 };
            surviving -= mass;
            at_risk -= observed(bin) + censored(bin);
            let share = data * mass + if bin < pseudo_bins { pseudo } else { 0.0 };
            *slope = share / (BEGINS[bin + 1] - BEGINS[bin]);
            below += share;
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::super::curve::below;
    use super::*;

    /// Ages uniform in 0..1000, of which only those below the elapsed time can be observed.
    fn growing_stream(elapsed: u64) -> AgeCounts {
        let mut counts = AgeCounts::default();
        for known_for in 0..elapsed {
            for age in (0..1000u64).step_by(10) {
                let observed = age < known_for;
                let bin = bin_of(if observed { age } else { known_for } as f64);
                let counts = if observed { &mut counts.observed } else { &mut counts.censored };
                counts[bin] += SIGHTING;
            }
        }
        counts
    }

    #[test]
    fn a_young_stream_has_the_right_curve_for_its_own_age() {
        let counts = growing_stream(400);
        let curve = counts.curve(&AgeCounts::default(), 0.0, 400.0);
        // Counting censored sightings as "never" would give half of this.
        for (age, expected) in [(50.0, 0.05), (100.0, 0.1), (200.0, 0.2), (300.0, 0.3)] {
            let learned = below(&curve, age);
            assert!((learned - expected).abs() < 0.02, "F({age}) = {learned}, expected {expected}");
        }
    }

    #[test]
    fn a_stream_without_repeats_keeps_a_positive_curve() {
        let mut counts = AgeCounts::default();
        counts.censored[40] = 10_000 * SIGHTING;
        let curve = counts.curve(&AgeCounts::default(), 0.0, 1000.0);
        let inside = below(&curve, 1000.0);
        assert!((inside - 2.0 / 10_004.0).abs() < 1e-9, "{inside}");
        assert!(below(&curve, 30.0) > inside / 4.0, "recent ages have their share");
    }
}
