//! Decayed hit counts without sweeps: every observation is added at the weight it will have had.
//!
//! A cell holds Σ 2^((time − landmark) / half-life); an answer divides by the same power of now. Nothing is done as time
//! passes but, every few hundred half-lives, a shift of the landmark, which divides all cells by an exact power of two.
//! Promise: an answer is never below the true decayed count, whatever the order of times: weights, sums and answers are
//! all rounded up ([`super::fade`]), shifts are exact or rounded up, and other items only add.

use super::Count;
use super::epochs::{decode_clock, encode_clock};
use super::fade::{add_up, inverse_up, power_up};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::cells::Memory;
use crate::filter::cells::words::{get_f64, put_f64};
use crate::filter::places::{Places, Size};
use crate::filter::spec_error::{SpecError, within};
use crate::hash::Fingerprint;

pub(super) const KIND: Kind = *b"frqf";
const VERSION: u16 = 1;

/// Half-lives after which the landmark moves: sums of 2^511 observations would still be finite.
const SHIFT_AFTER: f64 = 512.0;
const MOST_HALF_LIFE_MS: u64 = 1 << 53;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForwardSpec {
    places: Places,
    half_life_ms: u64,
}

impl ForwardSpec {
    pub fn new(size: Size, hashes: u8, half_life_ms: u64) -> Result<Self, SpecError> {
        within("half_life", half_life_ms, 1..=MOST_HALF_LIFE_MS, "it is in milliseconds, at least one")?;
        Ok(Self { places: Places::new(size, 64, hashes)?, half_life_ms })
    }

    pub(super) fn half_life_ms(&self) -> u64 {
        self.half_life_ms
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        self.places.size().encode(writer);
        writer.u8(self.places.hashes());
        writer.varint(self.half_life_ms);
    }
}

#[derive(Debug, Clone)]
pub struct Forward {
    spec: ForwardSpec,
    cells: Memory,
    /// The weight of all observations, landmark-based as the cells are.
    total: f64,
    landmark_ms: i64,
    clock_ms: Option<i64>,
    /// The half-life again, as the divisor that it mostly is.
    half_life: f64,
    recent: Recent,
}

/// The powers of one time, kept because neighbours in a stream, and an observation and its answer, share theirs. Follows
/// from the landmark: no part of the state.
#[derive(Debug, Clone, Copy)]
struct Recent {
    time_ms: i64,
    /// Half-lives since the landmark.
    exponent: f64,
    /// What an observation at that time weighs.
    weight: f64,
}

impl Recent {
    const LANDMARK: Self = Self { time_ms: 0, exponent: 0.0, weight: 1.0 };
}

impl Forward {
    pub fn new(spec: ForwardSpec) -> Self {
        let cells = Memory::zeroed(spec.places.cells() as usize * 8);
        let half_life = spec.half_life_ms as f64;
        Self { spec, cells, total: 0.0, landmark_ms: 0, clock_ms: None, half_life, recent: Recent::LANDMARK }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.cells.len() as u64
    }

    pub fn advance(&mut self, now_ms: i64) {
        match self.clock_ms {
            None => {
                (self.landmark_ms, self.clock_ms) = (now_ms, Some(now_ms));
                self.recent = self.powers_at(now_ms);
            }
            Some(clock) if now_ms > clock => {
                self.clock_ms = Some(now_ms);
                self.shift(now_ms);
            }
            Some(_) => {}
        }
    }

    /// One observation. A time after the clock moves the clock; one before it counts at its own age.
    #[inline]
    pub fn add(&mut self, item: Fingerprint, time_ms: i64) {
        self.advance(time_ms);
        if self.recent.time_ms != time_ms {
            self.recent = self.powers_at(time_ms);
        }
        let weight = self.recent.weight;
        let cells = &mut *self.cells;
        for cell in self.spec.places.of(item).distinct().as_slice() {
            put_f64(cells, *cell, add_up(get_f64(cells, *cell), weight));
        }
        self.total = add_up(self.total, weight);
    }

    /// The decayed count as of `as_of_ms`, or as of the clock if that is later.
    #[inline]
    pub fn estimate(&self, item: Fingerprint, as_of_ms: i64) -> Count {
        let cells = &*self.cells;
        let places = self.spec.places.of(item);
        let least = places.as_slice().iter().map(|cell| get_f64(cells, *cell)).fold(f64::INFINITY, f64::min);
        Count { value: self.as_of(least, as_of_ms), lower_bound: false }
    }

    /// The decayed count of all observations.
    pub fn total(&self, as_of_ms: i64) -> f64 {
        self.as_of(self.total, as_of_ms)
    }

    fn as_of(&self, held: f64, as_of_ms: i64) -> f64 {
        if held == 0.0 {
            return 0.0;
        }
        let as_of_ms = as_of_ms.max(self.clock_ms.unwrap_or(as_of_ms));
        let recent = &self.recent;
        // Far before the landmark an inverse would leave the range.
        let worth = if as_of_ms == recent.time_ms && recent.exponent.abs() < 2.0 * SHIFT_AFTER {
            inverse_up(recent.weight, recent.exponent)
        } else {
            power_up(-self.half_lives_to(as_of_ms))
        };
        // The margin of the power covers the rounding of the product, unless the product is too small to be scaled.
        if worth == 1.0 { held } else { (held * worth).next_up().min(f64::MAX) }
    }

    fn powers_at(&self, time_ms: i64) -> Recent {
        let exponent = self.half_lives_to(time_ms);
        Recent { time_ms, exponent, weight: power_up(exponent) }
    }

