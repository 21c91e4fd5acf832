//! Decayed aggregates and their peers on one thread in one run: the methods of this crate, Apache DataSketches without
//! decay, an exact window, and a direct port of the published structure. Every answer is checked.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;
use datasketches::frequencies::FrequentItemsSketch;
use datasketches::kll::KllSketch;
use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::division::{DivisionShape, DivisionSketch};
use ebb_sketch::aggregate::forward::{ForwardShape, ForwardSketch};
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::qdigest::{DigestShape, QDigest};
use ebb_sketch::aggregate::{DecayedSketch, Observation, SummaryShape};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;
use meter::{Meter, latency};
use support::race;

#[path = "aggregates/meter.rs"]
mod meter;
#[path = "aggregates/paper.rs"]
mod paper;
mod support;

const BEGIN_MS: i64 = 1_794_700_000_000;
const SPAN_MS: u64 = 1 << 20;
const LENGTH: usize = 2_000_000;

/// Sizes of network flows. A third is late by 600 ms on average, the rest by up to 60 ms.
fn flows(length: usize) -> Vec<Observation> {
    let mut random = Random::new(2008);
    let one = |index: usize| {
        let now = SPAN_MS * index as u64 / length as u64;
        let late = if random.unit() < 0.3 { -600.0 * random.unit().max(1e-9).ln() } else { 60.0 * random.unit() };
        observation(now.saturating_sub(late as u64), &mut random)
    };
    (0..length).map(one).collect()
}

/// Times are uniform over the span, in random order.
fn total_disorder(length: usize) -> Vec<Observation> {
    let mut random = Random::new(88);
    (0..length).map(|_| observation(random.below(SPAN_MS), &mut Random::new(random.next_u64()))).collect()
}

fn observation(offset: u64, random: &mut Random) -> Observation {
    let normal = (0..4).map(|_| random.unit()).sum::<f64>() - 2.0;
    let value = (6.5 + 2.0 * 1.73 * normal).exp().min(65_535.0) as u64;
    Observation { time_ms: BEGIN_MS + offset as i64, value, label: u128::from(value % 5_000), weight: 1.0 }
}

/// Feeds an empty sketch and keeps it, so that its answers can be checked.
macro_rules! peer {
    ($meter:expr, $name:literal, $stream:expr, $last:expr, $fresh:expr) => {
        $meter.peer($name, $stream.len(), || {
            let mut structure = $fresh;
            for one in $stream {
                structure.insert(black_box(one)).expect("the stream stays within the horizon");
            }
            $last = Some(structure);
        })
    };
}

fn window(width_ms: u64) -> Decay {
    Decay::window(width_ms).expect("a window")
}

fn polynomial(unit_ms: f64) -> Decay {
    Decay::polynomial(2.0, unit_ms).expect("a power")
}

fn with_values(beta: f64) -> SummaryShape {
    SummaryShape::totals().with_values(DigestShape::new(16, beta).expect("a digest"))
}

fn division(unit_ms: f64, content: SummaryShape) -> DivisionSketch {
    DivisionSketch::new(DivisionShape::new(polynomial(unit_ms), 0.2, 1 << 22, content).expect("a division"))
}

fn cascade(epsilon: f64, content: SummaryShape) -> CascadeSketch {
    CascadeSketch::new(CascadeSketch::shape(epsilon, SPAN_MS, content).expect("a cascade"))
}

