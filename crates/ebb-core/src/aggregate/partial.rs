//! The contribution of one or several shards to an answer.

use std::collections::BTreeMap;

use super::sketch::{IncompatibleSketches, Sketch};
use crate::offset::AsOf;

/// A copy of the sketches that a question needs, from one shard or several, so that the shards can continue.
#[derive(Debug)]
pub struct PartialAggregate {
    /// The position of each partition that contributed.
    pub(super) as_of: Vec<AsOf>,
    /// Empty when the key is unknown; one where the method merges, otherwise one per partition.
    pub(super) sketches: Vec<Sketch>,
    /// Events of the key up to this time may be in `other` instead.
    pub(super) missed_ms: Option<i64>,
    /// Texts of the labels that the sketches contain.
    pub(super) texts: BTreeMap<u128, Box<str>>,
}

impl PartialAggregate {
    /// Combines several partial aggregates; their sketches become one where the method merges.
    pub(super) fn combine(partials: impl IntoIterator<Item = Self>) -> Result<Self, IncompatibleSketches> {
        let mut all = Self { as_of: Vec::new(), sketches: Vec::new(), missed_ms: None, texts: BTreeMap::new() };
        for partial in partials {
            all.as_of.extend(partial.as_of);
            all.texts.extend(partial.texts);
            all.missed_ms = all.missed_ms.max(partial.missed_ms);
            for sketch in partial.sketches {
                let unmerged = match all.sketches.first_mut() {
                    None => Some(sketch),
                    Some(first) => first.merge(sketch)?,
                };
                all.sketches.extend(unmerged);
            }
        }
        Ok(all)
    }
}
