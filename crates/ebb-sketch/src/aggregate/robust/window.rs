//! The any-window sketch.

use std::sync::Arc;

use super::accuracy::Accuracy;
use super::element::{Element, is_extreme};
use super::floors::NO_FLOOR;
use super::hash::SampleHash;
use super::reading::SampleReading;
use super::sizing::Sizing;
use super::sketch::{SampleSketch, SampleSpec, SampleStore, copy_seeds, draw_hashes};
use super::store::WindowStore;
use crate::aggregate::error::{ObservationError, QueryError};
use crate::codec::{CodecError, Kind, Writer};
use crate::decay::Decay;

/// Longer horizons exceed any clock.
const MAX_HORIZON_MS: u64 = 1 << 60;
/// More digits than this have no effect on a double of ordinary size.
const MAX_FRACTION_BITS: u8 = 32;

/// The specification of an any-window sketch. Clones share the precomputed hashes.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowSpec {
    accuracy: Accuracy,
    horizon_ms: u64,
    hashes: Vec<Arc<SampleHash>>,
    coarseness: u8,
}

/// Weights, shares, quantiles and frequent values over any window or decay, chosen by the query.
///
/// ```
/// use ebb_sketch::aggregate::robust::{Accuracy, Element, ElementId, WindowSketch, WindowSpec};
/// use ebb_sketch::decay::Decay;
///
/// let spec = WindowSpec::new(Accuracy::new(0.05, 0.01)?, 1, 3_600_000, 7)?;
/// let mut sketch = WindowSketch::new(&spec);
/// for n in 0..2_000i64 {
///     let element = Element { time_ms: n, id: ElementId::from_bits(n as u128), value: n as u64, weight: 1 };
///     sketch.insert(element)?;
///     sketch.insert(element)?; // A repeat counts once.
/// }
/// assert_eq!(sketch.query(1_999, &Decay::window(500)?)?.weight().value, 500.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type WindowSketch = SampleSketch<WindowSpec>;

/// Why an any-window sketch cannot be built with these parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WindowSpecError {
    /// No weight would be accepted.
    #[error("the maximum weight must be at least 1")]
    NoWeight,
    /// The horizon is out of range.
    #[error("horizon {horizon_ms}ms must be within 1ms and {max_ms}ms")]
    Horizon {
        /// The requested horizon.
        horizon_ms: u64,
        /// The longest valid horizon.
        max_ms: u64,
    },
}

impl WindowSpec {
    /// Elements of weights up to `max_weight`, for windows up to `horizon_ms`, sampled integer by integer as published. `seed`
    /// selects the hashes.
    pub fn new(accuracy: Accuracy, max_weight: u32, horizon_ms: u64, seed: u64) -> Result<Self, WindowSpecError> {
        Self::checked(accuracy, max_weight, horizon_ms, || draw_hashes(accuracy, max_weight, seed))
    }

    /// The same, but elements are sampled as a whole: the bounds are the same for all weights and seeds.
    pub fn by_weight(accuracy: Accuracy, max_weight: u32, horizon_ms: u64, seed: u64) -> Result<Self, WindowSpecError> {
        let hash = |seed| Arc::new(SampleHash::of_whole_elements(seed, max_weight, Sizing::Weight));
        Self::checked(accuracy, max_weight, horizon_ms, || copy_seeds(accuracy, seed).map(hash).collect())
    }

    /// Elements of weight 1 whose values are the bits of positive doubles, sampled by that amount: their sum has the accuracy
    /// of a weight, whatever the distribution of the amounts. Amounts below 2^-`fraction_bits` are not accepted.
    pub fn by_amount(
        accuracy: Accuracy,
        fraction_bits: u8,
        horizon_ms: u64,
        seed: u64,
    ) -> Result<Self, WindowSpecError> {
        let sizing = Sizing::Amount { fraction_bits: fraction_bits.min(MAX_FRACTION_BITS) };
        let hash = |seed| Arc::new(SampleHash::of_whole_elements(seed, 1, sizing));
        Self::checked(accuracy, 1, horizon_ms, || copy_seeds(accuracy, seed).map(hash).collect())
    }