fn race_sums(flows: &[Observation]) {
    let meter = Meter::default();
    let decay = Decay::half_life(60_000.0).expect("a half-life");
    let (mut forward, mut cells) = (None, None);
    let naive = std::cell::Cell::new(0.0);
    race(
        "decayed sums",
        3,
        vec![
            peer!(
                meter,
                "forward sum",
                flows,
                forward,
                ForwardSketch::new(ForwardShape::new(&decay, SummaryShape::totals()).expect("exponential"))
            ),
            peer!(meter, "division sum, 1 ms slices", flows, cells, division(1.0, SummaryShape::totals())),
            meter.peer("a plain sum, no decay", flows.len(), || {
                naive.set(flows.iter().map(|one| black_box(one).weight).sum());
            }),
        ],
    );
    meter.print();
    let now_ms = BEGIN_MS + SPAN_MS as i64;
    let (forward, cells) = (forward.expect("it ran"), cells.expect("it ran"));
    let exact: f64 = flows.iter().map(|one| decay.weight((now_ms - one.time_ms) as u64)).sum();
    let count = forward.totals(now_ms, &decay).expect("its own rate").count().value;
    assert!((count - exact).abs() < 1e-9 * exact, "{count} {exact}");
    latency("forward sum", || forward.totals(now_ms, &decay).expect("its own rate").count().value);
    latency("division sum", || cells.totals(now_ms, &polynomial(1.0)).expect("its own decay").count().value);
}

fn race_quantiles(flows: &[Observation]) {
    let meter = Meter::default();
    let decay = Decay::half_life(60_000.0).expect("a half-life");
    let (mut fine, mut coarse, mut coarser, mut forward) = (None, None, None, None);
    let mut kll = None;
    race(
        "quantiles (16-bit values, beta 0.05)",
        3,
        vec![
            meter.peer("DataSketches KLL k=200, no decay", flows.len(), || {
                let mut sketch = KllSketch::<i64>::new(200).expect("k of 200");
                flows.iter().for_each(|one| sketch.update(black_box(one).value as i64));
                kll = Some(sketch);
            }),
            meter.peer("q-digest, no decay", flows.len(), || {
                let mut digest = QDigest::new(DigestShape::new(16, 0.05).expect("a digest"));
                flows.iter().for_each(|one| digest.insert(black_box(one).value, 1.0));
                black_box(digest.len());
            }),
            peer!(
                meter,
                "forward quantiles",
                flows,
                forward,
                ForwardSketch::new(ForwardShape::new(&decay, with_values(0.05)).expect("exponential"))
            ),
            peer!(meter, "division quantiles, 1 ms slices", flows, fine, division(1.0, with_values(0.05))),
            peer!(meter, "division quantiles, 16 ms slices", flows, coarse, division(160.0, with_values(0.05))),
            peer!(meter, "division quantiles, 64 ms slices", flows, coarser, division(670.0, with_values(0.05))),
        ],
    );
    meter.print();
    let now_ms = BEGIN_MS + SPAN_MS as i64;
    for (name, unit_ms, division) in [("1", 1.0, fine), ("16", 160.0, coarse), ("64", 670.0, coarser)] {
        let division: DivisionSketch = division.expect("it ran");
        assert_eq!(1 << division.shape().base(), name.parse::<u32>().expect("a number"), "slices of {name} ms");
        check_median(flows, now_ms, &polynomial(unit_ms), |decay| {
            division.values(now_ms, decay).expect("its own decay")
        });
        let query = || division.values(now_ms, &polynomial(unit_ms)).expect("its own decay").quantile(0.5);
        latency(&format!("division median, {name} ms slices"), || query().expect("phi").expect("some").value as f64);
    }
    let forward = forward.expect("it ran");
    check_median(flows, now_ms, &decay, |decay| forward.values(now_ms, decay).expect("its own rate"));
    let query = || forward.values(now_ms, &decay).expect("its own rate").quantile(0.5);
    latency("forward median", || query().expect("phi").expect("some").value as f64);
    let kll = kll.expect("it ran");
    latency("DataSketches KLL median, no decay", || {
        kll.quantile(0.5, datasketches::common::SearchCriteria::Inclusive).expect("a rank").expect("some") as f64
    });
}

/// The rank of the answer is within the guaranteed error.
fn check_median(
    stream: &[Observation],
    now_ms: i64,
    decay: &Decay,
    values: impl Fn(&Decay) -> ebb_sketch::aggregate::Values,
) {
    let found = values(decay).quantile(0.5).expect("phi").expect("some").value;
    let weight = |one: &Observation| decay.weight((now_ms - one.time_ms) as u64);
    let total: f64 = stream.iter().map(weight).sum();
    let below: f64 = stream.iter().filter(|one| one.value <= found).map(weight).sum();
    assert!((below / total - 0.5).abs() < 0.1, "{decay}: {found} is at {}", below / total);
}

