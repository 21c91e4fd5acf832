//! The promise that has no exceptions: the truth lies within the bounds. Counted, so that nobody can ask too little.

use ebb_sketch::aggregate::answer::{Estimate, Guarantee};
use ebb_sketch::aggregate::cascade::Cascade;
use ebb_sketch::aggregate::content::{ContentShape, Labels, Observation, QuestionError, Totals, Values};
use ebb_sketch::aggregate::division::{Division, DivisionShape};
use ebb_sketch::aggregate::forward::Forward;
use ebb_sketch::aggregate::levels::Levels;
use ebb_sketch::aggregate::qdigest::DigestShape;
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::oracle::{self, DISORDERS, Exact, Stream};

const HORIZON_MS: u64 = 5000;
const VALUE_MOST: u64 = 255;

/// The structures under one name, to be asked alike.
enum Method {
    Cascade(Cascade),
    Levels(Levels),
    Division(Division),
    Forward(Forward),
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

    fn totals(&self, now_ms: i64, decay: &Decay) -> Result<Totals, QuestionError> {
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

/// A window that begins right at the edge of a level, where a slip by one would show.
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
    let content = ContentShape::totals().with_values(DigestShape::new(8, 0.2).unwrap()).with_labels(40).unwrap();
    let cascade = Cascade::shape(0.2, HORIZON_MS, content).unwrap();
    let levels = Levels::shape(0.2, HORIZON_MS, content).unwrap();
    let smooth = Decay::polynomial(1.0, 10.0).unwrap();
    let division = DivisionShape::new(smooth, 0.2, HORIZON_MS, content).unwrap();
    vec![
        ("cascade", Method::Cascade(Cascade::new(cascade))),
        ("small cascade", Method::Cascade(Cascade::new(cascade.with_capacity(24)))),
        ("levels", Method::Levels(Levels::new(levels))),
        ("small levels", Method::Levels(Levels::new(levels.with_capacity(30)))),
        ("division", Method::Division(Division::new(division))),
        ("forward", Method::Forward(Forward::new(rate, content).unwrap())),
    ]
}

/// How many answers were examined and how many broke a promise.
#[derive(Default)]
struct Tally {
    asked: u64,
    outside: u64,
    beyond_epsilon: u64,
    first: Option<String>,
    first_outside: Option<String>,
}

impl Tally {
    fn bounds(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.asked += 1;
        if !holds {
            self.outside += 1;
            self.first_outside.get_or_insert_with(what);
        }
    }

    /// The error that was promised (not the one the bounds happen to leave open) holds as well.
    fn epsilon(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.beyond_epsilon += 1;
            self.first.get_or_insert_with(what);
        }
    }
}

fn promised(estimate: &Estimate) -> f64 {
    match estimate.guarantee {
        Guarantee::Exact => 1e-9,
        Guarantee::Deterministic { epsilon } | Guarantee::Probabilistic { epsilon, .. } => epsilon + 1e-9,
    }
}

