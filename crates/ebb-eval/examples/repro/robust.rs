//! The accuracy and space of the duplicate- and order-insensitive sketches on a web-server stream, as in the paper's
//! experiment: 400,000 requests at 374 per second, a quarter of them repeats, most of them out of order, 30 hash seeds.
//!
//! The stream is synthetic and uses another generator than the reference, so figures differ as between two runs: root mean
//! squares over 30 seeds are accurate to about a quarter.

use std::collections::BTreeMap;

use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralSketch, IntegralSpec};
use ebb_sketch::aggregate::robust::{Accuracy, Element, ElementId, WindowSketch, WindowSpec};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::report::{Series, Table, plot};

const REQUESTS: u64 = 400_000;
const PER_SECOND: u64 = 374;
const EPSILON: f64 = 0.05;
const SEEDS: u64 = 30;
const W_MAX: u32 = 999;
const CONSTANTS: [u32; 6] = [1, 2, 5, 10, 20, 60];
const RATIOS: [u64; 3] = [2, 3, 4];

/// The queries of the experiment, in the order of [`Errors::sums`].
const SUMS: [&str; 5] = [
    "integral exponential 0.01/s",
    "integral polynomial 1",
    "window 200s",
    "real exponential 0.01/s",
    "real polynomial 1",
];

/// rms of the reference for each of [`SUMS`], by constant; the real-valued decays were not measured for the first.
const REFERENCE_RMS: [[Option<f64>; 6]; 5] = [
    [Some(0.070), Some(0.049), Some(0.024), Some(0.017), Some(0.012), Some(0.004)],
    [Some(0.045), Some(0.033), Some(0.025), Some(0.016), Some(0.011), Some(0.007)],
    [Some(0.055), Some(0.045), Some(0.022), Some(0.015), Some(0.009), Some(0.005)],
    [None, Some(0.027), Some(0.017), Some(0.011), Some(0.007), Some(0.0025)],
    [None, Some(0.021), Some(0.013), Some(0.0086), Some(0.0058), Some(0.0023)],
];
/// max and seeds within epsilon, for the first three.
const REFERENCE_MAX: [[(f64, u64); 6]; 3] = [
    [(0.191, 14), (0.115, 22), (0.052, 29), (0.048, 30), (0.028, 30), (0.011, 30)],
    [(0.120, 22), (0.081, 26), (0.072, 29), (0.035, 30), (0.028, 30), (0.012, 30)],
    [(0.136, 21), (0.085, 21), (0.040, 30), (0.037, 30), (0.023, 30), (0.012, 30)],
];
const REFERENCE_SHARE: [&str; 6] = [".044-.050", ".031-.037", ".013-.015", ".007-.008", ".005-.006", ".003-.004"];
const REFERENCE_NODES: [(u64, u64); 6] =
    [(6_201, 2_205), (14_375, 4_146), (34_476, 9_337), (66_893, 16_854), (127_665, 29_856), (346_036, 70_144)];
const PAPER_NODES: [&str; 6] = ["", "about 10000", "", "", "about 100000", ""];

/// Errors of one seed and constant.
#[derive(Clone, Default)]
struct Errors {
    sums: [f64; 5],
    shares: [f64; 3],
    nodes: f64,
    distinct: f64,
}

pub fn run() {
    let stream = requests();
    let truth = Truth::of(&stream);
    println!(
        "\n{} requests, {:.1}% repeats, {:.1}% out of order, queried at {}s",
        stream.elements.len(),
        100.0 * (1.0 - stream.distinct as f64 / stream.elements.len() as f64),
        100.0 * stream.out_of_order(),
        stream.as_of_ms / 1000
    );
    let errors: Vec<Vec<Errors>> = CONSTANTS.iter().map(|c| all_seeds(*c, &stream, &truth)).collect();
    publish_sums(&errors);
    publish_shares(&errors);
    publish_space(&errors);
}

