//! Reference vectors of the timing filter: traces must match exactly, numbers to the stated tolerance.

use ebb_sketch::filter::belief::{ArrivalShare, Belief};
use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::distinct::{DistinctModel, LikelihoodForm, collision_probability, model_likelihood};
use ebb_sketch::filter::inference::posterior::{AgePrior, Posterior, PriorMasses};
use ebb_sketch::filter::planning::sizing::paper_spec;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::AgeLikelihood;
use ebb_sketch::filter::structure::timing::{ClockSpec, Reading, TimingFilter, TimingSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::mix;
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

/// The reference selects cells with a keyed 64-bit hash: the lower half of our fingerprint.
fn reference_item(x: u64, seed: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x ^ mix(seed))))
}

/// The filter with the narrowest timers that the parameters fit into.
fn smallest(clock: ClockSpec, cells: u64, k: u8, spare: u8) -> TimingFilter {
    let fits =
        |bits| TimingSpec::new(clock, CellLayout::Spread(cells), bits, k).and_then(|spec| spec.with_spare(spare)).ok();
    TimingFilter::new((3..=8).find_map(fits).unwrap()).unwrap()
}

/// (oldest age, distinct cells, cells of that age or expired), including dead timers that are not swept yet.
fn observe(filter: &TimingFilter, item: Fingerprint) -> (Option<u8>, usize, usize) {
    let ages: Vec<Option<u8>> = filter.cells_of(item).iter().map(|&cell| filter.stored_age(cell)).collect();
    let oldest = if ages.contains(&None) { None } else { ages.iter().copied().max().flatten() };
    (oldest, ages.len(), ages.iter().filter(|age| **age == oldest).count())
}

#[test]
fn cells_are_selected_as_in_the_reference() {
    for case in list(&vectors("replay")["hash"], "cells") {
        let filter =
            smallest(ClockSpec::Count { window: 1, block: 1 }, unsigned(case, "m"), unsigned(case, "k") as u8, 0);
        let item = reference_item(case["x"].as_str().unwrap().parse().unwrap(), unsigned(case, "seed"));
        let expected: Vec<u64> = list(case, "distinct").iter().map(|cell| cell.as_u64().unwrap()).collect();
        assert_eq!(filter.cells_of(item), expected);
    }
}

