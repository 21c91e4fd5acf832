//! Expected errors and penalties of a timing filter before it runs.
//!
//! The model: all items are equally frequent, arrivals are steady, cells are random. A reading is the block of an item's
//! oldest timer. For each reading the forecast holds the probability of meeting it with an item that was seen within the
//! window, and with one that was not; every penalty follows from these. Differences between cache lines are ignored, so
//! decisions by posterior tend to cost less than forecast.
//!
//! ```
//! use ebb_sketch::filter::inference::{Seen, decision::Penalties};
//! use ebb_sketch::filter::planning::forecast::{Forecast, TrafficModel};
//! use ebb_sketch::filter::structure::timing::TimingSpec;
//!
//! let spec = TimingSpec::count(100_000, 100_000).unwrap();
//! let forecast = Forecast::new(&spec, &TrafficModel::new(100_000.0, 0.8).unwrap(), Seen::Last);
//! let penalties = Penalties::new(1.0, 0.2).unwrap();
//! assert!(forecast.posterior(&penalties).penalty <= forecast.standard(&penalties).penalty);
//! ```

use libm::{exp, expm1};
use thiserror::Error;

use crate::filter::inference::Seen;
use crate::filter::inference::decision::Penalties;
use crate::filter::structure::timing::{TimingSpec, false_duplicate_rate};

/// Positions of the clock within its block over which the forecast is averaged.
const PHASES: u32 = 8;
/// Upper bound of the distinct fraction; with fewer repeats the model has no solution.
const MAX_DISTINCT: f64 = 0.999_999;

/// The traffic of one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficModel {
    arrivals: f64,
    /// p: the share of arrivals of each item.
    item_share: f64,
}

/// Invalid traffic.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TrafficModelError {
    #[error("a window must hold a finite number of at least 1 event, not {requested}; the nearest is {nearest}")]
    Arrivals { requested: f64, nearest: f64 },
    #[error("the share of distinct items must lie above 0 and be at most 1, not {requested}; the nearest is {nearest}")]
    Distinct { requested: f64, nearest: f64 },
}

impl TrafficModel {
    /// `arrivals` per window, a fraction `distinct` of which are distinct items.
    pub fn new(arrivals: f64, distinct: f64) -> Result<Self, TrafficModelError> {
        if !(arrivals.is_finite() && arrivals >= 1.0) {
            return Err(TrafficModelError::Arrivals { requested: arrivals, nearest: 1.0 });
        }
        if !(distinct > 0.0 && distinct <= 1.0) {
            return Err(TrafficModelError::Distinct {
                requested: distinct,
                nearest: if distinct > 1.0 { 1.0 } else { 0.01 },
            });
        }
        Ok(Self { arrivals, item_share: sightings(distinct.max(1.0 / arrivals).min(MAX_DISTINCT)) / arrivals })
    }

    /// Arrivals per window.
    pub fn arrivals(&self) -> f64 {
        self.arrivals
    }

    /// p: the share of arrivals of each item.
    pub fn item_share(&self) -> f64 {
        self.item_share
    }

    /// The fraction of events that an exact filter would call duplicates.
    fn repeats(&self, seen: Seen) -> f64 {
        let sightings = self.item_share * self.arrivals;
        match seen {
            Seen::Last => -expm1(-sightings),
            Seen::First => sightings / (1.0 + sightings),
        }
    }

    /// Distinct items among `arrivals`.
    fn items_among(&self, arrivals: f64) -> f64 {
        -expm1(-self.item_share * arrivals) / self.item_share
    }
}

/// Solves (1 - exp(-x)) / x = distinct for x, the mean number of sightings per item and window, by bisection.
fn sightings(distinct: f64) -> f64 {
    let (mut low, mut high) = (0.0, 2.0 / distinct);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if -expm1(-middle) / middle > distinct { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The probability of one reading, among all events.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ReadingProbability {
    /// With an item that was seen within the window.
    inside: f64,
    /// With one that was not.
    outside: f64,
}

/// Expected errors of one way to answer, per event.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ExpectedErrors {
    /// Fraction of events that are first sightings answered "duplicate".
    pub false_duplicates: f64,
    /// Fraction of events that are repeats answered "unique".
    pub missed_duplicates: f64,
    /// Expected penalty.
    pub penalty: f64,
}

/// The forecast for one filter and one traffic model.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Readings that the filter's own answer calls duplicates, for each position of the clock.
    readings: Vec<ReadingProbability>,
    /// Fraction of events that repeat an item of the window.
    pub repeats: f64,
    /// Fraction of events whose item the filter did not accept within the window. False duplicates, which are not accepted,
    /// make it larger than the fraction of first sightings.
    pub unaccepted: f64,
    /// Fraction of live cells in the steady state.
    pub fill: f64,
}

