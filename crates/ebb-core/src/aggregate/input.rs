//! An event in the units of an aggregate's sketches, or the reason why the aggregate refuses it.
//!
//! A refused event changes nothing in the aggregate but a count. It keeps its verdict and is still part of other views.

use super::method::{Measure, Method};
use super::spec::AggregateSpec;
use crate::event::Event;
use ebb_sketch::aggregate::robust::ElementId;
use ebb_sketch::aggregate::{MAX_TIME_MS, Observation, ObservationError, WeightLimits};
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::hash::Fingerprint;

/// Why an aggregate refuses an event.
///
/// The set is closed, because [`Refusal::name`] is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The weight is below 1, above the maximum of the method, or not a number; for methods that sample, also not whole.
    Weight,
    /// The value is negative, above `max`, or absent; for `robust`, also less than the smallest part of `step` that it can
    /// sum.
    Value,
    /// The time is out of range.
    Time,
    /// The event was older than the horizon when it arrived.
    Late,
}

impl Refusal {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Refusal; 4] = [Refusal::Weight, Refusal::Value, Refusal::Time, Refusal::Late];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::Weight => "weight",
            Refusal::Value => "value",
            Refusal::Time => "time",
            Refusal::Late => "late",
        }
    }
}

impl From<ObservationError> for Refusal {
    fn from(refused: ObservationError) -> Self {
        match refused {
            ObservationError::Weight { .. } => Refusal::Weight,
            ObservationError::Value { .. } | ObservationError::Amount { .. } => Refusal::Value,
            ObservationError::Time { .. } => Refusal::Time,
            ObservationError::Late { .. } => Refusal::Late,
        }
    }
}

/// One event in the units of the sketches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AggregateInput {
    pub id: ElementId,
    pub time_ms: i64,
    /// In steps; whole, unless the method is `robust`.
    pub steps: f64,
    pub label: u128,
    pub weight: f64,
}

impl AggregateInput {
    /// Encoded size.
    pub const BYTES: usize = 16 + 8 + 8 + 16 + 8;

    pub fn observation(&self) -> Observation {
        let value = libm::round(self.steps) as u64;
        Observation { time_ms: self.time_ms, value, label: self.label, weight: self.weight }
    }

    /// The value, not rounded, as often as the event counts.
    pub fn amount(&self) -> f64 {
        self.steps * self.weight
    }

    pub fn encode(&self, writer: &mut Writer) {
        writer.u128(self.id.bits());
        writer.i64(self.time_ms);
        writer.u64(steps_to_bits(self.steps));
        writer.u128(self.label);
        writer.f64(self.weight);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let bits = reader.u128()?;
        let id = ElementId::from_bits(bits);
        if id.bits() != bits {
            return Err(CodecError::invalid("id", "has more than 120 bits"));
        }
        let (time_ms, steps, label, weight) = (reader.i64()?, reader.u64()?, reader.u128()?, reader.f64()?);
        let steps = steps_from_bits(steps).ok_or_else(|| CodecError::invalid("steps", "not a number of steps"))?;
        Ok(Self { id, time_ms, steps, label, weight })
    }
}

/// Whole numbers of steps are below this, and the bits of other numbers above.
const MAX_WHOLE_STEPS: u64 = 1 << 53;

fn steps_to_bits(steps: f64) -> u64 {
    if libm::floor(steps) == steps { steps as u64 } else { steps.to_bits() }
}

/// `None` for bits that [`steps_to_bits`] does not give.
fn steps_from_bits(bits: u64) -> Option<f64> {
    let steps = if bits < MAX_WHOLE_STEPS { bits as f64 } else { f64::from_bits(bits) };
    (steps >= 0.0 && steps < MAX_WHOLE_STEPS as f64 && steps_to_bits(steps) == bits).then_some(steps)
}

/// Time and identity of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occurrence {
    pub(crate) time_ms: i64,
    pub(crate) id: ElementId,
    /// The largest accepted event time.
    pub(crate) clock_ms: i64,
    /// The event's key under the previous hash key, during a key rotation.
    pub(crate) previous_key: Option<Fingerprint>,
}

impl AggregateSpec {
    /// Converts an event, or refuses it.
    pub(super) fn input(&self, event: &Event, at: &Occurrence, label: u128) -> Result<AggregateInput, Refusal> {
        let time_ms = at.time_ms;
        if !(-MAX_TIME_MS..=MAX_TIME_MS).contains(&time_ms) {
            return Err(Refusal::Time);
        }
        let parameters = self.parameters();
        if parameters.method.has_horizon() && at.clock_ms.abs_diff(time_ms) >= parameters.horizon_ms {
            return Err(Refusal::Late);
        }
        let measured = match parameters.of {
            Measure::Count | Measure::Distinct(_) => Some(1.0),
            Measure::Value => event.value,
            Measure::Weight => event.weight,
            Measure::Number(index) => event.numbers.get(index).copied().flatten(),
        };
        let steps = |value: f64| match parameters.method {
            Method::Robust => self.scale.amount(value),
            _ => self.scale.steps(value).map(|steps| steps as f64),
        };
        let steps = measured.and_then(steps).ok_or(Refusal::Value)?;
        let weight = if parameters.counts_by_weight() { self.weight(event.weight)? } else { 1.0 };
        let id = match parameters.of {
            Measure::Distinct(_) => ElementId::from_bits(label),
            Measure::Count | Measure::Value | Measure::Weight | Measure::Number(_) => at.id,
        };
        Ok(AggregateInput { id, time_ms, steps, label, weight })
    }

    fn weight(&self, weight: Option<f64>) -> Result<f64, Refusal> {
        let weight = weight.unwrap_or(1.0);
        let parameters = self.parameters();
        let (is_countable, max) = match parameters.method {
            Method::Robust | Method::Integral => {
                (libm::floor(weight) == weight, f64::from(parameters.max_integer_weight()))
            }
            Method::Forward | Method::Division | Method::Cascade | Method::Levels => {
                (true, WeightLimits::default().max())
            }
        };
        if is_countable && (1.0..=max).contains(&weight) { Ok(weight) } else { Err(Refusal::Weight) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_survive_their_bits_and_other_bits_are_refused() {
        for steps in [0.0, 1.0, 4_294_967_295.0, 0.25, 1e-9, 12_345.678] {
            assert_eq!(steps_from_bits(steps_to_bits(steps)), Some(steps));
        }
        assert_eq!([7.0, 1e6].map(steps_to_bits), [7, 1_000_000], "whole steps are written as integers");
        for bits in [2.0f64.to_bits(), f64::NAN.to_bits(), (-0.5f64).to_bits(), u64::MAX] {
            assert_eq!(steps_from_bits(bits), None, "{bits:x}");
        }
    }
}