    fn half_lives_to(&self, time_ms: i64) -> f64 {
        let passed_ms = match time_ms.checked_sub(self.landmark_ms) {
            Some(passed_ms) => passed_ms as f64,
            None => (i128::from(time_ms) - i128::from(self.landmark_ms)) as f64,
        };
        passed_ms / self.half_life
    }

    /// Moves the landmark by whole half-lives, so that cells change by a power of two and nothing else.
    fn shift(&mut self, now_ms: i64) {
        if self.half_lives_to(now_ms) < SHIFT_AFTER {
            return;
        }
        let half_life = i128::from(self.spec.half_life_ms);
        let passed = (i128::from(now_ms) - i128::from(self.landmark_ms)) / half_life;
        self.landmark_ms = (i128::from(self.landmark_ms) + passed * half_life) as i64;
        // Beyond 2^2200 every finite number has become the least one.
        let halvings = passed.min(2_200) as i32;
        for cell in 0..self.spec.places.cells() {
            let value = get_f64(&self.cells, cell);
            if value > 0.0 {
                put_f64(&mut self.cells, cell, halved_up(value, halvings));
            }
        }
        if self.total > 0.0 {
            self.total = halved_up(self.total, halvings);
        }
        self.recent = self.powers_at(now_ms);
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.spec.encode(&mut writer);
        encode_clock(self.clock_ms, &mut writer);
        writer.i64(self.landmark_ms);
        writer.f64(self.total);
        writer.raw(&self.cells);
        writer.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let (size, hashes, half_life_ms) = (Size::decode(&mut reader)?, reader.u8()?, reader.varint()?);
        let spec = ForwardSpec::new(size, hashes, half_life_ms)
            .map_err(|error| CodecError::invalid("forward frequency", error.to_string()))?;
        let (clock_ms, landmark_ms, total) = (decode_clock(&mut reader)?, reader.i64()?, reader.f64()?);
        let cells = reader.raw(spec.places.cells() as usize * 8)?;
        reader.finish()?;
        let is_count = |value: f64| value.is_finite() && value.is_sign_positive();
        if !is_count(total) || (0..spec.places.cells()).any(|cell| !is_count(get_f64(cells, cell))) {
            return Err(CodecError::invalid("forward frequency", "a cell is no count"));
        }
        if clock_ms.is_none_or(|clock| clock < landmark_ms) && (clock_ms.is_some() || landmark_ms != 0) {
            return Err(CodecError::invalid("forward frequency", "the landmark is after the clock"));
        }
        let recent = Recent { time_ms: landmark_ms, ..Recent::LANDMARK };
        let half_life = spec.half_life_ms as f64;
        Ok(Self { spec, cells: Memory::copied(cells), total, landmark_ms, clock_ms, half_life, recent })
    }
}

/// At least value / 2^halvings, for value > 0; exactly that unless it is too small to be represented.
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

    fn forward(cells: u64, half_life_ms: u64) -> Forward {
        Forward::new(ForwardSpec::new(Size::Cells(cells), 3, half_life_ms).unwrap())
    }

    proptest! {
        #[test]
        fn no_item_is_ever_undercounted_however_times_are_mixed(
            adds in prop::collection::vec((0u64..20, 0i64..2_000_000), 1..300), cells in 4u64..60, half_life in 1u64..100_000,
        ) {
            let mut counts = forward(cells, half_life);
            adds.iter().for_each(|(x, time)| counts.add(item(*x), *time));
            let now = adds.iter().map(|(_, time)| *time).max().unwrap();
            for x in 0..20 {
                let weights = adds.iter().filter(|(y, _)| *y == x).map(|(_, time)| now - time);
                // Summed from the smallest, so that the reference itself is not rounded below the truth by more than 1e-13.
                let mut weights: Vec<f64> = weights.map(|age| libm::exp2(-(age as f64) / half_life as f64)).collect();
                weights.sort_by(f64::total_cmp);
                let exact: f64 = weights.iter().sum();
                prop_assert!(counts.estimate(item(x), now).value >= exact * (1.0 - 1e-13));
            }
        }

        #[test]
        fn restored_bytes_continue_alike(
            adds in prop::collection::vec((0u64..20, 0i64..2_000_000), 1..100), cut in 0usize..100,
        ) {
            let mut whole = forward(40, 1_000);
            let mut cut_once = whole.clone();
            for (index, (x, time)) in adds.iter().enumerate() {
                if index == cut {
                    cut_once = Forward::decode(&cut_once.encode()).unwrap();
                }
                whole.add(item(*x), *time);
                cut_once.add(item(*x), *time);
            }
            prop_assert_eq!(whole.encode(), cut_once.encode());
        }
    }

    #[test]
    fn rounding_never_loses_what_a_plain_sum_would() {
        // Weights whose plain sum is rounded down: one, then many that vanish beside it.
        let mut counts = forward(8, 1_000);
        counts.add(item(1), 60_000);
        (0..1_000).for_each(|_| counts.add(item(1), 0));
        let exact = 1.0 + 1_000.0 * libm::exp2(-60.0);
        assert!(exact > 1.0 && counts.estimate(item(1), 60_000).value >= exact);
        assert!(counts.estimate(item(1), 60_000).value < exact * (1.0 + 1e-12));
    }

    #[test]
    fn a_count_halves_every_half_life_through_many_shifts() {
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
    fn hostile_times_saturate() {
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
    fn impossible_parameters_are_refused_with_the_nearest() {
        assert_eq!(ForwardSpec::new(Size::Cells(8), 3, 0).unwrap_err().nearest, "1");
        assert_eq!(ForwardSpec::new(Size::Cells(0), 3, 1).unwrap_err().nearest, "1");
        assert_eq!(ForwardSpec::new(Size::Cells(8), 0, 1).unwrap_err().nearest, "1");
    }
}
