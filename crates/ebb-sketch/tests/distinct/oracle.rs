//! The exact number of different values, and streams to count.

use std::collections::BTreeMap;

use ebb_sketch::aggregate::distinct::{DistinctAccuracy, DistinctSketch, DistinctSpec};
use ebb_sketch::aggregate::robust::ElementId;
use ebb_sketch::decay::Decay;
use ebb_sketch::random::{Random, mix};

pub const HORIZON_MS: u64 = 1 << 40;

/// One sighting: the number of the value, and its time.
pub type Seen = (u64, i64);

pub fn spec(epsilon: f64, delta: f64, seed: u64) -> DistinctSpec {
    DistinctSpec::new(DistinctAccuracy::new(epsilon, delta).unwrap(), HORIZON_MS, seed).unwrap()
}

pub fn sketch(spec: &DistinctSpec, stream: &[Seen]) -> DistinctSketch {
    let mut sketch = DistinctSketch::new(spec);
    stream.iter().for_each(|(value, time_ms)| sketch.insert(id(*value), *time_ms).unwrap());
    sketch
}

/// The fingerprint of a value.
pub fn id(value: u64) -> ElementId {
    ElementId::from_bits(u128::from(mix(value)) << 64 | u128::from(mix(!value)))
}

/// The decayed number of different values, each by its latest sighting.
pub fn exact(stream: &[Seen], now_ms: i64, decay: &Decay) -> f64 {
    let mut latest: BTreeMap<u64, i64> = BTreeMap::new();
    for (value, time_ms) in stream {
        let known = latest.entry(*value).or_insert(*time_ms);
        *known = (*known).max(*time_ms);
    }
    latest.values().map(|time_ms| decay.weight(now_ms.abs_diff(*time_ms))).sum()
}

/// `count` sightings of up to `values` values, skewed to small numbers, up to a tenth of the time out of order.
pub fn skewed(count: u64, values: u64, seed: u64) -> Vec<Seen> {
    let mut random = Random::new(seed);
    let sighting = |index: u64| {
        let value = (random.unit() * random.unit() * values as f64) as u64;
        (value, index as i64 - random.below(1 + count / 10) as i64)
    };
    (0..count).map(sighting).collect()
}
