//! ExactOracle answers, computed from all events.

use std::collections::{BTreeMap, BTreeSet};

use ebb_core::{Event, Method, Selection, Verdict};
use ebb_sketch::decay::Decay;

use crate::shards::ShardFixture;

/// Value, label and decayed weight of one event.
#[derive(Debug, Clone)]
pub struct WeightedEvent {
    pub value: f64,
    pub label: String,
    pub amount: f64,
}

/// All selected events under a decay, as of the newest event of all shards.
pub struct ExactOracle(pub Vec<WeightedEvent>);

impl ExactOracle {
    pub fn of(shards: &[ShardFixture], decay: &Decay, selects: impl Fn(&Event) -> bool) -> Self {
        let spec = &shards[0].shard.plan().aggregates[0];
        let parameters = spec.parameters();
        let now_ms = shards.iter().filter_map(|fixture| fixture.shard.as_of().time_ms).max().unwrap();
        let mut seen = BTreeSet::new();
        let mut weighted = Vec::new();
        for (event, verdict) in shards.iter().flat_map(|fixture| &fixture.applied) {
            let sampled = matches!(parameters.method, Method::Robust | Method::Integral);
            let counts = parameters.over == Selection::All || *verdict == Verdict::Unique;
            // Sampling sketches count an observation once.
            if !selects(event) || !counts || (sampled && !seen.insert(event.id)) {
                continue;
            }
            let (time_ms, weight) = (event.time_ms.unwrap(), event.weight.unwrap());
            let amount = match parameters.method {
                Method::Integral => integral(decay, weight, now_ms, time_ms),
                _ => weight * decay.weight((now_ms - time_ms) as u64),
            };
            let (value, label) = (event.value.unwrap(), event.labels[0].to_string());
            weighted.push(WeightedEvent { value, label, amount });
        }
        Self(weighted)
    }

    pub fn count(&self) -> f64 {
        self.0.iter().map(|one| one.amount).sum()
    }

    pub fn sum(&self) -> f64 {
        self.0.iter().map(|one| one.amount * one.value).sum()
    }

    pub fn share(&self, selects: impl Fn(&WeightedEvent) -> bool) -> f64 {
        self.0.iter().filter(|one| selects(one)).map(|one| one.amount).sum::<f64>() / self.count()
    }

    pub fn quantile(&self, phi: f64) -> f64 {
        let mut values: Vec<(f64, f64)> = self.0.iter().map(|one| (one.value, one.amount)).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let target = phi * self.count() * (1.0 - 1e-9);
        let mut reached = 0.0;
        let at = values.iter().find(|(_, amount)| {
            reached += amount;
            reached >= target && *amount > 0.0
        });
        at.map_or(f64::NAN, |(value, _)| *value)
    }

    pub fn labels(&self) -> BTreeMap<String, f64> {
        let mut shares: BTreeMap<String, f64> = BTreeMap::new();
        let count = self.count();
        self.0.iter().for_each(|one| *shares.entry(one.label.clone()).or_default() += one.amount / count);
        shares
    }
}

/// The weight under an integral decay: 1024 times the weight, decayed per tick and rounded down.
fn integral(decay: &Decay, weight: f64, now_ms: i64, time_ms: i64) -> f64 {
    let tick_ms = match (decay.rate(), decay.power()) {
        (Some(rate), _) => (1.0 / (rate * 4096.0)).floor().max(1.0) as i64,
        (_, Some((_, unit_ms))) => unit_ms as i64,
        _ => 1,
    };
    let ticks = now_ms.div_euclid(tick_ms) - time_ms.div_euclid(tick_ms);
    (weight * 1024.0 * decay.weight((ticks * tick_ms) as u64) * (1.0 + 1e-12)).floor() / 1024.0
}
