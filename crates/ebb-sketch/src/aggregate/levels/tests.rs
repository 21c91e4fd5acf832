use super::*;
use crate::random::Random;

/// A coarse level can have forgotten more than a finer one. Were its floor taken for the end of what it serves, the next
/// level would count the same part of a decay again.
#[test]
fn no_part_of_a_decay_is_counted_twice_when_floors_cross() {
    let content = ContentShape::totals().with_labels(600).unwrap();
    let decay = Decay::polynomial(1.5, 66.0).unwrap();
    let (mut crossed, mut asked) = (0, 0);
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut levels = Levels::new(Levels::shape(0.2, 5000, content).unwrap().with_capacity(30));
        let mut seen: Vec<Observation> = Vec::new();
        let mut flood = 2000;
        for place in 0..4000i64 {
            if random.below(500) == 0 {
                flood = random.below(5000) as i64;
            }
            let time_ms = if random.below(5) < 3 { flood - random.below(3) as i64 } else { place };
            let label = u128::from(random.below(300));
            let one = Observation { time_ms, value: 0, label, weight: (1 + random.below(9)) as f64 };
            if levels.insert(&one).is_ok() {
                seen.push(one);
            }
            if place % 500 != 499 {
                continue;
            }
            let (_, _, held) = levels.levels();
            crossed += usize::from(held.windows(2).any(|pair| pair[0].floor_ms < pair[1].floor_ms));
            let now_ms = levels.newest_ms().unwrap() + 198;
            let labels = levels.labels(now_ms, &decay).unwrap();
            for label in 0..300 {
                let mine = seen.iter().filter(|one| one.label == label && now_ms - one.time_ms < 5000);
                let exact: f64 = mine.map(|one| one.weight * decay.weight((now_ms - one.time_ms) as u64)).sum();
                let found = labels.weight_of(label);
                assert!(found.lower <= exact * (1.0 + 1e-9) + 1e-12, "{label}: {found:?} of {exact}");
                asked += 1;
            }
        }
    }
    assert!(crossed > 0 && asked > 10_000, "floors crossed {crossed} times");
}

#[test]
fn nothing_that_is_not_kept_makes_a_difference() {
    let mut pair = [(); 2].map(|()| Levels::new(Levels::shape(0.3, 100, ContentShape::totals()).unwrap()));
    let mut random = Random::new(2);
    for _ in 0..1000 {
        let one = Observation { time_ms: random.below(100) as i64, value: 1, label: 0, weight: 1.0 };
        pair[0].insert(&one).unwrap();
        pair[1].insert(&Observation { label: u128::from(random.next_u64()), ..one }).unwrap();
    }
    assert_eq!(pair[0].encode(), pair[1].encode());
}
