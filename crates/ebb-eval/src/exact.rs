//! Exact answers of an aggregate: every observation is kept and weighted individually.
//!
//! This follows the rules of the aggregate (which events count, how values are rounded to steps, which are too old) but
//! shares none of its code. Memory grows with the file.

use std::collections::{BTreeMap, HashMap, HashSet};

use ebb_core::{
    AggregateParameters, Event, MAX_INTEGRAL_WEIGHT, MAX_ROBUST_WEIGHT, MAX_TEXT_BYTES, Measure, Method, Selection,
    Verdict, Weighting,
};
use ebb_sketch::decay::Decay;
use ebb_sketch::hash::Fingerprint;

/// Bytes that an exact answer needs per observation: time, value, weight, label.
pub const OBSERVATION_BYTES: u64 = 32;

#[derive(Debug, Clone, Copy)]
struct Observation {
    time_ms: i64,
    /// Rounded to the nearest step.
    value: f64,
    /// What sums add: not rounded by `robust`.
    summand: f64,
    weight: f64,
    label: u32,
}

/// All observations of one aggregate.
#[derive(Debug)]
pub struct ExactAggregate {
    parameters: AggregateParameters,
    observations: Vec<Observation>,
    /// Ids seen so far: sampling sketches ignore repeated observations.
    ids: HashSet<Fingerprint>,
    labels: Vec<Box<str>>,
    label_indices: HashMap<Box<str>, u32>,
}

/// The time of an event and the clock of its shard.
#[derive(Debug, Clone, Copy)]
pub struct EventTime {
    pub time_ms: i64,
    pub clock_ms: i64,
}

impl ExactAggregate {
    pub fn new(parameters: &AggregateParameters) -> Self {
        Self {
            parameters: parameters.clone(),
            observations: Vec::new(),
            ids: HashSet::new(),
            labels: Vec::new(),
            label_indices: HashMap::new(),
        }
    }

    pub fn len(&self) -> u64 {
        self.observations.len() as u64
    }

    /// Adds an event that was not rejected, if the aggregate counts it.
    pub fn add(&mut self, event: &Event, verdict: Verdict, when: EventTime) {
        let parameters = &self.parameters;
        let is_selected = parameters.over == Selection::All || verdict == Verdict::Unique;
        let has_horizon = !matches!(parameters.method, Method::Forward | Method::Integral);
        if !is_selected || has_horizon && when.clock_ms.abs_diff(when.time_ms) >= parameters.horizon_ms {
            return;
        }
        let (Some(value), Some(weight)) = (self.value(event), self.weight(event)) else { return };
        if let Measure::Distinct(index) = self.parameters.of {
            let Some(text) = event.labels.get(index) else { return };
            let label = self.number_of(text);
            let (value, summand) = value;
            self.observations.push(Observation { time_ms: when.time_ms, value, summand, weight, label });
            return;
        }
        let is_sampled = matches!(self.parameters.method, Method::Robust | Method::Integral);
        if is_sampled && event.id.is_some_and(|id| !self.ids.insert(id)) {
            return;
        }
        let label = self.parameters.top.and_then(|index| event.labels.get(index)).map_or(0, |text| self.label(text));
        let (value, summand) = value;
        self.observations.push(Observation { time_ms: when.time_ms, value, summand, weight, label });
    }

    /// The value rounded to the nearest step, and as it is summed; `None` if the aggregate refuses it.
    fn value(&self, event: &Event) -> Option<(f64, f64)> {
        let parameters = &self.parameters;
        let measured = match parameters.of {
            Measure::Count | Measure::Distinct(_) => return Some((1.0, 1.0)),
            Measure::Value => event.value?,
            Measure::Weight => event.weight?,
            Measure::Number(index) => event.numbers.get(index).copied().flatten()?,
        };
        let steps = (measured / parameters.step).round();
        let max_steps = (parameters.max / parameters.step + 1e-9).floor();
        let value = steps * parameters.step;
        let summand = if parameters.method == Method::Robust { measured } else { value };
        (measured >= 0.0 && steps <= max_steps).then_some((value, summand))
    }

    fn weight(&self, event: &Event) -> Option<f64> {
        let is_unweighted = matches!(self.parameters.of, Measure::Weight | Measure::Distinct(_));
        if self.parameters.weights == Weighting::Unit || is_unweighted {
            return Some(1.0);
        }
        let weight = event.weight.unwrap_or(1.0);
        let (is_countable, max) = match self.parameters.method {
            Method::Robust => (weight.fract() == 0.0, f64::from(MAX_ROBUST_WEIGHT)),
            Method::Integral => (weight.fract() == 0.0, f64::from(MAX_INTEGRAL_WEIGHT)),
            Method::Forward | Method::Division | Method::Cascade | Method::Levels => (true, f64::MAX),
        };
        (is_countable && (1.0..=max).contains(&weight)).then_some(weight)
    }

