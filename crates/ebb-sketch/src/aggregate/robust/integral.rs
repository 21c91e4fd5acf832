//! The sketch for one integral decay fixed in advance: the paper's own form, with a pool of elements instead of heaps.
//!
//! It promises the same of its state as the any-window sketch, and answers for the one decay alone, as of any tick that it
//! was not advanced past. Prefer the any-window sketch: it is faster, more accurate, and decays by real numbers.

use std::sync::Arc;

use super::accuracy::Accuracy;
use super::answers::Answers;
use super::element::{Element, ElementError, is_extreme};
use super::expiry::IntegralDecay;
use super::pool::IntegralStore;
use super::sampling::SampleHash;
use super::sketch::{MergeError, QuestionError, drawn_hashes};
use super::window::NO_FLOOR;

/// What a sketch is made for. Sketches of equal specifications can be merged; clones share what was precomputed.
#[derive(Debug, Clone, PartialEq)]
pub struct IntegralSpec {
    accuracy: Accuracy,
    decay: Arc<IntegralDecay>,
    tick_ms: u64,
    weight_scale: u32,
    hashes: Vec<Arc<SampleHash>>,
}

/// Why a specification was refused, and what would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntegralSpecError {
    #[error("the largest weight and its scale must be at least 1, and their product below 2^32")]
    Weight,
    #[error("the decay was made for weights up to {made_for}, but weights times their scale reach {reached}")]
    Decay { made_for: u32, reached: u32 },
    #[error("a tick must last from 1ms to {TICK_MOST_MS}ms")]
    Tick,
}

/// One year.
pub const TICK_MOST_MS: u64 = 366 * 86_400_000;

impl IntegralSpec {
    /// Weights are multiplied with `weight_scale` before they decay, so that small ones do not vanish at once.
    pub fn new(
        accuracy: Accuracy,
        decay: IntegralDecay,
        tick_ms: u64,
        (w_max, weight_scale): (u32, u32),
        seed: u64,
    ) -> Result<Self, IntegralSpecError> {
        if !(1..=TICK_MOST_MS).contains(&tick_ms) {
            return Err(IntegralSpecError::Tick);
        }
        match w_max.checked_mul(weight_scale) {
            None | Some(0) => Err(IntegralSpecError::Weight),
            Some(reached) if reached > decay.w_max() => {
                Err(IntegralSpecError::Decay { made_for: decay.w_max(), reached })
            }
            Some(most) => {
                let hashes = drawn_hashes(accuracy, most, seed);
                Ok(Self { accuracy, decay: Arc::new(decay), tick_ms, weight_scale, hashes })
            }
        }
    }

    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    pub fn decay(&self) -> &IntegralDecay {
        &self.decay
    }

    pub fn tick_ms(&self) -> u64 {
        self.tick_ms
    }

    pub fn weight_scale(&self) -> u32 {
        self.weight_scale
    }

    pub fn w_max(&self) -> u32 {
        self.hashes[0].w_max() / self.weight_scale
    }

    pub(super) fn hashes(&self) -> &[Arc<SampleHash>] {
        &self.hashes
    }

    pub(super) fn empty_copies(&self) -> impl Iterator<Item = IntegralStore> {
        let tau = self.accuracy.tau();
        self.hashes.iter().map(move |hash| IntegralStore::new(hash.clone(), self.decay.clone(), tau))
    }

    /// The tick that a time falls into.
    fn tick(&self, time_ms: i64) -> i64 {
        time_ms.div_euclid(self.tick_ms as i64)
    }
}

/// The sketch.
#[derive(Debug, Clone)]
pub struct IntegralSketch {
    spec: IntegralSpec,
    copies: Vec<IntegralStore>,
}

impl IntegralSketch {
    pub fn new(spec: &IntegralSpec) -> Self {
        Self { spec: spec.clone(), copies: spec.empty_copies().collect() }
    }

    pub(super) fn from_copies(spec: &IntegralSpec, copies: Vec<IntegralStore>) -> Self {
        Self { spec: spec.clone(), copies }
    }

    pub fn spec(&self) -> &IntegralSpec {
        &self.spec
    }

    pub(super) fn copies(&self) -> &[IntegralStore] {
        &self.copies
    }

    /// Takes an element, or refuses it whole. Repeats are recognised within a tick.
    #[inline]
    pub fn insert(&mut self, element: Element) -> Result<(), ElementError> {
        element.check(self.spec.w_max())?;
        let weight = element.weight * self.spec.weight_scale;
        let ticked = Element { time_ms: self.spec.tick(element.time_ms), weight, ..element };
        self.copies.iter_mut().for_each(|copy| copy.insert(ticked));
        Ok(())
    }

    /// Forgets what is dead at `watermark_ms`; questions as of earlier ticks are refused from then on.
    pub fn advance(&mut self, watermark_ms: i64) -> Result<(), QuestionError> {
        if is_extreme(watermark_ms) {
            return Err(QuestionError::TimeExtreme { time_ms: watermark_ms });
        }
        let tick = self.spec.tick(watermark_ms);
        self.copies.iter_mut().for_each(|copy| copy.forget_to(tick));
        Ok(())
    }

    /// Becomes the sketch of both sets of elements.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.spec != other.spec {
            return Err(MergeError);
        }
        self.copies.iter_mut().zip(&other.copies).for_each(|(copy, others)| copy.merge(others));
        Ok(())
    }

    /// As `merge`, but compacted only when there is much to compact: many small ones cost little.
    pub fn absorb(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.spec != other.spec {
            return Err(MergeError);
        }
        self.copies.iter_mut().zip(&other.copies).for_each(|(copy, others)| copy.absorb(others));
        Ok(())
    }

    /// The values of all elements held; some twice.
    pub fn held_values(&self) -> impl Iterator<Item = u64> {
        self.copies.iter().flat_map(IntegralStore::elements).map(|element| element.value)
    }

    /// Compacts to the exact form; a question does it too. State bytes are those of the exact form.
    pub fn settle(&mut self) {
        self.copies.iter_mut().for_each(IntegralStore::settle);
    }

    /// What is alive as of `as_of_ms`.
    pub fn ask(&mut self, as_of_ms: i64) -> Result<Answers, QuestionError> {
        if is_extreme(as_of_ms) {
            return Err(QuestionError::TimeExtreme { time_ms: as_of_ms });
        }
        self.settle();
        let as_of = self.spec.tick(as_of_ms);
        let oldest = self.copies.iter().map(IntegralStore::oldest_floor).max().unwrap_or(NO_FLOOR);
        if oldest > as_of {
            return Err(QuestionError::TooEarly { floor_ms: oldest.saturating_mul(self.spec.tick_ms as i64) });
        }
        let samples = self.copies.iter().map(|copy| copy.sample(as_of, self.spec.weight_scale)).collect();
        Ok(Answers::new(self.spec.accuracy, samples))
    }

    /// Elements held in all copies; between compactions with some that will go.
    pub fn stored(&self) -> usize {
        self.copies.iter().map(|copy| copy.elements().len()).sum()
    }
}
