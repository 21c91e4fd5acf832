//! Decayed counts without sweeps (forward decay): observations are added with weights that grow with time.
//!
//! A cell holds Σ 2^((time − landmark) / half-life); an answer divides by the same power of the query time. Advancing time
//! is free, except that every few hundred half-lives the landmark moves and all cells are divided by a power of two.
//! Guarantee: an answer is never below the true decayed count, whatever the order of times. Weights, sums and answers are
//! rounded up, divisions are exact or rounded up, and other items only add.

use super::DecayedCount;
use super::rounding::{add_up, inverse_up, power_up};
use super::weight::ObservationWeight;
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::cells::CellMemory;
use crate::filter::structure::cells::words::{get_f64, put_f64};
use crate::filter::structure::layout::{CellHasher, CellLayout};
use crate::hash::Fingerprint;

pub(super) const KIND: Kind = *b"frqf";
const VERSION: u16 = 1;

/// Half-lives after which the landmark moves: the sum of 2^511 observations is still finite.
const SHIFT_AFTER: f64 = 512.0;
const MAX_HALF_LIFE_MS: u64 = 1 << 53;

/// Valid parameters of the forward method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForwardSpec {
    hasher: CellHasher,
    half_life_ms: u64,
}

impl ForwardSpec {
    /// `hashes` cells of eight bytes per item.
    pub fn new(layout: CellLayout, hashes: u8, half_life_ms: u64) -> Result<Self, ParameterError> {
        check_range("half_life", half_life_ms, 1..=MAX_HALF_LIFE_MS, "it is in milliseconds, at least one")?;
        Ok(Self { hasher: CellHasher::new(layout, 64, hashes)?, half_life_ms })
    }

    pub(super) fn half_life_ms(&self) -> u64 {
        self.half_life_ms
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.hasher.layout().encode(writer);
        writer.u8(self.hasher.hashes());
        writer.varint(self.half_life_ms);
    }
}

/// Exactly decayed counts.
///
/// ```
/// use ebb_sketch::filter::structure::frequency::forward::{ForwardFrequency, ForwardSpec};
/// use ebb_sketch::filter::structure::layout::CellLayout;
/// use ebb_sketch::hash::HashKey;
///
/// let mut counts = ForwardFrequency::new(ForwardSpec::new(CellLayout::Spread(4096), 4, 60_000).unwrap());
/// let item = HashKey::new([7; 16]).fingerprint(b"ip");
/// counts.add(item, 60_000);
/// counts.add(item, 0); // late: counts at its own age
/// assert!((counts.estimate(item, 60_000).value - 1.5).abs() < 1e-9);
/// ```
#[derive(Debug, Clone)]
pub struct ForwardFrequency {
    spec: ForwardSpec,
    cells: CellMemory,
    /// The weight of all observations, relative to the landmark.
    total: f64,
    landmark_ms: i64,
    clock_ms: Option<i64>,
    /// `spec.half_life_ms` as a float.
    half_life: f64,
    cached: CachedPower,
}

/// The weight of the latest time. Consecutive records, and an observation and its answer, often share it. Derived from the
/// landmark, so it is not part of the state.
#[derive(Debug, Clone, Copy)]
struct CachedPower {
    time_ms: i64,
    /// Half-lives since the landmark.
    exponent: f64,
    /// The weight of an observation at that time.
    weight: f64,
}

impl CachedPower {
    const LANDMARK: Self = Self { time_ms: 0, exponent: 0.0, weight: 1.0 };
}

impl ForwardFrequency {
    /// Empty counters.
    pub fn new(spec: ForwardSpec) -> Self {
        let cells = CellMemory::zeroed(spec.hasher.cells() as usize * 8);
        let half_life = spec.half_life_ms as f64;
        Self { spec, cells, total: 0.0, landmark_ms: 0, clock_ms: None, half_life, cached: CachedPower::LANDMARK }
    }

    /// Bytes of the counters.
    pub fn memory_bytes(&self) -> u64 {
        self.cells.len() as u64
    }

    /// Advances the clock. Earlier times have no effect.
    pub fn advance(&mut self, now_ms: i64) {
        match self.clock_ms {
            None => {
                (self.landmark_ms, self.clock_ms) = (now_ms, Some(now_ms));
                self.cached = self.powers_at(now_ms);
            }
            Some(clock) if now_ms > clock => {
                self.clock_ms = Some(now_ms);
                self.move_landmark(now_ms);
            }
            Some(_) => {}
        }
    }

