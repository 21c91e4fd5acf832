//! Integers of any size in small digits: most values fit one digit, the others chain further digits from a pool.
//!
//! The value of a cell is Σ digit_j · base^j. Nodes are allocated before lower digits are written, so that a value without
//! room becomes as large as its digits allow, and the difference is returned. Every node is free or in exactly one chain.
//! Which node a chain uses is not part of the state; values are.

use super::chain_table::ChainTable;
use super::rounding::EpochFactor;
use crate::codec::{CodecError, Reader, Writer};
use crate::filter::structure::cells::{CellMemory, CellWidth};

const END: u32 = u32::MAX;

/// Values stay below this, whatever the pool could store.
const MAX_VALUE: u64 = 1 << 48;

/// An array of integers in digits.
#[derive(Debug, Clone)]
pub struct DigitArray {
    width: CellWidth,
    first: CellMemory,
    /// For each node, its digit and the next node of its chain or of the free list.
    digits: Vec<u8>,
    next: Vec<u32>,
    first_free: u32,
    free: u32,
    chains: ChainTable,
    peak: u32,
}

impl DigitArray {
    pub fn new(cells: u64, width: CellWidth, pool: u32) -> Self {
        Self::with_first_digits(CellMemory::zeroed(width.bytes_for(cells)), width, pool)
    }

    fn with_first_digits(first: CellMemory, width: CellWidth, pool: u32) -> Self {
        let next = (1..pool).chain((pool > 0).then_some(END)).collect();
        let first_free = if pool > 0 { 0 } else { END };
        let (digits, chains) = (vec![0; pool as usize], ChainTable::with_capacity(pool));
        Self { width, first, digits, next, first_free, free: pool, chains, peak: 0 }
    }

    pub fn pool(&self) -> u32 {
        self.next.len() as u32
    }

    pub fn used(&self) -> u32 {
        self.pool() - self.free
    }

