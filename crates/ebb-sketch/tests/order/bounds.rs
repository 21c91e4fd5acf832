//! The true number lies within the bounds, without exception. Answers are counted, so that too few queries fail the test.

use ebb_sketch::aggregate::answer::{Estimate, Guarantee};
use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::division::{DivisionShape, DivisionSketch};
use ebb_sketch::aggregate::forward::{ForwardShape, ForwardSketch};
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::qdigest::DigestShape;
use ebb_sketch::aggregate::{DecayedSketch, Labels, Observation, QueryError, SummaryShape, Totals, Values};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::oracle::{self, DISORDERS, Exact, Stream};

const HORIZON_MS: u64 = 5000;
const MAX_VALUE: u64 = 255;

/// The deterministic methods, to be queried alike.
enum Method {
    Cascade(CascadeSketch),
    Levels(LevelsSketch),
    Division(DivisionSketch),
    Forward(ForwardSketch),
}

impl Method {
    fn insert(&mut self, one: &Observation) -> bool {
        match self {
            Self::Cascade(cascade) => cascade.insert(one).is_ok(),
            Self::Levels(levels) => levels.insert(one).is_ok(),
            Self::Division(division) => division.insert(one).is_ok(),
            Self::Forward(forward) => forward.insert(one).is_ok(),
        }
    }

    fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QueryError> {
        match self {
            Self::Cascade(cascade) => cascade.totals(now_ms, decay),
            Self::Levels(levels) => levels.totals(now_ms, decay),
            Self::Division(division) => division.totals(now_ms, decay),
            Self::Forward(forward) => forward.totals(now_ms, decay),
        }
    }

    fn values(&self, now_ms: i64, decay: &Decay) -> Values {
        match self {
            Self::Cascade(cascade) => cascade.values(now_ms, decay),
            Self::Levels(levels) => levels.values(now_ms, decay),
            Self::Division(division) => division.values(now_ms, decay),
            Self::Forward(forward) => forward.values(now_ms, decay),
        }
        .unwrap()
    }

    fn labels(&self, now_ms: i64, decay: &Decay) -> Labels {
        match self {
            Self::Cascade(cascade) => cascade.labels(now_ms, decay),
            Self::Levels(levels) => levels.labels(now_ms, decay),
            Self::Division(division) => division.labels(now_ms, decay),
            Self::Forward(forward) => forward.labels(now_ms, decay),
        }
        .unwrap()
    }
}

/// A window that begins at the floor of a level, where an error of one would show.
fn window_at_a_floor(method: &Method, now_ms: i64, random: &mut Random) -> Option<Decay> {
    let floors: Vec<i64> = match method {
        Method::Cascade(cascade) => cascade.levels().iter().filter_map(|level| level.floor_ms).collect(),
        Method::Levels(levels) => levels.levels().2.iter().filter_map(|level| level.floor_ms).collect(),
        Method::Division(_) | Method::Forward(_) => Vec::new(),
    };
    let floor_ms = floors.get(random.below(floors.len() as u64) as usize)?;
    let width = now_ms - floor_ms + random.below(3) as i64 - 1;
    u64::try_from(width)
        .ok()
        .filter(|width| (1..=HORIZON_MS).contains(width))
        .and_then(|width| Decay::window(width).ok())
}

fn methods(rate: &Decay) -> Vec<(&'static str, Method)> {
    let summary = SummaryShape::totals().with_values(DigestShape::new(8, 0.2).unwrap()).with_labels(40).unwrap();
    let cascade = CascadeSketch::shape(0.2, HORIZON_MS, summary).unwrap();
    let levels = LevelsSketch::shape(0.2, HORIZON_MS, summary).unwrap();
    let smooth = Decay::polynomial(1.0, 10.0).unwrap();
    let division = DivisionShape::new(smooth, 0.2, HORIZON_MS, summary).unwrap();
    vec![
        ("cascade", Method::Cascade(CascadeSketch::new(cascade))),
        ("small cascade", Method::Cascade(CascadeSketch::new(cascade.with_capacity(24)))),
        ("levels", Method::Levels(LevelsSketch::new(levels))),
        ("small levels", Method::Levels(LevelsSketch::new(levels.with_capacity(30)))),
        ("division", Method::Division(DivisionSketch::new(division))),
        ("forward", Method::Forward(ForwardSketch::new(ForwardShape::new(rate, summary).unwrap()))),
    ]
}

/// How many answers were checked and how many violated a guarantee.
#[derive(Default)]
struct Checks {
    checked: u64,
    outside: u64,
    beyond_epsilon: u64,
    first: Option<String>,
    first_outside: Option<String>,
}

impl Checks {
    fn bounds(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.checked += 1;
        if !holds {
            self.outside += 1;
            self.first_outside.get_or_insert_with(what);
        }
    }

    /// The guaranteed error (not only the one the bounds leave open) holds.
    fn epsilon(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.beyond_epsilon += 1;
            self.first.get_or_insert_with(what);
        }
    }
}

fn guaranteed(estimate: &Estimate) -> f64 {
    match estimate.guarantee {
        Guarantee::Exact => 1e-9,
        Guarantee::Deterministic { epsilon } | Guarantee::Probabilistic { epsilon, .. } => epsilon + 1e-9,
    }
}

