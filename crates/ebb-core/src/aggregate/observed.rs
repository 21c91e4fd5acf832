//! An event as an aggregate sees it, and why it may be refused.
//!
//! What is refused changes nothing of this aggregate but a count; the event keeps its verdict and the other views.

use super::spec::{AggregateSpec, Measure, Method};
use crate::event::Event;
use ebb_sketch::aggregate::content::{Observation, Refused, TIME_MOST_MS, WeightLimits};
use ebb_sketch::aggregate::robust::{Element, ElementError, ElementId};
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::hash::Fingerprint;

/// Why an event is not in an aggregate. Closed: it is a metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Below 1, above the largest that the method takes, or no number.
    Weight,
    /// Negative, above `max`, or absent.
    Value,
    /// Further from the epoch than any clock.
    Time,
    /// Older than the horizon when it came.
    Late,
}

impl Refusal {
    pub const ALL: [Refusal; 4] = [Refusal::Weight, Refusal::Value, Refusal::Time, Refusal::Late];

    pub fn name(self) -> &'static str {
        match self {
            Refusal::Weight => "weight",
            Refusal::Value => "value",
            Refusal::Time => "time",
            Refusal::Late => "late",
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Weight { .. } => Refusal::Weight,
            Refused::Value { .. } => Refusal::Value,
            Refused::Time { .. } => Refusal::Time,
            Refused::Late { .. } => Refusal::Late,
        }
    }
}

impl From<ElementError> for Refusal {
    fn from(error: ElementError) -> Self {
        match error {
            ElementError::WeightZero | ElementError::WeightAbove { .. } => Refusal::Weight,
            ElementError::TimeExtreme { .. } => Refusal::Time,
        }
    }
}

/// One event in the units of the sketches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observed {
    pub id: ElementId,
    pub time_ms: i64,
    /// In steps.
    pub value: u64,
    pub label: u128,
    pub weight: f64,
}

impl Observed {
    pub const BYTES: usize = 16 + 8 + 8 + 16 + 8;

    pub fn observation(&self) -> Observation {
        Observation { time_ms: self.time_ms, value: self.value, label: self.label, weight: self.weight }
    }

    /// With what is counted by value.
    pub fn element(&self, value: u64) -> Element {
        Element { time_ms: self.time_ms, id: self.id, value, weight: self.weight as u32 }
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.u128(self.id.bits());
        writer.i64(self.time_ms);
        writer.u64(self.value);
        writer.u128(self.label);
        writer.f64(self.weight);
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let bits = reader.u128()?;
        let id = ElementId::from_bits(bits);
        if id.bits() != bits {
            return Err(CodecError::invalid("id", "above 120 bits"));
        }
        let (time_ms, value, label, weight) = (reader.i64()?, reader.u64()?, reader.u128()?, reader.f64()?);
        Ok(Self { id, time_ms, value, label, weight })
    }
}

/// When an event happened, which observation it is, and what its label hashes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occurrence {
    pub(crate) time_ms: i64,
    pub(crate) id: ElementId,
    /// The largest accepted event time.
    pub(crate) clock_ms: i64,
    /// The event's key under the previous hash key, while keys are exchanged.
    pub(crate) previous_key: Option<Fingerprint>,
}

impl AggregateSpec {
    /// What the aggregate takes of an event, whole or not at all.
    pub(super) fn observe(&self, event: &Event, at: &Occurrence, label: u128) -> Result<Observed, Refusal> {
        let time_ms = at.time_ms;
        if !(-TIME_MOST_MS..=TIME_MOST_MS).contains(&time_ms) {
            return Err(Refusal::Time);
        }
        let given = self.parameters();
        if given.method.has_horizon() && at.clock_ms.abs_diff(time_ms) >= given.horizon_ms {
            return Err(Refusal::Late);
        }
        let measured = match given.of {
            Measure::Count => Some(1.0),
            Measure::Value => event.value,
            Measure::Weight => event.weight,
            Measure::Number(place) => event.numbers.get(place).copied().flatten(),
        };
        let value = measured.and_then(|value| self.scale.kept(value)).ok_or(Refusal::Value)?;
        let weight = if given.counts_by_weight() { self.weight(event.weight)? } else { 1.0 };
        Ok(Observed { id: at.id, time_ms, value, label, weight })
    }

    fn weight(&self, weight: Option<f64>) -> Result<f64, Refusal> {
        let weight = weight.unwrap_or(1.0);
        let given = self.parameters();
        let (weight, most) = match given.method {
            Method::Robust | Method::Integral => (libm::round(weight), f64::from(given.whole_weight_most())),
            Method::Forward | Method::Division | Method::Cascade | Method::Levels => {
                (weight, WeightLimits::default().most())
            }
        };
        if (1.0..=most).contains(&weight) { Ok(weight) } else { Err(Refusal::Weight) }
    }
}
