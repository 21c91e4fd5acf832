//! Decayed counts (time-decaying Bloom filters): memory of small digits, and accuracy of the methods, next to the figures of
//! the paper and of the reference.

use ebb_sketch::filter::structure::frequency::basic::{BasicFrequency, BasicSpec};
use ebb_sketch::filter::structure::frequency::digit_plan::DigitChoice;
use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::frequency::optimised::{Carry, DigitSpec, OptimisedFrequency, OptimisedSpec};
use ebb_sketch::filter::structure::frequency::{FrequencyFilter, FrequencySpec};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};

use crate::report::{Series, Table, plot, require};

pub fn run() {
    memory();
    planned_memory();
    counts();
}

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

/// How likely an item is, by its rank.
type WeightOfRank = fn(usize) -> f64;

/// Items drawn with given weights.
struct Weighted(Vec<f64>);

impl Weighted {
    /// Zipf-distributed items, exponent 1.
    fn zipf(items: usize) -> Self {
        Self::new((1..=items).map(|rank| 1.0 / rank as f64))
    }

    fn new(weights: impl Iterator<Item = f64>) -> Self {
        Self(
            weights
                .scan(0.0, |sum, weight| {
                    *sum += weight;
                    Some(*sum)
                })
                .collect(),
        )
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let at = random.unit() * self.0[self.0.len() - 1];
        self.0.partition_point(|sum| *sum <= at) as u64
    }
}

/// Memory of small digits against whole counters, at identical answers.
fn memory() {
    const COUNTERS: u64 = 65_536;
    let columns = [
        "λ",
        "same cells",
        "peak pool use, % of cells",
        "digits only",
        "reference",
        "with the paper's links and table",
        "reference (floor)",
        "measured, pool = peak",
        "pool = 2 peaks",
        "of basic, pool = 2 peaks",
        "carry all: pool use",
        "paper",
    ];
    let mut table = Table::new("variants-memory", &columns);
    let reference = [("3.93", "3.28"), ("3.90", "3.07"), ("3.85", "2.66"), ("3.71", "1.97")];
    let mut curves: [Vec<(f64, f64)>; 2] = Default::default();
    for (share, (digits_only, linked)) in [0.3, 0.5, 0.7, 0.9].into_iter().zip(reference) {
        let epochs = EpochSpec::keeping(30_000, share).expect("valid");
        let layout = CellLayout::Spread(COUNTERS);
        let form = |pool, carry| DigitSpec { digit_bits: 4, fraction_bits: 0, pool, carry };
        let optimised = |pool, carry| {
            OptimisedFrequency::new(OptimisedSpec::new(layout, 4, epochs, form(pool, carry)).expect("valid"))
        };
        let mut basic = BasicFrequency::new(BasicSpec::new(layout, 4, epochs, 0).expect("valid"));
        let (mut each, mut all) =
            (optimised(COUNTERS as u32 / 2, Carry::Each), optimised(COUNTERS as u32 / 2, Carry::All));
        let (zipf, mut random) = (Weighted::zipf(30_000), Random::new(2));
        for time in 0..300_000 {
            let item = item(zipf.draw(&mut random));
            basic.add(item, time);
            each.add(item, time);
            all.add(item, time);
        }
        let same = (0..COUNTERS).all(|cell| basic.cell_value(cell) == each.cell_value(cell));
        let peak = each.peak_pool_use();
        let whole_bits = 16.0 * COUNTERS as f64;
        let pointer = libm::ceil(libm::log2(f64::from(peak) + 1.0));
        let digit_bits = 4.0 * COUNTERS as f64 + 4.0 * f64::from(peak);
        let linked_bits = digit_bits + f64::from(peak) * pointer + libm::ceil(f64::from(peak) / 0.8) * (16.0 + pointer);
        let bytes = |pool| whole_bits / 8.0 / optimised(pool, Carry::Each).memory_bytes() as f64;
        let of_basic = optimised(2 * peak, Carry::Each).memory_bytes() as f64 / basic.memory_bytes() as f64;
        let saved = |times: f64| format!("{times:.2}x");
        table.row([
            share.to_string(),
            same.to_string(),
            format!("{:.1}", 100.0 * f64::from(peak) / COUNTERS as f64),
            saved(whole_bits / digit_bits),
            format!("{digits_only}x"),
            saved(whole_bits / linked_bits),
            format!("{linked}x"),
            saved(bytes(peak)),
            saved(bytes(2 * peak)),
            format!("{of_basic:.2}"),
            format!("{:.0} % fewer", 100.0 * (1.0 - f64::from(all.peak_pool_use()) / f64::from(peak))),
            "about 2x".into(),
        ]);
        curves[0].push((share, whole_bits / digit_bits));
        curves[1].push((share, whole_bits / linked_bits));
    }
    table.publish();
    let labels = ["digits only", "with the paper's links and table"];
    let series: Vec<Series> =
        labels.into_iter().zip(curves).map(|(label, points)| Series { label: label.into(), points }).collect();
    plot("variants-memory", "Small digits against 16-bit counters", "decay factor per epoch", "times smaller", &series);
}

