//! Posterior, priors, calibration and decisions over the timing filter.

mod arrivals;

use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::calibration::{Calibration, Outcome};
use ebb_sketch::filter::inference::decision::Penalties;
use ebb_sketch::filter::inference::posterior::{AgePrior, Posterior};
use ebb_sketch::filter::inference::prior::{LastSighting, ReusePrior, ReuseSpec};
use ebb_sketch::filter::inference::{Basis, InferentialFilter, PriorSpec, Question, Seen};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::AgeLikelihood;
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingSpec};
use ebb_sketch::random::Random;
use proptest::prelude::*;

use arrivals::{Arrivals, item, spec};

fn likelihood() -> impl Strategy<Value = AgeLikelihood> {
    (0u32..500, 0u32..300, -12.0f64..0.0).prop_map(|(from, length, exponent)| AgeLikelihood {
        from: f64::from(from),
        length: f64::from(length),
        collision: if length == 0 { 1.0 } else { 10f64.powf(exponent) },
    })
}

/// Runs a check under a geometric, a first-seen and a learned prior.
fn with_priors(p: f64, window: f64, mut check: impl FnMut(AgePrior<'_>)) {
    let share = ArrivalShare::new(p).unwrap();
    check(AgePrior::Geometric(share));
    check(AgePrior::FirstSeen { share, window });
    check(AgePrior::Learned(learned_prior().curve(None, None)));
}

/// A prior with ages up to 700 for a window of 400, where one sighting in four is the first.
fn learned_prior() -> ReusePrior {
    let mut prior = ReusePrior::new(ReuseSpec::new(400, 64).unwrap());
    let mut random = Random::new(3);
    prior.advance(0);
    prior.advance(800);
    for _ in 0..2000 {
        let is_first = random.below(4) == 0;
        let last = if is_first { LastSighting::NotWithin(800) } else { LastSighting::Age(random.below(700)) };
        prior.record_sighting(last, None, None);
    }
    prior
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn beliefs_sum_to_one_and_grow_with_the_window(likelihood in likelihood(), exponent in -12.0f64..-0.3, w in 0u32..2000) {
        let (p, window) = (10f64.powf(exponent), f64::from(w));
        with_priors(p, 400.0, |prior| {
            let posterior = Posterior::new(likelihood, prior);
            let (belief, wider) = (posterior.within(window), posterior.within(window + 1.0));
            assert!((belief.inside + belief.outside - 1.0).abs() < 1e-12, "{belief:?}");
            assert!(wider.inside >= belief.inside * (1.0 - 1e-12), "{belief:?} {wider:?}");
            assert!(window > likelihood.from || belief.inside == 0.0);
        });
    }

    #[test]
    fn belief_grows_with_the_share_and_falls_with_collisions(likelihood in likelihood(), exponent in -12.0f64..-0.6, w in 0u32..2000) {
        let (p, window) = (10f64.powf(exponent), f64::from(w));
        let inside = |likelihood, p| {
            Posterior::new(likelihood, AgePrior::Geometric(ArrivalShare::new(p).unwrap())).within(window).inside
        };
        prop_assert!(inside(likelihood, p * 1.3) >= inside(likelihood, p) * (1.0 - 1e-12));
        if likelihood.length > 0.0 {
            let crowded = AgeLikelihood { collision: (likelihood.collision * 1.5).min(1.0), ..likelihood };
            prop_assert!(inside(crowded, p) <= inside(likelihood, p) * (1.0 + 1e-12));
        }
    }

    #[test]
    fn probabilities_of_all_ages_sum_to_one(likelihood in likelihood(), exponent in -2.0f64..-0.5) {
        with_priors(10f64.powf(exponent), 50.0, |prior| {
            let posterior = Posterior::new(likelihood, prior);
            let ages: f64 = (0..3000).map(|age| posterior.at_age(f64::from(age))).sum();
            let rest = posterior.between(3000.0, f64::INFINITY);
            assert!((ages + rest - 1.0).abs() < 1e-9, "{ages} + {rest}");
            let beyond = posterior.between(likelihood.from + likelihood.length, f64::INFINITY);
            assert!((posterior.in_block() + beyond - 1.0).abs() < 1e-12);
        });
    }

    #[test]
    fn the_expected_age_is_the_mean_of_the_distribution(likelihood in likelihood(), exponent in -1.7f64..-0.5) {
        with_priors(10f64.powf(exponent), 50.0, |prior| {
            let posterior = Posterior::new(likelihood, prior);
            let (mut weight, mut sum) = (0.0, 0.0);
            for age in 0..4000 {
                let probability = posterior.at_age(f64::from(age));
                (weight, sum) = (weight + probability, sum + probability * f64::from(age));
            }
            // Learned ages are uniform within each unit, so their mean is half a unit higher.
            let half = if let AgePrior::Learned(_) = prior { 0.5 } else { 0.0 };
            if weight > 1e-6 {
                let mean = sum / weight + half;
                let got = posterior.expected_age();
                assert!((got - mean).abs() < 1e-6 * (1.0 + mean) + half, "{got} is not {mean} of {prior:?}");
            }
        });
    }
}

#[test]
fn invalid_shares_and_penalties_report_the_nearest_valid_value() {
    for bad in [0.0, -1.0, 1.0, 2.0, f64::NAN, f64::INFINITY] {
        let nearest = ArrivalShare::new(bad).unwrap_err().nearest;
        assert!(ArrivalShare::new(nearest).is_ok(), "{bad}: {nearest}");
    }
    assert_eq!(ArrivalShare::new(1e-300).unwrap().get(), 1e-15);
    for bad in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let nearest = Penalties::new(bad, 1.0).unwrap_err().nearest;
        assert!(Penalties::new(1.0, bad).is_err() && Penalties::new(nearest, 1.0).is_ok(), "{bad}");
    }
    assert!(ReuseSpec::new(0, 64).is_err() && ReuseSpec::new(10, 1).is_err());
}

