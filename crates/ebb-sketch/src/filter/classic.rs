//! The classical Bloom filter: one bit a cell, nothing is ever forgotten.
//!
//! Promises: what was inserted is found ([`ClassicFilter::insert`] never loses an item), and the posterior says how far
//! "found" can be believed. It does not know time: use it where the stream ends, or to compare the forgetful ones with.

use super::cells::{Memory, Width};
use super::places::{CellList, Places, Size};
use super::spec_error::{SpecError, within};
use crate::codec::{CodecError, Kind, Reader, Writer};
use crate::hash::Fingerprint;

const KIND: Kind = *b"clsc";
const VERSION: u16 = 1;

/// Below this a prior is taken for it: 0/0 otherwise, when nothing could have set the cells.
const LEAST_PRIOR: f64 = 1e-15;

/// How many cells of the whole filter weigh as much as the line an item falls into, when its load is estimated.
const LINE_PRIOR_CELLS: f64 = 32.0;

/// The chances that an item was, and was not, inserted: each computed for itself, so that neither is lost near 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Belief {
    pub p_in: f64,
    pub p_out: f64,
}

/// A share of arrivals that an item can have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalShare(f64);

impl ArrivalShare {
    pub fn new(p: f64) -> Result<Self, SpecError> {
        if p > 0.0 && p < 1.0 {
            return Ok(Self(p.max(LEAST_PRIOR)));
        }
        within("the prior p", p, LEAST_PRIOR..=1.0 - f64::EPSILON, "a share of arrivals lies between 0 and 1").map(Self)
    }
}

/// How likely the cells of an item that was never inserted are all set, by others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByOthers(f64);

impl ByOthers {
    /// From the share of set cells, for an item of `own` distinct cells.
    pub fn from_fill(fill: f64, own: u32) -> Self {
        Self(libm::exp(f64::from(own) * libm::log(fill)))
    }

    /// From the number of distinct items inserted: repeats set nothing new, so arrivals would say too much.
    pub fn from_distinct(places: &Places, distinct: f64, own: u32) -> Self {
        Self(libm::exp(f64::from(own) * log_touched(places, distinct)))
    }

    pub fn chance(self) -> f64 {
        self.0
    }

    /// Theorem 1, given that every cell of the item is set. The prior counts `arrivals`, repeats included.
    pub fn belief(self, p: ArrivalShare, arrivals: u64) -> Belief {
        let log_absent = arrivals as f64 * libm::log1p(-p.0);
        let inserted = -libm::expm1(log_absent);
        let by_others = libm::exp(log_absent) * self.0;
        let evidence = inserted + by_others;
        if evidence > 0.0 {
            Belief { p_in: inserted / evidence, p_out: by_others / evidence }
        } else {
            Belief { p_in: 0.0, p_out: 1.0 }
        }
    }
}

/// ln(1 − (1 − t)^distinct), t the chance that one item touches a given cell; precise at both ends.
fn log_touched(places: &Places, distinct: f64) -> f64 {
    let log_spared = distinct * libm::log1p(-places.touch_chance());
    if log_spared > -std::f64::consts::LN_2 {
        libm::log(-libm::expm1(log_spared))
    } else {
        libm::log1p(-libm::exp(log_spared))
    }
}

/// A filter that only learns.
#[derive(Debug, Clone)]
pub struct ClassicFilter {
    places: Places,
    bits: Memory,
    arrivals: u64,
    set_cells: u64,
}

