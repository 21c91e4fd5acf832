//! The filter against a naive implementation, damaged bytes and invalid parameters.

use super::super::layout::CellLayout;
use super::*;
use crate::random::mix;
use proptest::prelude::*;

const RULES: [ImportanceRule; 5] = ImportanceRule::all(7);

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

fn filter(size: CellLayout, rule: ImportanceRule) -> StableFilter {
    StableFilter::new(StableSpec::new(size, 3, 4, 7, rule).unwrap())
}

/// The filter as described in the paper: one byte per cell, one loop per step.
struct NaiveFilter {
    cells: Vec<u8>,
}

impl NaiveFilter {
    fn observe(&mut self, spec: &StableSpec, item: Fingerprint, value: u8, random: &mut Random) -> bool {
        let own: Vec<usize> = spec.hasher().cells_of(item).as_slice().iter().map(|cell| *cell as usize).collect();
        let duplicate = own.iter().all(|cell| self.cells[*cell] > 0);
        for _ in 0..spec.decrements() {
            let cell = random.below(self.cells.len() as u64) as usize;
            let value = self.cells[cell];
            let thinned = spec.rule() == ImportanceRule::Harmonic && value > 1 && random.below(u64::from(value)) != 0;
            if value > 0 && !thinned {
                self.cells[cell] -= 1;
            }
        }
        for cell in own {
            self.cells[cell] = match spec.rule() {
                ImportanceRule::Stable => 7,
                ImportanceRule::TwoClass { .. } if value > 3 => 7,
                ImportanceRule::TwoClass { .. } => self.cells[cell].max(3),
                _ => self.cells[cell].max(value),
            };
        }
        duplicate
    }
}

proptest! {
    #[test]
    fn packed_cells_match_the_naive_filter(
        events in prop::collection::vec((0u64..60, 1u8..=7), 1..400), which in 0usize..4, cells in 5u64..300,
    ) {
        let mut fast = filter(CellLayout::Spread(cells), RULES[which]);
        let mut naive = NaiveFilter { cells: vec![0; fast.spec().hasher().cells() as usize] };
        for (offset, (x, value)) in events.iter().enumerate() {
            let mut random = Random::for_record(9, 2, offset as u64);
            let answer = fast.observe(item(*x), *value, &mut random.clone());
            prop_assert_eq!(answer, naive.observe(&fast.spec, item(*x), *value, &mut random));
        }
        let values: Vec<u8> = (0..fast.spec.hasher().cells()).map(|cell| fast.value(cell)).collect();
        prop_assert_eq!(&values, &naive.cells);
        prop_assert_eq!(fast.non_zero, values.iter().filter(|value| **value > 0).count() as u64);
    }

    #[test]
    fn an_observed_item_is_found_and_a_decoded_filter_continues_alike(
        events in prop::collection::vec((0u64..60, 1u8..=7), 1..300), which in 0usize..5, cut in 0usize..300,
    ) {
        let mut whole = filter(CellLayout::Spread(97), RULES[which]);
        let mut restored = whole.clone();
        for (offset, (x, value)) in events.iter().enumerate() {
            if offset == cut {
                restored = StableFilter::decode(&restored.encode()).unwrap();
            }
            let before: Vec<u8> = (0..97).map(|cell| whole.value(cell)).collect();
            let answer = whole.observe(item(*x), *value, &mut Random::for_record(1, 0, offset as u64));
            prop_assert_eq!(answer, restored.observe(item(*x), *value, &mut Random::for_record(1, 0, offset as u64)));
            prop_assert!(whole.contains(item(*x)));
            prop_assert!((0..97).all(|cell| whole.value(cell) <= 7));
            let kept = |cell: &u64| whole.value(*cell) >= before[*cell as usize].saturating_sub(4).min(*value);
            prop_assert!(whole.spec.hasher().cells_of(item(*x)).as_slice().iter().all(kept));
            if let Some(buckets) = &whole.buckets {
                prop_assert_eq!(buckets.non_zero(), whole.non_zero);
            }
        }
        prop_assert_eq!(whole.encode(), restored.encode());
    }
}

#[test]
fn decrements_select_every_cell_equally_often_in_every_layout() {
    for (size, decrements) in [(CellLayout::Lines(3), 10), (CellLayout::Lines(3), 37), (CellLayout::Spread(384), 10)] {
        let spec = StableSpec::new(size, 3, decrements, 7, ImportanceRule::Stable).unwrap();
        let (mut hits_per_cell, mut random) = (vec![0u32; 384], Random::new(2));
        (0..40_000).for_each(|_| spec.draw_cells(&mut random, |cell, _| hits_per_cell[cell as usize] += 1));
        assert_eq!(hits_per_cell.iter().sum::<u32>(), 40_000 * decrements);
        let mean = 40_000.0 * f64::from(decrements) / 384.0;
        let worst =
            hits_per_cell.iter().map(|hits| (f64::from(*hits) - mean).abs() / libm::sqrt(mean)).fold(0.0, f64::max);
        // Groups of up to 16 per line correlate the counts of a line's cells, which adds half to the deviation.
        assert!(worst < 6.0, "{size:?} {decrements}: {worst} standard deviations");
    }
}

