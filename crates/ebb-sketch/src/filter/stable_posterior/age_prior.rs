//! Prior probabilities of the ages of an [`AgeGrid`]: from a constant share of arrivals, or learned from a sample of items
//! whose ages are known exactly.

use std::collections::BTreeMap;

use super::MAX_ARRIVALS;
use super::likelihood::{AGES, AgeGrid};
use crate::codec::{CodecError, Reader, Writer};
use crate::filter::belief::ArrivalShare;
use crate::hash::Fingerprint;
use crate::random::mix;

/// One mass per age of the grid, and one for "never".
pub type AgeShares = [f64; AGES + 1];

/// Sampled arrivals after which a learned prior is used.
const MIN_SIGHTINGS: u64 = 256;
/// Items of which the last arrival is known.
const MAX_ITEMS: usize = 4096;
/// The mass with which learning starts and which stays: one arrival in ten is taken for a repeat until the stream says
/// otherwise, and no age ever becomes impossible.
const INITIAL_MASS: f64 = 5.0;
const INITIAL_INSIDE: f64 = 0.1;
/// Windows, and arrivals, after which older ages count half.
const HALVING_WINDOWS: u64 = 2;
const MIN_HALVING: u64 = 2048;
/// Makes the sample independent of the cells that an item maps to.
const SAMPLING_SALT: u64 = 0x5a6d_706c_655f_6167;

/// The ages of an item with a constant share of arrivals: geometric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharePrior(AgeShares);

impl SharePrior {
    /// The mass of each age of the grid.
    pub fn new(grid: &AgeGrid, share: ArrivalShare) -> Self {
        let absent = |arrivals: f64| libm::exp(arrivals * share.log_complement());
        let mut masses = [0.0; AGES + 1];
        for (index, (from, to)) in grid.ranges().enumerate() {
            masses[index] = absent(from) * -libm::expm1((to - from) * share.log_complement());
        }
        masses[AGES] = absent(grid.end());
        Self(masses)
    }

    /// The masses.
    pub fn masses(&self) -> &AgeShares {
        &self.0
    }
}

/// The ages of the arrivals of sampled items, counted.
///
/// Items are sampled by their fingerprints, so that all arrivals of an item are known or none. The sample starts with all
/// items and is halved whenever it is full.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledAges {
    grid: AgeGrid,
    /// Arrivals so far.
    arrivals: u64,
    /// Items whose hash is at most this are sampled.
    threshold: u64,
    /// The arrival number of the last arrival of each sampled item.
    last: BTreeMap<Fingerprint, u64>,
    /// Arrivals of sampled items.
    sightings: u64,
    counts: AgeShares,
    next_halving: u64,
    /// The counts with the initial mass, as shares: recomputed from them, not stored.
    shares: AgeShares,
}

impl SampledAges {
    /// Nothing learned yet.
    pub fn new(grid: AgeGrid) -> Self {
        let mut sampled = Self {
            grid,
            arrivals: 0,
            threshold: u64::MAX,
            last: BTreeMap::new(),
            sightings: 0,
            counts: [0.0; AGES + 1],
            next_halving: Self::halving_interval(&grid),
            shares: [0.0; AGES + 1],
        };
        sampled.normalise();
        sampled
    }

    fn halving_interval(grid: &AgeGrid) -> u64 {
        (HALVING_WINDOWS * grid.window()).max(MIN_HALVING)
    }

    fn normalise(&mut self) {
        let total: f64 = self.counts.iter().sum::<f64>() + INITIAL_MASS;
        let (end, ranges) = (self.grid.end(), self.grid.ranges().map(|(from, to)| to - from));
        let initial = ranges.map(|length| INITIAL_INSIDE * length / end).chain([1.0 - INITIAL_INSIDE]);
        for ((share, count), initial) in self.shares.iter_mut().zip(&self.counts).zip(initial) {
            *share = (count + INITIAL_MASS * initial) / total;
        }
    }

    /// Adds one arrival.
    pub fn add(&mut self, item: Fingerprint) {
        let now = self.arrivals;
        self.arrivals += 1;
        if self.arrivals >= self.next_halving {
            self.next_halving = self.arrivals + Self::halving_interval(&self.grid);
            self.counts.iter_mut().for_each(|count| *count /= 2.0);
        }
        if mix(item.low() ^ SAMPLING_SALT) > self.threshold {
            return;
        }
        let age = self.last.insert(item, now).map(|before| now - before - 1);
        self.counts[age.map_or(AGES, |age| self.grid.index_of(age))] += 1.0;
        self.sightings += 1;
        if self.last.len() > MAX_ITEMS {
            self.shrink();
        }
        self.normalise();
    }