/// Memory of the planned digits against whole counters with the same cells, at identical answers: everything that is
/// allocated is measured, pool, keys and marks included.
fn planned_memory() {
    const BYTES: u64 = 128 << 10;
    const LENGTH: i64 = 1_000_000;
    let columns = [
        "stream",
        "λ",
        "digit bits",
        "fraction bits",
        "pool, % of cells",
        "peak pool use, % of pool",
        "carry all: pool use",
        "same answers",
        "lost increments",
        "optimised bytes",
        "basic bytes",
        "optimised / basic",
    ];
    let mut table = Table::new("frequency-planned-memory", &columns);
    let streams: [(&str, usize, WeightOfRank); 3] = [
        ("Zipf 1.0, 30k items", 30_000, |rank| 1.0 / rank as f64),
        ("Zipf 1.3, 30k items", 30_000, |rank| libm::pow(rank as f64, -1.3)),
        ("uniform, 15k items", 15_000, |_| 1.0),
    ];
    // A half-life is 60,000 observations.
    for (name, items, weight) in streams {
        for epoch_ms in [120_000, 60_000, 15_000, 3_750] {
            let epochs = EpochSpec::in_epochs(60_000, epoch_ms).expect("valid");
            let plan = OptimisedSpec::in_memory(BYTES, 4, epochs, DigitChoice::planned(Carry::Each)).expect("valid");
            let (cells, form) = (plan.hasher().cells(), *plan.form());
            let layout = CellLayout::Spread(cells);
            let optimised = |form| OptimisedFrequency::new(OptimisedSpec::new(layout, 4, epochs, form).expect("valid"));
            let mut basic = BasicFrequency::new(BasicSpec::new(layout, 4, epochs, form.fraction_bits).expect("valid"));
            let (mut each, mut all) = (optimised(form), optimised(DigitSpec { carry: Carry::All, ..form }));
            let (drawn, mut random) = (Weighted::new((1..=items).map(weight)), Random::new(2));
            for time in 0..LENGTH {
                let item = item(drawn.draw(&mut random));
                basic.add(item, time);
                each.add(item, time);
                all.add(item, time);
            }
            let same = (0..items as u64).all(|x| basic.estimate(item(x), LENGTH) == each.estimate(item(x), LENGTH));
            let (small, whole) = (each.memory_bytes(), basic.memory_bytes());
            let ratio = small as f64 / whole as f64;
            let used = |counts: &OptimisedFrequency| f64::from(counts.peak_pool_use()) / f64::from(form.pool);
            require(&format!("memory of optimised over basic, {name}"), ratio, 0.52);
            require(&format!("memory above {BYTES} bytes, {name}"), small.saturating_sub(BYTES) as f64, 0.0);
            require(&format!("different answers, {name}"), f64::from(u8::from(!same)), 0.0);
            table.row([
                name.into(),
                format!("{:.3}", epochs.factor()),
                form.digit_bits.to_string(),
                form.fraction_bits.to_string(),
                format!("{:.1}", 100.0 * f64::from(form.pool) / cells as f64),
                format!("{:.0}", 100.0 * used(&each)),
                match used(&each) {
                    0.0 => "none used".into(),
                    each => format!("{:.0} % fewer", 100.0 * (1.0 - used(&all) / each)),
                },
                same.to_string(),
                each.lost_increments().to_string(),
                small.to_string(),
                whole.to_string(),
                format!("{ratio:.3}"),
            ]);
        }
    }
    table.publish();
}

