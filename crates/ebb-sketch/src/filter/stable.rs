//! Filters that forget at random: the stable Bloom filter and its importance-aware kin, on one array of small cells.
//!
//! An observation probes its cells (duplicate: none is zero), takes one from cells chosen at random, then raises its own:
//! in this order. Under a steady stream the share of zero cells settles ([`super::limiting`]), and with it the rate of
//! false duplicates. The array draws no randomness of its own: the caller hands in the draws of the record, so a replay
//! leaves the same bytes. It knows neither time nor how important an item is, only the value it is given.

use super::cells::{Memory, Width};
use super::importance::Rule;
use super::importance_buckets::{Buckets, MOST_VALUE};
use super::places::{CellList, Places, Size};
use super::spec_error::{SpecError, within};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::hash::Fingerprint;
use crate::random::Random;

const KIND: Kind = *b"fade";
const VERSION: u16 = 1;

/// More random accesses than this for one observation are a slip of the pen.
pub const MOST_DECREMENTS: u32 = 4096;

/// In lines, decrements come in groups of at most this many a line: few beside the 64 cells of the widest kind.
const DECREMENTS_A_LINE: u32 = 16;

/// The chance on which a thinned decrement is carried out.
enum Chance<'a> {
    /// A draw is made only if one is needed.
    Drawn(&'a mut Random),
    /// 23 random bits that came with the cell.
    Given(u32),
}

impl Chance<'_> {
    /// True with chance 1 / value, for a value of at least 1.
    #[inline]
    fn one_in(self, value: u8) -> bool {
        match self {
            Self::Drawn(random) => value == 1 || random.below(u64::from(value)) == 0,
            Self::Given(bits) => (u64::from(bits) * u64::from(value)) >> 23 == 0,
        }
    }
}

/// The parameters of a fading filter; one that exists is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FadingSpec {
    places: Places,
    width: Width,
    decrements: u32,
    top: u8,
    rule: Rule,
}

impl FadingSpec {
    /// `hashes` cells an item (K), `decrements` an observation (P), cell values up to `top` (M).
    pub fn new(size: Size, hashes: u8, decrements: u32, top: u8, rule: Rule) -> Result<Self, SpecError> {
        within("the top value", top, 1..=u8::MAX, "a cell must be able to be set")?;
        if let Rule::TwoClass { low } = rule {
            within("the low value", low, 1..=top, "it is set in cells, below the top value")?;
        }
        let width = Width::holding(top);
        let places = Places::new(size, width.bits(), hashes)?;
        if rule == Rule::HarmonicLiteral {
            within("the top value", top, 1..=MOST_VALUE, "literal inverse choice weighs values up to 15")?;
            within("cells", places.cells(), 1..=u64::from(u32::MAX), "literal inverse choice lists cells by 32 bits")?;
        }
        Self { places, width, decrements: 1, top, rule }.with_decrements(decrements)
    }

