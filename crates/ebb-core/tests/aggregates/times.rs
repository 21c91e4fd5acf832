//! Questions about another time than the newest event, and about a number of events.

use ebb_core::{
    AggregateAnswer, AggregateError, AggregateParameters, AggregateQuestion, AggregateResult, KeyScope, Measure,
    Method, QueryTime, Statistic,
};
use ebb_sketch::aggregate::answer::Estimate;
use ebb_sketch::decay::Decay;

use crate::fixture::{START_MS, parameters, plan};
use crate::shards::{ShardFixture, ask, events, question};

const EXPONENTIAL: &str = "exponential:half_life=15s";

fn filled(parameters: AggregateParameters) -> [ShardFixture; 2] {
    let plan = plan(parameters);
    let mut shards = [ShardFixture::new(&plan, 0), ShardFixture::new(&plan, 1)];
    for event in events(2_000, 5) {
        shards[event.item.low() as usize % 2].fold(&event);
    }
    shards
}

fn asked(shards: &[ShardFixture], change: impl Fn(&mut AggregateQuestion)) -> Result<AggregateAnswer, AggregateError> {
    let mut question = question(KeyScope::Whole, None, Statistic::Count);
    change(&mut question);
    ask(shards, &question)
}

fn number(answer: &AggregateAnswer) -> Estimate {
    let AggregateResult::Number(Some(number)) = answer.result else { panic!("{answer:?}") };
    number
}

/// The exact weighted count of the events up to `at_ms`, each once, as the sampling methods count.
fn exact(shards: &[ShardFixture], at_ms: i64, decay: &Decay, once: bool) -> f64 {
    let mut seen = std::collections::BTreeSet::new();
    let applied = shards.iter().flat_map(|fixture| &fixture.applied).map(|(event, _)| event);
    let counted = applied.filter(|event| event.time_ms.unwrap() <= at_ms && (seen.insert(event.id) || !once));
    counted.map(|event| event.weight.unwrap() * decay.weight((at_ms - event.time_ms.unwrap()) as u64)).sum()
}

#[test]
fn idle_stream_decays_with_the_time_of_the_question() {
    for (method, decay) in [
        (Method::Robust, None),
        (Method::Cascade, None),
        (Method::Levels, None),
        (Method::Forward, Some(EXPONENTIAL)),
        (Method::Division, Some(EXPONENTIAL)),
        (Method::Integral, Some(EXPONENTIAL)),
    ] {
        let shards = filled(parameters(method, decay));
        let newest_ms = shards.iter().filter_map(|fixture| fixture.shard.as_of().time_ms).max().unwrap();
        let exponential: Decay = EXPONENTIAL.parse().unwrap();
        let decayed =
            |time| asked(&shards, |question| (question.decay, question.time) = (Some(exponential.clone()), time));
        let now = decayed(QueryTime::Newest).unwrap();
        let later = decayed(QueryTime::NotBefore(newest_ms + 15_000)).unwrap();
        let ratio = number(&later).value / number(&now).value;
        assert!((ratio - 0.5).abs() < 0.02, "{method:?}: {ratio}");
        assert_eq!((now.time_ms, later.time_ms), (newest_ms, newest_ms + 15_000));
        // A clock that is behind the stream has no effect.
        assert_eq!(decayed(QueryTime::NotBefore(newest_ms - 30_000)).unwrap(), now, "{method:?}");
        assert!(decayed(QueryTime::At(newest_ms + 15_000)).unwrap() == later, "{method:?}");
        let extreme = decayed(QueryTime::At(i64::MAX));
        assert!(extreme.is_err(), "{method:?}");
    }
}

