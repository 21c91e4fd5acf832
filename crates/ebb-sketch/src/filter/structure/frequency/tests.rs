//! Properties of all methods (no undercount, canonical bytes, extreme times) and equivalences between them.

use super::basic::BasicSpec;
use super::digit_plan::DigitChoice;
use super::epochs::EpochSpec;
use super::forward::ForwardSpec;
use super::optimised::{Carry, DigitSpec, OptimisedSpec};
use super::*;
use crate::filter::structure::layout::CellLayout;
use crate::random::{Random, mix};
use proptest::prelude::*;

const HALF_LIFE_MS: u64 = 1_000;

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

fn epochs() -> EpochSpec {
    EpochSpec::halving(HALF_LIFE_MS, 2).unwrap()
}

fn basic(cells: u64, fraction_bits: u8) -> FrequencyFilter {
    let spec = BasicSpec::new(CellLayout::Spread(cells), 3, epochs(), fraction_bits).unwrap();
    FrequencyFilter::new(FrequencySpec::Basic(spec))
}

fn optimised(cells: u64, form: DigitSpec) -> FrequencyFilter {
    let spec = OptimisedSpec::new(CellLayout::Spread(cells), 3, epochs(), form).unwrap();
    FrequencyFilter::new(FrequencySpec::Optimised(spec))
}

fn digits(pool: u32, fraction_bits: u8, carry: Carry) -> DigitSpec {
    DigitSpec { digit_bits: 2, fraction_bits, pool, carry }
}

fn methods(cells: u64) -> Vec<FrequencyFilter> {
    let forward = ForwardSpec::new(CellLayout::Spread(cells), 3, HALF_LIFE_MS).unwrap();
    vec![
        FrequencyFilter::new(FrequencySpec::Forward(forward)),
        basic(cells, 8),
        basic(cells, 0),
        optimised(cells, digits(cells as u32 / 2, 0, Carry::Each)),
        optimised(cells, digits(cells as u32 / 2, 0, Carry::All)),
        optimised(cells, digits(cells as u32 / 2, 3, Carry::All)),
        optimised(cells, digits(2, 1, Carry::Each)),
        optimised(cells, digits(2, 1, Carry::All)),
        planned(epochs(), Carry::Each),
        planned(epochs(), Carry::All),
        planned(long_epochs(), Carry::Each),
        planned(long_epochs(), Carry::All),
        FrequencyFilter::new(FrequencySpec::Basic(
            BasicSpec::new(CellLayout::Spread(cells), 3, long_epochs(), 4).unwrap(),
        )),
    ]
}

/// Digits that overflow soon.
fn planned(epochs: EpochSpec, carry: Carry) -> FrequencyFilter {
    let choice = DigitChoice { digit_bits: Some(7), fraction_bits: Some(4), pool: Some(12), carry };
    FrequencyFilter::new(FrequencySpec::Optimised(OptimisedSpec::in_memory(1024, 3, epochs, choice).unwrap()))
}

/// A sixth of a count is left after an epoch.
fn long_epochs() -> EpochSpec {
    EpochSpec::in_epochs(HALF_LIFE_MS, 2_585).unwrap()
}

/// Σ 2^(−age / half-life), smallest first.
fn exact(adds: &[(u64, i64)], x: u64, now: i64) -> f64 {
    let ages = adds.iter().filter(|(y, _)| *y == x).map(|(_, time)| (now - time) as f64);
    let mut weights: Vec<f64> = ages.map(|age| libm::exp2(-age / HALF_LIFE_MS as f64)).collect();
    weights.sort_by(f64::total_cmp);
    weights.iter().sum()
}

