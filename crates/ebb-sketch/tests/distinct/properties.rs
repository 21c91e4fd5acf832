//! The state is a function of the latest time of each value.

use ebb_sketch::aggregate::distinct::DistinctSketch;
use ebb_sketch::aggregate::{DecayedSketch, MergeError, QueryError, SpecEncoding};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::oracle::{Seen, exact, id, sketch, skewed, spec};

fn bytes(sketch: &DistinctSketch) -> Vec<u8> {
    sketch.encode_with(SpecEncoding::Included)
}

fn shuffled(stream: &[Seen], seed: u64) -> Vec<Seen> {
    let (mut random, mut stream) = (Random::new(seed), stream.to_vec());
    for end in (1..stream.len()).rev() {
        stream.swap(end, random.below(end as u64 + 1) as usize);
    }
    stream
}

#[test]
fn order_and_repeats_leave_no_trace() {
    let spec = spec(0.4, 0.2, 3);
    let stream = skewed(40_000, 20_000, 1);
    let expected = bytes(&sketch(&spec, &stream));
    for seed in 0..4 {
        let mut again = shuffled(&stream, seed);
        again.extend_from_slice(&shuffled(&stream[..10_000], seed));
        assert!(bytes(&sketch(&spec, &again)) == expected, "order {seed}");
    }
    // A value that is also seen earlier counts by its latest sighting.
    let mut earlier = stream.clone();
    earlier.extend(stream.iter().map(|(value, time_ms)| (*value, time_ms - 7)));
    assert!(bytes(&sketch(&spec, &earlier)) == expected);
}

#[test]
fn merge_is_the_sketch_of_both_streams() {
    let spec = spec(0.4, 0.2, 3);
    let stream = skewed(40_000, 20_000, 2);
    let expected = bytes(&sketch(&spec, &stream));
    for parts in [2, 3, 7] {
        // Overlapping parts of very different size.
        let part = |number: usize| -> Vec<Seen> {
            let own =
                |index: usize| index % parts == number || index.is_multiple_of(11) || index < 9_000 / (number + 1);
            stream.iter().enumerate().filter(|(index, _)| own(*index)).map(|(_, seen)| *seen).collect()
        };
        let mut merged = DistinctSketch::new(&spec);
        for number in (0..parts).rev() {
            merged.merge(sketch(&spec, &part(number))).unwrap();
        }
        assert!(bytes(&merged) == expected, "{parts} parts");
        merged.merge(merged.clone()).unwrap();
        assert!(bytes(&merged) == expected, "merging itself changes nothing");
    }
    let other = DistinctSketch::new(&crate::oracle::spec(0.3, 0.2, 3));
    assert!(matches!(sketch(&spec, &stream).merge(other), Err(MergeError::Different(_))));
}

#[test]
fn coarsened_sketch_is_that_of_the_smaller_sample() {
    let spec = spec(0.1, 0.2, 3);
    let stream = skewed(60_000, 30_000, 4);
    let mut coarsened = sketch(&spec, &stream);
    for halvings in 1..=3 {
        coarsened.coarsen(halvings);
        assert_eq!(coarsened.coarseness(), halvings);
        assert!(bytes(&coarsened) == bytes(&sketch(&spec.coarsened(halvings), &stream)), "{halvings} halvings");
    }
    coarsened.coarsen(1);
    assert_eq!(coarsened.coarseness(), 3, "a sketch is never refined");
}

#[test]
fn restored_sketch_continues_like_the_encoded_one() {
    let spec = spec(0.4, 0.2, 3);
    let stream = skewed(30_000, 20_000, 5);
    let mut first = sketch(&spec, &stream[..17_000]);
    for encoding in [SpecEncoding::Included, SpecEncoding::Omitted] {
        let mut restored = DistinctSketch::decode_with(&spec, &first.encode_with(encoding), encoding).unwrap();
        assert!(bytes(&restored) == bytes(&first));
        stream[17_000..].iter().for_each(|(value, time_ms)| restored.insert(id(*value), *time_ms).unwrap());
        assert!(bytes(&restored) == bytes(&sketch(&spec, &stream)));
    }
    let other = crate::oracle::spec(0.4, 0.2, 4);
    assert!(DistinctSketch::decode_with(&other, &bytes(&first), SpecEncoding::Included).is_err());
    let mut damaged = bytes(&first);
    damaged.pop();
    assert!(DistinctSketch::decode_with(&spec, &damaged, SpecEncoding::Included).is_err());
    // Advancing far drops everything, and answers say that they are incomplete.
    first.advance(40_000 + crate::oracle::HORIZON_MS as i64);
    assert_eq!(first.entry_count(), 0);
}

#[test]
fn small_sets_are_exact_for_every_window_and_decay() {
    let spec = spec(0.1, 0.05, 7);
    let stream = skewed(20_000, 3_000, 6);
    let sketch = sketch(&spec, &stream);
    for text in ["window:1ms", "window:500ms", "window:10s", "exponential:half_life=2s", "gaussian:sigma=3s"] {
        let decay: Decay = text.parse().unwrap();
        for now_ms in [19_999, 25_000] {
            let (found, truth) = (sketch.count(now_ms, &decay).unwrap(), exact(&stream, now_ms, &decay));
            assert!((found.value - truth).abs() <= 1e-9 * truth.max(1.0), "{text}: {} for {truth}", found.value);
            assert!((found.lower, found.upper) == (found.value, found.value) && !found.incomplete, "{text}");
        }
    }
}

#[test]
fn windows_beyond_the_horizon_and_extreme_times_are_refused() {
    let mut sketch = DistinctSketch::new(&spec(0.4, 0.2, 3));
    assert!(sketch.insert(id(1), i64::MAX).is_err() && sketch.entry_count() == 0);
    let window = Decay::window(crate::oracle::HORIZON_MS + 1).unwrap();
    assert!(matches!(sketch.count(0, &window), Err(QueryError::WindowBeyondHorizon { .. })));
    assert!(matches!(sketch.count(i64::MIN, &Decay::window(1).unwrap()), Err(QueryError::Time { .. })));
    assert_eq!(sketch.count(0, &Decay::window(1).unwrap()).unwrap().value, 0.0);
}
