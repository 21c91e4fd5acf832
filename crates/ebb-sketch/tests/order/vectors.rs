//! The reference vectors in `tests/vectors/out-of-order`.

use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::division::{DivisionShape, DivisionSketch};
use ebb_sketch::aggregate::forward::{ForwardShape, ForwardSketch};
use ebb_sketch::aggregate::paper::fill_tree::FillTree;
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::qdigest::{DigestShape, QDigest};
use ebb_sketch::aggregate::{DecayedSketch, Labels, Observation, SummaryShape, Totals, Values, WeightLimits};
use ebb_sketch::decay::Decay;
use serde_json::Value;

use crate::oracle::{Exact, quantile};

fn vector(name: &str) -> Value {
    let path = format!("{}/tests/vectors/out-of-order/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn close(ours: f64, published: f64, tolerance: f64) -> bool {
    (ours - published).abs() <= tolerance * published.abs().max(1e-300)
}

/// A decay as the vectors write it. A step function becomes a table of every age that can occur.
fn decay(of: &Value) -> Decay {
    let unit = of["unit"].as_f64().unwrap_or(1.0);
    match of["kind"].as_str().unwrap() {
        "window" => Decay::window(of["w"].as_u64().unwrap()),
        "exp" => Decay::exponential(number(&of["lambda"])),
        "poly" => Decay::polynomial(number(&of["alpha"]), unit),
        "none" => Decay::window(256),
        "step" => {
            let width = of["width"].as_u64().unwrap();
            Decay::table((0..1024).map(|age| (age, 1.0 / (1 + age / width) as f64)).collect())
        }
        other => panic!("a decay called {other}"),
    }
    .unwrap()
}

fn nodes(of: &Value) -> Vec<(u64, f64)> {
    list(of).iter().map(|pair| (pair[0].as_u64().unwrap(), number(&pair[1]))).collect()
}

#[test]
fn digest_nodes_match_the_vectors() {
    for name in ["qdigest_a", "qdigest_weighted"] {
        let vector = vector(name);
        let (bits, gamma) = (vector["L"].as_u64().unwrap() as u8, number(&vector["gamma"]));
        let items = nodes(&vector["insert_xw"]);

        let mut filled = FillTree::new(bits, gamma);
        items.iter().for_each(|(value, weight)| filled.insert(*value, *weight));
        let heap_id = |(low, high, weight): (u64, u64, &f64)| {
            let width = (high - low + 1).ilog2();
            ((low >> width) + (1 << (u32::from(bits) - width)), *weight)
        };
        let mut found: Vec<(u64, f64)> = filled.ranges().map(heap_id).collect();
        found.sort_by_key(|(id, _)| *id);
        assert_eq!(found, nodes(&vector["fill_first_nodes"]), "{name}: fill first");

        for bounds in list(&vector["rank_bounds_lt"]) {
            let value = bounds[0].as_u64().unwrap();
            let below = |end: fn((u64, u64)) -> u64| {
                filled.ranges().filter(|(low, high, _)| end((*low, *high)) < value).map(|(_, _, w)| w).sum::<f64>()
            };
            let found = (below(|(_, high)| high), below(|(low, _)| low));
            assert_eq!(found, (number(&bounds[1]), number(&bounds[2])), "{name}: rank of {value}");
        }

        let mut digest = QDigest::new(DigestShape::new(bits, 0.001).unwrap());
        items.iter().for_each(|(value, weight)| digest.insert(*value, *weight));
        digest.compress_at(gamma);
        let expected = nodes(&vector["leaf_then_compress_nodes"]);
        assert_eq!(digest.nodes(), expected, "{name}: leaves, then compressed");

        for exact in list(&vector["exact_rank_lt"]) {
            let (lower, upper) = digest.rank_below(exact[0].as_u64().unwrap());
            assert!((lower..=upper).contains(&number(&exact[1])));
        }
        let twin = digest.clone();
        digest.merge(twin);
        digest.compress_at(2.0 * gamma);
        let expected = nodes(&vector["self_merge_gamma2_nodes"]);
        assert_eq!(digest.nodes(), expected, "{name}: merged with itself");
    }
}

#[test]
fn replicated_levels_match_the_vectors() {
    for name in ["swcount_small", "swcount_epoch_weighted"] {
        let vector = vector(name);
        let capacity = vector["alpha"].as_u64().unwrap() as u32;
        let shape = LevelsSketch::shape(0.1, 256, SummaryShape::totals()).unwrap().with_capacity(capacity);
        assert_eq!(u64::from(shape.height()), vector["K"].as_u64().unwrap());
        let mut levels = LevelsSketch::new(shape);
        for (time_ms, weight) in pairs(&vector["stream_tw"]) {
            levels.insert(&Observation { time_ms, value: 0, label: 0, weight }).unwrap();
        }
        let now_ms = vector["now"].as_i64().unwrap();
        assert_eq!(levels.newest_ms(), Some(now_ms));
        let (raw, raw_floor_ms, views) = levels.levels();
        let floors: Vec<i64> =
            [raw_floor_ms].into_iter().chain(views.iter().map(|l| l.floor_ms)).map(|f| f.unwrap_or(-1)).collect();
        let expected: Vec<i64> = list(&vector["tau"]).iter().map(|tau| tau.as_i64().unwrap()).collect();
        assert_eq!(floors, expected, "{name}: floors");
        let sizes: Vec<u64> = [raw].into_iter().chain(views.iter().map(|l| l.ranges.len())).map(|n| n as u64).collect();
        let expected: Vec<u64> = list(&vector["level_nodes"]).iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!(sizes, expected, "{name}: ranges in the levels");
        let range = |r: &Value| (r[0].as_i64().unwrap(), r[1].as_i64().unwrap(), number(&r[2]));
        let expected: Vec<(i64, i64, f64)> = list(&vector["level1_nodes_lo_hi_c"]).iter().map(range).collect();
        assert_eq!(views[0].ranges, expected, "{name}: the finest level");

        for query in list(&vector["queries"]) {
            let window = Decay::window(query["w"].as_u64().unwrap()).unwrap();
            let count = levels.totals(now_ms, &window).unwrap().count();
            assert_eq!((count.lower, count.upper), (number(&query["under"]), number(&query["over"])), "{query}");
            assert!(count.covers(number(&query["exact"])), "{query}");
        }
        for query in list(&vector["decayed"]) {
            let count = levels.totals(now_ms, &decay(&query["decay"])).unwrap().count();
            assert!(close(count.lower, number(&query["under"]), 1e-9), "{query} {count:?}");
            assert!(close(count.upper, number(&query["over"]), 1e-9), "{query} {count:?}");
            assert!(count.covers(number(&query["exact"])), "{query}");
        }
    }
}

fn pairs(of: &Value) -> Vec<(i64, f64)> {
    list(of).iter().map(|pair| (pair[0].as_i64().unwrap(), number(&pair[1]))).collect()
}

#[test]
fn division_ages_and_cells_match_the_vectors_at_every_clock() {
    for name in ["aligned_poly", "aligned_exp"] {
        let vector = vector(name);
        let (decay, theta) = (decay(&vector["decay"]), number(&vector["theta"]));
        let shape = DivisionShape::new(decay.clone(), theta, 1 << 20, SummaryShape::totals()).unwrap();
        let ages: Vec<u64> = list(&vector["A_k"]).iter().map(|age| age.as_u64().unwrap()).collect();
        assert_eq!(shape.ages()[..ages.len()], ages, "{name}");
        assert_eq!(u64::from(shape.base()), vector["k0"].as_u64().unwrap(), "{name}");
        let mut division = DivisionSketch::new(shape);
        let stream = pairs(&vector["stream_tw"]);
        for (time_ms, weight) in &stream {
            division.insert(&Observation { time_ms: *time_ms, value: 1, label: 0, weight: *weight }).unwrap();
        }
        for snapshot in list(&vector["snapshots"]) {
            let clock_ms = snapshot["clock"].as_i64().unwrap();
            division.advance(clock_ms).unwrap();
            let mut cells: Vec<(u64, i64, f64, i64, i64)> =
                division.cells().map(|c| (u64::from(c.width), c.index, c.weight, c.oldest_ms, c.newest_ms)).collect();
            cells.sort_by_key(|cell| (cell.0, cell.1));
            let cell = |c: &Value| {
                let int = |index: usize| c[index].as_i64().unwrap();
                (c[0].as_u64().unwrap(), int(1), number(&c[2]), int(3), int(4))
            };
            let expected: Vec<_> = list(&snapshot["cells_k_i_w_mint_maxt"]).iter().map(cell).collect();
            assert_eq!(cells, expected, "{name} at {clock_ms}");

            let exact = number(&snapshot["exact_decayed_sum"]);
            let totals = division.totals(clock_ms, &decay).unwrap();
            // The reference sums weight times absolute time, which costs it precision at current times.
            let digits = if name == "aligned_exp" { 1e-12 } else { 1e-6 };
            let moment = number(&snapshot["moment"]);
            assert!(close(totals.count().value, moment, digits), "{name} at {clock_ms}: {totals:?} {moment}");
            assert!(totals.count().covers(exact) && totals.sum().covers(exact), "{name} at {clock_ms}");
            let bound = number(&snapshot["harmonic_rel_bound"]);
            assert!(close(totals.count().value, exact, bound));
            let g = |time_ms: i64| decay.weight((clock_ms - time_ms) as u64);
            let newest: f64 = cells.iter().map(|c| c.2 * g(c.4)).sum();
            let harmonic: f64 = cells.iter().map(|c| c.2 * 2.0 * g(c.3) * g(c.4) / (g(c.3) + g(c.4))).sum();
            assert!(
                close(newest, number(&snapshot["newest"]), 1e-12)
                    && close(harmonic, number(&snapshot["harmonic"]), 1e-12)
            );
        }
    }
}

#[test]
fn forward_decay_matches_the_vectors_across_landmarks() {
    let vector = vector("forward_exp");
    let decay = Decay::exponential(number(&vector["lambda"])).unwrap();
    let mut forward = ForwardSketch::new(ForwardShape::new(&decay, SummaryShape::totals()).unwrap());
    for (time_ms, weight) in pairs(&vector["stream_tw"]) {
        forward.insert(&Observation { time_ms, value: 2, label: 0, weight }).unwrap();
    }
    for query in list(&vector["queries"]) {
        let totals = forward.totals(query["t"].as_i64().unwrap(), &decay).unwrap();
        assert!(close(totals.count().value, number(&query["exact"]), number(&query["rel_tol"])), "{query}");
        assert!(close(totals.sum().value, 2.0 * number(&query["exact"]), number(&query["rel_tol"])), "{query}");
        assert!(close(totals.mean().unwrap().value, 2.0, 1e-9));
    }
}

#[test]
fn formulas_match_the_vectors() {
    let vector = vector("formulas");
    let (alpha, theta) = (number(&vector["poly_alpha"]), number(&vector["theta"]));
    let decay = Decay::polynomial(alpha, 1.0).unwrap();
    for (index, b) in list(&vector["b_i"]).iter().enumerate() {
        let ours = (1.0 + theta).powf(index as f64 / alpha) - 1.0;
        assert!((ours - number(b)).abs() < 1e-12);
        let weight = (1.0 + number(b)).powf(-alpha);
        assert!(close(weight, (1.0 + theta).powi(-(index as i32)), 1e-12), "g falls by 1 + theta from b to b");
    }
    let shape = DivisionShape::new(decay, theta, 1 << 30, SummaryShape::totals()).unwrap();
    let ages: Vec<u64> = list(&vector["A_k_poly"]).iter().map(|age| age.as_u64().unwrap()).collect();
    assert_eq!(shape.ages()[..ages.len()], ages);
    let division = DivisionSketch::new(shape);
    for lemma in list(&vector["lemma2"]) {
        let other = Decay::polynomial(number(&lemma["g_prime_alpha"]), 1.0).unwrap();
        let ours = division.check_theta(&other, 1.0).unwrap();
        // A cell of whole milliseconds is slightly narrower than the real interval, so its theta is slightly smaller.
        let published = number(&lemma["theta_prime"]);
        assert!(ours <= published * (1.0 + 1e-9) && ours > 0.95 * published, "{ours} {published}");
    }
    for rule in list(&vector["alpha_count"]) {
        let (epsilon, halvings) = (number(&rule["eps"]), rule["K"].as_u64().unwrap());
        let levels = LevelsSketch::shape(epsilon, 1 << halvings, SummaryShape::totals()).unwrap();
        assert_eq!(u64::from(levels.capacity()), rule["alpha_mid"].as_u64().unwrap());
        let cascade = CascadeSketch::shape(epsilon, 1 << halvings, SummaryShape::totals()).unwrap();
        assert_eq!(u64::from(cascade.capacity()), rule["alpha_one_sided"].as_u64().unwrap());
    }
}

#[test]
fn the_papers_example_changes_its_heavy_hitter_as_time_passes() {
    let vector = vector("paper_example");
    let decay = decay(&vector["decay"]);
    let summary = SummaryShape::totals().with_labels(8).unwrap();
    let mut division = DivisionSketch::new(DivisionShape::new(decay.clone(), 0.01, 1 << 20, summary).unwrap());
    let mut cascade = CascadeSketch::new(CascadeSketch::shape(0.01, 1 << 10, summary).unwrap());
    let label = |name: &str| u128::from(name.as_bytes()[0]);
    for item in list(&vector["stream_xt"]) {
        let (name, time_ms) = (item[0].as_str().unwrap(), item[1].as_i64().unwrap());
        let one = Observation { time_ms, value: 0, label: label(name), weight: 1.0 };
        division.insert(&one).unwrap();
        cascade.insert(&one).unwrap();
    }
    for query in list(&vector["queries"]) {
        let now_ms = query["t"].as_i64().unwrap();
        for labels in [division.labels(now_ms, &decay).unwrap(), cascade.labels(now_ms, &decay).unwrap()] {
            for name in ["x", "y"] {
                assert!(close(labels.weight_of(label(name)).value, number(&query[name]), 1e-12), "{query}");
            }
            for mode in [TopMode::NoFalsePositives, TopMode::NoFalseNegatives] {
                let top = labels.top(number(&vector["phi"]), mode).unwrap();
                let found: Vec<u128> = top.items.iter().map(|item| item.label).collect();
                let expected: Vec<u128> = list(&query["hh"]).iter().map(|name| label(name.as_str().unwrap())).collect();
                assert_eq!(found, expected, "{query}");
            }
        }
    }
}

/// The readings of one method for one query.
struct Reading {
    name: &'static str,
    totals: Totals,
    values: Values,
    labels: Labels,
}

fn check_guarantees(query: &Value, exact: &[(Observation, f64)], reading: &Reading) {
    let name = reading.name;
    let count = reading.totals.count().value;
    let within = |low: &Value, high: &Value, ours: f64| number(low) - 1e-9 <= ours && ours <= number(high) + 1e-9;
    assert!(within(&query["D_lo"], &query["D_hi"], count), "{name}: {count} of {}", query["D"]);
    for range in list(&query["range"]) {
        let rank = reading.values.rank(range["le"].as_u64().unwrap());
        assert!(within(&range["lo"], &range["hi"], rank.value), "{name}: {rank:?} of {range}");
        assert!(rank.covers(number(&range["exact"])), "{name}: {rank:?} of {range}");
    }
    for expected_query in list(&query["quantile"]) {
        let found = reading.values.quantile(number(&expected_query["phi"])).unwrap().unwrap();
        let allowed = expected_query["min_ok"].as_u64().unwrap()..=expected_query["max_ok"].as_u64().unwrap();
        assert!(allowed.contains(&found.value), "{name}: {found:?} of {expected_query}");
        // The prepared value is the first whose rank exceeds phi; ours is the first whose rank reaches it.
        let exact = quantile(exact, number(&expected_query["phi"]));
        assert!(exact <= expected_query["exact"].as_u64().unwrap());
        assert!((found.lower..=found.upper).contains(&exact), "{name}: {found:?} of {exact}");
    }
    for expected_query in list(&query["hh"]) {
        let phi = number(&expected_query["phi"]);
        for mode in [TopMode::NoFalsePositives, TopMode::NoFalseNegatives] {
            let labels = reading.labels.top(phi, mode).unwrap().items.iter().map(|i| i.label as u64).collect();
            let values = reading.values.frequent(phi, mode).unwrap().items.iter().map(|i| i.item).collect();
            check_heavy(expected_query, mode, labels, name);
            check_heavy(expected_query, mode, values, name);
        }
    }
}

fn check_heavy(expected_query: &Value, mode: TopMode, found: Vec<u64>, name: &str) {
    let set = |key: &str| list(&expected_query[key]).iter().map(|x| x.as_u64().unwrap()).collect::<Vec<u64>>();
    assert!(set("must").iter().all(|x| found.contains(x)), "{name} {mode:?}: {found:?} lacks some of {expected_query}");
    assert!(found.iter().all(|x| set("may").contains(x)), "{name} {mode:?}: {found:?} has more than {expected_query}");
    let exact = set("exact");
    match mode {
        TopMode::NoFalsePositives => {
            assert!(found.iter().all(|x| exact.contains(x)), "{name}: {found:?} of {expected_query}")
        }
        TopMode::NoFalseNegatives => {
            assert!(exact.iter().all(|x| found.contains(x)), "{name}: {found:?} of {expected_query}")
        }
    }
}

#[test]
fn answers_of_all_methods_match_the_vectors_within_their_guarantees() {
    let mut checked = 0;
    for name in ["agg_window", "agg_decay_weighted"] {
        let vector = vector(name);
        let digest = DigestShape::new(6, 0.04).unwrap();
        let weights = WeightLimits::new(1.0, 100.0).unwrap();
        let summary = SummaryShape::totals().with_weights(weights).with_values(digest).with_labels(128).unwrap();
        let cascade_shape = CascadeSketch::shape(0.03, 1024, summary).unwrap();
        let levels_shape = LevelsSketch::shape(0.03, 1024, summary).unwrap();
        let mut cascade = CascadeSketch::new(cascade_shape);
        let mut small = CascadeSketch::new(cascade_shape.with_capacity(60));
        let mut levels = LevelsSketch::new(levels_shape);
        let polynomial = Decay::polynomial(1.0, 1.0).unwrap();
        let mut division = DivisionSketch::new(DivisionShape::new(polynomial, 0.04, 1 << 20, summary).unwrap());
        let rate = Decay::exponential(0.01).unwrap();
        let mut forward = ForwardSketch::new(ForwardShape::new(&rate, summary).unwrap());
        let mut seen = Exact::default();
        for item in list(&vector["stream_xtw"]) {
            let value = item[0].as_u64().unwrap();
            let (time_ms, weight) = (item[1].as_i64().unwrap(), number(&item[2]));
            let one = Observation { time_ms, value, label: u128::from(value), weight };
            cascade.insert(&one).unwrap();
            small.insert(&one).unwrap();
            levels.insert(&one).unwrap();
            division.insert(&one).unwrap();
            forward.insert(&one).unwrap();
            seen.seen.push(one);
        }
        for query in list(&vector["queries"]) {
            let (now_ms, decay) = (query["t"].as_i64().unwrap(), decay(&query["decay"]));
            let exact = seen.decayed(now_ms, &decay, u64::MAX);
            macro_rules! reading {
                ($structure:expr, $name:literal) => {
                    Reading {
                        name: $name,
                        totals: $structure.totals(now_ms, &decay).unwrap(),
                        values: $structure.values(now_ms, &decay).unwrap(),
                        labels: $structure.labels(now_ms, &decay).unwrap(),
                    }
                };
            }
            check_guarantees(query, &exact, &reading!(cascade, "cascade"));
            check_guarantees(query, &exact, &reading!(levels, "levels"));
            if division.check_theta(&decay, 0.08).is_ok() {
                check_guarantees(query, &exact, &reading!(division, "division"));
                checked += 1;
            }
            if decay == rate {
                check_guarantees(query, &exact, &reading!(forward, "forward"));
                checked += 1;
            }
            for count in [small.totals(now_ms, &decay), division.totals(now_ms, &decay)] {
                assert!(count.unwrap().count().covers(number(&query["D"])), "{query}");
            }
            checked += 2;
        }
    }
    assert!(checked >= 30, "{checked} answers were checked");
}
