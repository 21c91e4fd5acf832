//! The reference vectors of the timing filter: traces must match exactly, figures to the stated tolerance.

use ebb::filter::timing::{Drive, Layout, TimingFilter, TimingSpec};
use ebb::hash::Fingerprint;
use ebb::random::mix;
use serde_json::Value;

fn vectors(name: &str) -> Value {
    let path = format!("{}/tests/vectors/filters/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn integer(value: &Value, name: &str) -> i64 {
    value[name].as_i64().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn unsigned(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn bits(value: &Value, name: &str) -> Vec<bool> {
    value[name].as_str().unwrap().bytes().map(|byte| byte == b'1').collect()
}

/// The reference draws cells from a keyed 64-bit hash: the lower half of our fingerprint.
fn reference_item(x: u64, seed: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x ^ mix(seed))))
}

/// The smallest timers in which a filter of the reference fits.
fn smallest(drive: Drive, cells: u64, k: u8, spare: u8) -> TimingFilter {
    let fits =
        |bits| TimingSpec::new(drive, Layout::Spread(cells), bits, k).and_then(|spec| spec.with_spare(spare)).ok();
    TimingFilter::new((3..=8).find_map(fits).unwrap()).unwrap()
}

/// (age, distinct cells, how many are the oldest or expired), with dead timers that are not yet swept shown as they are.
fn observe(filter: &TimingFilter, item: Fingerprint) -> (Option<u8>, usize, usize) {
    let ages: Vec<Option<u8>> = filter.cells_of(item).iter().map(|&cell| filter.stored_age(cell)).collect();
    let oldest = if ages.contains(&None) { None } else { ages.iter().copied().max().flatten() };
    (oldest, ages.len(), ages.iter().filter(|age| **age == oldest).count())
}

#[test]
fn cells_are_drawn_as_in_the_reference() {
    for case in list(&vectors("replay")["hash"], "cells") {
        let filter = smallest(Drive::Count { window: 1, block: 1 }, unsigned(case, "m"), unsigned(case, "k") as u8, 0);
        let item = reference_item(case["x"].as_str().unwrap().parse().unwrap(), unsigned(case, "seed"));
        let expected: Vec<u64> = list(case, "distinct").iter().map(|cell| cell.as_u64().unwrap()).collect();
        assert_eq!(filter.cells_of(item), expected);
    }
}

#[test]
fn count_driven_traces_match_the_reference_to_the_last_timer() {
    for case in list(&vectors("replay"), "btbf") {
        let drive = Drive::Count { window: unsigned(case, "w"), block: unsigned(case, "B") };
        let (seed, window) = (unsigned(case, "seed"), drive.window());
        let mut filter = smallest(drive, unsigned(case, "m"), unsigned(case, "k") as u8, unsigned(case, "pad") as u8);
        let (mut answers, mut observed) = (Vec::new(), Vec::new());
        for t in 0..unsigned(case, "T") {
            let item = reference_item(mix(7 * t + seed) % 60, seed);
            let reading = filter.look(item);
            answers.push(filter.standard(&reading, 0, window));
            observed.push(observe(&filter, item));
            filter.insert(item, 0);
            filter.arrive(0);
        }
        assert_eq!(answers, bits(case, "answers"), "{case}");
        for entry in list(case, "observe") {
            let (age, cells, oldest) = observed[entry[0].as_u64().unwrap() as usize];
            assert_eq!(serde_json::json!([age, cells, oldest]), entry[1], "{entry} of {case}");
        }
        let stamps = unsigned(case, "w").div_ceil(unsigned(case, "B")) as i64 + 2 + integer(case, "pad");
        let timer = |age: u8| (integer(case, "T_plus") - i64::from(age)).rem_euclid(stamps);
        let timers: Vec<i64> = (0..unsigned(case, "m")).map(|c| filter.stored_age(c).map_or(-1, timer)).collect();
        assert_eq!(serde_json::json!(timers), case["timers"]);
        assert_eq!(filter.now().unwrap() % unsigned(case, "B") as i64, integer(case, "b"));
    }
}

#[test]
fn time_driven_traces_match_the_reference() {
    for case in list(&vectors("replay"), "time_btbf") {
        let (window_ms, lateness_ms) = (unsigned(case, "window"), unsigned(case, "lateness"));
        let drive = Drive::Time { window_ms, lateness_ms, tick_ms: unsigned(case, "tau") };
        let (seed, spread) = (unsigned(case, "seed"), unsigned(case, "spread"));
        let mut filter = smallest(drive, unsigned(case, "m"), unsigned(case, "k") as u8, unsigned(case, "pad") as u8);
        let (mut now, mut answers, mut accepted) = (1000i64, Vec::new(), Vec::new());
        for t in 0..unsigned(case, "T") {
            let z = mix(11 * t + seed);
            now += if t % 40 != 0 { (z % 9) as i64 } else { 90 };
            let time = if (z >> 10).is_multiple_of(4) { now - ((z >> 20) % spread) as i64 } else { now };
            let item = reference_item((z >> 32) % 50, seed);
            filter.advance(now);
            let reading = filter.look(item);
            answers.push(filter.standard(&reading, time, window_ms));
            accepted.push(filter.insert(item, time));
        }
        assert_eq!(answers, bits(case, "answers"), "{case}");
        assert_eq!(accepted, bits(case, "accepted"), "{case}");
        assert_eq!(filter.now().unwrap().div_euclid(unsigned(case, "tau") as i64), integer(case, "J"));
        let live = |age: &u8| *age <= filter.spec().oldest_live_age();
        let ages = (0..unsigned(case, "m")).map(|cell| filter.stored_age(cell).filter(live).map_or(-1, i64::from));
        assert_eq!(serde_json::json!(ages.collect::<Vec<_>>()), case["live_ages"]);
    }
}
