//! Aggregates by key: bounded, and every event is counted exactly once (K1).

use ebb_core::{AggregateError, AggregateParameters, AggregateResult, Event, KeyScope, Method, Statistic};

use crate::fixture::{START_MS, event, key, parameters, plan};
use crate::oracle::ExactOracle;
use crate::shards::{ShardFixture, ask, events, question};

const EXPONENTIAL: &str = "exponential:half_life=15s";

fn count(shards: &[ShardFixture], scope: KeyScope) -> Option<(f64, f64, f64, bool)> {
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
fn answers_by_key_cover_the_truth_when_all_keys_fit() {
    for (method, decay) in cases() {
        for shards in [1u32, 2] {
            let plan = plan(AggregateParameters { keys: Some(20), ..parameters(method, decay) });
            let mut all: Vec<ShardFixture> = (0..shards).map(|partition| ShardFixture::new(&plan, partition)).collect();
            for event in events(2_000, 3) {
                let fixture = &mut all[event.item.low() as usize % shards as usize];
                fixture.fold(&event);
                if fixture.applied.len() % 500 == 250 {
                    fixture.restart();
                }
            }
            let decay = EXPONENTIAL.parse().unwrap();
            for one in 0..9 {
                let truth = ExactOracle::of(&all, &decay, |event| event.key == Some(key(one))).count();
                let (_, lower, upper, incomplete) = count(&all, KeyScope::Key(key(one))).unwrap();
                // The integral decay is computed in fixed point, the oracle in floating point.
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
fn events_are_counted_once_and_gaps_are_marked_when_keys_do_not_fit() {
    for (method, decay) in cases() {
        let plan = plan(AggregateParameters { keys: Some(4), ..parameters(method, decay) });
        let mut fixture = ShardFixture::new(&plan, 0);
        for event in events(4_000, 3) {
            fixture.fold(&event);
            if fixture.applied.len() % 1_000 == 500 {
                fixture.restart();
            }
        }
        let status = fixture.shard.status().aggregates.remove(0);
        let counts = status.keys.unwrap();
        assert_eq!(counts.keys, 4);
        assert!(counts.other_events > 0, "{method:?}: {counts:?}");
        assert_eq!(counts.evictions > 0, method.merges(), "{method:?}: {counts:?}");
        let all = [fixture];
        let decay = EXPONENTIAL.parse().unwrap();
        let whole = ExactOracle::of(&all, &decay, |_| true).count();
        let (mut lower, mut upper) = (0.0, 0.0);
        let mut flagged = 0;
        for part in (0..9).map(|one| KeyScope::Key(key(one))).chain([KeyScope::Other]) {
            let Some(found) = count(&all, part) else { continue };
            (lower, upper) = (lower + found.1, upper + found.2);
            if let KeyScope::Key(one) = part {
                flagged += u32::from(found.3);
                let truth = ExactOracle::of(&all, &decay, |event| event.key == Some(one)).count();
                // It contains no events of other keys; missing events are in `other`.
                assert!(found.1 <= truth * (1.0 + 1e-9), "{method:?}: {found:?}, exact {truth}");
                assert!(found.3 || truth <= found.2 * (1.0 + 1e-9), "{method:?}: {found:?}, exact {truth}");
            }
        }
        assert!(lower <= whole * (1.0 + 1e-9) && whole <= upper * (1.0 + 1e-9), "{method:?}: {lower} {whole} {upper}");
        assert!(flagged > 0 || !method.merges(), "{method:?}");
    }
}

#[test]
fn pending_key_is_answered_before_it_has_a_sketch() {
    let plan = plan(AggregateParameters { keys: Some(4), ..parameters(Method::Forward, Some(EXPONENTIAL)) });
    let mut fixture = ShardFixture::new(&plan, 0);
    fixture.fold(&Event { key: Some(key(1)), value: Some(3.0), ..event(1, START_MS) });
    let counts = |fixture: &ShardFixture| fixture.shard.status().aggregates[0].keys.unwrap();
    assert_eq!((counts(&fixture).keys, counts(&fixture).waiting), (0, 1));
    let fixture = [fixture];
    assert_eq!(count(&fixture, KeyScope::Key(key(1))), Some((1.0, 1.0, 1.0, false)));
    let [mut fixture] = fixture;
    fixture.fold(&Event { key: Some(key(1)), value: Some(3.0), ..event(2, START_MS) });
    assert_eq!((counts(&fixture).keys, counts(&fixture).waiting), (1, 0));
    assert_eq!(count(&[fixture], KeyScope::Key(key(1))), Some((2.0, 2.0, 2.0, false)));
}

#[test]
fn coldest_key_is_evicted_and_ties_are_broken_by_fingerprint() {
    let plan = plan(AggregateParameters { keys: Some(2), ..parameters(Method::Forward, Some(EXPONENTIAL)) });
    let mut fixture = ShardFixture::new(&plan, 0);
    let mut item = 0;
    let mut twice = |fixture: &mut ShardFixture, one: u64, at_ms: i64| {
        for _ in 0..2 {
            item += 1;
            fixture.fold(&Event { key: Some(key(one)), ..event(item, START_MS + at_ms) });
        }
    };
    twice(&mut fixture, 1, 0);
    twice(&mut fixture, 2, 1_000);
    // An old event does not make the key colder.
    twice(&mut fixture, 2, -5_000);
    twice(&mut fixture, 1, 2_000);
    twice(&mut fixture, 3, 2_000);
    let fixture = [fixture];
    assert!(count(&fixture, KeyScope::Key(key(2))).is_none());
    assert!(count(&fixture, KeyScope::Key(key(1))).is_some() && count(&fixture, KeyScope::Key(key(3))).is_some());
    let [mut fixture] = fixture;
    twice(&mut fixture, 4, 3_000);
    let (first, second) = if key(1) < key(3) { (1, 3) } else { (3, 1) };
    let fixture = [fixture];
    assert!(
        count(&fixture, KeyScope::Key(key(first))).is_none() && count(&fixture, KeyScope::Key(key(second))).is_some()
    );
}