fn learned(window: u64) -> PriorSpec {
    PriorSpec::Learned(ReuseSpec::new(window, 512).unwrap())
}

/// Total penalty of the filter's decisions and of its standard answers, after a warm-up.
fn penalties_of(filter: &mut InferentialFilter, seen: Seen, window: u64) -> (f64, f64) {
    let mut arrivals = Arrivals::new(3000);
    let (mut decided, mut standard, mut cost) = (0.0, 0.0, Random::new(4));
    for arrival in 0..60_000 {
        let (number, age) = arrivals.next();
        let (false_duplicate, missed) = (1.0 + 9.0 * cost.unit(), 1.0 + 9.0 * cost.unit());
        let question =
            Question::new(item(number), 0, window).with_penalties(Penalties::new(false_duplicate, missed).unwrap());
        let plain = filter.ask(&Question { penalties: None, ..question }).duplicate;
        let answer = filter.observe(&question).unwrap();
        if seen == Seen::Last || !answer.duplicate {
            arrivals.record_insert(number);
        }
        if arrival > 20_000 {
            let truth = age.is_some_and(|age| age < window);
            let penalty = |duplicate| match (duplicate, truth) {
                (true, false) => false_duplicate,
                (false, true) => missed,
                _ => 0.0,
            };
            decided += penalty(answer.duplicate);
            standard += penalty(plain);
        }
    }
    (decided, standard)
}

#[test]
fn decisions_cost_less_than_the_standard_answer() {
    let constant = PriorSpec::Constant(ArrivalShare::new(1.0 / 3000.0).unwrap());
    for (seen, prior) in
        [(Seen::Last, constant), (Seen::Last, learned(2000)), (Seen::First, constant), (Seen::First, learned(2000))]
    {
        let mut filter = InferentialFilter::new(spec(2000, 200, 40), seen, prior).unwrap();
        let (decided, standard) = penalties_of(&mut filter, seen, 2000);
        assert!(decided < 0.95 * standard, "{seen:?} {prior:?}: {decided} against {standard}");
        assert_eq!(filter.basis(), Basis::Posterior, "{seen:?} {prior:?}");
    }
}

