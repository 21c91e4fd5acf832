//! What wrong answers cost, for all keys or for some, as constants or as fields of the event.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_sketch::filter::decision::{Penalties, PenaltyError};
use ebb_sketch::hash::Fingerprint;

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    Constant(f64),
    /// The place of the number in [`crate::EventSpec::numbers`].
    Field(usize),
}

/// What wrong answers cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PenaltySpec {
    pub false_duplicate: Cost,
    pub missed_duplicate: Cost,
}

impl PenaltySpec {
    /// The penalties of one event; none when a field they need is absent, as in a question that names only the item.
    pub(super) fn of(&self, numbers: &[Option<f64>]) -> Result<Option<Penalties>, PenaltyError> {
        let cost = |cost| match cost {
            Cost::Constant(cost) => Some(cost),
            Cost::Field(place) => numbers.get(place).copied().flatten(),
        };
        match (cost(self.false_duplicate), cost(self.missed_duplicate)) {
            (Some(false_duplicate), Some(missed)) => Penalties::new(false_duplicate, missed).map(Some),
            _ => Ok(None),
        }
    }
}

/// What holds for some keys instead of the view's own.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct KeyRule {
    /// In the unit of the view's window.
    pub window: Option<u64>,
    pub penalty: Option<PenaltySpec>,
}

/// Rules by key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyRules(Arc<BTreeMap<Fingerprint, KeyRule>>);

impl KeyRules {
    pub fn new(rules: impl IntoIterator<Item = (Fingerprint, KeyRule)>) -> Self {
        Self(Arc::new(rules.into_iter().collect()))
    }

    pub(super) fn of(&self, key: Fingerprint) -> Option<&KeyRule> {
        self.0.get(&key)
    }

    /// Only the windows.
    pub(super) fn without_penalties(&self) -> Self {
        Self::new(self.0.iter().map(|(key, rule)| (*key, KeyRule { penalty: None, ..*rule })))
    }
}
