//! Numbers of any size in small digits: most counts fit their one digit, the rest chain further digits from a pool.
//!
//! A cell's value is Σ digit_j · base^j. Nodes are taken before any lower digit is written, so that a value which finds no
//! room is left as high as its digits go, and what it lacks is told. Every node is free or in exactly one chain. Which
//! node a chain got is no part of the state: values are.

use super::fade::Keep;
use super::lookup::Lookup;
use crate::codec::{CodecError, Reader, Writer};
use crate::filter::cells::{Memory, Width};

const END: u32 = u32::MAX;

/// Values stay below this, whatever the pool could hold.
const MOST_VALUE: u64 = 1 << 48;

#[derive(Debug, Clone)]
pub struct Digits {
    width: Width,
    first: Memory,
    /// A node is one of each: its digit, and the node after it in its chain or in the list of free ones.
    digits: Vec<u8>,
    next: Vec<u32>,
    first_free: u32,
    free: u32,
    chains: Lookup,
    peak: u32,
}

impl Digits {
    pub fn new(cells: u64, width: Width, pool: u32) -> Self {
        Self::around(Memory::zeroed(width.bytes_for(cells)), width, pool)
    }

    fn around(first: Memory, width: Width, pool: u32) -> Self {
        let next = (1..pool).chain((pool > 0).then_some(END)).collect();
        let first_free = if pool > 0 { 0 } else { END };
        let (digits, chains) = (vec![0; pool as usize], Lookup::with_room(pool));
        Self { width, first, digits, next, first_free, free: pool, chains, peak: 0 }
    }

    pub fn pool(&self) -> u32 {
        self.next.len() as u32
    }

    pub fn used(&self) -> u32 {
        self.pool() - self.free
    }

    /// The most nodes ever in use.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    pub fn bytes(&self) -> usize {
        self.first.len() + self.digits.len() + self.next.len() * 4 + self.chains.bytes()
    }

    /// The largest value that needs no chain.
    pub fn most(&self) -> u64 {
        u64::from(self.width.most())
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

    /// Adds; what found no room is returned.
    #[inline]
    pub fn add(&mut self, cell: u64, units: u64) -> u64 {
        let digit = self.first_digit(cell) + units;
        if digit <= self.most() {
            self.width.put(&mut self.first, cell, digit as u8);
            return 0;
        }
        let value = self.value(cell);
        self.store(cell, value + units)
    }

    /// Writes a value over the one that stands there; what found no room is returned.
    pub fn store(&mut self, cell: u64, wanted: u64) -> u64 {
        let bits = self.width.bits();
        let chain = self.chains.get(cell as u32).unwrap_or(END);
        let room = self.chain(chain).count() as u32 + self.free;
        let most = 1u64.checked_shl(bits.saturating_mul(room + 1)).map_or(MOST_VALUE, |base| base.min(MOST_VALUE));
        let value = wanted.min(most - 1);
        let digit = (value & self.most()) as u8;
        self.width.put(&mut self.first, cell, digit);
        self.write_chain(cell, chain, value >> bits);
        wanted - value
    }

    /// Writes the digits above the first into a cell's chain, lengthened or cut to measure.
    fn write_chain(&mut self, cell: u64, chain: u32, mut high: u64) {
        let (mut node, mut last) = (chain, END);
        while high > 0 {
            if node == END {
                let Some(taken) = self.take() else { return };
                node = taken;
                match last {
                    END => self.chains.insert(cell as u32, node),
                    last => self.next[last as usize] = node,
                }
                self.peak = self.peak.max(self.used());
            }
            self.digits[node as usize] = (high & self.most()) as u8;
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

    /// A free node, at the end of its chain.
    fn take(&mut self) -> Option<u32> {
        let node = (self.first_free != END).then_some(self.first_free)?;
        self.first_free = std::mem::replace(&mut self.next[node as usize], END);
        self.free -= 1;
        Some(node)
    }

    /// Every value to the share it keeps.
    pub fn fade(&mut self, keep: Keep) {
        let values: Vec<(u64, u64)> =
            self.chains.sorted().into_iter().map(|(cell, _)| (u64::from(cell), self.value(u64::from(cell)))).collect();
        let faded = self.faded_bytes(keep);
        self.first.iter_mut().for_each(|byte| *byte = faded[usize::from(*byte)]);
        for (cell, value) in values {
            self.store(cell, keep.of(value));
        }
    }

    /// What each byte of first digits becomes.
    fn faded_bytes(&self, keep: Keep) -> [u8; 256] {
        let cells_a_byte = u64::from(8 / self.width.bits());
        std::array::from_fn(|byte| {
            let mut out = [byte as u8];
            for cell in 0..cells_a_byte {
                let digit = keep.of(u64::from(self.width.get(&out, cell)));
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

    pub(super) fn decode(reader: &mut Reader<'_>, cells: u64, width: Width, pool: u32) -> Result<Self, CodecError> {
        let invalid = |why: &str| CodecError::invalid("digits", why);
        let peak = reader.varint()?;
        let first = Memory::copied(reader.raw(width.bytes_for(cells))?);
        let beyond = cells..first.len() as u64 * 8 / u64::from(width.bits());
        if beyond.clone().any(|cell| width.get(&first, cell) != 0) {
            return Err(invalid("a digit is set beyond the last cell"));
        }
        let mut digits = Self::around(first, width, pool);
        let mut next_cell = 0;
        for _ in 0..reader.count(2)? {
            let (cell, high) = (reader.varint()?, reader.varint()?);
            if cell < next_cell || cell >= cells || high == 0 || high >= MOST_VALUE >> width.bits() {
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
            .ok_or_else(|| invalid("peak"))?;
        Ok(digits)
    }

    #[cfg(test)]
    pub(super) fn assert_whole(&self) {
        let mut seen = vec![false; self.next.len()];
        let free: Vec<u32> = self.chain(self.first_free).collect();
        assert_eq!(free.len(), self.free as usize);
        let chained = self.chains.sorted().into_iter().flat_map(|(_, first)| self.chain(first)).collect::<Vec<_>>();
        for node in chained.iter().chain(&free) {
            assert!(!std::mem::replace(&mut seen[*node as usize], true), "node {node} is in two places");
        }
        assert!(seen.into_iter().all(|seen| seen), "a node is lost");
    }
}
