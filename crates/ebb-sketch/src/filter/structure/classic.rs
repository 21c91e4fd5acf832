//! The classical Bloom filter: one bit per cell, nothing is ever forgotten.
//!
//! Guarantee: every inserted item is found. [`ClassicFilter::belief`] gives the probability that a found item was really
//! inserted. The filter has no notion of time: use it for bounded streams, or as a baseline for the filters that forget.

use super::cells::{CellMemory, CellWidth};
use super::layout::{CellHasher, CellLayout, CellList};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::filter::belief::{ArrivalShare, Belief};
use crate::filter::parameter::ParameterError;
use crate::hash::Fingerprint;

const KIND: Kind = *b"clsc";
const VERSION: u16 = 1;

/// Weight, in cells, with which the whole filter's fill is mixed into that of one line.
const LINE_PRIOR_CELLS: f64 = 32.0;

/// The probability that all cells of an item are set although it was never inserted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FalsePositiveRate(f64);

impl FalsePositiveRate {
    /// From the fraction of set cells, for an item with `own` distinct cells.
    pub fn from_fill(fill: f64, own: u32) -> Self {
        Self(libm::exp(f64::from(own) * libm::log(fill)))
    }

    /// From the number of distinct items inserted. Arrivals would overstate it, because repeats set no new cells.
    pub fn from_distinct(hasher: &CellHasher, distinct: f64, own: u32) -> Self {
        Self(libm::exp(f64::from(own) * log_touched(hasher, distinct)))
    }

    /// The rate itself.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Theorem 1: the posterior given that every cell of the item is set. The prior counts `arrivals`, repeats included.
    pub fn posterior(self, share: ArrivalShare, arrivals: u64) -> Belief {
        let log_absent = arrivals as f64 * share.log_complement();
        let inserted = -libm::expm1(log_absent);
        let collision = libm::exp(log_absent) * self.0;
        Belief::normalised(inserted, collision)
    }
}

/// ln(1 − (1 − t)^distinct), where t is the probability that one item touches a given cell; precise at both ends.
fn log_touched(hasher: &CellHasher, distinct: f64) -> f64 {
    let log_untouched = distinct * libm::log1p(-hasher.touch_probability());
    if log_untouched > -std::f64::consts::LN_2 {
        libm::log(-libm::expm1(log_untouched))
    } else {
        libm::log1p(-libm::exp(log_untouched))
    }
}

/// A Bloom filter that never forgets.
///
/// ```
/// use ebb_sketch::filter::belief::ArrivalShare;
/// use ebb_sketch::filter::structure::{classic::ClassicFilter, layout::CellLayout};
/// use ebb_sketch::hash::HashKey;
///
/// let (key, mut filter) = (HashKey::new([7; 16]), ClassicFilter::new(CellLayout::in_memory(4096).unwrap(), 5).unwrap());
/// assert!(!filter.insert(key.fingerprint(b"click-1")));
/// assert!(filter.insert(key.fingerprint(b"click-1")));
/// let belief = filter.belief(key.fingerprint(b"click-1"), ArrivalShare::new(0.01).unwrap());
/// assert!(belief.inside > 0.99);
/// ```
#[derive(Debug, Clone)]
pub struct ClassicFilter {
    hasher: CellHasher,
    bits: CellMemory,
    arrivals: u64,
    set_cells: u64,
}

impl ClassicFilter {
    /// An empty filter with `hashes` cells per item.
    pub fn new(layout: CellLayout, hashes: u8) -> Result<Self, ParameterError> {
        let hasher = CellHasher::new(layout, 1, hashes)?;
        let bits = CellMemory::zeroed(CellWidth::BIT.bytes_for(hasher.cells()));
        Ok(Self { hasher, bits, arrivals: 0, set_cells: 0 })
    }

    /// The mapping from items to cells.
    pub fn hasher(&self) -> &CellHasher {
        &self.hasher
    }

    /// Inserts so far, repeats included.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The fraction of set cells.
    pub fn fill(&self) -> f64 {
        self.set_cells as f64 / self.hasher.cells() as f64
    }