    pub fn with_decrements(mut self, decrements: u32) -> Result<Self, SpecError> {
        let most = u64::from(MOST_DECREMENTS).min(self.places.cells()) as u32;
        self.decrements = within(
            "decrements",
            decrements,
            1..=most,
            "without any nothing is forgotten (choose classic), and there are no more cells than cells",
        )?;
        Ok(self)
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    pub fn decrements(&self) -> u32 {
        self.decrements
    }

    pub fn top(&self) -> u8 {
        self.top
    }

    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Calls `take` with every cell that one observation decrements, drawn uniformly with replacement.
    ///
    /// Where items keep to lines, up to 16 decrements keep to a line as well: each cell is struck as often, and an
    /// observation touches two lines instead of eleven.
    #[inline]
    fn draw_cells(&self, random: &mut Random, mut take: impl FnMut(u64, Chance<'_>)) {
        let Size::Lines(lines) = self.places.size() else {
            for _ in 0..self.decrements {
                let cell = random.below(self.places.cells());
                take(cell, Chance::Drawn(random));
            }
            return;
        };
        let cells_a_line = u64::from(512 / self.width.bits());
        let mut left = self.decrements;
        while left > 0 {
            let line = random.below(lines) * cells_a_line;
            let here = left.min(DECREMENTS_A_LINE);
            let mut drawn = 0;
            for index in 0..here {
                drawn = if index % 2 == 0 { random.next_u64() } else { drawn >> 32 };
                let half = drawn as u32;
                take(line + (u64::from(half) & (cells_a_line - 1)), Chance::Given(half >> 9));
            }
            left -= here;
        }
    }

    /// Bytes of the cells, without the lists of literal inverse choice.
    pub fn cell_bytes(&self) -> usize {
        self.width.bytes_for(self.places.cells())
    }

    pub fn encode(&self, writer: &mut Writer) {
        self.places.size().encode(writer);
        writer.raw(&[self.places.hashes(), self.top]);
        self.rule.encode(writer);
        writer.varint(u64::from(self.decrements));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let size = Size::decode(reader)?;
        let (hashes, top, rule) = (reader.u8()?, reader.u8()?, Rule::decode(reader)?);
        let decrements = u32::try_from(reader.varint()?).unwrap_or(u32::MAX);
        Self::new(size, hashes, decrements, top, rule)
            .map_err(|error| CodecError::invalid("fading filter", error.to_string()))
    }
}

/// A filter under one of the rules.
#[derive(Debug, Clone)]
pub struct FadingFilter {
    spec: FadingSpec,
    cells: Memory,
    non_zero: u64,
    buckets: Option<Box<Buckets>>,
}

impl FadingFilter {
    pub fn new(spec: FadingSpec) -> Self {
        let literal = spec.rule == Rule::HarmonicLiteral;
        let buckets = literal.then(|| Box::new(Buckets::new(spec.places.cells(), spec.top)));
        Self { spec, cells: Memory::zeroed(spec.cell_bytes()), non_zero: 0, buckets }
    }

    pub fn spec(&self) -> &FadingSpec {
        &self.spec
    }

    /// Whether the item would be taken for a duplicate.
    #[inline]
    pub fn probe(&self, item: Fingerprint) -> bool {
        self.none_is_zero(&self.spec.places.of(item))
    }

    /// One observation of an item of cell value `value`: whether it is a duplicate. Afterwards it would be.
    #[inline]
    pub fn process(&mut self, item: Fingerprint, value: u8, random: &mut Random) -> bool {
        let own = self.spec.places.of(item);
        let duplicate = self.none_is_zero(&own);
        match self.spec.rule {
            Rule::Stable | Rule::TwoClass { .. } | Rule::MultiClass => self.decrement_any(random),
            Rule::Harmonic => self.decrement_thinned(random),
            Rule::HarmonicLiteral => self.decrement_inverse(random),
        }
        self.raise(&own, self.spec.rule.raised(value, self.spec.top));
        duplicate
    }

    pub fn value(&self, cell: u64) -> u8 {
        self.spec.width.get(&self.cells, cell)
    }

    pub fn zero_share(&self) -> f64 {
        1.0 - self.non_zero as f64 / self.spec.places.cells() as f64
    }

    /// The chance that an item never seen is taken for a duplicate, from the cells as they are.
    pub fn false_duplicate(&self) -> f64 {
        let set = self.non_zero as f64 / self.spec.places.cells() as f64;
        libm::pow(set, f64::from(self.spec.places.hashes()))
    }

    #[inline]
    fn none_is_zero(&self, cells: &CellList) -> bool {
        let (bytes, width) = (&*self.cells, self.spec.width);
        // Every cell is looked at: they share a line, and an early end cannot be predicted.
        cells.as_slice().iter().fold(true, |all, cell| all & (width.get(bytes, *cell) != 0))
    }

    /// Takes one from each drawn cell; without a branch on the value, which no predictor would guess.
    #[inline]
    fn decrement_any(&mut self, random: &mut Random) {
        let (bytes, width) = (&mut *self.cells, self.spec.width);
        let mut emptied = 0;
        self.spec.draw_cells(random, |cell, _| {
            let (byte, shift) = width.locate(cell);
            let value = (bytes[byte] >> shift) & width.most();
            bytes[byte] -= u8::from(value != 0) << shift;
            emptied += u64::from(value == 1);
        });
        self.non_zero -= emptied;
    }

    /// Takes one from each drawn cell with chance 1 / value.
    #[inline]
    fn decrement_thinned(&mut self, random: &mut Random) {
        let (bytes, width) = (&mut *self.cells, self.spec.width);
        let mut emptied = 0;
        self.spec.draw_cells(random, |cell, chance| {
            let (byte, shift) = width.locate(cell);
            let value = (bytes[byte] >> shift) & width.most();
            let carried_out = value != 0 && chance.one_in(value);
            bytes[byte] -= u8::from(carried_out) << shift;
            emptied += u64::from(carried_out && value == 1);
        });
        self.non_zero -= emptied;
    }

    fn decrement_inverse(&mut self, random: &mut Random) {
        let Some(buckets) = &mut self.buckets else { return };
        for _ in 0..self.spec.decrements {
            let Some((cell, value)) = buckets.take_one(random) else { return };
            self.spec.width.put(&mut self.cells, u64::from(cell), value - 1);
            self.non_zero -= u64::from(value == 1);
        }
    }

    #[inline]
    fn raise(&mut self, own: &CellList, least: u8) {
        let (bytes, width) = (&mut *self.cells, self.spec.width);
        for cell in own.as_slice() {
            let value = width.get(bytes, *cell);
            width.put(bytes, *cell, value.max(least));
            self.non_zero += u64::from(value == 0);
            if let Some(buckets) = &mut self.buckets
                && value < least
            {
                buckets.shift(*cell as u32, value, least);
            }
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.spec.encode(&mut writer);
        writer.raw(&self.cells);
        if let Some(buckets) = &self.buckets {
            // The order within a list decides what later draws find: it is state.
            (1..=self.spec.top).flat_map(|value| buckets.of_value(value)).for_each(|cell| writer.u32(*cell));
        }
        writer.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let spec = FadingSpec::decode(&mut reader)?;
        let mut filter = Self::from_cells(spec, reader.raw(spec.cell_bytes())?)?;
        if spec.rule == Rule::HarmonicLiteral {
            filter.buckets = Some(Box::new(filter.read_lists(&mut reader)?));
        }
        reader.finish()?;
        Ok(filter)
    }

    fn from_cells(spec: FadingSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let cells = Memory::copied(bytes);
        let mut non_zero = 0;
        for cell in 0..(bytes.len() as u64 * 8) / u64::from(spec.width.bits()) {
            let value = spec.width.get(&cells, cell);
            if value > spec.top || (value > 0 && cell >= spec.places.cells()) {
                return Err(CodecError::invalid("fading filter", format!("cell {cell} holds {value}")));
            }
            non_zero += u64::from(value > 0);
        }
        Ok(Self { spec, cells, non_zero, buckets: None })
    }

    /// Every non-zero cell once, values ascending.
    fn read_lists(&self, reader: &mut Reader<'_>) -> Result<Buckets, CodecError> {
        let mut buckets = Buckets::new(self.spec.places.cells(), self.spec.top);
        let mut unlisted = self.cells.clone();
        let mut last = 1;
        for _ in 0..self.non_zero {
            let cell = reader.u32()?;
            let held = u64::from(cell) < self.spec.places.cells();
            let value = if held { self.spec.width.get(&unlisted, u64::from(cell)) } else { 0 };
            if value < last {
                return Err(CodecError::invalid("fading filter", format!("cell {cell} is listed wrongly")));
            }
            self.spec.width.put(&mut unlisted, u64::from(cell), 0);
            buckets.shift(cell, 0, value);
            last = value;
        }
        Ok(buckets)
    }
}

#[cfg(test)]
mod tests;
