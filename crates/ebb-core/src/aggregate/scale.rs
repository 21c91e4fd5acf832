//! Conversion between values of events and the integers that sketches keep.
//!
//! A value v is kept as k = round(v / step), halves away from 0, and answers report k · step. The bounds of an answer refer
//! to the rounded values, so they do not include the rounding error of at most half a step. The method `robust` sums amounts
//! that are not rounded: its sums and means have no such error.

use super::spec_error::AggregateSpecError;
use ebb_sketch::aggregate::predicate::{Comparison, Field, Predicate};
use ebb_sketch::aggregate::qdigest::MAX_VALUE_BITS;

/// Tolerance within which a number of steps counts as an integer: 0.3 is three steps of 0.1.
const TOLERANCE: f64 = 1e-9;

/// The step, and the largest value in steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    step: f64,
    max_steps: u64,
}

impl Scale {
    pub(super) const MAX_STEPS: u64 = (1 << MAX_VALUE_BITS) - 1;

    /// Values from 0 to `max` in steps of `step`.
    pub(super) fn new(step: f64, max: f64) -> Result<Self, AggregateSpecError> {
        let positive = |number: f64| number.is_finite() && number > 0.0;
        if !positive(step) || !positive(max) || step > max {
            return Err(AggregateSpecError::Step { step, max });
        }
        let max_steps = libm::floor(max / step + TOLERANCE);
        if max_steps > Self::MAX_STEPS as f64 {
            return Err(AggregateSpecError::Steps { step, max, nearest: max / Self::MAX_STEPS as f64 });
        }
        Ok(Self { step, max_steps: max_steps as u64 })
    }

    /// The scale of counts.
    pub(super) fn unit() -> Self {
        Self { step: 1.0, max_steps: 1 }
    }

    /// Number of bits of the largest value in steps.
    pub(super) fn bits(self) -> u8 {
        (u64::BITS - self.max_steps.leading_zeros()).max(1) as u8
    }

    /// The nearest number of steps; `None` when the value is negative, too large or not a number.
    pub(super) fn steps(self, value: f64) -> Option<u64> {
        let steps = libm::round(value / self.step);
        // Accepts -0.0, but not negative values that round to 0.
        (value >= 0.0 && steps <= self.max_steps as f64).then_some(steps as u64)
    }

    /// The exact number of steps of a value that [`Scale::steps`] accepts; whole up to the rounding of the division.
    pub(super) fn amount(self, value: f64) -> Option<f64> {
        let (nearest, exact) = (self.steps(value)? as f64, value / self.step);
        Some(if (exact - nearest).abs() <= TOLERANCE { nearest } else { exact })
    }

    /// The largest number of steps.
    pub(super) fn max_steps(self) -> u64 {
        self.max_steps
    }

    /// The value of a number of steps.
    pub(super) fn value(self, steps: u64) -> f64 {
        steps as f64 * self.step
    }

    pub(super) fn step(self) -> f64 {
        self.step
    }

    /// The largest number of steps whose value is at most `value`; `None` when `value` is negative or not a number.
    pub(super) fn steps_up_to(self, value: f64) -> Option<u64> {
        (value >= 0.0).then(|| (libm::floor(value / self.step + TOLERANCE) as u64).min(self.max_steps))
    }

    /// Converts a predicate on values to one on steps. `weight` is the field that weights are kept in.
    pub(super) fn predicate(self, predicate: &Predicate<f64>, weight: Field) -> Predicate {
        let all = |parts: &[Predicate<f64>]| parts.iter().map(|part| self.predicate(part, weight)).collect();
        match predicate {
            // Weights are integers, whatever the step of values.
            Predicate::Compare { field: Field::Weight, comparison, bound } if weight == Field::Weight => {
                compare_steps(Field::Weight, *comparison, *bound)
            }
            Predicate::Compare { comparison, bound, .. } => compare_steps(Field::Value, *comparison, bound / self.step),
            Predicate::All(parts) => Predicate::All(all(parts)),
            Predicate::Any(parts) => Predicate::Any(all(parts)),
        }
    }
}

