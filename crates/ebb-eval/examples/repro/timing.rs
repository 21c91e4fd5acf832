//! The inferential filter: penalty and posterior error relative to the standard answer, with known shares and with learned
//! priors. As in the paper, each figure is for the best number of cells per item.

use ebb_sketch::filter::belief::{ArrivalShare, Belief};
use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::distinct::{DistinctModel, LikelihoodForm, collision_probability};
use ebb_sketch::filter::inference::posterior::{AgePrior, Posterior};
use ebb_sketch::filter::inference::prior::{ReusePrior, ReuseSpec};
use ebb_sketch::filter::inference::{InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::planning::sizing::{Budget, Workload, paper_spec, plan_filter};
use ebb_sketch::filter::structure::timing::{AgeLikelihood, AgeUnit, LikelihoodScope, Reading, TimingFilter};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::mix;

use crate::count_min::CountMin;
use crate::report::{self, Series, Table};
use crate::streams::{self, Stream, WARM_UP};

/// Items that the learned priors track.
const TRACKED: u32 = 2048;

/// The cost of wrong answers, and predictions compared with outcomes.
#[derive(Clone, Default)]
struct Score {
    penalty: f64,
    predicted: [f64; 20],
    came_true: [f64; 20],
}

impl Score {
    fn record_answer(&mut self, duplicate: bool, truth: bool, (false_duplicate, missed): (f64, f64)) {
        self.penalty += match (duplicate, truth) {
            (true, false) => false_duplicate,
            (false, true) => missed,
            _ => 0.0,
        };
    }

    fn record_belief(&mut self, belief: Belief, truth: bool, costs: (f64, f64)) {
        let bin = ((belief.inside * 20.0) as usize).min(19);
        self.predicted[bin] += 1.0;
        self.came_true[bin] += f64::from(u8::from(truth));
        let penalties = Penalties::new(costs.0, costs.1).expect("penalties of 1 to 10");
        self.record_answer(penalties.decide(&belief).duplicate, truth, costs);
    }

    /// The paper's posterior error: distance of the observed frequency from the middle of its bin.
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

/// D(j), tabulated: summing a Zipf distribution at each arrival would be too slow.
struct DistinctTable(Vec<f64>);

impl DistinctTable {
    fn new(distinct: &DistinctModel, max: u64) -> Self {
        Self((0..=max).map(|j| distinct.among(j as f64)).collect())
    }

    fn likelihood(&self, filter: &TimingFilter, reading: &Reading, form: LikelihoodForm) -> AgeLikelihood {
        let (from, length) = filter.age_range(reading, AgeUnit::Arrivals);
        let (begin, count) = (from as usize, length as usize);
        let items = match form {
            LikelihoodForm::Printed => self.0[count],
            LikelihoodForm::Corrected => self.0[begin + count] - self.0[begin],
        };
        let spec = filter.spec();
        let collision = collision_probability(reading.oldest, spec.cells_per_item(), spec.cells(), items);
        AgeLikelihood { from, length, collision }
    }
}

/// Runs a filter over the stream; `evaluate` receives every arrival and whether the standard answer is "duplicate".
fn run(stream: &Stream, filter: &mut TimingFilter, mut evaluate: impl FnMut(usize, &TimingFilter, &Reading, bool)) {
    for (at, &number) in stream.items.iter().enumerate() {
        let item = fingerprint(number);
        let reading = filter.read(item);
        evaluate(at, filter, &reading, filter.standard_answer(&reading, 0, stream.window));
        filter.insert(item, 0);
        filter.count_arrival(0);
    }
}

fn geometric(likelihood: AgeLikelihood, p: f64, window: f64) -> Belief {
    let share = ArrivalShare::new(p.min(0.5)).expect("a share of arrivals");
    Posterior::new(likelihood, AgePrior::Geometric(share)).within(window)
}

/// Scores of the standard answer and of the printed, the corrected and the histogram likelihood, with known shares.
fn known_shares(stream: &Stream, bits_per_item: f64, k: u8) -> Option<[Score; 4]> {
    let spec = paper_spec(stream.window, bits_per_item, k, None)?;
    let table = DistinctTable::new(&stream.distinct, stream.window + 3 * spec.clock().block());
    let mut filter = TimingFilter::new(spec).expect("memory for a small filter");
    let mut scores: [Score; 4] = Default::default();
    run(stream, &mut filter, |at, filter, reading, standard| {
        if at < WARM_UP {
            return;
        }
        let (truth, costs, p) = (stream.is_duplicate(at), stream.penalties[at], stream.shares[at]);
        scores[0].record_answer(standard, truth, costs);
        let window = filter.window_in(AgeUnit::Arrivals, 0, stream.window);
        let live =
            || filter.likelihood(fingerprint(stream.items[at]), reading, AgeUnit::Arrivals, LikelihoodScope::Filter);
        for (index, score) in scores[1..].iter_mut().enumerate() {
            let belief = match (standard, index) {
                (false, _) => Belief::OUTSIDE,
                (true, 0) => geometric(table.likelihood(filter, reading, LikelihoodForm::Printed), p, window),
                (true, 1) => geometric(table.likelihood(filter, reading, LikelihoodForm::Corrected), p, window),
                (true, _) => geometric(live(), p, window),
            };
            score.record_belief(belief, truth, costs);
        }
    });
    Some(scores)
}

/// Penalty per query and posterior error of the best k.
fn best<const N: usize>(runs: &[[Score; N]], index: usize) -> (f64, f64) {
    let queries = (streams::ARRIVALS - WARM_UP) as f64;
    let best_run = runs.iter().map(|run| &run[index]).min_by(|a, b| a.penalty.total_cmp(&b.penalty));
    best_run.map_or((f64::NAN, f64::NAN), |score| (score.penalty / queries, score.posterior_error()))
}

/// Bits per item, and the reference's ratios and posterior errors, printed and corrected.
type ReferenceRow = (f64, f64, f64, f64, f64);

pub fn penalties() {
    let uniform: &[ReferenceRow] = &[
        (2.0, 0.877, 0.863, 0.033, 0.010),
        (4.0, 0.814, 0.792, 0.041, 0.011),
        (8.0, 0.686, 0.669, 0.031, 0.012),
        (16.0, 0.674, 0.642, 0.032, 0.020),
    ];
    let power: &[ReferenceRow] = &[
        (2.0, 0.211, 0.209, 0.020, 0.015),
        (4.0, 0.231, 0.228, 0.025, 0.018),
        (8.0, 0.298, 0.293, 0.025, 0.022),
        (16.0, 0.328, 0.317, 0.026, 0.024),
    ];
    let long: &[ReferenceRow] = &[(4.0, 0.868, 0.757, 0.029, 0.022), (8.0, 0.750, 0.647, 0.027, 0.024)];
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
            let (standard, _) = best(&runs, 0);
            let [printed, corrected, live] = [1, 2, 3].map(|index| best(&runs, index));
            table.row(
                [stream.name.into(), stream.window.to_string(), bits.to_string(), format!("{standard:.4}")]
                    .into_iter()
                    .chain(
                        [printed.0 / standard, printed_ratio, corrected.0 / standard, ratio].map(|v| format!("{v:.3}")),
                    )
                    .chain([live.0 / standard, printed.1, printed_error, live.1, error].map(|v| format!("{v:.3}")))
                    .chain([paper.to_string()]),
            );
            let name = format!("{} window {} at {bits} bits: live ratio", stream.name, stream.window);
            report::require(&name, live.0 / standard, ratio + 0.02);
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

/// The priors, in the order of [`learned_priors`]' scores.
const PRIORS: [&str; 6] =
    ["known share", "constant 1/V", "learned", "learned x 2 bits", "learned x 8 bits", "sketch as share"];

/// Scores of the standard answer and of every prior, in one pass.
fn learned_priors(stream: &Stream, bits_per_item: f64, k: u8) -> Option<[Score; 7]> {
    let spec = paper_spec(stream.window, bits_per_item, k, None)?;
    let mut filter = TimingFilter::new(spec).expect("memory for a small filter");
    let mut scores: [Score; 7] = Default::default();
    let window = stream.window;
    let constant = 1.0 / stream.distinct_among(8 * window as usize) as f64;
    let reuse = || ReusePrior::new(ReuseSpec::new(window, TRACKED).expect("a sample"));
    let mut priors = [reuse(), reuse(), reuse()];
    let mut sketches = [
        CountMin::new(2, window as usize / 8, 2 * window, 255.0),
        CountMin::new(2, window as usize / 2, 4 * window, 255.0),
        CountMin::new(4, 1 << 18, (4 * window).max(1 << 14), f64::INFINITY),
    ];
    run(stream, &mut filter, |at, filter, reading, standard| {
        let (number, item) = (stream.items[at], fingerprint(stream.items[at]));
        let frequencies = [None, Some(sketches[0].estimate(number)), Some(sketches[1].estimate(number))];
        if at >= WARM_UP {
            let (truth, costs) = (stream.is_duplicate(at), stream.penalties[at]);
            scores[0].record_answer(standard, truth, costs);
            let likelihood = filter.likelihood(item, reading, AgeUnit::Arrivals, LikelihoodScope::Filter);
            let sketched = (sketches[2].estimate(number) + 0.5) / (sketches[2].weight() + 0.5 / constant);
            for (index, score) in scores[1..].iter_mut().enumerate() {
                let belief = match (standard, index) {
                    (false, _) => Belief::OUTSIDE,
                    (true, 0) => geometric(likelihood, stream.shares[at], window as f64),
                    (true, 1) => geometric(likelihood, constant, window as f64),
                    (true, 5) => geometric(likelihood, sketched, window as f64),
                    (true, _) => {
                        let curve = priors[index - 2].curve(frequencies[index - 2], None);
                        Posterior::new(likelihood, AgePrior::Learned(curve)).within(window as f64)
                    }
                };
                score.record_belief(belief, truth, costs);
            }
        }
        for (prior, frequency) in priors.iter_mut().zip(frequencies) {
            prior.advance(at as i64);
            prior.record_sighting(prior.last_sighting(item, at as i64 - 1), frequency, None);
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
            let runs: Vec<_> = (1..=5).filter_map(|k| learned_priors(&stream, bits, k)).collect();
            let (standard, _) = best(&runs, 0);
            let ratios: [f64; 6] = std::array::from_fn(|index| best(&runs, index + 1).0 / standard);
            for (index, name) in PRIORS.iter().enumerate() {
                let figures = [ratios[index], reference[index], best(&runs, index + 1).1].map(|v| format!("{v:.3}"));
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

/// Targets without known shares: at 8 bits per item 95% (uniform) and 70% (power law) of the reduction that known shares
/// give, and a ratio below 0.70 on the bursty stream.
fn require_learned(stream: &Stream, bits: f64, ratios: &[f64; 6]) {
    let require_reduction = |fraction: f64| {
        let max = 1.0 - fraction * (1.0 - ratios[0]);
        report::require(&format!("{} at 8 bits: learned ratio", stream.name), ratios[2], max);
        println!("   {}: {:.1}% of the reduction remains", stream.name, 100.0 * (1.0 - ratios[2]) / (1.0 - ratios[0]));
    };
    match (stream.name, bits) {
        ("uniform", 8.0) => require_reduction(0.95),
        ("power law", 8.0) => require_reduction(0.70),
        ("bursty", 8.0 | 16.0) => {
            report::require(&format!("bursty at {bits} bits: learned ratio"), ratios[2], 0.70);
        }
        _ => {}
    }
}

/// Memory of the exact map of the benches: `HashMap<u128, i64>` slots of 33 bytes with a load of at most 7/8, and an expiry
/// queue of 32 bytes per item.
fn exact_bytes(items: f64) -> f64 {
    let slots = ((items * 8.0 / 7.0) as u64).next_power_of_two();
    slots as f64 * 33.0 + items * 32.0
}

/// The production configuration (planned layout, learned prior, calibration guard) against an exact map that holds only as
/// many items as give it the same penalty.
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
            "policy",
            "bytes/item",
            "exact bytes/item",
            "exact/filter",
            "sample bytes/item",
        ],
    );
    for stream in [streams::uniform(1 << 16), streams::power_law(1 << 11), streams::bursty(1 << 11)] {
        for bits in [8, 16, 32] {
            let workload = Workload::count(stream.window).expect("a window").with_distinct(stream.distinct.clone());
            let plan = plan_filter(&workload, Budget::Memory(stream.window * bits / 8)).expect("enough memory");
            let reuse = ReuseSpec::new(stream.window, TRACKED).expect("a sample");
            let mut filter = InferentialFilter::new(plan.spec, Seen::Last, PriorSpec::Learned(reuse)).expect("memory");
            let (mut standard, mut decided, mut duplicates, mut missed_cost) =
                (Score::default(), Score::default(), 0.0, 0.0);
            for at in 0..stream.items.len() {
                let (truth, costs) = (stream.is_duplicate(at), stream.penalties[at]);
                let question = Question::new(fingerprint(stream.items[at]), 0, stream.window);
                let plain = filter.ask(&question).duplicate;
                let penalties = Penalties::new(costs.0, costs.1).expect("penalties of 1 to 10");
                let answer = filter.observe(&question.with_penalties(penalties)).expect("arrivals are never late");
                if at >= WARM_UP {
                    standard.record_answer(plain, truth, costs);
                    decided.record_answer(answer.duplicate, truth, costs);
                    duplicates += f64::from(u8::from(truth));
                    missed_cost += if truth { costs.1 } else { 0.0 };
                }
            }
            let queries = (streams::ARRIVALS - WARM_UP) as f64;
            // Mean number of distinct items per window: the arrivals that do not repeat within it.
            let items = stream.window as f64 * (1.0 - duplicates / queries);
            let kept = (1.0 - decided.penalty / missed_cost).clamp(0.0, 1.0);
            let (filter_bytes, exact) = (plan.spec.memory_bytes() as f64 / items, exact_bytes(items * kept) / items);
            let sample = filter.learned().map_or(0, |learned| learned.reuse().tracked() * 16);
            table.row([
                stream.name.into(),
                bits.to_string(),
                plan.spec.timer_bits().to_string(),
                plan.spec.cells_per_item().to_string(),
                plan.spec.oldest_live_age().to_string(),
                format!("{:.4}", standard.penalty / queries),
                format!("{:.3}", decided.penalty / standard.penalty),
                filter.basis().name().into(),
                format!("{filter_bytes:.2}"),
                format!("{exact:.2}"),
                format!("{:.1}", exact / filter_bytes),
                format!("{:.2}", sample as f64 / items),
            ]);
        }
    }
    table.publish();
}
