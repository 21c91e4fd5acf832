//! Invalid input is rejected with the reason and without a trace.

use ebb_sketch::aggregate::paper::integral::{
    IntegralDecay, IntegralDecayError, IntegralSketch, IntegralSpec, IntegralSpecError,
};
use ebb_sketch::aggregate::robust::{
    Accuracy, Element, MAX_ELEMENT_TIME_MS, WindowSketch, WindowSpec, WindowSpecError,
};
use ebb_sketch::aggregate::{MergeError, ObservationError, QueryError};
use ebb_sketch::codec::{CodecError, Writer};
use ebb_sketch::decay::Decay;
use ebb_sketch::random::Random;
use proptest::prelude::*;

use super::oracle::element;
use super::streams::{Shape, distinct};

fn accuracy(tau: u32) -> Accuracy {
    Accuracy::with_sample_size(tau).unwrap()
}

fn window_spec() -> WindowSpec {
    WindowSpec::new(accuracy(8), 99, 1000, 1).unwrap()
}

fn integral_spec() -> IntegralSpec {
    IntegralSpec::new(accuracy(8), IntegralDecay::polynomial(1).unwrap(), 1, (99, 10), 1).unwrap()
}

fn window_sketch() -> WindowSketch {
    let mut sketch = WindowSketch::new(&window_spec());
    let elements = distinct(&mut Random::new(61), &Shape { count: 60, max_weight: 99, span: 500 });
    elements.iter().for_each(|e| sketch.insert(*e).unwrap());
    sketch
}

fn integral_sketch() -> IntegralSketch {
    let mut sketch = IntegralSketch::new(&integral_spec());
    let elements = distinct(&mut Random::new(61), &Shape { count: 60, max_weight: 99, span: 500 });
    elements.iter().for_each(|e| sketch.insert(*e).unwrap());
    sketch
}

#[test]
fn invalid_elements_are_rejected_without_a_trace() {
    let (mut window, mut integral) = (window_sketch(), integral_sketch());
    let before = (window.encode(), integral.encode());
    let good = element(1, 5, 900, 77);
    for (bad, reason) in [
        (Element { weight: 0, ..good }, ObservationError::Weight { weight: 0.0, min: 1.0, max: 99.0 }),
        (Element { weight: 100, ..good }, ObservationError::Weight { weight: 100.0, min: 1.0, max: 99.0 }),
        (
            Element { weight: u32::MAX, ..good },
            ObservationError::Weight { weight: f64::from(u32::MAX), min: 1.0, max: 99.0 },
        ),
        (
            Element { time_ms: i64::MAX, ..good },
            ObservationError::Time { time_ms: i64::MAX, max_ms: MAX_ELEMENT_TIME_MS },
        ),
        (
            Element { time_ms: i64::MIN, ..good },
            ObservationError::Time { time_ms: i64::MIN, max_ms: MAX_ELEMENT_TIME_MS },
        ),
    ] {
        assert_eq!(window.insert(bad), Err(reason.clone()));
        assert_eq!(integral.insert(bad), Err(reason));
    }
    assert_eq!((window.encode(), integral.encode()), before);
}

#[test]
fn extreme_times_do_not_overflow() {
    let (mut window, mut integral) = (window_sketch(), integral_sketch());
    for time_ms in [-MAX_ELEMENT_TIME_MS, MAX_ELEMENT_TIME_MS] {
        window.insert(element(u64::MAX, 99, time_ms, u128::MAX)).unwrap();
        integral.insert(element(u64::MAX, 99, time_ms, u128::MAX)).unwrap();
    }
    for as_of in [-MAX_ELEMENT_TIME_MS, 0, MAX_ELEMENT_TIME_MS] {
        let answers = window.query(as_of, &Decay::half_life(1.0).unwrap()).unwrap();
        assert!(answers.weight().value.is_finite() && answers.value_sum().value.is_finite());
        assert!(integral.query(as_of).unwrap().weight().value.is_finite());
    }
    assert_eq!(WindowSketch::decode(&window_spec(), &window.encode()).unwrap().encode(), window.encode());
    window.advance(MAX_ELEMENT_TIME_MS).unwrap();
    integral.advance(MAX_ELEMENT_TIME_MS).unwrap();
    assert_eq!(window.query(MAX_ELEMENT_TIME_MS, &Decay::window(1).unwrap()).unwrap().weight().value, 99.0);
}

