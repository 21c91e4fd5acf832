//! The aggregates that are checked: every method with the decays it accepts.

use std::sync::Arc;

use ebb_core::{
    AggregateParameters, AggregateSpec, DedupSpec, EventSpec, FilterSpec, Measure, Method, Plan, Reader, Seen,
    Selection, Weighting,
};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::hash::HashKey;

use crate::stream::{Distribution, MAX_VALUE, SPAN_MS};

pub const STEP: f64 = 0.01;
pub const HORIZON_MS: u64 = 2 * SPAN_MS;
const WINDOW: &str = "window:40s";
const WHOLE: &str = "window:2m";
const EXPONENTIAL: &str = "exponential:half_life=15s";
const POLYNOMIAL: &str = "polynomial:alpha=1,unit=10s";
const TABLE: &str = "table:0s=1,20s=0.6,40s=0.1,60s=0";

/// A method with its configured decay, and the decays of the questions.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub method: Method,
    pub decay: Option<&'static str>,
    pub questions: &'static [&'static str],
}

pub const SETUPS: &[Setup] = &[
    Setup { method: Method::Robust, decay: None, questions: &[WHOLE, WINDOW, EXPONENTIAL, POLYNOMIAL, TABLE] },
    Setup { method: Method::Integral, decay: Some(WINDOW), questions: &[WINDOW] },
    Setup { method: Method::Integral, decay: Some(EXPONENTIAL), questions: &[EXPONENTIAL] },
    Setup { method: Method::Integral, decay: Some(POLYNOMIAL), questions: &[POLYNOMIAL] },
    Setup { method: Method::Forward, decay: Some(EXPONENTIAL), questions: &[EXPONENTIAL] },
    Setup { method: Method::Division, decay: Some(EXPONENTIAL), questions: &[EXPONENTIAL, WINDOW] },
    Setup { method: Method::Division, decay: Some(POLYNOMIAL), questions: &[POLYNOMIAL, TABLE] },
    Setup { method: Method::Cascade, decay: None, questions: &[WHOLE, WINDOW, EXPONENTIAL, POLYNOMIAL, TABLE] },
    Setup { method: Method::Levels, decay: None, questions: &[WHOLE, WINDOW, EXPONENTIAL, POLYNOMIAL, TABLE] },
];

pub fn method_names() -> Vec<&'static str> {
    Method::ALL.map(Method::name).to_vec()
}

pub fn is_method(name: &str) -> bool {
    method_names().contains(&name)
}

impl Setup {
    /// Sampling methods have probabilistic bounds and need many runs.
    pub fn is_sampled(&self) -> bool {
        self.method.ignores_repeats()
    }

    pub fn parameters(&self, distribution: Distribution, seed: u64) -> AggregateParameters {
        AggregateParameters {
            name: "amount".into(),
            of: Measure::Value,
            over: Selection::All,
            method: self.method,
            epsilon: 0.2,
            delta: 0.05,
            decay: self.decay.map(|decay| decay.parse().expect("a decay")),
            horizon_ms: HORIZON_MS,
            keys: None,
            memory: None,
            top: Some(0),
            step: STEP,
            max: MAX_VALUE,
            weights: if distribution == Distribution::Weighted { Weighting::ByEvent } else { Weighting::Unit },
            seed,
        }
    }
}

/// A plan with one aggregate and the smallest filter.
pub fn plan(parameters: AggregateParameters) -> Arc<Plan> {
    let path = |path: &str| path.parse().expect("a path");
    let event = EventSpec {
        value: Some(path("value")),
        weight: Some(path("weight")),
        labels: vec![path("label")],
        ..EventSpec::of_item(vec![path("item")])
    };
    let filter = FilterSpec::Classic { size: CellLayout::Spread(1024), hashes: 1, share: None };
    Arc::new(Plan {
        reader: Arc::new(Reader::new(event, HashKey::new([9; 16])).expect("a reader")),
        max_skew_ms: u64::MAX,
        dedup: DedupSpec::new(filter, Seen::Last),
        frequency: None,
        aggregates: vec![AggregateSpec::new(parameters).expect("valid parameters")],
    })
}
