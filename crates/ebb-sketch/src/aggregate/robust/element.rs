//! One observation as the sketch sees it, and why one may be refused.

use crate::hash::Fingerprint;

/// Times beyond this many milliseconds from the epoch, either way, are refused: no real clock is there, and within it no
/// sum of a time and an age overflows.
pub const TIME_MOST_MS: i64 = 1 << 61;

/// What identifies an observation: 120 bits of a fingerprint. Repeats carry the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElementId {
    high: u64,
    low: u64,
}

impl ElementId {
    pub const BYTES: usize = 15;
    const HALF: u128 = (1 << 60) - 1;

    /// The low 120 bits of `bits`.
    pub fn from_bits(bits: u128) -> Self {
        Self { high: (bits >> 60 & Self::HALF) as u64, low: (bits & Self::HALF) as u64 }
    }

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

/// One observation. Two are the same only when all four fields are: an id that comes again with another payload is
/// another observation, so the state never depends on which of them came first.
///
/// The order is the order of state bytes: by time, then id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    pub time_ms: i64,
    pub id: ElementId,
    pub value: u64,
    pub weight: u32,
}

/// Why an observation was not taken. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    #[error("a weight must be at least 1")]
    WeightZero,
    #[error("weight {weight} is above the largest configured, {most}")]
    WeightAbove { weight: u32, most: u32 },
    #[error("time {time_ms}ms is not within {TIME_MOST_MS}ms of the epoch")]
    TimeExtreme { time_ms: i64 },
}

impl Element {
    /// Refuses what no sketch with this largest weight may hold.
    #[inline]
    pub fn check(&self, w_max: u32) -> Result<(), ElementError> {
        if self.weight == 0 {
            return Err(ElementError::WeightZero);
        }
        if self.weight > w_max {
            return Err(ElementError::WeightAbove { weight: self.weight, most: w_max });
        }
        if is_extreme(self.time_ms) {
            return Err(ElementError::TimeExtreme { time_ms: self.time_ms });
        }
        Ok(())
    }
}

/// Whether a time is outside of what the sketches can add ages to.
#[inline]
pub fn is_extreme(time_ms: i64) -> bool {
    !(-TIME_MOST_MS..=TIME_MOST_MS).contains(&time_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_low_120_bits_of_a_fingerprint() {
        let id = ElementId::from(Fingerprint(u128::MAX));
        assert_eq!(id.bits(), (1 << 120) - 1);
        assert_eq!(ElementId::from_bits(0xABCD << 60 | 0x1234).halves(), (0x1234, 0xABCD));
    }

    #[test]
    fn impossible_observations_are_refused_with_the_reason() {
        let element = Element { time_ms: 0, id: ElementId::from_bits(1), value: 0, weight: 5 };
        assert_eq!(element.check(5), Ok(()));
        assert_eq!(element.check(4), Err(ElementError::WeightAbove { weight: 5, most: 4 }));
        assert_eq!(Element { weight: 0, ..element }.check(5), Err(ElementError::WeightZero));
        for time_ms in [i64::MIN, i64::MAX, TIME_MOST_MS + 1, -TIME_MOST_MS - 1] {
            assert_eq!(Element { time_ms, ..element }.check(5), Err(ElementError::TimeExtreme { time_ms }));
        }
    }
}
