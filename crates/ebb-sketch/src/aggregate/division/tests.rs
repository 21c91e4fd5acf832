use super::*;
use crate::aggregate::content::ContentShape;
use crate::random::Random;

fn division(alpha: f64, theta: f64, horizon_ms: u64) -> Division {
    let decay = Decay::polynomial(alpha, 1.0).unwrap();
    Division::new(DivisionShape::new(decay, theta, horizon_ms, ContentShape::totals()).unwrap())
}

#[test]
fn values_that_go_with_time_keep_their_own_moments() {
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
    // Moments do much better than the theta / (2 + theta) that the ends of cells promise.
    assert!((totals.count().value / exact.0 - 1.0).abs() < 0.01, "{totals:?} {exact:?}");
}

#[test]
fn the_number_of_cells_grows_with_the_logarithm_of_time() {
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
fn what_is_past_the_horizon_leaves_and_the_answer_says_so() {
    let mut cells = division(1.0, 0.2, 100);
    let mut random = Random::new(1);
    let mut kept = 0;
    for time_ms in 0..2000 {
        let late = random.below(200) as i64;
        kept +=
            u64::from(cells.insert(&Observation { time_ms: time_ms - late, value: 0, label: 0, weight: 1.0 }).is_ok());
    }
    let held: f64 = cells.cells().map(|cell| cell.weight).sum();
    assert_eq!(held + cells.expired(), kept as f64);
    let decay = cells.shape().decay().clone();
    assert!(cells.totals(2000, &decay).unwrap().count().incomplete);
    assert!(!cells.totals(2000, &Decay::window(50).unwrap()).unwrap().count().incomplete);
}

#[test]
fn divisions_of_different_shape_are_not_merged() {
    let mut cells = division(1.0, 0.2, 100);
    assert!(cells.merge(division(1.0, 0.3, 100)).is_err() && cells.merge(division(1.5, 0.2, 100)).is_err());
}

#[test]
fn at_every_tick_every_cell_is_as_wide_as_its_age_allows() {
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
