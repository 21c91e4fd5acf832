//! The inferential filter's figures: penalty and posterior error against the standard answer, with the share of every
//! item known, and with priors that are learned. Each cell takes the best number of cells per item, as the paper does.

use ebb_sketch::filter::belief::{ArrivalShare, Belief};
use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::distinct::{DistinctModel, collision_probability};
use ebb_sketch::filter::inference::posterior::{AgePrior, Posterior};
use ebb_sketch::filter::inference::prior::{ReusePrior, ReuseSpec};
use ebb_sketch::filter::inference::{InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::planning::sizing::{Budget, Workload, paper_spec, plan_filter};
use ebb_sketch::filter::structure::timing::AgeLikelihood;
use ebb_sketch::filter::structure::timing::{AgeUnit, LikelihoodScope, Reading, TimingFilter};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::mix;

use crate::counting::CountMin;
use crate::report::{self, Series, Table};
use crate::streams::{self, Stream, WARM};

/// Items whose last sighting the learned priors remember.
const FOLLOWED: u32 = 2048;

/// Wrong answers' cost, and how chances compare with what came true.
#[derive(Clone, Default)]
struct Score {
    penalty: f64,
    predicted: [f64; 20],
    came_true: [f64; 20],
}

impl Score {
    fn answer(&mut self, duplicate: bool, truth: bool, (false_duplicate, missed): (f64, f64)) {
        self.penalty += match (duplicate, truth) {
            (true, false) => false_duplicate,
            (false, true) => missed,
            _ => 0.0,
        };
    }

    fn believe(&mut self, belief: Belief, truth: bool, costs: (f64, f64)) {
        let bin = ((belief.inside * 20.0) as usize).min(19);
        self.predicted[bin] += 1.0;
        self.came_true[bin] += f64::from(u8::from(truth));
        let penalties = Penalties::new(costs.0, costs.1).expect("penalties of 1 to 10");
        self.answer(penalties.decide(&belief).duplicate, truth, costs);
    }

    /// The paper's posterior error: distance of the share that came true from the middle of its bin.
    fn posterior_error(&self) -> f64 {
        let distance = |bin: usize| {
            let middle = (bin as f64 + 0.5) / 20.0;
            if self.predicted[bin] > 0.0 { (self.came_true[bin] - middle * self.predicted[bin]).abs() } else { 0.0 }
        };
        (0..20).map(distance).sum::<f64>() / self.predicted.iter().sum::<f64>()
    }
}

fn fingerprint(item: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(item ^ 0xEBB)) << 64 | u128::from(mix(item)))
}

/// D(j) for every j that can be asked for: a Zipf law is too slow to be summed at each arrival.
struct DistinctTable(Vec<f64>);

impl DistinctTable {
    fn new(distinct: &DistinctModel, most: u64) -> Self {
        Self((0..=most).map(|j| distinct.among(j as f64)).collect())
    }

    fn evidence(&self, filter: &TimingFilter, reading: &Reading, printed: bool) -> AgeLikelihood {
        let (from, length) = filter.age_range(reading, AgeUnit::Arrivals);
        let (begin, count) = (from as usize, length as usize);
        let items = if printed { self.0[count] } else { self.0[begin + count] - self.0[begin] };
        let spec = filter.spec();
        let collision = collision_probability(reading.oldest, spec.cells_per_item(), spec.cells(), items);
        AgeLikelihood { from, length, collision }
    }
}

/// Runs a filter over the stream; `judge` sees every asked arrival and whether the standard answer is "duplicate".
fn run(stream: &Stream, filter: &mut TimingFilter, mut judge: impl FnMut(usize, &TimingFilter, &Reading, bool)) {
    for (at, &number) in stream.items.iter().enumerate() {
        let item = fingerprint(number);
        let reading = filter.read(item);
        judge(at, filter, &reading, filter.standard_answer(&reading, 0, stream.window));
        filter.insert(item, 0);
        filter.count_arrival(0);
    }
}

fn geometric(evidence: AgeLikelihood, p: f64, window: f64) -> Belief {
    let share = ArrivalShare::new(p.min(0.5)).expect("a share of arrivals");
    Posterior::new(evidence, AgePrior::Geometric(share)).within(window)
}

