//! The state is a function of the set of elements: P1 to P5, P10 and P11, under floods, disorder, expiry and redelivery.

use std::collections::BTreeSet;
use std::sync::Arc;

use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralSketch, IntegralSpec, IntegralStore};
use ebb_sketch::aggregate::robust::hash::SampleHash;
use ebb_sketch::aggregate::robust::store::WindowStore;
use ebb_sketch::aggregate::robust::{Accuracy, Element, NO_FLOOR, SampleStore, WindowSketch, WindowSpec};
use ebb_sketch::random::Random;

use super::oracle::{Heaps, Key, assert_integral_equals, assert_window_equals, element};
use super::streams::{Shape, cases, distinct, redelivered};

fn decays(max_weight: u32) -> Vec<IntegralDecay> {
    vec![
        IntegralDecay::window(9).unwrap(),
        IntegralDecay::polynomial(1).unwrap(),
        IntegralDecay::polynomial(2).unwrap(),
        IntegralDecay::exponential(0.15, max_weight).unwrap(),
    ]
}

/// Small samples, so that compactions are frequent; various weights and time spans, ties included.
fn shapes(random: &mut Random, count: usize) -> (Shape, u32) {
    let max_weight = [1, 4, 30, 999][random.below(4) as usize];
    let span = [3, 40, 100_000][random.below(3) as usize];
    let tau = [1, 2, 6, 20][random.below(4) as usize];
    (Shape { count, max_weight, span }, tau)
}

fn window_spec(tau: u32, max_weight: u32, seed: u64) -> WindowSpec {
    WindowSpec::new(Accuracy::with_sample_size(tau).unwrap(), max_weight, 1_000_000, seed).unwrap()
}

fn integral_spec(tau: u32, max_weight: u32, seed: u64) -> IntegralSpec {
    let decay = decays(max_weight).swap_remove(seed as usize % 4);
    IntegralSpec::new(Accuracy::with_sample_size(tau).unwrap(), decay, 1, (max_weight, 1), seed).unwrap()
}

fn window_of(spec: &WindowSpec, elements: &[Element]) -> WindowSketch {
    let mut sketch = WindowSketch::new(spec);
    elements.iter().for_each(|element| sketch.insert(*element).unwrap());
    sketch
}

fn integral_of(spec: &IntegralSpec, elements: &[Element]) -> IntegralSketch {
    let mut sketch = IntegralSketch::new(spec);
    elements.iter().for_each(|element| sketch.insert(*element).unwrap());
    sketch
}

#[test]
fn stores_match_the_heap_oracle() {
    let mut random = Random::new(11);
    for case in 0..cases(24) {
        let (shape, tau) = shapes(&mut random, 1500);
        let elements = distinct(&mut random, &shape);
        let elements = redelivered(&mut random, &elements);
        let hash = Arc::new(SampleHash::from_seed(case as u64, shape.max_weight));
        let mut heaps = Heaps::new(&hash, tau as usize, Key::Time);
        let mut store = WindowStore::new(hash.clone(), tau);
        for element in &elements {
            heaps.insert(*element);
            store.insert(*element);
        }
        assert_window_equals(&mut store, &heaps);
        let decay = decays(shape.max_weight).swap_remove(case % 4);
        let mut heaps = Heaps::new(&hash, tau as usize, Key::Death(decay.clone()));
        let mut store = IntegralStore::new(hash.clone(), Arc::new(decay), tau);
        for element in &elements {
            heaps.insert(*element);
            store.insert(*element);
        }
        assert_integral_equals(&mut store, &heaps);
    }
}

#[test]
fn order_and_redelivery_do_not_change_the_bytes() {
    let mut random = Random::new(12);
    for case in 0..cases(20) {
        let (shape, tau) = shapes(&mut random, 700);
        let elements = distinct(&mut random, &shape);
        let (window, integral) =
            (window_spec(tau, shape.max_weight, case as u64), integral_spec(tau, shape.max_weight, case as u64));
        let bytes = (window_of(&window, &elements).encode(), integral_of(&integral, &elements).encode());
        for _ in 0..3 {
            let again = redelivered(&mut random, &elements);
            assert_eq!(window_of(&window, &again).encode(), bytes.0);
            assert_eq!(integral_of(&integral, &again).encode(), bytes.1);
        }
    }
}

