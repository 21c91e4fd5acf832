//! The robust sketches, a direct port of the paper and an exact window in one run; then the latency of queries.

mod support;

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use criterion::Criterion;
use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::aggregate::paper::integral::{IntegralDecay, IntegralSketch, IntegralSpec, IntegralStore};
use ebb_sketch::aggregate::robust::hash::SampleHash;
use ebb_sketch::aggregate::robust::progression::Progression;
use ebb_sketch::aggregate::robust::store::WindowStore;
use ebb_sketch::aggregate::robust::{Accuracy, Element, ElementId, SampleStore, WindowSketch, WindowSpec};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::{Random, mix};
use support::{Peer, race};

const COUNT: usize = 1_000_000;
/// The port is slow, so it gets only the front of the stream.
const SLOW_COUNT: usize = COUNT / 8;

struct Workload {
    name: &'static str,
    per_second: u64,
    max_weight: u32,
}

const SLOW_FEED: Workload = Workload { name: "374 events/s, w <= 999", per_second: 374, max_weight: 999 };
const FAST_FEED: Workload = Workload { name: "100k events/s, w <= 999", per_second: 100_000, max_weight: 999 };
const HEAVY: Workload = Workload { name: "100k events/s, w <= 65536", per_second: 100_000, max_weight: 65_536 };
const UNIT: Workload = Workload { name: "100k events/s, w = 1", per_second: 100_000, max_weight: 1 };

/// A quarter of the events repeat one of the last thousand; times are up to three seconds out of order.
fn stream(workload: &Workload) -> Vec<Element> {
    let mut random = Random::new(99);
    let mut elements: Vec<Element> = Vec::with_capacity(COUNT);
    for index in 0..COUNT as u64 {
        if index > 1000 && random.below(4) == 0 {
            let back = 1 + random.below(1000) as usize;
            elements.push(elements[elements.len() - back]);
            continue;
        }
        let time_ms = (index * 1000 / workload.per_second) as i64 - random.below(3000) as i64;
        let id = ElementId::from_bits(u128::from(mix(index)) << 56 ^ u128::from(mix(!index)));
        let weight = 1 + random.below(u64::from(workload.max_weight)) as u32;
        elements.push(Element { time_ms, id, value: random.below(100_000), weight });
    }
    elements
}

/// The paper's structure: at every level a MinHit by Euclid, a heap of keys and a set of ids.
struct Port {
    hash: Arc<SampleHash>,
    tau: usize,
    levels: Vec<PortLevel>,
}

#[derive(Default)]
struct PortLevel {
    floor: Option<i64>,
    heap: BinaryHeap<Reverse<(i64, ElementId)>>,
    ids: HashSet<u128>,
}

impl Port {
    fn new(hash: Arc<SampleHash>, tau: u32) -> Self {
        let levels = (0..=hash.top_level()).map(|_| PortLevel::default()).collect();
        Self { hash, tau: tau as usize, levels }
    }

    fn insert(&mut self, element: &Element, death: impl Fn(u32, u32) -> u64) {
        let constants = self.hash.constants();
        let start = self.hash.start(element.id);
        let progression = Progression { modulus: constants.modulus, step: constants.step, start };
        for (index, level) in self.levels.iter_mut().enumerate() {
            if level.ids.contains(&element.id.bits()) {
                return;
            }
            let below = self.hash.threshold(index as u8);
            let Some(hit) = progression.min_hit(u64::from(element.weight), below) else { return };
            let key = element.time_ms + death(element.weight, hit as u32) as i64;
            if level.floor.is_none_or(|floor| key > floor) {
                level.ids.insert(element.id.bits());
                level.heap.push(Reverse((key, element.id)));
                level.trim(self.tau);
            }
        }
    }
}

impl PortLevel {
    fn trim(&mut self, tau: usize) {
        if self.heap.len() <= tau {
            return;
        }
        self.floor = self.heap.peek().map(|least| least.0.0);
        while let Some(Reverse((key, id))) = self.heap.peek().copied()
            && Some(key) <= self.floor
        {
            self.heap.pop();
            self.ids.remove(&id.bits());
        }
    }
}

/// Every element of the last hour, sorted by time.
#[derive(Default)]
struct SortedWindow {
    elements: BTreeMap<(i64, ElementId), (u64, u32)>,
    newest: i64,
}

