//! What to expect of a timing filter before it runs: how often its answers err, and what that costs.
//!
//! The model: every item comes equally often, arrivals are steady, cells fall at random. A reading is the block of an
//! item's oldest timer. For each reading the forecast holds the chance of meeting it with an item that was seen within the
//! window and with one that was not; every penalty follows from these two. Lines of different load are taken together,
//! although the filter itself looks at the line: decisions by posterior tend to cost less than is forecast.

use libm::{exp, expm1};
use thiserror::Error;

use super::decision::Penalties;
use super::inference::Seen;
use super::sizing::false_duplicates;
use super::timing::{Drive, TimingSpec};

/// Where in its block the clock may stand: the mean over so many places is taken.
const PHASES: u32 = 8;
/// A stream in which fewer events repeat is taken for one of so many distinct items.
const DISTINCT_MOST: f64 = 0.999_999;

/// What arrives within one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    arrivals: f64,
    /// p: the share of the arrivals that each item makes.
    item_share: f64,
}

#[derive(Debug, Clone, PartialEq, Error)]
pub enum TrafficError {
    #[error("a window must hold a finite number of at least 1 event, not {given}; the nearest is {nearest}")]
    Arrivals { given: f64, nearest: f64 },
    #[error("the share of distinct items must lie above 0 and be at most 1, not {given}; the nearest is {nearest}")]
    Distinct { given: f64, nearest: f64 },
}

impl Traffic {
    /// `arrivals` in a window, of which the share `distinct` is left when each item counts once.
    pub fn new(arrivals: f64, distinct: f64) -> Result<Self, TrafficError> {
        if !(arrivals.is_finite() && arrivals >= 1.0) {
            return Err(TrafficError::Arrivals { given: arrivals, nearest: 1.0 });
        }
        if !(distinct > 0.0 && distinct <= 1.0) {
            return Err(TrafficError::Distinct { given: distinct, nearest: if distinct > 1.0 { 1.0 } else { 0.01 } });
        }
        Ok(Self { arrivals, item_share: sightings(distinct.max(1.0 / arrivals).min(DISTINCT_MOST)) / arrivals })
    }

    pub fn arrivals(&self) -> f64 {
        self.arrivals
    }

    /// p: the share of the arrivals that each item makes.
    pub fn item_share(&self) -> f64 {
        self.item_share
    }

    /// Events that an exact memory would call duplicates.
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

/// x, the mean number of sightings of an item in a window, from (1 - exp(-x)) / x, by halving.
fn sightings(distinct: f64) -> f64 {
    let (mut low, mut high) = (0.0, 2.0 / distinct);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if -expm1(-middle) / middle > distinct { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Chances of one reading, among all events.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Met {
    /// With an item that was seen within the window.
    inside: f64,
    /// With one that was not.
    outside: f64,
}

/// What one way to answer is expected to do, for each event.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Expected {
    /// Events not seen within the window that are called duplicates.
    pub false_duplicates: f64,
    /// Events seen within the window that are called unique.
    pub missed_duplicates: f64,
    pub penalty: f64,
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Readings that the standard answer calls a duplicate, at each place of the clock; equally likely places.
    met: Vec<Met>,
    /// Events that repeat an item of the window.
    pub repeats: f64,
    /// Live cells in the steady state.
    pub fill: f64,
}

impl Forecast {
    pub fn new(spec: &TimingSpec, traffic: &Traffic, seen: Seen) -> Self {
        let model = Model::new(spec, traffic, seen);
        let phases = (0..PHASES).map(|phase| (f64::from(phase) + 0.5) / f64::from(PHASES) * model.block);
        let met = phases.flat_map(|phase| model.readings(phase)).collect();
        Self { met, repeats: traffic.repeats(seen), fill: model.fill() }
    }

    /// The answer that misses nothing.
    pub fn standard(&self, penalties: &Penalties) -> Expected {
        self.expect(penalties, |_| true)
    }

    /// The answer that costs less if it is wrong.
    pub fn posterior(&self, penalties: &Penalties) -> Expected {
        let (false_duplicate, missed) = (penalties.false_duplicate(), penalties.missed_duplicate());
        self.expect(penalties, |met| false_duplicate * met.outside <= missed * met.inside)
    }

    /// No memory at all: every repeat is missed.
    pub fn forgetful(&self, penalties: &Penalties) -> Expected {
        let penalty = penalties.missed_duplicate() * self.repeats;
        Expected { false_duplicates: 0.0, missed_duplicates: self.repeats, penalty }
    }

    fn expect(&self, penalties: &Penalties, is_duplicate: impl Fn(&Met) -> bool) -> Expected {
        let mut expected = Expected::default();
        for met in &self.met {
            if is_duplicate(met) {
                expected.false_duplicates += met.outside / f64::from(PHASES);
            } else {
                expected.missed_duplicates += met.inside / f64::from(PHASES);
            }
        }
        expected.penalty = penalties.false_duplicate() * expected.false_duplicates
            + penalties.missed_duplicate() * expected.missed_duplicates;
        expected
    }
}

/// Ages and lengths in arrivals.
struct Model<'a> {
    spec: &'a TimingSpec,
    traffic: &'a Traffic,
    seen: Seen,
    window: f64,
    block: f64,
    /// How long timers live.
    memory: f64,
    /// p, or what false duplicates leave of it where only what is accepted is remembered.
    share: f64,
}

impl<'a> Model<'a> {
    fn new(spec: &'a TimingSpec, traffic: &'a Traffic, seen: Seen) -> Self {
        let drive = spec.drive();
        let per_unit = traffic.arrivals / drive.window() as f64;
        let remembered = match drive {
            Drive::Time { window_ms, lateness_ms, .. } => window_ms.saturating_add(lateness_ms),
            Drive::Count { window, .. } => window,
        };
        let (block, memory) = (drive.block() as f64 * per_unit, remembered as f64 * per_unit);
        let mut model =
            Self { spec, traffic, seen, window: traffic.arrivals, block, memory, share: traffic.item_share };
        if seen == Seen::First {
            model.settle();
        }
        model
    }

