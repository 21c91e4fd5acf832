//! P9: state bytes contain everything, buffers included; a restored sketch continues exactly like one that never stopped.

use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::division::{DivisionShape, DivisionSketch};
use ebb_sketch::aggregate::forward::{ForwardShape, ForwardSketch};
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::qdigest::{DigestShape, QDigest};
use ebb_sketch::aggregate::spacesaving::SpaceSaving;
use ebb_sketch::aggregate::{Observation, SummaryShape};
use ebb_sketch::codec::CodecError;
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;

use crate::oracle::{DISORDERS, Stream};

const HORIZON_MS: u64 = 3000;

struct Subject<T> {
    check: fn(T, &[Observation], &mut Random) -> Vec<u8>,
    fresh: T,
    decode: fn(&[u8]) -> Result<Vec<u8>, CodecError>,
}

/// Inserts, encodes and decodes.
macro_rules! structure {
    ($fresh:expr, $type:ty) => {{
        fn check(mut whole: $type, observations: &[Observation], random: &mut Random) -> Vec<u8> {
            let mut restarted = whole.clone();
            for one in observations {
                assert_eq!(whole.insert(one), restarted.insert(one));
                if random.below(200) == 0 {
                    let bytes = restarted.encode();
                    restarted = <$type>::decode(&bytes).unwrap();
                    assert_eq!(restarted.encode(), bytes, "a decoded sketch has the same bytes");
                }
            }
            assert_eq!(restarted.encode(), whole.encode(), "a restored sketch continues like an uninterrupted one");
            whole.encode()
        }
        Subject { check, fresh: $fresh, decode: |bytes| <$type>::decode(bytes).map(|whole| whole.encode()) }
    }};
}

fn summaries() -> [SummaryShape; 3] {
    let values = SummaryShape::totals().with_values(DigestShape::new(8, 0.3).unwrap());
    [SummaryShape::totals(), values, values.with_labels(12).unwrap()]
}

fn run<T>(subject: Subject<T>, observations: &[Observation]) {
    let Subject { check, fresh, decode } = subject;
    let mut random = Random::new(observations.len() as u64);
    let bytes = check(fresh, observations, &mut random);
    assert_eq!(decode(&bytes).as_ref(), Ok(&bytes));
    // Truncation and bit flips are detected; nothing panics.
    for _ in 0..40 {
        let mut bad = bytes.clone();
        let index = random.below(bad.len() as u64) as usize;
        if random.below(2) == 0 {
            bad.truncate(index)
        } else {
            bad[index] ^= 1 << random.below(8)
        }
        assert!(decode(&bad).is_err());
    }
    // Damage under a valid checksum is rejected, or gives another state that is still canonical.
    for _ in 0..300 {
        let mut body = bytes[..bytes.len() - 8].to_vec();
        for _ in 0..=random.below(3) {
            let index = 6 + random.below(body.len() as u64 - 6) as usize;
            body[index] = random.next_u64() as u8;
        }
        let sum = blake3::hash(&body);
        body.extend_from_slice(&sum.as_bytes()[..8]);
        if let Ok(again) = decode(&body) {
            assert_eq!(again, body);
        }
    }
}

#[test]
fn restored_sketch_continues_like_an_uninterrupted_one() {
    let smooth = Decay::polynomial(1.2, 7.0).unwrap();
    let rate = Decay::half_life(5.0).unwrap();
    for (index, disorder) in DISORDERS.into_iter().enumerate() {
        let span_ms = 2 * HORIZON_MS;
        let stream = Stream { length: 2500, begin_ms: -1000, span_ms, max_value: 255, max_weight: 4 };
        let observations = stream.observations(disorder, &mut Random::new(index as u64));
        let summary = summaries()[index % 3];
        let cascade = CascadeSketch::shape(0.3, HORIZON_MS, summary).unwrap().with_capacity(20);
        run(structure!(CascadeSketch::new(cascade), CascadeSketch), &observations);
        let levels = LevelsSketch::shape(0.3, HORIZON_MS, summary).unwrap().with_capacity(40);
        run(structure!(LevelsSketch::new(levels), LevelsSketch), &observations);
        let division = DivisionShape::new(smooth.clone(), 0.3, HORIZON_MS, summary).unwrap();
        run(structure!(DivisionSketch::new(division), DivisionSketch), &observations);
        run(structure!(ForwardSketch::new(ForwardShape::new(&rate, summary).unwrap()), ForwardSketch), &observations);
    }
}

#[test]
fn digests_and_counters_round_trip() {
    let mut random = Random::new(5);
    let (mut digest, mut counters) = (QDigest::new(DigestShape::new(12, 0.2).unwrap()), SpaceSaving::new(20).unwrap());
    for _ in 0..3000 {
        let value = random.below(4096) >> random.below(12);
        digest.insert(value, 0.25 + random.unit());
        counters.insert(u128::from(value), 0.25 + random.unit());
        if random.below(100) == 0 {
            assert_eq!(QDigest::decode(&digest.encode()).as_ref(), Ok(&digest));
            assert_eq!(SpaceSaving::decode(&counters.encode()).as_ref(), Ok(&counters));
        }
    }
}

/// State bytes of earlier releases must stay readable: these never change within version 1.
#[test]
fn state_bytes_are_stable_across_releases() {
    let summary = summaries()[2];
    let one = |time_ms, value, weight| Observation { time_ms, value, label: u128::from(value), weight };
    let stream = [one(1000, 7, 1.0), one(990, 200, 2.0), one(1033, 7, 1.5)];
    let mut forward = ForwardSketch::new(ForwardShape::new(&Decay::half_life(1000.0).unwrap(), summary).unwrap());
    let smooth = Decay::polynomial(1.0, 1.0).unwrap();
    let mut division = DivisionSketch::new(DivisionShape::new(smooth, 0.25, 10_000, summary).unwrap());
    let mut cascade = CascadeSketch::new(CascadeSketch::shape(0.1, 10_000, summary).unwrap().with_capacity(4));
    let mut levels = LevelsSketch::new(LevelsSketch::shape(0.1, 10_000, summary).unwrap().with_capacity(4));
    for observation in stream.iter().cycle().take(40) {
        forward.insert(observation).unwrap();
        division.insert(observation).unwrap();
        cascade.insert(observation).unwrap();
        levels.insert(observation).unwrap();
    }
    let digests = [forward.encode(), division.encode(), cascade.encode(), levels.encode()].map(|bytes| {
        let hash = blake3::hash(&bytes);
        format!("{} {}", bytes.len(), &hash.to_hex()[..16])
    });
    assert_eq!(digests, GOLDEN);
}

const GOLDEN: [&str; 4] =
    ["632 5953e7264d99bea2", "1616 21bf725841287855", "1063 97e83015eabc4859", "2446 f5341170befce6fd"];
