//! Fading filters (importance-aware Bloom filters) and decayed counts (time-decaying Bloom filters), beside the figures of
//! the papers and of the reference runs. The streams are drawn anew here, so figures agree within sampling error.

use std::collections::BTreeSet;

use ebb_sketch::filter::planning::stationary::{InitialCell, StationaryDistribution, ValueShares};
use ebb_sketch::filter::planning::tuning::tune_decrements;
use ebb_sketch::filter::structure::classic::ClassicFilter;
use ebb_sketch::filter::structure::frequency::basic::{BasicFrequency, BasicSpec};
use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::frequency::optimised::{Carry, DigitSpec, OptimisedFrequency, OptimisedSpec};
use ebb_sketch::filter::structure::frequency::{FrequencyFilter, FrequencySpec};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::stable::importance::{ImportanceRule, ImportanceScale};
use ebb_sketch::filter::structure::stable::{StableFilter, StableSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};

use crate::report::{Series, Table, plot};

const CELLS: u64 = 16_384;
const HASHES: u8 = 5;
const TOP: u8 = 7;
const MAX_IMPORTANCE: u64 = 50;

const RULES: [(&str, ImportanceRule); 5] = [
    ("SBF", ImportanceRule::Stable),
    ("2C", ImportanceRule::TwoClass { low: 3 }),
    ("MC", ImportanceRule::MultiClass),
    ("H literal", ImportanceRule::HarmonicLiteral),
    ("H thinned", ImportanceRule::Harmonic),
];

pub fn run() {
    zero_cells();
    errors();
    equal_rates();
    missed_by_value();
    memory();
    counts();
}

fn item(x: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(x)) << 64 | u128::from(mix(!x)))
}

fn value(importance: u64) -> u8 {
    ImportanceScale::new(MAX_IMPORTANCE as f64, TOP).expect("valid").value(importance as f64)
}

fn spec(rule: ImportanceRule, decrements: u32) -> StableSpec {
    StableSpec::new(CellLayout::Spread(CELLS), HASHES, decrements, TOP, rule).expect("valid")
}

/// The shares of cell values when importances are drawn evenly from 1..=50.
fn shares() -> ValueShares {
    let mut weights = [0.0; TOP as usize];
    (1..=MAX_IMPORTANCE).for_each(|importance| weights[usize::from(value(importance)) - 1] += 1.0);
    ValueShares::new(&weights).expect("valid")
}

#[derive(Clone, Copy)]
struct Arrival {
    x: u64,
    importance: u64,
}

fn fresh(index: usize, random: &mut Random) -> Arrival {
    Arrival { x: index as u64, importance: 1 + random.below(MAX_IMPORTANCE) }
}

/// 30 % of arrivals repeat one of the items before, all equally likely.
fn uniform_repeats(length: usize) -> Vec<Arrival> {
    let (mut random, mut past, mut stream) = (Random::new(7), Vec::new(), Vec::new());
    for index in 0..length {
        let repeated = !past.is_empty() && random.unit() < 0.3;
        let arrival = if repeated { past[random.below(past.len() as u64) as usize] } else { fresh(index, &mut random) };
        if !repeated {
            past.push(arrival);
        }
        stream.push(arrival);
    }
    stream
}

/// 30 % of arrivals repeat the one some 1500 arrivals before.
fn local_repeats(length: usize) -> Vec<Arrival> {
    let (mut random, mut stream) = (Random::new(9), Vec::new());
    for index in 0..length {
        let arrival = if index > 10 && random.unit() < 0.3 {
            stream[index - gap(random.unit()).min(index)]
        } else {
            fresh(index, &mut random)
        };
        stream.push(arrival);
    }
    stream
}

/// Errors in percent: of all, weighed by importance, and by class.
#[derive(Default)]
struct Errors {
    /// (errors, asked) over negatives and positives.
    negatives: [f64; 2],
    positives: [f64; 2],
    weighed_negatives: [f64; 2],
    weighed_positives: [f64; 2],
    top_positives: [f64; 2],
    by_value: [[f64; 2]; TOP as usize + 1],
    zero_share: f64,
}

fn percent([errors, asked]: [f64; 2]) -> f64 {
    100.0 * errors / asked.max(1.0)
}

impl Errors {
    fn note(&mut self, arrival: Arrival, seen: bool, duplicate: bool) {
        let weight = arrival.importance as f64;
        let wrong = f64::from(u8::from(seen != duplicate));
        let mut count = |tally: fn(&mut Self) -> &mut [f64; 2], weight: f64| {
            let tally = tally(self);
            *tally = [tally[0] + wrong * weight, tally[1] + weight];
        };
        if !seen {
            count(|errors| &mut errors.negatives, 1.0);
            count(|errors| &mut errors.weighed_negatives, weight);
            return;
        }
        count(|errors| &mut errors.positives, 1.0);
        count(|errors| &mut errors.weighed_positives, weight);
        if arrival.importance > 35 {
            count(|errors| &mut errors.top_positives, 1.0);
        }
        let class = &mut self.by_value[usize::from(value(arrival.importance))];
        *class = [class[0] + wrong, class[1] + 1.0];
    }

