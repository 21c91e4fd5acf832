//! Integers of any size in small digits: most values fit one digit, the others take further digits from a pool.
//!
//! The value of a cell is Σ digit_j · base^j. Whether the pool has room is known before any digit is written, so that a
//! value without room becomes as large as its digits allow, and the difference is returned. Cells come in groups of
//! eight: one bit tells whether a group may have digits in the pool, so that most reads and most of a sweep need only the
//! first digits.

use super::digit_pool::{DigitPool, VALUE_BITS};
use super::packed::PackedArray;
use super::rounding::EpochFactor;
use crate::codec::{CodecError, Reader, Writer};

/// Cells per group. Its first digits fill as many bytes as a digit has bits.
pub const GROUP: u64 = 8;
/// The largest number of bits of a digit.
pub const MAX_DIGIT_BITS: u32 = 16;
const MAX_VALUE: u64 = 1 << VALUE_BITS;

/// An array of integers in digits.
#[derive(Debug, Clone)]
pub struct DigitArray {
    cells: u64,
    /// The first digits, in whole groups.
    first: PackedArray,
    pool: DigitPool,
    /// One bit per group, set if one of its cells may have digits in the pool.
    extended: Vec<u64>,
    peak: u32,
}

/// Words of a bitmap with one bit per group.
fn group_words(cells: u64) -> u64 {
    cells.div_ceil(GROUP).div_ceil(64)
}

/// Cells in whole groups.
fn padded(cells: u64) -> u64 {
    cells.next_multiple_of(GROUP)
}

impl DigitArray {
    pub fn new(cells: u64, digit_bits: u32, pool: u32) -> Self {
        Self::with_first_digits(cells, PackedArray::zeroed(padded(cells), digit_bits), pool)
    }

    fn with_first_digits(cells: u64, first: PackedArray, pool: u32) -> Self {
        let pool = DigitPool::new(cells, first.bits(), pool);
        Self { cells, first, pool, extended: vec![0; group_words(cells) as usize], peak: 0 }
    }

    /// Bytes of an array.
    pub fn bytes_for(cells: u64, digit_bits: u32, pool: u32) -> u64 {
        PackedArray::bytes_for(padded(cells), digit_bits)
            + DigitPool::bytes_for(cells, digit_bits, pool)
            + group_words(cells) * 8
    }

    pub fn bytes(&self) -> u64 {
        self.first.bytes() + self.pool.bytes() + self.extended.len() as u64 * 8
    }

    pub fn used(&self) -> u32 {
        self.pool.used()
    }

    /// The largest number of pool digits ever in use.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    /// The largest value without digits in the pool.
    #[inline]
    pub fn max_digit(&self) -> u64 {
        self.first.max()
    }

    #[inline]
    pub fn first_digit(&self, cell: u64) -> u64 {
        self.first.get(cell)
    }

    /// Whether the cell has digits in the pool.
    #[inline]
    pub fn is_extended(&self, cell: u64) -> bool {
        self.is_group_extended(cell / GROUP) && self.pool.get(cell, 1).is_some()
    }

    #[inline]
    fn is_group_extended(&self, group: u64) -> bool {
        self.extended[(group / 64) as usize] >> (group % 64) & 1 == 1
    }

    #[inline]
    pub fn value(&self, cell: u64) -> u64 {
        self.first.get(cell) + (self.high_digits(cell).0 << self.first.bits())
    }

    /// The value of the digits in the pool, and their number.
    #[inline]
    fn high_digits(&self, cell: u64) -> (u64, u32) {
        if self.is_group_extended(cell / GROUP) { self.high(cell) } else { (0, 0) }
    }

    fn high(&self, cell: u64) -> (u64, u32) {
        let (mut high, mut digits) = (0, 0);
        while let Some(digit) = self.pool.get(cell, digits + 1) {
            high += digit << (digits * self.first.bits());
            digits += 1;
        }
        (high, digits)
    }

    /// Adds `units`; returns what found no room.
    #[inline]
    pub fn add(&mut self, cell: u64, units: u64) -> u64 {
        let digit = self.first.get(cell) + units;
        if digit <= self.first.max() {
            self.first.put(cell, digit);
            return 0;
        }
        let (high, digits) = self.high_digits(cell);
        self.write(cell, digits, digit + (high << self.first.bits()))
    }

    /// Replaces the value of a cell; returns what found no room.
    pub fn store(&mut self, cell: u64, requested: u64) -> u64 {
        let digits = self.high_digits(cell).1;
        self.write(cell, digits, requested)
    }

    /// Replaces the value of a cell that has `digits` digits in the pool; returns what found no room.
    fn write(&mut self, cell: u64, digits: u32, requested: u64) -> u64 {
        let bits = self.first.bits();
        let room = digits + (self.pool.capacity() - self.pool.used());
        let max = 1u64.checked_shl(bits.saturating_mul(room.saturating_add(1))).map_or(MAX_VALUE, |b| b.min(MAX_VALUE));
        let value = requested.min(max - 1);
        self.first.put(cell, value & self.first.max());
        self.write_high(cell, digits, value >> bits);
        requested - value
    }

