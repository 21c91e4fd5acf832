//! Every method, decay and statistic, on one shard and on two, with restarts in between.

use ebb_core::{AggregateParameters, AggregateResult, KeyScope, Method, Selection, Statistic, TopName};
use ebb_sketch::aggregate::answer::{Estimate, Guarantee, TopMode};
use ebb_sketch::decay::Decay;

use crate::exact::{Exact, Weighed};
use crate::stream::{Fed, ask, events, parameters, plan, question};

const WINDOW: &str = "window:40s";
const EXPONENTIAL: &str = "exponential:half_life=15s";
const POLYNOMIAL: &str = "polynomial:alpha=1,unit=10s";
const TABLE: &str = "table:0s=1,20s=0.6,40s=0.1,60s=0";

/// Each method with the decays it can be asked for: configured, or with the question.
fn cases() -> Vec<(Method, Option<&'static str>, Vec<&'static str>)> {
    let any = || vec![WINDOW, EXPONENTIAL, POLYNOMIAL, TABLE];
    vec![
        (Method::Robust, None, any()),
        (Method::Cascade, None, any()),
        (Method::Levels, None, any()),
        (Method::Division, Some(EXPONENTIAL), any()),
        (Method::Division, Some(POLYNOMIAL), any()),
        (Method::Forward, Some(EXPONENTIAL), vec![EXPONENTIAL]),
        (Method::Integral, Some(WINDOW), vec![WINDOW]),
        (Method::Integral, Some(EXPONENTIAL), vec![EXPONENTIAL]),
        (Method::Integral, Some(POLYNOMIAL), vec![POLYNOMIAL]),
    ]
}

fn fed(given: AggregateParameters, shards: u32) -> Vec<Fed> {
    let plan = plan(given);
    let mut all: Vec<Fed> = (0..shards).map(|partition| Fed::new(&plan, partition)).collect();
    for (index, event) in events(3_000, 5).iter().enumerate() {
        let shard = &mut all[event.item.low() as usize % shards as usize];
        shard.fold(event);
        if index % 900 == 450 {
            shard.restart();
        }
    }
    all
}

/// How often bounds were looked at, and how often the truth was outside of them.
#[derive(Default)]
struct Tally {
    looked: u32,
    outside: u32,
}

impl Tally {
    fn check(&mut self, what: &str, estimate: &Estimate, truth: f64) {
        self.looked += 1;
        let inside = estimate.covers(truth) && estimate.lower <= estimate.value && estimate.value <= estimate.upper;
        match estimate.guarantee {
            Guarantee::Probabilistic { .. } => self.outside += u32::from(!inside),
            Guarantee::Exact | Guarantee::Deterministic { .. } => {
                assert!(inside, "{what}: {estimate:?}, truly {truth}")
            }
        }
        assert!(!estimate.incomplete, "{what}");
    }
}

fn number(result: AggregateResult) -> Estimate {
    match result {
        AggregateResult::Number(Some(estimate)) => estimate,
        other => panic!("{other:?}"),
    }
}

fn check_all(shards: &[Fed], decay: &str, tally: &mut Tally) {
    let what = format!("{:?} {decay}", shards[0].shard.plan().aggregates[0].parameters().method);
    let exact = Exact::of(shards, &decay.parse::<Decay>().unwrap(), |_| true);
    let asked = |statistic| {
        let answer =
            ask(shards, &question(KeyScope::Whole, Some(decay), statistic)).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(answer.as_of.len(), shards.len());
        answer.result
    };
    tally.check(&format!("{what} sum"), &number(asked(Statistic::Sum)), exact.sum());
    tally.check(&format!("{what} count"), &number(asked(Statistic::Count)), exact.count());
    tally.check(&format!("{what} mean"), &number(asked(Statistic::Mean)), exact.sum() / exact.count());
    for value in [-1.0, 0.0, 3.6, 20.0, 99.75, 2_000.0] {
        let truth = exact.share(|one| one.value <= value);
        tally.check(&format!("{what} rank {value}"), &number(asked(Statistic::Rank(value))), truth);
    }
    type Meant = fn(&Weighed) -> bool;
    let shares: [(&str, Meant); 3] = [
        ("value >= 10", |one| one.value >= 10.0),
        ("value < 3 or value = 7", |one| one.value < 3.0 || one.value == 7.0),
        ("value > 5 and value <= 50", |one| one.value > 5.0 && one.value <= 50.0),
    ];
    for (predicate, meant) in shares {
        let asked = asked(Statistic::Share(predicate.parse().unwrap()));
        tally.check(&format!("{what} {predicate}"), &number(asked), exact.share(meant));
    }
    check_quantiles(&what, &exact, asked(Statistic::Quantiles(vec![0.1, 0.5, 0.9, 1.0])), tally);
    check_top(&what, &exact, |mode| asked(Statistic::Top { phi: 0.16, mode }), tally);
}

fn check_quantiles(what: &str, exact: &Exact, result: AggregateResult, tally: &mut Tally) {
    let AggregateResult::Quantiles(quantiles) = result else { panic!("{what}: {result:?}") };
    assert_eq!(quantiles.iter().map(|quantile| quantile.phi).collect::<Vec<_>>(), [0.1, 0.5, 0.9, 1.0]);
    for quantile in quantiles {
        let truth = exact.quantile(quantile.phi);
        let inside = (quantile.lower..=quantile.upper).contains(&truth);
        tally.looked += 1;
        match quantile.guarantee {
            Guarantee::Probabilistic { .. } => tally.outside += u32::from(!inside),
            _ => assert!(inside, "{what}: {quantile:?}, truly {truth}"),
        }
    }
}