/// Standard answer, printed, corrected and live likelihood, with every share known.
fn known_shares(stream: &Stream, bits_per_item: f64, k: u8) -> Option<[Score; 4]> {
    let spec = paper_spec(stream.window, bits_per_item, k, None)?;
    let table = DistinctTable::new(&stream.distinct, stream.window + 3 * spec.clock().block());
    let mut filter = TimingFilter::new(spec).expect("memory for a small filter");
    let mut scores: [Score; 4] = Default::default();
    run(stream, &mut filter, |at, filter, reading, standard| {
        if at < WARM {
            return;
        }
        let (truth, costs, p) = (stream.is_duplicate(at), stream.penalties[at], stream.shares[at]);
        scores[0].answer(standard, truth, costs);
        let window = filter.window_in(AgeUnit::Arrivals, 0, stream.window);
        let live =
            || filter.likelihood(fingerprint(stream.items[at]), reading, AgeUnit::Arrivals, LikelihoodScope::Filter);
        for (index, score) in scores[1..].iter_mut().enumerate() {
            let belief = match (standard, index) {
                (false, _) => Belief::OUTSIDE,
                (true, 0) => geometric(table.evidence(filter, reading, true), p, window),
                (true, 1) => geometric(table.evidence(filter, reading, false), p, window),
                (true, _) => geometric(live(), p, window),
            };
            score.believe(belief, truth, costs);
        }
    });
    Some(scores)
}

/// Penalty a query and posterior error of the k that costs least.
fn least<const N: usize>(runs: &[[Score; N]], index: usize) -> (f64, f64) {
    let asked = (streams::ARRIVALS - WARM) as f64;
    let best = runs.iter().map(|run| &run[index]).min_by(|a, b| a.penalty.total_cmp(&b.penalty));
    best.map_or((f64::NAN, f64::NAN), |score| (score.penalty / asked, score.posterior_error()))
}

/// (bits per item, the reference's printed and corrected ratio, and posterior errors).
type ExpectedErrors = (f64, f64, f64, f64, f64);

pub fn penalties() {
    let uniform: &[ExpectedErrors] = &[
        (2.0, 0.877, 0.863, 0.033, 0.010),
        (4.0, 0.814, 0.792, 0.041, 0.011),
        (8.0, 0.686, 0.669, 0.031, 0.012),
        (16.0, 0.674, 0.642, 0.032, 0.020),
    ];
    let power: &[ExpectedErrors] = &[
        (2.0, 0.211, 0.209, 0.020, 0.015),
        (4.0, 0.231, 0.228, 0.025, 0.018),
        (8.0, 0.298, 0.293, 0.025, 0.022),
        (16.0, 0.328, 0.317, 0.026, 0.024),
    ];
    let long: &[ExpectedErrors] = &[(4.0, 0.868, 0.757, 0.029, 0.022), (8.0, 0.750, 0.647, 0.027, 0.024)];
    let rows = [
        (streams::uniform(1 << 16), uniform, "around 0.8; error < 0.05"),
        (streams::power_law(1 << 11), power, "down to 0.3; error < 0.035"),
        (streams::uniform(1 << 18), long, "small gain"),
    ];
    let mut table = Table::new(
        "timing-penalties",
        &[
            "stream",
            "window",
            "bits/item",
            "standard/query",
            "printed",
            "reference",
            "corrected",
            "reference",
            "live histogram",
            "error printed",
            "reference",
            "error live",
            "reference",
            "paper",
        ],
    );
    let mut curves = Vec::new();
    for (stream, expected, paper) in &rows {
        let mut curve = Vec::new();
        for &(bits, printed_ratio, ratio, printed_error, error) in *expected {
            let runs: Vec<_> = (1..=7).filter_map(|k| known_shares(stream, bits, k)).collect();
            let (standard, _) = least(&runs, 0);
            let [printed, corrected, live] = [1, 2, 3].map(|index| least(&runs, index));
            table.row(
                [stream.name.into(), stream.window.to_string(), bits.to_string(), format!("{standard:.4}")]
                    .into_iter()
                    .chain(
                        [printed.0 / standard, printed_ratio, corrected.0 / standard, ratio].map(|v| format!("{v:.3}")),
                    )
                    .chain([live.0 / standard, printed.1, printed_error, live.1, error].map(|v| format!("{v:.3}")))
                    .chain([paper.to_string()]),
            );
            let what = format!("{} window {} at {bits} bits: live ratio", stream.name, stream.window);
            report::require(&what, live.0 / standard, ratio + 0.02);
            curve.push((bits, live.0 / standard));
        }
        curves.push(Series { label: format!("{}, window {}", stream.name, stream.window), points: curve });
    }
    table.publish();
    report::plot(
        "timing-penalties",
        "Penalty of the posterior's answer",
        "bits per item",
        "of the standard answer's",
        &curves,
    );
}

/// Names of the learned priors' columns, in the order of [`online`]'s scores.
const ONLINE: [&str; 6] =
    ["known share", "constant 1/V", "learned", "learned x 2 bits", "learned x 8 bits", "sketch as share"];

