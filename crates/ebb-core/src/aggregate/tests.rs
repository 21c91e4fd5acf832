//! Formats of earlier versions.

use std::sync::Arc;

use super::*;
use crate::dedup::{DedupSpec, FilterSpec};
use crate::event_spec::EventSpec;
use crate::offset::NextOffset;
use crate::plan::Plan;
use ebb_sketch::filter::inference::Seen;
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::{Fingerprint, HashKey};
use ebb_sketch::random::mix;

const KIND: ebb_sketch::codec::Kind = *b"test";

/// Values by key under a method, with a budget where the method has one.
fn plan(method: Method) -> Plan {
    let spec = AggregateSpec::new(AggregateParameters {
        name: "a".into(),
        of: Measure::Value,
        over: Selection::All,
        method,
        epsilon: 0.1,
        delta: 0.05,
        decay: Some("exponential:half_life=10s".parse().unwrap()),
        horizon_ms: 60_000,
        keys: Some(4),
        memory: method.has_budget().then_some(64 << 20),
        top: None,
        step: 1.0,
        max: 100.0,
        weights: Weighting::Unit,
        seed: 1,
    });
    let filter = FilterSpec::learning(TimingSpec::time(60_000, 0, 1 << 16).unwrap(), 64).unwrap();
    let event = EventSpec::of_item(vec!["id".parse().unwrap()]);
    Plan {
        reader: Arc::new(EventReader::new(event, HashKey::new([7; 16])).unwrap()),
        max_skew_ms: 0,
        dedup: DedupSpec::new(filter, Seen::First),
        frequency: None,
        aggregates: vec![spec.unwrap()],
    }
}

fn filled(plan: &Plan) -> Aggregate {
    let mut aggregate = Aggregate::new(&plan.aggregates[0]);
    for number in 0..3_000u64 {
        let fingerprint = |number: u64| Fingerprint(u128::from(mix(number)));
        let event = Event {
            item: fingerprint(number),
            key: Some(fingerprint(number % 7)),
            time_ms: Some(number as i64),
            id: None,
            value: Some((number % 90) as f64),
            weight: None,
            importance: None,
            numbers: Default::default(),
            labels: Vec::new(),
            previous_key: None,
            route: fingerprint(number),
        };
        let id = fingerprint(!number).into();
        let at = Occurrence { time_ms: number as i64, id, clock_ms: number as i64, previous_key: None };
        aggregate.add(&plan.aggregates[0], &event, Verdict::Unique, &at, &plan.reader);
    }
    aggregate
}

fn bytes(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new(KIND, 1);
    write(&mut writer);
    writer.seal()
}

#[test]
fn state_without_a_budget_is_restored_and_measured() {
    for method in Method::ALL {
        let plan = plan(method);
        let aggregate = filled(&plan);
        let old = bytes(|writer| aggregate.encode_fields(writer, SketchFormat::SNAPSHOT.without_coarseness()));
        let mut reader = Reader::open(KIND, 1, &old).unwrap();
        let restored = Aggregate::decode(&plan.aggregates[0], &mut reader).unwrap();
        reader.finish().unwrap();
        let fields = |aggregate: &Aggregate| bytes(|writer| aggregate.encode_fields(writer, SketchFormat::SNAPSHOT));
        assert!(fields(&restored) == fields(&aggregate), "{method:?}");
        let measured = if method.has_budget() { restored.memory_bytes() } else { 0 };
        assert_eq!(restored.charged_bytes, measured, "{method:?}");
        let new = bytes(|writer| aggregate.encode(writer));
        let again = Aggregate::decode(&plan.aggregates[0], &mut Reader::open(KIND, 1, &new).unwrap()).unwrap();
        assert!(bytes(|writer| again.encode(writer)) == new, "{method:?}");
    }
}

#[test]
fn export_of_one_log_is_still_read() {
    for method in [Method::Robust, Method::Cascade] {
        let plan = plan(method);
        let as_of = AsOf { partition: 3, next: NextOffset(3_000), time_ms: Some(2_999) };
        let question = AggregateQuestion::for_export("a", KeyScope::Whole);
        let partial = || filled(&plan).partial(&plan.aggregates[0], &question, as_of).unwrap();
        let log = (LogDigest([5; 16]), 9);
        let new = plan.export("a", KeyScope::Whole, log, vec![partial()]).unwrap();
        let old = plan.export_of_one_log("a", log, &partial());
        assert_ne!(old, new);
        let (old, new) = (plan.merge_exports("a", &old).unwrap(), plan.merge_exports("a", &new).unwrap());
        assert_eq!(old.logs, new.logs);
        let answer = |merged: MergedExports| plan.aggregates[0].answer(&question, merged.partials);
        assert_eq!(answer(old), answer(new));
    }
}