impl ClassicFilter {
    pub fn new(size: Size, hashes: u8) -> Result<Self, SpecError> {
        let places = Places::new(size, 1, hashes)?;
        let bits = Memory::zeroed(Width::BIT.bytes_for(places.cells()));
        Ok(Self { places, bits, arrivals: 0, set_cells: 0 })
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The share of set cells.
    pub fn fill(&self) -> f64 {
        self.set_cells as f64 / self.places.cells() as f64
    }

    /// The chance that an item never inserted is taken for a duplicate, from the fill.
    pub fn false_duplicate(&self) -> f64 {
        libm::exp(f64::from(self.places.hashes()) * libm::log(self.fill()))
    }

    /// How many different items the fill speaks of; infinite once every cell is set.
    pub fn distinct(&self) -> f64 {
        libm::log1p(-self.fill()) / libm::log1p(-self.places.touch_chance())
    }

    #[inline]
    pub fn contains(&self, item: Fingerprint) -> bool {
        self.all_set(&self.places.of(item))
    }

    /// Whether the item was there already; it is there afterwards.
    #[inline]
    pub fn insert(&mut self, item: Fingerprint) -> bool {
        let bytes = &mut *self.bits;
        let mut added = 0;
        for cell in self.places.of(item).as_slice() {
            let (byte, shift) = Width::BIT.locate(*cell);
            added += u64::from(bytes[byte] >> shift & 1 == 0);
            bytes[byte] |= 1 << shift;
        }
        self.set_cells += added;
        self.arrivals = self.arrivals.saturating_add(1);
        added == 0
    }

    /// The posterior of an item with share `p` of arrivals, from the measured fill.
    pub fn belief(&self, item: Fingerprint, p: ArrivalShare) -> Belief {
        let own = self.places.of(item).distinct();
        if !self.all_set(&own) {
            return Belief { p_in: 0.0, p_out: 1.0 };
        }
        let count = own.as_slice().len() as u32;
        ByOthers::from_fill(self.load_around(item, count), count).belief(p, self.arrivals)
    }

    fn all_set(&self, cells: &CellList) -> bool {
        let bytes = &*self.bits;
        cells.as_slice().iter().all(|cell| Width::BIT.get(bytes, *cell) == 1)
    }

    /// The fill that an item's cells compete with. Lines are loaded unevenly, so the item's own line counts, without its
    /// own `own` set cells and steadied by the whole filter.
    fn load_around(&self, item: Fingerprint, own: u32) -> f64 {
        let Some(line) = self.places.line_of(item) else { return self.fill() };
        let bytes = &self.bits[(line.start / 8) as usize..(line.end / 8) as usize];
        let set: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        let others = f64::from(set - own) + LINE_PRIOR_CELLS * self.fill();
        others / ((line.end - line.start) as f64 - f64::from(own) + LINE_PRIOR_CELLS)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        self.places.size().encode(&mut writer);
        writer.u8(self.places.hashes());
        writer.varint(self.arrivals);
        writer.raw(&self.bits);
        writer.seal()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        let (size, hashes) = (Size::decode(&mut reader)?, reader.u8()?);
        let places =
            Places::new(size, 1, hashes).map_err(|error| CodecError::invalid("classic filter", error.to_string()))?;
        let arrivals = reader.varint()?;
        let bits = Memory::copied(reader.raw(Width::BIT.bytes_for(places.cells()))?);
        reader.finish()?;
        let beyond = (places.cells()..bits.len() as u64 * 8).any(|cell| Width::BIT.get(&bits, cell) != 0);
        if beyond {
            return Err(CodecError::invalid("classic filter", "bits are set beyond its last cell"));
        }
        let set_cells = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        Ok(Self { places, bits, arrivals, set_cells })
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
        fn what_was_inserted_is_found_and_the_bytes_continue(
            xs in prop::collection::vec(0u64..500, 0..300), lines in 1u64..4, hashes in 1u8..=16,
        ) {
            let mut filter = ClassicFilter::new(Size::Lines(lines), hashes).unwrap();
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
        fn the_two_chances_are_one_together_and_follow_prior_and_fill(
            log_p in -15.0f64..-0.4, arrivals in 1u64..10_000_000, fill in 1e-6f64..1.0, own in 1u32..17,
        ) {
            let p = libm::exp10(log_p);
            let at = |p, fill| ByOthers::from_fill(fill, own).belief(ArrivalShare::new(p).unwrap(), arrivals);
            let belief = at(p, fill);
            prop_assert!((belief.p_in + belief.p_out - 1.0).abs() < 1e-12);
            prop_assert!(at(p * 1.3, fill).p_in >= belief.p_in * (1.0 - 1e-12));
            prop_assert!(at(p, fill * 0.9).p_in >= belief.p_in * (1.0 - 1e-12));
        }
    }

    #[test]
    fn the_posterior_is_calibrated_in_lines_and_anywhere() {
        for size in [Size::Lines(4), Size::Cells(2_048)] {
            let (mut believed, mut true_ones, mut asked) = (0.0, 0u32, 0u32);
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
                    believed += filter.belief(item(x ^ round << 32), p).p_in;
                    true_ones += u32::from(seen[x as usize]);
                    asked += 1;
                }
            }
            let (believed, truth) = (believed / f64::from(asked), f64::from(true_ones) / f64::from(asked));
            assert!((0.1..0.9).contains(&truth) && (believed - truth).abs() < 0.01, "{size:?}: {believed} {truth}");
        }
    }

    #[test]
    fn repeats_do_not_count_as_distinct_items() {
        let mut filter = ClassicFilter::new(Size::Cells(1 << 16), 4).unwrap();
        for x in 0..20_000u64 {
            filter.insert(item(x % 1_000));
        }
        assert_eq!(filter.arrivals(), 20_000);
        assert!((filter.distinct() - 1_000.0).abs() < 30.0, "{}", filter.distinct());
        let by_fill = ByOthers::from_fill(filter.fill(), 4).chance();
        let by_count = ByOthers::from_distinct(filter.places(), 1_000.0, 4).chance();
        assert!((by_fill / by_count - 1.0).abs() < 0.1, "{by_fill} {by_count}");
    }

    #[test]
    fn impossible_parameters_are_refused_with_the_nearest() {
        assert_eq!(ClassicFilter::new(Size::Cells(0), 3).unwrap_err().nearest, "1");
        for (p, nearest) in [(0.0, "0.000000000000001"), (-3.0, "0.000000000000001"), (1.0, "0.9999999999999998")] {
            assert_eq!(ArrivalShare::new(p).unwrap_err().nearest, nearest);
        }
        assert!(ArrivalShare::new(f64::NAN).is_err());
        assert_eq!(ArrivalShare::new(1e-300), ArrivalShare::new(1e-15));
    }

    #[test]
    fn the_bytes_of_a_filter_never_change_between_releases() {
        let mut filter = ClassicFilter::new(Size::Cells(16), 2).unwrap();
        filter.insert(item(1));
        let bytes = filter.encode();
        assert_eq!(bytes[..bytes.len() - 8], *b"clsc\x01\x00\x01\x10\x02\x01\x00\x0A");
    }

    #[test]
    fn bits_beyond_the_last_cell_are_refused() {
        let filter = ClassicFilter::new(Size::Cells(12), 2).unwrap();
        let mut writer = Writer::new(KIND, VERSION);
        filter.places.size().encode(&mut writer);
        writer.raw(&[2, 0, 0, 0x10]);
        assert!(ClassicFilter::decode(&writer.seal()).is_err());
    }
}