#[test]
fn questions_without_penalties_get_the_standard_answer() {
    let mut filter = InferentialFilter::new(spec(100, 10, 4), Seen::Last, learned(100)).unwrap();
    let question = Question::new(item(1), 0, 100);
    assert_eq!(
        filter.observe(&question).map(|answer| (answer.duplicate, answer.basis)),
        Some((false, Basis::Standard))
    );
    assert_eq!(filter.observe(&question).map(|answer| (answer.duplicate, answer.basis)), Some((true, Basis::Standard)));
    let answer = filter.ask(&question.with_penalties(Penalties::new(1.0, 1.0).unwrap()));
    assert_eq!((answer.duplicate, answer.basis, answer.belief), (true, Basis::Learning, None));
}

#[test]
fn an_expired_item_is_unique_unless_false_duplicates_are_free() {
    let constant = PriorSpec::Constant(ArrivalShare::new(0.01).unwrap());
    let filter = InferentialFilter::new(spec(100, 10, 4), Seen::Last, constant).unwrap();
    let ask = |false_duplicate, missed| {
        let penalties = Penalties::new(false_duplicate, missed).unwrap();
        filter.ask(&Question::new(item(1), 0, 100).with_penalties(penalties)).duplicate
    };
    assert!(!ask(1.0, 1000.0));
    assert!(ask(0.0, 1.0) && ask(0.0, 0.0));
}

#[test]
fn seen_first_measures_the_window_from_the_accepted_arrival() {
    let observe = |seen| {
        let constant = PriorSpec::Constant(ArrivalShare::new(0.01).unwrap());
        let time = ClockSpec::Time { window_ms: 1000, lateness_ms: 0, tick_ms: 100 };
        let spec = TimingSpec::new(time, CellLayout::Lines(64), 4, 4).unwrap();
        let mut filter = InferentialFilter::new(spec, seen, constant).unwrap();
        let mut unique = |time_ms| !filter.observe(&Question::new(item(7), time_ms, 1000)).unwrap().duplicate;
        [0, 400, 800, 1200, 1600].map(&mut unique)
    };
    assert_eq!(observe(Seen::Last), [true, false, false, false, false]);
    assert_eq!(observe(Seen::First), [true, false, false, true, false]);
}

#[test]
fn the_calibration_error_describes_the_present() {
    let mut calibration = Calibration::default();
    (0..255).for_each(|_| calibration.record(0.9, Outcome::Outside, 1.0));
    assert_eq!(calibration.error(), 0.0, "too few to evaluate");
    (0..300).for_each(|_| calibration.record(0.9, Outcome::Outside, 1.0));
    assert!(calibration.error() > 0.8);
    assert_eq!(Calibration::decode(&calibration.encode()), Ok(calibration.clone()));
    calibration.fade(4);
    assert_eq!(calibration.error(), 0.0, "after a window the bin holds too little to evaluate");
    (0..4000).for_each(|n| {
        let outcome = if n % 10 == 0 { Outcome::Outside } else { Outcome::Inside };
        calibration.record(0.9, outcome, 1.0);
    });
    assert!(calibration.error() < 0.05, "{:?}", calibration.bins());
}

