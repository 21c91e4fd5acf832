use super::*;
use crate::random::Random;

/// A coarse level may have dropped more than a finer one. If its floor ended the part it answers for, the next level would
/// count the same part of the decay again.
#[test]
fn crossing_floors_do_not_count_a_part_of_the_decay_twice() {
    let summary = SummaryShape::totals().with_labels(600).unwrap();
    let decay = Decay::polynomial(1.5, 66.0).unwrap();
    let (mut crossed, mut checked) = (0, 0);
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut levels = LevelsSketch::new(LevelsSketch::shape(0.2, 5000, summary).unwrap().with_capacity(30));
        let mut seen: Vec<Observation> = Vec::new();
        let mut flood = 2000;
        for index in 0..4000i64 {
            if random.below(500) == 0 {
                flood = random.below(5000) as i64;
            }
            let time_ms = if random.below(5) < 3 { flood - random.below(3) as i64 } else { index };
            let label = u128::from(random.below(300));
            let one = Observation { time_ms, value: 0, label, weight: (1 + random.below(9)) as f64 };
            if levels.insert(&one).is_ok() {
                seen.push(one);
            }
            if index % 500 != 499 {
                continue;
            }
            let (_, _, views) = levels.levels();
            crossed += usize::from(views.windows(2).any(|pair| pair[0].floor_ms < pair[1].floor_ms));
            let now_ms = levels.newest_ms().unwrap() + 198;
            let labels = levels.labels(now_ms, &decay).unwrap();
            for label in 0..300 {
                let matching = seen.iter().filter(|one| one.label == label && now_ms - one.time_ms < 5000);
                let exact: f64 = matching.map(|one| one.weight * decay.weight((now_ms - one.time_ms) as u64)).sum();
                let found = labels.weight_of(label);
                assert!(found.lower <= exact * (1.0 + 1e-9) + 1e-12, "{label}: {found:?} of {exact}");
                checked += 1;
            }
        }
    }
    assert!(crossed > 0 && checked > 10_000, "floors crossed {crossed} times");
}

#[test]
fn labels_that_are_not_kept_do_not_change_the_state() {
    let mut pair = [(); 2].map(|()| LevelsSketch::new(LevelsSketch::shape(0.3, 100, SummaryShape::totals()).unwrap()));
    let mut random = Random::new(2);
    for _ in 0..1000 {
        let one = Observation { time_ms: random.below(100) as i64, value: 1, label: 0, weight: 1.0 };
        pair[0].insert(&one).unwrap();
        pair[1].insert(&Observation { label: u128::from(random.next_u64()), ..one }).unwrap();
    }
    assert_eq!(pair[0].encode(), pair[1].encode());
}
