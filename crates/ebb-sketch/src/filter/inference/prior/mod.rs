//! A prior over ages that is learned from a sample: no model of the stream is needed.
//!
//! Items are sampled by fingerprint, and the last insert of each sampled item is stored exactly ([`sample`](self)). Each
//! sighting of a sampled item adds its age, or how long at least it was not inserted, to a histogram in quarter octaves; the
//! survival curve of these ages is the prior. Histograms fade with a half-life of one window. Memory is bounded: if too
//! many items are tracked, the sampling rate is halved.
//!
//! The share of repeats is estimated for the whole stream and for keys with repeats, and protected against floods of items
//! that never repeat. If the caller has a frequency estimate, there is one curve per half octave of frequency (a stratum).
//! Ages are in the unit of the caller's clock. The result depends only on the calls made.

mod codec;
mod curve;
mod flood;
mod repeat_share;
mod sample;
mod spec;
mod survival;

pub use curve::AgeCurve;
use curve::{CumulativeBins, NEVER, Tilt, below, bin_of};
use flood::{FloodDetector, QuarterTraffic};
pub use repeat_share::ShareEstimate;
use repeat_share::{RepeatShares, odds};
use sample::ItemSample;
pub use spec::{HORIZON_WINDOWS, ReuseError, ReuseSpec};
use survival::{AgeCounts, MAX_COUNT, SIGHTING};

use crate::hash::Fingerprint;

/// Number of strata, in half octaves of frequency.
const STRATA: usize = 16;
/// Index of the histogram over all strata.
const ALL: usize = STRATA;
/// Weight, in sightings, with which the overall histogram is mixed into a stratum.
const SHRINKAGE: f64 = 8.0;
/// Steps after which histograms fade by 2^(-1/4) and expired items leave: a quarter of a window.
const STEPS_PER_FADE: i64 = 16;
/// Sightings that are collected before the curves are rebuilt.
const MAX_PENDING: usize = 64;
/// A sample of n sightings cannot tell odds below this over n from zero, at three standard deviations.
const ZERO_BOUND: f64 = 9.0;
/// Standard deviations by which the share of repeats in a quarter of a window must differ from the earlier one to count as
/// a change of the stream.
const CHANGE_DEVIATIONS: f64 = 4.0;
/// By how much older sightings count less after a change.
const CHANGE_DIVISOR: u64 = 4;
/// Sightings before the prior is ready.
const MIN_SIGHTINGS: u64 = 64 * SIGHTING;

/// One sighting that is not in the histograms yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PendingSighting {
    stratum: u8,
    bin: u8,
    kind: SightingKind,
    key: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SightingKind {
    /// Inserted within the window.
    Repeat,
    /// Inserted before the window.
    Expired,
    /// Not inserted for at least the age of the bin.
    Censored,
}

/// A prior learned from a sample of the stream.
///
/// ```
/// use ebb_sketch::filter::inference::prior::{ReusePrior, ReuseSpec};
/// use ebb_sketch::hash::HashKey;
///
/// let (key, mut prior) = (HashKey::new([7; 16]), ReusePrior::new(ReuseSpec::new(1000, 64).unwrap()));
/// for now in 0..1000 {
///     let item = key.fingerprint(&[(now % 10) as u8]); // every item repeats after 10 units
///     prior.advance(now);
///     prior.record_sighting(prior.last_sighting(item, now), None, None);
///     prior.record_insert(item, now);
/// }
/// assert!(prior.is_ready() && prior.curve(None, None).between(8.0, 12.0) > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct ReusePrior {
    spec: ReuseSpec,
    sample: ItemSample,
    /// The clock in steps; derived values change only with it or when the pending sightings are added.
    step: Option<i64>,
    histograms: Vec<AgeCounts>,
    shares: RepeatShares,
    floods: FloodDetector,
    pending: Vec<PendingSighting>,
    /// Derived from the histograms.
    curves: Vec<CumulativeBins>,
    /// Derived: the tilt of keys without a share of their own.
    tilt: Tilt,
    /// Derived: the window, or the time since the filter began if that is shorter.
    known_window: u64,
    /// Derived: by how much the odds exceed those of the curve because a flood is discounted.
    flood: f64,
    /// Derived: by how much they do because the sample cannot tell smaller ones from zero.
    resolution: f64,
    /// Derived: enough sightings to be used.
    ready: bool,
    /// Derived: when the next step begins.
    next_step: i64,
    /// How often the derived values were computed; not stored.
    version: u64,
}