    fn shown(&self) -> [String; 5] {
        let tallies =
            [self.negatives, self.positives, self.weighed_negatives, self.weighed_positives, self.top_positives];
        tallies.map(|tally| format!("{:.2}", percent(tally)))
    }
}

fn tally(stream: &[Arrival], mut process: impl FnMut(u64, Arrival) -> bool) -> Errors {
    let (mut errors, mut seen) = (Errors::default(), BTreeSet::new());
    for (offset, arrival) in stream.iter().enumerate() {
        let duplicate = process(offset as u64, *arrival);
        errors.note(*arrival, !seen.insert(arrival.x), duplicate);
    }
    errors
}

fn measured(stream: &[Arrival], spec: StableSpec) -> Errors {
    let mut filter = StableFilter::new(spec);
    let mut errors = tally(stream, |offset, arrival| {
        filter.observe(item(arrival.x), value(arrival.importance), &mut Random::for_record(3, 0, offset))
    });
    errors.zero_share = filter.zero_share();
    errors
}

fn classical(stream: &[Arrival]) -> Errors {
    let mut filter = ClassicFilter::new(CellLayout::Spread(CELLS), HASHES).expect("valid");
    tally(stream, |_, arrival| filter.insert(item(arrival.x)))
}

/// Section 4: shares of zero cells. Repeats raise cells that are raised already, so a few more stay zero than the law of
/// distinct arrivals says; without repeats observation and law agree.
fn zero_cells() {
    let columns = ["filter", "observed, 30 % repeats", "reference", "observed, distinct", "law", "reference law"];
    let mut table = Table::new("variants-zero-cells", &columns);
    let reference = [("0.0612", "0.0585"), ("0.1116", "0.1070"), ("0.1828", "0.1753"), ("0.380", "0.359"), ("-", "-")];
    let (repeated, values) = (uniform_repeats(60_000), shares());
    let mut random = Random::new(11);
    let distinct: Vec<Arrival> = (0..60_000).map(|index| fresh(index, &mut random)).collect();
    for ((name, rule), (observed, law)) in RULES.into_iter().zip(reference) {
        let predicted = StationaryDistribution::new(&spec(rule, 10), &values).expect("it does not drain").zero_share();
        let figure = |share: f64| format!("{share:.4}");
        table.row([
            name.into(),
            figure(measured(&repeated, spec(rule, 10)).zero_share),
            observed.into(),
            figure(measured(&distinct, spec(rule, 10)).zero_share),
            figure(predicted),
            law.into(),
        ]);
    }
    table.publish();
}

/// Section 4: the reproduced table. The paper's trace is not to be had; its figures stand beside for the ordering.
fn errors() {
    let columns =
        ["stream", "filter", "FP %", "FN %", "wFP %", "wFN %", "FN % imp>35", "reference", "paper (YouTube 1)"];
    let mut table = Table::new("variants-errors", &columns);
    let paper = ["34.8 0 35.3 0", "25.8 .84 26.2 .87", "16.1 2.5 16.3 2.0", "5.2 8.9 5.2 4.8", "9.1 13.3 9.4 10.4"];
    let uniform = [
        "10.4 0 10.2 0",
        "10.0 .9 9.9 1.0",
        "7.7 9.0 7.6 4.8",
        "5.7 22.0 5.4 10.5",
        ".5 71.9 .5 60.5",
        "7.3 14.6 7.1 4.3",
    ];
    let local = [
        "73.2 0 73.4 0, 0",
        "45.3 .6 45.6 .5, .54",
        "31.2 4.6 31.4 2.3, .62",
        "19.0 13.7 19.1 5.7, 1.08",
        "1.9 42.5 1.9 26.8, 12.9",
        "55.4 4.9 55.6 1.3, 0",
    ];
    for (name, stream, reference) in
        [("8k, uniform repeats", uniform_repeats(8_000), uniform), ("40k, local repeats", local_repeats(40_000), local)]
    {
        let mut line = |index: usize, filter: &str, errors: Errors| {
            let tail = [reference[index].to_string(), paper[index.min(4)].to_string()];
            table.row([name.to_string(), filter.to_string()].into_iter().chain(errors.shown()).chain(tail));
        };
        line(0, "BF", classical(&stream));
        for (index, (filter, rule)) in RULES.into_iter().enumerate() {
            line(index + 1, filter, measured(&stream, spec(rule, 10)));
        }
    }
    table.publish();
}