/// The seeds are independent and are divided between the cores.
fn all_seeds(constant: u32, stream: &Stream, truth: &Truth) -> Vec<Errors> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(SEEDS);
    std::thread::scope(|scope| {
        let part = |first: u64| {
            (first..SEEDS).step_by(threads as usize).map(|seed| one_seed(constant, 1000 + seed, stream, truth))
        };
        let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first).collect::<Vec<_>>())).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    })
}

fn one_seed(constant: u32, seed: u64, stream: &Stream, truth: &Truth) -> Errors {
    let accuracy = Accuracy::with_sample_size(constant * 400).expect("a sample size");
    let integral = |decay| IntegralSpec::new(accuracy, decay, 1000, (W_MAX, 1), seed).expect("a specification");
    let mut exponential = IntegralSketch::new(&integral(exponential_decay()));
    let mut polynomial = IntegralSketch::new(&integral(polynomial_decay()));
    let mut window = WindowSketch::new(&WindowSpec::new(accuracy, W_MAX, 90_000_000, seed).expect("a specification"));
    for element in stream.elements.iter().filter(|element| element.weight > 0) {
        exponential.insert(*element).expect("a valid element");
        polynomial.insert(*element).expect("a valid element");
        window.insert(*element).expect("a valid element");
    }
    let as_of = stream.as_of_ms;
    let recent = window.query(as_of, &window_200s()).expect("an answer");
    let mut sums = [
        exponential.query(as_of).expect("an answer").weight().value,
        polynomial.query(as_of).expect("an answer").weight().value,
        recent.weight().value,
        window.query(as_of, &real_exponential()).expect("an answer").weight().value,
        window.query(as_of, &real_polynomial()).expect("an answer").weight().value,
    ];
    sums.iter_mut().zip(truth.sums).for_each(|(sum, truth)| *sum = *sum / truth - 1.0);
    let share = |ratio: u64| recent.samples()[0].share(|value, weight| value > ratio * weight).unwrap_or(0.0);
    let shares = std::array::from_fn(|i| share(RATIOS[i]) - truth.shares[i]);
    Errors { sums, shares, nodes: window.node_count() as f64, distinct: window.entry_count() as f64 }
}

fn exponential_decay() -> IntegralDecay {
    IntegralDecay::exponential(0.01, W_MAX).expect("a decay")
}

fn polynomial_decay() -> IntegralDecay {
    IntegralDecay::polynomial(1).expect("a decay")
}

fn window_200s() -> Decay {
    Decay::window(200_000).expect("a decay")
}

fn real_exponential() -> Decay {
    Decay::exponential(0.01 / 1000.0).expect("a decay")
}

fn real_polynomial() -> Decay {
    Decay::polynomial(1.0, 1000.0).expect("a decay")
}

/// Exact answers over the distinct elements.
struct Truth {
    sums: [f64; 5],
    shares: [f64; 3],
}

impl Truth {
    fn of(stream: &Stream) -> Self {
        let mut distinct: Vec<Element> = stream.elements.iter().filter(|element| element.weight > 0).copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let (exponential, polynomial) = (exponential_decay(), polynomial_decay());
        let seconds = |age_ms: u64| age_ms / 1000;
        let total = |amount: &dyn Fn(&Element, u64) -> f64| -> f64 {
            let seen = distinct.iter().filter(|element| element.time_ms <= stream.as_of_ms);
            seen.map(|element| amount(element, stream.as_of_ms.abs_diff(element.time_ms))).sum()
        };
        let real = |decay: Decay| total(&|element, age| f64::from(element.weight) * decay.weight(age));
        let recent = real(window_200s());
        let selected = |ratio: u64| {
            let selects = |element: &Element| element.value > ratio * u64::from(element.weight);
            let window = window_200s();
            total(&|e, age| if selects(e) { f64::from(e.weight) * window.weight(age) } else { 0.0 }) / recent
        };
        let sums = [
            total(&|element, age| f64::from(exponential.live(element.weight, seconds(age)))),
            total(&|element, age| f64::from(polynomial.live(element.weight, seconds(age)))),
            recent,
            real(real_exponential()),
            real(real_polynomial()),
        ];
        Self { sums, shares: RATIOS.map(selected) }
    }
}