fn race_top(flows: &[Observation]) {
    let meter = Meter::default();
    let decay = Decay::half_life(60_000.0).expect("a half-life");
    let labels = SummaryShape::totals().with_labels(768).expect("counters");
    let (mut forward, mut cells, mut frequent) = (None, None, None);
    race(
        "top labels (768 counters)",
        3,
        vec![
            meter.peer("DataSketches frequent items, no decay", flows.len(), || {
                let mut sketch = FrequentItemsSketch::<u64>::new(1024).expect("a map of 1024");
                flows.iter().for_each(|one| sketch.update(black_box(one).label as u64));
                frequent = Some(sketch);
            }),
            peer!(
                meter,
                "forward top labels",
                flows,
                forward,
                ForwardSketch::new(ForwardShape::new(&decay, labels).expect("exponential"))
            ),
            peer!(meter, "division top labels, 64 ms slices", flows, cells, division(670.0, labels)),
        ],
    );
    meter.print();
    let now_ms = BEGIN_MS + SPAN_MS as i64;
    let (forward, cells): (ForwardSketch, DivisionSketch) = (forward.expect("it ran"), cells.expect("it ran"));
    let top = |labels: ebb_sketch::aggregate::Labels| {
        labels.top(0.01, TopMode::NoFalseNegatives).map_or(0.0, |top| top.items.len() as f64)
    };
    latency("forward top labels", || top(forward.labels(now_ms, &decay).expect("its own rate")));
    latency("division top labels", || top(cells.labels(now_ms, &polynomial(670.0)).expect("its own decay")));
    let frequent = frequent.expect("it ran");
    latency("DataSketches frequent items, no decay", || {
        frequent.frequent_items(datasketches::frequencies::ErrorType::NoFalseNegatives).len() as f64
    });
}

/// The exact count of every time.
#[derive(Default)]
struct ExactWindow {
    counts: BTreeMap<i64, u64>,
}

impl ExactWindow {
    fn insert(&mut self, one: &Observation) {
        *self.counts.entry(one.time_ms).or_insert(0) += 1;
    }

    fn count(&self, now_ms: i64, width_ms: u64) -> u64 {
        self.counts.range(now_ms - width_ms as i64 + 1..=now_ms).map(|(_, count)| count).sum()
    }
}

fn race_counts(name: &str, stream: &[Observation], few: &[Observation]) {
    let meter = Meter::default();
    let (mut loose, mut tight, mut exact, mut replicated, mut port) = (None, None, None, None, None);
    race(
        &format!("counts for any window, {name}"),
        3,
        vec![
            peer!(meter, "cascade count, eps 0.1", stream, loose, cascade(0.1, SummaryShape::totals())),
            peer!(meter, "cascade count, eps 0.01", stream, tight, cascade(0.01, SummaryShape::totals())),
            meter.peer("exact window (BTreeMap of times)", stream.len(), || {
                let mut window = ExactWindow::default();
                stream.iter().for_each(|one| window.insert(black_box(one)));
                exact = Some(window);
            }),
            peer!(
                meter,
                "levels, eps 0.1",
                few,
                replicated,
                LevelsSketch::new(LevelsSketch::shape(0.1, SPAN_MS, SummaryShape::totals()).expect("levels"),)
            ),
            meter.peer("direct port of the paper, eps 0.1", few.len(), || {
                let mut levels = paper::Replicated::new(0.1, 20);
                few.iter().for_each(|one| levels.insert(black_box(one).time_ms as u64));
                port = Some(levels);
            }),
        ],
    );
    meter.print();
    let now_ms = stream.iter().map(|one| one.time_ms).max().expect("some");
    let (exact, port): (ExactWindow, paper::Replicated) = (exact.expect("it ran"), port.expect("it ran"));
    for (name, epsilon, cascade) in [("0.1", 0.1, loose), ("0.01", 0.01, tight)] {
        let cascade: CascadeSketch = cascade.expect("it ran");
        let mut worst = 0.0f64;
        for width_ms in (0..200).map(|step| 1 + (SPAN_MS - 1) * step / 199) {
            let truth = exact.count(now_ms, width_ms) as f64;
            let count = cascade.totals(now_ms, &window(width_ms)).expect("a window").count();
            assert!(count.covers(truth), "{width_ms}: {count:?} of {truth}");
            worst = worst.max((count.value - truth).abs() / truth.max(1.0));
        }
        assert!(worst <= epsilon, "{worst}");
        println!(
            "  worst of 200 windows at eps {name}: {worst:.5}, {} ranges and raw observations",
            cascade.entry_count()
        );
        let query = |decay: &Decay| cascade.totals(now_ms, decay).expect("a query").count().value;
        latency(&format!("cascade window, eps {name}"), || query(&window(SPAN_MS / 3)));
        latency(&format!("cascade polynomial decay, eps {name}"), || query(&polynomial(1000.0)));
    }
    let replicated: LevelsSketch = replicated.expect("it ran");
    latency("levels window, eps 0.1", || {
        replicated.totals(now_ms, &window(SPAN_MS / 3)).expect("a window").count().value
    });
    latency("direct port window, eps 0.1", || port.count(now_ms as u64, SPAN_MS / 3) as f64);
    latency("exact window", || exact.count(now_ms, SPAN_MS / 3) as f64);
}

