//! What an aggregate ought to answer: every observation kept, weighed one by one.
//!
//! It follows the aggregate's rules (which events count, how values are rounded to steps, what is too old to be taken) but
//! shares none of its code. Exact, and therefore as large as the file.

use std::collections::{BTreeMap, HashMap, HashSet};

use ebb_core::{
    AggregateParameters, Event, MAX_INTEGRAL_WEIGHT, MAX_ROBUST_WEIGHT, MAX_TEXT_BYTES, Measure, Method, Selection,
    Verdict, Weighting,
};
use ebb_sketch::decay::Decay;
use ebb_sketch::hash::Fingerprint;

/// Bytes that an exact answer needs of one observation: when, what, how often, which label.
pub const OBSERVATION_BYTES: u64 = 32;

#[derive(Debug, Clone, Copy)]
struct Observation {
    time_ms: i64,
    value: f64,
    weight: f64,
    label: u32,
}

/// All observations of one aggregate.
#[derive(Debug)]
pub struct ExactAggregate {
    given: AggregateParameters,
    observations: Vec<Observation>,
    /// Sampling sketches know an observation again.
    ids: HashSet<Fingerprint>,
    labels: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

/// When an event happened, and how far the clock of its shard was.
#[derive(Debug, Clone, Copy)]
pub struct When {
    pub time_ms: i64,
    pub clock_ms: i64,
}

impl ExactAggregate {
    pub fn new(given: &AggregateParameters) -> Self {
        Self {
            given: given.clone(),
            observations: Vec::new(),
            ids: HashSet::new(),
            labels: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    pub fn len(&self) -> u64 {
        self.observations.len() as u64
    }

    /// Takes an event that was not rejected, where the aggregate would.
    pub fn add(&mut self, event: &Event, verdict: Verdict, when: When) {
        let given = &self.given;
        let counts = given.over == Selection::All || verdict == Verdict::Unique;
        let keeps_horizon = !matches!(given.method, Method::Forward | Method::Integral);
        if !counts || keeps_horizon && when.clock_ms.abs_diff(when.time_ms) >= given.horizon_ms {
            return;
        }
        let (Some(value), Some(weight)) = (self.value(event), self.weight(event)) else { return };
        let sampled = matches!(self.given.method, Method::Robust | Method::Integral);
        if sampled && event.id.is_some_and(|id| !self.ids.insert(id)) {
            return;
        }
        let label = self.given.top.and_then(|place| event.labels.get(place)).map_or(0, |text| self.label(text));
        self.observations.push(Observation { time_ms: when.time_ms, value, weight, label });
    }

    /// Rounded to the nearest step; none when the aggregate refuses it.
    fn value(&self, event: &Event) -> Option<f64> {
        let given = &self.given;
        let measured = match given.of {
            Measure::Count => return Some(1.0),
            Measure::Value => event.value?,
            Measure::Weight => event.weight?,
            Measure::Number(place) => event.numbers.get(place).copied().flatten()?,
        };
        let steps = (measured / given.step).round();
        let most = (given.max / given.step + 1e-9).floor();
        (measured >= 0.0 && steps <= most).then_some(steps * given.step)
    }

    fn weight(&self, event: &Event) -> Option<f64> {
        if self.given.weights == Weighting::Unit || self.given.of == Measure::Weight {
            return Some(1.0);
        }
        let weight = event.weight.unwrap_or(1.0);
        let (weight, most) = match self.given.method {
            Method::Robust => (weight.round(), f64::from(MAX_ROBUST_WEIGHT)),
            Method::Integral => (weight.round(), f64::from(MAX_INTEGRAL_WEIGHT)),
            Method::Forward | Method::Division | Method::Cascade | Method::Levels => (weight, f64::MAX),
        };
        (1.0..=most).contains(&weight).then_some(weight)
    }

    fn label(&mut self, text: &str) -> u32 {
        let end = (0..=text.len().min(MAX_TEXT_BYTES)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let text = &text[..end];
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.labels.len() as u32;
        self.labels.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// Puts the observations in the order of their values, as [`ExactAggregate::at`] needs them.
    pub fn settle(&mut self) {
        self.observations.sort_by(|a, b| a.value.total_cmp(&b.value));
    }

    /// Everything as it weighs at a moment. Call [`ExactAggregate::settle`] before.
    pub fn at(&self, now_ms: i64, decay: &Decay) -> Exact<'_> {
        let amount = |one: &Observation| {
            let age_ms = now_ms.saturating_sub(one.time_ms).max(0) as u64;
            match self.given.method {
                Method::Integral => integral(decay, one, now_ms),
                _ => one.weight * decay.weight(age_ms),
            }
        };
        let weighed: Vec<(Observation, f64)> = self.observations.iter().map(|one| (*one, amount(one))).collect();
        let count = weighed.iter().map(|(_, amount)| amount).sum();
        Exact { weighed, count, labels: &self.labels }
    }
}

/// `integral` counts the whole parts of 1024 times the weight that are alive, in ticks of its own.
fn integral(decay: &Decay, one: &Observation, now_ms: i64) -> f64 {
    let tick_ms = match (decay.rate(), decay.power()) {
        (Some(rate), _) => (1.0 / (rate * 4096.0)).floor().max(1.0) as i64,
        (_, Some((_, unit_ms))) => unit_ms as i64,
        _ => 1,
    };
    let ticks = now_ms.div_euclid(tick_ms) - one.time_ms.div_euclid(tick_ms);
    (one.weight * 1024.0 * decay.weight((ticks.max(0) * tick_ms) as u64) * (1.0 + 1e-12)).floor() / 1024.0
}

/// The true answers of one moment and one decay.
#[derive(Debug)]
pub struct Exact<'a> {
    /// By value.
    weighed: Vec<(Observation, f64)>,
    count: f64,
    labels: &'a [Box<str>],
}

impl Exact<'_> {
    pub fn count(&self) -> f64 {
        self.count
    }

    pub fn sum(&self) -> f64 {
        self.weighed.iter().map(|(one, amount)| amount * one.value).sum()
    }

    /// The value at which the cumulated share reaches `phi`; none when nothing weighs anything.
    pub fn quantile(&self, phi: f64) -> Option<f64> {
        let wanted = phi * self.count;
        let mut reached = 0.0;
        let mut alive = self.weighed.iter().filter(|(_, amount)| *amount > 0.0);
        let found = alive.find(|(_, amount)| {
            reached += amount;
            reached >= wanted
        });
        let last = || self.weighed.iter().rfind(|(_, amount)| *amount > 0.0);
        found.or_else(last).map(|(one, _)| one.value)
    }

    /// How far the share at `value` is from `phi`; nothing when it is reached within the value itself.
    pub fn rank_error(&self, phi: f64, value: f64) -> f64 {
        let share = |upto: usize| self.weighed[..upto].iter().map(|(_, amount)| amount).sum::<f64>() / self.count;
        // A value that was scaled to steps and back may be a rounding off.
        let slack = 1e-9 * value.abs();
        let below = share(self.weighed.partition_point(|(one, _)| one.value < value - slack));
        let through = share(self.weighed.partition_point(|(one, _)| one.value <= value + slack));
        f64::max(below - phi, phi - through).max(0.0)
    }

    /// The share of each label that has one.
    pub fn shares(&self) -> BTreeMap<&str, f64> {
        let mut amounts = vec![0.0; self.labels.len()];
        self.weighed.iter().for_each(|(one, amount)| amounts[one.label as usize] += amount);
        let alive = self.labels.iter().zip(amounts).filter(|(_, amount)| *amount > 0.0);
        alive.map(|(label, amount)| (label.as_ref(), amount / self.count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(method: Method) -> AggregateParameters {
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

    const NOW: When = When { time_ms: 9_000, clock_ms: 9_000 };

    #[test]
    fn it_takes_what_the_aggregate_takes() {
        let mut exact = ExactAggregate::new(&given(Method::Robust));
        exact.add(&event(1, 2.6, 1.0, "a"), Verdict::Unique, NOW);
        exact.add(&event(1, 2.6, 1.0, "a"), Verdict::Unique, NOW);
        exact.add(&event(2, 5.0, 1.0, "a"), Verdict::Duplicate, NOW);
        exact.add(&event(3, -1.0, 1.0, "a"), Verdict::Unique, NOW);
        exact.add(&event(4, 100.3, 1.0, "a"), Verdict::Unique, NOW);
        exact.add(&event(5, 1.0, 0.2, "a"), Verdict::Unique, NOW);
        exact.add(&event(6, 1.0, 1.0, "a"), Verdict::Unique, When { time_ms: 0, clock_ms: 10_000 });
        assert_eq!(exact.len(), 1);
        assert_eq!(exact.at(9_000, &"window:1s".parse().unwrap()).sum(), 2.5);
        let mut cells = ExactAggregate::new(&given(Method::Cascade));
        (0..2).for_each(|_| cells.add(&event(1, 2.6, 1.0, "a"), Verdict::Unique, NOW));
        assert_eq!(cells.len(), 2, "only sampling sketches know an observation again");
    }

    #[test]
    fn answers_are_those_of_the_definition() {
        let mut exact = ExactAggregate::new(&given(Method::Cascade));
        for (id, (value, weight, label, time_ms)) in
            [(4.0, 1.0, "a", 9_000), (1.0, 2.0, "b", 9_000), (9.0, 4.0, "a", 8_000)].into_iter().enumerate()
        {
            let when = When { time_ms, clock_ms: 9_000 };
            exact.add(&event(id as u128, value, weight, label), Verdict::Unique, when);
        }
        exact.settle();
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
