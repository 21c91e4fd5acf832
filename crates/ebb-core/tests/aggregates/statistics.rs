//! Every method, decay and statistic, on one shard and on two, with restarts in between.

use ebb_core::{AggregateParameters, AggregateResult, KeyScope, Method, Selection, Statistic, TopName};
use ebb_sketch::aggregate::answer::{Estimate, Guarantee, TopMode};
use ebb_sketch::decay::Decay;

use crate::fixture::{parameters, plan};
use crate::oracle::{ExactOracle, WeightedEvent};
use crate::shards::{ShardFixture, ask, events, question};

const WINDOW: &str = "window:40s";
const EXPONENTIAL: &str = "exponential:half_life=15s";
const POLYNOMIAL: &str = "polynomial:alpha=1,unit=10s";
const TABLE: &str = "table:0s=1,20s=0.6,40s=0.1,60s=0";

/// Each method with a configured decay and the decays that questions may use.
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

fn filled_shards(parameters: AggregateParameters, shards: u32) -> Vec<ShardFixture> {
    let plan = plan(parameters);
    let mut all: Vec<ShardFixture> = (0..shards).map(|partition| ShardFixture::new(&plan, partition)).collect();
    for (index, event) in events(3_000, 5).iter().enumerate() {
        let shard = &mut all[event.item.low() as usize % shards as usize];
        shard.fold(event);
        if index % 900 == 450 {
            shard.restart();
        }
    }
    all
}

/// Number of checked bounds, and how often the truth was outside of them.
#[derive(Default)]
struct BoundsTally {
    checked: u32,
    outside: u32,
}

