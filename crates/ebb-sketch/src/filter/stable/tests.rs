//! The fading filters against a plain one, and against damaged bytes and impossible parameters.

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
        let worst = struck.iter().map(|hits| (f64::from(*hits) - mean).abs() / libm::sqrt(mean)).fold(0.0, f64::max);
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
            (0..10_000)
                .for_each(|_| spec.draw_cells(&mut random, |_, chance| carried_out += u32::from(chance.one_in(value))));
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
