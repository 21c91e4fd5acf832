//! Properties P1 to P10 of the deterministic sketches, for any input.

use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::division::{CellView, DivisionShape, DivisionSketch};
use ebb_sketch::aggregate::paper::fill_tree::FillTree;
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::qdigest::{DigestShape, QDigest};
use ebb_sketch::aggregate::{DecayedSketch, Observation, QueryError, SummaryShape};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;
use proptest::prelude::*;

use crate::oracle::{self, DISORDERS, Disorder, Exact, Stream};

const HORIZON_MS: u64 = 1 << 12;

fn stream(length: usize, max_weight: u64) -> Stream {
    Stream { length, begin_ms: 1_794_700_000_000, span_ms: HORIZON_MS, max_value: 255, max_weight }
}

fn totals() -> SummaryShape {
    SummaryShape::totals()
}

fn polynomial(alpha: f64, unit_ms: f64) -> Decay {
    Decay::polynomial(alpha, unit_ms).unwrap()
}

fn division(content: SummaryShape) -> DivisionSketch {
    DivisionSketch::new(DivisionShape::new(polynomial(1.0, 1.0), 0.25, 1 << 20, content).unwrap())
}

fn cells(division: &DivisionSketch) -> Vec<CellView> {
    division.cells().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// P1, P4: a digest bounds every rank and frequency after any compression, and stays small.
    #[test]
    fn digest_bounds_every_rank_and_frequency(
        items in prop::collection::vec((0u64..256, 1u64..20), 1..600),
        beta in 0.02f64..0.5,
        parts in 1usize..4,
    ) {
        let shape = DigestShape::new(8, beta).unwrap();
        let mut digests: Vec<QDigest> = (0..parts).map(|_| QDigest::new(shape)).collect();
        for (index, (value, weight)) in items.iter().enumerate() {
            digests[index % parts].insert(*value, *weight as f64);
        }
        let mut whole = digests.remove(0);
        digests.into_iter().for_each(|part| whole.merge(part));
        whole.compress();
        let weight: f64 = items.iter().map(|(_, weight)| *weight as f64).sum();
        prop_assert!((whole.weight() - weight).abs() <= 1e-9 * weight, "P3: no weight is lost");
        prop_assert!(whole.len() <= shape.max_nodes());
        for value in 0..=256u64 {
            let exact: f64 = items.iter().filter(|(v, _)| *v < value).map(|(_, w)| *w as f64).sum();
            let (lower, upper) = whole.rank_below(value);
            prop_assert!(lower <= exact + 1e-6 && exact <= upper + 1e-6, "rank of {value}");
            prop_assert!(upper - lower <= beta * weight * (1.0 + 1e-9) + 1e-9, "rank of {value}");
            let exact: f64 = items.iter().filter(|(v, _)| *v == value).map(|(_, w)| *w as f64).sum();
            let (lower, upper) = whole.frequency(value);
            prop_assert!(lower <= exact + 1e-6 && exact <= upper + 1e-6, "frequency of {value}");
        }
    }

    /// P4: in a fill tree, a range has descendants only when it is full.
    #[test]
    fn fill_tree_ranges_are_full_before_they_have_descendants(
        items in prop::collection::vec((0u64..1024, 1u64..9), 1..400),
        gamma in 1u64..40,
    ) {
        let mut tree = FillTree::new(10, gamma as f64);
        items.iter().for_each(|(value, weight)| tree.insert(*value, *weight as f64));
        let weight: f64 = items.iter().map(|(_, weight)| *weight as f64).sum();
        prop_assert_eq!(tree.weight(), weight);
        prop_assert!(tree.len() as f64 <= 2.0 * weight / gamma as f64 + 1.0);
        let ranges: Vec<(u64, u64, f64)> = tree.ranges().map(|(low, high, w)| (low, high, *w)).collect();
        for (low, high, stored) in &ranges {
            let inside = |other: &(u64, u64, f64)| low <= &other.0 && &other.1 <= high && (low, high) != (&other.0, &other.1);
            if ranges.iter().any(inside) {
                prop_assert_eq!(*stored, gamma as f64);
            }
        }
    }

    /// P8: scaling a digest scales every answer.
    #[test]
    fn scaled_digest_gives_scaled_answers(items in prop::collection::vec((0u64..256, 1u64..20), 1..300), factor in 0.01f64..9.0) {
        let mut digest = QDigest::new(DigestShape::new(8, 0.1).unwrap());
        items.iter().for_each(|(value, weight)| digest.insert(*value, *weight as f64));
        let mut scaled = digest.clone();
        scaled.scale(factor);
        for value in (0..=256).step_by(16) {
            let (plain, scaled) = (digest.rank_below(value), scaled.rank_below(value));
            prop_assert!((plain.0 * factor - scaled.0).abs() <= 1e-9 * scaled.0.max(1.0));
            prop_assert!((plain.1 * factor - scaled.1).abs() <= 1e-9 * scaled.1.max(1.0));
        }
    }

    /// P6: cells depend on the clock alone, not on the order of arrival or the schedule of advancing; partitions merge into the
    /// same cells.
    #[test]
    fn cells_depend_on_the_clock_alone(seed in any::<u64>(), partitions in 1usize..5) {
        let mut random = Random::new(seed);
        let mut observations = stream(300, 5).observations(Disorder::Late, &mut random);
        let mut whole = division(totals());
        observations.iter().for_each(|one| whole.insert(one).unwrap());
        for index in (1..observations.len()).rev() {
            observations.swap(index, random.below(index as u64 + 1) as usize);
        }
        let mut parts: Vec<DivisionSketch> = (0..partitions).map(|_| division(totals())).collect();
        let mut newest_ms = i64::MIN;
        for (index, one) in observations.iter().enumerate() {
            newest_ms = newest_ms.max(one.time_ms);
            let part = &mut parts[index % partitions];
            part.insert(one).unwrap();
            if random.below(4) == 0 {
                part.advance(newest_ms).unwrap();
            }
        }
        let mut merged = parts.remove(0);
        parts.into_iter().for_each(|part| merged.merge(part).unwrap());
        let clock_ms = newest_ms + random.below(3000) as i64;
        whole.advance(clock_ms).unwrap();
        merged.advance(clock_ms).unwrap();
        prop_assert_eq!(cells(&merged), cells(&whole));
        check_partition(&whole, clock_ms)?;
    }
}