impl SortedWindow {
    fn insert(&mut self, element: &Element) {
        self.elements.insert((element.time_ms, element.id), (element.value, element.weight));
        self.newest = self.newest.max(element.time_ms);
        while let Some(oldest) = self.elements.first_entry()
            && oldest.key().0 <= self.newest - 3_600_000
        {
            oldest.remove();
        }
    }
}

fn window_spec(tau: u32, max_weight: u32) -> WindowSpec {
    let accuracy = Accuracy::with_sample_size(tau).expect("a sample size");
    WindowSpec::new(accuracy, max_weight, 90_000_000, 5).expect("a specification")
}

fn race_any_window(workload: &Workload, tau: u32) {
    let elements = stream(workload);
    let spec = window_spec(tau, workload.max_weight);
    let hash = Arc::new(SampleHash::from_seed(5, workload.max_weight));
    let stored = (Cell::new(0), Cell::new(0));
    let ours = || {
        let mut sketch = WindowSketch::new(&spec);
        for element in &elements {
            sketch.insert(*element).expect("a valid element");
        }
        stored.0.set(sketch.entry_count());
    };
    let port = || {
        let mut port = Port::new(hash.clone(), tau);
        elements[..SLOW_COUNT].iter().for_each(|element| port.insert(element, |_, _| 0));
        black_box(port.levels.len());
    };
    let exact = || {
        let mut exact = SortedWindow::default();
        elements.iter().for_each(|element| exact.insert(element));
        stored.1.set(exact.elements.len());
    };
    let best = Cell::new(f64::INFINITY);
    race(
        &format!("any-window sketch, {}, tau = {tau}", workload.name),
        3,
        vec![
            Peer::new("any-window sketch", COUNT as u64, watched(&best, COUNT, ours)),
            Peer::new("direct port of the paper", SLOW_COUNT as u64, port),
            Peer::new("exact sorted window (one hour)", COUNT as u64, exact),
        ],
    );
    print_on_cpu(&best);
    println!("  elements stored: sketch {}, exact {}", stored.0.get(), stored.1.get());
    agree(&elements[..20_000], &hash, tau.min(500));
}

/// Structures that disagree cannot be compared.
fn agree(elements: &[Element], hash: &Arc<SampleHash>, tau: u32) {
    let mut store = WindowStore::new(hash.clone(), tau);
    let mut port = Port::new(hash.clone(), tau);
    for element in elements {
        store.insert(*element);
        port.insert(element, |_, _| 0);
    }
    store.compact();
    let floors: Vec<i64> = port.levels.iter().map(|level| level.floor.unwrap_or(i64::MIN)).collect();
    assert_eq!(store.floors(), floors, "the port holds the same levels");
}

fn race_integral(workload: &Workload, tau: u32) {
    let elements = stream(workload);
    let hash = Arc::new(SampleHash::from_seed(5, workload.max_weight));
    let slow = IntegralDecay::exponential(0.01 / 1000.0, workload.max_weight).expect("a decay");
    let decays = [
        ("window of 200s", IntegralDecay::window(200_000).expect("a decay")),
        ("exponential, 0.01/s, ticks of 1ms", slow),
        ("polynomial, alpha = 1", IntegralDecay::polynomial(1).expect("a decay")),
    ];
    for (name, decay) in decays {
        let decay = Arc::new(decay);
        let ours = || {
            let mut store = IntegralStore::new(hash.clone(), decay.clone(), tau);
            elements.iter().for_each(|element| store.insert(*element));
            black_box(store.entry_count());
        };
        let port = || {
            let mut port = Port::new(hash.clone(), tau);
            for element in &elements[..SLOW_COUNT] {
                port.insert(element, |weight, hit| decay.death(weight, hit));
            }
            black_box(port.levels.len());
        };
        let best = Cell::new(f64::INFINITY);
        race(
            &format!("integral sketch, {name}, {}, tau = {tau}", workload.name),
            3,
            vec![
                Peer::new("integral sketch (pool)", COUNT as u64, watched(&best, COUNT, ours)),
                Peer::new("direct port of the paper", SLOW_COUNT as u64, port),
            ],
        );
        print_on_cpu(&best);
    }
}

/// The CPU time of this thread: on a shared machine the wall clock also counts others.
fn on_cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Keeps the smallest CPU time of `run` per operation.
fn watched<'a>(best: &'a Cell<f64>, operations: usize, run: impl Fn() + 'a) -> impl FnMut() + 'a {
    move || {
        let before = on_cpu_ns();
        run();
        if let (Some(before), Some(after)) = (before, on_cpu_ns()) {
            best.set(best.get().min((after - before) as f64 / operations as f64));
        }
    }
}

