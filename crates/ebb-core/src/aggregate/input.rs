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
    /// The weight is below 1, above the maximum of the method, or not a number.
    Weight,
    /// The value is negative, above `max`, or absent.
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
            ObservationError::Value { .. } => Refusal::Value,
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
    /// In steps.
    pub value: u64,
    pub label: u128,
    pub weight: f64,
}

impl AggregateInput {
    /// Encoded size.
    pub const BYTES: usize = 16 + 8 + 8 + 16 + 8;

    pub fn observation(&self) -> Observation {
        Observation { time_ms: self.time_ms, value: self.value, label: self.label, weight: self.weight }
    }

    pub fn encode(&self, writer: &mut Writer) {
        writer.u128(self.id.bits());
        writer.i64(self.time_ms);
        writer.u64(self.value);
        writer.u128(self.label);
        writer.f64(self.weight);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let bits = reader.u128()?;
        let id = ElementId::from_bits(bits);
        if id.bits() != bits {
            return Err(CodecError::invalid("id", "has more than 120 bits"));
        }
        let (time_ms, value, label, weight) = (reader.i64()?, reader.u64()?, reader.u128()?, reader.f64()?);
        Ok(Self { id, time_ms, value, label, weight })
    }
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
        let value = measured.and_then(|value| self.scale.steps(value)).ok_or(Refusal::Value)?;
        let weight = if parameters.counts_by_weight() { self.weight(event.weight)? } else { 1.0 };
        let id = match parameters.of {
            Measure::Distinct(_) => ElementId::from_bits(label),
            Measure::Count | Measure::Value | Measure::Weight | Measure::Number(_) => at.id,
        };
        Ok(AggregateInput { id, time_ms, value, label, weight })
    }

    fn weight(&self, weight: Option<f64>) -> Result<f64, Refusal> {
        let weight = weight.unwrap_or(1.0);
        let parameters = self.parameters();
        let (weight, max) = match parameters.method {
            Method::Robust | Method::Integral => (libm::round(weight), f64::from(parameters.max_integer_weight())),
            Method::Forward | Method::Division | Method::Cascade | Method::Levels => {
                (weight, WeightLimits::default().max())
            }
        };
        if (1.0..=max).contains(&weight) { Ok(weight) } else { Err(Refusal::Weight) }
    }
}
