//! The stable Bloom filter and its importance-aware variants: small counters that random decrements wear down.
//!
//! An observation checks its cells (a duplicate has no zero cell), decrements cells drawn at random, then raises its own,
//! in this order. Under a steady stream the fraction of zero cells converges
//! ([`crate::filter::planning::stationary`]), and with it the false-duplicate rate. The filter holds no generator: the
//! caller passes the record's own ([`Random::for_record`]), so that a replay produces the same bytes. The filter knows
//! neither time nor importance, only the cell value of each observation.

pub mod buckets;
pub mod importance;
pub mod percentiles;
mod spec;

pub use spec::{DECREMENTS_PER_LINE, MAX_DECREMENTS, StableSpec};

use std::num::NonZeroU64;

use self::buckets::ValueBuckets;
use self::importance::ImportanceRule;
use super::cells::CellMemory;
use super::layout::{CellList, MAX_HASHES};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::hash::Fingerprint;
use crate::random::Random;

const KIND: Kind = *b"fade";
const VERSION: u16 = 1;

/// The values of one item's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellReading {
    values: [u8; MAX_HASHES as usize],
    len: u8,
}

impl CellReading {
    /// The values, in the order in which the fingerprint selects the cells.
    #[inline]
    pub fn values(&self) -> &[u8] {
        &self.values[..usize::from(self.len)]
    }

    /// The filter's own answer: a duplicate has no zero cell.
    #[inline]
    pub fn is_duplicate(&self) -> bool {
        self.values().iter().all(|value| *value != 0)
    }
}

/// A Bloom filter of counters that forgets at random.
///
/// ```
/// use ebb_sketch::filter::structure::layout::CellLayout;
/// use ebb_sketch::filter::structure::stable::importance::{ImportanceRule, ImportanceScale};
/// use ebb_sketch::filter::structure::stable::{StableFilter, StableSpec};
/// use ebb_sketch::{hash::HashKey, random::Random};
///
/// // Important items start at higher values and are remembered longer.
/// let spec = StableSpec::new(CellLayout::in_memory(4096).unwrap(), 5, 10, 7, ImportanceRule::MultiClass).unwrap();
/// let (mut filter, scale) = (StableFilter::new(spec), ImportanceScale::new(100.0, 7).unwrap());
/// let item = HashKey::new([7; 16]).fingerprint(b"click-1");
/// assert!(!filter.observe(item, scale.value(90.0), &mut Random::for_record(42, 0, 0)));
/// assert!(filter.observe(item, scale.value(90.0), &mut Random::for_record(42, 0, 1)));
/// ```
#[derive(Debug, Clone)]
pub struct StableFilter {
    spec: StableSpec,
    cells: CellMemory,
    non_zero: u64,
    buckets: Option<Box<ValueBuckets>>,
}

impl StableFilter {
    /// An empty filter.
    pub fn new(spec: StableSpec) -> Self {
        let literal = spec.rule() == ImportanceRule::HarmonicLiteral;
        let buckets = literal.then(|| Box::new(ValueBuckets::new(spec.hasher().cells(), spec.max_value())));
        Self { spec, cells: CellMemory::zeroed(spec.cell_bytes()), non_zero: 0, buckets }
    }

    /// The parameters.
    pub fn spec(&self) -> &StableSpec {
        &self.spec
    }

    /// Whether the item would be reported as a duplicate.
    #[inline]
    pub fn contains(&self, item: Fingerprint) -> bool {
        self.none_is_zero(&self.spec.hasher().cells_of(item))
    }

    /// Records one observation with cell value `value` and returns whether it is a duplicate.
    #[inline]
    pub fn observe(&mut self, item: Fingerprint, value: u8, random: &mut Random) -> bool {
        let own = self.spec.hasher().cells_of(item);
        let duplicate = self.none_is_zero(&own);
        match self.spec.rule() {
            ImportanceRule::Stable | ImportanceRule::TwoClass { .. } | ImportanceRule::MultiClass => {
                self.decrement_uniform(random);
            }
            ImportanceRule::Harmonic => self.decrement_thinned(random),
            ImportanceRule::HarmonicLiteral => self.decrement_inverse(random),
        }
        self.raise(&own, self.spec.rule().raised_value(value, self.spec.max_value()));
        duplicate
    }

    /// The values of the item's cells, each cell once.
    #[inline]
    pub fn read(&self, item: Fingerprint) -> CellReading {
        let own = self.spec.hasher().cells_of(item).distinct();
        let mut reading = CellReading { values: [0; MAX_HASHES as usize], len: own.as_slice().len() as u8 };
        for (value, cell) in reading.values.iter_mut().zip(own.as_slice()) {
            *value = self.value(*cell);
        }
        reading
    }

    /// Adds the other cells of the item's line to `counts`, by value, and returns their number; 0 in a spread layout. Values
    /// beyond the end of `counts` are not counted.
    pub fn count_line(&self, item: Fingerprint, counts: &mut [u16]) -> u16 {
        let Some(line) = self.spec.hasher().line_of(item) else { return 0 };
        let own = self.spec.hasher().cells_of(item).distinct();
        let mut others = 0;
        for cell in line {
            if let Some(count) = counts.get_mut(usize::from(self.value(cell))) {
                *count += 1;
                others += 1;
            }
        }
        for cell in own.as_slice() {
            if let Some(count) = counts.get_mut(usize::from(self.value(*cell))) {
                *count -= 1;
                others -= 1;
            }
        }
        others
    }

