//! Exact answers from all events. Shares no code with the sketches.

use std::collections::{BTreeMap, HashSet};

use ebb_core::{AggregateParameters, Event, Method};
use ebb_sketch::decay::Decay;

/// Room for the rounding of sums and of scaled values.
pub const ROUNDING: f64 = 1e-9;

/// One event under one decay.
#[derive(Debug)]
struct Fact<'a> {
    /// Rounded to the nearest step.
    value: f64,
    /// What sums add; `robust` does not round it.
    summand: f64,
    /// The decayed weight.
    weight: f64,
    label: &'a str,
}

/// All events under one decay, by value.
#[derive(Debug)]
pub struct Truth<'a> {
    facts: Vec<Fact<'a>>,
    count: f64,
}

impl<'a> Truth<'a> {
    pub fn new(parameters: &AggregateParameters, events: &'a [Event], decay: &Decay) -> Self {
        let now_ms = events.iter().filter_map(|event| event.time_ms).max().unwrap_or(0);
        let mut seen = HashSet::new();
        let is_new = |event: &&Event| !parameters.method.ignores_repeats() || seen.insert(event.id.map(|id| id.0));
        let fact = |event: &'a Event| {
            let value = event.value.unwrap_or(0.0);
            let rounded = (value / parameters.step).round() * parameters.step;
            let weight = if parameters.method == Method::Integral { integral_weight } else { real_weight };
            Fact {
                value: rounded,
                summand: if parameters.method == Method::Robust { value } else { rounded },
                weight: weight(decay, event.weight.unwrap_or(1.0), (event.time_ms.unwrap_or(0), now_ms)),
                label: &event.labels[0],
            }
        };
        let mut facts: Vec<Fact<'a>> = events.iter().filter(is_new).map(fact).collect();
        facts.retain(|fact| fact.weight > 0.0);
        facts.sort_by(|a, b| a.value.total_cmp(&b.value));
        let count = facts.iter().map(|fact| fact.weight).sum();
        Self { facts, count }
    }

    pub fn count(&self) -> f64 {
        self.count
    }

    pub fn sum(&self) -> f64 {
        self.facts.iter().map(|fact| fact.weight * fact.summand).sum()
    }

    pub fn share(&self, selects: impl Fn(f64) -> bool) -> f64 {
        self.facts.iter().filter(|fact| selects(fact.value)).map(|fact| fact.weight).sum::<f64>() / self.count
    }

    pub fn quantile(&self, phi: f64) -> f64 {
        let mut reached = 0.0;
        let at = self.facts.iter().find(|fact| {
            reached += fact.weight;
            reached >= phi * self.count
        });
        at.or(self.facts.last()).map_or(f64::NAN, |fact| fact.value)
    }

    pub fn labels(&self) -> BTreeMap<&str, f64> {
        let mut shares = BTreeMap::new();
        self.facts.iter().for_each(|fact| *shares.entry(fact.label).or_default() += fact.weight / self.count);
        shares
    }
}

fn real_weight(decay: &Decay, weight: f64, (time_ms, now_ms): (i64, i64)) -> f64 {
    weight * decay.weight((now_ms - time_ms) as u64)
}

/// The method `integral` counts whole 1024ths of the decayed weight, in ticks of its own.
fn integral_weight(decay: &Decay, weight: f64, (time_ms, now_ms): (i64, i64)) -> f64 {
    let tick_ms = match (decay.rate(), decay.power()) {
        (Some(rate), _) => (1.0 / (rate * 4096.0)).floor().max(1.0) as i64,
        (_, Some((_, unit_ms))) => unit_ms as i64,
        _ => 1,
    };
    let ticks = now_ms.div_euclid(tick_ms) - time_ms.div_euclid(tick_ms);
    (weight * 1024.0 * decay.weight((ticks * tick_ms) as u64) * (1.0 + 1e-12)).floor() / 1024.0
}
