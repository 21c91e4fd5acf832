use super::*;
use crate::aggregate::qdigest::DigestShape;
use crate::random::Random;

#[test]
fn answers_say_what_they_rest_on() {
    let content = ContentShape::totals().with_values(DigestShape::new(8, 0.1).unwrap());
    let mut cascade = Cascade::new(Cascade::shape(0.1, 1000, content).unwrap());
    let mut random = Random::new(1);
    for time_ms in 0..3000 {
        cascade.insert(&Observation { time_ms, value: random.below(256), label: 9, weight: 1.0 }).unwrap();
    }
    use crate::aggregate::answer::{Evidence, Guarantee};
    let window = cascade.totals(2999, &Decay::window(10).unwrap()).unwrap().count();
    assert_eq!((window.value, window.incomplete, window.evidence), (10.0, false, Evidence::Cells(10)));
    assert_eq!(window.guarantee, Guarantee::Deterministic { epsilon: 0.1 });
    let endless = cascade.totals(2999, &Decay::polynomial(1.0, 1.0).unwrap()).unwrap();
    assert!(endless.count().incomplete, "what is older than the horizon is not in the sum");
    // What is asked for the past is answered for the newest time.
    assert_eq!(cascade.totals(0, &Decay::window(10).unwrap()).unwrap().count().value, 10.0);
}

#[test]
fn times_at_the_edge_of_what_is_taken_survive_everything() {
    for at_ms in [TIME_MOST_MS, -TIME_MOST_MS] {
        let mut cascade = Cascade::new(Cascade::shape(0.5, 1000, ContentShape::totals()).unwrap().with_capacity(4));
        for step in 0..2000 {
            let time_ms = at_ms - at_ms.signum() * (step * 7 % 900);
            cascade.insert(&Observation { time_ms, value: 0, label: 0, weight: 1.0 }).unwrap();
        }
        assert!(cascade.levels().iter().any(|level| level.floor_ms.is_some()));
        let restored = Cascade::decode(&cascade.encode()).unwrap();
        assert_eq!(restored.encode(), cascade.encode());
        assert!(cascade.totals(at_ms, &Decay::window(1000).unwrap()).unwrap().count().covers(2000.0));
        cascade.expire(i64::MAX);
        cascade.expire(i64::MIN);
    }
}