/// Standard answer and every online prior, on one pass.
fn online(stream: &Stream, bits_per_item: f64, k: u8) -> Option<[Score; 7]> {
    let spec = paper_spec(stream.window, bits_per_item, k, None)?;
    let mut filter = TimingFilter::new(spec).expect("memory for a small filter");
    let mut scores: [Score; 7] = Default::default();
    let window = stream.window;
    let constant = 1.0 / stream.distinct_among(8 * window as usize) as f64;
    let reuse = || ReusePrior::new(ReuseSpec::new(window, FOLLOWED).expect("a sample"));
    let mut priors = [reuse(), reuse(), reuse()];
    let mut sketches = [
        CountMin::new(2, window as usize / 8, 2 * window, 255.0),
        CountMin::new(2, window as usize / 2, 4 * window, 255.0),
        CountMin::new(4, 1 << 18, (4 * window).max(1 << 14), f64::INFINITY),
    ];
    run(stream, &mut filter, |at, filter, reading, standard| {
        let (number, item) = (stream.items[at], fingerprint(stream.items[at]));
        let frequencies = [None, Some(sketches[0].estimate(number)), Some(sketches[1].estimate(number))];
        if at >= WARM {
            let (truth, costs) = (stream.is_duplicate(at), stream.penalties[at]);
            scores[0].answer(standard, truth, costs);
            let evidence = filter.likelihood(item, reading, AgeUnit::Arrivals, LikelihoodScope::Filter);
            let sketched = (sketches[2].estimate(number) + 0.5) / (sketches[2].weight() + 0.5 / constant);
            for (index, score) in scores[1..].iter_mut().enumerate() {
                let belief = match (standard, index) {
                    (false, _) => Belief::OUTSIDE,
                    (true, 0) => geometric(evidence, stream.shares[at], window as f64),
                    (true, 1) => geometric(evidence, constant, window as f64),
                    (true, 5) => geometric(evidence, sketched, window as f64),
                    (true, _) => {
                        let curve = priors[index - 2].curve(frequencies[index - 2]);
                        Posterior::new(evidence, AgePrior::Learned(curve)).within(window as f64)
                    }
                };
                score.believe(belief, truth, costs);
            }
        }
        for (prior, frequency) in priors.iter_mut().zip(frequencies) {
            prior.advance(at as i64);
            prior.record_sighting(prior.last_sighting(item, at as i64 - 1), frequency);
            prior.record_insert(item, at as i64);
        }
        sketches.iter_mut().for_each(|sketch| sketch.add(number));
    });
    Some(scores)
}

pub fn priors() {
    type Row = (f64, [f64; 6]);
    let uniform: &[Row] =
        &[(4.0, [0.792, 0.792, 0.794, 0.792, 0.786, 0.726]), (8.0, [0.669, 0.669, 0.671, 0.671, 0.672, 0.639])];
    let power: &[Row] = &[
        (4.0, [0.229, 0.482, 0.466, 0.430, 0.303, 0.209]),
        (8.0, [0.293, 0.490, 0.481, 0.465, 0.376, 0.282]),
        (16.0, [0.317, 0.496, 0.482, 0.470, 0.397, 0.315]),
    ];
    let bursty: &[Row] = &[
        (4.0, [1.586, 0.783, 0.727, 0.721, 0.668, 0.653]),
        (8.0, [1.722, 0.662, 0.645, 0.643, 0.615, 0.578]),
        (16.0, [1.338, 0.659, 0.640, 0.640, 0.612, 0.573]),
    ];
    let mut table =
        Table::new("timing-priors", &["stream", "bits/item", "prior", "ratio", "reference", "posterior error"]);
    let mut curves = Vec::new();
    for (stream, rows) in
        [(streams::uniform(1 << 16), uniform), (streams::power_law(1 << 11), power), (streams::bursty(1 << 11), bursty)]
    {
        let mut curve = Vec::new();
        for &(bits, reference) in rows {
            let runs: Vec<_> = (1..=5).filter_map(|k| online(&stream, bits, k)).collect();
            let (standard, _) = least(&runs, 0);
            let ratios: [f64; 6] = std::array::from_fn(|index| least(&runs, index + 1).0 / standard);
            for (index, name) in ONLINE.iter().enumerate() {
                let figures = [ratios[index], reference[index], least(&runs, index + 1).1].map(|v| format!("{v:.3}"));
                table.row([stream.name.to_string(), bits.to_string(), name.to_string()].into_iter().chain(figures));
            }
            curve.push((bits, ratios[2]));
            require_learned(&stream, bits, &ratios);
        }
        curves.push(Series { label: stream.name.into(), points: curve });
    }
    table.publish();
    report::plot(
        "timing-priors",
        "Penalty with the learned prior",
        "bits per item",
        "of the standard answer's",
        &curves,
    );
}

