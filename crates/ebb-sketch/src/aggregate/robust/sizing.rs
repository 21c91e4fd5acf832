//! How large an element is, which decides how probably a level samples it.
//!
//! The published sketch samples the w integers of an element one by one ([`Sizing::Integers`]). It needs them where a decay
//! takes integers away. Where an element decays as a whole, sampling it as a whole is better: an element of size s is sampled
//! at level l with the probability min(1, s / 2^l) and then counts max(s, 2^l). Sums have the mean and at most the variance of
//! the published form (so its theorems hold), large elements have no error at all, and a size need not be an integer.

use super::element::Element;
use super::hash::SampleHash;
use crate::aggregate::error::ObservationError;

/// The size of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizing {
    /// As many integers as its weight, each of which is sampled for itself.
    Integers,
    /// Its weight.
    Weight,
    /// Its value, which is an amount: the bits of a double, at least 2^-fraction_bits and in units of that.
    Amount {
        /// Binary digits after the point that the smallest amounts have.
        fraction_bits: u8,
    },
}

impl Sizing {
    /// Distinguishes sizings in state bytes; nothing for the published one.
    pub(super) fn parameters(self) -> Option<[u8; 2]> {
        match self {
            Self::Integers => None,
            Self::Weight => Some([1, 0]),
            Self::Amount { fraction_bits } => Some([2, fraction_bits]),
        }
    }

    /// Rejects an element without a valid size.
    #[inline]
    pub(super) fn check(self, element: &Element) -> Result<(), ObservationError> {
        let Self::Amount { fraction_bits } = self else { return Ok(()) };
        let (amount, min) = (f64::from_bits(element.value), libm::ldexp(1.0, -i32::from(fraction_bits)));
        if amount.is_finite() && amount >= min { Ok(()) } else { Err(ObservationError::Amount { amount, min }) }
    }
}

/// What the presence of an element at a level says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LevelShare {
    /// Sampled integers; 1 for an element that is sampled as a whole.
    pub hits: u64,
    /// The estimate of the size, in the unit of weights or amounts.
    pub estimate: f64,
}

impl SampleHash {
    /// What defines the size of an element.
    pub fn sizing(&self) -> Sizing {
        self.sizing
    }

    /// The highest level at which an element with this start is sampled.
    #[inline]
    pub(crate) fn element_level(&self, start: u64, element: &Element) -> u8 {
        match self.sizing {
            Sizing::Integers => self.highest_level(start, element.weight),
            Sizing::Weight => self.level_of(start / u64::from(element.weight)),
            Sizing::Amount { fraction_bits } => self.level_of((start as f64 / size(element, fraction_bits)) as u64),
        }
    }

    /// What an element that is sampled at `level` contributes there.
    pub(crate) fn level_share(&self, element: &Element, level: u8) -> LevelShare {
        match self.sizing {
            Sizing::Integers => self.hits_share(self.start(element.id), element.weight, level),
            Sizing::Weight => LevelShare { hits: 1, estimate: f64::from(element.weight).max(self.scale(level)) },
            Sizing::Amount { fraction_bits } => {
                let unit = libm::ldexp(self.scale(level), -i32::from(fraction_bits));
                LevelShare { hits: 1, estimate: f64::from_bits(element.value).max(unit) }
            }
        }
    }

    /// The same for the first `live` integers of an element.
    pub(crate) fn hits_share(&self, start: u64, live: u32, level: u8) -> LevelShare {
        let hits = self.hits(start, live, level);
        LevelShare { hits, estimate: hits as f64 * self.scale(level) }
    }

    /// By how many units the contribution of an element may vary at a level: 1 if it is sampled as a whole. `live` are the
    /// numbers of live integers of the sampled elements; those that were missed have fewer than an element that cannot be.
    pub(crate) fn cluster(&self, live: impl Iterator<Item = u32>, level: u8) -> f64 {
        if self.sizing != Sizing::Integers || self.max_weight() == 1 || level == 0 {
            return 1.0;
        }
        let missed = self.max_missed(level);
        let spread = |live: u32| {
            let (least, most) = self.hit_range(live, level);
            most - least
        };
        let heavy = live.filter(|live| *live > missed).map(spread).max();
        self.hit_range(missed, level).1.max(heavy.unwrap_or(1)) as f64
    }

    /// The probability that an element with `live` integers (or that weight) is sampled at a level.
    pub(crate) fn inclusion(&self, live: u32, level: u8) -> f64 {
        match self.sizing {
            Sizing::Integers => self.hit_probability(live, level),
            Sizing::Weight | Sizing::Amount { .. } => (f64::from(live) / self.scale(level)).min(1.0),
        }
    }
}

#[inline]
fn size(element: &Element, fraction_bits: u8) -> f64 {
    f64::from_bits(element.value) * (1u64 << fraction_bits) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::robust::ElementId;
    use crate::aggregate::robust::hash::MERSENNE;
    use crate::random::Random;

    fn amount(amount: f64) -> Element {
        Element { time_ms: 0, id: ElementId::from_bits(1), value: amount.to_bits(), weight: 1 }
    }

    #[test]
    fn level_is_the_highest_whose_share_of_the_circle_contains_the_start() {
        let mut random = Random::new(5);
        for _ in 0..10_000 {
            let start = random.below(MERSENNE) >> random.below(50);
            let weight = 1 + (random.below(1 << 32) >> random.below(32)) as u32;
            let element = Element { weight, ..amount(f64::from(weight) / 16.0) };
            for sizing in [Sizing::Weight, Sizing::Amount { fraction_bits: 4 }] {
                let hash = SampleHash::of_whole_elements(7, u32::MAX, sizing);
                let level = hash.element_level(start, &element);
                let within = |level: u8| u128::from(start) < u128::from(weight) * u128::from(hash.threshold(level));
                // Doubles have 53 bits of the start.
                let is_near = |level: u8| {
                    let edge = f64::from(weight) * hash.threshold(level) as f64;
                    (start as f64 / edge - 1.0).abs() < 1e-12
                };
                assert!(level == 0 || within(level) || is_near(level), "{start} {weight} {level}");
                assert!(
                    level == hash.top_level() || !within(level + 1) || is_near(level + 1),
                    "{start} {weight} {level}"
                );
            }
        }
    }

    #[test]
    fn estimate_times_its_probability_is_the_size() {
        let by_weight = SampleHash::of_whole_elements(7, 1000, Sizing::Weight);
        let by_amount = SampleHash::of_whole_elements(7, 1, Sizing::Amount { fraction_bits: 4 });
        for level in 0..20 {
            for weight in [1, 3, 64, 999] {
                let element = Element { weight, ..amount(f64::from(weight) / 16.0) };
                let probability = by_weight.inclusion(weight, level);
                let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
                near(by_weight.level_share(&element, level).estimate * probability, f64::from(weight));
                let unit = Element { weight: 1, ..element };
                near(by_amount.level_share(&unit, level).estimate * probability, f64::from(weight) / 16.0);
            }
        }
    }

    #[test]
    fn amounts_below_the_unit_are_not_accepted() {
        let sizing = Sizing::Amount { fraction_bits: 4 };
        for (value, accepted) in [(0.0625, true), (1e9, true), (0.06, false), (0.0, false), (-1.0, false)] {
            assert_eq!(sizing.check(&amount(value)).is_ok(), accepted, "{value}");
        }
        assert!(sizing.check(&amount(f64::NAN)).is_err() && sizing.check(&amount(f64::INFINITY)).is_err());
    }
}
