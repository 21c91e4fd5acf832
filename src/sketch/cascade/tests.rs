use super::*;
use crate::random::Random;
use crate::sketch::qdigest::DigestShape;

#[test]
fn answers_say_what_they_rest_on() {
    let content = ContentShape::totals().with_values(DigestShape::new(8, 0.1).unwrap());
    let mut cascade = Cascade::new(Cascade::shape(0.1, 1000, content).unwrap());
    let mut random = Random::new(1);
    for time_ms in 0..3000 {
        cascade.insert(&Observation { time_ms, value: random.below(256), label: 9, weight: 1.0 }).unwrap();
    }
    use crate::sketch::answer::{Evidence, Guarantee};
    let window = cascade.totals(2999, &Decay::window(10).unwrap()).unwrap().count();
    assert_eq!((window.value, window.incomplete, window.evidence), (10.0, false, Evidence::Cells(10)));
    assert_eq!(window.guarantee, Guarantee::Deterministic { epsilon: 0.1 });
    cascade.expire(2999);
    let endless = cascade.totals(2999, &Decay::polynomial(1.0, 1.0).unwrap()).unwrap();
    assert!(endless.count().incomplete, "what is older than the horizon is not in the sum");
    // What is asked for the past is answered for the newest time.
    assert_eq!(cascade.totals(0, &Decay::window(10).unwrap()).unwrap().count().value, 10.0);
}

#[test]
fn nothing_that_is_not_kept_makes_a_difference() {
    let mut pair = [(); 2].map(|()| Cascade::new(Cascade::shape(0.3, 100, ContentShape::totals()).unwrap()));
    let mut random = Random::new(2);
    for _ in 0..3000 {
        let one = Observation { time_ms: random.below(100) as i64, value: 1, label: 0, weight: 1.0 };
        pair[0].insert(&one).unwrap();
        pair[1].insert(&Observation { label: u128::from(random.next_u64()), ..one }).unwrap();
    }
    assert_eq!(pair[0].encode(), pair[1].encode());
}