#[test]
fn invalid_queries_and_watermarks_are_rejected_without_a_trace() {
    let (mut window, mut integral) = (window_sketch(), integral_sketch());
    let before = (window.encode(), integral.encode());
    for time_ms in [i64::MIN, i64::MAX] {
        let rejected = QueryError::Time { time_ms };
        assert_eq!(window.advance(time_ms), Err(rejected.clone()));
        assert_eq!(integral.advance(time_ms), Err(rejected.clone()));
        assert_eq!(window.query(time_ms, &Decay::window(1).unwrap()).unwrap_err(), rejected);
        assert_eq!(integral.query(time_ms).unwrap_err(), rejected);
    }
    assert!(window.query(500, &Decay::window(1001).unwrap()).is_err());
    assert_eq!((window.encode(), integral.encode()), before);
}

#[test]
fn merge_and_decode_reject_other_parameters() {
    let others = [
        WindowSpec::new(accuracy(9), 99, 1000, 1),
        WindowSpec::new(accuracy(8), 98, 1000, 1),
        WindowSpec::new(accuracy(8), 99, 1001, 1),
        WindowSpec::new(accuracy(8), 99, 1000, 2),
        WindowSpec::new(accuracy(8).with_copies(3), 99, 1000, 1),
        WindowSpec::by_weight(accuracy(8), 99, 1000, 1),
        WindowSpec::by_amount(accuracy(8), 4, 1000, 1),
    ];
    let different = MergeError::Different("accuracy, weights, horizon or decay, or seed");
    let mut sketch = window_sketch();
    let before = sketch.encode();
    for other in others.map(Result::unwrap) {
        assert_eq!(sketch.merge(&WindowSketch::new(&other)), Err(different.clone()));
        assert!(matches!(WindowSketch::decode(&other, &before), Err(CodecError::Invalid { what: "parameters", .. })));
    }
    assert_eq!(sketch.encode(), before);
    let poly = |alpha| IntegralDecay::polynomial(alpha).unwrap();
    let others = [
        IntegralSpec::new(accuracy(8), poly(2), 1, (99, 10), 1),
        IntegralSpec::new(accuracy(8), poly(1), 2, (99, 10), 1),
        IntegralSpec::new(accuracy(8), poly(1), 1, (99, 9), 1),
        IntegralSpec::new(accuracy(8), poly(1), 1, (99, 10), 2),
    ];
    let mut sketch = integral_sketch();
    let before = sketch.encode();
    for other in others.map(Result::unwrap) {
        assert_eq!(sketch.merge(&IntegralSketch::new(&other)), Err(different.clone()));
        assert!(matches!(IntegralSketch::decode(&other, &before), Err(CodecError::Invalid { what: "parameters", .. })));
    }
    assert_eq!(sketch.encode(), before);
}

#[test]
fn invalid_specifications_are_rejected_with_the_reason() {
    assert_eq!(WindowSpec::new(accuracy(8), 0, 1000, 1).unwrap_err(), WindowSpecError::NoWeight);
    for horizon in [0, u64::MAX] {
        assert!(matches!(WindowSpec::new(accuracy(8), 9, horizon, 1), Err(WindowSpecError::Horizon { .. })));
    }
    let poly = || IntegralDecay::polynomial(1).unwrap();
    for weights in [(0, 1), (1, 0), (u32::MAX, 2)] {
        assert_eq!(IntegralSpec::new(accuracy(8), poly(), 1, weights, 1).unwrap_err(), IntegralSpecError::Weight);
    }
    for tick in [0, u64::MAX] {
        assert_eq!(IntegralSpec::new(accuracy(8), poly(), tick, (9, 1), 1).unwrap_err(), IntegralSpecError::Tick);
    }
    let short = IntegralDecay::exponential(0.1, 50).unwrap();
    let rejected = IntegralSpecError::Decay { built_for: 50, reached: 90 };
    assert_eq!(IntegralSpec::new(accuracy(8), short, 1, (9, 10), 1).unwrap_err(), rejected);
    assert_eq!(IntegralDecay::window(0), Err(IntegralDecayError::Width));
    assert_eq!(IntegralDecay::polynomial(0), Err(IntegralDecayError::Alpha));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(IntegralDecay::exponential(rate, 9), Err(IntegralDecayError::Factor), "{rate}");
    }
    let Err(IntegralDecayError::TooSlow { times }) = IntegralDecay::exponential(1e-9, 65_536) else {
        panic!("accepted")
    };
    assert!(IntegralDecay::exponential(1e-9 * times as f64, 65_536).is_ok(), "{times}");
}

