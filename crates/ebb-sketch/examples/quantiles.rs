//! Latency quantiles over the last minutes from two partitions that see overlapping events.
//!
//! Run with `cargo run --example quantiles -p ebb-sketch`.

use std::error::Error;

use ebb_sketch::aggregate::robust::{
    Accuracy, ElementId, RobustSketch, RobustSpec, SampledFields, SumSource, WindowSpec,
};
use ebb_sketch::aggregate::{DecayedSketch, Observation};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::{Random, mix};

const MINUTE_MS: u64 = 60_000;

fn main() -> Result<(), Box<dyn Error>> {
    // Within 5 %, except with probability 1 %; weights of 1; windows up to one hour. Both partitions use the same seed.
    let sample = WindowSpec::new(Accuracy::new(0.05, 0.01)?, 1, 60 * MINUTE_MS, 42)?;
    // Sums are not needed, so there is no sample by amount.
    let sums = SumSource::Values { max_value: 10_000 };
    let spec = RobustSpec { sample, fields: SampledFields::Values, sums };
    let mut partitions = [RobustSketch::from_spec(&spec), RobustSketch::from_spec(&spec)];

    // One request per 10 ms for 20 minutes. After 15 minutes the service becomes three times slower.
    let mut random = Random::new(1);
    let now_ms = 20 * MINUTE_MS;
    for request in 0..now_ms / 10 {
        let time_ms = request * 10;
        let slowdown = if time_ms < 15 * MINUTE_MS { 1 } else { 3 };
        let latency_ms = slowdown * (20 + random.below(60) + random.below(20) * random.below(20));
        let observation = Observation { time_ms: time_ms as i64, value: latency_ms, label: 0, weight: 1.0 };
        // The id identifies the request. In production, use a keyed fingerprint.
        let id = ElementId::from_bits(u128::from(mix(request)));
        partitions[(request % 2) as usize].observe(id, &observation)?;
        // A tenth of the requests is delivered to both partitions. The merged sketch counts them once.
        if request % 10 == 0 {
            partitions[((request + 1) % 2) as usize].observe(id, &observation)?;
        }
    }

    let [mut merged, other] = partitions;
    merged.merge(other)?;
    merged.compact();

    for decay in ["window:1m", "window:20m", "exponential:half_life=5m"] {
        let decay: Decay = decay.parse()?;
        let count = merged.totals(now_ms as i64, &decay)?.count();
        println!("{decay}: about {:.0} requests, {:?}", count.value, count.guarantee);
        for quantile in merged.values(now_ms as i64, &decay)?.quantiles(&[0.5, 0.9, 0.99])? {
            println!(
                "  p{:<3} {:>4} ms (within {}..={})",
                quantile.phi * 100.0,
                quantile.value,
                quantile.lower,
                quantile.upper
            );
        }
    }
    Ok(())
}
