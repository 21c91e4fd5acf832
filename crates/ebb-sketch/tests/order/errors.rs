//! Rejected observations, queries and shapes: they change nothing, and the error names what is valid.

use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::aggregate::cascade::CascadeSketch;
use ebb_sketch::aggregate::division::{DivisionShape, DivisionSketch};
use ebb_sketch::aggregate::forward::{ForwardShape, ForwardSketch};
use ebb_sketch::aggregate::paper::levels::LevelsSketch;
use ebb_sketch::aggregate::qdigest::DigestShape;
use ebb_sketch::aggregate::{
    DecayedSketch, MAX_TIME_MS, Observation, ObservationError, QueryError, ShapeError, SummaryShape, WeightLimits,
};
use ebb_sketch::decay::Decay;

const GOOD: Observation = Observation { time_ms: 5000, value: 7, label: 1, weight: 1.0 };

/// One sketch of each deterministic method, with one observation.
struct All {
    cascade: CascadeSketch,
    levels: LevelsSketch,
    cells: DivisionSketch,
    forward: ForwardSketch,
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
    let summary = SummaryShape::totals().with_weights(weights).with_values(digest).with_labels(16).unwrap();
    let mut all = All {
        cascade: CascadeSketch::new(CascadeSketch::shape(0.1, 1000, summary).unwrap()),
        levels: LevelsSketch::new(LevelsSketch::shape(0.1, 1000, summary).unwrap()),
        cells: DivisionSketch::new(DivisionShape::new(polynomial(), 0.2, 1000, summary).unwrap()),
        forward: ForwardSketch::new(ForwardShape::new(&rate(), summary).unwrap()),
    };
    assert_eq!(all.insert(&GOOD), [None, None, None, None]);
    all
}

impl All {
    /// The error of each method.
    fn insert(&mut self, one: &Observation) -> [Option<ObservationError>; 4] {
        [self.cascade.insert(one), self.levels.insert(one), self.cells.insert(one), self.forward.insert(one)]
            .map(Result::err)
    }

    fn bytes(&self) -> [Vec<u8>; 4] {
        [self.cascade.encode(), self.levels.encode(), self.cells.encode(), self.forward.encode()]
    }
}

#[test]
fn invalid_observations_are_rejected_without_a_trace() {
    let mut all = all();
    let before = all.bytes();
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, 1000.5] {
        let rejected = all.insert(&Observation { weight, ..GOOD });
        let is_expected = |error: &Option<ObservationError>| {
            matches!(error, Some(ObservationError::Weight { min: 1.0, max: 1000.0, .. }))
        };
        assert!(rejected.iter().all(is_expected), "{weight}: {rejected:?}");
    }
    let rejected = all.insert(&Observation { value: 256, ..GOOD });
    assert!(
        rejected.iter().all(|error| *error == Some(ObservationError::Value { value: 256, max: 255 })),
        "{rejected:?}"
    );
    for time_ms in [i64::MAX, i64::MIN, 1 << 60] {
        let rejected = all.insert(&Observation { time_ms, ..GOOD });
        assert!(
            rejected.iter().all(|error| *error == Some(ObservationError::Time { time_ms, max_ms: MAX_TIME_MS })),
            "{rejected:?}"
        );
    }
    assert_eq!(all.bytes(), before);
}

#[test]
fn observation_outside_the_horizon_is_late_except_under_forward_decay() {
    let mut all = all();
    let before = all.bytes();
    let rejected = all.insert(&Observation { time_ms: 4000, ..GOOD });
    let late = Some(ObservationError::Late { time_ms: 4000, now_ms: 5000, horizon_ms: 1000 });
    assert_eq!(rejected, [late.clone(), late.clone(), late, None]);
    assert_eq!(all.bytes()[..3], before[..3]);
    assert_eq!(all.insert(&Observation { time_ms: 4001, ..GOOD }), [None, None, None, None]);
}