#[test]
fn id_with_two_payloads_counts_twice_in_any_order() {
    let mut random = Random::new(13);
    let spec = window_spec(20, 30, 1);
    let mut elements = distinct(&mut random, &Shape { count: 300, max_weight: 15, span: 50 });
    let conflicting: Vec<Element> = elements.iter().map(|e| Element { weight: e.weight * 2, value: 1, ..*e }).collect();
    elements.extend(conflicting);
    let bytes = window_of(&spec, &elements).encode();
    for _ in 0..5 {
        assert_eq!(window_of(&spec, &redelivered(&mut random, &elements)).encode(), bytes);
    }
}

/// Three overlapping parts.
fn parts(random: &mut Random, elements: &[Element]) -> [Vec<Element>; 3] {
    let mut parts = [vec![], vec![], vec![]];
    for element in elements {
        let first = random.below(3) as usize;
        parts[first].push(*element);
        parts[(first + random.below(2) as usize) % 3].push(*element);
    }
    parts
}

#[test]
fn merge_is_commutative_associative_and_idempotent() {
    let mut random = Random::new(14);
    for case in 0..cases(20) {
        let (shape, tau) = shapes(&mut random, 600);
        let elements = distinct(&mut random, &shape);
        let spec = window_spec(tau, shape.max_weight, case as u64);
        let whole = window_of(&spec, &elements).encode();
        let [a, b, c] = parts(&mut random, &elements).map(|part| window_of(&spec, &part));
        let merged = |order: &[&WindowSketch]| {
            let mut all = order[0].clone();
            order[1..].iter().for_each(|other| all.merge(other).unwrap());
            all
        };
        assert_eq!(merged(&[&a, &b, &c]).encode(), whole);
        assert_eq!(merged(&[&c, &b, &a, &b, &c]).encode(), whole);
        assert_eq!(merged(&[&a, &merged(&[&b, &c])]).encode(), whole);
        let spec = integral_spec(tau, shape.max_weight, case as u64);
        let whole = integral_of(&spec, &elements).encode();
        let [mut a, b, c] = parts(&mut random, &elements).map(|part| integral_of(&spec, &part));
        let mut c_first = c.clone();
        a.merge(&b).unwrap();
        a.merge(&c).unwrap();
        assert_eq!(a.encode(), whole);
        c_first.merge(&b).unwrap();
        c_first.merge(&a).unwrap();
        c_first.merge(&a).unwrap();
        assert_eq!(c_first.encode(), whole);
    }
}

#[test]
fn advance_commutes_with_insert_and_merge() {
    let mut random = Random::new(15);
    for case in 0..cases(20) {
        let (shape, tau) = shapes(&mut random, 400);
        let elements = distinct(&mut random, &shape);
        let (early, late) = elements.split_at(150);
        let watermark = random.below(shape.span + 10) as i64;
        let accuracy = Accuracy::with_sample_size(tau).unwrap();
        let spec = WindowSpec::new(accuracy, shape.max_weight, 5, case as u64).unwrap();
        let mut last = window_of(&spec, &elements);
        last.advance(watermark).unwrap();
        let mut between = window_of(&spec, early);
        between.advance(watermark).unwrap();
        late.iter().for_each(|element| between.insert(*element).unwrap());
        let mut merged = window_of(&spec, early);
        let mut advanced = window_of(&spec, late);
        advanced.advance(watermark).unwrap();
        merged.merge(&advanced).unwrap();
        assert_eq!(between.encode(), last.encode());
        assert_eq!(merged.encode(), last.encode());
        let spec = integral_spec(tau, shape.max_weight, case as u64);
        let mut last = integral_of(&spec, &elements);
        last.advance(watermark).unwrap();
        let mut merged = integral_of(&spec, early);
        merged.advance(watermark).unwrap();
        merged.merge(&integral_of(&spec, late)).unwrap();
        assert_eq!(merged.encode(), last.encode());
    }
}

#[test]
fn floors_and_members_match_the_definition() {
    let mut random = Random::new(16);
    for case in 0..cases(20) {
        let (shape, tau) = shapes(&mut random, 800);
        let elements = distinct(&mut random, &shape);
        let hash = Arc::new(SampleHash::from_seed(case as u64, shape.max_weight));
        let mut store = WindowStore::new(hash.clone(), tau);
        redelivered(&mut random, &elements).into_iter().for_each(|element| store.insert(element));
        store.compact();
        assert!(store.floors().windows(2).all(|pair| pair[0] >= pair[1]));
        for level in 0..=hash.top_level() {
            let hits = |e: &&Element| hash.highest_level(hash.start(e.id), e.weight) >= level;
            let mut times: Vec<i64> = elements.iter().filter(hits).map(|e| e.time_ms).collect();
            times.sort_unstable_by(|a, b| b.cmp(a));
            let floor = times.get(tau as usize).copied().unwrap_or(NO_FLOOR);
            assert_eq!(store.floors()[usize::from(level)], floor);
            let newer: BTreeSet<Element> =
                elements.iter().filter(hits).filter(|e| e.time_ms > floor).copied().collect();
            let kept: BTreeSet<Element> = store.within(usize::from(level), floor, i64::MAX).copied().collect();
            assert!(kept.len() <= tau as usize);
            assert_eq!(kept, newer);
        }
    }
}

