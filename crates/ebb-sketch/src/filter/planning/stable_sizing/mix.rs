//! The classes of importance among arrivals, independent of the largest cell value.

use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::planning::stationary::ValueShares;

/// The most classes of a mix.
pub const MAX_CLASSES: usize = 16;

/// How frequent each class of importance is.
///
/// ```
/// use ebb_sketch::filter::planning::stable_sizing::ClassMix;
///
/// // A tenth of the arrivals has the largest importance, the others half of it.
/// let mix = ClassMix::new(&[(1.0, 1.0), (0.5, 9.0)]).unwrap();
/// assert_eq!(mix.values(4).shares(), [0.0, 0.9, 0.0, 0.1]);
/// assert_eq!(ClassMix::EVEN.values(4).shares(), [0.25; 4]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassMix {
    /// Importance as a fraction of the largest, and weight.
    classes: [(f64, f64); MAX_CLASSES],
    len: u8,
}

impl ClassMix {
    /// Every cell value is equally frequent.
    pub const EVEN: Self = Self { classes: [(0.0, 0.0); MAX_CLASSES], len: 0 };

    /// Pairs of an importance, as a fraction of the largest, and a weight.
    pub fn new(classes: &[(f64, f64)]) -> Result<Self, ParameterError> {
        check_range("the number of classes", classes.len(), 1..=MAX_CLASSES, "a mix has a few classes")?;
        let mut mix = Self { len: classes.len() as u8, ..Self::EVEN };
        for (at, (importance, weight)) in classes.iter().enumerate() {
            check_range("an importance", *importance, 0.0..=1.0, "it is a fraction of the largest")?;
            check_range("a class's share", *weight, 0.0..=f64::MAX / 32.0, "shares are finite and not negative")?;
            mix.classes[at] = (*importance, *weight);
        }
        let total: f64 = classes.iter().map(|(_, weight)| weight).sum();
        check_range("the sum of the shares", total, f64::MIN_POSITIVE..=f64::MAX, "some class must arrive")?;
        Ok(mix)
    }

    /// The frequencies of the cell values 1..=M: importance i has the value ⌈i · M⌉.
    pub fn values(&self, max_value: u8) -> ValueShares {
        let mut weights = vec![0.0; usize::from(max_value.max(1))];
        for (importance, weight) in &self.classes[..usize::from(self.len)] {
            let value = libm::ceil(importance * f64::from(max_value)).clamp(1.0, f64::from(max_value.max(1)));
            weights[value as usize - 1] += weight;
        }
        ValueShares::new(&weights).unwrap_or_else(|_| ValueShares::uniform(max_value))
    }
}