fn print_on_cpu(best: &Cell<f64>) {
    println!(
        "  {:<44} {:>9.1} ns/op {:>9.3} M/s",
        "first of these, time on the processor",
        best.get(),
        1e3 / best.get()
    );
}

/// Prints the best of three, in microseconds.
fn latency<T>(name: &str, mut run: impl FnMut() -> T) {
    let best = (0..3).map(|_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_nanos() as f64 / 1e3
    });
    println!("  {name:<44} {:>10.1} us", best.fold(f64::INFINITY, f64::min));
}

fn query_latency(tau: u32) {
    let elements = stream(&FAST_FEED);
    let mut sketch = WindowSketch::new(&window_spec(tau, FAST_FEED.max_weight));
    for element in &elements {
        sketch.insert(*element).expect("a valid element");
    }
    let as_of = elements.iter().map(|element| element.time_ms).max().unwrap_or(0);
    let compacted = {
        let mut clone = sketch.clone();
        clone.compact();
        clone
    };
    println!("\nqueries, {}, tau = {tau}, {} elements stored", FAST_FEED.name, compacted.entry_count());
    latency("compaction before the first query (with a copy)", || sketch.clone().compact());
    let window = Decay::window(5_000).expect("a decay");
    let exponential = Decay::half_life(2_000.0).expect("a decay");
    let sketch = compacted;
    for (name, decay) in [("window of 5s", &window), ("exponential, half-life 2s", &exponential)] {
        println!(" {name}");
        let answers = sketch.query(as_of, decay).expect("an answer");
        latency("query (take the sample)", || sketch.query(as_of, decay));
        latency("weight", || answers.weight());
        latency("observation count", || answers.samples()[0].observation_count());
        latency("mean", || answers.mean());
        let predicate = "value > 50000 and weight <= 500".parse().expect("a predicate");
        latency("share", || answers.share(&predicate));
        latency("rank", || answers.rank(50_000));
        latency("quantiles (0.5, 0.9, 0.99)", || answers.quantiles(&[0.5, 0.9, 0.99]));
        latency("top", || answers.top(0.2, TopMode::NoFalseNegatives));
    }
    let spec = sketch.spec().clone();
    let bytes = sketch.encode();
    println!(" state: {} bytes, {:.1} an element", bytes.len(), bytes.len() as f64 / sketch.entry_count() as f64);
    latency("encode", || sketch.encode());
    latency("decode", || WindowSketch::decode(&spec, &bytes));
    latency("merge (with a copy)", || sketch.clone().merge(&sketch));
}

fn integral_query_latency(tau: u32) {
    let elements = stream(&FAST_FEED);
    let decay = IntegralDecay::exponential(0.01 / 1000.0, FAST_FEED.max_weight).expect("a decay");
    let accuracy = Accuracy::with_sample_size(tau).expect("a sample size");
    let spec = IntegralSpec::new(accuracy, decay, 1, (FAST_FEED.max_weight, 1), 5).expect("a specification");
    let mut sketch = IntegralSketch::new(&spec);
    for element in &elements {
        sketch.insert(*element).expect("a valid element");
    }
    let as_of = elements.iter().map(|element| element.time_ms).max().unwrap_or(0);
    sketch.compact();
    println!("\nintegral sketch, exponential, tau = {tau}, {} elements stored", sketch.entry_count());
    latency("query and sum", || sketch.query(as_of).expect("an answer").weight());
    latency("encode", || sketch.encode());
}

fn main() {
    race_any_window(&SLOW_FEED, 800);
    race_any_window(&SLOW_FEED, 8000);
    race_any_window(&FAST_FEED, 8000);
    race_any_window(&HEAVY, 8000);
    race_any_window(&UNIT, 8000);
    race_integral(&SLOW_FEED, 8000);
    race_integral(&HEAVY, 8000);
    query_latency(4000);
    integral_query_latency(4000);
    let elements = stream(&FAST_FEED);
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut sketch = WindowSketch::new(&window_spec(4000, FAST_FEED.max_weight));
    let mut next = elements.iter().cycle();
    criterion.bench_function("robust/any-window insert", |bencher| {
        bencher.iter(|| next.next().map(|element| sketch.insert(*element)))
    });
    criterion.final_summary();
}