    /// The probability that an item which was never inserted is found, from the fill.
    pub fn false_duplicate_rate(&self) -> f64 {
        libm::exp(f64::from(self.hasher.hashes()) * libm::log(self.fill()))
    }

    /// Estimated number of distinct items, from the fill; infinite once every cell is set.
    pub fn distinct(&self) -> f64 {
        libm::log1p(-self.fill()) / libm::log1p(-self.hasher.touch_probability())
    }

    /// Whether all cells of the item are set.
    #[inline]
    pub fn contains(&self, item: Fingerprint) -> bool {
        self.all_set(&self.hasher.cells_of(item))
    }

    /// Inserts the item and returns whether it was found before.
    #[inline]
    pub fn insert(&mut self, item: Fingerprint) -> bool {
        let bytes = &mut *self.bits;
        let mut added = 0;
        for cell in self.hasher.cells_of(item).as_slice() {
            let (byte, shift) = CellWidth::BIT.locate(*cell);
            added += u64::from(bytes[byte] >> shift & 1 == 0);
            bytes[byte] |= 1 << shift;
        }
        self.set_cells += added;
        self.arrivals = self.arrivals.saturating_add(1);
        added == 0
    }

    /// The posterior that an item with this share of arrivals was inserted.
    pub fn belief(&self, item: Fingerprint, share: ArrivalShare) -> Belief {
        let own = self.hasher.cells_of(item).distinct();
        if !self.all_set(&own) {
            return Belief::OUTSIDE;
        }
        let count = own.as_slice().len() as u32;
        FalsePositiveRate::from_fill(self.local_fill(item, count), count).posterior(share, self.arrivals)
    }

    fn all_set(&self, cells: &CellList) -> bool {
        let bytes = &*self.bits;
        cells.as_slice().iter().all(|cell| CellWidth::BIT.get(bytes, *cell) == 1)
    }

    /// The fill around an item. Lines differ in load, so the item's line counts, without the item's `own` cells and mixed
    /// with the fill of the whole filter.
    fn local_fill(&self, item: Fingerprint, own: u32) -> f64 {
        let Some(line) = self.hasher.line_of(item) else { return self.fill() };
        let bytes = &self.bits[(line.start / 8) as usize..(line.end / 8) as usize];
        let set: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        let others = f64::from(set - own) + LINE_PRIOR_CELLS * self.fill();
        others / ((line.end - line.start) as f64 - f64::from(own) + LINE_PRIOR_CELLS)
    }

