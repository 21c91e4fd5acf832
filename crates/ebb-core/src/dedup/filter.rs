//! The filters that a dedup view can be built on, behind one interface.

use super::classic_view::ClassicView;
use super::stable_view::{StableView, StableViewSpec};
use crate::shard::ViewError;
use ebb_sketch::codec::{CodecError, Writer};
use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::prior::{ReuseError, ReusePrior, ReuseSpec, ShareEstimate};
use ebb_sketch::filter::inference::{Answer, Basis, InferentialFilter, PriorSpec, Seen};
use ebb_sketch::filter::structure::classic::ClassicFilter;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::{ClockSpec, Reading, TimingSpec};

/// The kind and shape of the filter.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a plan has one filter")]
pub enum FilterSpec {
    /// Timing Bloom filter: remembers items for a window, and how long ago they were seen.
    Timing {
        /// Window and memory.
        spec: TimingSpec,
        /// Source of the prior probability that an item repeats.
        prior: PriorSpec,
    },
    /// Stable and importance-aware Bloom filters: they forget at random.
    Stable(StableViewSpec),
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
            Self::Stable(_) | Self::Classic { .. } => None,
        }
    }

    /// The filter that forgets at random, if it is one.
    pub fn stable(&self) -> Option<&StableViewSpec> {
        match self {
            Self::Stable(spec) => Some(spec),
            Self::Timing { .. } | Self::Classic { .. } => None,
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
            Self::Stable(spec) => {
                writer.u8(1);
                spec.filter.encode(writer);
                spec.scale.write_identity(spec.filter.max_value(), writer);
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
    Stable(Box<StableView>),
    Classic(ClassicView),
}

/// Filters without timers know no ages.
pub(super) const NO_READING: Reading = Reading { age: None, cells: 0, oldest: 0 };

pub(super) fn plain_answer(duplicate: bool) -> Answer {
    Answer { duplicate, basis: Basis::Standard, decision: None, belief: None, reading: NO_READING, standard: duplicate }
}

impl Filter {
    pub(super) fn new(spec: &FilterSpec, seen: Seen) -> Result<Self, ViewError> {
        Ok(match *spec {
            FilterSpec::Timing { spec, prior } => Self::Timing(Box::new(InferentialFilter::new(spec, seen, prior)?)),
            FilterSpec::Stable(spec) => Self::Stable(Box::new(StableView::new(spec)?)),
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
            Self::Stable(stable) => stable.memory_bytes(),
            Self::Classic(classic) => classic.filter.hasher().cells().div_ceil(8),
        }
    }

    pub(super) fn basis(&self) -> Basis {
        match self {
            Self::Timing(filter) => filter.basis(),
            Self::Stable(stable) => stable.basis(),
            Self::Classic(classic) => classic.basis(),
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
            Self::Stable(stable) => stable.encode(),
            Self::Classic(classic) => classic.filter.encode(),
        }
    }

    /// The caller has compared the plan's identity, so the bytes should be a filter of this kind and shape.
    pub(super) fn decode(spec: &FilterSpec, seen: Seen, bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(match *spec {
            FilterSpec::Timing { spec, prior } => {
                Self::Timing(Box::new(InferentialFilter::decode(spec, seen, prior, bytes)?))
            }
            FilterSpec::Stable(spec) => Self::Stable(Box::new(StableView::decode(spec, bytes)?)),
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