    /// False duplicates are not remembered and so make themselves rarer: where both agree is found by halving.
    fn settle(&mut self) {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..40 {
            let rate = (low + high) / 2.0;
            self.share = self.traffic.item_share * (1.0 - rate);
            if self.written(self.window) > rate { low = rate } else { high = rate }
        }
    }

    /// Readings from the youngest block to the one that the window's edge cuts.
    fn readings(&self, phase: f64) -> impl Iterator<Item = Met> + '_ {
        let blocks = (0..=self.spec.oldest_live_age()).map(move |age| {
            let end = phase + f64::from(age) * self.block;
            ((end - self.block).max(0.0), end)
        });
        // An item is called a duplicate until its whole block has left the window.
        let quiet = phase + libm::ceil((self.window - phase).max(0.0) / self.block) * self.block;
        blocks.take_while(|(from, _)| *from < self.window).map(move |(from, end)| self.met(from, end, quiet))
    }

    /// An item of the block reads so unless others wrote all its cells later; an older one if they did so by now, and not
    /// all of it later.
    fn met(&self, from: f64, end: f64, quiet: f64) -> Met {
        let (later, by_now) = (self.written(from), self.written(end));
        let (own, others, edge) = (1.0 - later, by_now - later, self.window);
        let ages = |from, to| self.ages(from, to, quiet);
        Met {
            inside: own * ages(from, end.min(edge)) + others * ages(end, edge),
            outside: own * ages(from.max(edge), end) + others * ages(end.max(edge), f64::INFINITY),
        }
    }

    /// Chance that an item was last remembered at an age in `from..to`. Where only what is accepted is remembered, an
    /// accepted item is quiet for a while, and ages within that are equally likely.
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

    /// Items written within the last `arrivals`.
    fn items(&self, arrivals: f64) -> f64 {
        match self.seen {
            Seen::Last => self.traffic.items_among(arrivals),
            Seen::First => {
                let accepted = self.share / self.traffic.item_share;
                accepted * arrivals / (1.0 + self.share * (self.window + self.block / 2.0))
            }
        }
    }

    /// Chance that others wrote all cells of an item within the last `arrivals`.
    fn written(&self, arrivals: f64) -> f64 {
        let items = self.items(arrivals);
        if items <= 0.0 { 0.0 } else { false_duplicates(self.spec, items) }
    }

    fn fill(&self) -> f64 {
        let items = self.items(self.memory + self.block / 2.0);
        -expm1(-items * f64::from(self.spec.cells_per_item()) / self.spec.cells() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_an_item_follows_from_the_share_of_distinct_ones() {
        for distinct in [0.05, 0.5, 0.9, 0.999] {
            let traffic = Traffic::new(1e6, distinct).unwrap();
            let share = traffic.items_among(1e6) / 1e6;
            assert!((share / distinct - 1.0).abs() < 1e-6, "{distinct}: {share}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_nearest_that_is_none() {
        for (arrivals, distinct) in [(0.0, 0.5), (f64::NAN, 0.5), (1e6, 0.0), (1e6, 1.5), (1e6, f64::NAN)] {
            let error = Traffic::new(arrivals, distinct).unwrap_err();
            let nearest = match error {
                TrafficError::Arrivals { nearest, .. } => Traffic::new(nearest, 1.0),
                TrafficError::Distinct { nearest, .. } => Traffic::new(1e6, nearest),
            };
            assert!(nearest.is_ok(), "{arrivals} {distinct}");
        }
    }

    #[test]
    fn the_posterior_never_expects_more_than_either_other_answer() {
        let spec = TimingSpec::count(100_000, 100_000).unwrap();
        for seen in [Seen::First, Seen::Last] {
            let forecast = Forecast::new(&spec, &Traffic::new(100_000.0, 0.8).unwrap(), seen);
            for (false_duplicate, missed) in [(1.0, 1.0), (10.0, 0.1), (0.0, 1.0), (1.0, 0.0)] {
                let penalties = Penalties::new(false_duplicate, missed).unwrap();
                let posterior = forecast.posterior(&penalties).penalty;
                assert!(posterior <= forecast.standard(&penalties).penalty);
                assert!(posterior <= forecast.forgetful(&penalties).penalty * (1.0 + 1e-9));
            }
        }
    }
}