/// Observations that are mostly, but not always, in the order of their times.
fn stream() -> impl Strategy<Value = Vec<(u64, i64)>> {
    prop::collection::vec((0u64..12, 0i64..400, -3_000i64..300), 1..250).prop_map(|steps| {
        let mut now = 0;
        steps
            .into_iter()
            .map(|(x, forward, shift)| {
                now += forward;
                (x, now + shift.min(0))
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn no_method_undercounts_without_reporting_a_lower_bound(adds in stream(), cells in 6u64..60, later in 0i64..5_000) {
        for mut counts in methods(cells) {
            adds.iter().for_each(|(x, time)| counts.add(item(*x), *time));
            let now = adds.iter().map(|(_, time)| *time).max().unwrap() + later;
            for x in 0..12 {
                let count = counts.estimate(item(x), now);
                prop_assert!(count.lower_bound || count.value >= exact(&adds, x, now) * (1.0 - 1e-13), "{:?}", count);
            }
            let all: f64 = (0..12).map(|x| exact(&adds, x, now)).sum();
            prop_assert!(counts.total(now) >= all * (1.0 - 1e-12));
        }
    }

    #[test]
    fn weighted_events_are_never_undercounted(
        adds in prop::collection::vec((0u64..12, 0i64..400, 0u32..40_000), 1..120), cells in 6u64..60,
    ) {
        for mut counts in methods(cells) {
            let (mut now, mut exact) = (0, [0.0; 12]);
            for (x, forward, thousandths) in &adds {
                let weight = f64::from(*thousandths) / 1_000.0;
                exact.iter_mut().for_each(|count| *count *= libm::exp2(-*forward as f64 / HALF_LIFE_MS as f64));
                now += forward;
                exact[*x as usize] += weight;
                counts.add_weighted(item(*x), now, ObservationWeight::new(weight).unwrap());
            }
            for (x, exact) in (0..).zip(exact) {
                let count = counts.estimate(item(x), now);
                prop_assert!(count.lower_bound || count.value >= exact * (1.0 - 1e-12), "{:?} {}", count, exact);
            }
            prop_assert!(counts.total(now) >= exact.iter().sum::<f64>() * (1.0 - 1e-12));
        }
    }

    #[test]
    fn a_weight_of_n_equals_n_observations(xs in prop::collection::vec((0u64..9, 0u32..9), 1..60)) {
        for counts in methods(40) {
            let (mut weighted, mut single) = (counts.clone(), counts);
            for (x, n) in &xs {
                weighted.add_weighted(item(*x), 0, ObservationWeight::new(f64::from(*n)).unwrap());
                (0..*n).for_each(|_| single.add(item(*x), 0));
            }
            for x in 0..9 {
                let (one, other) = (weighted.estimate(item(x), 0), single.estimate(item(x), 0));
                if weighted.lost_increments() + single.lost_increments() > 0 {
                    continue;
                }
                // With carry all a single event may find room where the weighted one does not.
                prop_assert!(one.value >= other.value - 1e-9);
                prop_assert!(!matches!(weighted, FrequencyFilter::Basic(_)) || one == other);
            }
        }
    }

    #[test]
    fn planned_counters_fill_the_memory_and_never_exceed_it(
        bytes in 1_024u64..300_000, sweeps in 1u32..40, fraction_bits in prop::option::of(0u8..8),
        wider in prop::option::of(1u8..9), pool in prop::option::of(1u32..60),
    ) {
        let epochs = EpochSpec::halving(3_600_000, sweeps).unwrap();
        let digit_bits = fraction_bits.zip(wider).map(|(fraction, wider)| (fraction + wider).max(6));
        let choice = DigitChoice { digit_bits, fraction_bits, pool, carry: Carry::Each };
        let spec = OptimisedSpec::in_memory(bytes, 4, epochs, choice).unwrap();
        let taken = OptimisedFrequency::new(spec).memory_bytes();
        prop_assert_eq!(taken, spec.memory_bytes());
        prop_assert!(taken <= bytes && bytes - taken < 100, "{} of {}", taken, bytes);
        prop_assert!(spec.form().fraction_bits < spec.form().digit_bits);
    }

    #[test]
    fn decoded_counters_continue_alike(adds in stream(), cut in 0usize..250) {
        for mut whole in methods(30) {
            let mut restored = whole.clone();
            for (index, (x, time)) in adds.iter().enumerate() {
                if index == cut {
                    restored = FrequencyFilter::decode(&restored.encode()).unwrap();
                }
                whole.add(item(*x), *time);
                restored.add(item(*x), *time);
            }
            prop_assert_eq!(whole.encode(), restored.encode());
            prop_assert_eq!(whole.lost_increments(), restored.lost_increments());
        }
    }

    #[test]
    fn carry_each_equals_whole_counters_cell_for_cell(adds in stream(), fraction_bits in 0u8..5) {
        let (mut whole, mut small) = (basic(30, fraction_bits), optimised(30, digits(15, fraction_bits, Carry::Each)));
        let mut frugal = optimised(30, digits(15, fraction_bits, Carry::All));
        for (x, time) in &adds {
            [&mut whole, &mut small, &mut frugal].into_iter().for_each(|counts| counts.add(item(*x), *time));
            let (FrequencyFilter::Basic(whole), FrequencyFilter::Optimised(small), FrequencyFilter::Optimised(frugal)) =
                (&whole, &small, &frugal) else { unreachable!("the methods are fixed above") };
            small.assert_consistent();
            prop_assume!(small.lost_increments() == 0);
            for cell in 0..30 {
                prop_assert_eq!(whole.cell_value(cell), small.cell_value(cell));
                prop_assert!(frugal.cell_value(cell) <= small.cell_value(cell));
            }
        }
    }

    #[test]
    fn order_within_an_epoch_does_not_matter(xs in prop::collection::vec((0u64..9, 0i64..500), 1..120), seed: u64) {
        let mut shuffled = xs.clone();
        let mut random = Random::new(seed);
        (1..shuffled.len()).for_each(|i| shuffled.swap(i, random.below(i as u64 + 1) as usize));
        for counts in [basic(30, 8), optimised(30, digits(15, 0, Carry::Each))] {
            let fill = |xs: &[(u64, i64)]| {
                let mut counts = counts.clone();
                // The clock is at the end of the epoch, so that both encode the same clock.
                counts.advance(499);
                xs.iter().for_each(|(x, time)| counts.add(item(*x), *time));
                counts
            };
            let (one, other) = (fill(&xs), fill(&shuffled));
            prop_assume!(one.lost_increments() == 0);
            prop_assert_eq!(one.encode(), other.encode());
        }
    }

    #[test]
    fn counts_only_fall_without_observations(adds in stream(), steps in prop::collection::vec(0i64..3_000, 1..20)) {
        for mut counts in methods(30) {
            adds.iter().for_each(|(x, time)| counts.add(item(*x), *time));
            let mut now = adds.iter().map(|(_, time)| *time).max().unwrap();
            let mut before = f64::INFINITY;
            for step in &steps {
                now += step;
                counts.advance(now);
                let value = counts.estimate(item(3), now).value;
                // Rounding up at the end of an epoch may undo part of the fall within it, by less than one unit per cell.
                prop_assert!(value <= before * (1.0 + 1e-12) + 1.5, "{} {}", value, before);
                before = value;
            }
        }
    }

    #[test]
    fn stored_values_are_read_back_and_no_node_is_lost(
        steps in prop::collection::vec((0u64..8, 0u64..5_000), 1..200), bits in 1u32..17, pool in 1u32..20,
    ) {
        let mut digits = super::digit_array::DigitArray::new(8, bits, pool);
        let mut plain = [0u64; 8];
        for (cell, value) in steps {
            let lost = digits.store(cell, value);
            plain[cell as usize] = value - lost;
            prop_assert!((0..8).all(|cell| digits.value(cell) == plain[cell as usize]));
            prop_assert!(lost == 0 || digits.used() == pool);
            digits.assert_consistent();
        }
    }
}

/// Observations of 2,047 items, the more frequent the smaller their number, over ten half-lives.
fn skewed_stream() -> Vec<(u64, i64)> {
    let mut random = Random::new(3);
    (0..40_000).map(|time| (libm::exp2(random.unit() * 11.0) as u64 - 1, time / 4)).collect()
}

#[test]
fn planned_digits_answer_like_whole_counters_in_half_their_memory() {
    for steps in [1, 4, 16] {
        let epochs = EpochSpec::halving(HALF_LIFE_MS, steps).unwrap();
        let plan = OptimisedSpec::in_memory(16 << 10, 4, epochs, DigitChoice::planned(Carry::Each)).unwrap();
        let layout = CellLayout::Spread(plan.hasher().cells());
        let mut small = OptimisedFrequency::new(OptimisedSpec::new(layout, 4, epochs, *plan.form()).unwrap());
        let mut whole = BasicFrequency::new(BasicSpec::new(layout, 4, epochs, plan.form().fraction_bits).unwrap());
        for (x, time) in skewed_stream() {
            small.add(item(x), time);
            whole.add(item(x), time);
        }
        small.assert_consistent();
        assert!((0..2_000).all(|x| small.estimate(item(x), 10_000) == whole.estimate(item(x), 10_000)), "{steps}");
        assert!(small.lost_increments() == 0 && small.peak_pool_use() > 0, "{steps}: {}", small.peak_pool_use());
        let ratio = small.memory_bytes() as f64 / whole.memory_bytes() as f64;
        assert!(ratio < 0.52, "{steps}: {ratio}");
    }
}

#[test]
fn carry_all_takes_fewer_digits_and_still_never_undercounts() {
    let fill = |carry| {
        let form = DigitSpec { digit_bits: 4, fraction_bits: 0, pool: 8_192, carry };
        let spec = OptimisedSpec::new(CellLayout::Spread(4_096), 4, epochs(), form).unwrap();
        let mut counts = OptimisedFrequency::new(spec);
        skewed_stream().into_iter().for_each(|(x, _)| counts.add(item(x), 0));
        counts
    };
    let (each, all) = (fill(Carry::Each), fill(Carry::All));
    assert!(all.peak_pool_use() < each.peak_pool_use(), "{} {}", all.peak_pool_use(), each.peak_pool_use());
    let lower = (0..4_096).filter(|cell| all.cell_value(*cell) < each.cell_value(*cell)).count();
    assert!(lower > 0, "the policy has no effect");
    let adds: Vec<(u64, i64)> = skewed_stream().into_iter().map(|(x, _)| (x, 0)).collect();
    for x in 0..2_000 {
        let (each, all) = (each.estimate(item(x), 0).value, all.estimate(item(x), 0).value);
        assert!(all <= each && all >= exact(&adds, x, 0) * (1.0 - 1e-12), "{x}: {all} {each}");
    }
}

#[test]
fn a_full_digit_stays_while_another_cell_has_room() {
    // Items of one cell fill cells; the item of interest has two.
    let form = |carry| DigitSpec { digit_bits: 4, fraction_bits: 0, pool: 8, carry };
    let spec = |carry| OptimisedSpec::new(CellLayout::Spread(64), 2, epochs(), form(carry)).unwrap();
    let cells = spec(Carry::All).hasher().cells_of(item(0)).distinct();
    let &[full, roomy] = cells.as_slice() else { panic!("two cells") };
    let shares_one = |x: &u64| {
        let other = spec(Carry::All).hasher().cells_of(item(*x));
        other.as_slice().contains(&full) && !other.as_slice().contains(&roomy)
    };
    let other = (1..).find(shares_one).unwrap();
    for (carry, expected) in [(Carry::Each, (20, 5)), (Carry::All, (15, 5))] {
        let mut counts = OptimisedFrequency::new(spec(carry));
        (0..15).for_each(|_| counts.add(item(other), 0));
        (0..5).for_each(|_| counts.add(item(0), 0));
        assert_eq!((counts.cell_value(full), counts.cell_value(roomy)), expected, "{carry:?}");
        (0..15).for_each(|_| counts.add(item(0), 0));
        assert!(counts.cell_value(roomy) == 20 && counts.cell_value(full) >= 20, "{carry:?}");
    }
}

#[test]
fn digits_of_the_previous_state_version_are_refused() {
    let mut bytes = optimised(60, digits(1, 0, Carry::Each)).encode();
    bytes[4] = 1;
    let (body, sum) = bytes.split_last_chunk_mut::<8>().unwrap();
    sum.copy_from_slice(&blake3::hash(body).as_bytes()[..8]);
    let error = FrequencyFilter::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("version 1 is no longer read"), "{error}");
}

#[test]
fn an_exhausted_pool_is_reported_until_the_loss_has_decayed() {
    for carry in [Carry::Each, Carry::All] {
        let mut counts = optimised(60, digits(1, 0, carry));
        (0..200).for_each(|_| counts.add(item(1), 0));
        assert!(counts.lost_increments() > 0 && counts.estimate(item(1), 0).lower_bound, "{carry:?}");
        assert!(counts.estimate(item(1), 0).value < 200.0);
        counts.add(item(2), 0);
        let other = counts.estimate(item(2), 0);
        assert!(!other.lower_bound && other.value >= 1.0, "an item with an unmarked cell gets an upper bound");
        (1..60).for_each(|epoch| counts.advance(epoch * 500));
        let late = counts.estimate(item(1), 30_000);
        assert!(!late.lower_bound && late.value >= 200.0 * libm::exp2(-30.0), "{late:?}");
    }
}

#[test]
fn an_overflowed_counter_is_reported_until_the_loss_has_decayed() {
    let spec = BasicSpec::new(CellLayout::Spread(8), 1, epochs(), 16).unwrap();
    let mut counts = BasicFrequency::new(spec);
    (0..(1u32 << 16) + 1).for_each(|_| counts.add(item(1), 0));
    assert!(counts.lost_increments() > 0 && counts.estimate(item(1), 0).lower_bound);
    counts.advance(500);
    assert!(counts.estimate(item(1), 500).lower_bound, "the loss has not decayed yet");
    (1..120).for_each(|epoch| counts.advance(epoch * 500));
    assert!(!counts.estimate(item(1), 60_000).lower_bound);
}

#[test]
fn unseen_items_without_collisions_count_zero() {
    for mut counts in methods(60) {
        assert_eq!(counts.estimate(item(1), 0), DecayedCount { value: 0.0, lower_bound: false });
        counts.add(item(2), 10);
        assert_eq!(counts.estimate(item(1), 10).value, 0.0);
    }
}

#[test]
fn extreme_times_saturate_in_every_method() {
    for mut counts in methods(60) {
        for time in [0, i64::MIN, i64::MAX, i64::MIN + 1, -1, i64::MAX - 1] {
            counts.add(item(1), time);
            for as_of in [i64::MIN, 0, i64::MAX] {
                let value = counts.estimate(item(1), as_of).value;
                assert!(value.is_finite() && value > 0.0, "{time} {as_of}: {value}");
            }
        }
        counts.advance(i64::MIN);
        FrequencyFilter::decode(&counts.encode()).unwrap();
    }
}

#[test]
fn invalid_parameters_report_the_nearest_valid_value() {
    let basic = |fraction_bits| BasicSpec::new(CellLayout::Spread(8), 3, epochs(), fraction_bits).unwrap_err().nearest;
    assert_eq!(basic(17), "16");
    let optimised = |form| OptimisedSpec::new(CellLayout::Spread(8), 3, epochs(), form).unwrap_err().nearest;
    let valid = digits(4, 0, Carry::Each);
    assert_eq!(optimised(DigitSpec { digit_bits: 0, ..valid }), "1");
    assert_eq!(optimised(DigitSpec { digit_bits: 17, ..valid }), "16");
    assert_eq!(optimised(DigitSpec { pool: 17, ..valid }), "16");
    assert_eq!(optimised(DigitSpec { pool: 0, ..valid }), "1");
    assert_eq!(optimised(DigitSpec { fraction_bits: 17, ..valid }), "16");
}

#[test]
fn damaged_bytes_are_rejected() {
    for mut counts in methods(20) {
        (0..200).for_each(|x| counts.add(item(x % 7), x as i64 * 3));
        let bytes = counts.encode();
        assert!((0..bytes.len()).all(|length| FrequencyFilter::decode(&bytes[..length]).is_err()));
        let mut other = bytes.clone();
        other[20] ^= 1;
        assert!(FrequencyFilter::decode(&other).is_err());
    }
}
