//! Out-of-order aggregates: memory as a function of decay and error, and the cost of an update.
//!
//! Streams are generated like those of the reference (flows ordered by end and stamped with their start; four days of requests
//! stamped with the time of day), but with other random numbers: curves agree, single figures may differ.

use std::time::Instant;

use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::division::{DivisionShape, DivisionSketch};
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::qdigest::{DigestShape, QDigest};
use ebb_sketch::aggregate::{Observation, SummaryShape};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::report::{Series, Table, plot};

const LENGTH: usize = 200_000;
const SPAN_MS: u64 = 1 << 20;
const BITS: u8 = 16;

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.unit().max(1e-300).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

fn size(mean: f64, deviation: f64, random: &mut Random) -> u64 {
    (mean + deviation * normal(random)).exp().min(65_535.0) as u64
}

fn observation(time: u64, value: u64) -> Observation {
    Observation { time_ms: time as i64, value, label: 0, weight: 1.0 }
}

/// Flows in the order of their ends, stamped with their starts.
fn flows() -> Vec<Observation> {
    let mut random = Random::new(2008);
    let mut flows: Vec<(u64, u64, u64)> = (0..LENGTH)
        .map(|_| {
            let start = random.below(SPAN_MS);
            let long = random.unit() < 0.3;
            let duration = if long { (-600.0 * random.unit().max(1e-300).ln()) as u64 } else { random.below(60) };
            (start + duration.min(SPAN_MS - 1 - start), start, size(6.5, 2.0, &mut random))
        })
        .collect();
    flows.sort_unstable();
    flows.into_iter().map(|(_, start, size)| observation(start, size)).collect()
}

/// Four days of requests for a few thousand pages, stamped with the second of the day.
fn requests() -> Vec<Observation> {
    const DAY: f64 = 86_400.0;
    let mut random = Random::new(1998);
    let pages: Vec<u64> = (0..2000).map(|_| size(7.5, 1.6, &mut random)).collect();
    let mut requests = Vec::with_capacity(LENGTH);
    for _ in 0..4 {
        // The third of four uniform draws is distributed like Beta(3, 2).
        let mut times: Vec<u64> = (0..LENGTH / 4)
            .map(|_| {
                let mut draws: [f64; 4] = std::array::from_fn(|_| random.unit());
                draws.sort_by(f64::total_cmp);
                (DAY * draws[2]) as u64
            })
            .collect();
        times.sort_unstable();
        for time in times {
            let popular = (random.unit().max(1e-12).powf(-1.0 / 0.7) as usize).saturating_sub(1).min(1999);
            let page = if random.unit() < 0.8 { popular } else { random.below(2000) as usize };
            requests.push(observation(time, pages[page]));
        }
    }
    requests
}

fn content(beta: f64) -> SummaryShape {
    SummaryShape::totals().with_values(DigestShape::new(BITS, beta).expect("a digest"))
}

/// Cells, nodes and microseconds per update.
struct Run {
    cells: usize,
    nodes: usize,
    update_us: f64,
}

fn timed<S>(stream: &[Observation], mut structure: S, insert: impl Fn(&mut S, &Observation)) -> (S, f64) {
    let start = Instant::now();
    stream.iter().for_each(|one| insert(&mut structure, one));
    (structure, start.elapsed().as_secs_f64() * 1e6 / stream.len() as f64)
}

fn division(stream: &[Observation], alpha: f64, theta: f64, beta: f64) -> Run {
    let decay = Decay::polynomial(alpha, 1.0).expect("a power");
    let shape = DivisionShape::new(decay, theta, 1 << 30, content(beta)).expect("a division");
    let (mut cells, update_us) =
        timed(stream, DivisionSketch::new(shape), |cells, one| cells.insert(one).expect("within the horizon"));
    let newest_ms = cells.newest_ms().expect("some");
    cells.advance(newest_ms).expect("a time");
    Run { cells: cells.cells().count(), nodes: cells.node_count(), update_us }
}

fn capacity(epsilon: f64) -> u32 {
    (4.0 * 20.0 / epsilon) as u32 + 44
}

fn cascade(stream: &[Observation], epsilon: f64) -> Run {
    let shape = CascadeSketch::shape(epsilon, SPAN_MS, content(epsilon / 2.0)).expect("a cascade");
    let fresh = CascadeSketch::new(shape.with_capacity(capacity(epsilon)));
    let (cascade, update_us) = timed(stream, fresh, |cascade, one| cascade.insert(one).expect("within the horizon"));
    let ranges = cascade.levels().iter().map(|level| level.ranges.len()).sum();
    Run { cells: ranges, nodes: cascade.node_count(), update_us }
}

fn levels(stream: &[Observation], epsilon: f64) -> Run {
    let shape = LevelsSketch::shape(epsilon, SPAN_MS, content(epsilon / 2.0)).expect("levels");
    // The reference lets a level grow to 5/4 of its capacity before compaction, production to 9/8: equal peak sizes.
    let fresh = LevelsSketch::new(shape.with_capacity(capacity(epsilon) * 10 / 9));
    let (levels, update_us) = timed(stream, fresh, |levels, one| levels.insert(one).expect("within the horizon"));
    let ranges = levels.levels().2.iter().map(|level| level.ranges.len()).sum();
    Run { cells: ranges, nodes: levels.node_count(), update_us }
}

