//! A prior over ages that is learned from a sample: no model of the stream is needed.
//!
//! Items are sampled by fingerprint, and the last insert of each sampled item is stored exactly. Each sighting of a sampled
//! item adds its age (or "never, or beyond the horizon") to a histogram in quarter octaves, which is halved once per
//! horizon. Memory is bounded: if too many items are tracked, the sampling rate is halved.
//!
//! If the caller has a frequency estimate, there is one histogram per half octave of frequency (a stratum). Ages are in the
//! unit of the caller's clock. The result depends only on the calls made.

mod codec;
mod curve;

use std::collections::BTreeMap;

use thiserror::Error;

pub use curve::AgeCurve;
use curve::{BEGINS, BINS, CumulativeBins, NEVER, bin_of};

use crate::hash::Fingerprint;
use crate::random::mix;

/// Number of strata, in half octaves of frequency.
const STRATA: usize = 16;
/// Index of the histogram over all strata.
const ALL: usize = STRATA;
/// Weight of one sighting; halving keeps fractions.
const SIGHTING: u64 = 256;
/// Upper bound of a bin, so that sums of bins cannot overflow.
const MAX_COUNT: u64 = 1 << 56;
/// Weight, in sightings, with which the overall histogram is mixed into a stratum.
const SHRINKAGE: f64 = 8.0;
/// Horizon and half-life of the histograms, in windows.
pub const HORIZON_WINDOWS: u64 = 8;
/// Sightings that are collected before the curves are rebuilt.
const MAX_PENDING: usize = 64;
/// Sightings before the prior is ready.
const MIN_SIGHTINGS: u64 = 64 * SIGHTING;

/// Valid parameters of a reuse prior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReuseSpec {
    window: u64,
    max_tracked: u32,
}

/// A window or a sample size out of range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ReuseError {
    #[error("a window of {requested} is too short or too long to learn from; the nearest is {nearest}")]
    Window { requested: u64, nearest: u64 },
    #[error("{requested} tracked items are too few or too many to learn from; the nearest is {nearest}")]
    Tracked { requested: u32, nearest: u32 },
}

impl ReuseSpec {
    /// `window` in the clock's unit; `max_tracked` bounds the number of tracked items.
    pub fn new(window: u64, max_tracked: u32) -> Result<Self, ReuseError> {
        let nearest = window.clamp(1, 1 << 56);
        if nearest != window {
            return Err(ReuseError::Window { requested: window, nearest });
        }
        let nearest = max_tracked.clamp(16, 1 << 20);
        if nearest != max_tracked {
            return Err(ReuseError::Tracked { requested: max_tracked, nearest });
        }
        Ok(Self { window, max_tracked })
    }

    /// Resolution of ages, in the clock's unit: a finer one would not change any answer.
    fn unit(&self) -> u64 {
        (self.window >> 16).max(1)
    }

    fn horizon(&self) -> u64 {
        self.window * HORIZON_WINDOWS
    }
}

type AgeHistogram = [u64; BINS];

/// A prior learned from a sample of the stream.
///
/// ```
/// use ebb_sketch::filter::inference::prior::{ReusePrior, ReuseSpec};
/// use ebb_sketch::hash::HashKey;
///
/// let (key, mut prior) = (HashKey::new([7; 16]), ReusePrior::new(ReuseSpec::new(1000, 64).unwrap()));
/// for now in 0..1000 {
///     let item = key.fingerprint(&[(now % 10) as u8]); // every item repeats after 10 units
///     prior.record_sighting(prior.last_sighting(item, now), None);
///     prior.record_insert(item, now);
/// }
/// assert!(prior.is_ready() && prior.curve(None).between(8.0, 12.0) > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct ReusePrior {
    spec: ReuseSpec,
    /// One item in 2^level is sampled.
    level: u8,
    /// Until this time, items that only the present level samples have an incomplete history.
    complete_from: i64,
    /// When the histograms are halved next; `None` before the first advance.
    halve_at: Option<i64>,
    /// Sampled items and their last insert.
    tracked: BTreeMap<u64, i64>,
    histograms: Vec<AgeHistogram>,
    /// (stratum, bin) of the sightings that are not in the histograms yet.
    pending: Vec<(u8, u8)>,
    /// Derived from the histograms.
    curves: Vec<CumulativeBins>,
    /// Derived: enough sightings to be used.
    ready: bool,
}

/// The last insert of an item before a sighting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastSighting {
    /// Not sampled, or not for long enough.
    Unknown,
    /// Not within the horizon.
    Never,
    /// This long ago.
    Age(u64),
}

impl ReusePrior {
    /// A prior without observations.
    pub fn new(spec: ReuseSpec) -> Self {
        let mut prior = Self {
            spec,
            level: 0,
            complete_from: i64::MIN,
            halve_at: None,
            tracked: BTreeMap::new(),
            histograms: vec![[0; BINS]; STRATA + 1],
            pending: Vec::new(),
            curves: vec![[(0.0, 0.0); BINS]; STRATA + 1],
            ready: false,
        };
        prior.rebuild_curves();
        prior
    }

    /// Whether the item is in the sample.
    #[inline]
    pub fn is_sampled(&self, item: Fingerprint) -> bool {
        is_chosen(sample_key(item), self.level)
    }

    /// Number of tracked items.
    pub fn tracked(&self) -> usize {
        self.tracked.len()
    }