/// Every item appears twice, 551 arrivals apart, until `change`; then no item repeats. In a crowded filter most items still
/// read as repeats. Returns (penalty, penalty of the standard answer) by window of 1000 arrivals after the change.
fn penalties_after_repeats_end(change: u64) -> Vec<(f64, f64)> {
    let prior = PriorSpec::Learned(ReuseSpec::new(1000, 4096).unwrap());
    let mut filter = InferentialFilter::new(spec(1000, 100, 8), Seen::Last, prior).unwrap();
    let penalties = Penalties::new(3.0, 2.0).unwrap();
    let mut windows = Vec::new();
    for arrival in 0..change + 6000 {
        let repeats = (551..change).contains(&arrival) && arrival % 2 == 1;
        let number = if repeats { arrival - 551 } else { arrival };
        let question = Question::new(item(number), 0, 1000).with_penalties(penalties);
        let standard = filter.ask(&Question { penalties: None, ..question }).duplicate;
        let answer = filter.observe(&question).unwrap();
        if arrival >= change {
            let window = ((arrival - change) / 1000) as usize;
            windows.resize(windows.len().max(window + 1), (0.0, 0.0));
            windows[window].0 += if answer.duplicate { 3.0 } else { 0.0 };
            windows[window].1 += if standard { 3.0 } else { 0.0 };
        }
    }
    windows
}

#[test]
fn a_changed_stream_is_followed_within_a_few_windows() {
    let windows = penalties_after_repeats_end(20_000);
    for (window, (decided, standard)) in windows.iter().enumerate() {
        assert!(decided <= standard, "window {window}: {decided} against {standard}");
        assert!(window < 3 || *decided < 0.2 * standard, "window {window}: {decided} against {standard}");
    }
}

#[test]
fn a_decoded_inferential_filter_continues_like_the_encoded_one() {
    for (seen, prior) in [(Seen::Last, learned(500)), (Seen::First, learned(500))] {
        let mut filter = InferentialFilter::new(spec(500, 50, 12), seen, prior).unwrap();
        let mut twin = filter.clone();
        let mut arrivals = Arrivals::new(900);
        let mut frequency = Random::new(8);
        for arrival in 0..12_000 {
            if arrival % 997 == 0 {
                let bytes = twin.encode();
                twin = InferentialFilter::decode(spec(500, 50, 12), seen, prior, &bytes).unwrap();
                assert_eq!(twin.encode(), bytes);
            }
            let (number, _) = arrivals.next();
            let question = Question {
                frequency: Some(frequency.below(20) as f64),
                ..Question::new(item(number), 0, 500).with_penalties(Penalties::new(3.0, 2.0).unwrap())
            };
            assert_eq!(filter.observe(&question), twin.observe(&question), "arrival {arrival}");
        }
        assert_eq!(filter.encode(), twin.encode());
    }
}

#[test]
fn the_sample_is_bounded_and_expires() {
    let mut prior = ReusePrior::new(ReuseSpec::new(1000, 64).unwrap());
    for at in 0..100_000i64 {
        prior.advance(at);
        prior.record_insert(item(at as u64), at);
        assert!(prior.tracked() <= 64, "at {at}");
    }
    assert!(prior.tracked() > 8, "some items are still tracked");
    prior.advance(200_000);
    assert_eq!(prior.tracked(), 0, "all are beyond the horizon");
}

#[test]
fn early_sightings_of_a_wider_sample_are_not_overweighted() {
    let mut prior = ReusePrior::new(ReuseSpec::new(4000, 256).unwrap());
    let (mut arrivals, mut within) = (Arrivals::new(4000), 0.0);
    for at in 0..24_000i64 {
        let (number, age) = arrivals.next();
        arrivals.record_insert(number);
        // What an item is repeated with once the stream has run for a window.
        within +=
            if at < 4000 { 1.0 - (-1.0f64).exp() } else { f64::from(u8::from(age.is_some_and(|age| age < 4000))) };
        prior.advance(at);
        prior.record_sighting(prior.last_sighting(item(number), at - 1), None, None);
        prior.record_insert(item(number), at);
    }
    let (truth, learned) = (within / 24_000.0, prior.curve(None, None).below(4000.0));
    assert!((learned - truth).abs() < 0.05, "within the window: learned {learned}, true {truth}");
}

