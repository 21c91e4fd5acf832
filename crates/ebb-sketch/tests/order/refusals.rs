//! What is refused leaves no trace, and says what would be right.

use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::aggregate::cascade::Cascade;
use ebb_sketch::aggregate::content::{ContentShape, Observation, QuestionError, Refused, ShapeError, WeightLimits};
use ebb_sketch::aggregate::division::{Division, DivisionShape};
use ebb_sketch::aggregate::forward::Forward;
use ebb_sketch::aggregate::levels::Levels;
use ebb_sketch::aggregate::qdigest::DigestShape;
use ebb_sketch::decay::Decay;

const GOOD: Observation = Observation { time_ms: 5000, value: 7, label: 1, weight: 1.0 };

/// One of each method, with one observation.
struct All {
    cascade: Cascade,
    levels: Levels,
    cells: Division,
    forward: Forward,
}

fn rate() -> Decay {
    Decay::half_life(100.0).unwrap()
}

fn polynomial() -> Decay {
    Decay::polynomial(1.0, 1.0).unwrap()
}

fn all() -> All {
    let weights = WeightLimits::new(1.0, 1000.0).unwrap();
    let digest = DigestShape::new(8, 0.1).unwrap();
    let content = ContentShape::totals().with_weights(weights).with_values(digest).with_labels(16).unwrap();
    let mut all = All {
        cascade: Cascade::new(Cascade::shape(0.1, 1000, content).unwrap()),
        levels: Levels::new(Levels::shape(0.1, 1000, content).unwrap()),
        cells: Division::new(DivisionShape::new(polynomial(), 0.2, 1000, content).unwrap()),
        forward: Forward::new(&rate(), content).unwrap(),
    };
    assert_eq!(all.insert(&GOOD), [None, None, None, None]);
    all
}

impl All {
    /// Why each method refused, if it did.
    fn insert(&mut self, one: &Observation) -> [Option<Refused>; 4] {
        [self.cascade.insert(one), self.levels.insert(one), self.cells.insert(one), self.forward.insert(one)]
            .map(Result::err)
    }

    fn bytes(&self) -> [Vec<u8>; 4] {
        [self.cascade.encode(), self.levels.encode(), self.cells.encode(), self.forward.encode()]
    }
}

#[test]
fn bad_observations_are_refused_whole() {
    let mut all = all();
    let before = all.bytes();
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, 1000.5] {
        let refused = all.insert(&Observation { weight, ..GOOD });
        let right = |why: &Option<Refused>| matches!(why, Some(Refused::Weight { least: 1.0, most: 1000.0, .. }));
        assert!(refused.iter().all(right), "{weight}: {refused:?}");
    }
    let refused = all.insert(&Observation { value: 256, ..GOOD });
    assert!(refused.iter().all(|why| *why == Some(Refused::Value { given: 256, most: 255 })), "{refused:?}");
    for time_ms in [i64::MAX, i64::MIN, 1 << 60] {
        let refused = all.insert(&Observation { time_ms, ..GOOD });
        assert!(refused.iter().all(|why| *why == Some(Refused::Time { given: time_ms })), "{refused:?}");
    }
    assert_eq!(all.bytes(), before);
}

#[test]
fn what_is_older_than_the_horizon_is_late_and_forward_decay_knows_no_horizon() {
    let mut all = all();
    let before = all.bytes();
    let refused = all.insert(&Observation { time_ms: 4000, ..GOOD });
    let late = Some(Refused::Late { time_ms: 4000, now_ms: 5000, horizon_ms: 1000 });
    assert_eq!(refused, [late.clone(), late.clone(), late, None]);
    assert_eq!(all.bytes()[..3], before[..3]);
    assert_eq!(all.insert(&Observation { time_ms: 4001, ..GOOD }), [None, None, None, None]);
}