    /// The largest number of nodes ever in use.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    pub fn bytes(&self) -> usize {
        self.first.len() + self.digits.len() + self.next.len() * 4 + self.chains.bytes()
    }

    /// The largest value without a chain.
    pub fn max_digit(&self) -> u64 {
        u64::from(self.width.max_value())
    }

    pub fn first_digit(&self, cell: u64) -> u64 {
        u64::from(self.width.get(&self.first, cell))
    }

    pub fn is_chained(&self, cell: u64) -> bool {
        self.chains.get(cell as u32).is_some()
    }

    pub fn value(&self, cell: u64) -> u64 {
        let chain = self.chains.get(cell as u32).unwrap_or(END);
        let mut shift = 0;
        self.chain(chain).fold(self.first_digit(cell), |value, node| {
            shift += self.width.bits();
            value + (u64::from(self.digits[node as usize]) << shift)
        })
    }

    fn chain(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors((first != END).then_some(first), |node| {
            let next = self.next[*node as usize];
            (next != END).then_some(next)
        })
    }

    /// Adds `units`; returns what found no room.
    #[inline]
    pub fn add(&mut self, cell: u64, units: u64) -> u64 {
        let digit = self.first_digit(cell) + units;
        if digit <= self.max_digit() {
            self.width.put(&mut self.first, cell, digit as u8);
            return 0;
        }
        let value = self.value(cell);
        self.store(cell, value + units)
    }

    /// Replaces the value of a cell; returns what found no room.
    pub fn store(&mut self, cell: u64, requested: u64) -> u64 {
        let bits = self.width.bits();
        let chain = self.chains.get(cell as u32).unwrap_or(END);
        let room = self.chain(chain).count() as u32 + self.free;
        let max = 1u64.checked_shl(bits.saturating_mul(room + 1)).map_or(MAX_VALUE, |base| base.min(MAX_VALUE));
        let value = requested.min(max - 1);
        let digit = (value & self.max_digit()) as u8;
        self.width.put(&mut self.first, cell, digit);
        self.write_chain(cell, chain, value >> bits);
        requested - value
    }

    /// Writes the digits above the first into the cell's chain, which grows or shrinks to fit.
    fn write_chain(&mut self, cell: u64, chain: u32, mut high: u64) {
        let (mut node, mut last) = (chain, END);
        while high > 0 {
            if node == END {
                let Some(free) = self.allocate() else { return };
                node = free;
                match last {
                    END => self.chains.insert(cell as u32, node),
                    last => self.next[last as usize] = node,
                }
                self.peak = self.peak.max(self.used());
            }
            self.digits[node as usize] = (high & self.max_digit()) as u8;
            high >>= self.width.bits();
            (last, node) = (node, self.next[node as usize]);
        }
        match last {
            END if chain != END => self.chains.remove(cell as u32),
            END => {}
            last => self.next[last as usize] = END,
        }
        while node != END {
            let after = std::mem::replace(&mut self.next[node as usize], self.first_free);
            self.first_free = node;
            self.free += 1;
            node = after;
        }
    }

    /// Takes a node off the free list.
    fn allocate(&mut self) -> Option<u32> {
        let node = (self.first_free != END).then_some(self.first_free)?;
        self.first_free = std::mem::replace(&mut self.next[node as usize], END);
        self.free -= 1;
        Some(node)
    }

    /// Decays every value.
    pub fn fade(&mut self, factor: EpochFactor) {
        let values: Vec<(u64, u64)> =
            self.chains.sorted().into_iter().map(|(cell, _)| (u64::from(cell), self.value(u64::from(cell)))).collect();
        let decayed = self.decayed_bytes(factor);
        self.first.iter_mut().for_each(|byte| *byte = decayed[usize::from(*byte)]);
        for (cell, value) in values {
            self.store(cell, factor.apply(value));
        }
    }

    /// For each byte of first digits, its decayed value.
    fn decayed_bytes(&self, factor: EpochFactor) -> [u8; 256] {
        let cells_per_byte = u64::from(8 / self.width.bits());
        std::array::from_fn(|byte| {
            let mut out = [byte as u8];
            for cell in 0..cells_per_byte {
                let digit = factor.apply(u64::from(self.width.get(&out, cell)));
                self.width.put(&mut out, cell, digit as u8);
            }
            out[0]
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.varint(u64::from(self.peak));
        writer.raw(&self.first);
        let chains = self.chains.sorted();
        writer.varint(chains.len() as u64);
        for (cell, _) in chains {
            writer.varint(u64::from(cell));
            writer.varint(self.value(u64::from(cell)) >> self.width.bits());
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>, cells: u64, width: CellWidth, pool: u32) -> Result<Self, CodecError> {
        let invalid = |reason: &str| CodecError::invalid("digits", reason);
        let peak = reader.varint()?;
        let first = CellMemory::copied(reader.raw(width.bytes_for(cells))?);
        let excess = cells..first.len() as u64 * 8 / u64::from(width.bits());
        if excess.clone().any(|cell| width.get(&first, cell) != 0) {
            return Err(invalid("a digit is set beyond the last cell"));
        }
        let mut digits = Self::with_first_digits(first, width, pool);
        let mut next_cell = 0;
        for _ in 0..reader.count(2)? {
            let (cell, high) = (reader.varint()?, reader.varint()?);
            if cell < next_cell || cell >= cells || high == 0 || high >= MAX_VALUE >> width.bits() {
                return Err(invalid("chains are out of order or empty"));
            }
            if digits.store(cell, (high << width.bits()) + digits.first_digit(cell)) > 0 {
                return Err(invalid("chains exceed the pool"));
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
        let mut seen = vec![false; self.next.len()];
        let free: Vec<u32> = self.chain(self.first_free).collect();
        assert_eq!(free.len(), self.free as usize);
        let chained = self.chains.sorted().into_iter().flat_map(|(_, first)| self.chain(first)).collect::<Vec<_>>();
        for node in chained.iter().chain(&free) {
            assert!(!std::mem::replace(&mut seen[*node as usize], true), "node {node} is in two lists");
        }
        assert!(seen.into_iter().all(|seen| seen), "a node is lost");
    }
}
