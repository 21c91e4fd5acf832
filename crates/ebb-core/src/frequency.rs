//! The frequency view: decayed counts of items.
//!
//! Where events have a weight, an event counts as often as its weight says. A weight below 0 or above
//! [`ObservationWeight::MAX`] is not counted, and the event is counted as refused.

use super::event::{Event, PreviousKey};
use super::event_spec::EventSpec;
use ebb_sketch::codec::{CodecError, Reader, Writer};
use ebb_sketch::filter::structure::frequency::{FrequencyFilter, FrequencySpec, ObservationWeight};
use ebb_sketch::hash::Fingerprint;

/// The counters of a frequency view, and what its answers contain.
///
/// ```
/// use ebb_core::FrequencyPlan;
/// use ebb_sketch::filter::structure::frequency::{FrequencySpec, forward::ForwardSpec};
/// use ebb_sketch::filter::structure::layout::CellLayout;
///
/// let counters = FrequencySpec::Forward(ForwardSpec::new(CellLayout::Lines(16), 4, 60_000)?);
/// let plan = FrequencyPlan::from(counters).normalised_by(60_000);
/// assert!((plan.normalisation().unwrap() - 0.5).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrequencyPlan {
    spec: FrequencySpec,
    normalisation: Option<f64>,
}

impl From<FrequencySpec> for FrequencyPlan {
    fn from(spec: FrequencySpec) -> Self {
        Self { spec, normalisation: None }
    }
}

impl FrequencyPlan {
    /// Answers also contain the count times 1 − λ, where λ is the factor by which counts decay in `epoch_ms`.
    #[must_use]
    pub fn normalised_by(self, epoch_ms: u64) -> Self {
        let half_lives = epoch_ms as f64 / self.spec.half_life_ms() as f64;
        // The steps cover the rounding of the exponent and of expm1: a normalised count is never too low either.
        let share = -libm::expm1(-std::f64::consts::LN_2 * half_lives) * (1.0 + 8.0 * f64::EPSILON);
        Self { normalisation: Some(share), ..self }
    }

    /// Method, size and decay.
    pub fn spec(&self) -> &FrequencySpec {
        &self.spec
    }

    /// The factor 1 − λ, if answers are normalised.
    pub fn normalisation(&self) -> Option<f64> {
        self.normalisation
    }
}

/// The decayed count of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ItemCount {
    /// The estimate; never below the true count unless `lower_bound` is set.
    pub value: f64,
    /// Counters ran out of room: the true count may be higher.
    pub lower_bound: bool,
    /// (1 − λ) times the count, where the plan asks for it: the decayed average number of events per epoch.
    pub normalised: Option<f64>,
}

impl ItemCount {
    /// The count of an item that two sets of counters have seen.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            lower_bound: self.lower_bound || other.lower_bound,
            normalised: self.normalised.zip(other.normalised).map(|(one, other)| one + other),
        }
    }
}

/// Which weight an event has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventWeight {
    /// Every event counts once.
    One,
    /// An event counts as often as its weight says.
    Own,
}

/// The state of the frequency view.
#[derive(Debug, Clone)]
pub(crate) struct FrequencyView {
    counts: FrequencyFilter,
    weight: EventWeight,
    /// Events whose weight was out of range.
    refused: u64,
}

fn event_weight(event: &EventSpec) -> EventWeight {
    if event.weight.is_some() { EventWeight::Own } else { EventWeight::One }
}

impl FrequencyView {
    pub(crate) fn new(plan: &FrequencyPlan, event: &EventSpec) -> Self {
        Self { counts: FrequencyFilter::new(plan.spec), weight: event_weight(event), refused: 0 }
    }

    pub(crate) fn advance(&mut self, now_ms: i64) {
        self.counts.advance(now_ms);
    }

    pub(crate) fn observe(&mut self, event: &Event, time_ms: i64) {
        match self.weight {
            EventWeight::One => self.counts.add(event.item, time_ms),
            EventWeight::Own => match ObservationWeight::new(event.weight.unwrap_or(1.0)) {
                Ok(weight) => self.counts.add_weighted(event.item, time_ms, weight),
                Err(_) => self.refused += 1,
            },
        }
    }

    /// The item's decayed count under both hash keys together, so that it is never an underestimate.
    pub(crate) fn estimate(
        &self,
        plan: &FrequencyPlan,
        (item, previous_key): (Fingerprint, Option<PreviousKey>),
        as_of_ms: i64,
    ) -> ItemCount {
        let count = |item| {
            let count = self.counts.estimate(item, as_of_ms);
            let normalised = plan.normalisation.map(|factor| factor * count.value);
            ItemCount { value: count.value, lower_bound: count.lower_bound, normalised }
        };
        match previous_key {
            None => count(item),
            Some(previous_key) => count(item).plus(count(previous_key.item)),
        }
    }

    /// How often a counter had no room.
    pub(crate) fn lost_increments(&self) -> u64 {
        self.counts.lost_increments()
    }

    /// Events whose weight was out of range.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.counts.memory_bytes()
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.bytes(&self.counts.encode());
        if self.weight == EventWeight::Own {
            writer.varint(self.refused);
        }
    }

    pub(crate) fn decode(event: &EventSpec, reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (counts, weight) = (FrequencyFilter::decode(reader.bytes()?)?, event_weight(event));
        let refused = if weight == EventWeight::Own { reader.varint()? } else { 0 };
        Ok(Self { counts, weight, refused })
    }
}

/// Appends what the meaning of the state depends on.
pub(crate) fn write_identity(plan: Option<&FrequencyPlan>, event: &EventSpec, writer: &mut Writer) {
    let Some(plan) = plan else { return writer.u8(0) };
    writer.u8(match event_weight(event) {
        EventWeight::One => 1,
        EventWeight::Own => 2,
    });
    plan.spec.write_identity(writer);
}