    /// Whether there are enough sightings to use the prior.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The item's last insert as of `at`. If it was inserted later than `at` the answer is [`LastSighting::Unknown`].
    pub fn last_sighting(&self, item: Fingerprint, at: i64) -> LastSighting {
        let key = sample_key(item);
        if !is_chosen(key, self.level) {
            return LastSighting::Unknown;
        }
        match self.tracked.get(&key) {
            Some(last) => match u64::try_from(at.saturating_sub(*last)) {
                Ok(age) if age < self.spec.horizon() => LastSighting::Age(age),
                Ok(_) => LastSighting::Never,
                Err(_) => LastSighting::Unknown,
            },
            // Right after the sample was widened, nothing is known about the added items.
            None if at < self.complete_from && !is_chosen(key, self.level + 1) => LastSighting::Unknown,
            None => LastSighting::Never,
        }
    }

    /// Counts a sighting of a sampled item, with an estimate of its frequency if the caller has one.
    pub fn record_sighting(&mut self, last: LastSighting, frequency: Option<f64>) {
        let bin = match last {
            LastSighting::Unknown => return,
            LastSighting::Never => NEVER,
            LastSighting::Age(age) => bin_of((age / self.spec.unit()) as f64).min(NEVER - 1),
        };
        self.pending.push((stratum_of(frequency) as u8, bin as u8));
        if self.pending.len() >= MAX_PENDING {
            self.rebuild_curves();
        }
    }

    /// Stores that the item was inserted at `at`, if it is sampled.
    pub fn record_insert(&mut self, item: Fingerprint, at: i64) {
        let key = sample_key(item);
        if !is_chosen(key, self.level) {
            return;
        }
        let last = self.tracked.entry(key).or_insert(at);
        *last = at.max(*last);
        while self.tracked.len() > self.spec.max_tracked as usize {
            self.level += 1;
            let level = self.level;
            self.tracked.retain(|key, _| is_chosen(*key, level));
            // From now on, a sighting represents twice as many arrivals as before.
            self.fade(1);
        }
    }

    /// Advances the clock and decays the histograms; returns how often they were halved.
    #[inline]
    pub fn advance(&mut self, now: i64) -> u32 {
        let horizon = self.spec.horizon() as i64;
        let Some(halve_at) = self.halve_at else {
            self.halve_at = Some(now.saturating_add(horizon));
            return 0;
        };
        if now < halve_at {
            return 0;
        }
        let times = 1 + now.saturating_sub(halve_at) / horizon;
        let halvings = u32::try_from(times).unwrap_or(u32::MAX);
        self.fade(halvings);
        self.halve_at = Some(halve_at.saturating_add(times.saturating_mul(horizon)));
        let oldest = now.saturating_sub(horizon);
        self.tracked.retain(|_, last| *last > oldest);
        if self.level > 0 && self.tracked.len() * 4 < self.spec.max_tracked as usize {
            self.level -= 1;
            self.complete_from = now.saturating_add(horizon);
            self.histograms.iter_mut().flatten().for_each(|count| *count = count.saturating_mul(2).min(MAX_COUNT));
            self.rebuild_curves();
        }
        halvings
    }

    fn fade(&mut self, times: u32) {
        self.rebuild_curves();
        for count in self.histograms.iter_mut().flatten() {
            *count = count.checked_shr(times).unwrap_or(0);
        }
        self.rebuild_curves();
    }

    /// The learned distribution of ages, over all items or over those of about this frequency.
    #[inline]
    pub fn curve(&self, frequency: Option<f64>) -> AgeCurve<'_> {
        AgeCurve::new(&self.curves[stratum_of(frequency)], self.spec.unit() as f64)
    }

    fn rebuild_curves(&mut self) {
        for (stratum, bin) in self.pending.drain(..) {
            self.histograms[ALL][usize::from(bin)] += SIGHTING;
            if usize::from(stratum) != ALL {
                self.histograms[usize::from(stratum)][usize::from(bin)] += SIGHTING;
            }
        }
        let whole = self.histograms[ALL];
        let all: u64 = whole.iter().sum();
        self.ready = all >= MIN_SIGHTINGS;
        for (stratum, curve) in self.curves.iter_mut().enumerate() {
            let counts = &self.histograms[stratum];
            let sum: u64 = counts.iter().sum();
            let shrinkage = if stratum == ALL || all == 0 { 0.0 } else { SHRINKAGE * SIGHTING as f64 };
            let (scale, mut below) = ((sum as f64 + shrinkage).max(1.0), 0.0);
            for (bin, (start, slope)) in curve.iter_mut().enumerate() {
                *start = below;
                let share = (counts[bin] as f64 + shrinkage * whole[bin] as f64 / (all as f64).max(1.0)) / scale;
                *slope = if bin == NEVER { 0.0 } else { share / (BEGINS[bin + 1] - BEGINS[bin]) };
                below += share;
            }
        }
    }
}

fn sample_key(item: Fingerprint) -> u64 {
    mix(item.low() ^ 0x5A4D_504C_4544)
}

fn is_chosen(key: u64, level: u8) -> bool {
    key.leading_zeros() >= u32::from(level)
}

fn stratum_of(frequency: Option<f64>) -> usize {
    match frequency {
        Some(frequency) if frequency >= 0.0 => (2.0 * libm::log2(frequency + 1.0)).min(STRATA as f64 - 1.0) as usize,
        _ => ALL,
    }
}