#[test]
fn items_added_by_widening_the_sample_are_known_since_then() {
    let spec = ReuseSpec::new(100, 16).unwrap();
    let mut prior = ReusePrior::new(spec);
    for at in 0..5000i64 {
        prior.advance(at);
        prior.record_insert(item(at as u64), at);
    }
    // Without arrivals, the next halvings widen the sample.
    let sampled = |prior: &ReusePrior| (0..5000).filter(|&number| prior.is_sampled(item(number))).collect::<Vec<u64>>();
    let before = sampled(&prior);
    let widened_at = (5000..9000).find(|&at| {
        prior.advance(at);
        sampled(&prior).len() > before.len()
    });
    let widened_at = widened_at.expect("the sample is widened within a few horizons");
    let added = item(*sampled(&prior).iter().find(|number| !before.contains(number)).unwrap());
    let restored = ReusePrior::decode(spec, &prior.encode()).unwrap();
    for prior in [&prior, &restored] {
        assert_eq!(prior.last_sighting(added, widened_at), LastSighting::NotWithin(0));
        assert_eq!(prior.last_sighting(added, widened_at + 70), LastSighting::NotWithin(70));
        assert_eq!(prior.last_sighting(added, widened_at + 800), LastSighting::NotWithin(200), "the horizon");
    }
}

#[test]
fn learned_curves_match_the_observed_ages() {
    let prior = learned_prior();
    let curve = prior.curve(None, None);
    // Three of four sightings have ages uniform in 0..700.
    for (age, expected) in [(0.0, 0.0), (70.0, 0.075), (350.0, 0.375), (699.0, 0.75)] {
        assert!((curve.below(age) - expected).abs() < 0.05, "F({age}) = {}", curve.below(age));
    }
    assert!((curve.between(0.0, f64::INFINITY) - 1.0).abs() < 1e-12);
    assert_eq!(ReusePrior::decode(ReuseSpec::new(400, 64).unwrap(), &prior.encode()).unwrap().encode(), prior.encode());
}

#[test]
fn explanations_agree_with_the_answer() {
    let constant = PriorSpec::Constant(ArrivalShare::new(1e-3).unwrap());
    for prior in [constant, learned(1000)] {
        let mut filter = InferentialFilter::new(spec(1000, 100, 24), Seen::Last, prior).unwrap();
        let penalties = Penalties::new(3.0, 2.0).unwrap();
        let mut arrivals = Arrivals::new(1500);
        for _ in 0..20_000 {
            let (number, _) = arrivals.next();
            filter.observe(&Question::new(item(number), 0, 1000).with_penalties(penalties)).unwrap();
        }
        for number in 0..300 {
            let question = Question::new(item(number), 0, 1000).with_penalties(penalties);
            let explanation = filter.explain(&question);
            assert_eq!(explanation.answer, filter.ask(&question));
            let details = explanation.posterior.expect("the prior is ready");
            assert_eq!(Some(details.belief), explanation.answer.belief);
            assert!(details.blocks.iter().all(|probability| (0.0..=1.0).contains(probability)), "{details:?}");
            let sum: f64 = details.blocks.iter().sum();
            assert!(sum <= 1.0 + 1e-9 && details.never <= 1.0 - sum + 1e-6, "{details:?}");
            if let (Some(age), Some(likely)) = (explanation.answer.reading.age, details.likely_block) {
                assert!(likely >= age, "a younger block than the timers allow: {details:?}");
            }
        }
    }
}

#[test]
fn explanations_state_no_probability_before_the_prior_is_ready() {
    let mut filter = InferentialFilter::new(spec(1000, 100, 24), Seen::Last, learned(1000)).unwrap();
    let question = Question::new(item(1), 0, 1000).with_penalties(Penalties::new(3.0, 2.0).unwrap());
    filter.observe(&question).unwrap();
    let explanation = filter.explain(&question);
    assert!(explanation.answer.duplicate && explanation.answer.basis == Basis::Learning);
    assert_eq!(explanation.posterior, None);
    let share = ArrivalShare::new(0.01).ok();
    assert!(
        filter.explain(&Question { share, ..question }).posterior.is_some_and(|details| details.belief.inside > 0.9)
    );
}