/// Compares integers with a bound that may lie between two of them.
fn compare_steps(field: Field, comparison: Comparison, steps: f64) -> Predicate {
    let below = libm::floor(steps + TOLERANCE);
    let exact = (steps - libm::round(steps)).abs() <= TOLERANCE;
    let compare = |comparison, bound: f64| Predicate::Compare { field, comparison, bound: bound as u64 };
    match comparison {
        Comparison::Less if exact => compare(Comparison::Less, below),
        Comparison::Less | Comparison::AtMost => compare(Comparison::AtMost, below),
        Comparison::Equal if exact => compare(Comparison::Equal, below),
        // No value lies between two steps.
        Comparison::Equal => Predicate::Any(Vec::new()),
        Comparison::NotEqual if exact => compare(Comparison::NotEqual, below),
        Comparison::NotEqual => Predicate::All(Vec::new()),
        Comparison::AtLeast if exact => compare(Comparison::AtLeast, below),
        Comparison::AtLeast | Comparison::More => compare(Comparison::More, below),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_to_the_nearest_step() {
        let scale = Scale::new(0.01, 10_000.0).unwrap();
        assert_eq!((scale.steps(0.25), scale.steps(0.254), scale.steps(0.256)), (Some(25), Some(25), Some(26)));
        assert_eq!(
            (scale.steps(10_000.0), scale.steps(10_000.004), scale.steps(10_000.006)),
            (Some(1_000_000), Some(1_000_000), None)
        );
        assert_eq!((scale.steps(-0.001), scale.steps(f64::NAN), scale.steps(f64::INFINITY)), (None, None, None));
        assert_eq!((scale.value(25), scale.bits()), (0.25, 20));
    }

    #[test]
    fn amounts_are_not_rounded() {
        let scale = Scale::new(0.1, 10.0).unwrap();
        assert_eq!((scale.amount(0.3), scale.amount(0.7), scale.amount(-0.0)), (Some(3.0), Some(7.0), Some(0.0)));
        assert_eq!((scale.amount(0.125), scale.amount(0.001)), (Some(1.25), Some(0.001 / 0.1)));
        assert_eq!((scale.amount(-0.01), scale.amount(10.2), scale.amount(f64::NAN)), (None, None, None));
    }

    #[test]
    fn invalid_steps_are_refused_with_the_nearest_valid_one() {
        for (step, max) in [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert!(matches!(Scale::new(step, max), Err(AggregateSpecError::Step { .. })), "{step} {max}");
        }
        let Err(AggregateSpecError::Steps { nearest, .. }) = Scale::new(0.001, 1e12) else { panic!("too many steps") };
        assert!(Scale::new(nearest, 1e12).is_ok());
    }

    #[test]
    fn predicate_on_steps_equals_predicate_on_values() {
        for step in [0.1, 0.25, 1.0, 3.0, 7.5] {
            let scale = Scale::new(step, 300.0).unwrap();
            for sign in ["<", "<=", "=", "!=", ">=", ">"] {
                for bound in [0.0, 0.3, 1.0, 2.75, 3.0, 15.0, 100.0] {
                    let predicate: Predicate<f64> = format!("value {sign} {bound}").parse().unwrap();
                    let scaled = scale.predicate(&predicate, Field::Weight);
                    for steps in 0..=scale.max_steps {
                        let value = scale.value(steps);
                        let same = (value - bound).abs() < 1e-9;
                        let truth = match sign {
                            "<" => value < bound && !same,
                            "<=" => value < bound || same,
                            "=" => same,
                            "!=" => !same,
                            ">=" => value > bound || same,
                            _ => value > bound && !same,
                        };
                        assert_eq!(scaled.matches(steps, 1), truth, "{predicate}, step {step}, value {value}");
                    }
                }
            }
        }
    }

    #[test]
    fn weights_are_compared_without_scaling() {
        let scale = Scale::new(0.1, 10.0).unwrap();
        let scaled = |text: &str| scale.predicate(&text.parse().unwrap(), Field::Weight);
        assert!(scaled("weight > 2.5").matches(0, 3) && !scaled("weight > 2.5").matches(0, 2));
        assert!(scaled("weight = 2").matches(0, 2) && !scaled("weight = 2.5").matches(0, 2));
    }

    #[test]
    fn steps_up_to_rounds_down_and_refuses_negative_values() {
        let scale = Scale::new(0.1, 10.0).unwrap();
        assert_eq!(
            (scale.steps_up_to(0.3), scale.steps_up_to(0.39), scale.steps_up_to(99.0)),
            (Some(3), Some(3), Some(100))
        );
        assert_eq!((scale.steps_up_to(-0.1), scale.steps_up_to(f64::NAN)), (None, None));
    }
}