/// P6: cells are disjoint, each is allowed at the clock, and none could be wider.
fn check_partition(division: &DivisionSketch, clock_ms: i64) -> Result<(), TestCaseError> {
    let ages = division.shape().ages();
    let allowed = |width: u8, index: i64| {
        let age = clock_ms - (((index + 1) << width) - 1);
        width <= division.shape().base() || (age >= 0 && age as u64 >= ages[usize::from(width)])
    };
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for cell in division.cells() {
        prop_assert!(allowed(cell.width, cell.index), "{cell:?} is too wide");
        prop_assert!(!allowed(cell.width + 1, cell.index >> 1), "{cell:?} could be wider");
        spans.push((cell.index << cell.width, ((cell.index + 1) << cell.width) - 1));
    }
    spans.sort_unstable();
    prop_assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0), "cells overlap");
    Ok(())
}

/// P3, P5: every accepted weight is stored once; floors neither fall nor cross; ranges respect their capacity.
#[test]
fn cascade_stores_every_weight_once_and_keeps_floors_ordered() {
    for disorder in DISORDERS {
        for max_weight in [1, 6] {
            let mut random = Random::new(max_weight);
            let mut cascade = CascadeSketch::new(CascadeSketch::shape(0.3, HORIZON_MS, totals()).unwrap());
            let (mut weight, mut floors) = (0.0, Vec::new());
            for (index, one) in stream(20_000, max_weight).observations(disorder, &mut random).iter().enumerate() {
                cascade.insert(one).unwrap();
                weight += one.weight;
                if index % 997 > 0 {
                    continue;
                }
                let levels = cascade.levels();
                let ranges = levels.iter().flat_map(|level| &level.ranges).map(|(_, _, stored)| stored);
                let stored = cascade.raw().iter().map(|one| one.weight).sum::<f64>() + ranges.sum::<f64>();
                assert_eq!((stored, cascade.expired()), (weight, 0.0), "{disorder:?}");
                let now: Vec<Option<i64>> = levels.iter().map(|level| level.floor_ms).collect();
                assert!(floors.iter().zip(&now).all(|(before, after)| before <= after), "floors fall: {disorder:?}");
                assert!(now.windows(2).all(|pair| pair[0] >= pair[1]), "floors cross: {disorder:?}");
                for level in &levels {
                    for (low, high, stored) in &level.ranges {
                        assert!(level.floor_ms.is_none_or(|floor| *high > floor));
                        assert!(
                            low == high || *stored <= 2.0 * level.range_capacity,
                            "{stored} in a range of {}",
                            level.range_capacity
                        );
                    }
                }
                floors = now;
            }
            assert!(cascade.levels().len() > 2, "the stream must reach several levels");
        }
    }
}