/// The last insert of an item before a sighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastSighting {
    /// Not sampled, or inserted later than the sighting.
    Unknown,
    /// Not within this time; nothing is known about what was before.
    NotWithin(u64),
    /// This long ago.
    Age(u64),
}

impl ReusePrior {
    /// A prior without observations.
    pub fn new(spec: ReuseSpec) -> Self {
        let mut prior = Self {
            spec,
            sample: ItemSample::new(),
            step: None,
            histograms: vec![AgeCounts::default(); STRATA + 1],
            shares: RepeatShares::default(),
            floods: FloodDetector::default(),
            pending: Vec::new(),
            curves: Vec::new(),
            tilt: Tilt { pivot: 0.0, odds: 1.0 },
            known_window: 0,
            flood: 1.0,
            resolution: 1.0,
            ready: false,
            next_step: i64::MIN,
            version: 0,
        };
        prior.derive();
        prior
    }

    /// Whether the item is in the sample.
    #[inline]
    pub fn is_sampled(&self, item: Fingerprint) -> bool {
        self.sample.contains(item)
    }

    /// Number of tracked items.
    pub fn tracked(&self) -> usize {
        self.sample.tracked.len()
    }

    /// Whether there are enough sightings to use the prior.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// When the sample began.
    pub fn started(&self) -> Option<i64> {
        self.sample.started
    }

    /// The window, or the time since the filter began if that is shorter, in whole steps of the prior's clock.
    #[inline]
    pub fn known_window(&self) -> u64 {
        self.known_window
    }

    /// Whether the key has a share of repeats of its own.
    #[inline]
    pub fn has_share(&self, key: Fingerprint) -> bool {
        !self.shares.keys.is_empty() && self.shares.keys.contains_key(&key.low())
    }

    /// Changes whenever curves change. Not part of the state.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The estimated share of sightings that repeat an item of the window.
    pub fn repeats(&self) -> ShareEstimate {
        self.shares.all.estimate()
    }

    /// The factor by which first sightings count less because they came in a flood: 1 in ordinary traffic.
    pub fn flood_discount(&self) -> f64 {
        1.0 / self.flood
    }

    /// The item's last insert as of `at`. If it was inserted later than `at` the answer is [`LastSighting::Unknown`].
    pub fn last_sighting(&self, item: Fingerprint, at: i64) -> LastSighting {
        self.sample.last_sighting(&self.spec, item, at)
    }

    /// Counts a sighting of a sampled item, with an estimate of its frequency and its key if the caller has them.
    pub fn record_sighting(&mut self, last: LastSighting, frequency: Option<f64>, key: Option<Fingerprint>) {
        let (age, kind) = match last {
            LastSighting::Unknown => return,
            LastSighting::NotWithin(known_for) => (known_for, SightingKind::Censored),
            LastSighting::Age(age) if age < self.spec.window => (age, SightingKind::Repeat),
            LastSighting::Age(age) => (age, SightingKind::Expired),
        };
        let scaled = bin_of((age / self.spec.unit()) as f64);
        let bin = match last {
            LastSighting::NotWithin(known_for) if known_for >= self.spec.horizon() => NEVER,
            _ => scaled.min(NEVER - 1),
        };
        let key = key.map(|key| key.low());
        self.pending.push(PendingSighting { stratum: stratum_of(frequency) as u8, bin: bin as u8, kind, key });
        if self.pending.len() >= MAX_PENDING {
            self.add_pending();
            self.derive();
        }
    }