/// What must survive without knowing any share: at 8 bits per item 95% (uniform) and 70% (power law) of what knowing
/// them saves, and on bursts a ratio below 0.70.
fn require_learned(stream: &Stream, bits: f64, ratios: &[f64; 6]) {
    let at_least = |survives: f64| {
        let most = 1.0 - survives * (1.0 - ratios[0]);
        report::require(&format!("{} at 8 bits: learned ratio", stream.name), ratios[2], most);
        println!("   {}: {:.1}% of the reduction survives", stream.name, 100.0 * (1.0 - ratios[2]) / (1.0 - ratios[0]));
    };
    match (stream.name, bits) {
        ("uniform", 8.0) => at_least(0.95),
        ("power law", 8.0) => at_least(0.70),
        ("bursty", 8.0 | 16.0) => {
            report::require(&format!("bursty at {bits} bits: learned ratio"), ratios[2], 0.70);
        }
        _ => {}
    }
}

/// What the exact map of the benches spends: `HashMap<u128, i64>` slots of 33 bytes, filled to 7/8 at most, and a queue of
/// 32 bytes for what will expire.
fn exact_bytes(items: f64) -> f64 {
    let slots = ((items * 8.0 / 7.0) as u64).next_power_of_two();
    slots as f64 * 33.0 + items * 32.0
}

/// The product's own shape: planned lines, learned prior, guard on. Beside it an exact map that remembers only so many
/// items that it misses as much penalty as we err: equal decision quality.
pub fn memory() {
    let mut table = Table::new(
        "timing-memory",
        &[
            "stream",
            "bits/item",
            "timer bits",
            "cells",
            "blocks",
            "standard/query",
            "ratio",
            "trusted",
            "bytes/item",
            "exact bytes/item",
            "exact/ours",
            "sample bytes/item",
        ],
    );
    for stream in [streams::uniform(1 << 16), streams::power_law(1 << 11), streams::bursty(1 << 11)] {
        for bits in [8, 16, 32] {
            let demand = Workload::count(stream.window).expect("a window").with_distinct(stream.distinct.clone());
            let plan = plan_filter(&demand, Budget::Memory(stream.window * bits / 8)).expect("enough memory");
            let reuse = ReuseSpec::new(stream.window, FOLLOWED).expect("a sample");
            let mut filter = InferentialFilter::new(plan.spec, Seen::Last, PriorSpec::Learned(reuse)).expect("memory");
            let (mut standard, mut decided, mut duplicates, mut missed_cost) =
                (Score::default(), Score::default(), 0.0, 0.0);
            for at in 0..stream.items.len() {
                let (truth, costs) = (stream.is_duplicate(at), stream.penalties[at]);
                let question = Question::new(fingerprint(stream.items[at]), 0, stream.window);
                let plain = filter.ask(&question).duplicate;
                let penalties = Penalties::new(costs.0, costs.1).expect("penalties of 1 to 10");
                let answer = filter.observe(&question.with_penalties(penalties)).expect("arrivals are never late");
                if at >= WARM {
                    standard.answer(plain, truth, costs);
                    decided.answer(answer.duplicate, truth, costs);
                    duplicates += f64::from(u8::from(truth));
                    missed_cost += if truth { costs.1 } else { 0.0 };
                }
            }
            let asked = (streams::ARRIVALS - WARM) as f64;
            // DistinctModel items in a window, in the mean: an arrival is one of them when it does not come again in it.
            let items = stream.window as f64 * (1.0 - duplicates / asked);
            let kept = (1.0 - decided.penalty / missed_cost).clamp(0.0, 1.0);
            let (ours, exact) = (plan.spec.memory_bytes() as f64 / items, exact_bytes(items * kept) / items);
            let trusted = filter.learned().is_some_and(|(_, calibration)| calibration.is_trusted());
            let sample = filter.learned().map_or(0, |(reuse, _)| reuse.tracked() * 16);
            table.row([
                stream.name.into(),
                bits.to_string(),
                plan.spec.timer_bits().to_string(),
                plan.spec.cells_per_item().to_string(),
                plan.spec.oldest_live_age().to_string(),
                format!("{:.4}", standard.penalty / asked),
                format!("{:.3}", decided.penalty / standard.penalty),
                trusted.to_string(),
                format!("{ours:.2}"),
                format!("{exact:.2}"),
                format!("{:.1}", exact / ours),
                format!("{:.2}", sample as f64 / items),
            ]);
        }
    }
    table.publish();
}
