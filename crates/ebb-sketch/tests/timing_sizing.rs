//! Planned filters have the planned errors.

use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::distinct::DistinctModel;
use ebb_sketch::filter::planning::sizing::{Budget, SizingError, WindowLength, Workload, plan_filter};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingError, TimingFilter, TimingSpec, false_duplicate_rate};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};

fn item(number: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(number)) << 64 | u128::from(mix(number ^ 0xEBB)))
}

/// Runs a filter on distinct items over three windows; returns the measured rate and the filter's own estimate.
fn measure(spec: TimingSpec) -> (f64, f64) {
    let ClockSpec::Count { window, .. } = spec.clock() else { panic!("a window of arrivals") };
    let mut filter = TimingFilter::new(spec).unwrap();
    let (mut duplicates, mut estimated) = (0u64, 0.0);
    for number in 0..3 * window {
        let reading = filter.read(item(number));
        if number >= 2 * window {
            duplicates += u64::from(filter.standard_answer(&reading, 0, window));
            estimated += filter.false_duplicate_rate() * f64::from(u8::from(number % 64 == 0)) * 64.0;
        }
        filter.insert(item(number), 0);
        filter.count_arrival(0);
    }
    (duplicates as f64 / window as f64, estimated / window as f64)
}

#[test]
fn measured_false_duplicates_match_the_prediction_in_every_layout() {
    let window = 20_000u64;
    for (layout, bits, k) in [
        (CellLayout::Lines(window * 16 / 512), 4, 4),
        (CellLayout::Lines(window * 8 / 512), 4, 2),
        (CellLayout::Lines(window * 16 / 512), 3, 5),
        (CellLayout::Lines(window * 24 / 512), 6, 4),
        (CellLayout::Spread(window * 4), 4, 3),
        (CellLayout::Spread(window * 3), 5, 2),
    ] {
        let block = window / 10
            * 10u64.div_ceil(match bits {
                3 => 5,
                _ => 10,
            });
        let spec = TimingSpec::new(ClockSpec::Count { window, block }, layout, bits, k).unwrap();
        let predicted = false_duplicate_rate(&spec, window as f64 + block as f64 / 2.0);
        let (rate, estimated) = measure(spec);
        assert!((rate / predicted - 1.0).abs() < 0.15, "{layout:?} {bits} {k}: measured {rate}, predicted {predicted}");
        assert!((estimated / rate - 1.0).abs() < 0.25, "{layout:?} {bits} {k}: measured {rate}, estimated {estimated}");
    }
}

#[test]
fn a_plan_keeps_to_its_memory_and_more_memory_never_errs_more() {
    let workload = Workload::count(1_000_000).unwrap();
    let mut before = f64::INFINITY;
    for bytes in [250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000] {
        let plan = plan_filter(&workload, Budget::Memory(bytes)).unwrap();
        assert!(plan.spec.memory_bytes() <= bytes && plan.spec.memory_bytes() + 64 > bytes);
        assert!(plan.error() <= before, "{bytes}: {plan:?}");
        before = plan.error();
    }
    assert!(before < 0.05, "8 bytes per item: {before}");
}

#[test]
fn a_plan_for_an_error_uses_the_least_memory() {
    let workload = Workload::new(WindowLength::Time { window_ms: 86_400_000, lateness_ms: 600_000 }, 1e6).unwrap();
    for error in [0.2, 0.05, 0.03] {
        let found = plan_filter(&workload, Budget::Error(error)).unwrap();
        assert!(found.error() <= error, "{found:?}");
        let less = plan_filter(&workload, Budget::Memory(found.spec.memory_bytes() * 9 / 10)).unwrap();
        assert!(less.error() > error, "{error}: {less:?} would suffice");
        let penalties = Penalties::new(2.0, 1.0).unwrap();
        assert!((found.penalty(&penalties) - 2.0 * found.error()).abs() < 1e-12);
    }
}

#[test]
fn repeats_need_less_memory() {
    let all_distinct = Workload::count(1 << 16).unwrap();
    let repeated = all_distinct.clone().with_distinct(DistinctModel::uniform(1 << 12).unwrap());
    let bytes = |workload: &Workload| plan_filter(workload, Budget::Error(0.1)).unwrap().spec.memory_bytes();
    assert!(bytes(&repeated) * 4 < bytes(&all_distinct));
}

#[test]
fn invalid_workloads_report_the_nearest_valid_one() {
    let workload = Workload::count(1000).unwrap();
    assert_eq!(
        plan_filter(&workload, Budget::Memory(10)),
        Err(TimingError::MemoryTooSmall { requested: 10, nearest: 64 }.into())
    );
    for bad in [0.0, -1.0, 1.0, f64::NAN] {
        let Err(SizingError::Error { nearest, .. }) = plan_filter(&workload, Budget::Error(bad)) else {
            panic!("{bad}")
        };
        assert!((0.0..1.0).contains(&nearest));
    }
    let Err(SizingError::OutOfReach { nearest, .. }) = plan_filter(&workload, Budget::Error(1e-9)) else {
        panic!("reached")
    };
    assert!(plan_filter(&workload, Budget::Error(nearest * 1.01)).is_ok(), "the nearest is valid");
    for bad in [0.0, f64::NAN, f64::INFINITY] {
        assert!(Workload::new(WindowLength::Count { window: 10 }, bad).is_err());
    }
    assert!(
        plan_filter(&Workload::new(WindowLength::Count { window: 0 }, 10.0).unwrap(), Budget::Memory(1 << 20)).is_err()
    );
}

#[test]
fn planning_is_deterministic() {
    let mut random = Random::new(1);
    for _ in 0..20 {
        let workload = Workload::count(1 + random.below(1 << 24)).unwrap();
        let budget = Budget::Memory(64 + random.below(1 << 26));
        assert_eq!(plan_filter(&workload, budget), plan_filter(&workload, budget));
    }
}