    /// Stores that the item was inserted at `at`, if it is sampled.
    pub fn record_insert(&mut self, item: Fingerprint, at: i64) {
        let halvings = self.sample.record_insert(&self.spec, item, at);
        if halvings > 0 {
            // From now on, a sighting represents twice as many arrivals as before.
            self.scale_counts(|count| count.checked_shr(halvings).unwrap_or(0));
            self.floods.rescale(libm::exp2(-f64::from(halvings)));
            self.derive();
        }
    }

    /// Advances the clock; returns how many quarters of a window ended.
    #[inline]
    pub fn advance(&mut self, now: i64) -> u32 {
        if now < self.next_step { 0 } else { self.advance_to(now) }
    }

    fn advance_to(&mut self, now: i64) -> u32 {
        let (current, step) = (self.step, now.div_euclid(self.spec.step() as i64));
        self.step = Some(step);
        self.sample.started.get_or_insert(now);
        let fades = current
            .map_or(0, |current| step.div_euclid(STEPS_PER_FADE).saturating_sub(current.div_euclid(STEPS_PER_FADE)));
        let fades = u32::try_from(fades).unwrap_or(u32::MAX);
        if fades > 0 {
            self.scale_counts(|count| faded(count, fades));
            self.shares.forget_idle_keys();
            self.follow(fades);
            if self.sample.expire(&self.spec, now) {
                self.scale_counts(|count| count.saturating_mul(2).min(MAX_COUNT));
                self.floods.rescale(2.0);
            }
        }
        self.derive();
        fades
    }

    /// Adapts to the quarter that ended. A share of repeats that changed beyond chance makes older sightings count less.
    fn follow(&mut self, quarters: u32) {
        let (now, window) = (self.now(), self.spec.window);
        match self.floods.end_quarters(quarters) {
            QuarterTraffic::Unknown => {}
            QuarterTraffic::Flood { share } => self.shares.all.hold_peak(share, now, window),
            QuarterTraffic::Calm(quarter) => {
                let before = self.shares.all.estimate().share;
                let (share, deviation) = quarter.share_and_deviation(before);
                self.shares.all.lower_peak(share + CHANGE_DEVIATIONS * deviation);
                let is_change = (share - before).abs() > CHANGE_DEVIATIONS * deviation;
                if is_change && self.histograms[ALL].total() > 2 * CHANGE_DIVISOR * MIN_SIGHTINGS {
                    self.scale_counts(|count| count / CHANGE_DIVISOR);
                }
            }
        }
    }

    fn scale_counts(&mut self, scale: impl Fn(u64) -> u64) {
        self.add_pending();
        self.histograms.iter_mut().flat_map(AgeCounts::counts_mut).for_each(|count| *count = scale(*count));
        self.shares.fade(&scale);
    }

    fn add_pending(&mut self) {
        for sighting in self.pending.drain(..) {
            let (stratum, bin) = (usize::from(sighting.stratum), usize::from(sighting.bin));
            for histogram in [ALL, stratum].iter().take(if stratum == ALL { 1 } else { 2 }) {
                let histogram = &mut self.histograms[*histogram];
                let counts = match sighting.kind {
                    SightingKind::Repeat | SightingKind::Expired => &mut histogram.observed,
                    SightingKind::Censored => &mut histogram.censored,
                };
                counts[bin] = (counts[bin] + SIGHTING).min(MAX_COUNT);
            }
            let is_repeat = sighting.kind == SightingKind::Repeat;
            self.shares.record(sighting.key, is_repeat);
            self.floods.record(is_repeat);
        }
        let now = self.now();
        self.shares.raise_peaks(now, self.spec.window);
    }