impl Forecast {
    /// Evaluates the model.
    pub fn new(spec: &TimingSpec, traffic: &TrafficModel, seen: Seen) -> Self {
        let model = ForecastModel::new(spec, traffic, seen);
        let phases = (0..PHASES).map(|phase| (f64::from(phase) + 0.5) / f64::from(PHASES) * model.block);
        let unaccepted = phases.clone().map(|phase| model.unaccepted(phase)).sum::<f64>() / f64::from(PHASES);
        let readings = phases.flat_map(|phase| model.readings(phase)).collect();
        Self { readings, repeats: traffic.repeats(seen), unaccepted, fill: model.fill() }
    }

    /// The probability that the filter's own answer calls an item a duplicate that it did not accept within the window.
    pub fn false_duplicate_rate(&self) -> f64 {
        let outside: f64 = self.readings.iter().map(|reading| reading.outside).sum();
        (outside / f64::from(PHASES) / self.unaccepted.max(f64::MIN_POSITIVE)).min(1.0)
    }

    /// The filter's own answer, which misses nothing.
    pub fn standard(&self, penalties: &Penalties) -> ExpectedErrors {
        self.evaluate(penalties, |_| true)
    }

    /// Decisions by posterior.
    pub fn posterior(&self, penalties: &Penalties) -> ExpectedErrors {
        let (false_duplicate, missed) = (penalties.false_duplicate(), penalties.missed_duplicate());
        self.evaluate(penalties, |reading| false_duplicate * reading.outside <= missed * reading.inside)
    }

    /// No filter: every repeat is missed.
    pub fn without_filter(&self, penalties: &Penalties) -> ExpectedErrors {
        let penalty = penalties.missed_duplicate() * self.repeats;
        ExpectedErrors { false_duplicates: 0.0, missed_duplicates: self.repeats, penalty }
    }

    fn evaluate(&self, penalties: &Penalties, is_duplicate: impl Fn(&ReadingProbability) -> bool) -> ExpectedErrors {
        let mut expected = ExpectedErrors::default();
        for reading in &self.readings {
            if is_duplicate(reading) {
                expected.false_duplicates += reading.outside / f64::from(PHASES);
            } else {
                expected.missed_duplicates += reading.inside / f64::from(PHASES);
            }
        }
        expected.penalty = penalties.false_duplicate() * expected.false_duplicates
            + penalties.missed_duplicate() * expected.missed_duplicates;
        expected
    }
}

/// The analytic model; ages and lengths are in arrivals.
struct ForecastModel<'a> {
    spec: &'a TimingSpec,
    traffic: &'a TrafficModel,
    seen: Seen,
    window: f64,
    block: f64,
    /// How long timers are kept.
    retention: f64,
    /// p; with [`Seen::First`], reduced by the false duplicates, which are not inserted.
    share: f64,
}

impl<'a> ForecastModel<'a> {
    fn new(spec: &'a TimingSpec, traffic: &'a TrafficModel, seen: Seen) -> Self {
        let clock = spec.clock();
        let per_unit = traffic.arrivals / clock.window() as f64;
        let (block, retention) = (clock.block() as f64 * per_unit, clock.retention() as f64 * per_unit);
        let mut model =
            Self { spec, traffic, seen, window: traffic.arrivals, block, retention, share: traffic.item_share };
        if seen == Seen::First {
            model.solve_share();
        }
        model
    }

    /// False duplicates are not inserted, which makes further false duplicates rarer: finds the fixed point by bisection.
    fn solve_share(&mut self) {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..40 {
            let rate = (low + high) / 2.0;
            self.share = self.traffic.item_share * (1.0 - rate);
            if self.overwritten(self.window) > rate { low = rate } else { high = rate }
        }
    }

