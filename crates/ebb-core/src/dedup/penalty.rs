//! The costs of wrong answers, for all keys or for single ones, as constants or as fields of the event.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::prior::ShareSource;
use ebb_sketch::filter::inference::decision::{Penalties, PenaltyError};
use ebb_sketch::hash::Fingerprint;

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    /// The same for all events.
    Constant(f64),
    /// A field of the event, by its index in [`crate::EventSpec::numbers`].
    Field(usize),
}

/// The costs of both kinds of wrong answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PenaltySpec {
    /// Cost of calling a new item a duplicate.
    pub false_duplicate: Cost,
    /// Cost of calling a repeated item unique.
    pub missed_duplicate: Cost,
}

impl PenaltySpec {
    /// The penalties of one event; `None` when a field is absent, as in a question that contains only the item.
    pub(super) fn evaluate(&self, numbers: &[Option<f64>]) -> Result<Option<Penalties>, PenaltyError> {
        let cost = |cost| match cost {
            Cost::Constant(cost) => Some(cost),
            Cost::Field(index) => numbers.get(index).copied().flatten(),
        };
        match (cost(self.false_duplicate), cost(self.missed_duplicate)) {
            (Some(false_duplicate), Some(missed)) => Penalties::new(false_duplicate, missed).map(Some),
            _ => Ok(None),
        }
    }
}

/// Settings of one key that replace those of the view.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyRule {
    /// The window, in the unit of the view's window.
    pub window: Option<u64>,
    /// The penalties.
    pub penalty: Option<PenaltySpec>,
    /// The source of an item's share of all events.
    pub share: Option<ShareSource>,
}

/// Rules by key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyRules(Arc<BTreeMap<Fingerprint, KeyRule>>);

impl KeyRules {
    /// The last rule of a key wins.
    pub fn new(rules: impl IntoIterator<Item = (Fingerprint, KeyRule)>) -> Self {
        Self(Arc::new(rules.into_iter().collect()))
    }

    pub(super) fn get(&self, key: Fingerprint) -> Option<&KeyRule> {
        self.0.get(&key)
    }

    pub(super) fn without_penalties(&self) -> Self {
        Self::new(self.0.iter().map(|(key, rule)| (*key, KeyRule { penalty: None, ..rule.clone() })))
    }
}