/// Section 4: what importance buys once the rates of false duplicates are made equal, by hand and by tuning.
fn equal_rates() {
    let columns = ["filter", "P", "law: false dup. %", "FP %", "FN %", "wFP %", "wFN %", "FN % imp>35", "reference"];
    let mut table = Table::new("variants-equal-rates", &columns);
    let (stream, values) = (local_repeats(40_000), shares());
    let rate = |spec: &StableSpec| {
        StationaryDistribution::new(spec, &values).expect("it does not drain").false_duplicate_rate()
    };
    let mut line = |name: &str, spec: StableSpec, reference: &str| {
        let head = [name.to_string(), spec.decrements().to_string(), format!("{:.2}", 100.0 * rate(&spec))];
        table.row(head.into_iter().chain(measured(&stream, spec).shown()).chain([reference.to_string()]));
    };
    line("SBF", spec(ImportanceRule::Stable, 18), "19.6 4.0 - 3.8, 4.0");
    line("MC", spec(ImportanceRule::MultiClass, 10), "19.0 13.7 19.1 5.7, 1.08");
    let target = rate(&spec(ImportanceRule::MultiClass, 10));
    for (name, rule) in RULES {
        let tuned = tune_decrements(&spec(rule, 1), &values, target).expect("within reach");
        line(&format!("{name}, tuned to MC's rate"), tuned, "-");
    }
    table.publish();
}

/// Missed duplicates by cell value. The law is of distinct arrivals: probed only, duplicates come out as it says; when
/// they are inserted as well they take the place of others, and more is forgotten.
fn missed_by_value() {
    let columns = ["filter", "value", "FN % law", "FN % probed only", "FN % with 30 % repeats"];
    let mut table = Table::new("variants-missed-by-value", &columns);
    let (stream, values) = (local_repeats(160_000), shares());
    let quantiles: Vec<u64> = (0..64).map(|i| gap((f64::from(i) + 0.5) / 64.0) as u64).collect();
    let mut curves = Vec::new();
    for (name, rule) in RULES {
        let (repeated, probed) = (measured(&stream, spec(rule, 10)), probed_only(spec(rule, 10)));
        let law = StationaryDistribution::new(&spec(rule, 10), &values).expect("it does not drain");
        let mut points = Vec::new();
        for value in 1..=TOP {
            let held = rule.raised_value(value, TOP);
            let missed: f64 =
                quantiles.iter().map(|gap| law.miss_probability(held, *gap, InitialCell::Stationary)).sum();
            let observed = percent(probed.by_value[usize::from(value)]);
            let figures =
                [100.0 * missed / quantiles.len() as f64, observed, percent(repeated.by_value[usize::from(value)])];
            table.row([name.into(), value.to_string()].into_iter().chain(figures.map(|figure| format!("{figure:.2}"))));
            points.push((f64::from(value), observed));
        }
        curves.push(Series { label: name.into(), points });
    }
    table.publish();
    let title = "Missed duplicates by importance, gaps of some 1500 arrivals, P = 10";
    plot("variants-missed-by-value", title, "cell value of the item", "missed duplicates, %", &curves);
}

/// The gap at a quantile: exponential, 1500 in the mean.
fn gap(quantile: f64) -> usize {
    1 + (-1_500.0 * libm::log1p(-quantile)) as usize
}

/// DistinctModel arrivals, each probed once after its gap.
fn probed_only(spec: StableSpec) -> Errors {
    const LENGTH: usize = 160_000;
    let (mut filter, mut random, mut errors) = (StableFilter::new(spec), Random::new(13), Errors::default());
    let mut due: Vec<Vec<Arrival>> = vec![Vec::new(); LENGTH];
    for index in 0..LENGTH {
        for arrival in std::mem::take(&mut due[index]) {
            errors.note(arrival, true, filter.contains(item(arrival.x)));
        }
        let arrival = fresh(index, &mut random);
        filter.observe(item(arrival.x), value(arrival.importance), &mut Random::for_record(3, 0, index as u64));
        let again = index + gap(random.unit());
        if index > LENGTH / 8 && again < LENGTH {
            due[again].push(arrival);
        }
    }
    errors
}

/// Zipf-distributed items, exponent 1.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(items: usize) -> Self {
        let weights = (1..=items).map(|rank| 1.0 / rank as f64);
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

