use super::*;
use crate::aggregate::summary::SummaryShape;
use crate::random::Random;

fn division(alpha: f64, theta: f64, horizon_ms: u64) -> DivisionSketch {
    let decay = Decay::polynomial(alpha, 1.0).unwrap();
    DivisionSketch::new(DivisionShape::new(decay, theta, horizon_ms, SummaryShape::totals()).unwrap())
}

#[test]
fn sum_of_values_correlated_with_time_is_estimated_from_its_own_mean_age() {
    let mut cells = division(2.0, 0.3, 1 << 20);
    let decay = cells.shape().decay().clone();
    let mut exact = (0.0, 0.0);
    for time_ms in 0..5000i64 {
        let value = time_ms as u64;
        cells.insert(&Observation { time_ms, value, label: 0, weight: 1.0 }).unwrap();
        let weight = decay.weight((5000 - time_ms) as u64);
        exact = (exact.0 + weight, exact.1 + weight * value as f64);
    }
    let totals = cells.totals(5000, &decay).unwrap();
    assert!(totals.count().covers(exact.0) && totals.sum().covers(exact.1));
    assert!(totals.mean().unwrap().covers(exact.1 / exact.0));
    // The mean age gives a much smaller error than the guaranteed theta / (2 + theta).
    assert!((totals.count().value / exact.0 - 1.0).abs() < 0.01, "{totals:?} {exact:?}");
}

#[test]
fn cell_count_grows_logarithmically_with_time() {
    let mut cells = division(2.0, 0.2, 1 << 40);
    let mut counts = Vec::new();
    for time_ms in 0..200_000 {
        cells.insert(&Observation { time_ms, value: 0, label: 0, weight: 1.0 }).unwrap();
        if time_ms % 50_000 == 49_999 {
            counts.push(cells.cells().count());
        }
    }
    assert!(counts.windows(2).all(|pair| pair[1] < pair[0] + 30), "{counts:?}");
}

#[test]
fn cells_outside_the_horizon_expire_and_answers_are_incomplete() {
    let mut cells = division(1.0, 0.2, 100);
    let mut random = Random::new(1);
    let mut accepted = 0;
    for time_ms in 0..2000 {
        let late = random.below(200) as i64;
        accepted +=
            u64::from(cells.insert(&Observation { time_ms: time_ms - late, value: 0, label: 0, weight: 1.0 }).is_ok());
    }
    let stored: f64 = cells.cells().map(|cell| cell.weight).sum();
    assert_eq!(stored + cells.expired(), accepted as f64);
    let decay = cells.shape().decay().clone();
    assert!(cells.totals(2000, &decay).unwrap().count().incomplete);
    assert!(!cells.totals(2000, &Decay::window(50).unwrap()).unwrap().count().incomplete);
}

#[test]
fn merge_rejects_another_shape() {
    let mut cells = division(1.0, 0.2, 100);
    assert!(cells.merge(division(1.0, 0.3, 100)).is_err() && cells.merge(division(1.5, 0.2, 100)).is_err());
}

#[test]
fn every_cell_is_as_wide_as_its_age_allows_at_every_tick() {
    let mut cells = division(1.0, 0.25, 1 << 20);
    for time_ms in (0..400).step_by(3) {
        cells.insert(&Observation { time_ms, value: 0, label: 0, weight: 1.0 }).unwrap();
    }
    for clock_ms in 400..1200 {
        cells.advance(clock_ms).unwrap();
        let allowed = |width: u8, time_ms: i64| {
            let age_ms = clock_ms - (((time_ms >> width) + 1) << width) + 1;
            width == 0 || u64::try_from(age_ms).is_ok_and(|age| age >= cells.shape().ages()[usize::from(width)])
        };
        for cell in cells.cells() {
            let widest = (0..30).rev().find(|width| allowed(*width, cell.oldest_ms)).unwrap();
            assert_eq!(cell.width, widest, "{cell:?} at {clock_ms}");
        }
    }
}