    fn checked(
        accuracy: Accuracy,
        max_weight: u32,
        horizon_ms: u64,
        hashes: impl FnOnce() -> Vec<Arc<SampleHash>>,
    ) -> Result<Self, WindowSpecError> {
        if max_weight == 0 {
            return Err(WindowSpecError::NoWeight);
        }
        if !(1..=MAX_HORIZON_MS).contains(&horizon_ms) {
            return Err(WindowSpecError::Horizon { horizon_ms, max_ms: MAX_HORIZON_MS });
        }
        Ok(Self { accuracy, horizon_ms, hashes: hashes(), coarseness: 0 })
    }

    /// What defines the size of an element.
    pub fn sizing(&self) -> Sizing {
        self.hashes[0].sizing()
    }

    /// The longest window that can be queried.
    pub fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }
}

impl SampleSpec for WindowSpec {
    type Store = WindowStore;
    const KIND: Kind = *b"robw";

    fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    fn max_weight(&self) -> u32 {
        self.hashes[0].max_weight()
    }

    #[inline]
    fn check(&self, element: &Element) -> Result<(), ObservationError> {
        element.check(self.max_weight())?;
        self.sizing().check(element)
    }

    fn hashes(&self) -> &[Arc<SampleHash>] {
        &self.hashes
    }

    fn empty_copy(&self, hash: &Arc<SampleHash>) -> WindowStore {
        WindowStore::new(hash.clone(), self.accuracy.tau())
    }

    #[inline]
    fn to_stored(&self, element: Element) -> Element {
        element
    }

    fn check_stored(&self, element: &Element) -> Result<(), CodecError> {
        self.sizing().check(element).map_err(|error| CodecError::invalid("amount", error.to_string()))
    }

    fn coarsened(&self, halvings: u8) -> Self {
        let accuracy = (0..halvings).fold(self.accuracy, |accuracy, _| accuracy.halved());
        Self { accuracy, coarseness: self.coarseness + halvings, ..self.clone() }
    }

    fn coarseness(&self) -> u8 {
        self.coarseness
    }

    fn floor_at(&self, watermark_ms: i64) -> i64 {
        watermark_ms.saturating_sub_unsigned(self.horizon_ms)
    }

    /// A raised floor makes long decays incomplete, so it must drop something.
    fn has_expired_at(&self, copies: &[WindowStore], watermark_ms: i64) -> bool {
        let floor = self.floor_at(watermark_ms);
        copies.iter().flat_map(WindowStore::elements).any(|element| element.time_ms <= floor)
    }

    fn read(&self, copies: &[WindowStore], as_of_ms: i64, decay: &Decay) -> Result<SampleReading, QueryError> {
        if is_extreme(as_of_ms) {
            return Err(QueryError::Time { time_ms: as_of_ms });
        }
        let horizon_ms = self.horizon_ms;
        if let Some(window_ms) = decay.width().filter(|width| *width > horizon_ms) {
            return Err(QueryError::WindowBeyondHorizon { window_ms, horizon_ms });
        }
        let floor_ms = copies.iter().map(WindowStore::lowest_floor).max().unwrap_or(NO_FLOOR);
        if floor_ms > as_of_ms {
            return Err(QueryError::Expired { floor_ms });
        }
        let samples = copies.iter().map(|copy| copy.sample(as_of_ms, decay)).collect();
        Ok(SampleReading::new(self.accuracy, samples))
    }

    fn write_parameters(&self, writer: &mut Writer) {
        writer.u64(self.horizon_ms);
        self.sizing().parameters().iter().for_each(|parameters| writer.raw(parameters));
    }
}

impl WindowSketch {
    /// Reads the sketch as of `as_of_ms`. A window covers ages below its width. Other decays cover everything that is still
    /// remembered, and are incomplete if they give weight to what is older.
    pub fn query(&self, as_of_ms: i64, decay: &Decay) -> Result<SampleReading, QueryError> {
        self.read(as_of_ms, decay)
    }

    /// Elements counted at every level that holds them, on a compacted sketch: the size of the published structure.
    pub fn node_count(&self) -> usize {
        self.copies().iter().map(WindowStore::node_count).sum()
    }
}