/// P7: a window equals the table of the same function, and a faster decay gives a smaller count.
#[test]
fn windows_match_equal_decays() {
    for disorder in DISORDERS {
        let mut random = Random::new(7);
        let mut cascade =
            CascadeSketch::new(CascadeSketch::shape(0.3, HORIZON_MS, totals()).unwrap().with_capacity(40));
        let mut levels = LevelsSketch::new(LevelsSketch::shape(0.3, HORIZON_MS, totals()).unwrap().with_capacity(60));
        let mut weight = 0.0;
        for one in stream(6000, 3).observations(disorder, &mut random) {
            cascade.insert(&one).unwrap();
            levels.insert(&one).unwrap();
            weight += one.weight;
        }
        let now_ms = cascade.newest_ms().unwrap();
        let both = |decay: &Decay| [cascade.totals(now_ms, decay).unwrap(), levels.totals(now_ms, decay).unwrap()];
        for _ in 0..60 {
            let width = 1 + random.below(HORIZON_MS - 1);
            // The same function, once as a window and once as a table that falls within one millisecond.
            let table =
                if width == 1 { vec![(0, 1.0), (1, 0.0)] } else { vec![(0, 1.0), (width - 1, 1.0), (width, 0.0)] };
            let [windows, tables] =
                [Decay::window(width).unwrap(), Decay::table(table).unwrap()].map(|decay| both(&decay));
            for (window, table) in windows.iter().zip(&tables) {
                let (window, table) = (window.count(), table.count());
                assert_eq!((window.lower, window.upper), (table.lower, table.upper), "{disorder:?} {width}");
            }
            let faster = both(&polynomial(2.0, width as f64));
            let slower = both(&polynomial(1.0, width as f64));
            for (fast, slow) in faster.iter().zip(&slower) {
                assert!(fast.count().value <= slow.count().value * (1.0 + 1e-12));
            }
        }
        let ones = Decay::window(HORIZON_MS).unwrap();
        assert_eq!(cascade.totals(now_ms, &ones).unwrap().count().upper, weight, "{disorder:?}");
    }
}

/// P8: shifting all times by whole blocks changes no answer.
#[test]
fn shift_by_whole_blocks_changes_no_answer() {
    let shift_ms = 5 << 20;
    for disorder in DISORDERS {
        let observations = stream(4000, 3).observations(disorder, &mut Random::new(8));
        let shape = CascadeSketch::shape(0.3, HORIZON_MS, totals()).unwrap().with_capacity(30);
        let mut pairs =
            [(CascadeSketch::new(shape), division(totals())), (CascadeSketch::new(shape), division(totals()))];
        for one in &observations {
            for ((cascade, division), by_ms) in pairs.iter_mut().zip([0, shift_ms]) {
                let moved = Observation { time_ms: one.time_ms + by_ms, ..*one };
                cascade.insert(&moved).unwrap();
                division.insert(&moved).unwrap();
            }
        }
        let now_ms = pairs[0].0.newest_ms().unwrap();
        for width in [1, 17, 300, 2048, HORIZON_MS] {
            let decay = Decay::window(width).unwrap();
            let query = |(cascade, division): &(CascadeSketch, DivisionSketch), by_ms: i64| {
                let cells = division.totals(now_ms + by_ms, &polynomial(1.0, width as f64)).unwrap();
                (cascade.totals(now_ms + by_ms, &decay).unwrap().count(), cells.count())
            };
            assert_eq!(query(&pairs[0], 0), query(&pairs[1], shift_ms), "{disorder:?} {width}");
        }
    }
}

/// P8b: forty horizons of bursts: levels come and go, memory stays bounded, all bounds hold.
#[test]
fn memory_is_bounded_over_forty_horizons_of_bursts() {
    let horizon_ms = 1 << 10;
    let shape = CascadeSketch::shape(0.2, horizon_ms, totals()).unwrap();
    let replicated = LevelsSketch::shape(0.2, horizon_ms, totals()).unwrap();
    let (mut cascade, mut levels) = (CascadeSketch::new(shape), LevelsSketch::new(replicated));
    let mut seen = Exact::default();
    let mut random = Random::new(40);
    let (mut depths, mut largest, mut checked) = (Vec::new(), 0, 0);
    for step in 0..40 * horizon_ms {
        let now_ms = 1_794_700_000_000 + step as i64;
        let burst = step / (4 * horizon_ms) % 2 == 1;
        let arrivals = if burst { 12 } else { random.below(2) };
        for _ in 0..arrivals {
            let late = if random.below(5) == 0 { random.below(horizon_ms) } else { 0 };
            let one = Observation { time_ms: now_ms - late as i64, value: 0, label: 0, weight: 1.0 };
            let accepted = (cascade.insert(&one).is_ok(), levels.insert(&one).is_ok());
            assert_eq!(accepted.0, accepted.1);
            if accepted.0 {
                seen.seen.push(one);
            }
        }
        if step % 701 != 700 {
            continue;
        }
        seen.seen.retain(|one| now_ms - one.time_ms < horizon_ms as i64);
        cascade.advance(now_ms);
        let ends = cascade.levels().into_iter().flat_map(|level| level.ranges).map(|(_, high_ms, _)| high_ms);
        assert!(
            ends.min().is_none_or(|high_ms| high_ms > now_ms - horizon_ms as i64),
            "an expired range is still stored"
        );
        largest = largest.max(cascade.entry_count()).max(levels.entry_count());
        depths.push((step, cascade.levels().len(), levels.levels().2.len()));
        for width in [1, 10, 100, 500, horizon_ms] {
            let decay = Decay::window(width).unwrap();
            let exact = oracle::total(&seen.decayed(now_ms, &decay, horizon_ms));
            for count in [cascade.totals(now_ms, &decay), levels.totals(now_ms, &decay)].map(|t| t.unwrap().count()) {
                assert!(count.covers(exact) && (count.value - exact).abs() <= 0.2 * exact, "{count:?} of {exact}");
                checked += 1;
            }
        }
    }
    let quiet: Vec<_> = depths.iter().filter(|(step, ..)| step / horizon_ms % 8 == 3).collect();
    let busy: Vec<_> = depths.iter().filter(|(step, ..)| step / horizon_ms % 8 == 7).collect();
    let deepest = |some: &[&(u64, usize, usize)]| some.iter().map(|d| (d.1, d.2)).max().unwrap();
    assert!(
        deepest(&quiet).0 < deepest(&busy).0 && deepest(&quiet).1 < deepest(&busy).1,
        "levels are dropped after a burst: {depths:?}"
    );
    assert!(largest < 9000, "{largest}");
    assert!(checked >= 500 && cascade.expired() > 100_000.0, "{checked} {}", cascade.expired());
}