/// The answers of the methods for the same stream and number of cells: undercounts (there must be none) and mean excess.
fn counts() {
    const HALF_LIFE_MS: u64 = 10_000;
    const LENGTH: i64 = 120_000;
    let columns = ["method", "bytes per cell", "items", "undercounts", "mean excess", "lost increments"];
    let mut table = Table::new("variants-counts", &columns);
    let epochs = |steps| EpochSpec::halving(HALF_LIFE_MS, steps).expect("valid");
    let (spread, lines) = (CellLayout::Spread(32_768), CellLayout::Lines(4_096));
    let forward =
        |layout, hashes| FrequencySpec::Forward(ForwardSpec::new(layout, hashes, HALF_LIFE_MS).expect("valid"));
    let basic = |bits| FrequencySpec::Basic(BasicSpec::new(spread, 4, epochs(8), bits).expect("valid"));
    let optimised = |carry, pool| {
        let form = DigitSpec { digit_bits: 4, fraction_bits: 0, pool, carry };
        FrequencySpec::Optimised(OptimisedSpec::new(spread, 4, epochs(1), form).expect("valid"))
    };
    let planned = |carry| {
        let choice = DigitChoice::planned(carry);
        FrequencySpec::Optimised(OptimisedSpec::in_memory(64 << 10, 4, epochs(8), choice).expect("valid"))
    };
    for (name, bytes, spec) in [
        ("forward, 4 spread cells", "8", forward(spread, 4)),
        ("forward, 4 cells in a line", "8", forward(lines, 4)),
        ("forward, 3 cells in a line", "8", forward(lines, 3)),
        ("forward, 2 cells in a line", "8", forward(lines, 2)),
        ("basic, 8 steps, no fraction", "4", basic(0)),
        ("basic, 8 steps, 8 fraction bits", "4", basic(8)),
        ("optimised each, planned", "2 with pool", planned(Carry::Each)),
        ("optimised all, planned", "2 with pool", planned(Carry::All)),
        ("optimised each, 1 step", "0.5 + pool", optimised(Carry::Each, 8_192)),
        ("optimised all, 1 step", "0.5 + pool", optimised(Carry::All, 8_192)),
        ("optimised all, pool of 64", "0.5 + pool", optimised(Carry::All, 64)),
    ] {
        let mut counts = FrequencyFilter::new(spec);
        let (zipf, mut random) = (Weighted::zipf(30_000), Random::new(2));
        let mut exact = vec![(0.0f64, 0i64); 30_000];
        let decayed =
            |(count, at): (f64, i64), now: i64| count * libm::exp2(-((now - at) as f64) / HALF_LIFE_MS as f64);
        for now in 0..LENGTH {
            let x = zipf.draw(&mut random);
            counts.add(item(x), now);
            exact[x as usize] = (decayed(exact[x as usize], now) + 1.0, now);
        }
        let answers: Vec<(f64, f64, bool)> = (0..30_000)
            .map(|x| (counts.estimate(item(x), LENGTH), decayed(exact[x as usize], LENGTH)))
            .map(|(count, exact)| (count.value, exact, count.lower_bound))
            .collect();
        let under = answers.iter().filter(|(value, exact, flagged)| !flagged && *value < exact * (1.0 - 1e-12)).count();
        let lower_bounds = answers.iter().filter(|(.., flagged)| *flagged).count();
        let excess = answers.iter().map(|(value, exact, _)| value - exact).sum::<f64>() / answers.len() as f64;
        table.row([
            name.into(),
            bytes.into(),
            answers.len().to_string(),
            under.to_string(),
            format!("{excess:.4}"),
            format!("{} (lower bounds: {lower_bounds})", counts.lost_increments()),
        ]);
    }
    table.publish();
}
