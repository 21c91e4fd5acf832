//! The interface that all decayed aggregates share.

use std::fmt::Debug;

use super::error::{MergeError, ObservationError, QueryError};
use super::observation::Observation;
use super::reading::{Labels, Totals, Values};
use super::robust::ElementId;
use crate::codec::{CodecError, Reader, Writer};
use crate::decay::Decay;

/// Whether encoded bytes contain the specification of the sketch.
///
/// The specification of a sampling sketch contains the constants of its hash functions. Bytes that leave the trust domain
/// omit them; their reader must establish by other means that both sides use the same specification. Methods without
/// secrets always include it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecEncoding {
    /// The bytes contain the specification; decoding verifies it.
    Included,
    /// The bytes contain only the state.
    Omitted,
}

/// The approximate memory of an entry of a method without its own measure.
const ENTRY_BYTES: usize = 48;

/// A summary of a stream of observations that answers statistics under a decay.
///
/// Sketches are deterministic: equal sequences of calls give equal bytes. Time is the `time_ms` of the observations and the
/// `now_ms` of the calls; a sketch has no clock.
///
/// ```
/// use ebb_sketch::aggregate::{DecayedSketch, Observation, QueryError, robust::ElementId};
/// use ebb_sketch::decay::Decay;
///
/// fn count_last_hour<S: DecayedSketch>(sketch: &S, now_ms: i64) -> Result<f64, QueryError> {
///     Ok(sketch.totals(now_ms, &Decay::window(3_600_000).expect("above zero"))?.count().value)
/// }
/// # use ebb_sketch::aggregate::{SummaryShape, cascade::CascadeSketch};
/// let mut sketch = CascadeSketch::new(CascadeSketch::shape(0.1, 86_400_000, SummaryShape::totals())?);
/// sketch.observe(ElementId::from_bits(1), &Observation { time_ms: 1_000, value: 7, label: 0, weight: 1.0 })?;
/// assert_eq!(count_last_hour(&sketch, 60_000)?, 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait DecayedSketch: Clone + Debug + Sized {
    /// What a sketch is built from. Sketches merge and decode only under equal specifications.
    type Spec;

    /// Whether two sketches can become one. If not, merge their readings.
    const MERGES: bool;

    /// An empty sketch.
    fn from_spec(spec: &Self::Spec) -> Self;

    /// Adds an observation, or rejects it without changing anything.
    ///
    /// `id` identifies the observation. Only duplicate-insensitive methods use it; to the others a repeat is a second
    /// observation.
    fn observe(&mut self, id: ElementId, observation: &Observation) -> Result<(), ObservationError>;

    /// Releases what no query at `now_ms` or later can reach. Never required for correct answers. Times outside the
    /// supported range are ignored.
    fn advance(&mut self, now_ms: i64);

    /// Applies deferred work, so that the state depends on the observations alone. Queries and encoding give the same
    /// results without it, but may have to compact a copy first.
    fn compact(&mut self) {}

    /// Becomes the sketch of both streams. On an error nothing has changed.
    fn merge(&mut self, other: Self) -> Result<(), MergeError>;

    /// Count, sum and mean under `decay` at `now_ms`.
    fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QueryError>;

    /// The distribution of values under `decay` at `now_ms`: ranks, quantiles, shares and frequent values.
    fn values(&self, now_ms: i64, decay: &Decay) -> Result<Values, QueryError>;

    /// The heaviest labels under `decay` at `now_ms`.
    fn labels(&self, now_ms: i64, decay: &Decay) -> Result<Labels, QueryError>;

    /// Appends every label that a later answer may name; some more than once.
    fn collect_labels(&self, into: &mut Vec<u128>);

    /// Stored elements, nodes, counters and ranges: a measure of memory.
    fn entry_count(&self) -> usize;

    /// An upper bound of the memory of the sketch; approximate for methods whose size is not limited by a budget.
    fn memory_bytes(&self) -> usize {
        self.entry_count() * ENTRY_BYTES
    }

    /// How often the sketch was halved to save memory; 0 for methods that cannot be.
    fn coarseness(&self) -> u8 {
        0
    }

    /// Halves the sketch until it was halved `coarseness` times, where the method can. Its stated error grows with it.
    fn coarsen(&mut self, _coarseness: u8) {}

    /// Does without caches, so that memory depends on the observations alone.
    fn disable_cache(&mut self) {}

    /// Appends the canonical, checksummed state bytes as length-prefixed blocks.
    fn encode_into(&self, writer: &mut Writer, encoding: SpecEncoding);

    /// Restores a sketch that continues exactly like the encoded one. Rejects bytes of another specification.
    fn decode_from(spec: &Self::Spec, reader: &mut Reader<'_>, encoding: SpecEncoding) -> Result<Self, CodecError>;
}

/// Accepts a decoded sketch only under the specification it was built with.
pub(super) fn expect_spec<S>(sketch: S, same: impl FnOnce(&S) -> bool) -> Result<S, CodecError> {
    if same(&sketch) { Ok(sketch) } else { Err(CodecError::invalid("sketch", "made under another specification")) }
}
