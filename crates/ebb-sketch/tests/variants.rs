//! Reference vectors of the classic, stable and frequency filters: replays match to the cell, formulas to 1e-11.

use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::planning::stationary::{InitialCell, StationaryDistribution, ValueShares};
use ebb_sketch::filter::structure::classic::{ClassicFilter, FalsePositiveRate};
use ebb_sketch::filter::structure::frequency::basic::{BasicFrequency, BasicSpec};
use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::frequency::optimised::{Carry, DigitSpec, OptimisedFrequency, OptimisedSpec};
use ebb_sketch::filter::structure::frequency::{FrequencyFilter, FrequencySpec};
use ebb_sketch::filter::structure::layout::{CellHasher, CellLayout};
use ebb_sketch::filter::structure::stable::importance::ImportanceRule;
use ebb_sketch::filter::structure::stable::{StableFilter, StableSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};
use serde_json::Value;

fn vectors(name: &str) -> Value {
    let path = format!("{}/tests/vectors/filters/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors are there")).expect("and are JSON")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("{name} is a list"))
}

fn whole(value: &Value, name: &str) -> u64 {
    let field = &value[name];
    field.as_u64().or_else(|| field.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{name} is a whole number"))
}

fn real(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} is a number"))
}

fn reals(value: &Value, name: &str) -> Vec<f64> {
    list(value, name).iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn wholes(value: &Value, name: &str) -> Vec<u64> {
    list(value, name).iter().map(|number| number.as_u64().expect("a whole number")).collect()
}

#[track_caller]
fn close(found: f64, expected: f64, relative: f64) {
    assert!((found - expected).abs() <= relative * expected.abs(), "{found} is not {expected}");
}

/// The fingerprint whose spread cells are those that the vectors give item `x` under `seed`.
fn item(x: u64, seed: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x ^ mix(seed))))
}

#[test]
fn items_fall_on_the_cells_of_the_vectors() {
    for case in list(&vectors("replay")["hash"], "cells") {
        let hasher = CellHasher::new(CellLayout::Spread(whole(case, "m")), 1, whole(case, "k") as u8).unwrap();
        let cells = hasher.cells_of(item(whole(case, "x"), whole(case, "seed")));
        assert_eq!(cells.as_slice(), wholes(case, "cells"));
        assert_eq!(cells.distinct().as_slice(), wholes(case, "distinct"));
    }
}

#[test]
fn the_classical_posterior_matches_the_vectors() {
    let cases = vectors("classical_decision");
    assert!(!list(&cases, "classical").is_empty());
    for case in list(&cases, "classical") {
        let hasher = CellHasher::new(CellLayout::Spread(whole(case, "m")), 1, whole(case, "k") as u8).unwrap();
        let (arrivals, own) = (whole(case, "n"), whole(case, "r") as u32);
        // The vectors have distinct arrivals, so both counts of the theorem are n.
        let collision = FalsePositiveRate::from_distinct(&hasher, arrivals as f64, own);
        close(collision.get(), real(case, "p_fp"), 1e-11);
        if whole(case, "c") == whole(case, "r") {
            let belief = collision.posterior(ArrivalShare::new(real(case, "p")).unwrap(), arrivals);
            close(belief.inside, real(case, "p_in"), 1e-11);
            close(belief.outside, real(case, "p_out"), 1e-11);
        } else {
            let empty = ClassicFilter::new(CellLayout::Spread(whole(case, "m")), whole(case, "k") as u8).unwrap();
            let belief = empty.belief(item(1, 1), ArrivalShare::new(real(case, "p")).unwrap());
            assert_eq!((belief.inside, belief.outside), (real(case, "p_in"), real(case, "p_out")));
        }
    }
}

fn rule(mode: &str, low: u8) -> ImportanceRule {
    match mode {
        "sbf" => ImportanceRule::Stable,
        "2c" => ImportanceRule::TwoClass { low },
        "mc" => ImportanceRule::MultiClass,
        "h" => ImportanceRule::HarmonicLiteral,
        "h1" => ImportanceRule::Harmonic,
        mode => panic!("unknown rule {mode}"),
    }
}

/// The arrivals of a replay vector: item and value.
fn arrivals(case: &Value) -> impl Iterator<Item = (Fingerprint, u8)> {
    let (seed, items, top) = (whole(case, "seed"), whole(case, "U"), whole(case, "M"));
    (0..whole(case, "T")).map(move |t| {
        let z = mix(t + seed);
        (item(z % items, seed), 1 + ((z >> 32) % top) as u8)
    })
}