/// Section 1: memory of small digits against whole counters, at identical answers.
fn memory() {
    const COUNTERS: u64 = 65_536;
    let columns = [
        "λ",
        "same cells",
        "peak extras, % of m",
        "digits only",
        "reference",
        "with links and table",
        "reference (floor)",
        "in bytes, pool = peak",
        "pool = 2 peaks",
        "policy all: extras",
        "paper",
    ];
    let mut table = Table::new("variants-memory", &columns);
    let reference = [("3.93", "3.28"), ("3.90", "3.07"), ("3.85", "2.66"), ("3.71", "1.97")];
    let mut curves: [Vec<(f64, f64)>; 2] = Default::default();
    for (share, (digits_only, linked)) in [0.3, 0.5, 0.7, 0.9].into_iter().zip(reference) {
        let epochs = EpochSpec::keeping(30_000, share).expect("valid");
        let size = CellLayout::Spread(COUNTERS);
        let form = |pool, carry| DigitSpec { digit_bits: 4, fraction_bits: 0, pool, carry };
        let optimised = |pool, carry| {
            OptimisedFrequency::new(OptimisedSpec::new(size, 4, epochs, form(pool, carry)).expect("valid"))
        };
        let mut basic = BasicFrequency::new(BasicSpec::new(size, 4, epochs, 0).expect("valid"));
        let (mut each, mut all) =
            (optimised(COUNTERS as u32 / 2, Carry::Each), optimised(COUNTERS as u32 / 2, Carry::All));
        let (zipf, mut random) = (Zipf::new(30_000), Random::new(2));
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
            format!("{:.0} % fewer", 100.0 * (1.0 - f64::from(all.peak_pool_use()) / f64::from(peak))),
            "about 2x".into(),
        ]);
        curves[0].push((share, whole_bits / digit_bits));
        curves[1].push((share, whole_bits / linked_bits));
    }
    table.publish();
    let labels = ["digits only", "with links and table"];
    let series: Vec<Series> =
        labels.into_iter().zip(curves).map(|(label, points)| Series { label: label.into(), points }).collect();
    plot("variants-memory", "Small digits against 16-bit counters", "share kept an epoch", "times smaller", &series);
}

/// What the methods answer for the same stream in the same number of cells: never too little, and how much too much.
fn counts() {
    const HALF_LIFE_MS: u64 = 10_000;
    const LENGTH: i64 = 120_000;
    let columns = ["method", "bytes a cell", "asked", "undercounts", "mean excess", "exhausted"];
    let mut table = Table::new("variants-counts", &columns);
    let epochs = |steps| EpochSpec::halving(HALF_LIFE_MS, steps).expect("valid");
    let (anywhere, lines) = (CellLayout::Spread(32_768), CellLayout::Lines(4_096));
    let forward = |size, hashes| FrequencySpec::Forward(ForwardSpec::new(size, hashes, HALF_LIFE_MS).expect("valid"));
    let basic = |bits| FrequencySpec::Basic(BasicSpec::new(anywhere, 4, epochs(8), bits).expect("valid"));
    let optimised = |carry, pool| {
        let form = DigitSpec { digit_bits: 4, fraction_bits: 0, pool, carry };
        FrequencySpec::Optimised(OptimisedSpec::new(anywhere, 4, epochs(1), form).expect("valid"))
    };
    for (name, bytes, spec) in [
        ("forward, 4 cells anywhere", "8", forward(anywhere, 4)),
        ("forward, 4 cells in a line", "8", forward(lines, 4)),
        ("forward, 3 cells in a line", "8", forward(lines, 3)),
        ("forward, 2 cells in a line", "8", forward(lines, 2)),
        ("basic, 8 steps, no fraction", "4", basic(0)),
        ("basic, 8 steps, 8 fraction bits", "4", basic(8)),
        ("optimised each, 1 step", "0.5 + pool", optimised(Carry::Each, 8_192)),
        ("optimised all, 1 step", "0.5 + pool", optimised(Carry::All, 8_192)),
        ("optimised all, pool of 64", "0.5 + pool", optimised(Carry::All, 64)),
    ] {
        let mut counts = FrequencyFilter::new(spec);
        let (zipf, mut random) = (Zipf::new(30_000), Random::new(2));
        let mut exact = vec![(0.0f64, 0i64); 30_000];
        let decayed = |(held, at): (f64, i64), now: i64| held * libm::exp2(-((now - at) as f64) / HALF_LIFE_MS as f64);
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
        let flagged = answers.iter().filter(|(.., flagged)| *flagged).count();
        let excess = answers.iter().map(|(value, exact, _)| value - exact).sum::<f64>() / answers.len() as f64;
        table.row([
            name.into(),
            bytes.into(),
            answers.len().to_string(),
            under.to_string(),
            format!("{excess:.4}"),
            format!("{} (flagged answers: {flagged})", counts.lost_increments()),
        ]);
    }
    table.publish();
}