#[test]
fn queries_beyond_the_horizon_or_for_another_decay_are_rejected() {
    let All { cascade, levels, cells, forward } = all();
    let wide = Decay::window(1001).unwrap();
    let past = Err(QueryError::WindowBeyondHorizon { window_ms: 1001, horizon_ms: 1000 });
    assert_eq!(cascade.totals(5000, &wide), past);
    assert_eq!(levels.totals(5000, &wide), past);
    assert_eq!(cells.totals(5000, &wide), past);
    for other in [wide, polynomial(), Decay::half_life(101.0).unwrap()] {
        assert!(matches!(forward.values(5000, &other), Err(QueryError::Decay { .. })), "{other}");
    }
    assert_eq!(cascade.totals(i64::MAX, &rate()).unwrap_err(), QueryError::Time { time_ms: i64::MAX });
    let plain = CascadeSketch::new(CascadeSketch::shape(0.1, 1000, SummaryShape::totals()).unwrap());
    assert_eq!(plain.values(0, &rate()).unwrap_err(), QueryError::NotKept("values"));
    assert_eq!(plain.labels(0, &rate()).unwrap_err(), QueryError::NotKept("labels"));
}

#[test]
fn shares_within_the_error_are_rejected() {
    let cascade = all().cascade;
    let window = Decay::window(10).unwrap();
    let (values, labels) = (cascade.values(5000, &window).unwrap(), cascade.labels(5000, &window).unwrap());
    for mode in [TopMode::NoFalseNegatives, TopMode::NoFalsePositives] {
        // The sketch errs by 0.1 in time and its digest by another 0.05.
        assert!(matches!(values.frequent(0.15, mode), Err(QueryError::PhiTooSmall { min, .. }) if min > 0.15));
        assert!(matches!(labels.top(0.15, mode), Err(QueryError::PhiTooSmall { min, .. }) if min > 0.15));
        assert!(values.frequent(0.2, mode).is_ok() && labels.top(0.2, mode).is_ok());
        assert!(values.frequent(1.5, mode).is_err() && labels.top(f64::NAN, mode).is_err());
    }
    assert_eq!(values.quantile(1.5), Err(QueryError::Phi { phi: 1.5 }));
    assert!(values.quantile(f64::NAN).is_err() && values.quantile(-0.1).is_err());
    let by_weight = "value < 9 or weight > 3".parse().unwrap();
    assert_eq!(values.share(&by_weight), Err(QueryError::WeightNotKept));
}

#[test]
fn invalid_shapes_are_rejected_with_the_nearest_valid() {
    let totals = SummaryShape::totals();
    for epsilon in [0.0, -1.0, 1.0, f64::NAN, f64::INFINITY] {
        let rejected = CascadeSketch::shape(epsilon, 1000, totals).unwrap_err();
        let ShapeError::Share { nearest, .. } = rejected else { panic!("{rejected}") };
        assert!(CascadeSketch::shape(nearest, 1000, totals).is_ok(), "{nearest}");
    }
    assert!(matches!(LevelsSketch::shape(0.1, 0, totals), Err(ShapeError::Horizon { nearest_ms: 1, .. })));
    assert!(matches!(DigestShape::new(33, 0.1), Err(ShapeError::Bits { nearest: 32, .. })));
    assert!(matches!(totals.with_labels(0), Err(ShapeError::Counters { nearest: 1, .. })));
    assert!(WeightLimits::new(0.0, 1.0).is_err() && WeightLimits::new(2.0, 1.0).is_err());
    assert!(matches!(ForwardShape::new(&polynomial(), totals), Err(ShapeError::Decay { .. })));
    for unsuitable in [Decay::window(500).unwrap(), Decay::table(vec![(0, 1.0), (9, 0.5), (90, 0.1)]).unwrap()] {
        assert!(matches!(DivisionShape::new(unsuitable, 0.2, 1000, totals), Err(ShapeError::Decay { .. })));
    }
    let slow = Decay::half_life(10_000.0).unwrap();
    let rejected = DivisionShape::new(slow.clone(), 1e-5, 1 << 30, totals).unwrap_err();
    let ShapeError::Cells { nearest_ms, .. } = rejected else { panic!("{rejected}") };
    assert!(DivisionShape::new(slow, 1e-5, nearest_ms, totals).is_ok(), "the nearest horizon must fit");
}
