//! Ages at which items come again, learned from a sample: a prior that needs no model of the stream.
//!
//! Items are sampled by their fingerprint; for the sampled ones the last insert is remembered exactly. Each sighting of
//! one adds its age (or "never, or beyond the horizon") to a histogram in quarter octaves, which is halved once every
//! horizon. Memory is bounded: when too many items would be followed, every second one is let go.
//!
//! With strata there is one histogram for every half octave of a frequency estimate that the caller has anyway.
//! Ages are in the units of the caller's clock. What is learned depends only on the calls made.

mod codec;
mod curve;

use std::collections::BTreeMap;

use thiserror::Error;

pub use curve::AgeCurve;
use curve::{BEGINS, BINS, Cumulative, NEVER, bin_of};

use crate::hash::Fingerprint;
use crate::random::mix;

/// Half octaves of frequency.
const STRATA: usize = 16;
/// The histogram over all strata.
const ALL: usize = STRATA;
/// One sighting, so that halving keeps fractions.
const SIGHTING: u64 = 256;
/// No bin counts further than this: sums of bins stay below the edge.
const COUNT_MOST: u64 = 1 << 56;
/// A stratum leans on the whole as if it had seen so many of its sightings.
const SHRINKAGE: f64 = 8.0;
/// Horizon and half-life, in windows.
pub const HORIZON_WINDOWS: u64 = 8;
/// Sightings that wait before the curves are drawn anew.
const PENDING_MOST: usize = 64;
/// Sightings before the curves mean anything.
const SIGHTINGS_LEAST: u64 = 64 * SIGHTING;

/// What a reuse prior is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReuseSpec {
    window: u64,
    followed_most: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReuseError {
    #[error("a window of {given} cannot be learned from; the nearest is {nearest}")]
    Window { given: u64, nearest: u64 },
    #[error("{given} followed items are too few or too many to learn from; the nearest is {nearest}")]
    Followed { given: u32, nearest: u32 },
}

impl ReuseSpec {
    /// `window` in units of the clock; `followed_most` bounds the items whose last insert is remembered.
    pub fn new(window: u64, followed_most: u32) -> Result<Self, ReuseError> {
        let nearest = window.clamp(1, 1 << 56);
        if nearest != window {
            return Err(ReuseError::Window { given: window, nearest });
        }
        let nearest = followed_most.clamp(16, 1 << 20);
        if nearest != followed_most {
            return Err(ReuseError::Followed { given: followed_most, nearest });
        }
        Ok(Self { window, followed_most })
    }

    /// Ages are counted in this many units of the clock: finer would not show in any answer.
    fn unit(&self) -> u64 {
        (self.window >> 16).max(1)
    }

    fn horizon(&self) -> u64 {
        self.window * HORIZON_WINDOWS
    }
}

type Histogram = [u64; BINS];

/// See the module.
#[derive(Debug, Clone)]
pub struct ReusePrior {
    spec: ReuseSpec,
    /// One item in 2^level is followed.
    level: u8,
    /// Items that only the present level admits have no past before this.
    settled_at: i64,
    /// When the histograms are halved next; `None` before the first sighting.
    halve_at: Option<i64>,
    followed: BTreeMap<u64, i64>,
    histograms: Vec<Histogram>,
    /// (stratum, bin) of sightings not yet in the histograms.
    pending: Vec<(u8, u8)>,
    /// Drawn from the histograms.
    curves: Vec<Cumulative>,
    /// Derived: enough sightings to speak.
    ready: bool,
}

/// A sampled item's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Past {
    /// Not in the sample, or not for long enough.
    Unknown,
    /// Not inserted within the horizon.
    Never,
    /// Inserted so long ago.
    Age(u64),
}

impl ReusePrior {
    pub fn new(spec: ReuseSpec) -> Self {
        let mut prior = Self {
            spec,
            level: 0,
            settled_at: i64::MIN,
            halve_at: None,
            followed: BTreeMap::new(),
            histograms: vec![[0; BINS]; STRATA + 1],
            pending: Vec::new(),
            curves: vec![[(0.0, 0.0); BINS]; STRATA + 1],
            ready: false,
        };
        prior.draw_curves();
        prior
    }

    /// Whether the item belongs to the sample.
    #[inline]
    pub fn samples(&self, item: Fingerprint) -> bool {
        chosen(sample_key(item), self.level)
    }

    /// Items followed now.
    pub fn followed(&self) -> usize {
        self.followed.len()
    }