    /// Encodes parameters and bits.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.hasher.layout().encode(&mut writer);
        writer.u8(self.hasher.hashes());
        writer.varint(self.arrivals);
        writer.raw(&self.bits);
        writer.seal()
    }

    /// Reads what [`ClassicFilter::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let (layout, hashes) = (CellLayout::decode(&mut reader)?, reader.u8()?);
        let hasher = CellHasher::new(layout, 1, hashes)
            .map_err(|error| CodecError::invalid("classic filter", error.to_string()))?;
        let arrivals = reader.varint()?;
        let bits = CellMemory::copied(reader.raw(CellWidth::BIT.bytes_for(hasher.cells()))?);
        reader.finish()?;
        let has_excess_bits = (hasher.cells()..bits.len() as u64 * 8).any(|cell| CellWidth::BIT.get(&bits, cell) != 0);
        if has_excess_bits {
            return Err(CodecError::invalid("classic filter", "bits are set beyond the last cell"));
        }
        let set_cells = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        Ok(Self { hasher, bits, arrivals, set_cells })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, mix};
    use proptest::prelude::*;

    fn item(x: u64) -> Fingerprint {
        Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
    }

    proptest! {
        #[test]
        fn inserted_items_are_found_also_after_decoding(
            xs in prop::collection::vec(0u64..500, 0..300), lines in 1u64..4, hashes in 1u8..=16,
        ) {
            let mut filter = ClassicFilter::new(CellLayout::Lines(lines), hashes).unwrap();
            for x in &xs {
                let before = filter.contains(item(*x));
                prop_assert_eq!(filter.insert(item(*x)), before);
                prop_assert!(filter.contains(item(*x)));
            }
            prop_assert!(xs.iter().all(|x| filter.contains(item(*x))));
            let mut back = ClassicFilter::decode(&filter.encode()).unwrap();
            prop_assert_eq!(back.insert(item(9_999)), filter.insert(item(9_999)));
            prop_assert_eq!(back.set_cells, filter.set_cells);
            prop_assert_eq!(back.encode(), filter.encode());
        }

        #[test]
        fn beliefs_sum_to_one_and_follow_prior_and_fill(
            log_p in -15.0f64..-0.4, arrivals in 1u64..10_000_000, fill in 1e-6f64..1.0, own in 1u32..17,
        ) {
            let p = libm::exp10(log_p);
            let at = |p, fill| FalsePositiveRate::from_fill(fill, own).posterior(ArrivalShare::new(p).unwrap(), arrivals);
            let belief = at(p, fill);
            prop_assert!((belief.inside + belief.outside - 1.0).abs() < 1e-12);
            prop_assert!(at(p * 1.3, fill).inside >= belief.inside * (1.0 - 1e-12));
            prop_assert!(at(p, fill * 0.9).inside >= belief.inside * (1.0 - 1e-12));
        }
    }

    #[test]
    fn the_posterior_is_calibrated_in_every_layout() {
        for size in [CellLayout::Lines(4), CellLayout::Spread(2_048)] {
            let (mut believed, mut inserted, mut found) = (0.0, 0u32, 0u32);
            for round in 0..300u64 {
                let mut filter = ClassicFilter::new(size, 4).unwrap();
                let mut random = Random::new(round);
                let mut seen = vec![false; 2_000];
                for _ in 0..900 {
                    let x = random.below(2_000);
                    seen[x as usize] = true;
                    filter.insert(item(x ^ round << 32));
                }
                let p = ArrivalShare::new(1.0 / 2_000.0).unwrap();
                for x in (0..2_000).filter(|x| filter.contains(item(x ^ round << 32))) {
                    believed += filter.belief(item(x ^ round << 32), p).inside;
                    inserted += u32::from(seen[x as usize]);
                    found += 1;
                }
            }
            let (believed, truth) = (believed / f64::from(found), f64::from(inserted) / f64::from(found));
            assert!((0.1..0.9).contains(&truth) && (believed - truth).abs() < 0.01, "{size:?}: {believed} {truth}");
        }
    }

    #[test]
    fn repeats_do_not_count_as_distinct_items() {
        let mut filter = ClassicFilter::new(CellLayout::Spread(1 << 16), 4).unwrap();
        for x in 0..20_000u64 {
            filter.insert(item(x % 1_000));
        }
        assert_eq!(filter.arrivals(), 20_000);
        assert!((filter.distinct() - 1_000.0).abs() < 30.0, "{}", filter.distinct());
        let by_fill = FalsePositiveRate::from_fill(filter.fill(), 4).get();
        let by_count = FalsePositiveRate::from_distinct(filter.hasher(), 1_000.0, 4).get();
        assert!((by_fill / by_count - 1.0).abs() < 0.1, "{by_fill} {by_count}");
    }

    #[test]
    fn invalid_parameters_report_the_nearest_valid_value() {
        assert_eq!(ClassicFilter::new(CellLayout::Spread(0), 3).unwrap_err().nearest, "1");
        assert_eq!(ClassicFilter::new(CellLayout::Spread(8), 17).unwrap_err().nearest, "16");
    }

    #[test]
    fn state_bytes_are_stable_across_releases() {
        let mut filter = ClassicFilter::new(CellLayout::Spread(16), 2).unwrap();
        filter.insert(item(1));
        let bytes = filter.encode();
        assert_eq!(bytes[..bytes.len() - 8], *b"clsc\x01\x00\x01\x10\x02\x01\x00\x0A");
    }

    #[test]
    fn bits_beyond_the_last_cell_are_rejected() {
        let filter = ClassicFilter::new(CellLayout::Spread(12), 2).unwrap();
        let mut writer = Writer::new(KIND, VERSION);
        filter.hasher.layout().encode(&mut writer);
        writer.raw(&[2, 0, 0, 0x10]);
        assert!(ClassicFilter::decode(&writer.seal()).is_err());
    }
}
