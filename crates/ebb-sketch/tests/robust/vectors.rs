//! The published vectors.

use std::collections::BTreeSet;
use std::sync::Arc;

use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralStore};
use ebb_sketch::aggregate::robust::hash::{HashConstants, MERSENNE, SampleHash, TOP_LEVEL};
use ebb_sketch::aggregate::robust::progression::Progression;
use ebb_sketch::aggregate::robust::store::WindowStore;
use ebb_sketch::aggregate::robust::{Element, ElementId, NO_FLOOR, Sample, SampleStore};
use ebb_sketch::decay::Decay;
use serde_json::Value;

use super::oracle::element;

fn vectors(name: &str) -> Value {
    let path = format!("{}/tests/vectors/robust/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn rows(vectors: &Value) -> &Vec<Value> {
    vectors["rows"].as_array().unwrap()
}

/// Integers above 2^53 are written as decimal strings.
fn number(value: &Value) -> i128 {
    value.as_str().map_or_else(|| i128::from(value.as_i64().unwrap()), |text| text.parse().unwrap())
}

fn progression(row: &Value) -> (Progression, u64, u64) {
    let [modulus, step, start, last, most] = [0, 1, 2, 3, 4].map(|index| number(&row[index]));
    let progression = Progression { modulus: modulus as u64, step: step as u64, start: start as u64 };
    (progression, (last + 1) as u64, (most + 1) as u64)
}

#[test]
fn min_hits_match_the_vectors() {
    let vectors = vectors("minhit");
    for row in rows(&vectors) {
        let (progression, terms, below) = progression(row);
        assert_eq!(progression.min_hit(terms, below), u64::try_from(number(&row[5])).ok(), "{row}");
    }
    assert!(rows(&vectors).len() > 30);
}

#[test]
fn range_samples_match_the_vectors() {
    let vectors = vectors("rangesample");
    for row in rows(&vectors) {
        let (progression, terms, below) = progression(row);
        assert_eq!(i128::from(progression.count_below(terms, below)), number(&row[5]), "{row}");
    }
    assert!(rows(&vectors).len() > 30);
}

#[test]
fn starts_and_first_hits_of_120_bit_ids_match_the_vectors() {
    let vectors = vectors("deltas_p61");
    for row in rows(&vectors) {
        let [step, offset, low, high] = [0, 1, 2, 3].map(|index| number(&row[index]) as u64);
        let weight = number(&row[5]) as u32;
        let constants = HashConstants { modulus: MERSENNE, step, offset, low, high };
        let hash = SampleHash::with_constants(constants, weight.max(2), TOP_LEVEL).unwrap();
        let start = hash.start(ElementId::from_bits(number(&row[4]) as u128));
        assert_eq!(i128::from(start), number(&row[6]), "{row}");
        let mut first_hits = Vec::new();
        hash.first_hits(start, weight, |hit| {
            first_hits.extend((hit.from..=hit.to).map(|_| i128::from(hit.first_hit)));
            true
        });
        assert_eq!(first_hits, row[7].as_array().unwrap().iter().map(number).collect::<Vec<_>>(), "{row}");
    }
    assert!(rows(&vectors).len() > 10);
}

fn integral_decay(vector: &Value, max_weight: u32) -> IntegralDecay {
    match vector["kind"].as_str().unwrap() {
        "window" => IntegralDecay::window(number(&vector["W"]) as u64),
        "poly" => IntegralDecay::polynomial(number(&vector["alpha"]) as u32),
        "exp" => IntegralDecay::with_factor(number(&vector["q62"]) as u64, max_weight),
        other => panic!("no decay is called {other}"),
    }
    .unwrap()
}

#[test]
fn deaths_match_the_vectors() {
    let mut seen = 0;
    for group in vectors("expiry")["groups"].as_array().unwrap() {
        let decay = integral_decay(&group["decay"], 65_536);
        for row in rows(group) {
            let [weight, first_hit, age, before, after] = [0, 1, 2, 3, 4].map(|index| number(&row[index]) as u32);
            assert_eq!(decay.death(weight, first_hit), u64::from(age), "{group} {row}");
            assert_eq!(decay.live(weight, u64::from(age).saturating_sub(1)), before, "{row}");
            assert_eq!(decay.live(weight, u64::from(age)), after, "{row}");
            seen += 1;
        }
    }
    assert_eq!(seen, 36);
}

#[test]
fn rate_gives_the_published_factor() {
    for group in vectors("expiry")["groups"].as_array().unwrap() {
        if let Some(rate) = group["decay"]["beta"].as_f64() {
            let made = IntegralDecay::exponential(rate, 65_536).unwrap();
            assert_eq!(made, integral_decay(&group["decay"], 65_536), "{rate}");
        }
    }
}

/// A store of one level, whose keys are times.
fn single_level(tau: u32, level: &Value) -> WindowStore {
    let hash = SampleHash::published(101, 37, 5, 1, 0).unwrap();
    let mut store = WindowStore::new(Arc::new(hash), tau);
    if let Some(floor) = level[0].as_i64() {
        store.drop_through(floor);
    }
    for member in level[1].as_array().unwrap() {
        store.insert(element(0, 1, number(&member[0]) as i64, number(&member[1]) as u128));
    }
    store
}

#[test]
fn merged_levels_match_the_corrected_vectors() {
    let vectors = vectors("level_merge");
    for row in rows(&vectors) {
        let tau = number(&row[0]) as u32;
        for (one, other) in [(1, 2), (2, 1)] {
            let mut store = single_level(tau, &row[one]);
            store.merge(&single_level(tau, &row[other]));
            assert_level(&row[3], store.floors()[0], store.elements().map(|e| (e.time_ms, e.id)).collect());
        }
    }
    assert!(rows(&vectors).len() > 10);
}

fn assert_level(expected: &Value, floor: i64, members: BTreeSet<(i64, ElementId)>) {
    assert_eq!(floor, expected[0].as_i64().unwrap_or(NO_FLOOR), "{expected}");
    let ids = expected[1].as_array().unwrap().iter();
    let ids = ids.map(|member| (number(&member[0]) as i64, ElementId::from_bits(number(&member[1]) as u128)));
    assert_eq!(members, ids.collect(), "{expected}");
}

/// The vectors of one stream.
struct Stream {
    vector: Value,
    hash: Arc<SampleHash>,
    decay: Arc<IntegralDecay>,
    tau: u32,
    elements: Vec<Element>,
}

fn streams() -> Vec<Stream> {
    ["exp", "poly", "unit", "window"].map(|name| Stream::read(vectors(&format!("stream_{name}")))).into()
}

impl Stream {
    fn read(vector: Value) -> Self {
        let of = |name: &str| number(&vector["hash"][name]) as u64;
        let max_weight = of("w_max") as u32;
        let top_level = number(&vector["M"]) as u8;
        let hash = SampleHash::published(of("p"), of("a"), of("b"), max_weight, top_level).unwrap();
        let decay = integral_decay(&vector["decay"], max_weight);
        let elements = vector["stream"].as_array().unwrap().iter();
        let read = |row: &Value| {
            element(number(&row[0]) as u64, number(&row[1]) as u32, number(&row[2]) as i64, number(&row[3]) as u128)
        };
        let (elements, tau) = (elements.map(read).collect(), number(&vector["tau"]) as u32);
        Self { hash: Arc::new(hash), decay: Arc::new(decay), tau, elements, vector }
    }

    fn integral(&self, elements: &[Element]) -> IntegralStore {
        let mut store = IntegralStore::new(self.hash.clone(), self.decay.clone(), self.tau);
        elements.iter().for_each(|element| store.insert(*element));
        store.compact();
        store
    }

    fn window(&self) -> WindowStore {
        let mut store = WindowStore::new(self.hash.clone(), self.tau);
        self.elements.iter().for_each(|element| store.insert(*element));
        store.compact();
        store
    }
}

fn assert_integral_levels(store: &IntegralStore, levels: &Value) {
    for (index, level) in levels.as_array().unwrap().iter().enumerate() {
        let members = store.members(index as u8).into_iter().map(|(key, element)| (key, element.id)).collect();
        assert_level(level, store.floors()[index], members);
    }
}

#[test]
fn levels_of_streams_match_the_vectors() {
    for stream in streams() {
        assert_integral_levels(&stream.integral(&stream.elements), &stream.vector["integral_levels"]);
        let store = stream.window();
        for (index, level) in stream.vector["window_levels"].as_array().unwrap().iter().enumerate() {
            let floor = store.floors()[index];
            assert_level(level, floor, store.within(index, floor, i64::MAX).map(|e| (e.time_ms, e.id)).collect());
        }
    }
}

#[test]
fn overlapping_parts_merge_into_the_published_levels() {
    for stream in streams() {
        let prefix = number(&stream.vector["merge_A_prefix"]) as usize;
        let from = number(&stream.vector["merge_B_from"]) as usize;
        let mut first = stream.integral(&stream.elements[..prefix]);
        let second = stream.integral(&stream.elements[from..]);
        assert_integral_levels(&first, &stream.vector["merge_A_levels"]);
        assert_integral_levels(&second, &stream.vector["merge_B_levels"]);
        first.merge(&second);
        assert_integral_levels(&first, &stream.vector["integral_levels"]);
    }
}

fn assert_sample(sample: &Sample, query: &Value) {
    assert_eq!(i128::from(sample.level()), number(&query["level"]), "{query}");
    assert_eq!(i128::from(sample.hits()), number(&query["X"]), "{query}");
    let sum = number(&query["sum_num"]) as f64 / number(&query["sum_den"]) as f64;
    assert!((sample.weight() - sum).abs() <= 1e-12 * sum, "{query}");
}

#[test]
fn integral_queries_match_the_vectors() {
    for stream in streams() {
        let store = stream.integral(&stream.elements);
        for query in stream.vector["integral_queries"].as_array().unwrap() {
            let sample = store.sample(number(&query["c"]) as i64, 1);
            assert_sample(&sample, query);
            let Some(hits) = query["hits_v_le_4"].as_f64() else { continue };
            let share = sample.share(|value, _| value <= 4).unwrap();
            assert!((share - hits / sample.hits() as f64).abs() < 1e-12, "{query}");
            let values = sample.distribution();
            assert_eq!(values.quantile(0.5).map(i128::from), Some(number(&query["median"])), "{query}");
            assert_eq!(values.quantile(0.9).map(i128::from), Some(number(&query["q90"])), "{query}");
            let frequent: Vec<(u64, f64)> = values.frequent(0.2 - 0.1 / 2.0).collect();
            let published = query["freq_phi_.2_eps_.1"].as_array().unwrap();
            assert_eq!(frequent.len(), published.len(), "{query}");
            for (ours, theirs) in frequent.iter().zip(published) {
                assert_eq!(i128::from(ours.0), number(&theirs[0]), "{query}");
                assert!((ours.1 - theirs[1].as_f64().unwrap()).abs() < 1e-11, "{query}");
            }
        }
    }
}

#[test]
fn window_queries_match_the_vectors() {
    for stream in streams() {
        let store = stream.window();
        for query in stream.vector["window_queries"].as_array().unwrap() {
            let window = Decay::window(number(&query["W"]) as u64).unwrap();
            assert_sample(&store.sample(number(&query["c"]) as i64, &window), query);
        }
    }
}

#[test]
fn decay_queries_match_the_vectors() {
    for stream in streams() {
        let store = stream.window();
        for query in stream.vector["decomposed_queries"].as_array().unwrap() {
            let decay = match query["g"].as_str().unwrap() {
                "exp(-0.1x)" => Decay::exponential(0.1),
                "1/(x+1)" => Decay::polynomial(1.0, 1.0),
                other => panic!("no decay is called {other}"),
            };
            let sample = store.sample(number(&query["c"]) as i64, &decay.unwrap());
            assert_eq!(!sample.incomplete(), query["complete"].as_bool().unwrap(), "{query}");
            let sum = query["sum"].as_f64().unwrap();
            assert!((sample.weight() - sum).abs() <= 1e-9 * sum, "{query}: {}", sample.weight());
            let share = sample.share(|value, _| value <= 4).unwrap();
            assert!((share - query["sel_v_le_4"].as_f64().unwrap()).abs() < 1e-9, "{query}: {share}");
        }
    }
}