fn rms(errors: impl Iterator<Item = f64>) -> f64 {
    let errors: Vec<f64> = errors.collect();
    (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt()
}

fn publish_sums(errors: &[Vec<Errors>]) {
    let columns = [
        "sum under",
        "C",
        "tau",
        "rms",
        "max",
        "within eps",
        "rms / sqrt(2/tau)",
        "reference rms",
        "max",
        "within eps",
    ];
    let mut table = Table::new("robust_sums", &columns);
    let mut curves: Vec<Series> = Vec::new();
    for (sum, name) in SUMS.iter().enumerate() {
        let mut points = Vec::new();
        for (index, constant) in CONSTANTS.iter().enumerate() {
            let seeds = || errors[index].iter().map(|seed| seed.sums[sum]);
            let tau = constant * 400;
            let measured = rms(seeds());
            let max_error = seeds().fold(0.0, |max_error: f64, error| max_error.max(error.abs()));
            let within = seeds().filter(|error| error.abs() <= EPSILON).count();
            let bound = (2.0 / f64::from(tau)).sqrt();
            let reference = REFERENCE_MAX.get(sum).map(|rows| rows[index]);
            let shown = |value: Option<String>| value.unwrap_or_default();
            table.row([
                name.to_string(),
                constant.to_string(),
                tau.to_string(),
                format!("{measured:.4}"),
                format!("{max_error:.4}"),
                format!("{within}/{SEEDS}"),
                format!("{:.2}", measured / bound),
                shown(REFERENCE_RMS[sum][index].map(|rms| rms.to_string())),
                shown(reference.map(|(max_error, _)| max_error.to_string())),
                shown(reference.map(|(_, within)| format!("{within}/30"))),
            ]);
            points.push((f64::from(*constant).log2(), measured));
        }
        curves.push(Series { label: name.to_string(), points });
    }
    let bound = |constant: &u32| (f64::from(*constant).log2(), (2.0 / f64::from(constant * 400)).sqrt());
    curves.push(Series { label: "sqrt(2 / tau)".into(), points: CONSTANTS.iter().map(bound).collect() });
    table.publish();
    plot("robust_sums", "Relative error of decayed sums, 30 seeds", "log2 C (tau = 400 C)", "rms error", &curves);
}

fn publish_shares(errors: &[Vec<Errors>]) {
    let mut table = Table::new("robust_shares", &["C", "value/weight > 2", "> 3", "> 4", "within eps", "reference"]);
    for ((constant, seeds), reference) in CONSTANTS.iter().zip(errors).zip(REFERENCE_SHARE) {
        let of = |index: usize| format!("{:.4}", rms(seeds.iter().map(|seed| seed.shares[index])));
        let within = seeds.iter().flat_map(|seed| seed.shares).filter(|error| error.abs() <= EPSILON).count();
        let within = format!("{within}/{}", 3 * SEEDS);
        table.row([constant.to_string(), of(0), of(1), of(2), within, reference.to_string()]);
    }
    table.publish();
}

fn publish_space(errors: &[Vec<Errors>]) {
    let columns = ["C", "nodes", "elements stored", "reference nodes", "reference elements", "paper nodes"];
    let mut table = Table::new("robust_space", &columns);
    let mean = |seeds: &[Errors], of: fn(&Errors) -> f64| seeds.iter().map(of).sum::<f64>() / seeds.len() as f64;
    let (mut nodes, mut elements) = (Vec::new(), Vec::new());
    for (index, (constant, seeds)) in CONSTANTS.iter().zip(errors).enumerate() {
        let (held_nodes, stored) = (mean(seeds, |seed| seed.nodes), mean(seeds, |seed| seed.distinct));
        let (reference_nodes, reference_elements) = REFERENCE_NODES[index];
        table.row([
            constant.to_string(),
            format!("{held_nodes:.0}"),
            format!("{stored:.0}"),
            reference_nodes.to_string(),
            reference_elements.to_string(),
            PAPER_NODES[index].to_string(),
        ]);
        nodes.push((f64::from(*constant), held_nodes));
        elements.push((f64::from(*constant), stored));
    }
    table.publish();
    let curves = [
        Series { label: "one copy a level (the paper)".into(), points: nodes },
        Series { label: "each element once (stored)".into(), points: elements },
    ];
    plot("robust_space", "What is stored for any window up to 25 h", "C (tau = 400 C)", "elements", &curves);
}

/// Requests in the order in which they arrive.
struct Stream {
    elements: Vec<Element>,
    distinct: usize,
    as_of_ms: i64,
}

impl Stream {
    fn out_of_order(&self) -> f64 {
        let mut newest = i64::MIN;
        let late = |element: &&Element| {
            newest = newest.max(element.time_ms);
            element.time_ms < newest
        };
        self.elements.iter().filter(late).count() as f64 / self.elements.len() as f64
    }
}

/// Cumulated weights of ranks 1..=count with the given exponent.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: usize, exponent: f64) -> Self {
        let mut total = 0.0;
        let mut next = |rank: usize| {
            total += (rank as f64).powf(-exponent);
            total
        };
        Self((1..=count).map(&mut next).collect())
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.unit() * self.0[self.0.len() - 1];
        self.0.partition_point(|cumulated| *cumulated < at)
    }
}

