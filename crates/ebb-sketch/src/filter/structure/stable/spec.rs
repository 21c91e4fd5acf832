//! Parameters of a stable filter, and the random cells that one observation decrements.

use super::buckets::MAX_VALUE;
use super::importance::ImportanceRule;
use crate::codec::{CodecError, Reader, Writer};
use crate::filter::parameter::{ParameterError, check_range};
use crate::filter::structure::cells::CellWidth;
use crate::filter::structure::layout::{CellHasher, CellLayout};
use crate::random::Random;

/// The most decrements per observation. A larger request is taken for a typing error.
pub const MAX_DECREMENTS: u32 = 4096;

/// In lines, decrements come in groups of at most this many per line: few beside the 64 cells of the widest kind.
pub const DECREMENTS_PER_LINE: u32 = 16;

/// The source of the trial that decides whether a thinned decrement is carried out.
pub(super) enum TrialSource<'a> {
    /// A new draw, made only if one is needed.
    Generator(&'a mut Random),
    /// 23 random bits that were drawn together with the cell.
    Bits(u32),
}

impl TrialSource<'_> {
    /// True with probability 1 / value, for a value of at least 1.
    #[inline]
    pub(super) fn one_in(self, value: u8) -> bool {
        match self {
            Self::Generator(random) => value == 1 || random.below(u64::from(value)) == 0,
            Self::Bits(bits) => (u64::from(bits) * u64::from(value)) >> 23 == 0,
        }
    }
}

/// Valid parameters of a stable filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StableSpec {
    hasher: CellHasher,
    width: CellWidth,
    decrements: u32,
    max_value: u8,
    rule: ImportanceRule,
}

impl StableSpec {
    /// `hashes` cells per item (K), `decrements` per observation (P), cell values up to `max_value` (M).
    pub fn new(
        layout: CellLayout,
        hashes: u8,
        decrements: u32,
        max_value: u8,
        rule: ImportanceRule,
    ) -> Result<Self, ParameterError> {
        check_range("the largest value", max_value, 1..=u8::MAX, "cells must be able to hold a non-zero value")?;
        if let ImportanceRule::TwoClass { low } = rule {
            check_range("the low value", low, 1..=max_value, "it is a cell value, at most the largest one")?;
        }
        let width = CellWidth::holding(max_value);
        let hasher = CellHasher::new(layout, width.bits(), hashes)?;
        if rule == ImportanceRule::HarmonicLiteral {
            check_range("the largest value", max_value, 1..=MAX_VALUE, "this rule weighs values up to 15")?;
            check_range("cells", hasher.cells(), 1..=u64::from(u32::MAX), "this rule indexes cells with 32 bits")?;
        }
        Self { hasher, width, decrements: 1, max_value, rule }.with_decrements(decrements)
    }

    /// The same parameters with another number of decrements.
    pub fn with_decrements(mut self, decrements: u32) -> Result<Self, ParameterError> {
        let max = u64::from(MAX_DECREMENTS).min(self.hasher.cells()) as u32;
        let reason = "without decrements nothing is forgotten (use a classic filter), and they cannot exceed the cells";
        self.decrements = check_range("decrements", decrements, 1..=max, reason)?;
        Ok(self)
    }

    /// The mapping from items to cells.
    #[inline]
    pub fn hasher(&self) -> &CellHasher {
        &self.hasher
    }

    /// P: decrements per observation.
    #[inline]
    pub fn decrements(&self) -> u32 {
        self.decrements
    }

    /// M: the largest cell value.
    #[inline]
    pub fn max_value(&self) -> u8 {
        self.max_value
    }

    /// How importance affects raises and decrements.
    #[inline]
    pub fn rule(&self) -> ImportanceRule {
        self.rule
    }

    #[inline]
    pub(super) fn width(&self) -> CellWidth {
        self.width
    }

    /// Calls `decrement` with every cell that one observation decrements, drawn uniformly with replacement.
    ///
    /// In a layout of lines, up to 16 decrements share a line: every cell is drawn equally often, and an observation
    /// touches two cache lines instead of eleven.
    #[inline]
    pub(super) fn draw_cells(&self, random: &mut Random, mut decrement: impl FnMut(u64, TrialSource<'_>)) {
        let CellLayout::Lines(lines) = self.hasher.layout() else {
            for _ in 0..self.decrements {
                let cell = random.below(self.hasher.cells());
                decrement(cell, TrialSource::Generator(random));
            }
            return;
        };
        let cells_per_line = u64::from(512 / self.width.bits());
        let mut left = self.decrements;
        while left > 0 {
            let line = random.below(lines) * cells_per_line;
            let here = left.min(DECREMENTS_PER_LINE);
            let mut drawn = 0;
            for index in 0..here {
                drawn = if index % 2 == 0 { random.next_u64() } else { drawn >> 32 };
                let half = drawn as u32;
                decrement(line + (u64::from(half) & (cells_per_line - 1)), TrialSource::Bits(half >> 9));
            }
            left -= here;
        }
    }

    /// Bytes of the cells, without the lists that [`ImportanceRule::HarmonicLiteral`] adds.
    pub fn cell_bytes(&self) -> usize {
        self.width.bytes_for(self.hasher.cells())
    }

    /// Appends the parameters.
    pub fn encode(&self, writer: &mut Writer) {
        self.hasher.layout().encode(writer);
        writer.raw(&[self.hasher.hashes(), self.max_value]);
        self.rule.encode(writer);
        writer.varint(u64::from(self.decrements));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let layout = CellLayout::decode(reader)?;
        let (hashes, max_value, rule) = (reader.u8()?, reader.u8()?, ImportanceRule::decode(reader)?);
        let decrements = u32::try_from(reader.varint()?).unwrap_or(u32::MAX);
        Self::new(layout, hashes, decrements, max_value, rule)
            .map_err(|error| CodecError::invalid("stable filter", error.to_string()))
    }
}
