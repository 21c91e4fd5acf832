//! Runs a stream through the filters under several hash keys.

use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::policy::PolicyCosts;
use ebb_sketch::filter::inference::prior::ReuseSpec;
use ebb_sketch::filter::inference::{Basis, InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::planning::sizing::{Budget, WindowLength, Workload, plan_filter, plan_for_penalty};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;

use super::streams::{Stream, Window};

/// Items whose history the service tracks.
const SAMPLED_ITEMS: u32 = 4096;
pub const BINS: usize = 10;
/// Memory per event for which the layout is planned.
const PLANNED_BITS: u64 = 8;

/// Predictions in one range of probabilities.
#[derive(Clone, Copy, Default)]
pub struct Bin {
    pub predictions: u64,
    pub predicted: f64,
    pub came_true: u64,
}

/// What was measured, over all hash keys.
pub struct Measurement {
    pub layout: TimingSpec,
    /// Costs by window.
    pub windows: Vec<PolicyCosts>,
    /// Costs of single keys, from the third window on.
    pub by_key: Vec<PolicyCosts>,
    pub bins: [Bin; BINS],
    /// The largest number of windows until answers were based on the posterior.
    pub learning_windows: f64,
    /// Decisions after the second window by basis, in the order of [`Basis::ALL`].
    pub bases: [u64; 4],
    /// True repeats answered "unique" in the first and the second half.
    pub missed: [(u64, u64); 2],
}

fn workload(stream: &Stream) -> Workload {
    let window = match stream.window {
        Window::Events(window) => WindowLength::Count { window },
        Window::Milliseconds(window_ms) => WindowLength::Time { window_ms, lateness_ms: window_ms / 8 },
    };
    Workload::new(window, stream.window_events as f64).expect("a workload")
}

pub fn run(stream: &Stream, keys: u8) -> Measurement {
    let memory = (stream.window_events * stream.bits_per_event / 8).max(64);
    let workload = workload(stream);
    let equal = Penalties::new(1.0, 1.0).expect("penalties");
    let layout = match stream.bits_per_event {
        PLANNED_BITS => plan_for_penalty(&workload, memory, &equal, Seen::Last).expect("a layout").spec,
        // The layout of a filter whose load is not known in advance.
        _ => TimingSpec::time(stream.window_length(), 0, memory).expect("a layout"),
    };
    let standard = match stream.bits_per_event {
        PLANNED_BITS => plan_filter(&workload, Budget::Memory(memory)).expect("a layout").spec,
        _ => layout,
    };
    let mut measurement = Measurement {
        layout,
        windows: Vec::new(),
        by_key: Vec::new(),
        bins: [Bin::default(); BINS],
        learning_windows: 0.0,
        bases: [0; 4],
        missed: [(0, 0); 2],
    };
    let truths = stream.truths();
    for key in 0..keys {
        run_key(stream, &truths, standard, key, &mut measurement);
    }
    measurement
}

fn run_key(stream: &Stream, truths: &[bool], standard: TimingSpec, key: u8, measurement: &mut Measurement) {
    let length = stream.window_length();
    let prior = PriorSpec::Learned(ReuseSpec::new(length, SAMPLED_ITEMS).expect("a sample"));
    let hash = HashKey::new([key; 16]);
    let mut service = InferentialFilter::new(measurement.layout, Seen::Last, prior).expect("a filter");
    let mut plain = InferentialFilter::new(standard, Seen::Last, prior).expect("a filter");
    let start = stream.position(0);
    let mut key_costs = PolicyCosts::default();
    for (index, (event, &truth)) in stream.events.iter().zip(truths).enumerate() {
        let windows = (stream.position(index) - start) as f64 / length as f64;
        let question = Question::new(hash.fingerprint(&event.item.to_le_bytes()), event.time_ms, length);
        let penalties = Penalties::new(event.costs.0, event.costs.1).expect("penalties");
        let answer = service.observe(&question.with_penalties(penalties)).expect("an event in order");
        let standard = plain.observe(&question).expect("an event in order").duplicate;
        if answer.basis == Basis::Learning {
            measurement.learning_windows = measurement.learning_windows.max(windows);
        }
        if event.is_noise {
            continue;
        }
        let cost = |duplicate| match (duplicate, truth) {
            (true, false) => event.costs.0,
            (false, true) => event.costs.1,
            _ => 0.0,
        };
        let costs = [cost(answer.duplicate), cost(standard), cost(false)];
        let window = windows as usize;
        measurement.windows.resize(measurement.windows.len().max(window + 1), PolicyCosts::default());
        add(&mut measurement.windows[window], costs);
        let half = usize::from(index * 2 >= stream.events.len());
        if truth {
            measurement.missed[half].1 += 1;
            measurement.missed[half].0 += u64::from(!answer.duplicate);
        }
        if window >= 2 {
            add(&mut key_costs, costs);
            let basis = Basis::ALL.iter().position(|basis| *basis == answer.basis).expect("a basis");
            measurement.bases[basis] += 1;
            if let Some(belief) = answer.belief.filter(|belief| belief.inside > 0.0) {
                let bin = &mut measurement.bins[((belief.inside * BINS as f64) as usize).min(BINS - 1)];
                bin.predictions += 1;
                bin.predicted += belief.inside;
                bin.came_true += u64::from(truth);
            }
        }
    }
    measurement.by_key.push(key_costs);
}

fn add(sum: &mut PolicyCosts, [posterior, standard, accept_all]: [f64; 3]) {
    sum.posterior += posterior;
    sum.standard += standard;
    sum.accept_all += accept_all;
}
