//! Aggregates by key: bounded, and nothing is counted twice or forgotten.

use ebb_core::{AggregateError, AggregateParameters, AggregateResult, Event, KeyScope, Method, Statistic};

use crate::exact::Exact;
use crate::stream::{Fed, START_MS, ask, event, events, key, parameters, plan, question};

const EXPONENTIAL: &str = "exponential:half_life=15s";

fn count(shards: &[Fed], scope: KeyScope) -> Option<(f64, f64, f64, bool)> {
    match ask(shards, &question(scope, Some(EXPONENTIAL), Statistic::Count)) {
        Ok(answer) => match answer.result {
            AggregateResult::Number(Some(number)) => {
                Some((number.value, number.lower, number.upper, answer.incomplete))
            }
            other => panic!("{other:?}"),
        },
        Err(AggregateError::NoSuchKey) => None,
        Err(error) => panic!("{error}"),
    }
}

fn cases() -> Vec<(Method, Option<&'static str>)> {
    let fixed = Some(EXPONENTIAL);
    vec![
        (Method::Robust, None),
        (Method::Integral, fixed),
        (Method::Forward, fixed),
        (Method::Division, fixed),
        (Method::Cascade, None),
        (Method::Levels, None),
    ]
}

#[test]
fn with_room_for_all_each_key_has_its_own_exact_answers_and_other_is_empty() {
    for (method, decay) in cases() {
        for shards in [1u32, 2] {
            let plan = plan(AggregateParameters { keys: Some(20), ..parameters(method, decay) });
            let mut all: Vec<Fed> = (0..shards).map(|partition| Fed::new(&plan, partition)).collect();
            for event in events(2_000, 3) {
                let fed = &mut all[event.item.low() as usize % shards as usize];
                fed.fold(&event);
                if fed.taken.len() % 500 == 250 {
                    fed.restart();
                }
            }
            let decay = EXPONENTIAL.parse().unwrap();
            for one in 0..9 {
                let truth = Exact::of(&all, &decay, |event| event.key == Some(key(one))).count();
                let (_, lower, upper, incomplete) = count(&all, KeyScope::Key(key(one))).unwrap();
                // The fixed point of the integral decay is not the oracle's floating point.
                let slack = if method == Method::Integral { 2e-3 } else { 1e-9 };
                let inside = lower <= truth * (1.0 + slack) && truth <= upper * (1.0 + slack);
                assert!(inside, "{method:?} {one}: {lower} {truth} {upper}");
                assert!(!incomplete);
            }
            assert_eq!(count(&all, KeyScope::Other).unwrap().0, 0.0);
        }
    }
}

#[test]
fn without_room_everything_is_in_one_place_only_and_what_a_key_may_miss_is_said() {
    for (method, decay) in cases() {
        let plan = plan(AggregateParameters { keys: Some(4), ..parameters(method, decay) });
        let mut fed = Fed::new(&plan, 0);
        for event in events(4_000, 3) {
            fed.fold(&event);
            if fed.taken.len() % 1_000 == 500 {
                fed.restart();
            }
        }
        let status = fed.shard.status().aggregates.remove(0);
        let counts = status.keys.unwrap();
        assert_eq!(counts.keys, 4);
        assert!(counts.other_events > 0, "{method:?}: {counts:?}");
        assert_eq!(counts.evictions > 0, method.merges(), "{method:?}: {counts:?}");
        let all = [fed];
        let decay = EXPONENTIAL.parse().unwrap();
        let whole = Exact::of(&all, &decay, |_| true).count();
        let (mut lower, mut upper) = (0.0, 0.0);
        let mut flagged = 0;
        for part in (0..9).map(|one| KeyScope::Key(key(one))).chain([KeyScope::Other]) {
            let Some(found) = count(&all, part) else { continue };
            (lower, upper) = (lower + found.1, upper + found.2);
            if let KeyScope::Key(one) = part {
                flagged += u32::from(found.3);
                let truth = Exact::of(&all, &decay, |event| event.key == Some(one)).count();
                // Nothing of others is in it; what is missing is in other.
                assert!(found.1 <= truth * (1.0 + 1e-9), "{method:?}: {found:?}, truly {truth}");
                assert!(found.3 || truth <= found.2 * (1.0 + 1e-9), "{method:?}: {found:?}, truly {truth}");
            }
        }
        assert!(lower <= whole * (1.0 + 1e-9) && whole <= upper * (1.0 + 1e-9), "{method:?}: {lower} {whole} {upper}");
        assert!(flagged > 0 || !method.merges(), "{method:?}");
    }
}

#[test]
fn a_key_seen_once_waits_and_is_answered_all_the_same() {
    let plan = plan(AggregateParameters { keys: Some(4), ..parameters(Method::Forward, Some(EXPONENTIAL)) });
    let mut fed = Fed::new(&plan, 0);
    fed.fold(&Event { key: Some(key(1)), value: Some(3.0), ..event(1, START_MS) });
    let counts = |fed: &Fed| fed.shard.status().aggregates[0].keys.unwrap();
    assert_eq!((counts(&fed).keys, counts(&fed).waiting), (0, 1));
    let fed = [fed];
    assert_eq!(count(&fed, KeyScope::Key(key(1))), Some((1.0, 1.0, 1.0, false)));
    let [mut fed] = fed;
    fed.fold(&Event { key: Some(key(1)), value: Some(3.0), ..event(2, START_MS) });
    assert_eq!((counts(&fed).keys, counts(&fed).waiting), (1, 0));
    assert_eq!(count(&[fed], KeyScope::Key(key(1))), Some((2.0, 2.0, 2.0, false)));
}

#[test]
fn the_coldest_key_leaves_and_ties_are_broken_by_the_key() {
    let plan = plan(AggregateParameters { keys: Some(2), ..parameters(Method::Forward, Some(EXPONENTIAL)) });
    let mut fed = Fed::new(&plan, 0);
    let mut item = 0;
    let mut twice = |fed: &mut Fed, one: u64, at_ms: i64| {
        for _ in 0..2 {
            item += 1;
            fed.fold(&Event { key: Some(key(one)), ..event(item, START_MS + at_ms) });
        }
    };
    twice(&mut fed, 1, 0);
    twice(&mut fed, 2, 1_000);
    // An old event does not make a key colder than its newest.
    twice(&mut fed, 2, -5_000);
    twice(&mut fed, 1, 2_000);
    twice(&mut fed, 3, 2_000);
    let fed = [fed];
    assert!(count(&fed, KeyScope::Key(key(2))).is_none());
    assert!(count(&fed, KeyScope::Key(key(1))).is_some() && count(&fed, KeyScope::Key(key(3))).is_some());
    let [mut fed] = fed;
    twice(&mut fed, 4, 3_000);
    let (first, second) = if key(1) < key(3) { (1, 3) } else { (3, 1) };
    let fed = [fed];
    assert!(count(&fed, KeyScope::Key(key(first))).is_none() && count(&fed, KeyScope::Key(key(second))).is_some());
}