    /// Counts one observation. A later time advances the clock; an earlier one counts at its own age.
    #[inline]
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        self.add_weighted(item, time_ms, ObservationWeight::ONE);
    }

    /// Counts an event that stands for `weight` observations.
    #[inline]
    pub fn add_weighted(&mut self, item: Fingerprint, time_ms: i64, weight: ObservationWeight) {
        self.advance(time_ms);
        if self.cached.time_ms != time_ms {
            self.cached = self.powers_at(time_ms);
        }
        let weight = weight.times_up(self.cached.weight);
        let cells = &mut *self.cells;
        for cell in self.spec.hasher.cells_of(item).distinct().as_slice() {
            put_f64(cells, *cell, add_up(get_f64(cells, *cell), weight));
        }
        self.total = add_up(self.total, weight);
    }

    /// The decayed count at `as_of_ms`, or at the clock if that is later.
    #[inline]
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> DecayedCount {
        let cells = &*self.cells;
        let own = self.spec.hasher.cells_of(item);
        let minimum = own.as_slice().iter().map(|cell| get_f64(cells, *cell)).fold(f64::INFINITY, f64::min);
        DecayedCount { value: self.as_of(minimum, as_of_ms), lower_bound: false }
    }

    /// The decayed count of all observations together.
    pub fn total(&self, as_of_ms: i64) -> f64 {
        self.as_of(self.total, as_of_ms)
    }

    fn as_of(&self, weight: f64, as_of_ms: i64) -> f64 {
        if weight == 0.0 {
            return 0.0;
        }
        let as_of_ms = as_of_ms.max(self.clock_ms.unwrap_or(as_of_ms));
        let cached = &self.cached;
        // Far from the landmark the inverse would overflow.
        let factor = if as_of_ms == cached.time_ms && cached.exponent.abs() < 2.0 * SHIFT_AFTER {
            inverse_up(cached.weight, cached.exponent)
        } else {
            power_up(-self.half_lives_to(as_of_ms))
        };
        // The margin of the power covers the rounding of the product, unless the product is subnormal.
        if factor == 1.0 { weight } else { (weight * factor).next_up().min(f64::MAX) }
    }

    fn powers_at(&self, time_ms: i64) -> CachedPower {
        let exponent = self.half_lives_to(time_ms);
        CachedPower { time_ms, exponent, weight: power_up(exponent) }
    }

    fn half_lives_to(&self, time_ms: i64) -> f64 {
        let elapsed_ms = match time_ms.checked_sub(self.landmark_ms) {
            Some(elapsed_ms) => elapsed_ms as f64,
            None => (i128::from(time_ms) - i128::from(self.landmark_ms)) as f64,
        };
        elapsed_ms / self.half_life
    }

    /// Moves the landmark by whole half-lives, so that every cell is divided by a power of two.
    fn move_landmark(&mut self, now_ms: i64) {
        if self.half_lives_to(now_ms) < SHIFT_AFTER {
            return;
        }
        let half_life = i128::from(self.spec.half_life_ms);
        let elapsed = (i128::from(now_ms) - i128::from(self.landmark_ms)) / half_life;
        self.landmark_ms = (i128::from(self.landmark_ms) + elapsed * half_life) as i64;
        // More halvings turn every finite number into the smallest one.
        let halvings = elapsed.min(2_200) as i32;
        for cell in 0..self.spec.hasher.cells() {
            let value = get_f64(&self.cells, cell);
            if value > 0.0 {
                put_f64(&mut self.cells, cell, halved_up(value, halvings));
            }
        }
        if self.total > 0.0 {
            self.total = halved_up(self.total, halvings);
        }
        self.cached = self.powers_at(now_ms);
    }

    /// Encodes parameters, clock and counters.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.spec.encode(&mut writer);
        writer.option_i64(self.clock_ms);
        writer.i64(self.landmark_ms);
        writer.f64(self.total);
        writer.raw(&self.cells);
        writer.seal()
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let (layout, hashes, half_life_ms) = (CellLayout::decode(&mut reader)?, reader.u8()?, reader.varint()?);
        let spec = ForwardSpec::new(layout, hashes, half_life_ms)
            .map_err(|error| CodecError::invalid("forward frequency", error.to_string()))?;
        let (clock_ms, landmark_ms, total) = (reader.option_i64("clock")?, reader.i64()?, reader.f64()?);
        let cells = reader.raw(spec.hasher.cells() as usize * 8)?;
        reader.finish()?;
        let is_count = |value: f64| value.is_finite() && value.is_sign_positive();
        if !is_count(total) || (0..spec.hasher.cells()).any(|cell| !is_count(get_f64(cells, cell))) {
            return Err(CodecError::invalid("forward frequency", "a cell is negative or not finite"));
        }
        if clock_ms.is_none_or(|clock| clock < landmark_ms) && (clock_ms.is_some() || landmark_ms != 0) {
            return Err(CodecError::invalid("forward frequency", "the landmark is after the clock"));
        }
        let cached = CachedPower { time_ms: landmark_ms, ..CachedPower::LANDMARK };
        let half_life = spec.half_life_ms as f64;
        Ok(Self { spec, cells: CellMemory::copied(cells), total, landmark_ms, clock_ms, half_life, cached })
    }
}

