//! One lookup of an item, for an event or for a question.

use crate::event::PreviousKey;
use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::hash::Fingerprint;

/// One lookup of an item, for an event or for a question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) item: Fingerprint,
    pub(crate) key: Option<Fingerprint>,
    /// Present while the hash key is being rotated.
    pub(crate) previous_key: Option<PreviousKey>,
    pub(crate) time_ms: i64,
    pub(crate) importance: Option<f64>,
    /// Numbers of the event that costs may refer to.
    pub(crate) numbers: &'a [Option<f64>],
    /// The item's decayed count, where the stream has a frequency view.
    pub(crate) frequency: Option<f64>,
    /// The window, penalties and share of a question; they override rules and configuration.
    pub(crate) window: Option<u64>,
    pub(crate) penalties: Option<Penalties>,
    pub(crate) share: Option<ArrivalShare>,
}