/// P10: merged readings of partitions are within epsilon for any partitioning.
#[test]
fn merged_readings_of_partitions_are_within_epsilon() {
    for (disorder, partitions) in DISORDERS.into_iter().zip([2, 8, 3, 5, 8]) {
        let mut random = Random::new(10);
        let shape = CascadeSketch::shape(0.1, HORIZON_MS, totals()).unwrap();
        let mut parts: Vec<CascadeSketch> = (0..partitions).map(|_| CascadeSketch::new(shape)).collect();
        let mut seen = Exact::default();
        for one in stream(30_000, 1).observations(disorder, &mut random) {
            // Even times go to one partition, odd times to any.
            let part = if one.time_ms % 2 == 0 { 0 } else { random.below(partitions) };
            parts[part as usize].insert(&one).unwrap();
            seen.seen.push(one);
        }
        let now_ms = seen.newest_ms();
        for _ in 0..40 {
            let decay = oracle::any_decay(HORIZON_MS, &mut random);
            let joined = parts
                .iter()
                .map(|part| part.totals(now_ms, &decay).unwrap())
                .reduce(|a, b| a.merge(b).unwrap())
                .unwrap();
            let exact = oracle::total(&seen.decayed(now_ms, &decay, HORIZON_MS));
            let count = joined.count();
            assert!(count.covers(exact) && (count.value - exact).abs() <= 0.1 * exact, "{decay}: {count:?} of {exact}");
        }
    }
}

/// A smooth decay that varies little within the cells is answered within its own theta; others are rejected on request.
#[test]
fn decays_that_vary_little_within_cells_are_guaranteed_and_others_bounded() {
    let mut cells = division(totals());
    let mut seen = Exact::default();
    for one in stream(5000, 4).observations(Disorder::Late, &mut Random::new(3)) {
        cells.insert(&one).unwrap();
        seen.seen.push(one);
    }
    let slow = polynomial(0.5, 1.0);
    let theta = cells.check_theta(&slow, 0.25).unwrap();
    assert!((theta - (1.25f64.sqrt() - 1.0)).abs() < 0.02, "half the power, the root of the ratio: {theta}");
    for (decay, dominated) in [
        (slow, true),
        (polynomial(1.0, 1.0), true),
        (polynomial(3.0, 1.0), false),
        (Decay::half_life(50.0).unwrap(), false),
        (Decay::window(500).unwrap(), false),
    ] {
        assert_eq!(cells.check_theta(&decay, 0.25).is_ok(), dominated, "{decay}");
        for later in [0, 100, 3000] {
            let now_ms = seen.newest_ms() + later;
            let exact = oracle::total(&seen.decayed(now_ms, &decay, 1 << 20));
            let count = cells.totals(now_ms, &decay).unwrap().count();
            assert!(count.covers(exact), "{decay}: {count:?} of {exact}");
            if dominated {
                assert!((count.value - exact).abs() <= 0.25 / 2.25 * exact, "{decay}: {count:?} of {exact}");
            }
        }
    }
    let error = cells.check_theta(&polynomial(3.0, 1.0), 0.25).unwrap_err();
    assert!(matches!(error, QueryError::CellsTooWide { theta, .. } if theta > 0.5), "{error}");
}
