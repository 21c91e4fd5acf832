//! Exact answers computed from every observation, and the streams for the sketches.

use ebb_sketch::aggregate::Observation;
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

/// All accepted observations.
#[derive(Default, Clone)]
pub struct Exact {
    pub seen: Vec<Observation>,
}

impl Exact {
    pub fn newest_ms(&self) -> i64 {
        self.seen.iter().map(|one| one.time_ms).max().unwrap_or(0)
    }

    /// Each observation within the horizon, with its decayed weight.
    pub fn decayed(&self, now_ms: i64, decay: &Decay, horizon_ms: u64) -> Vec<(Observation, f64)> {
        let age = |one: &Observation| (now_ms - one.time_ms).max(0) as u64;
        let young = self.seen.iter().filter(|one| age(one) < horizon_ms);
        young.map(|one| (*one, one.weight * decay.weight(age(one)))).collect()
    }
}

pub fn total(decayed: &[(Observation, f64)]) -> f64 {
    decayed.iter().map(|(_, weight)| weight).sum()
}

pub fn sum(decayed: &[(Observation, f64)]) -> f64 {
    decayed.iter().map(|(one, weight)| weight * one.value as f64).sum()
}

pub fn rank(decayed: &[(Observation, f64)], value: u64) -> f64 {
    decayed.iter().filter(|(one, _)| one.value <= value).map(|(_, weight)| weight).sum()
}

pub fn of_label(decayed: &[(Observation, f64)], label: u128) -> f64 {
    decayed.iter().filter(|(one, _)| one.label == label).map(|(_, weight)| weight).sum()
}

/// The smallest value whose rank reaches phi of the total.
pub fn quantile(decayed: &[(Observation, f64)], phi: f64) -> u64 {
    let mut values: Vec<(u64, f64)> = decayed.iter().map(|(one, weight)| (one.value, *weight)).collect();
    values.sort_by_key(|(value, _)| *value);
    let target = phi * total(decayed) * (1.0 - 1e-12);
    let mut below = 0.0;
    for (value, weight) in &values {
        below += weight;
        if below >= target {
            return *value;
        }
    }
    values.last().map_or(0, |(value, _)| *value)
}

/// The order of the times of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Disorder {
    InOrder,
    /// A third of the observations is late by up to a quarter of the span.
    Late,
    Total,
    Reverse,
    /// Floods at single instants, sparse newer observations, and late repeats of the floods.
    Floods,
}

pub const DISORDERS: [Disorder; 5] =
    [Disorder::InOrder, Disorder::Late, Disorder::Total, Disorder::Reverse, Disorder::Floods];

pub struct Stream {
    pub length: usize,
    pub begin_ms: i64,
    pub span_ms: u64,
    pub max_value: u64,
    pub max_weight: u64,
}

impl Stream {
    /// Skewed values, repeated labels, whole weights.
    pub fn observations(&self, disorder: Disorder, random: &mut Random) -> Vec<Observation> {
        let times = self.times(disorder, random);
        let one = |time_ms: i64| {
            let wide = random.below(self.max_value + 1);
            let value = if random.below(10) < 6 { wide >> random.below(12) } else { wide };
            let few = random.below(10);
            let label = u128::from(random.below(1 << few));
            Observation { time_ms, value, label, weight: (1 + random.below(self.max_weight)) as f64 }
        };
        times.into_iter().map(one).collect()
    }

    fn times(&self, disorder: Disorder, random: &mut Random) -> Vec<i64> {
        let last = self.span_ms - 1;
        let even = |index: usize| last * index as u64 / self.length as u64;
        let mut flood = last / 2;
        let offset = |index: usize| match disorder {
            Disorder::InOrder => even(index),
            Disorder::Reverse => last - even(index),
            Disorder::Total => random.below(self.span_ms),
            Disorder::Late => {
                let late = if random.below(3) == 0 { random.below(self.span_ms / 4 + 1) } else { 0 };
                even(index).saturating_sub(late)
            }
            Disorder::Floods => {
                if random.below(500) == 0 {
                    flood = random.below(self.span_ms);
                }
                if random.below(5) < 3 { flood.saturating_sub(random.below(3)) } else { even(index) }
            }
        };
        (0..self.length).map(offset).map(|offset| self.begin_ms + offset as i64).collect()
    }
}

/// A window of any size, or a decay of any form, within the horizon.
pub fn any_decay(horizon_ms: u64, random: &mut Random) -> Decay {
    let bits = random.below(64 - u64::from(horizon_ms.leading_zeros()));
    let age = (1 + random.below(1 << bits)).min(horizon_ms);
    match random.below(10) {
        0 => Decay::polynomial(0.25 + 3.0 * random.unit(), age as f64),
        1 => Decay::half_life(age as f64),
        2 => Decay::table(vec![(0, 1.0), (age, random.unit()), (age + 1 + horizon_ms, 0.0)]),
        _ => Decay::window(age),
    }
    .expect("a decay within the horizon")
}
