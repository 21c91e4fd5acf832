//! The any-window sketch: sums, shares, quantiles and frequent values over any window or decay chosen when asking.
//!
//! The state is a function of the set of distinct elements offered and of how far it was told to forget: order, repeats,
//! batches and the division of a stream between sketches that are merged later leave no trace in it. It promises the
//! [`Accuracy`] it was specified with. It does not know the clock: [`WindowSketch::advance`] is told the watermark.

use std::sync::Arc;

use super::accuracy::Accuracy;
use super::answers::Answers;
use super::element::{Element, ElementError, is_extreme};
use super::sampling::SampleHash;
use super::window::{NO_FLOOR, WindowStore};
use crate::decay::Decay;
use crate::random;

/// What a sketch is made for. Sketches of equal specifications can be merged; clones share the precomputed hashes.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowSpec {
    accuracy: Accuracy,
    horizon_ms: u64,
    hashes: Vec<Arc<SampleHash>>,
}

/// Why a specification was refused, and what would be right.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SpecError {
    #[error("the largest weight must be at least 1")]
    NoWeight,
    #[error("the horizon {asked_ms}ms must lie within 1ms and {most_ms}ms")]
    Horizon { asked_ms: u64, most_ms: u64 },
}

/// Horizons beyond this are longer than any clock.
pub const HORIZON_MOST_MS: u64 = 1 << 60;

impl WindowSpec {
    /// Elements of weights up to `w_max`, remembered for windows up to `horizon_ms`; `seed` draws the hashes.
    pub fn new(accuracy: Accuracy, w_max: u32, horizon_ms: u64, seed: u64) -> Result<Self, SpecError> {
        if w_max == 0 {
            return Err(SpecError::NoWeight);
        }
        if !(1..=HORIZON_MOST_MS).contains(&horizon_ms) {
            return Err(SpecError::Horizon { asked_ms: horizon_ms, most_ms: HORIZON_MOST_MS });
        }
        Ok(Self { accuracy, horizon_ms, hashes: drawn_hashes(accuracy, w_max, seed) })
    }

    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    pub fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    pub fn w_max(&self) -> u32 {
        self.hashes[0].w_max()
    }

    pub(super) fn hashes(&self) -> &[Arc<SampleHash>] {
        &self.hashes
    }
}

/// One hash a copy; there is at least one.
pub(super) fn drawn_hashes(accuracy: Accuracy, w_max: u32, seed: u64) -> Vec<Arc<SampleHash>> {
    let copy_seed = |copy: u8| random::mix(seed ^ random::mix(u64::from(copy)));
    (0..accuracy.copies()).map(|copy| Arc::new(SampleHash::drawn(copy_seed(copy), w_max))).collect()
}

/// Two sketches that do not belong together. Neither has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "sketches made with different parameters cannot be merged: accuracy, weights, horizon or decay, and seed must agree"
)]
pub struct MergeError;

/// Why a question was refused, and what would be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    #[error("a window of {asked_ms}ms is above the horizon; ask for at most {most_ms}ms")]
    WindowAboveHorizon { asked_ms: u64, most_ms: u64 },
    #[error("everything up to {floor_ms}ms is forgotten; ask as of {floor_ms}ms or later")]
    TooEarly { floor_ms: i64 },
    #[error("time {time_ms}ms is not a time that a sketch can be asked or advanced to")]
    TimeExtreme { time_ms: i64 },
}

/// The sketch.
#[derive(Debug, Clone)]
pub struct WindowSketch {
    spec: WindowSpec,
    copies: Vec<WindowStore>,
}

impl WindowSketch {
    pub fn new(spec: &WindowSpec) -> Self {
        let tau = spec.accuracy.tau();
        let copies = spec.hashes.iter().map(|hash| WindowStore::new(hash.clone(), tau)).collect();
        Self { spec: spec.clone(), copies }
    }

    pub(super) fn from_copies(spec: &WindowSpec, copies: Vec<WindowStore>) -> Self {
        Self { spec: spec.clone(), copies }
    }

    pub fn spec(&self) -> &WindowSpec {
        &self.spec
    }

    pub(super) fn copies(&self) -> &[WindowStore] {
        &self.copies
    }

    /// Takes an element, or refuses it whole.
    #[inline]
    pub fn insert(&mut self, element: Element) -> Result<(), ElementError> {
        element.check(self.spec.w_max())?;
        self.copies.iter_mut().for_each(|copy| copy.insert(element));
        Ok(())
    }

    /// Forgets what no window up to the horizon can reach any more at `watermark_ms` or later.
    pub fn advance(&mut self, watermark_ms: i64) -> Result<(), QuestionError> {
        if is_extreme(watermark_ms) {
            return Err(QuestionError::TimeExtreme { time_ms: watermark_ms });
        }
        let floor = watermark_ms.saturating_sub_unsigned(self.spec.horizon_ms);
        self.copies.iter_mut().for_each(|copy| copy.forget_to(floor));
        Ok(())
    }

    /// Whether [`WindowSketch::advance`] would forget an element. The sketch must be settled.
    pub fn forgets_at(&self, watermark_ms: i64) -> bool {
        let floor = watermark_ms.saturating_sub_unsigned(self.spec.horizon_ms);
        self.copies.iter().flat_map(WindowStore::elements).any(|element| element.time_ms <= floor)
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
        self.copies.iter().flat_map(WindowStore::elements).map(|element| element.value)
    }

    /// Compacts to the exact form; a question does it too. State bytes are those of the exact form.
    pub fn settle(&mut self) {
        self.copies.iter_mut().for_each(WindowStore::settle);
    }

    /// What is known as of `as_of_ms` under `decay`. A window reaches age < width; other decays reach as far back as
    /// anything is remembered and say `incomplete` when they still weigh what is older.
    pub fn ask(&mut self, as_of_ms: i64, decay: &Decay) -> Result<Answers, QuestionError> {
        if is_extreme(as_of_ms) {
            return Err(QuestionError::TimeExtreme { time_ms: as_of_ms });
        }
        if let Some(asked_ms) = decay.width().filter(|width| *width > self.spec.horizon_ms) {
            return Err(QuestionError::WindowAboveHorizon { asked_ms, most_ms: self.spec.horizon_ms });
        }
        self.settle();
        let floor_ms = self.copies.iter().map(WindowStore::oldest_floor).max().unwrap_or(NO_FLOOR);
        if floor_ms > as_of_ms {
            return Err(QuestionError::TooEarly { floor_ms });
        }
        let samples = self.copies.iter().map(|copy| copy.sample(as_of_ms, decay)).collect();
        Ok(Answers::new(self.spec.accuracy, samples))
    }

    /// Elements held in all copies; between compactions with some that will go.
    pub fn stored(&self) -> usize {
        self.copies.iter().map(WindowStore::stored).sum()
    }

    /// Elements counted at every level that holds them, once settled: what the paper's structure would store.
    pub fn nodes(&self) -> usize {
        self.copies.iter().map(WindowStore::nodes).sum()
    }
}