    /// Writes the digits above the first in place of the `digits` that the cell has in the pool.
    fn write_high(&mut self, cell: u64, digits: u32, mut high: u64) {
        let mut place = 1;
        while high > 0 {
            self.pool.put(cell, place, high & self.first.max());
            high >>= self.first.bits();
            place += 1;
        }
        if place > 1 {
            let group = cell / GROUP;
            self.extended[(group / 64) as usize] |= 1 << (group % 64);
        }
        (place..=digits).for_each(|place| self.pool.remove(cell, place));
        self.peak = self.peak.max(self.pool.used());
    }

    /// Decays every value. Values only shrink, so that the order of cells does not matter.
    pub fn fade(&mut self, factor: EpochFactor) {
        let decay = DigitDecay::new(self.first.bits(), factor);
        for group in 0..self.cells.div_ceil(GROUP) {
            if self.is_group_extended(group) {
                self.fade_extended(group, factor);
            } else {
                let bytes = self.first.bits() as usize;
                let at = group as usize * bytes;
                decay.apply(&mut self.first.values_mut()[at..at + bytes]);
            }
        }
    }

    fn fade_extended(&mut self, group: u64, factor: EpochFactor) {
        self.extended[(group / 64) as usize] &= !(1 << (group % 64));
        for cell in group * GROUP..((group + 1) * GROUP).min(self.cells) {
            let (high, digits) = self.high(cell);
            let value = factor.apply(self.first.get(cell) + (high << self.first.bits()));
            self.first.put(cell, value & self.first.max());
            self.write_high(cell, digits, value >> self.first.bits());
        }
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.varint(u64::from(self.peak));
        writer.raw(self.first.values());
        let mut extended: Vec<u64> = self.pool.cells().collect();
        extended.sort_unstable();
        writer.varint(extended.len() as u64);
        for cell in extended {
            writer.varint(cell);
            writer.varint(self.high(cell).0);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>, cells: u64, digit_bits: u32, pool: u32) -> Result<Self, CodecError> {
        let invalid = |reason: &str| CodecError::invalid("digits", reason);
        let peak = reader.varint()?;
        let values = reader.raw(PackedArray::value_bytes(padded(cells), digit_bits) as usize)?;
        let first = PackedArray::from_values(values, digit_bits);
        if (cells..padded(cells)).any(|cell| first.get(cell) != 0) {
            return Err(invalid("a digit is set beyond the last cell"));
        }
        let mut digits = Self::with_first_digits(cells, first, pool);
        let mut next_cell = 0;
        for _ in 0..reader.count(2)? {
            let (cell, high) = (reader.varint()?, reader.varint()?);
            if cell < next_cell || cell >= cells || high == 0 || high >= MAX_VALUE >> digit_bits {
                return Err(invalid("pool digits are out of order or zero"));
            }
            if digits.store(cell, (high << digit_bits) + digits.first_digit(cell)) > 0 {
                return Err(invalid("the digits exceed the pool"));
            }
            next_cell = cell + 1;
        }
        digits.peak = u32::try_from(peak)
            .ok()
            .filter(|peak| (digits.used()..=pool).contains(peak))
            .ok_or_else(|| invalid("the peak is out of range"))?;
        Ok(digits)
    }

    #[cfg(test)]
    pub(super) fn assert_consistent(&self) {
        let digits: u32 = (0..self.cells).map(|cell| self.high(cell).1).sum();
        assert_eq!(u64::from(digits), self.pool.occupied_slots(), "a digit is not reachable");
        assert_eq!(digits, self.pool.used());
        assert!(self.pool.cells().all(|cell| self.is_group_extended(cell / GROUP)), "an extended group is not marked");
        assert!(self.pool.used() <= self.peak && self.peak <= self.pool.capacity());
    }
}

/// The decay of a group's first digits.
struct DigitDecay {
    bits: u32,
    factor: EpochFactor,
    /// The decayed bytes, where digits do not cross bytes.
    bytes: Option<[u8; 256]>,
}

impl DigitDecay {
    fn new(bits: u32, factor: EpochFactor) -> Self {
        let decayed = |byte: usize| decayed_digits(byte as u128, bits, 8, factor) as u8;
        Self { bits, factor, bytes: (8 % bits == 0).then(|| std::array::from_fn(decayed)) }
    }

    fn apply(&self, group: &mut [u8]) {
        if group.iter().all(|byte| *byte == 0) {
            return;
        }
        if let Some(decayed) = &self.bytes {
            group.iter_mut().for_each(|byte| *byte = decayed[usize::from(*byte)]);
            return;
        }
        let mut word = [0; MAX_DIGIT_BITS as usize];
        word[..group.len()].copy_from_slice(group);
        let decayed = decayed_digits(u128::from_le_bytes(word), self.bits, 8 * self.bits, self.factor);
        group.copy_from_slice(&decayed.to_le_bytes()[..group.len()]);
    }
}

/// Decays each digit of `bits` bits among the `total` low bits of `digits`.
fn decayed_digits(digits: u128, bits: u32, total: u32, factor: EpochFactor) -> u128 {
    let max = (1u64 << bits) - 1;
    (0..total).step_by(bits as usize).fold(0, |word, shift| {
        let digit = factor.apply_digit((digits >> shift) as u64 & max);
        word | u128::from(digit) << shift
    })
}