fn ask(name: &str, method: &Method, seen: &Exact, question: (i64, &Decay), random: &mut Random, tally: &mut Tally) {
    let (now_ms, decay) = question;
    let horizon_ms = if matches!(method, Method::Forward(_)) { u64::MAX } else { HORIZON_MS };
    let truth = seen.decayed(now_ms, decay, horizon_ms);
    let whole = oracle::total(&truth);
    let totals = method.totals(now_ms, decay).unwrap();
    let small = match method {
        Method::Division(division) => division.require(decay, division.shape().theta()).is_err(),
        Method::Cascade(_) | Method::Levels(_) | Method::Forward(_) => name.starts_with("small"),
    };
    let told =
        |what: &str, ours: &dyn std::fmt::Debug, exact: f64| format!("{name} {what} {decay}: {ours:?} of {exact}");

    let count = totals.count();
    tally.bounds(count.covers(whole), || told("count", &count, whole));
    // Where nothing is promised beforehand, the error that is named is relative to the answer itself.
    let base = if small { whole.max(count.value) } else { whole };
    tally.epsilon((count.value - whole).abs() <= promised(&count) * base, || told("count", &count, whole));
    let (sum, exact_sum) = (totals.sum(), oracle::sum(&truth));
    tally.bounds(sum.covers(exact_sum), || told("sum", &sum, exact_sum));
    if let Some(mean) = totals.mean().filter(|_| whole > 0.0) {
        tally.bounds(mean.covers(exact_sum / whole), || told("mean", &mean, exact_sum / whole));
    }

    let values = method.values(now_ms, decay);
    let base = if small { base.max(values.total().value) } else { base };
    for _ in 0..8 {
        let value = random.below(VALUE_MOST + 2);
        let (rank, exact) = (values.rank(value), oracle::rank(&truth, value));
        tally.bounds(rank.covers(exact), || told("rank", &rank, exact));
        tally.epsilon((rank.value - exact).abs() <= promised(&rank) * base + 1e-9, || told("rank", &rank, exact));
        if whole > 0.0 {
            let predicate = format!("value < {} or value = {value}", value / 2).parse().unwrap();
            let share = values.share(&predicate).unwrap().unwrap();
            let meant = truth.iter().filter(|(one, _)| predicate.matches(one.value, 0));
            let exact = meant.map(|(_, weight)| weight).sum::<f64>() / whole;
            tally.bounds(share.covers(exact), || told("share", &share, exact));
        }
    }
    for phi in [0.05, 0.5, random.unit()] {
        let Some(found) = values.quantile(phi).unwrap() else { continue };
        let exact = oracle::quantile(&truth, phi);
        let within = (found.lower..=found.upper).contains(&exact) || whole == 0.0;
        tally.bounds(within, || told("quantile", &found, exact as f64));
        let Guarantee::Deterministic { epsilon } = found.guarantee else { continue };
        let below = if found.value == 0 { 0.0 } else { oracle::rank(&truth, found.value - 1) };
        let through = oracle::rank(&truth, found.value);
        let accepted = below <= (phi + epsilon + 1e-9) * whole && through >= (phi - epsilon - 1e-9) * whole;
        tally.epsilon(accepted, || told("quantile", &found, exact as f64));
    }
    let labels = method.labels(now_ms, decay);
    for label in [0, 1, 7, u128::from(random.below(64)), u128::from(random.below(512))] {
        let (bounds, exact) = (labels.weight_of(label), oracle::of_label(&truth, label));
        let holds = bounds.lower <= exact * (1.0 + 1e-9) + 1e-12 && exact <= bounds.upper * (1.0 + 1e-9) + 1e-12;
        tally.bounds(holds, || told("label", &bounds, exact));
    }
}

#[test]
fn no_answer_of_a_hundred_thousand_leaves_its_bounds_or_its_promised_error() {
    let rounds: u64 = std::env::var("EBB_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5);
    let rate = Decay::half_life(400.0).unwrap();
    let mut tally = Tally::default();
    for round in 0..rounds {
        for disorder in DISORDERS {
            let mut random = Random::new(round << 8 | disorder as u64);
            // The span passes the horizon in some rounds, so that things expire.
            let span_ms = if round % 3 == 2 { 3 * HORIZON_MS } else { HORIZON_MS };
            let weight_most = if round % 2 == 0 { 1 } else { 9 };
            let begin_ms = if round % 2 == 0 { 1_794_700_000_000 } else { -2_000 };
            let stream = Stream { length: 4000, begin_ms, span_ms, value_most: VALUE_MOST, weight_most };
            let observations = stream.observations(disorder, &mut random);
            for (name, mut method) in methods(&rate) {
                let mut seen = Exact::default();
                for (place, one) in observations.iter().enumerate() {
                    if method.insert(one) {
                        seen.seen.push(*one);
                    }
                    if place % 500 == 499 {
                        for question in 0..4 {
                            let now_ms = seen.newest_ms() + (random.below(3) * random.below(200)) as i64;
                            let forward = matches!(method, Method::Forward(_));
                            let edge = window_at_a_floor(&method, now_ms, &mut random).filter(|_| question < 2);
                            let any = if forward { rate.clone() } else { oracle::any_decay(HORIZON_MS, &mut random) };
                            let decay = edge.unwrap_or(any);
                            ask(name, &method, &seen, (now_ms, &decay), &mut random, &mut tally);
                        }
                    }
                }
            }
        }
    }
    println!("{} answers, {} outside, {} beyond", tally.asked, tally.outside, tally.beyond_epsilon);
    assert_eq!(
        (tally.outside, tally.beyond_epsilon),
        (0, 0),
        "of {}: {:?} {:?}",
        tally.asked,
        tally.first_outside,
        tally.first
    );
    assert!(tally.asked >= (rounds * 20_000).max(100_000), "only {} answers were examined", tally.asked);
}
