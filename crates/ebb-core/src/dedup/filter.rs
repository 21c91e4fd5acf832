//! The filters that a dedup view can be built on, behind one interface.

use super::Lookup;
use crate::shard::ViewError;
use ebb_sketch::codec::{CodecError, Writer};
use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::prior::{ReuseError, ReusePrior, ReuseSpec, ShareEstimate};
use ebb_sketch::filter::inference::{Answer, Basis, InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::structure::classic::ClassicFilter;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::stable::importance::ImportanceScale;
use ebb_sketch::filter::structure::stable::{StableFilter, StableSpec};
use ebb_sketch::filter::structure::timing::{ClockSpec, Reading, TimingSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::Random;

/// The kind and shape of the filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FilterSpec {
    /// Timing Bloom filter: remembers items for a window, and how long ago they were seen.
    Timing {
        /// Window and memory.
        spec: TimingSpec,
        /// Source of the prior probability that an item repeats.
        prior: PriorSpec,
    },
    /// Stable and importance-aware Bloom filters: they forget at random.
    Stable {
        /// Memory and rate of forgetting.
        spec: StableSpec,
        /// Maps importance to cell values.
        scale: ImportanceScale,
    },
    /// Plain Bloom filter: it never forgets.
    Classic {
        /// Memory.
        size: CellLayout,
        /// Number of hash functions.
        hashes: u8,
        /// An item's assumed share of all events, from which posteriors are computed.
        share: Option<ArrivalShare>,
    },
}

impl FilterSpec {
    /// A timing filter that learns its prior from the reuse ages of a sample of at most `sampled_items` items.
    pub fn learning(spec: TimingSpec, sampled_items: u32) -> Result<Self, ReuseError> {
        Ok(Self::Timing { spec, prior: PriorSpec::Learned(ReuseSpec::new(spec.clock().window(), sampled_items)?) })
    }

    pub(super) fn timing(&self) -> Option<&TimingSpec> {
        match self {
            Self::Timing { spec, .. } => Some(spec),
            Self::Stable { .. } | Self::Classic { .. } => None,
        }
    }

    pub(super) fn write_identity(&self, writer: &mut Writer) {
        match self {
            Self::Timing { spec, prior } => {
                writer.u8(0);
                write_timing(spec, writer);
                writer.u8(match prior {
                    PriorSpec::Constant(_) => 0,
                    PriorSpec::Learned(_) => 1,
                });
            }
            Self::Stable { spec, scale } => {
                writer.u8(1);
                spec.encode(writer);
                scale.encode(writer);
            }
            Self::Classic { size, hashes, .. } => {
                writer.u8(2);
                size.encode(writer);
                writer.u8(*hashes);
            }
        }
    }
}

pub(super) fn write_timing(spec: &TimingSpec, writer: &mut Writer) {
    let (kind, numbers) = match spec.clock() {
        ClockSpec::Time { window_ms, lateness_ms, tick_ms } => (0, [window_ms, lateness_ms, tick_ms]),
        ClockSpec::Count { window, block } => (1, [window, 0, block]),
    };
    writer.u8(kind);
    numbers.into_iter().for_each(|number| writer.u64(number));
    let (layout, size) = match spec.layout() {
        CellLayout::Lines(lines) => (0, lines),
        CellLayout::Spread(cells) => (1, cells),
    };
    writer.u8(layout);
    writer.u64(size);
    [spec.timer_bits(), spec.cells_per_item(), spec.spare()].into_iter().for_each(|number| writer.u8(number));
}

/// The filter of a dedup view.
#[derive(Debug, Clone)]
pub(super) enum Filter {
    Timing(Box<InferentialFilter>),
    Stable(StableView),
    Classic(ClassicView),
}

/// Filters without timers know no ages.
const NO_READING: Reading = Reading { age: None, cells: 0, oldest: 0 };

fn plain_answer(duplicate: bool) -> Answer {
    Answer { duplicate, basis: Basis::Standard, decision: None, belief: None, reading: NO_READING, standard: duplicate }
}

impl Filter {
    pub(super) fn new(spec: &FilterSpec, seen: Seen) -> Result<Self, ViewError> {
        Ok(match *spec {
            FilterSpec::Timing { spec, prior } => Self::Timing(Box::new(InferentialFilter::new(spec, seen, prior)?)),
            FilterSpec::Stable { spec, scale } => Self::Stable(StableView { filter: StableFilter::new(spec), scale }),
            FilterSpec::Classic { size, hashes, share } => {
                Self::Classic(ClassicView { filter: ClassicFilter::new(size, hashes)?, share, seen })
            }
        })
    }

    pub(super) fn fill(&self) -> f64 {
        match self {
            Self::Timing(filter) => filter.filter().fill(),
            Self::Stable(stable) => 1.0 - stable.filter.zero_share(),
            Self::Classic(classic) => classic.filter.fill(),
        }
    }

    pub(super) fn false_duplicate_rate(&self) -> f64 {
        match self {
            Self::Timing(filter) => filter.filter().false_duplicate_rate(),
            Self::Stable(stable) => stable.filter.false_duplicate_rate(),
            Self::Classic(classic) => classic.filter.false_duplicate_rate(),
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Timing(filter) => filter.filter().memory_bytes(),
            Self::Stable(stable) => stable.filter.spec().cell_bytes() as u64,
            Self::Classic(classic) => classic.filter.hasher().cells().div_ceil(8),
        }
    }

    pub(super) fn basis(&self) -> Basis {
        match self {
            Self::Timing(filter) => filter.basis(),
            Self::Stable(_) => Basis::Standard,
            Self::Classic(classic) => {
                if classic.share.is_some() {
                    Basis::Posterior
                } else {
                    Basis::Standard
                }
            }
        }
    }

    /// The largest recent difference between stated probabilities and observed frequencies, where it is measured.
    pub(super) fn calibration_error(&self) -> Option<f64> {
        match self {
            Self::Timing(filter) => filter.learned().map(|learned| learned.calibration().error()),
            Self::Stable(_) | Self::Classic(_) => None,
        }
    }

    /// The learned share of events that repeat an item of the window.
    pub(super) fn repeats(&self) -> Option<ShareEstimate> {
        match self {
            Self::Timing(filter) => filter
                .learned()
                .map(|learned| learned.reuse())
                .filter(|reuse| reuse.is_ready())
                .map(ReusePrior::repeats),
            Self::Stable(_) | Self::Classic(_) => None,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Timing(filter) => filter.encode(),
            Self::Stable(stable) => stable.filter.encode(),
            Self::Classic(classic) => classic.filter.encode(),
        }
    }

    /// The caller has compared the plan's identity, so the bytes should be a filter of this kind and shape.
    pub(super) fn decode(spec: &FilterSpec, seen: Seen, bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(match *spec {
            FilterSpec::Timing { spec, prior } => {
                Self::Timing(Box::new(InferentialFilter::decode(spec, seen, prior, bytes)?))
            }
            FilterSpec::Stable { spec, scale } => {
                let filter = StableFilter::decode(bytes)?;
                if *filter.spec() != spec {
                    return Err(CodecError::invalid("stable filter", "its shape differs from the configured one"));
                }
                Self::Stable(StableView { filter, scale })
            }
            FilterSpec::Classic { size, hashes, share } => {
                let filter = ClassicFilter::decode(bytes)?;
                if (filter.hasher().layout(), filter.hasher().hashes()) != (size, hashes) {
                    return Err(CodecError::invalid("classic filter", "its shape differs from the configured one"));
                }
                Self::Classic(ClassicView { filter, share, seen })
            }
        })
    }
}

/// A stable or importance-aware filter: every observation renews the item's cells.
#[derive(Debug, Clone)]
pub(super) struct StableView {
    filter: StableFilter,
    scale: ImportanceScale,
}

impl StableView {
    pub(super) fn observe(&mut self, lookup: &Lookup<'_>, draws: &mut Random) -> Answer {
        let value = lookup.importance.map_or(self.filter.spec().max_value(), |importance| self.scale.value(importance));
        plain_answer(self.filter.observe(lookup.item, value, draws))
    }

    pub(super) fn ask(&self, item: Fingerprint) -> Answer {
        plain_answer(self.filter.contains(item))
    }
}

/// A plain Bloom filter, with posteriors where a share is known.
#[derive(Debug, Clone)]
pub(super) struct ClassicView {
    filter: ClassicFilter,
    share: Option<ArrivalShare>,
    seen: Seen,
}

impl ClassicView {
    pub(super) fn observe(&mut self, question: &Question) -> Answer {
        let answer = self.ask(question);
        if self.seen == Seen::Last || !answer.duplicate {
            self.filter.insert(question.item);
        }
        answer
    }

    pub(super) fn ask(&self, question: &Question) -> Answer {
        match (question.penalties, question.share.or(self.share)) {
            (Some(penalties), Some(share)) => {
                let belief = self.filter.belief(question.item, share);
                let decision = penalties.decide(&belief);
                let basis = Basis::Posterior;
                let (duplicate, decision, belief) = (decision.duplicate, Some(decision), Some(belief));
                let standard = self.filter.contains(question.item);
                Answer { duplicate, basis, decision, belief, reading: NO_READING, standard }
            }
            _ => plain_answer(self.filter.contains(question.item)),
        }
    }
}
