//! Where the prior of an event comes from, if not from the filter.

use std::sync::Arc;

use ebb_sketch::filter::belief::{ArrivalShare, ArrivalShareError};

/// A source of the item's share of all events.
#[derive(Debug, Clone, PartialEq)]
pub enum ShareSource {
    /// The same for all events.
    Constant(ArrivalShare),
    /// A field of the event, by its index in [`crate::EventSpec::numbers`].
    Field(usize),
    /// The event's importance, with the share of each class.
    Classes(Arc<[(f64, ArrivalShare)]>),
}

impl ShareSource {
    /// The share of one event; `None` when its field or class is absent, as in a question that contains only the item, so
    /// that the filter's own prior applies.
    pub(super) fn evaluate(
        &self,
        numbers: &[Option<f64>],
        importance: Option<f64>,
    ) -> Result<Option<ArrivalShare>, ArrivalShareError> {
        match self {
            Self::Constant(share) => Ok(Some(*share)),
            Self::Classes(classes) => {
                Ok(classes.iter().find(|(class, _)| Some(*class) == importance).map(|(_, share)| *share))
            }
            Self::Field(index) => numbers.get(*index).copied().flatten().map(ArrivalShare::new).transpose(),
        }
    }
}

/// The groups of items for which a learned prior is kept separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PriorStrata {
    /// Keys with repeats.
    #[default]
    Keys,
    /// Keys with repeats, and items by their decayed count.
    KeysAndFrequency,
}
