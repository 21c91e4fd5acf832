//! The frequency view through the shard: weights, normalised counts, exhaustion and state.

use std::sync::Arc;

use ebb_core::{
    DedupSpec, EventSpec, FilterSpec, FrequencyPlan, ItemCount, Plan, Reader, Record, Seen, Shard, Verdict,
};
use ebb_sketch::filter::structure::frequency::FrequencySpec;
use ebb_sketch::filter::structure::frequency::basic::BasicSpec;
use ebb_sketch::filter::structure::frequency::digit_plan::DigitChoice;
use ebb_sketch::filter::structure::frequency::epochs::EpochSpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::frequency::optimised::{Carry, OptimisedSpec};
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;

const HALF_LIFE_MS: u64 = 60_000;

fn methods() -> [FrequencySpec; 4] {
    let layout = CellLayout::in_memory(1 << 14).unwrap();
    let epochs = EpochSpec::halving(HALF_LIFE_MS, 16).unwrap();
    let optimised = |carry| OptimisedSpec::in_memory(1 << 14, 4, epochs, DigitChoice::planned(carry)).unwrap();
    [
        FrequencySpec::Forward(ForwardSpec::new(layout, 4, HALF_LIFE_MS).unwrap()),
        FrequencySpec::Basic(BasicSpec::new(layout, 4, epochs, 8).unwrap()),
        FrequencySpec::Optimised(optimised(Carry::Each)),
        FrequencySpec::Optimised(optimised(Carry::All)),
    ]
}

/// A plan whose events have a weight, if `weight` names its field.
fn plan(frequency: FrequencyPlan, weight: Option<&str>) -> Arc<Plan> {
    let event = EventSpec {
        weight: weight.map(|path| path.parse().unwrap()),
        ..EventSpec::of_item(vec!["id".parse().unwrap()])
    };
    let filter = FilterSpec::learning(TimingSpec::time(60_000, 0, 1 << 14).unwrap(), 64).unwrap();
    Arc::new(Plan {
        reader: Arc::new(Reader::new(event, HashKey::new([7; 16])).unwrap()),
        max_skew_ms: 0,
        dedup: DedupSpec::new(filter, Seen::First),
        frequency: Some(frequency),
        aggregates: Vec::new(),
    })
}

fn apply(shard: &mut Shard, id: u64, weight: f64) -> Verdict {
    let payload = format!(r#"{{"id": {id}, "n": {weight}}}"#);
    shard.apply(Record { offset: shard.next().0, timestamp_ms: 0, payload: payload.as_bytes() }).verdict
}

fn count(shard: &Shard, id: u64) -> ItemCount {
    let payload = format!(r#"{{"id": {id}}}"#);
    shard.frequency(&shard.plan().reader.read_subject(payload.as_bytes()).unwrap()).unwrap()
}

#[test]
fn weights_count_only_where_they_are_configured() {
    for spec in methods() {
        for (field, expected) in [(None, 2.0), (Some("n"), 7.25)] {
            let mut shard = Shard::new(plan(spec.into(), field), 0).unwrap();
            assert_eq!(apply(&mut shard, 1, 7.0), Verdict::Unique);
            assert_eq!(apply(&mut shard, 1, 0.25), Verdict::Duplicate);
            let count = count(&shard, 1);
            assert!((expected..expected * 1.05).contains(&count.value), "{spec:?}: {count:?}");
            assert_eq!(shard.status().refused_weights, 0);
        }
    }
}

#[test]
fn a_weight_out_of_range_is_refused_and_the_event_still_judged() {
    for spec in methods() {
        let plan = plan(spec.into(), Some("n"));
        let mut shard = Shard::new(plan.clone(), 0).unwrap();
        for weight in [-1.0, 1e300, 2.0] {
            apply(&mut shard, 1, weight);
        }
        assert_eq!((shard.status().refused_weights, shard.status().counts.duplicate), (2, 2));
        assert!((2.0..2.2).contains(&count(&shard, 1).value));
        let restored = Shard::restore(plan, 0, &shard.snapshot()).unwrap();
        assert_eq!(restored.status().refused_weights, 2);
        assert_eq!(restored.snapshot(), shard.snapshot());
    }
}

#[test]
fn weights_change_the_identity_and_normalisation_does_not() {
    for spec in methods() {
        let unit = plan(spec.into(), None);
        let normalised = plan(FrequencyPlan::from(spec).normalised_by(1_000), None);
        assert_eq!(unit.identity(), normalised.identity());
        let without_counts = |weight| Plan { frequency: None, ..plan(spec.into(), weight).as_ref().clone() }.identity();
        assert_ne!(plan(spec.into(), Some("n")).identity(), unit.identity());
        assert_ne!(without_counts(Some("n")), plan(spec.into(), Some("n")).identity());
    }
}

#[test]
fn normalised_counts_are_events_per_epoch() {
    for spec in methods() {
        let epoch_ms = spec.epoch_ms().unwrap_or(HALF_LIFE_MS / 16);
        let normalised = FrequencyPlan::from(spec).normalised_by(epoch_ms);
        let mut shard = Shard::new(plan(normalised, None), 0).unwrap();
        // Eight events per epoch, for twenty half-lives.
        for number in 0..20 * 16 * 8u64 {
            let timestamp_ms = (number * epoch_ms / 8) as i64;
            shard.apply(Record { offset: number, timestamp_ms, payload: br#"{"id": 1}"# });
        }
        let count = count(&shard, 1);
        let per_epoch = count.normalised.unwrap();
        assert!((per_epoch - 8.0).abs() < 0.5, "{spec:?}: {count:?}");
        let exact = (1.0 - libm::exp2(-1.0 / 16.0)) * count.value;
        assert!(per_epoch >= exact && per_epoch < exact * (1.0 + 1e-12));
        assert_eq!(self::count(&shard, 2).normalised, Some(0.0));
    }
}

#[test]
fn an_exhausted_pool_is_counted_and_flagged() {
    let epochs = EpochSpec::halving(HALF_LIFE_MS, 16).unwrap();
    let choice = DigitChoice { pool: Some(4), ..DigitChoice::planned(Carry::Each) };
    let spec = FrequencySpec::Optimised(OptimisedSpec::in_memory(1 << 14, 4, epochs, choice).unwrap());
    let mut shard = Shard::new(plan(spec.into(), Some("n")), 0).unwrap();
    (0..20).for_each(|id| assert_eq!(apply(&mut shard, id, 1_000.0), Verdict::Unique));
    assert!(shard.status().exhausted_counts > 0);
    let counts: Vec<ItemCount> = (0..20).map(|id| count(&shard, id)).collect();
    assert!(counts.iter().any(|count| count.lower_bound && count.value < 1_000.0));
    assert!(counts.iter().all(|count| count.lower_bound || count.value >= 1_000.0));
}
