use super::*;
use crate::aggregate::answer::{Evidence, Guarantee};
use crate::aggregate::qdigest::DigestShape;
use crate::random::Random;

#[test]
fn answers_state_their_guarantee_and_evidence() {
    let summary = SummaryShape::totals().with_values(DigestShape::new(8, 0.1).unwrap());
    let mut cascade = CascadeSketch::new(CascadeSketch::shape(0.1, 1000, summary).unwrap());
    let mut random = Random::new(1);
    for time_ms in 0..3000 {
        cascade.insert(&Observation { time_ms, value: random.below(256), label: 9, weight: 1.0 }).unwrap();
    }
    let window = cascade.totals(2999, &Decay::window(10).unwrap()).unwrap().count();
    assert_eq!((window.value, window.incomplete, window.evidence), (10.0, false, Evidence::Cells(10)));
    assert_eq!(window.guarantee, Guarantee::Deterministic { epsilon: 0.1 });
    let endless = cascade.totals(2999, &Decay::polynomial(1.0, 1.0).unwrap()).unwrap();
    assert!(endless.count().incomplete, "the sum lacks what is outside the horizon");
    // A query for the past leaves out what is newer, and does not reach beyond the horizon.
    let past = cascade.totals(2_500, &Decay::window(10).unwrap()).unwrap().count();
    assert!(past.lower <= 10.0 && 10.0 <= past.upper && past.value < 100.0, "{past:?}");
    let expired = QueryError::Expired { floor_ms: 1_999 };
    assert_eq!(cascade.totals(0, &Decay::window(10).unwrap()), Err(expired));
}

#[test]
fn first_range_ends_at_the_first_event_instead_of_before_it() {
    const HORIZON_MS: u64 = 1 << 20;
    for first_ms in [1_794_700_000_123, 1_794_700_000_123 + (1 << 18), -77_777] {
        let mut cascade = CascadeSketch::new(CascadeSketch::shape(0.2, HORIZON_MS, SummaryShape::totals()).unwrap());
        let last_ms = first_ms + HORIZON_MS as i64 - 1;
        let count = 200_000;
        for index in 0..count {
            let time_ms = first_ms + (last_ms - first_ms) * index / (count - 1);
            cascade.insert(&Observation { time_ms, value: 1, label: 0, weight: 1.0 }).unwrap();
        }
        let found = cascade.totals(last_ms, &Decay::window(HORIZON_MS).unwrap()).unwrap().count();
        assert!(found.lower >= 0.999 * count as f64 && found.covers(count as f64), "{first_ms}: {found:?}");
    }
}

#[test]
fn extreme_times_survive_insert_query_encode_and_expiry() {
    for at_ms in [MAX_TIME_MS, -MAX_TIME_MS] {
        let shape = CascadeSketch::shape(0.5, 1000, SummaryShape::totals()).unwrap().with_capacity(4);
        let mut cascade = CascadeSketch::new(shape);
        for step in 0..2000 {
            let time_ms = at_ms - at_ms.signum() * (step * 7 % 900);
            cascade.insert(&Observation { time_ms, value: 0, label: 0, weight: 1.0 }).unwrap();
        }
        assert!(cascade.levels().iter().any(|level| level.floor_ms.is_some()));
        let restored = CascadeSketch::decode(&cascade.encode()).unwrap();
        assert_eq!(restored.encode(), cascade.encode());
        assert!(
            cascade.totals(cascade.newest_ms().unwrap(), &Decay::window(1000).unwrap()).unwrap().count().covers(2000.0)
        );
        cascade.advance(i64::MAX);
        cascade.advance(i64::MIN);
    }
}
