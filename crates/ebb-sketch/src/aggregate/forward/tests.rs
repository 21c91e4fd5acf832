use super::*;
use crate::aggregate::qdigest::DigestShape;
use crate::random::Random;

fn summary() -> SummaryShape {
    SummaryShape::totals().with_values(DigestShape::new(8, 0.1).unwrap()).with_labels(32).unwrap()
}

fn sketch(decay: &Decay, summary: SummaryShape) -> ForwardSketch {
    ForwardSketch::new(ForwardShape::new(decay, summary).unwrap())
}

fn stream(length: usize, random: &mut Random) -> Vec<Observation> {
    let one = |index: usize| {
        let value = random.below(256);
        let late = random.below(40) * random.below(50);
        Observation { time_ms: (index * 3) as i64 - late as i64, value, label: u128::from(value % 16), weight: 1.5 }
    };
    (0..length).map(one).collect()
}

#[test]
fn order_and_partitioning_change_answers_only_by_rounding() {
    let decay = Decay::half_life(20.0).unwrap();
    let mut random = Random::new(1);
    let mut observations = stream(4000, &mut random);
    let mut whole = sketch(&decay, summary());
    observations.iter().for_each(|one| whole.insert(one).unwrap());
    observations.reverse();
    let mut parts = [(); 3].map(|()| sketch(&decay, summary()));
    observations.iter().enumerate().for_each(|(index, one)| parts[index % 3].insert(one).unwrap());
    let [first, mut merged, third] = parts;
    // The first part began with the newest observation: one merge moves to an earlier landmark, one to a later.
    assert!(first.landmark_ms > merged.landmark_ms && merged.landmark_ms > third.landmark_ms);
    merged.merge(first).unwrap();
    merged.merge(third).unwrap();
    assert_eq!(merged.newest_ms(), whole.newest_ms());
    for later in [0, 1, 50, 5000] {
        let now_ms = whole.newest_ms().unwrap() + later;
        let (a, b) = (whole.totals(now_ms, &decay).unwrap(), merged.totals(now_ms, &decay).unwrap());
        assert!((a.count().value - b.count().value).abs() <= 1e-9 * a.count().value);
        assert!((a.sum().value - b.sum().value).abs() <= 1e-9 * a.sum().value);
    }
}

#[test]
fn far_landmark_move_drops_old_weight_and_very_late_observation_has_none() {
    let decay = Decay::half_life(1.0).unwrap();
    let mut forward = sketch(&decay, summary());
    let at = |time_ms| Observation { time_ms, value: 3, label: 3, weight: 1.0 };
    forward.insert(&at(0)).unwrap();
    forward.insert(&at(1_000_000)).unwrap();
    forward.insert(&at(5)).unwrap();
    let totals = forward.totals(1_000_000, &decay).unwrap();
    assert_eq!((totals.count().value, totals.mean().unwrap().value), (1.0, 3.0));
    assert_eq!(forward.values(1_000_000, &decay).unwrap().quantile(0.5).unwrap().unwrap().value, 3);
    let gone = forward.totals(3_000_000, &decay).unwrap();
    assert_eq!((gone.count().value, gone.mean()), (0.0, None));
    assert_eq!(forward.values(3_000_000, &decay).unwrap().quantile(0.5), Ok(None));
}

#[test]
fn merge_rejects_another_rate_or_summary() {
    let (a, b) = (Decay::half_life(1.0).unwrap(), Decay::half_life(2.0).unwrap());
    let mut forward = sketch(&a, summary());
    assert_eq!(forward.merge(sketch(&b, summary())), Err(MergeError::Different("rates")));
    assert_eq!(forward.merge(sketch(&a, SummaryShape::totals())), Err(MergeError::Different("summaries")));
}