fn digits(answers: impl Iterator<Item = bool>) -> String {
    answers.map(|duplicate| if duplicate { '1' } else { '0' }).collect()
}

#[test]
fn stable_filters_replay_the_vectors_to_the_cell() {
    let replay = vectors("replay");
    let cases: Vec<&Value> = list(&replay, "cell_filters").iter().filter(|case| case["mode"] != "bf").collect();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let size = CellLayout::Spread(whole(case, "m"));
        let rule = rule(case["mode"].as_str().unwrap(), whole(case, "h") as u8);
        let (hashes, decrements) = (whole(case, "K") as u8, whole(case, "P") as u32);
        let mut filter =
            StableFilter::new(StableSpec::new(size, hashes, decrements, whole(case, "M") as u8, rule).unwrap());
        let mut random = Random::new(whole(case, "seed") ^ 0x5EED);
        let answers = digits(arrivals(case).map(|(item, value)| filter.observe(item, value, &mut random)));
        assert_eq!(answers, case["answers"].as_str().unwrap(), "{rule:?}");
        let cells: Vec<u64> = (0..whole(case, "m")).map(|cell| u64::from(filter.value(cell))).collect();
        assert_eq!(cells, wholes(case, "cells"), "{rule:?}");
    }
}

#[test]
fn the_classic_filter_replays_the_vector_to_the_answer() {
    let replay = vectors("replay");
    let case = list(&replay, "cell_filters").iter().find(|case| case["mode"] == "bf").expect("a classic vector");
    let mut filter = ClassicFilter::new(CellLayout::Spread(whole(case, "m")), whole(case, "K") as u8).unwrap();
    let answers = digits(arrivals(case).map(|(item, _)| filter.insert(item)));
    assert_eq!(answers, case["answers"].as_str().unwrap());
    let set: u64 = wholes(case, "cells").iter().sum();
    close(filter.fill(), set as f64 / whole(case, "m") as f64, 1e-15);
}

fn law(case: &Value, rule: ImportanceRule, values: &ValueShares) -> Option<StationaryDistribution> {
    StationaryDistribution::new(&spec(case, rule), values)
}

fn spec(case: &Value, rule: ImportanceRule) -> StableSpec {
    let (hashes, decrements) = (whole(case, "K") as u8, whole(case, "P") as u32);
    StableSpec::new(CellLayout::Spread(whole(case, "m")), hashes, decrements, whole(case, "M") as u8, rule).unwrap()
}

#[track_caller]
fn all_close(found: &[f64], expected: &[f64], relative: f64) {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).for_each(|(found, expected)| close(*found, *expected, relative));
}

#[test]
fn stationary_distributions_match_the_vectors() {
    for case in vectors("limiting").as_array().unwrap() {
        let mix = ValueShares::new(&reals(case, "pi")).unwrap();
        let (top, low, high) = (whole(case, "M") as usize, whole(case, "h") as u8, real(case, "phi"));
        let two = if top == 1 { ValueShares::uniform(1) } else { two_shares(top, high) };
        close(spec(case, ImportanceRule::Stable).hasher().touch_probability(), real(case, "k"), 1e-11);
        all_close(law(case, ImportanceRule::Stable, &mix).unwrap().shares(), &reals(case, "sbf"), 1e-11);
        let two = law(case, ImportanceRule::TwoClass { low }, &two).unwrap();
        all_close(two.shares(), &reals(case, "two_class"), 1e-11);
        let multi = law(case, ImportanceRule::MultiClass, &mix).unwrap();
        all_close(multi.shares(), &reals(case, "multi"), 1e-11);
        let printed = StationaryDistribution::as_printed(&spec(case, ImportanceRule::MultiClass), &mix);
        all_close(&printed, &reals(case, "multi_paper_pprime"), 1e-11);
        all_close(law(case, ImportanceRule::Harmonic, &mix).unwrap().shares(), &reals(case, "h_thinned"), 1e-11);
        match (law(case, ImportanceRule::HarmonicLiteral, &mix), case["h_exact"].is_null()) {
            (None, true) => {}
            (Some(law), false) => all_close(law.shares(), &reals(case, "h_exact"), 1e-11),
            (law, _) => panic!("only one of the two drains: {law:?}"),
        }
        for missed in list(case, "fn") {
            let (value, gap) = (whole(missed, "v") as u8, whole(missed, "gap"));
            close(multi.miss_probability(value, gap, InitialCell::Fresh), real(missed, "fresh"), 1e-11);
            close(multi.miss_probability(value, gap, InitialCell::Stationary), real(missed, "stationary"), 1e-11);
        }
    }
}