fn no_decay(stream: &[Observation], beta: f64) -> Run {
    let fresh = QDigest::new(DigestShape::new(BITS, beta).expect("a digest"));
    let (digest, update_us) = timed(stream, fresh, |digest, one| digest.insert(one.value, 1.0));
    Run { cells: 1, nodes: digest.nodes().len(), update_us }
}

fn thousands(nodes: usize) -> String {
    format!("{:.1}k", nodes as f64 / 1e3)
}

/// Memory against the power of the decay, at eps = 0.1.
fn memory_by_power(flows: &[Observation], requests: &[Observation]) {
    let powers = [0.5, 1.0, 2.0, 3.0, 4.0];
    let reference = [
        ("flows", flows, [14.0, 24.4, 39.5, 53.8, 68.5], [48, 91, 153, 216, 285], [38.0, 64.6, 107.8, 139.9, 161.9]),
        ("requests", requests, [11.3, 17.6, 30.9, 36.7, 40.3], [0; 5], [32.9, 41.1, 49.0, 53.6, 57.2]),
    ];
    let columns =
        ["stream", "alpha", "cells", "reference cells", "nodes", "reference nodes", "printed rule, reference"];
    let mut table = Table::new("order_room_by_power", &columns);
    let mut curves = Vec::new();
    for (name, stream, nodes, cells, printed) in reference {
        let mut curve = Vec::new();
        for (index, alpha) in powers.into_iter().enumerate() {
            let run = division(stream, alpha, 0.2, 0.05);
            let cells = if cells[index] > 0 { cells[index].to_string() } else { "not given".into() };
            table.row([
                name.into(),
                alpha.to_string(),
                run.cells.to_string(),
                cells,
                thousands(run.nodes),
                format!("{}k", nodes[index]),
                format!("{}k", printed[index]),
            ]);
            curve.push((alpha, run.nodes as f64 / 1e3));
        }
        curves.push(Series { label: format!("{name}: division"), points: curve });
        let points = |of: [f64; 5]| powers.into_iter().zip(of).collect();
        curves.push(Series { label: format!("{name}: division, reference"), points: points(nodes) });
        curves.push(Series { label: format!("{name}: printed rule, reference"), points: points(printed) });
    }
    table.publish();
    plot(
        "order_room_by_power",
        "Memory of decayed quantiles, eps = 0.1",
        "alpha of (1 + age)^-alpha",
        "nodes / 1000",
        &curves,
    );
}

/// Memory against the error, for one decay and for any window.
fn memory_by_error(flows: &[Observation]) {
    let errors = [0.3, 0.2, 0.1, 0.05];
    type Method = fn(&[Observation], f64) -> Run;
    let methods: [(&str, Method, [f64; 4]); 3] = [
        ("division, alpha 2", |stream, eps| division(stream, 2.0, 2.0 * eps, eps / 2.0), [7.2, 12.9, 39.5, 101.0]),
        ("cascade, any window", cascade, [188.0, 193.0, 195.0, 198.0]),
        ("levels, any window", levels, [232.0, 369.0, 363.0, 379.0]),
    ];
    let mut table = Table::new("order_room_by_error", &["method", "eps", "nodes", "reference nodes", "observations"]);
    let mut curves = Vec::new();
    for (name, method, reference) in methods {
        let mut curve = Vec::new();
        for (index, epsilon) in errors.into_iter().enumerate() {
            let run = method(flows, epsilon);
            let reference = format!("{}k", reference[index]);
            table.row([name.into(), epsilon.to_string(), thousands(run.nodes), reference, thousands(LENGTH)]);
            curve.push((epsilon, run.nodes as f64 / 1e3));
        }
        curves.push(Series { label: name.into(), points: curve });
        let points = errors.into_iter().zip(reference).collect();
        curves.push(Series { label: format!("{name}, reference"), points });
    }
    table.publish();
    plot("order_room_by_error", "Memory of decayed quantiles, 200k flows", "eps", "nodes / 1000", &curves);
}

/// Cost of an update at eps = 0.1; only the order of the methods is comparable with the reference.
fn update_cost(flows: &[Observation], requests: &[Observation]) {
    let columns = ["stream", "method", "us / update", "of no decay", "reference us / update (Python)", "of no decay"];
    let mut table = Table::new("order_cost_of_updates", &columns);
    for (name, stream, reference) in
        [("flows", flows, [16.0, 32.0, 44.0, 119.0]), ("requests", requests, [7.4, 20.0, 45.0, 97.0])]
    {
        let runs = [
            ("no decay", no_decay(stream, 0.1)),
            ("division, alpha 2", division(stream, 2.0, 0.2, 0.05)),
            ("cascade", cascade(stream, 0.1)),
            ("levels", levels(stream, 0.1)),
        ];
        for (index, (method, run)) in runs.iter().enumerate() {
            table.row([
                name.into(),
                (*method).into(),
                format!("{:.3}", run.update_us),
                format!("x{:.1}", run.update_us / runs[0].1.update_us),
                reference[index].to_string(),
                format!("x{:.1}", reference[index] / reference[0]),
            ]);
        }
        assert!(runs.iter().all(|(_, run)| run.nodes > 0 && run.cells > 0));
    }
    table.publish();
}

pub fn run() {
    let (flows, requests) = (flows(), requests());
    memory_by_power(&flows, &requests);
    memory_by_error(&flows);
    update_cost(&flows, &requests);
}
