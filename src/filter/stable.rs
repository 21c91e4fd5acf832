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

    pub(crate) fn encode(&self, writer: &mut Writer) {
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
mod tests {
    use super::*;
    use crate::random::{draws, mix};
    use proptest::prelude::*;

    const RULES: [Rule; 5] =
        [Rule::Stable, Rule::TwoClass { low: 3 }, Rule::MultiClass, Rule::Harmonic, Rule::HarmonicLiteral];

    fn item(x: u64) -> Fingerprint {
        Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
    }

    fn filter(size: Size, rule: Rule) -> FadingFilter {
        FadingFilter::new(FadingSpec::new(size, 3, 4, 7, rule).unwrap())
    }

    /// The filter as the notes tell it: plain values, one loop a step.
    struct Naive {
        cells: Vec<u8>,
    }

    impl Naive {
        fn process(&mut self, spec: &FadingSpec, item: Fingerprint, value: u8, random: &mut Random) -> bool {
            let own: Vec<usize> = spec.places().of(item).as_slice().iter().map(|cell| *cell as usize).collect();
            let duplicate = own.iter().all(|cell| self.cells[*cell] > 0);
            for _ in 0..spec.decrements() {
                let cell = random.below(self.cells.len() as u64) as usize;
                let value = self.cells[cell];
                let thinned = spec.rule() == Rule::Harmonic && value > 1 && random.below(u64::from(value)) != 0;
                if value > 0 && !thinned {
                    self.cells[cell] -= 1;
                }
            }
            for cell in own {
                self.cells[cell] = match spec.rule() {
                    Rule::Stable => 7,
                    Rule::TwoClass { .. } if value > 3 => 7,
                    Rule::TwoClass { .. } => self.cells[cell].max(3),
                    _ => self.cells[cell].max(value),
                };
            }
            duplicate
        }
    }

    proptest! {
        #[test]
        fn packed_cells_do_what_plain_ones_do(
            events in prop::collection::vec((0u64..60, 1u8..=7), 1..400), which in 0usize..4, cells in 5u64..300,
        ) {
            let mut fast = filter(Size::Cells(cells), RULES[which]);
            let mut naive = Naive { cells: vec![0; fast.spec().places().cells() as usize] };
            for (offset, (x, value)) in events.iter().enumerate() {
                let mut random = draws(9, 2, offset as u64);
                let answer = fast.process(item(*x), *value, &mut random.clone());
                prop_assert_eq!(answer, naive.process(&fast.spec, item(*x), *value, &mut random));
            }
            let values: Vec<u8> = (0..fast.spec.places.cells()).map(|cell| fast.value(cell)).collect();
            prop_assert_eq!(&values, &naive.cells);
            prop_assert_eq!(fast.non_zero, values.iter().filter(|value| **value > 0).count() as u64);
        }

        #[test]
        fn an_item_is_found_right_after_and_restored_bytes_continue_alike(
            events in prop::collection::vec((0u64..60, 1u8..=7), 1..300), which in 0usize..5, cut in 0usize..300,
        ) {
            let mut whole = filter(Size::Cells(97), RULES[which]);
            let mut cut_once = whole.clone();
            for (offset, (x, value)) in events.iter().enumerate() {
                if offset == cut {
                    cut_once = FadingFilter::decode(&cut_once.encode()).unwrap();
                }
                let before: Vec<u8> = (0..97).map(|cell| whole.value(cell)).collect();
                let answer = whole.process(item(*x), *value, &mut draws(1, 0, offset as u64));
                prop_assert_eq!(answer, cut_once.process(item(*x), *value, &mut draws(1, 0, offset as u64)));
                prop_assert!(whole.probe(item(*x)));
                prop_assert!((0..97).all(|cell| whole.value(cell) <= 7));
                let kept = |cell: &u64| whole.value(*cell) >= before[*cell as usize].saturating_sub(4).min(*value);
                prop_assert!(whole.spec.places.of(item(*x)).as_slice().iter().all(kept));
                if let Some(buckets) = &whole.buckets {
                    prop_assert_eq!(buckets.non_zero(), whole.non_zero);
                }
            }
            prop_assert_eq!(whole.encode(), cut_once.encode());
        }
    }

    #[test]
    fn decrements_strike_every_cell_equally_often_in_lines_and_anywhere() {
        for (size, decrements) in [(Size::Lines(3), 10), (Size::Lines(3), 37), (Size::Cells(384), 10)] {
            let spec = FadingSpec::new(size, 3, decrements, 7, Rule::Stable).unwrap();
            let (mut struck, mut random) = (vec![0u32; 384], Random::new(2));
            (0..40_000).for_each(|_| spec.draw_cells(&mut random, |cell, _| struck[cell as usize] += 1));
            assert_eq!(struck.iter().sum::<u32>(), 40_000 * decrements);
            let mean = 40_000.0 * f64::from(decrements) / 384.0;
            let worst =
                struck.iter().map(|hits| (f64::from(*hits) - mean).abs() / libm::sqrt(mean)).fold(0.0, f64::max);
            // Groups of up to 16 a line make the counts of a line's cells vary together, by half as much again.
            assert!(worst < 6.0, "{size:?} {decrements}: {worst} standard deviations");
        }
    }

    #[test]
    fn a_thinned_decrement_is_carried_out_once_in_value_times() {
        for size in [Size::Lines(3), Size::Cells(384)] {
            let spec = FadingSpec::new(size, 3, 10, 7, Rule::Harmonic).unwrap();
            let mut random = Random::new(4);
            for value in 1..=7 {
                let mut carried_out = 0;
                (0..10_000).for_each(|_| {
                    spec.draw_cells(&mut random, |_, chance| carried_out += u32::from(chance.one_in(value)))
                });
                let expected = 1e5 / f64::from(value);
                assert!((f64::from(carried_out) - expected).abs() < 5.0 * libm::sqrt(expected), "{size:?} {value}");
            }
        }
    }

    #[test]
    fn an_observation_never_lowers_its_own_cells_below_what_they_were_but_for_its_decrements() {
        let mut filter = filter(Size::Cells(4_096), Rule::MultiClass);
        filter.process(item(1), 7, &mut draws(0, 0, 0));
        // Draw again until no decrement strikes the item's own cells: then a weaker sighting must change nothing.
        let before = filter.encode();
        let untouched = (1..50).any(|offset| {
            let mut copy = filter.clone();
            copy.process(item(1), 1, &mut draws(0, 0, offset));
            copy.encode() == before
        });
        assert!(untouched);
    }

    #[test]
    fn literal_inverse_choice_drains_when_decrements_outweigh_raises() {
        let literal = |decrements| {
            let spec = FadingSpec::new(Size::Cells(1_024), 5, decrements, 7, Rule::HarmonicLiteral).unwrap();
            let mut filter = FadingFilter::new(spec);
            let mut random = Random::new(1);
            for x in 0..3_000u64 {
                filter.process(item(x), 1 + (mix(x) % 7) as u8, &mut random);
            }
            filter.non_zero
        };
        assert!(literal(25) < 40, "P = 25 exceeds K E[f] = 20");
        assert!(literal(10) > 500);
    }

    #[test]
    fn impossible_parameters_are_refused_with_the_nearest() {
        let new = |hashes, decrements, top, rule| FadingSpec::new(Size::Cells(64), hashes, decrements, top, rule);
        assert_eq!(new(0, 4, 7, Rule::Stable).unwrap_err().nearest, "1");
        assert_eq!(new(3, 0, 7, Rule::Stable).unwrap_err().nearest, "1");
        assert_eq!(new(3, 65, 7, Rule::Stable).unwrap_err().nearest, "64");
        assert_eq!(new(3, 4, 0, Rule::Stable).unwrap_err().nearest, "1");
        assert_eq!(new(3, 4, 7, Rule::TwoClass { low: 8 }).unwrap_err().nearest, "7");
        assert_eq!(new(3, 4, 7, Rule::TwoClass { low: 0 }).unwrap_err().nearest, "1");
        assert_eq!(new(3, 4, 31, Rule::HarmonicLiteral).unwrap_err().nearest, "15");
    }

    #[test]
    fn damaged_lists_and_cells_are_refused() {
        let resealed = |rule, damage: &dyn Fn(&mut Vec<u8>)| {
            let mut filter = filter(Size::Cells(64), rule);
            for x in 0..20 {
                filter.process(item(x), 5, &mut draws(0, 0, x));
            }
            let bytes = filter.encode();
            let mut body = bytes[6..bytes.len() - 8].to_vec();
            damage(&mut body);
            let mut writer = Writer::new(KIND, VERSION);
            writer.raw(&body);
            FadingFilter::decode(&writer.seal())
        };
        assert!(resealed(Rule::HarmonicLiteral, &|_| ()).is_ok());
        let last = |body: &mut Vec<u8>, with: [u8; 4]| {
            let at = body.len() - 4;
            body[at..].copy_from_slice(&with);
        };
        let first_twice = |body: &mut Vec<u8>| {
            let first: [u8; 4] = std::array::from_fn(|i| body[body.len() - 8 + i]);
            last(body, first);
        };
        assert!(resealed(Rule::HarmonicLiteral, &first_twice).is_err());
        assert!(resealed(Rule::HarmonicLiteral, &|body| last(body, [255; 4])).is_err());
        assert!(resealed(Rule::Stable, &|body| last(body, [0xFF; 4])).is_err(), "15 is above the top value");
    }
}