    fn label(&mut self, text: &str) -> u32 {
        let end = (0..=text.len().min(MAX_TEXT_BYTES)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.number_of(&text[..end])
    }

    fn number_of(&mut self, text: &str) -> u32 {
        if let Some(number) = self.label_indices.get(text) {
            return *number;
        }
        let number = self.labels.len() as u32;
        self.labels.push(text.into());
        self.label_indices.insert(text.into(), number);
        number
    }

    /// Sorts the observations by value, as [`ExactAggregate::at`] requires.
    pub fn sort(&mut self) {
        self.observations.sort_by(|a, b| a.value.total_cmp(&b.value));
    }

    /// The exact answers at a moment. Call [`ExactAggregate::sort`] first.
    pub fn at(&self, now_ms: i64, decay: &Decay) -> ExactAnswers<'_> {
        let amount = |one: &Observation| {
            let age_ms = now_ms.saturating_sub(one.time_ms).max(0) as u64;
            match self.parameters.method {
                Method::Integral => integral_weight(decay, one, now_ms),
                _ => one.weight * decay.weight(age_ms),
            }
        };
        let weighted: Vec<(Observation, f64)> = self.observations.iter().map(|one| (*one, amount(one))).collect();
        let count = weighted.iter().map(|(_, amount)| amount).sum();
        ExactAnswers { weighted, count, labels: &self.labels }
    }
}

/// The weight under `integral`, which counts whole 1024ths of the decayed weight in ticks of its own.
fn integral_weight(decay: &Decay, one: &Observation, now_ms: i64) -> f64 {
    let tick_ms = match (decay.rate(), decay.power()) {
        (Some(rate), _) => (1.0 / (rate * 4096.0)).floor().max(1.0) as i64,
        (_, Some((_, unit_ms))) => unit_ms as i64,
        _ => 1,
    };
    let ticks = now_ms.div_euclid(tick_ms) - one.time_ms.div_euclid(tick_ms);
    (one.weight * 1024.0 * decay.weight((ticks.max(0) * tick_ms) as u64) * (1.0 + 1e-12)).floor() / 1024.0
}

/// The exact answers at one moment under one decay.
#[derive(Debug)]
pub struct ExactAnswers<'a> {
    /// Observations with their decayed weights, by value.
    weighted: Vec<(Observation, f64)>,
    count: f64,
    labels: &'a [Box<str>],
}

