//! Stated bounds hold with the stated probability, over many hashes and kinds of streams.

use ebb_sketch::aggregate::answer::Guarantee;
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::oracle::{Seen, exact, sketch, skewed, spec};

const RUNS: u64 = 60;
const DELTA: f64 = 0.1;

/// The streams that are counted: all different, one burst, skewed, and values that return after long pauses.
fn streams(seed: u64) -> [Vec<Seen>; 4] {
    let mut random = Random::new(seed);
    let different = (0..30_000).map(|index| (index, index as i64)).collect();
    let burst = (0..30_000).map(|index| (index, if index % 3 == 0 { 29_999 } else { index as i64 })).collect();
    let returning = (0..60_000i64).map(|index| (random.below(25_000), index)).collect();
    [different, burst, skewed(60_000, 60_000, seed), returning]
}

fn decays() -> Vec<Decay> {
    let texts = ["window:60s", "window:12s", "window:1s", "exponential:half_life=5s", "polynomial:alpha=1,unit=1s"];
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn bounds_fail_at_most_as_often_as_stated() {
    let mut failures = vec![[0; 4]; decays().len()];
    let mut sampled = 0;
    for run in 0..RUNS {
        let spec = spec(0.3, DELTA, run);
        for (number, stream) in streams(run).iter().enumerate() {
            let sketch = sketch(&spec, stream);
            let now_ms = stream.iter().map(|(_, time_ms)| *time_ms).max().unwrap();
            for (index, decay) in decays().iter().enumerate() {
                let (found, truth) = (sketch.count(now_ms, decay).unwrap(), exact(stream, now_ms, decay));
                sampled += u32::from(found.guarantee != Guarantee::Exact);
                failures[index][number] += u32::from(!found.covers(truth));
                assert!(!found.incomplete);
                if let Guarantee::Probabilistic { epsilon, delta } = found.guarantee {
                    assert!(epsilon <= 0.3 && delta == DELTA);
                    let (low, high) = (found.value / (1.0 + 0.31) - 1.0, found.value / (1.0 - 0.31) + 1.0);
                    assert!(found.lower >= low && found.upper <= high, "{found:?}");
                }
            }
        }
    }
    assert!(sampled > 500, "only {sampled} answers were sampled");
    // Chebyshev's inequality is generous: the bounds fail far less often than they may.
    for (decay, failures) in decays().iter().zip(failures) {
        assert!(failures.iter().all(|failed| f64::from(*failed) <= DELTA * RUNS as f64), "{decay}: {failures:?}");
    }
}

#[test]
fn error_shrinks_with_epsilon() {
    let decay = Decay::window(60_000).unwrap();
    let mut spread = [0.0; 2];
    for run in 0..20 {
        let stream = &streams(run)[0];
        for (index, epsilon) in [0.4, 0.1].into_iter().enumerate() {
            let found = sketch(&spec(epsilon, 0.5, run), stream).count(29_999, &decay).unwrap();
            let off = found.value / 30_000.0 - 1.0;
            spread[index] += off * off;
        }
    }
    assert!(spread[1] < spread[0] / 4.0, "{spread:?}");
}