    /// Readings from the youngest block to the one that contains the window's edge.
    fn readings(&self, phase: f64) -> impl Iterator<Item = ReadingProbability> + '_ {
        let blocks = (0..=self.spec.oldest_live_age()).map(move |age| {
            let end = phase + f64::from(age) * self.block;
            ((end - self.block).max(0.0), end)
        });
        let quiet = self.quiet(phase);
        blocks.take_while(|(from, _)| *from < self.window).map(move |(from, end)| self.reading(from, end, quiet))
    }

    /// An item is a duplicate until its whole block has left the window.
    fn quiet(&self, phase: f64) -> f64 {
        phase + libm::ceil((self.window - phase).max(0.0) / self.block) * self.block
    }

    /// The probability that an item was not inserted within the window.
    fn unaccepted(&self, phase: f64) -> f64 {
        self.ages(self.window, f64::INFINITY, self.quiet(phase))
    }

    /// An item of this block has this reading unless other items overwrote all its cells later. An older item has it if other
    /// items have overwritten its cells by now, but not all of them after this block.
    fn reading(&self, from: f64, end: f64, quiet: f64) -> ReadingProbability {
        let (later, by_now) = (self.overwritten(from), self.overwritten(end));
        let (own, others, edge) = (1.0 - later, by_now - later, self.window);
        let ages = |from, to| self.ages(from, to, quiet);
        ReadingProbability {
            inside: own * ages(from, end.min(edge)) + others * ages(end, edge),
            outside: own * ages(from.max(edge), end) + others * ages(end.max(edge), f64::INFINITY),
        }
    }

    /// The probability that an item was last inserted at an age in `from..to`. With [`Seen::First`] an accepted item is not
    /// inserted again for `quiet` arrivals, and ages within that time are equally probable.
    fn ages(&self, from: f64, to: f64, quiet: f64) -> f64 {
        if to <= from {
            return 0.0;
        }
        let p = self.share;
        let falling = |from: f64, to: f64| exp(-p * from) * -expm1(-p * (to - from));
        match self.seen {
            Seen::Last => falling(from, to),
            Seen::First => {
                let flat = p * (to.min(quiet) - from.min(quiet));
                let (from, to) = ((from - quiet).max(0.0), (to - quiet).max(0.0));
                (flat + if to > from { falling(from, to) } else { 0.0 }) / (1.0 + p * quiet)
            }
        }
    }

    /// Items inserted within the last `arrivals`.
    fn items(&self, arrivals: f64) -> f64 {
        match self.seen {
            Seen::Last => self.traffic.items_among(arrivals),
            Seen::First => {
                let accepted = self.share / self.traffic.item_share;
                accepted * arrivals / (1.0 + self.share * (self.window + self.block / 2.0))
            }
        }
    }

    /// Probability that other items wrote all cells of an item within the last `arrivals`.
    fn overwritten(&self, arrivals: f64) -> f64 {
        let items = self.items(arrivals);
        if items <= 0.0 { 0.0 } else { false_duplicate_rate(self.spec, items) }
    }

    fn fill(&self) -> f64 {
        let items = self.items(self.retention + self.block / 2.0);
        -expm1(-items * f64::from(self.spec.cells_per_item()) / self.spec.cells() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_share_reproduces_the_distinct_fraction() {
        for distinct in [0.05, 0.5, 0.9, 0.999] {
            let traffic = TrafficModel::new(1e6, distinct).unwrap();
            let share = traffic.items_among(1e6) / 1e6;
            assert!((share / distinct - 1.0).abs() < 1e-6, "{distinct}: {share}");
        }
    }

    #[test]
    fn invalid_traffic_reports_the_nearest_valid_value() {
        for (arrivals, distinct) in [(0.0, 0.5), (f64::NAN, 0.5), (1e6, 0.0), (1e6, 1.5), (1e6, f64::NAN)] {
            let error = TrafficModel::new(arrivals, distinct).unwrap_err();
            let nearest = match error {
                TrafficModelError::Arrivals { nearest, .. } => TrafficModel::new(nearest, 1.0),
                TrafficModelError::Distinct { nearest, .. } => TrafficModel::new(1e6, nearest),
            };
            assert!(nearest.is_ok(), "{arrivals} {distinct}");
        }
    }

    #[test]
    fn no_probability_exceeds_one_however_small_the_filter_is() {
        let mut exceeds_first_sightings = false;
        for (memory, distinct) in [(1_000, 0.3), (2_000, 0.05), (10_000, 0.9), (100_000, 0.999), (100_000, 1.0)] {
            let spec = TimingSpec::count(100_000, memory).unwrap();
            for seen in [Seen::First, Seen::Last] {
                let forecast = Forecast::new(&spec, &TrafficModel::new(100_000.0, distinct).unwrap(), seen);
                let standard = forecast.standard(&Penalties::new(1.0, 1.0).unwrap());
                assert!(
                    standard.false_duplicates <= forecast.unaccepted * (1.0 + 1e-12),
                    "{memory} {distinct} {seen:?}"
                );
                exceeds_first_sightings |= standard.false_duplicates > 1.0 - forecast.repeats;
                let shares = [forecast.false_duplicate_rate(), forecast.fill, forecast.repeats, forecast.unaccepted];
                assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{memory} {distinct}: {shares:?}");
            }
        }
        assert!(exceeds_first_sightings, "relative to first sightings the share would exceed 1");
    }

    #[test]
    fn the_posterior_never_costs_more_than_the_alternatives() {
        let spec = TimingSpec::count(100_000, 100_000).unwrap();
        for seen in [Seen::First, Seen::Last] {
            let forecast = Forecast::new(&spec, &TrafficModel::new(100_000.0, 0.8).unwrap(), seen);
            for (false_duplicate, missed) in [(1.0, 1.0), (10.0, 0.1), (0.0, 1.0), (1.0, 0.0)] {
                let penalties = Penalties::new(false_duplicate, missed).unwrap();
                let posterior = forecast.posterior(&penalties).penalty;
                assert!(posterior <= forecast.standard(&penalties).penalty);
                assert!(posterior <= forecast.without_filter(&penalties).penalty * (1.0 + 1e-9));
            }
        }
    }
}
