//! The forecast of `ebb plan` agrees with a simulation of the planned filter: the penalty of the standard answer within 15%,
//! that of the posterior answer between 0.5 and 1.2 of the forecast.

use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::{InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::planning::forecast::{ExpectedErrors, Forecast, TrafficModel};
use ebb_sketch::filter::planning::sizing::{Budget, Workload, plan_filter};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::{Random, mix};

fn item(number: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(number)) << 64 | u128::from(mix(number ^ 0xEBB)))
}

/// An exact record of the last accepted event of each item.
struct Oracle {
    last: Vec<Option<u64>>,
    window: u64,
}

impl Oracle {
    fn is_inside(&self, number: u64, now: u64) -> bool {
        self.last[number as usize].is_some_and(|last| now - last <= self.window)
    }
}

/// The filter's error rates on a uniform stream of eight windows; the first two are not counted.
fn simulate(spec: TimingSpec, traffic: &TrafficModel, seen: Seen, penalties: Option<Penalties>) -> ExpectedErrors {
    let (window, items) = (traffic.arrivals() as u64, (1.0 / traffic.item_share()).round() as u64);
    let share = ArrivalShare::new(traffic.item_share()).unwrap();
    let mut filter = InferentialFilter::new(spec, seen, PriorSpec::Constant(share)).unwrap();
    let mut oracle = Oracle { last: vec![None; items as usize], window };
    let (mut random, mut observed) = (Random::new(7), ExpectedErrors::default());
    for now in 0..8 * window {
        let number = random.below(items);
        let question = Question { penalties, ..Question::new(item(number), 0, window) };
        let answer = filter.observe(&question).expect("arrivals are never late");
        let inside = oracle.is_inside(number, now);
        if now >= 2 * window {
            observed.false_duplicates += f64::from(u8::from(answer.duplicate && !inside));
            observed.missed_duplicates += f64::from(u8::from(!answer.duplicate && inside));
        }
        if seen == Seen::Last || !answer.duplicate {
            oracle.last[number as usize] = Some(now);
        }
    }
    observed.false_duplicates /= (6 * window) as f64;
    observed.missed_duplicates /= (6 * window) as f64;
    observed
}

fn cost(observed: &ExpectedErrors, penalties: &Penalties) -> f64 {
    penalties.false_duplicate() * observed.false_duplicates + penalties.missed_duplicate() * observed.missed_duplicates
}

#[test]
fn simulated_filter_agrees_with_the_forecast() {
    let window = 40_000u64;
    for (bytes_per_event, distinct, seen) in [
        (1, 0.9, Seen::First),
        (1, 0.9, Seen::Last),
        (2, 0.6, Seen::First),
        (2, 0.6, Seen::Last),
        (4, 0.3, Seen::Last),
        (4, 0.95, Seen::First),
    ] {
        let demand = Workload::count(window).unwrap();
        let spec = plan_filter(&demand, Budget::Memory(window * bytes_per_event)).unwrap().spec;
        let traffic = TrafficModel::new(window as f64, distinct).unwrap();
        let forecast = Forecast::new(&spec, &traffic, seen);
        let case = format!("{bytes_per_event} bytes, {distinct} distinct, {seen:?}");
        for penalties in [Penalties::new(1.0, 1.0).unwrap(), Penalties::new(1.0, 4.0).unwrap()] {
            let standard = simulate(spec, &traffic, seen, None);
            let expected = forecast.standard(&penalties);
            assert_eq!(standard.missed_duplicates, 0.0, "{case}: the standard answer misses no duplicates");
            let ratio = cost(&standard, &penalties) / expected.penalty;
            println!("{case}, {penalties:?}: standard {ratio:.3} of the forecast {:.6}", expected.penalty);
            assert!((ratio - 1.0).abs() < 0.15, "{case}: standard {ratio}");
            let posterior = simulate(spec, &traffic, seen, Some(penalties));
            let expected = forecast.posterior(&penalties);
            let ratio = cost(&posterior, &penalties) / expected.penalty;
            println!("{case}, {penalties:?}: posterior {ratio:.3} of the forecast {:.6}", expected.penalty);
            assert!((0.5..1.2).contains(&ratio), "{case}: posterior {ratio}");
        }
    }
}