#[test]
fn questions_beyond_the_horizon_or_the_decay_are_refused() {
    let All { cascade, levels, cells, forward } = all();
    let wide = Decay::window(1001).unwrap();
    let past = Err(QuestionError::PastHorizon { asked_ms: 1001, horizon_ms: 1000 });
    assert_eq!(cascade.totals(5000, &wide), past);
    assert_eq!(levels.totals(5000, &wide), past);
    assert_eq!(cells.totals(5000, &wide), past);
    for other in [wide, polynomial(), Decay::half_life(101.0).unwrap()] {
        assert!(matches!(forward.values(5000, &other), Err(QuestionError::Decay { .. })), "{other}");
    }
    assert_eq!(cascade.totals(i64::MAX, &rate()).unwrap_err(), QuestionError::Time(i64::MAX));
    let plain = Cascade::new(Cascade::shape(0.1, 1000, ContentShape::totals()).unwrap());
    assert_eq!(plain.values(0, &rate()).unwrap_err(), QuestionError::NotKept("values"));
    assert_eq!(plain.labels(0, &rate()).unwrap_err(), QuestionError::NotKept("labels"));
}

#[test]
fn shares_that_cannot_be_told_from_the_error_are_refused() {
    let cascade = all().cascade;
    let window = Decay::window(10).unwrap();
    let (values, labels) = (cascade.values(5000, &window).unwrap(), cascade.labels(5000, &window).unwrap());
    for mode in [TopMode::NoFalseNegatives, TopMode::NoFalsePositives] {
        // The structure errs by 0.1 in time and its digest by another 0.05.
        assert!(matches!(values.frequent(0.15, mode), Err(QuestionError::PhiTooSmall { least, .. }) if least > 0.15));
        assert!(matches!(labels.top(0.15, mode), Err(QuestionError::PhiTooSmall { least, .. }) if least > 0.15));
        assert!(values.frequent(0.2, mode).is_ok() && labels.top(0.2, mode).is_ok());
        assert!(values.frequent(1.5, mode).is_err() && labels.top(f64::NAN, mode).is_err());
    }
    assert_eq!(values.quantile(1.5), Err(QuestionError::Phi(1.5)));
    assert!(values.quantile(f64::NAN).is_err() && values.quantile(-0.1).is_err());
    let by_weight = "value < 9 or weight > 3".parse().unwrap();
    assert_eq!(values.share(&by_weight), Err(QuestionError::WeightNotKept));
}

#[test]
fn impossible_shapes_are_refused_with_the_nearest_possible() {
    let totals = ContentShape::totals();
    for epsilon in [0.0, -1.0, 1.0, f64::NAN, f64::INFINITY] {
        let refused = Cascade::shape(epsilon, 1000, totals).unwrap_err();
        let ShapeError::Share { nearest, .. } = refused else { panic!("{refused}") };
        assert!(Cascade::shape(nearest, 1000, totals).is_ok(), "{nearest}");
    }
    assert!(matches!(Levels::shape(0.1, 0, totals), Err(ShapeError::Horizon { nearest: 1, .. })));
    assert!(matches!(DigestShape::new(33, 0.1), Err(ShapeError::Bits { nearest: 32, .. })));
    assert!(matches!(totals.with_labels(0), Err(ShapeError::Counters { nearest: 1, .. })));
    assert!(WeightLimits::new(0.0, 1.0).is_err() && WeightLimits::new(2.0, 1.0).is_err());
    assert!(matches!(Forward::new(&polynomial(), totals), Err(ShapeError::Decay { .. })));
    for unsuitable in [Decay::window(500).unwrap(), Decay::table(vec![(0, 1.0), (9, 0.5), (90, 0.1)]).unwrap()] {
        assert!(matches!(DivisionShape::new(unsuitable, 0.2, 1000, totals), Err(ShapeError::Decay { .. })));
    }
    let slow = Decay::half_life(10_000.0).unwrap();
    let refused = DivisionShape::new(slow.clone(), 1e-5, 1 << 30, totals).unwrap_err();
    let ShapeError::Cells { nearest, .. } = refused else { panic!("{refused}") };
    assert!(DivisionShape::new(slow, 1e-5, nearest, totals).is_ok(), "the nearest horizon must fit");
}