#[test]
fn flood_at_one_time_empties_levels_like_the_oracle() {
    let hash = Arc::new(SampleHash::from_seed(5, 999));
    let mut heaps = Heaps::new(&hash, 30, Key::Time);
    let mut store = WindowStore::new(hash.clone(), 30);
    let mut random = Random::new(17);
    let before = distinct(&mut random, &Shape { count: 500, max_weight: 999, span: 1000 });
    let flood = distinct(&mut random, &Shape { count: 3000, max_weight: 999, span: 1 });
    let flood = flood.iter().map(|e| Element { time_ms: 1000, ..*e });
    let after = distinct(&mut random, &Shape { count: 40, max_weight: 999, span: 10 });
    let after = after.iter().map(|e| Element { time_ms: e.time_ms + 1001, ..*e });
    for element in before.into_iter().chain(flood).chain(after) {
        heaps.insert(element);
        store.insert(element);
    }
    assert_window_equals(&mut store, &heaps);
    assert!(store.floors()[0] >= 1000, "level 0 has dropped the flood");
}

#[test]
fn repeats_neither_grow_nor_change_the_store() {
    let spec = window_spec(50, 99, 3);
    let mut random = Random::new(18);
    let elements = distinct(&mut random, &Shape { count: 60, max_weight: 99, span: 1000 });
    let once = window_of(&spec, &elements);
    let mut storm = once.clone();
    for round in 0..3000 {
        storm.insert(elements[round * 7 % elements.len()]).unwrap();
        assert!(storm.entry_count() <= elements.len() + 2 * 50 + 64);
    }
    assert_eq!(storm.encode(), once.encode());
}

#[test]
fn forty_windows_of_expiry_match_the_oracle_and_stay_small() {
    let (tau, horizon) = (40, 1000);
    let hash = Arc::new(SampleHash::from_seed(7, 99));
    let decay = IntegralDecay::polynomial(1).unwrap();
    let mut window = WindowStore::new(hash.clone(), tau);
    let mut integral = IntegralStore::new(hash.clone(), Arc::new(decay.clone()), tau);
    let mut by_time = Heaps::new(&hash, tau as usize, Key::Time);
    let mut by_death = Heaps::new(&hash, tau as usize, Key::Death(decay));
    let mut random = Random::new(19);
    for begin in (0..40).map(|index| index * horizon) {
        let mut elements = distinct(&mut random, &Shape { count: 150, max_weight: 99, span: horizon as u64 });
        elements.iter_mut().for_each(|e| e.time_ms += begin);
        for (index, element) in redelivered(&mut random, &elements).into_iter().enumerate() {
            window.insert(element);
            integral.insert(element);
            by_time.insert(element);
            by_death.insert(element);
            if index % 50 == 0 {
                let watermark = begin + index as i64;
                window.drop_through(watermark - horizon);
                by_time.advance(watermark - horizon);
                integral.drop_through(watermark);
                by_death.advance(watermark);
            }
        }
        assert_window_equals(&mut window, &by_time);
        assert_integral_equals(&mut integral, &by_death);
        assert!(window.entry_count() <= tau as usize * 14, "{} elements at {begin}", window.entry_count());
    }
}

#[test]
fn decoded_sketch_continues_like_the_original() {
    let mut random = Random::new(20);
    for case in 0..cases(12) {
        let (shape, tau) = shapes(&mut random, 500);
        let elements = distinct(&mut random, &shape);
        let (early, late) = elements.split_at(300);
        let spec = window_spec(tau, shape.max_weight, case as u64);
        let mut sketch = window_of(&spec, early);
        let mut decoded = WindowSketch::decode(&spec, &sketch.encode()).unwrap();
        assert_eq!(decoded.encode(), sketch.encode());
        for element in late {
            sketch.insert(*element).unwrap();
            decoded.insert(*element).unwrap();
        }
        assert_eq!(decoded.encode(), sketch.encode());
        let spec = integral_spec(tau, shape.max_weight, case as u64);
        let mut sketch = integral_of(&spec, early);
        sketch.advance(3).unwrap();
        let mut decoded = IntegralSketch::decode(&spec, &sketch.encode()).unwrap();
        assert_eq!(decoded.encode(), sketch.encode());
        for element in late {
            sketch.insert(*element).unwrap();
            decoded.insert(*element).unwrap();
        }
        assert_eq!(decoded.encode(), sketch.encode());
    }
}

