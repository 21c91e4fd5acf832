//! One observation as a sampling sketch stores it.

use crate::aggregate::error::ObservationError;
use crate::hash::Fingerprint;

/// Times must lie within this distance of the epoch, so that no sum of a time and an age overflows.
pub const MAX_ELEMENT_TIME_MS: i64 = 1 << 61;

/// The identity of an observation: 120 bits of a fingerprint. Repeats have the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElementId {
    high: u64,
    low: u64,
}

impl ElementId {
    /// Encoded size.
    pub const BYTES: usize = 15;
    const HALF: u128 = (1 << 60) - 1;

    /// The low 120 bits of `bits`.
    pub fn from_bits(bits: u128) -> Self {
        Self { high: (bits >> 60 & Self::HALF) as u64, low: (bits & Self::HALF) as u64 }
    }

    /// All 120 bits.
    pub fn bits(self) -> u128 {
        u128::from(self.high) << 60 | u128::from(self.low)
    }

    /// The lower and the upper 60 bits.
    #[inline]
    pub fn halves(self) -> (u64, u64) {
        (self.low, self.high)
    }
}

impl From<Fingerprint> for ElementId {
    fn from(fingerprint: Fingerprint) -> Self {
        Self::from_bits(fingerprint.0)
    }
}

/// One observation. Two elements are the same only if all fields are: an id that comes again with another payload is another
/// observation, so the state never depends on which of them came first.
///
/// The order is that of the state bytes: by time, then id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    /// Event time.
    pub time_ms: i64,
    /// Identity of the observation.
    pub id: ElementId,
    /// The sampled value.
    pub value: u64,
    /// How many times the observation counts.
    pub weight: u32,
}

impl Element {
    /// Rejects elements that a sketch with this largest weight cannot hold.
    #[inline]
    pub fn check(&self, max_weight: u32) -> Result<(), ObservationError> {
        if !(1..=max_weight).contains(&self.weight) {
            let (weight, max) = (f64::from(self.weight), f64::from(max_weight));
            return Err(ObservationError::Weight { weight, min: 1.0, max });
        }
        if is_extreme(self.time_ms) {
            return Err(ObservationError::Time { time_ms: self.time_ms, max_ms: MAX_ELEMENT_TIME_MS });
        }
        Ok(())
    }
}

/// Whether a time is outside [`MAX_ELEMENT_TIME_MS`].
#[inline]
pub(crate) fn is_extreme(time_ms: i64) -> bool {
    !(-MAX_ELEMENT_TIME_MS..=MAX_ELEMENT_TIME_MS).contains(&time_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_the_low_120_bits_of_a_fingerprint() {
        let id = ElementId::from(Fingerprint(u128::MAX));
        assert_eq!(id.bits(), (1 << 120) - 1);
        assert_eq!(ElementId::from_bits(0xABCD << 60 | 0x1234).halves(), (0x1234, 0xABCD));
    }

    #[test]
    fn invalid_weights_and_times_are_rejected() {
        let element = Element { time_ms: 0, id: ElementId::from_bits(1), value: 0, weight: 5 };
        assert_eq!(element.check(5), Ok(()));
        assert_eq!(element.check(4), Err(ObservationError::Weight { weight: 5.0, min: 1.0, max: 4.0 }));
        let weightless = Element { weight: 0, ..element };
        assert_eq!(weightless.check(5), Err(ObservationError::Weight { weight: 0.0, min: 1.0, max: 5.0 }));
        let max_ms = MAX_ELEMENT_TIME_MS;
        for time_ms in [i64::MIN, i64::MAX, max_ms + 1, -max_ms - 1] {
            assert_eq!(Element { time_ms, ..element }.check(5), Err(ObservationError::Time { time_ms, max_ms }));
        }
    }
}