/// At least value / 2^halvings, for value > 0; exactly that unless the result is subnormal.
fn halved_up(value: f64, halvings: i32) -> f64 {
    let halved = libm::ldexp(value, -halvings);
    if libm::ldexp(halved, halvings) < value { halved.next_up() } else { halved }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix;
    use proptest::prelude::*;

    fn item(x: u64) -> Fingerprint {
        Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
    }

    fn forward(cells: u64, half_life_ms: u64) -> ForwardFrequency {
        ForwardFrequency::new(ForwardSpec::new(CellLayout::Spread(cells), 3, half_life_ms).unwrap())
    }

    proptest! {
        #[test]
        fn no_item_is_undercounted_in_any_order_of_times(
            adds in prop::collection::vec((0u64..20, 0i64..2_000_000), 1..300), cells in 4u64..60, half_life in 1u64..100_000,
        ) {
            let mut counts = forward(cells, half_life);
            adds.iter().for_each(|(x, time)| counts.add(item(*x), *time));
            let now = adds.iter().map(|(_, time)| *time).max().unwrap();
            for x in 0..20 {
                let weights = adds.iter().filter(|(y, _)| *y == x).map(|(_, time)| now - time);
                // Summed from the smallest, so that the reference is exact to 1e-13.
                let mut weights: Vec<f64> = weights.map(|age| libm::exp2(-(age as f64) / half_life as f64)).collect();
                weights.sort_by(f64::total_cmp);
                let exact: f64 = weights.iter().sum();
                prop_assert!(counts.estimate(item(x), now).value >= exact * (1.0 - 1e-13));
            }
        }

        #[test]
        fn decoded_counters_continue_alike(
            adds in prop::collection::vec((0u64..20, 0i64..2_000_000), 1..100), cut in 0usize..100,
        ) {
            let mut whole = forward(40, 1_000);
            let mut restored = whole.clone();
            for (index, (x, time)) in adds.iter().enumerate() {
                if index == cut {
                    restored = ForwardFrequency::decode(&restored.encode()).unwrap();
                }
                whole.add(item(*x), *time);
                restored.add(item(*x), *time);
            }
            prop_assert_eq!(whole.encode(), restored.encode());
        }
    }

    #[test]
    fn rounding_never_loses_small_weights() {
        // A plain sum would lose the small weights beside the large one.
        let mut counts = forward(8, 1_000);
        counts.add(item(1), 60_000);
        (0..1_000).for_each(|_| counts.add(item(1), 0));
        let exact = 1.0 + 1_000.0 * libm::exp2(-60.0);
        assert!(exact > 1.0 && counts.estimate(item(1), 60_000).value >= exact);
        assert!(counts.estimate(item(1), 60_000).value < exact * (1.0 + 1e-12));
    }

    #[test]
    fn a_count_halves_every_half_life_across_landmark_moves() {
        let mut counts = forward(64, 1_000);
        (0..64).for_each(|_| counts.add(item(1), 0));
        counts.add(item(2), 0);
        for half_lives in [1, 6, 500, 700, 1_000] {
            counts.advance(half_lives * 1_000);
            let exact = libm::exp2(6.0 - half_lives as f64);
            let value = counts.estimate(item(1), i64::MIN).value;
            assert!(value >= exact && value <= exact * (1.0 + 1e-9), "{half_lives}: {value} {exact}");
        }
        counts.add(item(3), 1_000_500);
        assert!((counts.estimate(item(3), 1_000_500).value - 1.0).abs() < 1e-11);
        assert_eq!(counts.estimate(item(4), 1_000_500).value.min(1e-200), counts.estimate(item(4), 1_000_500).value);
    }

    #[test]
    fn extreme_times_saturate() {
        let mut counts = forward(64, 1);
        for time in [0, i64::MIN, i64::MAX, i64::MIN + 1, -1] {
            counts.add(item(1), time);
            let value = counts.estimate(item(1), i64::MIN).value;
            assert!(value > 0.0 && value.is_finite(), "{time}: {value}");
        }
        assert!((1.0..1.001).contains(&counts.estimate(item(1), i64::MAX).value));
        assert_eq!(counts.estimate(item(9), i64::MAX).value.min(0.5), counts.estimate(item(9), i64::MAX).value);
    }

    #[test]
    fn invalid_parameters_report_the_nearest_valid_value() {
        assert_eq!(ForwardSpec::new(CellLayout::Spread(8), 3, 0).unwrap_err().nearest, "1");
        assert_eq!(ForwardSpec::new(CellLayout::Spread(0), 3, 1).unwrap_err().nearest, "1");
        assert_eq!(ForwardSpec::new(CellLayout::Spread(8), 0, 1).unwrap_err().nearest, "1");
    }
}