fn check_top(what: &str, exact: &Exact, asked: impl Fn(TopMode) -> AggregateResult, tally: &mut Tally) {
    let truth = exact.labels();
    for mode in [TopMode::NoFalsePositives, TopMode::NoFalseNegatives] {
        let AggregateResult::Top { items, guarantee, .. } = asked(mode) else { panic!("{what}") };
        let name = |name: &TopName| match name {
            TopName::Text(text) => text.to_string(),
            other => panic!("{what}: {other:?} has no text"),
        };
        let names: Vec<String> = items.iter().map(|item| name(&item.name)).collect();
        let right = items.iter().zip(&names).all(|(item, name)| {
            let share = truth[name];
            item.lower <= share + 1e-9 && share <= item.upper + 1e-9
        }) && match mode {
            TopMode::NoFalsePositives => names.iter().all(|name| truth[name] >= 0.16 - 1e-9),
            TopMode::NoFalseNegatives => {
                truth.iter().filter(|(_, share)| **share >= 0.16 + 1e-9).all(|(name, _)| names.contains(name))
            }
        };
        tally.looked += 1;
        match guarantee {
            Guarantee::Probabilistic { .. } => tally.outside += u32::from(!right),
            _ => assert!(right, "{what}: {items:?}, truly {truth:?}"),
        }
    }
}

#[test]
fn every_method_decay_and_statistic_holds_its_bounds_on_one_shard_and_on_two() {
    let mut tally = Tally::default();
    for (method, decay, asked) in cases() {
        for shards in [1, 2] {
            let shards = fed(parameters(method, decay), shards);
            asked.iter().for_each(|decay| check_all(&shards, decay, &mut tally));
        }
    }
    assert!(tally.looked > 700, "{}", tally.looked);
    assert!(f64::from(tally.outside) <= 0.05 * f64::from(tally.looked), "{} of {}", tally.outside, tally.looked);
}

#[test]
fn only_unique_events_are_added_up_where_the_aggregate_says_so() {
    for (method, decay) in [(Method::Cascade, None), (Method::Forward, Some(EXPONENTIAL)), (Method::Robust, None)] {
        let shards = fed(AggregateParameters { over: Selection::Unique, ..parameters(method, decay) }, 1);
        let duplicates = shards[0].taken.iter().filter(|(_, verdict)| verdict.name() != "unique").count();
        assert!(duplicates > 300, "{duplicates}");
        check_all(&shards, EXPONENTIAL, &mut Tally::default());
    }
}

#[test]
fn a_sampled_aggregate_does_not_notice_redeliveries_and_order() {
    let mut all = events(2_000, 9);
    let in_order = plan(parameters(Method::Robust, None));
    let asked = question(KeyScope::Whole, Some(WINDOW), Statistic::Sum);
    let mut answers = Vec::new();
    for round in 0..3 {
        let mut fed = Fed::new(&in_order, 0);
        all.iter().for_each(|event| fed.fold(event));
        answers.push(fed.shard.aggregate(&asked).unwrap().result);
        if round == 0 {
            all.reverse();
        }
        all.extend_from_within(..500);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn two_shards_that_merge_answer_like_one_that_saw_everything() {
    for (method, decay) in [(Method::Robust, None), (Method::Integral, Some(WINDOW))] {
        let (one, two) = (fed(parameters(method, decay), 1), fed(parameters(method, decay), 2));
        for statistic in [Statistic::Sum, Statistic::Count, Statistic::Quantiles(vec![0.25, 0.75])] {
            let asked = question(KeyScope::Whole, Some(WINDOW), statistic);
            assert_eq!(ask(&one, &asked).unwrap().result, ask(&two, &asked).unwrap().result, "{method:?}");
        }
    }
    // Floating-point sums of two parts may differ in the last digit.
    let (one, two) = (
        fed(parameters(Method::Forward, Some(EXPONENTIAL)), 1),
        fed(parameters(Method::Forward, Some(EXPONENTIAL)), 2),
    );
    let asked = question(KeyScope::Whole, None, Statistic::Sum);
    let sums = [&one, &two].map(|shards| number(ask(shards, &asked).unwrap().result).value);
    assert!((sums[0] / sums[1] - 1.0).abs() < 1e-9, "{sums:?}");
}

#[test]
fn answers_without_a_decay_use_the_configured_one_or_the_whole_horizon() {
    let shards = fed(parameters(Method::Robust, Some(WINDOW)), 1);
    let answer = ask(&shards, &question(KeyScope::Whole, None, Statistic::Count)).unwrap();
    assert_eq!(answer.decay, WINDOW.parse().unwrap());
    let shards = fed(parameters(Method::Cascade, None), 1);
    let answer = ask(&shards, &question(KeyScope::Whole, None, Statistic::Count)).unwrap();
    assert_eq!(answer.decay, "window:120s".parse().unwrap());
    let truth = Exact::of(&shards, &answer.decay, |_| true).count();
    assert!(number(answer.result).covers(truth));
}
