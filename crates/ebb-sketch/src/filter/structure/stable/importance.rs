//! How the importance of an item affects its cells.
//!
//! A rule determines the value to which an observation raises its cells, and how decrements select cells. Important items
//! start higher and are forgotten later.

use crate::codec::{CodecError, Reader, Writer};
use crate::filter::parameter::{ParameterError, check_range};

/// The variant of the filter.
///
/// The paper's "chosen in inverse proportion to the value" can be read in two ways; both are implemented.
///
/// ```
/// use ebb_sketch::filter::structure::stable::importance::ImportanceRule;
///
/// // The value to which an observation of value 2, 5 or 7 raises its cells, if 7 is the largest.
/// let raised = |rule: ImportanceRule| [2, 5, 7].map(|value| rule.raised_value(value, 7));
/// assert_eq!(raised(ImportanceRule::Stable), [7, 7, 7]);
/// assert_eq!(raised(ImportanceRule::TwoClass { low: 3 }), [3, 7, 7]);
/// assert_eq!(raised(ImportanceRule::MultiClass), [2, 5, 7]);
/// assert_eq!(raised(ImportanceRule::Harmonic), [2, 5, 7]); // and decrements spare high values
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportanceRule {
    /// The stable Bloom filter: every observation raises its cells to the largest value; importance is ignored.
    Stable,
    /// Two classes: values above `low` raise to the largest value, the others to `low`.
    TwoClass {
        /// The value of the lower class.
        low: u8,
    },
    /// Every observation raises its cells to its own value.
    MultiClass,
    /// As `MultiClass`, but a decrement of a uniformly drawn cell succeeds with probability 1 / value. Cannot drain.
    Harmonic,
    /// As `MultiClass`, but every decrement selects a non-zero cell with probability proportional to 1 / value. Drains if
    /// the decrements outweigh the raises, and needs eight bytes per cell for its lists.
    HarmonicLiteral,
}

impl ImportanceRule {
    /// Two classes, split in the middle of the range.
    pub const fn two_class(max_value: u8) -> Self {
        Self::TwoClass { low: if max_value < 2 { 1 } else { max_value / 2 } }
    }

    /// Every rule, the two classes split in the middle of the range.
    pub const fn all(max_value: u8) -> [Self; 5] {
        [Self::Stable, Self::two_class(max_value), Self::MultiClass, Self::Harmonic, Self::HarmonicLiteral]
    }

    /// The smallest value that an observation of value `value` leaves in its cells.
    #[inline]
    pub fn raised_value(self, value: u8, max_value: u8) -> u8 {
        match self {
            Self::Stable => max_value,
            Self::TwoClass { low } if value > low => max_value,
            Self::TwoClass { low } => low,
            Self::MultiClass | Self::Harmonic | Self::HarmonicLiteral => value.clamp(1, max_value),
        }
    }

    /// Appends a tag and the low value.
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

    /// Reads what [`ImportanceRule::encode`] wrote.
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

/// Maps the importance of an event to a cell value: ⌈importance · M / Z⌉, clamped to 1..=M.
///
/// ```
/// use ebb_sketch::filter::structure::stable::importance::ImportanceScale;
///
/// let scale = ImportanceScale::new(100.0, 7).unwrap();
/// assert_eq!([0.0, 50.0, 100.0, 1e9].map(|importance| scale.value(importance)), [1, 4, 7, 7]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImportanceScale {
    max_importance: f64,
    max_value: u8,
}

impl ImportanceScale {
    /// `max_importance` (Z) is the importance that maps to `max_value` (M).
    pub fn new(max_importance: f64, max_value: u8) -> Result<Self, ParameterError> {
        check_range(
            "the largest importance",
            max_importance,
            f64::MIN_POSITIVE..=f64::MAX,
            "it divides every importance",
        )?;
        Ok(Self { max_importance, max_value })
    }

    /// Appends both bounds.
    pub fn encode(self, writer: &mut Writer) {
        writer.f64(self.max_importance);
        writer.u8(self.max_value);
    }

    /// The cell value of an importance. NaN maps to 1.
    pub fn value(self, importance: f64) -> u8 {
        let scaled = libm::ceil(importance * f64::from(self.max_value) / self.max_importance);
        if scaled >= f64::from(self.max_value) { self.max_value } else { (scaled as u8).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn importances_are_rounded_up_and_clamped() {
        let scale = ImportanceScale::new(50.0, 7).unwrap();
        assert_eq!([1.0, 7.0, 8.0, 35.0, 36.0, 50.0].map(|i| scale.value(i)), [1, 1, 2, 5, 6, 7]);
        assert_eq!([f64::NAN, -1.0, 0.0, f64::INFINITY, 1e300].map(|i| scale.value(i)), [1, 1, 1, 7, 7]);
        assert!(ImportanceScale::new(0.0, 7).is_err() && ImportanceScale::new(f64::NAN, 7).is_err());
    }

    #[test]
    fn each_rule_raises_to_its_value() {
        let raised = |rule: ImportanceRule| [1, 3, 4, 7, 9].map(|value| rule.raised_value(value, 7));
        assert_eq!(raised(ImportanceRule::Stable), [7; 5]);
        assert_eq!(raised(ImportanceRule::two_class(7)), [3, 3, 7, 7, 7]);
        assert_eq!(raised(ImportanceRule::MultiClass), [1, 3, 4, 7, 7]);
        assert_eq!(ImportanceRule::two_class(1), ImportanceRule::TwoClass { low: 1 });
    }
}