    /// Enough sightings to speak.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// How old the item's last insert is at `at`, on the clock's scale. An item inserted later than that is unknown.
    pub fn past(&self, item: Fingerprint, at: i64) -> Past {
        let key = sample_key(item);
        if !chosen(key, self.level) {
            return Past::Unknown;
        }
        match self.followed.get(&key) {
            Some(last) => match u64::try_from(at.saturating_sub(*last)) {
                Ok(age) if age < self.spec.horizon() => Past::Age(age),
                Ok(_) => Past::Never,
                Err(_) => Past::Unknown,
            },
            // A sample that was just widened knows nothing yet of those it took in.
            None if at < self.settled_at && !chosen(key, self.level + 1) => Past::Unknown,
            None => Past::Never,
        }
    }

    /// Counts a sighting of a sampled item. `frequency`: how often it comes, where the caller has an estimate.
    pub fn sighted(&mut self, past: Past, frequency: Option<f64>) {
        let bin = match past {
            Past::Unknown => return,
            Past::Never => NEVER,
            Past::Age(age) => bin_of((age / self.spec.unit()) as f64).min(NEVER - 1),
        };
        self.pending.push((stratum_of(frequency) as u8, bin as u8));
        if self.pending.len() >= PENDING_MOST {
            self.draw_curves();
        }
    }

    /// Remembers that the item was inserted at `at`, if it is in the sample.
    pub fn inserted(&mut self, item: Fingerprint, at: i64) {
        let key = sample_key(item);
        if !chosen(key, self.level) {
            return;
        }
        let last = self.followed.entry(key).or_insert(at);
        *last = at.max(*last);
        while self.followed.len() > self.spec.followed_most as usize {
            self.level += 1;
            let level = self.level;
            self.followed.retain(|key, _| chosen(*key, level));
            // From now on a sighting stands for twice as many arrivals as those that were counted.
            self.fade(1);
        }
    }

    /// Lets the past fade as the clock moves; returns how many times it was halved.
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
        self.followed.retain(|_, last| *last > oldest);
        if self.level > 0 && self.followed.len() * 4 < self.spec.followed_most as usize {
            self.level -= 1;
            self.settled_at = now.saturating_add(horizon);
            self.histograms.iter_mut().flatten().for_each(|count| *count = count.saturating_mul(2).min(COUNT_MOST));
            self.draw_curves();
        }
        halvings
    }

    fn fade(&mut self, times: u32) {
        self.draw_curves();
        for count in self.histograms.iter_mut().flatten() {
            *count = count.checked_shr(times).unwrap_or(0);
        }
        self.draw_curves();
    }

    /// The learned ages, of all items or of those of about this frequency.
    #[inline]
    pub fn curve(&self, frequency: Option<f64>) -> AgeCurve<'_> {
        AgeCurve::new(&self.curves[stratum_of(frequency)], self.spec.unit() as f64)
    }

    fn draw_curves(&mut self) {
        for (stratum, bin) in self.pending.drain(..) {
            self.histograms[ALL][usize::from(bin)] += SIGHTING;
            if usize::from(stratum) != ALL {
                self.histograms[usize::from(stratum)][usize::from(bin)] += SIGHTING;
            }
        }
        let whole = self.histograms[ALL];
        let all: u64 = whole.iter().sum();
        self.ready = all >= SIGHTINGS_LEAST;
        for (stratum, curve) in self.curves.iter_mut().enumerate() {
            let counts = &self.histograms[stratum];
            let sum: u64 = counts.iter().sum();
            let lean = if stratum == ALL || all == 0 { 0.0 } else { SHRINKAGE * SIGHTING as f64 };
            let (scale, mut below) = ((sum as f64 + lean).max(1.0), 0.0);
            for (bin, (start, slope)) in curve.iter_mut().enumerate() {
                *start = below;
                let share = (counts[bin] as f64 + lean * whole[bin] as f64 / (all as f64).max(1.0)) / scale;
                *slope = if bin == NEVER { 0.0 } else { share / (BEGINS[bin + 1] - BEGINS[bin]) };
                below += share;
            }
        }
    }
}

fn sample_key(item: Fingerprint) -> u64 {
    mix(item.low() ^ 0x5A4D_504C_4544)
}

fn chosen(key: u64, level: u8) -> bool {
    key.leading_zeros() >= u32::from(level)
}

fn stratum_of(frequency: Option<f64>) -> usize {
    match frequency {
        Some(frequency) if frequency >= 0.0 => (2.0 * libm::log2(frequency + 1.0)).min(STRATA as f64 - 1.0) as usize,
        _ => ALL,
    }
}