fn check(name: &str, method: &Method, seen: &Exact, query: (i64, &Decay), random: &mut Random, checks: &mut Checks) {
    let (now_ms, decay) = query;
    let horizon_ms = if matches!(method, Method::Forward(_)) { u64::MAX } else { HORIZON_MS };
    let truth = seen.decayed(now_ms, decay, horizon_ms);
    let whole = oracle::total(&truth);
    let totals = method.totals(now_ms, decay).unwrap();
    let small = match method {
        Method::Division(division) => division.check_theta(decay, division.shape().theta()).is_err(),
        Method::Cascade(_) | Method::Levels(_) | Method::Forward(_) => name.starts_with("small"),
    };
    let describe =
        |what: &str, ours: &dyn std::fmt::Debug, exact: f64| format!("{name} {what} {decay}: {ours:?} of {exact}");

    let count = totals.count();
    checks.bounds(count.covers(whole), || describe("count", &count, whole));
    // Without a guaranteed error, the stated one is relative to the answer.
    let base = if small { whole.max(count.value) } else { whole };
    checks.epsilon((count.value - whole).abs() <= guaranteed(&count) * base, || describe("count", &count, whole));
    let (sum, exact_sum) = (totals.sum(), oracle::sum(&truth));
    checks.bounds(sum.covers(exact_sum), || describe("sum", &sum, exact_sum));
    if let Some(mean) = totals.mean().filter(|_| whole > 0.0) {
        checks.bounds(mean.covers(exact_sum / whole), || describe("mean", &mean, exact_sum / whole));
    }

    let values = method.values(now_ms, decay);
    let base = if small { base.max(values.total().value) } else { base };
    for _ in 0..8 {
        let value = random.below(MAX_VALUE + 2);
        let (rank, exact) = (values.rank(value), oracle::rank(&truth, value));
        checks.bounds(rank.covers(exact), || describe("rank", &rank, exact));
        checks
            .epsilon((rank.value - exact).abs() <= guaranteed(&rank) * base + 1e-9, || describe("rank", &rank, exact));
        if whole > 0.0 {
            let predicate = format!("value < {} or value = {value}", value / 2).parse().unwrap();
            let share = values.share(&predicate).unwrap().unwrap();
            let selected = truth.iter().filter(|(one, _)| predicate.matches(one.value, 0));
            let exact = selected.map(|(_, weight)| weight).sum::<f64>() / whole;
            checks.bounds(share.covers(exact), || describe("share", &share, exact));
        }
    }
    for phi in [0.05, 0.5, random.unit()] {
        let Some(found) = values.quantile(phi).unwrap() else { continue };
        let exact = oracle::quantile(&truth, phi);
        let within = (found.lower..=found.upper).contains(&exact) || whole == 0.0;
        checks.bounds(within, || describe("quantile", &found, exact as f64));
        let Guarantee::Deterministic { epsilon } = found.guarantee else { continue };
        let below = if found.value == 0 { 0.0 } else { oracle::rank(&truth, found.value - 1) };
        let through = oracle::rank(&truth, found.value);
        let accepted = below <= (phi + epsilon + 1e-9) * whole && through >= (phi - epsilon - 1e-9) * whole;
        checks.epsilon(accepted, || describe("quantile", &found, exact as f64));
    }
    let labels = method.labels(now_ms, decay);
    for label in [0, 1, 7, u128::from(random.below(64)), u128::from(random.below(512))] {
        let (bounds, exact) = (labels.weight_of(label), oracle::of_label(&truth, label));
        let holds = bounds.lower <= exact * (1.0 + 1e-9) + 1e-12 && exact <= bounds.upper * (1.0 + 1e-9) + 1e-12;
        checks.bounds(holds, || describe("label", &bounds, exact));
    }
}

#[test]
fn hundred_thousand_answers_are_within_bounds_and_guaranteed_error() {
    let rounds: u64 = std::env::var("EBB_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5);
    let rate = Decay::half_life(400.0).unwrap();
    let mut checks = Checks::default();
    for round in 0..rounds {
        for disorder in DISORDERS {
            let mut random = Random::new(round << 8 | disorder as u64);
            // In some rounds the span exceeds the horizon, so that observations expire.
            let span_ms = if round % 3 == 2 { 3 * HORIZON_MS } else { HORIZON_MS };
            let max_weight = if round % 2 == 0 { 1 } else { 9 };
            let begin_ms = if round % 2 == 0 { 1_794_700_000_000 } else { -2_000 };
            let stream = Stream { length: 4000, begin_ms, span_ms, max_value: MAX_VALUE, max_weight };
            let observations = stream.observations(disorder, &mut random);
            for (name, mut method) in methods(&rate) {
                let mut seen = Exact::default();
                for (index, one) in observations.iter().enumerate() {
                    if method.insert(one) {
                        seen.seen.push(*one);
                    }
                    if index % 500 == 499 {
                        for round in 0..4 {
                            let now_ms = seen.newest_ms() + (random.below(3) * random.below(200)) as i64;
                            let forward = matches!(method, Method::Forward(_));
                            let edge = window_at_a_floor(&method, now_ms, &mut random).filter(|_| round < 2);
                            let any = if forward { rate.clone() } else { oracle::any_decay(HORIZON_MS, &mut random) };
                            let decay = edge.unwrap_or(any);
                            check(name, &method, &seen, (now_ms, &decay), &mut random, &mut checks);
                        }
                    }
                }
            }
        }
    }
    println!("{} answers, {} outside, {} beyond", checks.checked, checks.outside, checks.beyond_epsilon);
    assert_eq!(
        (checks.outside, checks.beyond_epsilon),
        (0, 0),
        "of {}: {:?} {:?}",
        checks.checked,
        checks.first_outside,
        checks.first
    );
    assert!(checks.checked >= (rounds * 20_000).max(100_000), "only {} answers were checked", checks.checked);
}