impl BoundsTally {
    fn check(&mut self, what: &str, estimate: &Estimate, truth: f64) {
        self.checked += 1;
        let inside = estimate.covers(truth) && estimate.lower <= estimate.value && estimate.value <= estimate.upper;
        match estimate.guarantee {
            Guarantee::Probabilistic { .. } => self.outside += u32::from(!inside),
            Guarantee::Exact | Guarantee::Deterministic { .. } => {
                assert!(inside, "{what}: {estimate:?}, exact {truth}")
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

fn check_all(shards: &[ShardFixture], decay: &str, tally: &mut BoundsTally) {
    let what = format!("{:?} {decay}", shards[0].shard.plan().aggregates[0].parameters().method);
    let exact = ExactOracle::of(shards, &decay.parse::<Decay>().unwrap(), |_| true);
    let query = |statistic| {
        let answer =
            ask(shards, &question(KeyScope::Whole, Some(decay), statistic)).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(answer.as_of.len(), shards.len());
        answer.result
    };
    tally.check(&format!("{what} sum"), &number(query(Statistic::Sum)), exact.sum());
    tally.check(&format!("{what} count"), &number(query(Statistic::Count)), exact.count());
    tally.check(&format!("{what} mean"), &number(query(Statistic::Mean)), exact.sum() / exact.count());
    for value in [-1.0, 0.0, 3.6, 20.0, 99.75, 2_000.0] {
        let truth = exact.share(|one| one.value <= value);
        tally.check(&format!("{what} rank {value}"), &number(query(Statistic::Rank(value))), truth);
    }
    type Condition = fn(&WeightedEvent) -> bool;
    let shares: [(&str, Condition); 3] = [
        ("value >= 10", |one| one.value >= 10.0),
        ("value < 3 or value = 7", |one| one.value < 3.0 || one.value == 7.0),
        ("value > 5 and value <= 50", |one| one.value > 5.0 && one.value <= 50.0),
    ];
    for (predicate, condition) in shares {
        let query = query(Statistic::Share(predicate.parse().unwrap()));
        tally.check(&format!("{what} {predicate}"), &number(query), exact.share(condition));
    }
    check_quantiles(&what, &exact, query(Statistic::Quantiles(vec![0.1, 0.5, 0.9, 1.0])), tally);
    // Integers of one element that are sampled together make the error of `integral` larger than configured.
    let is_integral = shards[0].shard.plan().aggregates[0].parameters().method == Method::Integral;
    let phi = if is_integral { 0.45 } else { 0.16 };
    check_top(&what, &exact, phi, |mode| query(Statistic::Top { phi, mode }), tally);
}

fn check_quantiles(what: &str, exact: &ExactOracle, result: AggregateResult, tally: &mut BoundsTally) {
    let AggregateResult::Quantiles(quantiles) = result else { panic!("{what}: {result:?}") };
    assert_eq!(quantiles.iter().map(|quantile| quantile.phi).collect::<Vec<_>>(), [0.1, 0.5, 0.9, 1.0]);
    for quantile in quantiles {
        let truth = exact.quantile(quantile.phi);
        let inside = (quantile.lower..=quantile.upper).contains(&truth);
        tally.checked += 1;
        match quantile.guarantee {
            Guarantee::Probabilistic { .. } => tally.outside += u32::from(!inside),
            _ => assert!(inside, "{what}: {quantile:?}, exact {truth}"),
        }
    }
}

fn check_top(
    what: &str,
    exact: &ExactOracle,
    phi: f64,
    query: impl Fn(TopMode) -> AggregateResult,
    tally: &mut BoundsTally,
) {
    let truth = exact.labels();
    for mode in [TopMode::NoFalsePositives, TopMode::NoFalseNegatives] {
        let AggregateResult::Top { items, guarantee, .. } = query(mode) else { panic!("{what}") };
        let name = |name: &TopName| match name {
            TopName::Text(text) => text.to_string(),
            other => panic!("{what}: {other:?} has no text"),
        };
        let names: Vec<String> = items.iter().map(|item| name(&item.name)).collect();
        let right = items.iter().zip(&names).all(|(item, name)| {
            let share = truth[name];
            item.lower <= share + 1e-9 && share <= item.upper + 1e-9
        }) && match mode {
            TopMode::NoFalsePositives => names.iter().all(|name| truth[name] >= phi - 1e-9),
            TopMode::NoFalseNegatives => {
                truth.iter().filter(|(_, share)| **share >= phi + 1e-9).all(|(name, _)| names.contains(name))
            }
        };
        tally.checked += 1;
        match guarantee {
            Guarantee::Probabilistic { .. } => tally.outside += u32::from(!right),
            _ => assert!(right, "{what}: {items:?}, exact {truth:?}"),
        }
    }
}

#[test]
fn answers_are_within_their_bounds_for_every_method_decay_and_statistic() {
    let mut tally = BoundsTally::default();
    for (method, decay, query_decays) in cases() {
        for shards in [1, 2] {
            let shards = filled_shards(parameters(method, decay), shards);
            query_decays.iter().for_each(|decay| check_all(&shards, decay, &mut tally));
        }
    }
    assert!(tally.checked > 700, "{}", tally.checked);
    assert!(f64::from(tally.outside) <= 0.05 * f64::from(tally.checked), "{} of {}", tally.outside, tally.checked);
}

#[test]
fn selection_unique_ignores_duplicates() {
    for (method, decay) in [(Method::Cascade, None), (Method::Forward, Some(EXPONENTIAL)), (Method::Robust, None)] {
        let shards = filled_shards(AggregateParameters { over: Selection::Unique, ..parameters(method, decay) }, 1);
        let duplicates = shards[0].applied.iter().filter(|(_, verdict)| verdict.name() != "unique").count();
        assert!(duplicates > 300, "{duplicates}");
        check_all(&shards, EXPONENTIAL, &mut BoundsTally::default());
    }
}

#[test]
fn robust_answers_do_not_depend_on_order_and_redeliveries() {
    let mut all = events(2_000, 9);
    let in_order = plan(parameters(Method::Robust, None));
    let query = question(KeyScope::Whole, Some(WINDOW), Statistic::Sum);
    let mut answers = Vec::new();
    for round in 0..3 {
        let mut fixture = ShardFixture::new(&in_order, 0);
        all.iter().for_each(|event| fixture.fold(event));
        answers.push(fixture.shard.aggregate(&query).unwrap().result);
        if round == 0 {
            all.reverse();
        }
        all.extend_from_within(..500);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn merged_shards_answer_like_a_single_shard() {
    for (method, decay) in [(Method::Robust, None), (Method::Integral, Some(WINDOW))] {
        let (one, two) = (filled_shards(parameters(method, decay), 1), filled_shards(parameters(method, decay), 2));
        for statistic in [Statistic::Sum, Statistic::Count, Statistic::Quantiles(vec![0.25, 0.75])] {
            let query = question(KeyScope::Whole, Some(WINDOW), statistic);
            assert_eq!(ask(&one, &query).unwrap().result, ask(&two, &query).unwrap().result, "{method:?}");
        }
    }
    // The order of floating-point additions differs.
    let (one, two) = (
        filled_shards(parameters(Method::Forward, Some(EXPONENTIAL)), 1),
        filled_shards(parameters(Method::Forward, Some(EXPONENTIAL)), 2),
    );
    let query = question(KeyScope::Whole, None, Statistic::Sum);
    let sums = [&one, &two].map(|shards| number(ask(shards, &query).unwrap().result).value);
    assert!((sums[0] / sums[1] - 1.0).abs() < 1e-9, "{sums:?}");
}

#[test]
fn default_decay_is_the_configured_one_or_the_whole_horizon() {
    let shards = filled_shards(parameters(Method::Robust, Some(WINDOW)), 1);
    let answer = ask(&shards, &question(KeyScope::Whole, None, Statistic::Count)).unwrap();
    assert_eq!(answer.decay, WINDOW.parse().unwrap());
    let shards = filled_shards(parameters(Method::Cascade, None), 1);
    let answer = ask(&shards, &question(KeyScope::Whole, None, Statistic::Count)).unwrap();
    assert_eq!(answer.decay, "window:120s".parse().unwrap());
    let truth = ExactOracle::of(&shards, &answer.decay, |_| true).count();
    assert!(number(answer.result).covers(truth));
}