    /// How many of at most `sample` evenly spaced cells hold each value 0..=M.
    pub fn count_values(&self, sample: NonZeroU64) -> Vec<u64> {
        let cells = self.spec.hasher().cells();
        let step = (cells / sample).max(1);
        let mut counts = vec![0; usize::from(self.spec.max_value()) + 1];
        (0..cells.min(sample.get())).for_each(|index| counts[usize::from(self.value(index * step))] += 1);
        counts
    }

    /// The value of a cell.
    pub fn value(&self, cell: u64) -> u8 {
        self.spec.width().get(&self.cells, cell)
    }

    /// The fraction of zero cells.
    pub fn zero_share(&self) -> f64 {
        1.0 - self.non_zero as f64 / self.spec.hasher().cells() as f64
    }

    /// The probability that an item which was never seen is reported as a duplicate, from the current cells.
    pub fn false_duplicate_rate(&self) -> f64 {
        let set = self.non_zero as f64 / self.spec.hasher().cells() as f64;
        libm::pow(set, f64::from(self.spec.hasher().hashes()))
    }

    #[inline]
    fn none_is_zero(&self, cells: &CellList) -> bool {
        let (bytes, width) = (&*self.cells, self.spec.width());
        // No early exit: the cells share a line, and the branch could not be predicted.
        cells.as_slice().iter().fold(true, |all, cell| all & (width.get(bytes, *cell) != 0))
    }

    /// Decrements each drawn cell, without a branch on its value.
    #[inline]
    fn decrement_uniform(&mut self, random: &mut Random) {
        let (bytes, width) = (&mut *self.cells, self.spec.width());
        let mut emptied = 0;
        self.spec.draw_cells(random, |cell, _| {
            let (byte, shift) = width.locate(cell);
            let value = (bytes[byte] >> shift) & width.max_value();
            bytes[byte] -= u8::from(value != 0) << shift;
            emptied += u64::from(value == 1);
        });
        self.non_zero -= emptied;
    }

    /// Decrements each drawn cell with probability 1 / value.
    #[inline]
    fn decrement_thinned(&mut self, random: &mut Random) {
        let (bytes, width) = (&mut *self.cells, self.spec.width());
        let mut emptied = 0;
        self.spec.draw_cells(random, |cell, trial| {
            let (byte, shift) = width.locate(cell);
            let value = (bytes[byte] >> shift) & width.max_value();
            let succeeds = value != 0 && trial.one_in(value);
            bytes[byte] -= u8::from(succeeds) << shift;
            emptied += u64::from(succeeds && value == 1);
        });
        self.non_zero -= emptied;
    }

    fn decrement_inverse(&mut self, random: &mut Random) {
        let Some(buckets) = &mut self.buckets else { return };
        for _ in 0..self.spec.decrements() {
            let Some((cell, value)) = buckets.decrement_one(random) else { return };
            self.spec.width().put(&mut self.cells, u64::from(cell), value - 1);
            self.non_zero -= u64::from(value == 1);
        }
    }

    #[inline]
    fn raise(&mut self, own: &CellList, min: u8) {
        let (bytes, width) = (&mut *self.cells, self.spec.width());
        for cell in own.as_slice() {
            let value = width.get(bytes, *cell);
            width.put(bytes, *cell, value.max(min));
            self.non_zero += u64::from(value == 0);
            if let Some(buckets) = &mut self.buckets
                && value < min
            {
                buckets.change(*cell as u32, value, min);
            }
        }
    }

    /// Encodes parameters, cells and, for [`ImportanceRule::HarmonicLiteral`], the lists.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.spec.encode(&mut writer);
        writer.raw(&self.cells);
        if let Some(buckets) = &self.buckets {
            // The order within a list determines later draws, so it is state.
            (1..=self.spec.max_value()).flat_map(|value| buckets.of_value(value)).for_each(|cell| writer.u32(*cell));
        }
        writer.seal()
    }

    /// Reads what [`StableFilter::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let spec = StableSpec::decode(&mut reader)?;
        let mut filter = Self::from_cells(spec, reader.raw(spec.cell_bytes())?)?;
        if spec.rule() == ImportanceRule::HarmonicLiteral {
            filter.buckets = Some(Box::new(filter.read_lists(&mut reader)?));
        }
        reader.finish()?;
        Ok(filter)
    }

    fn from_cells(spec: StableSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let cells = CellMemory::copied(bytes);
        let mut non_zero = 0;
        for cell in 0..(bytes.len() as u64 * 8) / u64::from(spec.width().bits()) {
            let value = spec.width().get(&cells, cell);
            if value > spec.max_value() || (value > 0 && cell >= spec.hasher().cells()) {
                return Err(CodecError::invalid("stable filter", format!("cell {cell} holds {value}")));
            }
            non_zero += u64::from(value > 0);
        }
        Ok(Self { spec, cells, non_zero, buckets: None })
    }

    /// Every non-zero cell once, values ascending.
    fn read_lists(&self, reader: &mut Reader<'_>) -> Result<ValueBuckets, CodecError> {
        let (width, cells) = (self.spec.width(), self.spec.hasher().cells());
        let mut buckets = ValueBuckets::new(cells, self.spec.max_value());
        let mut unlisted = self.cells.clone();
        let mut last = 1;
        for _ in 0..self.non_zero {
            let cell = reader.u32()?;
            let exists = u64::from(cell) < cells;
            let value = if exists { width.get(&unlisted, u64::from(cell)) } else { 0 };
            if value < last {
                return Err(CodecError::invalid(
                    "stable filter",
                    format!("cell {cell} is not where its value belongs"),
                ));
            }
            width.put(&mut unlisted, u64::from(cell), 0);
            buckets.change(cell, 0, value);
            last = value;
        }
        Ok(buckets)
    }
}

#[cfg(test)]
mod tests;
