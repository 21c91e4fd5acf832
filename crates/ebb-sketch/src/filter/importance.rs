//! What an item's importance does to its cells: the rules of the stable and the importance-aware filters.
//!
//! A rule says to which value an observation raises its cells and how decrements choose theirs. Important items start
//! higher, so they are forgotten later.

use super::spec_error::{SpecError, within};
use crate::codec::{CodecError, Reader, Writer};

/// The two readings of "chosen in inverse proportion to the value" need different machinery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Every observation raises to the top; importance is ignored.
    Stable,
    /// Two classes: values above `low` raise to the top, the others to `low`.
    TwoClass { low: u8 },
    /// Every value raises to itself.
    MultiClass,
    /// As `MultiClass`; a decrement drawn uniformly is carried out with chance 1 / value. Cannot drain.
    Harmonic,
    /// As `MultiClass`; every decrement finds a non-zero cell, chosen in proportion to 1 / value. Drains when decrements
    /// outweigh what observations raise, and needs eight bytes a cell for its lists.
    HarmonicLiteral,
}

impl Rule {
    /// Two classes split in the middle.
    pub fn two_class(top: u8) -> Self {
        Self::TwoClass { low: (top / 2).max(1) }
    }

    /// The least value an observation of importance `value` leaves in its cells.
    #[inline]
    pub fn raised(self, value: u8, top: u8) -> u8 {
        match self {
            Self::Stable => top,
            Self::TwoClass { low } if value > low => top,
            Self::TwoClass { low } => low,
            Self::MultiClass | Self::Harmonic | Self::HarmonicLiteral => value.clamp(1, top),
        }
    }

    pub fn encode(self, writer: &mut Writer) {
        let (tag, low) = match self {
            Self::Stable => (0, 0),
            Self::TwoClass { low } => (1, low),
            Self::MultiClass => (2, 0),
            Self::Harmonic => (3, 0),
            Self::HarmonicLiteral => (4, 0),
        };
        writer.raw(&[tag, low]);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        match (reader.u8()?, reader.u8()?) {
            (0, 0) => Ok(Self::Stable),
            (1, low) => Ok(Self::TwoClass { low }),
            (2, 0) => Ok(Self::MultiClass),
            (3, 0) => Ok(Self::Harmonic),
            (4, 0) => Ok(Self::HarmonicLiteral),
            (tag, low) => Err(CodecError::invalid("rule", format!("tag {tag} with {low}"))),
        }
    }
}

/// From importances as events carry them to cell values: f = ⌈importance · M / Z⌉ within 1..=M.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImportanceScale {
    most: f64,
    top: u8,
}

impl ImportanceScale {
    /// `most` (Z) is the importance that reaches the top value `top` (M).
    pub fn new(most: f64, top: u8) -> Result<Self, SpecError> {
        within("the largest importance", most, f64::MIN_POSITIVE..=f64::MAX, "it divides every importance")?;
        Ok(Self { most, top })
    }

    pub fn encode(self, writer: &mut Writer) {
        writer.f64(self.most);
        writer.u8(self.top);
    }

    /// What is not a number is of the least importance.
    pub fn value(self, importance: f64) -> u8 {
        let scaled = libm::ceil(importance * f64::from(self.top) / self.most);
        if scaled >= f64::from(self.top) { self.top } else { (scaled as u8).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn importances_are_scaled_up_and_clamped() {
        let scale = ImportanceScale::new(50.0, 7).unwrap();
        assert_eq!([1.0, 7.0, 8.0, 35.0, 36.0, 50.0].map(|i| scale.value(i)), [1, 1, 2, 5, 6, 7]);
        assert_eq!([f64::NAN, -1.0, 0.0, f64::INFINITY, 1e300].map(|i| scale.value(i)), [1, 1, 1, 7, 7]);
        assert!(ImportanceScale::new(0.0, 7).is_err() && ImportanceScale::new(f64::NAN, 7).is_err());
    }

    #[test]
    fn each_rule_raises_as_it_says() {
        let raised = |rule: Rule| [1, 3, 4, 7, 9].map(|value| rule.raised(value, 7));
        assert_eq!(raised(Rule::Stable), [7; 5]);
        assert_eq!(raised(Rule::two_class(7)), [3, 3, 7, 7, 7]);
        assert_eq!(raised(Rule::MultiClass), [1, 3, 4, 7, 7]);
        assert_eq!(Rule::two_class(1), Rule::TwoClass { low: 1 });
    }
}