/// A fraction `high` of the largest value, the rest of the smallest.
fn two_shares(top: usize, high: f64) -> ValueShares {
    let mut weights = vec![0.0; top];
    (weights[0], weights[top - 1]) = (1.0 - high, high);
    ValueShares::new(&weights).unwrap()
}

#[test]
fn frequency_counters_replay_the_vectors_to_the_cell() {
    let replay = vectors("replay");
    for case in list(&replay, "otbf") {
        let (size, hashes) = (CellLayout::Spread(whole(case, "m")), whole(case, "k") as u8);
        let epochs = EpochSpec::keeping(whole(case, "epoch"), real(case, "lam")).unwrap();
        let form = |carry| DigitSpec { digit_bits: 2, fraction_bits: 0, pool: 100, carry };
        let wide = |carry| OptimisedFrequency::new(OptimisedSpec::new(size, hashes, epochs, form(carry)).unwrap());
        let mut basic = BasicFrequency::new(BasicSpec::new(size, hashes, epochs, 0).unwrap());
        let (mut each, mut all) = (wide(Carry::Each), wide(Carry::All));
        let (seed, length) = (whole(case, "seed"), whole(case, "T"));
        for t in 0..length {
            let z = mix(t + seed);
            let x = (z % 30).wrapping_mul(z >> 40) % 30 % (1 + (z >> 20) % 30);
            let item = item(x, seed);
            basic.add(item, t as i64);
            each.add(item, t as i64);
            all.add(item, t as i64);
        }
        basic.advance(length as i64);
        each.advance(length as i64);
        all.advance(length as i64);
        let cells = |value: &dyn Fn(u64) -> u64| (0..whole(case, "m")).map(value).collect::<Vec<u64>>();
        assert_eq!(cells(&|cell| basic.cell_value(cell)), wholes(case, "btbf"));
        assert_eq!(cells(&|cell| each.cell_value(cell)), wholes(case, "otbf_each"));
        assert_eq!(cells(&|cell| all.cell_value(cell)), wholes(case, "otbf_all"));
        assert_eq!(u64::from(each.peak_pool_use()), whole(case, "peak_extra"));
    }
}

/// Golden state bytes of tiny instances. Snapshots contain such bytes, so they must never change.
#[test]
fn state_bytes_are_stable_across_releases() {
    let hex = |bytes: &[u8]| bytes[..bytes.len() - 8].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let stable = |rule| {
        let mut filter = StableFilter::new(StableSpec::new(CellLayout::Spread(8), 2, 1, 7, rule).unwrap());
        (0..4).for_each(|x| {
            filter.observe(item(x, 0), 5, &mut Random::new(x));
        });
        hex(&filter.encode())
    };
    assert_eq!(stable(ImportanceRule::Stable), "6661646501000108020700000177070007");
    assert_eq!(
        stable(ImportanceRule::HarmonicLiteral),
        "666164650100010802070400015503000502000000010000000600000000000000"
    );
    let counted = |spec| {
        let mut counts = FrequencyFilter::new(spec);
        (0..6).for_each(|x| counts.add(item(x % 2, 0), x as i64 * 300));
        hex(&counts.encode())
    };
    let (size, epochs) = (CellLayout::Spread(7), EpochSpec::halving(1_000, 2).unwrap());
    let form = DigitSpec { digit_bits: 2, fraction_bits: 1, pool: 3, carry: Carry::Each };
    let forward = FrequencySpec::Forward(ForwardSpec::new(size, 2, 1_000).unwrap());
    assert_eq!(
        counted(forward),
        "667271660100010702e80701dc0500000000000000000000000000002ec4678b3d7a2540d91e4ac4a04013402ec4678b3d7a254000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    );
    assert_eq!(
        counted(FrequencySpec::Basic(BasicSpec::new(size, 2, epochs, 8).unwrap())),
        "66727162010001070208f4030000000000408f40dff933f304b5000001dc05000000000000eb06910100006b030000000000000000000000000000000000000000000000000000000000000000"
    );
    let optimised = FrequencySpec::Optimised(OptimisedSpec::new(size, 2, epochs, form).unwrap());
    assert_eq!(
        counted(optimised),
        "6672716f020001070202010003f4030000000000408f40dff933f304b5000001dc0500000000000007020c00020001010100000000000000000000"
    );
}