    /// Forgets items of which nothing more can be learned; if that is not enough, halves the sample.
    fn shrink(&mut self) {
        let (now, end) = (self.arrivals, self.grid.end() as u64);
        self.last.retain(|_, last| now - *last <= end);
        while self.last.len() > MAX_ITEMS / 2 {
            self.threshold /= 2;
            let threshold = self.threshold;
            self.last.retain(|item, _| mix(item.low() ^ SAMPLING_SALT) <= threshold);
        }
    }

    /// Whether enough arrivals of sampled items were seen.
    pub fn is_ready(&self) -> bool {
        self.sightings >= MIN_SIGHTINGS
    }

    /// The share of each age among arrivals.
    pub fn shares(&self) -> &AgeShares {
        &self.shares
    }

    /// The share of arrivals that repeat an item of the window.
    pub fn inside(&self) -> f64 {
        self.shares[..self.grid.inside_ages()].iter().sum()
    }

    /// Bytes of the sampled items, without the overhead of the tree.
    pub fn memory_bytes(&self) -> u64 {
        (self.last.len() * size_of::<(Fingerprint, u64)>()) as u64
    }

    /// Appends sample and counts.
    pub fn encode(&self, writer: &mut Writer) {
        [self.arrivals, self.threshold, self.sightings, self.next_halving].into_iter().for_each(|n| writer.u64(n));
        self.counts.iter().for_each(|count| writer.f64(*count));
        writer.varint(self.last.len() as u64);
        for (item, last) in &self.last {
            writer.u128(item.0);
            writer.varint(*last);
        }
    }

    /// Reads what [`SampledAges::encode`] wrote for the same grid.
    pub fn decode(grid: AgeGrid, reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut sampled = Self::new(grid);
        sampled.arrivals = reader.u64()?;
        sampled.threshold = reader.u64()?;
        sampled.sightings = reader.u64()?;
        sampled.next_halving = reader.u64()?;
        for count in &mut sampled.counts {
            *count = reader.f64()?;
        }
        for _ in 0..reader.count(17)? {
            let item = Fingerprint(reader.u128()?);
            sampled.last.insert(item, reader.varint()?);
        }
        let is_valid = sampled.counts.iter().all(|count| (0.0..1e18).contains(count))
            && [sampled.arrivals, sampled.sightings, sampled.next_halving].iter().all(|count| *count < MAX_ARRIVALS)
            && sampled.last.len() <= MAX_ITEMS
            && sampled.last.values().all(|last| *last < sampled.arrivals);
        if !is_valid {
            return Err(CodecError::invalid("sampled ages", "a count or an arrival number is out of range"));
        }
        sampled.normalise();
        Ok(sampled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(x: u64) -> Fingerprint {
        Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
    }

    #[test]
    fn ages_are_learned_also_when_the_sample_shrinks() {
        // Every item comes twice, 300 arrivals apart: half of the arrivals have age 299.
        for window in [200u64, 20_000] {
            let grid = AgeGrid::new(window);
            let mut sampled = SampledAges::new(grid);
            (0..60_000u64).for_each(|n| sampled.add(item(n / 600 * 300 + n % 300)));
            assert!(sampled.is_ready() && sampled.last.len() <= MAX_ITEMS);
            assert_eq!(sampled.threshold < u64::MAX, window == 20_000, "the sample is halved only if it must be");
            let at = sampled.shares()[grid.index_of(299)];
            assert!((at - 0.5).abs() < 0.02, "{window}: {at}");
            let inside = if window > 299 { 0.5 } else { 0.0 };
            assert!((sampled.inside() - inside).abs() < 0.02, "{window}: {}", sampled.inside());
        }
    }

    #[test]
    fn no_age_is_impossible_and_shares_sum_to_one() {
        let mut sampled = SampledAges::new(AgeGrid::new(100));
        (0..20_000).for_each(|n| sampled.add(item(n)));
        assert!(sampled.shares().iter().all(|share| *share > 0.0) && sampled.inside() < 0.001);
        assert!((sampled.shares().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_constant_share_gives_geometric_ages() {
        let grid = AgeGrid::new(1_000);
        let prior = SharePrior::new(&grid, ArrivalShare::new(1e-3).unwrap());
        let inside: f64 = prior.masses()[..grid.inside_ages()].iter().sum();
        assert!((inside - (1.0 - libm::exp(1_000.0 * libm::log1p(-1e-3)))).abs() < 1e-12);
        assert!((prior.masses().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
