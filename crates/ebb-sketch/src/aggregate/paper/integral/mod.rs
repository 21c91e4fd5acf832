//! The published sample for one integral decay fixed in advance, with a pool of elements instead of heaps.
//!
//! Its state has the same guarantees as that of the any-window sketch. It answers for its one decay alone, as of any tick
//! that it was not advanced past.

mod decay;
mod store;

use std::sync::Arc;

use crate::aggregate::error::QueryError;
use crate::aggregate::robust::hash::SampleHash;
use crate::aggregate::robust::{
    Accuracy, Element, NO_FLOOR, SampleReading, SampleSketch, SampleSpec, draw_hashes, is_extreme,
};
use crate::codec::{CodecError, Kind, Writer};
use crate::decay::Decay;
pub use decay::{IntegralDecay, IntegralDecayError, MAX_ALPHA, MAX_WIDTH};
pub use store::IntegralStore;

/// One year.
pub const MAX_TICK_MS: u64 = 366 * 86_400_000;

/// The specification of an integral sketch. Clones share the precomputed tables.
#[derive(Debug, Clone, PartialEq)]
pub struct IntegralSpec {
    accuracy: Accuracy,
    decay: Arc<IntegralDecay>,
    tick_ms: u64,
    weight_scale: u32,
    hashes: Vec<Arc<SampleHash>>,
    coarseness: u8,
}

/// The sampling sketch for one integral decay.
///
/// ```
/// use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralSketch, IntegralSpec};
/// use ebb_sketch::aggregate::robust::{Accuracy, Element, ElementId};
///
/// // w / (age + 1), in ticks of one second.
/// let spec = IntegralSpec::new(Accuracy::new(0.1, 0.01)?, IntegralDecay::polynomial(1)?, 1_000, (100, 1), 7)?;
/// let mut sketch = IntegralSketch::new(&spec);
/// sketch.insert(Element { time_ms: 0, id: ElementId::from_bits(1), value: 5, weight: 100 })?;
/// assert_eq!(sketch.query(9_000)?.weight().value, 10.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type IntegralSketch = SampleSketch<IntegralSpec>;

/// Why an integral sketch cannot be built with these parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntegralSpecError {
    /// The weights are out of range.
    #[error("the maximum weight and its scale must be at least 1, and their product below 2^32")]
    Weight,
    /// The decay was built for smaller weights.
    #[error("the decay was built for weights up to {built_for}, but scaled weights reach {reached}")]
    Decay {
        /// The largest weight of the decay.
        built_for: u32,
        /// The largest scaled weight.
        reached: u32,
    },
    /// The tick is out of range.
    #[error("tick must be within 1ms and {MAX_TICK_MS}ms")]
    Tick,
}

impl IntegralSpec {
    /// Weights are multiplied by `weight_scale` before they decay, so that small ones do not vanish at once.
    pub fn new(
        accuracy: Accuracy,
        decay: IntegralDecay,
        tick_ms: u64,
        (max_weight, weight_scale): (u32, u32),
        seed: u64,
    ) -> Result<Self, IntegralSpecError> {
        if !(1..=MAX_TICK_MS).contains(&tick_ms) {
            return Err(IntegralSpecError::Tick);
        }
        match max_weight.checked_mul(weight_scale) {
            None | Some(0) => Err(IntegralSpecError::Weight),
            Some(reached) if reached > decay.max_weight() => {
                Err(IntegralSpecError::Decay { built_for: decay.max_weight(), reached })
            }
            Some(scaled) => {
                let hashes = draw_hashes(accuracy, scaled, seed);
                Ok(Self { accuracy, decay: Arc::new(decay), tick_ms, weight_scale, hashes, coarseness: 0 })
            }
        }
    }

    /// The decay.
    pub fn decay(&self) -> &IntegralDecay {
        &self.decay
    }

    /// The length of a tick.
    pub fn tick_ms(&self) -> u64 {
        self.tick_ms
    }

    /// The factor by which weights are multiplied.
    pub fn weight_scale(&self) -> u32 {
        self.weight_scale
    }

    /// The tick that contains a time.
    fn tick(&self, time_ms: i64) -> i64 {
        time_ms.div_euclid(self.tick_ms as i64)
    }

    fn read_copies(&self, copies: &[IntegralStore], as_of_ms: i64) -> Result<SampleReading, QueryError> {
        if is_extreme(as_of_ms) {
            return Err(QueryError::Time { time_ms: as_of_ms });
        }
        let as_of = self.tick(as_of_ms);
        let lowest = copies.iter().map(IntegralStore::lowest_floor).max().unwrap_or(NO_FLOOR);
        if lowest > as_of {
            return Err(QueryError::Expired { floor_ms: lowest.saturating_mul(self.tick_ms as i64) });
        }
        let samples = copies.iter().map(|copy| copy.sample(as_of, self.weight_scale)).collect();
        Ok(SampleReading::new(self.accuracy, samples))
    }
}

impl SampleSpec for IntegralSpec {
    type Store = IntegralStore;
    const KIND: Kind = *b"robi";

    fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    fn max_weight(&self) -> u32 {
        self.hashes[0].max_weight() / self.weight_scale
    }

    fn hashes(&self) -> &[Arc<SampleHash>] {
        &self.hashes
    }

    fn empty_copy(&self, hash: &Arc<SampleHash>) -> IntegralStore {
        IntegralStore::new(hash.clone(), self.decay.clone(), self.accuracy.tau())
    }

    /// Repeats are recognised within a tick.
    #[inline]
    fn to_stored(&self, element: Element) -> Element {
        Element { time_ms: self.tick(element.time_ms), weight: element.weight * self.weight_scale, ..element }
    }

    fn check_stored(&self, element: &Element) -> Result<(), CodecError> {
        if element.weight.is_multiple_of(self.weight_scale) {
            Ok(())
        } else {
            Err(CodecError::invalid("weight", "not a multiple of its scale"))
        }
    }

    fn coarsened(&self, halvings: u8) -> Self {
        let accuracy = (0..halvings).fold(self.accuracy, |accuracy, _| accuracy.halved());
        Self { accuracy, coarseness: self.coarseness + halvings, ..self.clone() }
    }

    fn coarseness(&self) -> u8 {
        self.coarseness
    }

    fn floor_at(&self, watermark_ms: i64) -> i64 {
        self.tick(watermark_ms)
    }

    /// A raised floor leaves answers complete: what it drops is dead.
    fn has_expired_at(&self, _: &[IntegralStore], _: i64) -> bool {
        true
    }

    /// `decay` is ignored: the sketch answers for its own.
    fn read(&self, copies: &[IntegralStore], as_of_ms: i64, _: &Decay) -> Result<SampleReading, QueryError> {
        self.read_copies(copies, as_of_ms)
    }

    fn write_parameters(&self, writer: &mut Writer) {
        let [kind, constant] = self.decay.constants();
        writer.u64(kind);
        writer.u64(constant);
        writer.u64(self.tick_ms);
        writer.u32(self.weight_scale);
    }
}

impl IntegralSketch {
    /// Reads what is alive as of `as_of_ms`.
    pub fn query(&self, as_of_ms: i64) -> Result<SampleReading, QueryError> {
        self.spec().read_copies(self.compacted().copies(), as_of_ms)
    }
}