#[test]
fn a_thinned_decrement_succeeds_once_in_value_times() {
    for size in [CellLayout::Lines(3), CellLayout::Spread(384)] {
        let spec = StableSpec::new(size, 3, 10, 7, ImportanceRule::Harmonic).unwrap();
        let mut random = Random::new(4);
        for value in 1..=7 {
            let mut succeeded = 0;
            (0..10_000)
                .for_each(|_| spec.draw_cells(&mut random, |_, trial| succeeded += u32::from(trial.one_in(value))));
            let expected = 1e5 / f64::from(value);
            assert!((f64::from(succeeded) - expected).abs() < 5.0 * libm::sqrt(expected), "{size:?} {value}");
        }
    }
}

#[test]
fn a_weaker_observation_never_lowers_its_own_cells() {
    let mut filter = filter(CellLayout::Spread(4_096), ImportanceRule::MultiClass);
    filter.observe(item(1), 7, &mut Random::for_record(0, 0, 0));
    // Try offsets until no decrement hits the item's own cells: then a weaker observation must change nothing.
    let before = filter.encode();
    let untouched = (1..50).any(|offset| {
        let mut copy = filter.clone();
        copy.observe(item(1), 1, &mut Random::for_record(0, 0, offset));
        copy.encode() == before
    });
    assert!(untouched);
}

#[test]
fn harmonic_literal_drains_when_decrements_outweigh_raises() {
    let literal = |decrements| {
        let spec =
            StableSpec::new(CellLayout::Spread(1_024), 5, decrements, 7, ImportanceRule::HarmonicLiteral).unwrap();
        let mut filter = StableFilter::new(spec);
        let mut random = Random::new(1);
        for x in 0..3_000u64 {
            filter.observe(item(x), 1 + (mix(x) % 7) as u8, &mut random);
        }
        filter.non_zero
    };
    assert!(literal(25) < 40, "P = 25 exceeds K E[f] = 20");
    assert!(literal(10) > 500);
}

#[test]
fn invalid_parameters_report_the_nearest_valid_value() {
    let new = |hashes, decrements, max_value, rule| {
        StableSpec::new(CellLayout::Spread(64), hashes, decrements, max_value, rule)
    };
    assert_eq!(new(0, 4, 7, ImportanceRule::Stable).unwrap_err().nearest, "1");
    assert_eq!(new(3, 0, 7, ImportanceRule::Stable).unwrap_err().nearest, "1");
    assert_eq!(new(3, 65, 7, ImportanceRule::Stable).unwrap_err().nearest, "64");
    assert_eq!(new(3, 4, 0, ImportanceRule::Stable).unwrap_err().nearest, "1");
    assert_eq!(new(3, 4, 7, ImportanceRule::TwoClass { low: 8 }).unwrap_err().nearest, "7");
    assert_eq!(new(3, 4, 7, ImportanceRule::TwoClass { low: 0 }).unwrap_err().nearest, "1");
    assert_eq!(new(3, 4, 31, ImportanceRule::HarmonicLiteral).unwrap_err().nearest, "15");
}

#[test]
fn damaged_lists_and_cells_are_rejected() {
    let resealed = |rule, damage: &dyn Fn(&mut Vec<u8>)| {
        let mut filter = filter(CellLayout::Spread(64), rule);
        for x in 0..20 {
            filter.observe(item(x), 5, &mut Random::for_record(0, 0, x));
        }
        let bytes = filter.encode();
        let mut body = bytes[6..bytes.len() - 8].to_vec();
        damage(&mut body);
        let mut writer = Writer::new(KIND, VERSION);
        writer.raw(&body);
        StableFilter::decode(&writer.seal())
    };
    assert!(resealed(ImportanceRule::HarmonicLiteral, &|_| ()).is_ok());
    let last = |body: &mut Vec<u8>, with: [u8; 4]| {
        let at = body.len() - 4;
        body[at..].copy_from_slice(&with);
    };
    let first_twice = |body: &mut Vec<u8>| {
        let first: [u8; 4] = std::array::from_fn(|i| body[body.len() - 8 + i]);
        last(body, first);
    };
    assert!(resealed(ImportanceRule::HarmonicLiteral, &first_twice).is_err());
    assert!(resealed(ImportanceRule::HarmonicLiteral, &|body| last(body, [255; 4])).is_err());
    assert!(resealed(ImportanceRule::Stable, &|body| last(body, [0xFF; 4])).is_err(), "15 is above the largest value");
}