fn permutation(random: &mut Random, count: usize) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count as u64).collect();
    for index in (1..count).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
    order
}

/// Requests of (client, object, server); the same second, client class and server is the same observation. The streams of the
/// servers are interleaved with jitter.
fn requests() -> Stream {
    let mut random = Random::new(42);
    let (clients, objects) = (Zipf::new(20_000, 1.02), Zipf::new(5_000, 0.8));
    let (client_names, object_names) = (permutation(&mut random, 20_000), permutation(&mut random, 5_000));
    let sizes: Vec<u64> = (0..5_000).map(|_| object_size(&mut random)).collect();
    let mut servers: BTreeMap<u64, Vec<Element>> = BTreeMap::new();
    let mut seen: BTreeMap<u64, Element> = BTreeMap::new();
    for index in 0..REQUESTS {
        let second = index / PER_SECOND;
        let server = (-6.0 * (1.0 - random.unit()).ln()).min(29.0) as u64;
        let client = client_names[clients.draw(&mut random)];
        let object = object_names[objects.draw(&mut random)];
        let id = (second * 100 + client % 100) * 100 + server;
        let element = *seen.entry(id).or_insert(Element {
            time_ms: second as i64 * 1000,
            id: ElementId::from_bits(u128::from(id)),
            value: sizes[object as usize] % 100_000,
            weight: (object * 7 % 1000) as u32,
        });
        servers.entry(server).or_default().push(element);
    }
    let mut arrivals: Vec<(f64, Element)> = Vec::with_capacity(REQUESTS as usize);
    for part in servers.values() {
        let mut positions: Vec<f64> =
            (0..part.len()).map(|j| (j as f64 + 40.0 * random.unit()) / part.len() as f64).collect();
        positions.sort_by(f64::total_cmp);
        arrivals.extend(positions.into_iter().zip(part.iter().copied()));
    }
    arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let elements: Vec<Element> = arrivals.into_iter().map(|(_, element)| element).collect();
    let as_of_ms = elements.iter().map(|element| element.time_ms).max().unwrap_or(0) + 2000;
    Stream { elements, distinct: seen.len(), as_of_ms }
}

/// Log-normal, by Box and Muller.
fn object_size(random: &mut Random) -> u64 {
    let (angle, radius) = (random.unit() * std::f64::consts::TAU, (-2.0 * (1.0 - random.unit()).ln()).sqrt());
    (7.3 + 1.4 * radius * angle.cos()).exp().min(99_999.0) as u64 + 1
}