/// The block with a changed body and a valid checksum.
fn resealed(bytes: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = bytes[6..bytes.len() - 8].to_vec();
    change(&mut body);
    let mut writer = Writer::new([bytes[0], bytes[1], bytes[2], bytes[3]], u16::from_le_bytes([bytes[4], bytes[5]]));
    writer.raw(&body);
    writer.seal()
}

/// Two elements of one time. Without floors, their encoding is the last 36 bytes of the body.
fn two_elements() -> (Vec<u8>, Vec<u8>) {
    let (mut window, mut integral) = (WindowSketch::new(&window_spec()), IntegralSketch::new(&integral_spec()));
    for id in [1, 2] {
        window.insert(element(7, 3, 100, id)).unwrap();
        integral.insert(element(7, 3, 100, id)).unwrap();
    }
    (window.encode(), integral.encode())
}

#[test]
fn encoded_elements_out_of_order_repeated_or_invalid_are_rejected() {
    let (window, integral) = two_elements();
    let swap = |body: &mut Vec<u8>| {
        let at = body.len() - 36;
        body[at..].rotate_left(18);
    };
    let repeat = |body: &mut Vec<u8>| {
        body.truncate(body.len() - 18);
        body.extend_from_within(body.len() - 18..);
    };
    let weight = |weight: u8| move |body: &mut Vec<u8>| *body.last_mut().unwrap() = weight;
    assert!(WindowSketch::decode(&window_spec(), &resealed(&window, weight(4))).is_ok());
    assert!(WindowSketch::decode(&window_spec(), &resealed(&window, weight(0))).is_err());
    assert!(WindowSketch::decode(&window_spec(), &resealed(&window, weight(100))).is_err());
    assert!(WindowSketch::decode(&window_spec(), &resealed(&window, swap)).is_err());
    assert!(WindowSketch::decode(&window_spec(), &resealed(&window, repeat)).is_err());
    assert!(IntegralSketch::decode(&integral_spec(), &resealed(&integral, weight(40))).is_ok());
    assert!(IntegralSketch::decode(&integral_spec(), &resealed(&integral, weight(41))).is_err());
    assert!(IntegralSketch::decode(&integral_spec(), &resealed(&integral, swap)).is_err());
    let empty = WindowSketch::new(&window_spec()).encode();
    assert!(WindowSketch::decode(&window_spec(), &resealed(&empty, |_| ())).is_ok());
    assert!(WindowSketch::decode(&window_spec(), &resealed(&empty, weight(1))).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damaged_bytes_are_rejected_or_canonical(
        index in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(), truncate in any::<bool>(),
    ) {
        let change = |body: &mut Vec<u8>| {
            let at = index.index(body.len());
            body[at] = byte;
            if truncate {
                body.truncate(cut.index(body.len()));
            }
        };
        let bytes = resealed(&window_sketch().encode(), change);
        if let Ok(decoded) = WindowSketch::decode(&window_spec(), &bytes) {
            prop_assert_eq!(decoded.encode(), bytes);
        }
        let bytes = resealed(&integral_sketch().encode(), change);
        if let Ok(decoded) = IntegralSketch::decode(&integral_spec(), &bytes) {
            prop_assert_eq!(decoded.encode(), bytes);
        }
    }
}
