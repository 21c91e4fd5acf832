//! Numbers of events to the whole numbers of the sketches, and back.
//!
//! A value v is kept as the nearest whole number of steps (halves away from 0): k = round(v / step), at most half a step
//! off, and answers speak of k · step. Bounds are bounds of what is kept, so they do not include that rounding.

use super::spec::AggregateSpecError;
use ebb_sketch::aggregate::predicate::{Comparison, Field, Predicate};
use ebb_sketch::aggregate::qdigest::BITS_MOST;

/// A number of steps this near to a whole one is meant to be it: 0.3 is three steps of 0.1.
const NEAR: f64 = 1e-9;

/// The step and how many of them the largest value has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    step: f64,
    most: u64,
}

impl Scale {
    pub(super) const STEPS_MOST: u64 = (1 << BITS_MOST) - 1;

    /// Values from 0 to `max`, told apart when they are a `step` apart.
    pub(super) fn new(step: f64, max: f64) -> Result<Self, AggregateSpecError> {
        let positive = |number: f64| number.is_finite() && number > 0.0;
        if !positive(step) || !positive(max) || step > max {
            return Err(AggregateSpecError::Step { step, max });
        }
        let most = libm::floor(max / step + NEAR);
        if most > Self::STEPS_MOST as f64 {
            return Err(AggregateSpecError::Steps { step, max, nearest: max / Self::STEPS_MOST as f64 });
        }
        Ok(Self { step, most: most as u64 })
    }

    /// Whole numbers as they are: what a count is counted in.
    pub(super) fn ones() -> Self {
        Self { step: 1.0, most: 1 }
    }

    /// Bits that the largest value needs.
    pub(super) fn bits(self) -> u8 {
        (u64::BITS - self.most.leading_zeros()).max(1) as u8
    }

    /// None when the value is negative, above the largest, or no number.
    pub(super) fn kept(self, value: f64) -> Option<u64> {
        let steps = libm::round(value / self.step);
        // Minus nothing is nothing; what rounds to it from below is below it.
        (value >= 0.0 && steps <= self.most as f64).then_some(steps as u64)
    }

    /// What `steps` steps are worth.
    pub(super) fn shown(self, steps: u64) -> f64 {
        steps as f64 * self.step
    }

    pub(super) fn step(self) -> f64 {
        self.step
    }

    /// The most steps that are worth at most `value`; none when even 0 is worth more.
    pub(super) fn at_most(self, value: f64) -> Option<u64> {
        (value >= 0.0).then(|| (libm::floor(value / self.step + NEAR) as u64).min(self.most))
    }

    /// A predicate on values as one on steps. `weight` says what its other field is kept as.
    pub(super) fn predicate(self, asked: &Predicate<f64>, weight: Field) -> Predicate {
        let all = |parts: &[Predicate<f64>]| parts.iter().map(|part| self.predicate(part, weight)).collect();
        match asked {
            // Weighting are kept whole, whatever the values are kept in.
            Predicate::Compare { field: Field::Weight, comparison, bound } if weight == Field::Weight => {
                compare_steps(Field::Weight, *comparison, *bound)
            }
            Predicate::Compare { comparison, bound, .. } => compare_steps(Field::Value, *comparison, bound / self.step),
            Predicate::All(parts) => Predicate::All(all(parts)),
            Predicate::Any(parts) => Predicate::Any(all(parts)),
        }
    }
}

/// Whole numbers compared with one that may lie between two of them.
fn compare_steps(field: Field, comparison: Comparison, steps: f64) -> Predicate {
    let below = libm::floor(steps + NEAR);
    let exact = (steps - libm::round(steps)).abs() <= NEAR;
    let compare = |comparison, bound: f64| Predicate::Compare { field, comparison, bound: bound as u64 };
    match comparison {
        Comparison::Less if exact => compare(Comparison::Less, below),
        Comparison::Less | Comparison::AtMost => compare(Comparison::AtMost, below),
        Comparison::Equal if exact => compare(Comparison::Equal, below),
        // Between two steps lies nothing.
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
    fn values_go_to_the_nearest_step_and_back() {
        let scale = Scale::new(0.01, 10_000.0).unwrap();
        assert_eq!((scale.kept(0.25), scale.kept(0.254), scale.kept(0.256)), (Some(25), Some(25), Some(26)));
        assert_eq!(
            (scale.kept(10_000.0), scale.kept(10_000.004), scale.kept(10_000.006)),
            (Some(1_000_000), Some(1_000_000), None)
        );
        assert_eq!((scale.kept(-0.001), scale.kept(f64::NAN), scale.kept(f64::INFINITY)), (None, None, None));
        assert_eq!((scale.shown(25), scale.bits()), (0.25, 20));
    }

    #[test]
    fn what_has_no_steps_or_too_many_is_refused_with_the_nearest() {
        for (step, max) in [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert!(matches!(Scale::new(step, max), Err(AggregateSpecError::Step { .. })), "{step} {max}");
        }
        let Err(AggregateSpecError::Steps { nearest, .. }) = Scale::new(0.001, 1e12) else { panic!("too many steps") };
        assert!(Scale::new(nearest, 1e12).is_ok());
    }

    #[test]
    fn a_predicate_means_the_same_of_steps_as_of_values() {
        for step in [0.1, 0.25, 1.0, 3.0, 7.5] {
            let scale = Scale::new(step, 300.0).unwrap();
            for sign in ["<", "<=", "=", "!=", ">=", ">"] {
                for bound in [0.0, 0.3, 1.0, 2.75, 3.0, 15.0, 100.0] {
                    let asked: Predicate<f64> = format!("value {sign} {bound}").parse().unwrap();
                    let scaled = scale.predicate(&asked, Field::Weight);
                    for steps in 0..=scale.most {
                        let value = scale.shown(steps);
                        let same = (value - bound).abs() < 1e-9;
                        let truth = match sign {
                            "<" => value < bound && !same,
                            "<=" => value < bound || same,
                            "=" => same,
                            "!=" => !same,
                            ">=" => value > bound || same,
                            _ => value > bound && !same,
                        };
                        assert_eq!(scaled.matches(steps, 1), truth, "{asked}, step {step}, value {value}");
                    }
                }
            }
        }
    }

    #[test]
    fn weights_are_compared_with_fractions_as_they_are() {
        let scale = Scale::new(0.1, 10.0).unwrap();
        let scaled = |text: &str| scale.predicate(&text.parse().unwrap(), Field::Weight);
        assert!(scaled("weight > 2.5").matches(0, 3) && !scaled("weight > 2.5").matches(0, 2));
        assert!(scaled("weight = 2").matches(0, 2) && !scaled("weight = 2.5").matches(0, 2));
    }

    #[test]
    fn ranks_begin_at_the_step_that_the_value_reaches() {
        let scale = Scale::new(0.1, 10.0).unwrap();
        assert_eq!((scale.at_most(0.3), scale.at_most(0.39), scale.at_most(99.0)), (Some(3), Some(3), Some(100)));
        assert_eq!((scale.at_most(-0.1), scale.at_most(f64::NAN)), (None, None));
    }
}