#[test]
fn compaction_does_not_change_the_bytes() {
    let mut random = Random::new(21);
    let spec = window_spec(10, 99, 4);
    let elements = distinct(&mut random, &Shape { count: 600, max_weight: 99, span: 300 });
    let (mut lazy, mut eager) = (WindowSketch::new(&spec), WindowSketch::new(&spec));
    for element in elements {
        lazy.insert(element).unwrap();
        eager.insert(element).unwrap();
        eager.compact();
    }
    assert_eq!(lazy.encode(), eager.encode());
}

#[test]
fn integers_die_at_the_first_age_without_live_predecessors() {
    let mut random = Random::new(22);
    for max_weight in [1, 5, 40, 999] {
        for decay in decays(max_weight).into_iter().chain([IntegralDecay::exponential(0.5, max_weight).unwrap()]) {
            for _ in 0..cases(40) {
                let weight = 1 + random.below(u64::from(max_weight)) as u32;
                let first_hit = random.below(u64::from(weight)) as u32;
                let naive = (0..).find(|age| decay.live(weight, *age) <= first_hit);
                assert_eq!(Some(decay.death(weight, first_hit)), naive, "{weight} {first_hit}");
            }
        }
    }
}

#[test]
fn slow_exponentials_are_monotone_across_table_blocks() {
    let decay = IntegralDecay::exponential(0.0008, 65_536).unwrap();
    let lives: Vec<u32> = (0..14_500).map(|age| decay.live(65_536, age)).collect();
    assert!(lives.windows(2).all(|pair| pair[0] >= pair[1]));
    assert_eq!((lives[0], lives[14_499]), (65_536, 0));
    for (age, live) in lives.iter().enumerate() {
        let real = 65_536.0 * (-0.0008 * age as f64).exp();
        assert!((f64::from(*live) - real.floor()).abs() <= 1.0, "age {age}");
    }
    for first_hit in [0, 1, 500, 65_535] {
        let death = decay.death(65_536, first_hit) as usize;
        assert!(lives[death] <= first_hit && (death == 0 || lives[death - 1] > first_hit));
    }
}

fn golden(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/vectors/robust/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    text.trim()
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn state_bytes_are_stable_across_releases() {
    let window_spec = window_spec(3, 9, 42);
    let decay = IntegralDecay::exponential(0.1, 90).unwrap();
    let integral_spec = IntegralSpec::new(Accuracy::with_sample_size(3).unwrap(), decay, 1000, (9, 10), 42).unwrap();
    let (mut window, mut integral) = (WindowSketch::new(&window_spec), IntegralSketch::new(&integral_spec));
    for index in 0..20u32 {
        let (time_ms, id) = (i64::from(index) * 977, u128::from(index) << 70 | 7);
        let element = element(u64::from(index) * 100, 1 + index % 9, time_ms, id);
        window.insert(element).unwrap();
        integral.insert(element).unwrap();
    }
    assert_eq!(window.encode(), golden("window_v2"));
    assert_eq!(integral.encode(), golden("integral_v2"));
    for version in ["v1", "v2"] {
        let (window_bytes, integral_bytes) =
            (golden(&format!("window_{version}")), golden(&format!("integral_{version}")));
        assert_eq!(WindowSketch::decode(&window_spec, &window_bytes).unwrap().encode(), window.encode());
        assert_eq!(IntegralSketch::decode(&integral_spec, &integral_bytes).unwrap().encode(), integral.encode());
    }
    let mut amounts =
        WindowSketch::new(&WindowSpec::by_amount(Accuracy::with_sample_size(3).unwrap(), 4, 5000, 42).unwrap());
    for index in 0..20u32 {
        let (time_ms, amount) = (i64::from(index) * 977, f64::from(index * index) + 0.3);
        amounts.insert(element(amount.to_bits(), 1, time_ms, u128::from(index) << 70 | 7)).unwrap();
    }
    assert_eq!(amounts.encode(), golden("amounts_v2"));
}