fn race_windows_of_values(few: &[Observation]) {
    let meter = Meter::default();
    let (mut cells, mut replicated) = (None, None);
    race(
        "quantiles for any window, total disorder",
        2,
        vec![
            peer!(meter, "cascade quantiles, eps 0.1 + beta 0.1", few, cells, cascade(0.1, with_values(0.1))),
            peer!(
                meter,
                "levels quantiles, eps 0.1 + beta 0.1",
                few,
                replicated,
                LevelsSketch::new(LevelsSketch::shape(0.1, SPAN_MS, with_values(0.1)).expect("levels"),)
            ),
        ],
    );
    meter.print();
    let now_ms = few.iter().map(|one| one.time_ms).max().expect("some");
    let (cells, replicated): (CascadeSketch, LevelsSketch) = (cells.expect("it ran"), replicated.expect("it ran"));
    let decay = window(SPAN_MS / 3);
    latency("cascade median of a window", || {
        cells.values(now_ms, &decay).expect("a window").quantile(0.5).expect("phi").expect("some").value as f64
    });
    latency("levels median of a window", || {
        replicated.values(now_ms, &decay).expect("a window").quantile(0.5).expect("phi").expect("some").value as f64
    });
}

/// The same updates under criterion, which keeps a history of earlier runs.
fn recorded(flows: &[Observation]) {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .without_plots()
        .configure_from_args();
    let few = &flows[..100_000];
    let decay = Decay::half_life(60_000.0).expect("a half-life");
    criterion.bench_function("forward sum, 100k updates", |b| {
        b.iter(|| {
            let mut forward =
                ForwardSketch::new(ForwardShape::new(&decay, SummaryShape::totals()).expect("exponential"));
            few.iter().for_each(|one| forward.insert(one).expect("accepted"));
            forward.newest_ms()
        });
    });
    criterion.bench_function("division quantiles, 100k updates", |b| {
        b.iter(|| {
            let mut cells = division(160.0, with_values(0.05));
            few.iter().for_each(|one| cells.insert(one).expect("accepted"));
            cells.entry_count()
        });
    });
    criterion.bench_function("cascade count, 100k updates", |b| {
        b.iter(|| {
            let mut cascade = cascade(0.1, SummaryShape::totals());
            few.iter().for_each(|one| cascade.insert(one).expect("accepted"));
            cascade.entry_count()
        });
    });
    criterion.final_summary();
}

fn main() {
    let flows = flows(LENGTH);
    race_sums(&flows);
    race_quantiles(&flows);
    race_top(&flows);
    race_counts("flows", &flows, &flows[..200_000]);
    let disorder = total_disorder(LENGTH);
    race_counts("total disorder", &disorder, &disorder[..200_000]);
    race_windows_of_values(&disorder[..200_000]);
    recorded(&flows);
}