#[test]
fn arrival_traces_match_the_reference_to_the_last_timer() {
    for case in list(&vectors("replay"), "btbf") {
        let clock = ClockSpec::Count { window: unsigned(case, "w"), block: unsigned(case, "B") };
        let (seed, window) = (unsigned(case, "seed"), clock.window());
        let mut filter = smallest(clock, unsigned(case, "m"), unsigned(case, "k") as u8, unsigned(case, "pad") as u8);
        let (mut answers, mut observed) = (Vec::new(), Vec::new());
        for t in 0..unsigned(case, "T") {
            let item = reference_item(mix(7 * t + seed) % 60, seed);
            let reading = filter.read(item);
            answers.push(filter.standard_answer(&reading, 0, window));
            observed.push(observe(&filter, item));
            filter.insert(item, 0);
            filter.count_arrival(0);
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
fn time_traces_match_the_reference() {
    for case in list(&vectors("replay"), "time_btbf") {
        let (window_ms, lateness_ms) = (unsigned(case, "window"), unsigned(case, "lateness"));
        let clock = ClockSpec::Time { window_ms, lateness_ms, tick_ms: unsigned(case, "tau") };
        let (seed, spread) = (unsigned(case, "seed"), unsigned(case, "spread"));
        let mut filter = smallest(clock, unsigned(case, "m"), unsigned(case, "k") as u8, unsigned(case, "pad") as u8);
        let (mut now, mut answers, mut accepted) = (1000i64, Vec::new(), Vec::new());
        for t in 0..unsigned(case, "T") {
            let z = mix(11 * t + seed);
            now += if t % 40 != 0 { (z % 9) as i64 } else { 90 };
            let time = if (z >> 10).is_multiple_of(4) { now - ((z >> 20) % spread) as i64 } else { now };
            let item = reference_item((z >> 32) % 50, seed);
            filter.advance(now);
            let reading = filter.read(item);
            answers.push(filter.standard_answer(&reading, time, window_ms));
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

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
    let error = if expected == 0.0 { got.abs() } else { (got / expected - 1.0).abs() };
    assert!(error <= tolerance, "{what}: {got:e} is not {expected:e} (relative error {error:e})");
}

fn model(value: &Value) -> DistinctModel {
    match value["kind"].as_str().unwrap() {
        "uniform" => DistinctModel::uniform(unsigned(value, "U")).unwrap(),
        "zipf_exact" | "zipf_corrected_head64" => DistinctModel::zipf(unsigned(value, "U")).unwrap(),
        "loglog" => {
            let points = list(value, "points").iter().map(|p| (p[0].as_f64().unwrap(), p[1].as_f64().unwrap()));
            DistinctModel::points(points.collect()).unwrap()
        }
        other => panic!("unknown model {other}"),
    }
}

#[test]
fn distinct_counts_match_the_reference() {
    for case in vectors("distinct").as_array().unwrap() {
        let tolerance = case["rel_tol"].as_f64().unwrap_or(1e-11);
        let distinct = model(&case["model"]);
        for pair in list(case, "values") {
            let j = pair[0].as_f64().unwrap();
            close(&format!("{} D({j})", case["model"]), distinct.among(j), pair[1].as_f64().unwrap(), tolerance);
        }
        for pair in case["paper_eq17"].as_array().into_iter().flatten() {
            let printed = DistinctModel::zipf_printed(unsigned(&case["model"], "U")).unwrap();
            close("printed", printed.among(pair[0].as_f64().unwrap()), pair[1].as_f64().unwrap(), 1e-11);
        }
    }
}

fn check_posterior(likelihood: AgeLikelihood, input: &Value, expected: &Value) {
    let posterior = Posterior::new(likelihood, AgePrior::Geometric(ArrivalShare::new(number(input, "p")).unwrap()));
    let belief = posterior.within(number(input, "w"));
    let check = |name: &str, got: f64| close(&format!("{name} of {input}"), got, number(expected, name), 1e-11);
    check("p_in", belief.inside);
    check("p_out", belief.outside);
    check("pmf_i", posterior.at_age(number(input, "i")));
    check("mean_age", posterior.expected_age());
    check("p_never", posterior.never(number(input, "n")));
    check("p_in_block", posterior.in_block());
}

#[test]
fn posteriors_over_blocks_of_arrivals_match_eighty_digit_arithmetic() {
    for case in list(&vectors("posterior_count"), "cases") {
        let input = &case["input"];
        let distinct = model(&input["d_model"]);
        let (age, into, block) = (number(input, "lam"), number(input, "b"), number(input, "B"));
        let (from, length) = if age == 0.0 { (0.0, into) } else { ((age - 1.0) * block + into, block) };
        assert_eq!((from, length), (number(case, "a"), number(case, "N")));
        let cells = unsigned(input, if age == 0.0 { "r" } else { "c" }) as u8;
        let others = |items| collision_probability(cells, unsigned(input, "k") as u8, unsigned(input, "m"), items);
        let (printed, corrected) = (others(distinct.among(length)), others(distinct.between(from, length)));
        close("g printed", printed, number(case, "g_printed"), 1e-11);
        close("g corrected", corrected, number(case, "g_corrected"), 1e-11);
        // The vectors' own g, so that an error in g does not show up as one in the posterior.
        for (g, expected) in [("g_printed", "with_printed_g"), ("g_corrected", "with_corrected_g")] {
            check_posterior(AgeLikelihood { from, length, collision: number(case, g) }, input, &case[expected]);
        }
    }
}

#[test]
fn posteriors_over_blocks_of_time_match_eighty_digit_arithmetic() {
    let vectors = vectors("posterior_time");
    for case in list(&vectors, "cases") {
        let input = &case["input"];
        let (from, length) = (number(case, "a"), number(case, "N"));
        check_posterior(AgeLikelihood { from, length, collision: number(case, "g") }, input, &case["model"]);
        check_posterior(AgeLikelihood { from, length, collision: number(case, "g_live") }, input, &case["live"]);
    }
    for case in list(&vectors, "expired") {
        let likelihood = AgeLikelihood { from: number(case, "a"), length: 0.0, collision: 1.0 };
        let posterior = Posterior::new(likelihood, AgePrior::Geometric(ArrivalShare::new(number(case, "p")).unwrap()));
        let belief = posterior.within(number(case, "w"));
        close("p_in", belief.inside, number(case, "p_in"), 1e-11);
        close("p_out", belief.outside, number(case, "p_out"), 1e-11);
        close("mean_age", posterior.expected_age(), number(case, "mean_age"), 1e-11);
    }
}

/// The filter's own age ranges and likelihoods, with cells and arrivals arranged as in the vectors.
#[test]
fn model_likelihoods_match_the_vectors() {
    for case in list(&vectors("posterior_time"), "cases") {
        let input = &case["input"];
        let blocks: Vec<u64> = list(input, "n_blocks").iter().map(|n| n.as_u64().unwrap()).collect();
        let window_ms = 1000 * blocks.len() as u64;
        let clock = ClockSpec::Time { window_ms, lateness_ms: 0, tick_ms: 1000 };
        let (cells, k) = (unsigned(input, "m"), unsigned(input, "k") as u8);
        let mut filter = TimingFilter::new(TimingSpec::new(clock, CellLayout::Spread(cells), 5, k).unwrap()).unwrap();
        let now = window_ms as i64;
        for (age, &arrivals) in blocks.iter().enumerate().rev() {
            (0..arrivals).for_each(|_| filter.count_arrival(now - 1000 * age as i64));
        }
        filter.advance(now);
        let reading = Reading {
            age: Some(unsigned(input, "lam") as u8),
            cells: unsigned(input, "r") as u8,
            oldest: unsigned(input, "c") as u8,
        };
        let likelihood = model_likelihood(&filter, &reading, &model(&input["d_model"]), LikelihoodForm::Corrected);
        assert_eq!((likelihood.from, likelihood.length), (number(case, "a"), number(case, "N")), "{input}");
        close("g", likelihood.collision, number(case, "g"), 1e-11);
    }
}

#[test]
fn learned_and_first_seen_priors_match_the_vectors() {
    let vectors = vectors("priors");
    for case in list(&vectors, "first_seen") {
        let likelihood =
            AgeLikelihood { from: number(case, "a"), length: number(case, "N"), collision: number(case, "g") };
        let share = ArrivalShare::new(number(case, "p")).unwrap();
        let posterior = Posterior::new(likelihood, AgePrior::FirstSeen { share, window: number(case, "W") });
        close("first seen", posterior.within(number(case, "w")).inside, number(case, "p_in"), 1e-11);
    }
    for case in list(&vectors, "any_prior") {
        let (below_from, below_end, below_window) = (number(case, "F_a"), number(case, "F_e"), number(case, "F_w"));
        let masses = PriorMasses {
            block_inside: below_window.min(below_end) - below_from,
            block_outside: (below_end - below_window).max(0.0),
            beyond_inside: (below_window - below_end).max(0.0),
            beyond_outside: 1.0 - below_end.max(below_window),
        };
        close("any prior", masses.posterior(number(case, "g")).inside, number(case, "p_in"), 1e-11);
    }
}

#[test]
fn decisions_match_the_vectors() {
    for case in list(&vectors("classical_decision"), "decision") {
        let penalties = Penalties::new(number(case, "cost_fp"), number(case, "cost_fn")).unwrap();
        let belief = Belief { inside: number(case, "p_in"), outside: number(case, "p_out") };
        let decision = penalties.decide(&belief);
        close("as duplicate", decision.if_duplicate, number(case, "e_pos"), 1e-11);
        close("as unique", decision.if_unique, number(case, "e_neg"), 1e-11);
        assert_eq!(decision.duplicate, case["answer"] == "POS", "{case}");
    }
}

#[test]
fn the_papers_sizing_rule_matches_the_vectors() {
    for case in vectors("sizing").as_array().unwrap() {
        let spec = paper_spec(unsigned(case, "w"), number(case, "bpi"), unsigned(case, "k") as u8, None).unwrap();
        let expected = (unsigned(case, "bpt"), unsigned(case, "m"), unsigned(case, "B"), unsigned(case, "P"));
        let got = (u64::from(spec.timer_bits()), spec.cells(), spec.clock().block(), u64::from(spec.spare()));
        assert_eq!(got, expected, "{case}");
    }
}
