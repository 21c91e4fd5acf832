//! Does the stream carry a flood of items that never repeat? Judged by rates: in a flood more arrives, and what repeats
//! does not become more.
//!
//! Counts of the last calm quarter of a window are the reference. A later quarter is a flood if it has more sightings than
//! the reference allows, scaled by the growth of its repeats. A stream whose repeats become rarer without more traffic is
//! not a flood, and neither is one that grows as a whole. During a flood the reference doubles every eight windows, so that
//! a lasting change is accepted in the end. On a clock of arrivals every quarter has as many sightings, and none is a flood.

use super::survival::SIGHTING;

/// Growth of traffic from one quarter to the next that is not a flood.
const ALLOWED_GROWTH: f64 = 1.5;
/// Sightings added to both counts of repeats before their ratio is taken.
const SMOOTHING: f64 = 16.0 * SIGHTING as f64;
/// Growth of the reference per quarter of a flood: 2^(1/32).
const REFERENCE_GROWTH: f64 = 1.021_897_148_654_116_7;

/// Weighted sightings of a quarter of a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct QuarterCounts {
    pub(super) inside: f64,
    pub(super) outside: f64,
}

impl QuarterCounts {
    fn total(&self) -> f64 {
        self.inside + self.outside
    }

    /// The share of repeats, and its standard deviation if the true share is `share`.
    pub(super) fn share_and_deviation(&self, share: f64) -> (f64, f64) {
        let sightings = (self.total() / SIGHTING as f64).max(1.0);
        (self.inside / self.total().max(1.0), libm::sqrt(share * (1.0 - share) / sightings))
    }

    fn scale(&mut self, factor: f64) {
        self.inside *= factor;
        self.outside *= factor;
    }
}

/// What a quarter of a window was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum QuarterTraffic {
    /// There is nothing to compare it with.
    Unknown,
    /// Ordinary traffic.
    Calm(QuarterCounts),
    /// A flood; the traffic without it has this share of repeats.
    Flood { share: f64 },
}

/// Compares each quarter of a window with the last calm one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct FloodDetector {
    /// The quarter in progress.
    pub(super) current: QuarterCounts,
    /// Whether `current` covers a whole quarter when it ends.
    pub(super) is_whole: bool,
    /// The last calm quarter.
    pub(super) reference: Option<QuarterCounts>,
}

impl FloodDetector {
    pub(super) fn record(&mut self, inside: bool) {
        let count = if inside { &mut self.current.inside } else { &mut self.current.outside };
        *count += SIGHTING as f64;
    }

    /// Adapts the counts to another sampling rate.
    pub(super) fn rescale(&mut self, factor: f64) {
        self.current.scale(factor);
        self.reference.iter_mut().for_each(|reference| reference.scale(factor));
    }

    /// Ends the quarter in progress and classifies it.
    pub(super) fn end_quarters(&mut self, quarters: u32) -> QuarterTraffic {
        let (ended, was_whole) = (std::mem::take(&mut self.current), self.is_whole && quarters == 1);
        self.is_whole = true;
        let Some(reference) = self.reference.filter(|_| was_whole) else {
            self.reference = was_whole.then_some(ended);
            return QuarterTraffic::Unknown;
        };
        let growth = ((ended.inside + SMOOTHING) / (reference.inside + SMOOTHING)).max(1.0);
        let allowed = reference.total() * growth;
        if ended.total() <= ALLOWED_GROWTH * allowed {
            self.reference = Some(ended);
            return QuarterTraffic::Calm(ended);
        }
        let mut grown = reference;
        grown.scale(REFERENCE_GROWTH);
        self.reference = Some(grown);
        let share = (ended.inside / allowed).min(reference.inside / reference.total().max(1.0));
        QuarterTraffic::Flood { share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share without the flood, if the quarter is one.
    fn quarter(detector: &mut FloodDetector, inside: u32, outside: u32) -> Option<f64> {
        (0..inside).for_each(|_| detector.record(true));
        (0..outside).for_each(|_| detector.record(false));
        match detector.end_quarters(1) {
            QuarterTraffic::Flood { share } => Some(share),
            QuarterTraffic::Unknown | QuarterTraffic::Calm(_) => None,
        }
    }

    fn calm(inside: u32, outside: u32) -> FloodDetector {
        let mut detector = FloodDetector::default();
        (0..4).for_each(|_| assert_eq!(quarter(&mut detector, inside, outside), None));
        detector
    }

    #[test]
    fn more_traffic_without_more_repeats_is_a_flood_for_many_windows() {
        let mut detector = calm(300, 700);
        for number in 0..32 {
            let share = quarter(&mut detector, 300, 5700);
            assert!(share.is_some_and(|share| (share - 0.3).abs() < 0.02 + 0.01 * f64::from(number)), "{share:?}");
        }
        assert_eq!(quarter(&mut detector, 300, 700), None, "calm again");
    }

    #[test]
    fn growth_and_rarer_repeats_are_no_flood() {
        let mut detector = calm(300, 700);
        assert_eq!(quarter(&mut detector, 1500, 3500), None, "five times the traffic");
        assert_eq!(quarter(&mut detector, 100, 4900), None, "fewer repeats");
        let mut detector = calm(0, 1000);
        assert_eq!(quarter(&mut detector, 0, 1000), None);
    }

    #[test]
    fn partial_quarters_and_gaps_are_not_compared() {
        let mut detector = FloodDetector::default();
        assert_eq!(quarter(&mut detector, 3, 7), None);
        assert_eq!(detector.reference, None, "the first quarter began before the stream");
        let mut detector = calm(300, 700);
        detector.end_quarters(5);
        assert_eq!(quarter(&mut detector, 300, 9700), None, "nothing to compare with after a gap");
    }
}