#[test]
fn past_is_answered_by_robust_and_cascade_and_refused_by_the_others() {
    for (method, decay) in [(Method::Robust, None), (Method::Cascade, None)] {
        let shards = filled(parameters(method, decay));
        for text in ["window:20s", "window:3s", EXPONENTIAL] {
            for at_ms in [START_MS + 75_000, START_MS + 50_000, START_MS + 20_000] {
                let decay: Decay = text.parse().unwrap();
                let answer = asked(&shards, |question| {
                    (question.decay, question.time) = (Some(decay.clone()), QueryTime::At(at_ms));
                });
                let (found, truth) =
                    (number(&answer.unwrap()), exact(&shards, at_ms, &decay, method == Method::Robust));
                assert!(found.covers(truth), "{method:?} {text} as of {at_ms}: {found:?}, exact {truth}");
            }
        }
    }
    let fixed =
        [Method::Integral, Method::Forward, Method::Division].map(|method| parameters(method, Some(EXPONENTIAL)));
    let levels = parameters(Method::Levels, None);
    let distinct = AggregateParameters { of: Measure::Distinct(0), top: None, ..parameters(Method::Robust, None) };
    for parameters in fixed.into_iter().chain([levels, distinct]) {
        let shards = filled(parameters);
        let refused = asked(&shards, |question| {
            (question.time, question.statistic) = (QueryTime::At(START_MS), Statistic::Distinct);
        });
        let Err(AggregateError::Past { newest_ms, .. }) = refused else { panic!("{refused:?}") };
        assert!(newest_ms > START_MS + 70_000);
    }
}

#[test]
fn window_of_the_newest_events_names_its_length_and_its_number_of_events() {
    for method in [Method::Robust, Method::Cascade, Method::Levels] {
        let shards = filled(parameters(method, None));
        for last in [1, 10, 300, 2_000] {
            let answer = asked(&shards, |question| question.last = Some(last)).unwrap();
            let width_ms = answer.decay.width().unwrap();
            let truth = |width_ms: u64| {
                let decay = Decay::window(width_ms).unwrap();
                exact(&shards, answer.time_ms, &decay, method == Method::Robust)
            };
            let covered = answer.window_events.unwrap();
            assert!(covered.covers(truth(width_ms)), "{method:?}, last {last}: {covered:?}");
            assert!(covered.value >= last as f64 && number(&answer) == covered, "{method:?}, last {last}: {covered:?}");
            // A window that is a little shorter has fewer.
            if let Ok(shorter) = Decay::window(width_ms - 1) {
                let shorter = asked(&shards, |question| question.decay = Some(shorter.clone())).unwrap();
                assert!(number(&shorter).value < last as f64, "{method:?}, last {last}");
            }
        }
        // Fewer events than asked for: all of them.
        let all = asked(&shards, |question| question.last = Some(1 << 40)).unwrap();
        assert_eq!(all.decay.width(), Some(120_000));
        assert!(matches!(asked(&shards, |question| question.last = Some(0)), Err(AggregateError::NoEvents)));
    }
    let forward = filled(parameters(Method::Forward, Some(EXPONENTIAL)));
    let refused = asked(&forward, |question| question.last = Some(5));
    assert!(matches!(refused, Err(AggregateError::NoWindows { what: "forward" })), "{refused:?}");
}

#[test]
fn different_values_are_counted_over_shards_and_keys() {
    let of = Measure::Distinct(0);
    let shards = filled(AggregateParameters { of, keys: Some(20), top: None, ..parameters(Method::Robust, None) });
    for text in ["window:1m", "window:2s", EXPONENTIAL] {
        let decay: Decay = text.parse().unwrap();
        for scope in (0..9).map(|one| KeyScope::Key(crate::fixture::key(one))).chain([KeyScope::Whole]) {
            let answer = ask(&shards, &question(scope, Some(text), Statistic::Distinct)).unwrap();
            let mut latest = std::collections::BTreeMap::new();
            for (event, _) in shards.iter().flat_map(|fixture| &fixture.applied) {
                let (time_ms, label) = (event.time_ms.unwrap(), event.labels[0].clone());
                if scope == KeyScope::Whole || scope == KeyScope::Key(event.key.unwrap()) {
                    let known: &mut i64 = latest.entry(label).or_insert(time_ms);
                    *known = (*known).max(time_ms);
                }
            }
            let truth: f64 = latest.values().map(|time_ms| decay.weight((answer.time_ms - time_ms) as u64)).sum();
            assert!((number(&answer).value - truth).abs() < 1e-9 && !answer.degraded, "{text} {scope:?}: {truth}");
        }
    }
    let refused = ask(&shards, &question(KeyScope::Whole, None, Statistic::Sum));
    assert!(matches!(refused, Err(AggregateError::NotKept { .. })), "{refused:?}");
    let events = filled(parameters(Method::Robust, None));
    let refused = ask(&events, &question(KeyScope::Whole, None, Statistic::Distinct));
    assert!(matches!(refused, Err(AggregateError::NotKept { .. })), "{refused:?}");
}