    /// The clock of the derived values.
    fn now(&self) -> i64 {
        self.step.unwrap_or(0).saturating_mul(self.spec.step() as i64)
    }

    /// The time since the sample began, rounded up to a step.
    fn elapsed(&self) -> u64 {
        let since = self.sample.started.map_or(0, |started| self.now().saturating_sub(started).max(0) as u64);
        since.saturating_add(self.spec.step())
    }

    /// The window, or the time since the sample began if that is shorter, in units.
    fn pivot(&self) -> f64 {
        self.elapsed().min(self.spec.window) as f64 / self.spec.unit() as f64
    }

    /// Recomputes everything that is not stored.
    fn derive(&mut self) {
        self.version += 1;
        self.next_step = self.step.map_or(i64::MIN, |step| (step + 1).saturating_mul(self.spec.step() as i64));
        let is_whole = self.sample.predated;
        self.known_window = if is_whole { self.spec.window } else { self.elapsed().min(self.spec.window) };
        let (pivot, all) = (self.pivot(), &self.histograms[ALL]);
        let total = all.total();
        // A sample that is younger than the filter's memory cannot explain it until a window has passed.
        let covers_memory = !self.sample.predated || self.elapsed() > self.spec.window;
        self.ready = total >= MIN_SIGHTINGS && covers_memory;
        let weight = if total == 0 { 0.0 } else { SHRINKAGE * SIGHTING as f64 / total as f64 };
        let curve = |(stratum, counts): (usize, &AgeCounts)| match stratum {
            ALL => counts.curve(counts, 0.0, pivot),
            _ => counts.curve(all, weight, pivot),
        };
        self.curves = self.histograms.iter().enumerate().map(curve).collect();
        let current = self.current_odds();
        let floor = odds(self.shares.all.floor(self.now(), self.spec.window));
        self.flood = (floor / current).max(1.0);
        self.resolution = ZERO_BOUND / (total as f64 / SIGHTING as f64).max(1.0) / current;
        // One standard deviation above the estimate: a sample that is too small must not decide against a repeat.
        let estimate = self.shares.all.estimate();
        let uncertainty = odds((estimate.share + estimate.upper) / 2.0) / odds(estimate.share);
        self.tilt = Tilt { pivot, odds: self.flood.max(self.resolution).max(uncertainty) };
    }

    /// The odds of a repeat in the overall curve.
    fn current_odds(&self) -> f64 {
        odds(below(&self.curves[ALL], self.pivot()))
    }

    /// The learned distribution of ages: over all items or over those of about this frequency, for all keys or for one.
    #[inline]
    pub fn curve(&self, frequency: Option<f64>, key: Option<Fingerprint>) -> AgeCurve<'_> {
        let tilt = match key.and_then(|key| self.shares.keys.get(&key.low())) {
            None => self.tilt,
            Some(share) => {
                let floor = odds(share.floor(self.now(), self.spec.window)) / self.current_odds();
                let own = self.shares.relative_odds(share).max(floor);
                Tilt { odds: own.max(self.resolution), ..self.tilt }
            }
        };
        AgeCurve::new(&self.curves[stratum_of(frequency)], self.spec.unit() as f64, tilt)
    }
}

/// Fades a count by 2^(-1/4) per quarter of a window.
fn faded(count: u64, quarters: u32) -> u64 {
    const NUMERATOR: [u64; 4] = [65_536, 55_109, 46_341, 38_968];
    let halved = count.checked_shr(quarters / 4).unwrap_or(0);
    ((u128::from(halved) * u128::from(NUMERATOR[quarters as usize % 4])) >> 16) as u64
}

fn stratum_of(frequency: Option<f64>) -> usize {
    match frequency {
        Some(frequency) if frequency >= 0.0 => (2.0 * libm::log2(frequency + 1.0)).min(STRATA as f64 - 1.0) as usize,
        _ => ALL,
    }
}