impl ExactAnswers<'_> {
    pub fn count(&self) -> f64 {
        self.count
    }

    /// The number of different labels, each with the weight of its latest observation, which is the largest.
    pub fn distinct(&self) -> f64 {
        let mut amounts = vec![0.0f64; self.labels.len()];
        for (one, amount) in &self.weighted {
            let known = &mut amounts[one.label as usize];
            *known = known.max(*amount);
        }
        amounts.iter().sum()
    }

    pub fn sum(&self) -> f64 {
        self.weighted.iter().map(|(one, amount)| amount * one.summand).sum()
    }

    /// The value at which the cumulative share reaches `phi`; `None` if the total weight is zero.
    pub fn quantile(&self, phi: f64) -> Option<f64> {
        let target = phi * self.count;
        let mut reached = 0.0;
        let mut alive = self.weighted.iter().filter(|(_, amount)| *amount > 0.0);
        let found = alive.find(|(_, amount)| {
            reached += amount;
            reached >= target
        });
        let last = || self.weighted.iter().rfind(|(_, amount)| *amount > 0.0);
        found.or_else(last).map(|(one, _)| one.value)
    }

    /// Distance between `phi` and the range of ranks of `value`; zero if `phi` is inside that range.
    pub fn rank_error(&self, phi: f64, value: f64) -> f64 {
        let share = |upto: usize| self.weighted[..upto].iter().map(|(_, amount)| amount).sum::<f64>() / self.count;
        // A value that was scaled to steps and back may differ by a rounding error.
        let slack = 1e-9 * value.abs();
        let below = share(self.weighted.partition_point(|(one, _)| one.value < value - slack));
        let through = share(self.weighted.partition_point(|(one, _)| one.value <= value + slack));
        f64::max(below - phi, phi - through).max(0.0)
    }

    /// The share of each label with a positive weight.
    pub fn shares(&self) -> BTreeMap<&str, f64> {
        let mut amounts = vec![0.0; self.labels.len()];
        self.weighted.iter().for_each(|(one, amount)| amounts[one.label as usize] += amount);
        let alive = self.labels.iter().zip(amounts).filter(|(_, amount)| *amount > 0.0);
        alive.map(|(label, amount)| (label.as_ref(), amount / self.count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(method: Method) -> AggregateParameters {
        AggregateParameters {
            name: "bytes".into(),
            of: Measure::Value,
            over: Selection::Unique,
            method,
            epsilon: 0.1,
            delta: 0.05,
            decay: None,
            horizon_ms: 10_000,
            keys: None,
            memory: None,
            top: Some(0),
            step: 0.5,
            max: 100.0,
            weights: Weighting::ByEvent,
            seed: 1,
        }
    }

    fn event(id: u128, value: f64, weight: f64, label: &str) -> Event {
        Event {
            item: Fingerprint(id),
            key: None,
            time_ms: None,
            id: Some(Fingerprint(id)),
            value: Some(value),
            weight: Some(weight),
            importance: None,
            numbers: Default::default(),
            labels: vec![label.into()],
            previous_key: None,
            route: Fingerprint(id),
        }
    }

    const NOW: EventTime = EventTime { time_ms: 9_000, clock_ms: 9_000 };

    #[test]
    fn only_observations_that_the_aggregate_counts_are_added() {
        let mut exact = ExactAggregate::new(&parameters(Method::Robust));
        exact.add(&event(1, 2.6, 1.0, "a"), Verdict::Unique, NOW);
        exact.add(&event(1, 2.6, 1.0, "a"), Verdict::Unique, NOW);
        exact.add(&event(2, 5.0, 1.0, "a"), Verdict::Duplicate, NOW);
        exact.add(&event(3, -1.0, 1.0, "a"), Verdict::Unique, NOW);
        exact.add(&event(4, 100.3, 1.0, "a"), Verdict::Unique, NOW);
        exact.add(&event(5, 1.0, 0.2, "a"), Verdict::Unique, NOW);
        exact.add(&event(6, 1.0, 1.0, "a"), Verdict::Unique, EventTime { time_ms: 0, clock_ms: 10_000 });
        assert_eq!(exact.len(), 1);
        assert_eq!(exact.at(9_000, &"window:1s".parse().unwrap()).sum(), 2.6);
        assert_eq!(exact.at(9_000, &"window:1s".parse().unwrap()).quantile(0.5), Some(2.5));
        let mut cells = ExactAggregate::new(&parameters(Method::Cascade));
        (0..2).for_each(|_| cells.add(&event(1, 2.6, 1.0, "a"), Verdict::Unique, NOW));
        assert_eq!(cells.len(), 2, "only sampling sketches ignore repeated observations");
    }

    #[test]
    fn answers_match_the_definitions() {
        let mut exact = ExactAggregate::new(&parameters(Method::Cascade));
        for (id, (value, weight, label, time_ms)) in
            [(4.0, 1.0, "a", 9_000), (1.0, 2.0, "b", 9_000), (9.0, 4.0, "a", 8_000)].into_iter().enumerate()
        {
            let when = EventTime { time_ms, clock_ms: 9_000 };
            exact.add(&event(id as u128, value, weight, label), Verdict::Unique, when);
        }
        exact.sort();
        let decayed = exact.at(9_000, &"exponential:half_life=1s".parse().unwrap());
        let near = |found: f64, truth: f64| assert!((found - truth).abs() < 1e-9, "{found} for {truth}");
        near(decayed.count(), 5.0);
        near(decayed.sum(), 4.0 + 2.0 + 18.0);
        assert_eq!([0.2, 0.5, 0.7, 1.0].map(|phi| decayed.quantile(phi).unwrap()), [1.0, 4.0, 9.0, 9.0]);
        near(decayed.rank_error(0.5, 4.0), 0.0);
        near(decayed.rank_error(0.5, 1.0), 0.1);
        near(decayed.rank_error(0.5, 9.0), 0.1);
        assert_eq!(decayed.shares().keys().copied().collect::<Vec<_>>(), ["a", "b"]);
        near(decayed.shares()["a"], 0.6);
        let nothing = exact.at(900_000, &"window:1s".parse().unwrap());
        assert_eq!((nothing.count(), nothing.quantile(0.5), nothing.shares().len()), (0.0, None, 0));
    }
}
