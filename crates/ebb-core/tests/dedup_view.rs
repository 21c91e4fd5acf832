//! The dedup view through the shard: penalties, priors, rules, isolated keys and every kind of filter.

use std::sync::Arc;

use ebb_core::{
    ArrivalShare, Basis, ClassScale, Cost, DedupSpec, EventSpec, FilterSpec, IsolationSpec, KeyRule, KeyRules,
    Penalties, PenaltySpec, Plan, Question, Reader, Reason, Record, Seen, Shard, ShareSource, Span, StableViewSpec,
    TimeUnit, Verdict,
};
use ebb_sketch::filter::inference::PriorSpec;
use ebb_sketch::filter::structure::frequency::FrequencySpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::layout::{CellLayout, LINE_BYTES};
use ebb_sketch::filter::structure::stable::StableSpec;
use ebb_sketch::filter::structure::stable::importance::{ImportanceRule as Raise, ImportanceScale};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::HashKey;
use ebb_sketch::random::Random;

const WINDOW_MS: u64 = 60_000;

fn reader() -> Reader {
    let path = |text: &str| text.parse().unwrap();
    let spec = EventSpec {
        key: Some(path("key")),
        time: Some((path("t"), TimeUnit::Milliseconds)),
        importance: Some(path("tier")),
        numbers: vec![path("cost")],
        ..EventSpec::of_item(vec![path("id")])
    };
    Reader::new(spec, HashKey::new([9; 16])).unwrap()
}

fn timing(memory: u64) -> TimingSpec {
    TimingSpec::time(WINDOW_MS, 5_000, memory).unwrap()
}

fn shard(dedup: DedupSpec) -> Shard {
    let frequency =
        FrequencySpec::Forward(ForwardSpec::new(CellLayout::in_memory(1 << 16).unwrap(), 4, 60_000).unwrap());
    let plan = Plan {
        reader: Arc::new(reader()),
        max_skew_ms: 1_000,
        dedup,
        frequency: Some(frequency.into()),
        aggregates: Vec::new(),
    };
    Shard::new(Arc::new(plan), 0).unwrap()
}

fn learning(memory: u64) -> DedupSpec {
    DedupSpec::new(FilterSpec::learning(timing(memory), 1024).unwrap(), Seen::First)
}

fn event(key: &str, id: u64, t: i64, cost: f64) -> String {
    format!(r#"{{"key":"{key}","id":{id},"t":{t},"cost":{cost},"tier":3}}"#)
}

fn record(shard: &mut Shard, payload: &str, timestamp_ms: i64) -> Verdict {
    shard.apply(Record { offset: shard.next().0, timestamp_ms, payload: payload.as_bytes() }).verdict
}

fn question(shard: &Shard, key: &str, id: u64) -> Question {
    let payload = format!(r#"{{"key":"{key}","id":{id}}}"#);
    Question::about(shard.plan().reader.read_subject(payload.as_bytes()).unwrap())
}

#[test]
fn without_penalties_the_answer_is_the_plain_filter_answer() {
    let mut shard = shard(learning(1 << 16));
    record(&mut shard, &event("a", 1, 1_000, 0.0), 1_000);
    let answer = shard.ask(&question(&shard, "a", 1)).unwrap();
    assert_eq!((answer.verdict, answer.basis, answer.belief), (Verdict::Duplicate, Basis::Standard, None));
}

#[test]
fn verdict_minimises_the_expected_penalty() {
    let spec =
        FilterSpec::Timing { spec: timing(1 << 10), prior: PriorSpec::Constant(ArrivalShare::new(1e-4).unwrap()) };
    let mut shard = shard(DedupSpec::new(spec, Seen::Last));
    for id in 0..2_000 {
        record(&mut shard, &event("a", id, 1_000 + id as i64, 0.0), 1_000 + id as i64);
    }
    let ask = |id, false_duplicate, missed_duplicate| {
        let penalties = Some(Penalties::new(false_duplicate, missed_duplicate).unwrap());
        shard.ask(&Question { penalties, ..question(&shard, "a", id) }).unwrap()
    };
    let unsure =
        (5_000..9_000).find(|id| ask(*id, 1.0, 1.0).belief.is_some_and(|b| b.inside > 0.01 && b.inside < 0.99));
    let unsure = unsure.expect("a filter this small is uncertain about some items");
    let answer = ask(unsure, 1.0, 1.0);
    let (belief, decision) = (answer.belief.unwrap(), answer.decision.unwrap());
    assert_eq!(answer.basis, Basis::Posterior);
    assert!((belief.inside + belief.outside - 1.0).abs() < 1e-12);
    assert_eq!((decision.if_duplicate, decision.if_unique), (belief.outside, belief.inside));
    let ratio = belief.inside / belief.outside;
    assert_eq!(ask(unsure, ratio * 0.99, 1.0).verdict, Verdict::Duplicate, "a false duplicate costs a little less");
    assert_eq!(ask(unsure, ratio * 1.01, 1.0).verdict, Verdict::Unique, "a false duplicate costs a little more");
    assert_eq!(ask(unsure, 0.0, 0.0).verdict, Verdict::Duplicate, "a tie is a duplicate");
}

#[test]
fn event_with_negative_or_missing_cost_is_rejected_as_schema() {
    let penalty = PenaltySpec { false_duplicate: Cost::Field(0), missed_duplicate: Cost::Constant(1.0) };
    let mut shard = shard(DedupSpec { penalty: Some(penalty), ..learning(1 << 16) });
    assert_eq!(record(&mut shard, &event("a", 1, 1_000, 0.5), 1_000), Verdict::Unique);
    let before = shard.as_of().time_ms;
    assert_eq!(record(&mut shard, &event("a", 2, 1_500, -0.5), 1_500), Verdict::Rejected(Reason::Schema));
    assert_eq!(shard.as_of().time_ms, before, "a rejected event does not advance the clock");
    let missing = r#"{"key":"a","id":3,"t":1000,"tier":1}"#;
    assert_eq!(record(&mut shard, missing, 1_500), Verdict::Rejected(Reason::Schema));
}

#[test]
fn penalties_can_change_without_losing_state() {
    let priced = PenaltySpec { false_duplicate: Cost::Field(0), missed_duplicate: Cost::Constant(1.0) };
    let mut before = shard(DedupSpec { penalty: Some(priced), ..learning(1 << 16) });
    record(&mut before, &event("a", 1, 1_000, 0.5), 1_000);
    let spec = EventSpec { numbers: Vec::new(), ..reader().spec().clone() };
    let plain = Reader::new(spec, HashKey::new([9; 16])).unwrap();
    let plan = Plan { reader: Arc::new(plain), dedup: learning(1 << 16), ..(**before.plan()).clone() };
    let after = Shard::restore(Arc::new(plan), 0, &before.snapshot()).unwrap();
    assert_eq!(after.ask(&question(&after, "a", 1)).unwrap().verdict, Verdict::Duplicate);
}

#[test]
fn key_rules_override_window_and_penalty() {
    let keys = reader();
    let free = PenaltySpec { false_duplicate: Cost::Constant(1.0), missed_duplicate: Cost::Constant(0.0) };
    let rules = KeyRules::new([
        (keys.key_fingerprint("short"), KeyRule { window: Some(10_000), ..KeyRule::default() }),
        (keys.key_fingerprint("free"), KeyRule { penalty: Some(free), ..KeyRule::default() }),
    ]);
    let prior = PriorSpec::Constant(ArrivalShare::new(1e-3).unwrap());
    let filter = FilterSpec::Timing { spec: timing(1 << 16), prior };
    let mut shard = shard(DedupSpec { rules, ..DedupSpec::new(filter, Seen::Last) });
    for key in ["short", "free", "plain"] {
        assert_eq!(record(&mut shard, &event(key, 1, 1_000, 0.0), 1_000), Verdict::Unique, "{key}");
    }
    assert_eq!(record(&mut shard, &event("plain", 1, 31_000, 0.0), 31_000), Verdict::Duplicate);
    assert_eq!(record(&mut shard, &event("short", 1, 31_000, 0.0), 31_000), Verdict::Unique, "30 s are beyond 10 s");
    assert_eq!(
        record(&mut shard, &event("free", 1, 31_000, 0.0), 31_000),
        Verdict::Unique,
        "a missed duplicate costs nothing"
    );
    let query = Question { window: Some(Span::Milliseconds(WINDOW_MS)), ..question(&shard, "short", 1) };
    assert_eq!(shard.ask(&query).unwrap().verdict, Verdict::Duplicate, "the window of a question overrides the rule");
}

#[test]
fn the_prior_of_an_event_field_decides_and_an_invalid_one_is_rejected() {
    let penalty = PenaltySpec { false_duplicate: Cost::Constant(1.0), missed_duplicate: Cost::Constant(1.0) };
    let dedup = DedupSpec { penalty: Some(penalty), share: Some(ShareSource::Field(0)), ..learning(1 << 16) };
    let mut shard = shard(dedup);
    assert_eq!(record(&mut shard, &event("a", 1, 1_000, 0.01), 1_000), Verdict::Unique);
    let payload = event("a", 1, 2_000, 0.01);
    let outcome = shard.apply(Record { offset: 1, timestamp_ms: 2_000, payload: payload.as_bytes() });
    assert_eq!(outcome.verdict, Verdict::Duplicate);
    let answer = outcome.answer.unwrap();
    assert_eq!(answer.basis, Basis::Posterior, "a share that comes with the event needs no learning");
    let before = shard.snapshot();
    for (id, invalid) in [(2, 0.0), (3, 1.0), (4, -0.5), (5, 7.0)] {
        let verdict = record(&mut shard, &event("a", id, 3_000, invalid), 3_000);
        assert_eq!(verdict, Verdict::Rejected(Reason::Schema), "{invalid}");
    }
    assert_ne!(shard.snapshot(), before, "the rejections are counted");
    assert_eq!(shard.as_of().time_ms, Some(2_000), "nothing else has changed");
    // A question that names only the item falls back to what the filter learns.
    assert_eq!(shard.ask(&question(&shard, "a", 1)).unwrap().basis, Basis::Learning);
}

#[test]
fn the_prior_of_an_importance_class_applies_to_its_events() {
    let penalty = PenaltySpec { false_duplicate: Cost::Constant(1.0), missed_duplicate: Cost::Constant(1.0) };
    let share = Some(ShareSource::Classes([(3.0, ArrivalShare::new(0.01).unwrap())].into()));
    let mut shard = shard(DedupSpec { penalty: Some(penalty), share, ..learning(1 << 16) });
    let basis = |shard: &mut Shard, tier: u8, offset| {
        let payload = format!(r#"{{"key":"a","id":1,"t":1000,"cost":0,"tier":{tier}}}"#);
        let outcome = shard.apply(Record { offset, timestamp_ms: 1_000, payload: payload.as_bytes() });
        outcome.answer.unwrap().basis
    };
    assert_eq!(basis(&mut shard, 3, 0), Basis::Posterior);
    assert_eq!(basis(&mut shard, 2, 1), Basis::Learning, "another class uses what the filter learns");
}

#[test]
fn a_key_rule_sets_the_prior_of_its_keys() {
    let penalty = PenaltySpec { false_duplicate: Cost::Constant(1.0), missed_duplicate: Cost::Constant(1.0) };
    let share = Some(ShareSource::Constant(ArrivalShare::new(1e-12).unwrap()));
    let rules = KeyRules::new([(reader().key_fingerprint("rare"), KeyRule { share, ..KeyRule::default() })]);
    let prior = PriorSpec::Constant(ArrivalShare::new(0.3).unwrap());
    let filter = FilterSpec::Timing { spec: timing(256), prior };
    let mut shard = shard(DedupSpec { rules, penalty: Some(penalty), ..DedupSpec::new(filter, Seen::Last) });
    for id in 0..400 {
        record(&mut shard, &event("other", id, 1_000, 0.0), 1_000);
    }
    let duplicates = |key| {
        let answers = (1_000..1_200).map(|id| shard.ask(&question(&shard, key, id)).unwrap());
        answers.filter(|answer| answer.verdict == Verdict::Duplicate).count()
    };
    // In a full filter, new items look like repeats; only a small prior tells otherwise.
    assert!(duplicates("frequent") > 150 && duplicates("rare") < 20);
}

#[test]
fn answer_contains_the_decayed_count() {
    let mut shard = shard(learning(1 << 16));
    for n in 0..5 {
        record(&mut shard, &event("a", 1, 1_000 + n, 0.0), 1_000 + n);
    }
    let count = shard.ask(&question(&shard, "a", 1)).unwrap().frequency.unwrap();
    assert!((5.0 - 1e-3..5.01).contains(&count.value) && !count.lower_bound, "{count:?}");
    assert!(shard.ask(&question(&shard, "a", 2)).unwrap().frequency.unwrap().value < 1e-9);
}

/// Share of new items of a quiet key that are called duplicates while another key is flooded with distinct items.
fn false_duplicates(mut shard: Shard, flood_per_round: u64) -> f64 {
    let mut random = Random::new(4);
    let (mut false_duplicates, mut events) = (0u32, 0u32);
    for round in 0..30_000i64 {
        let t = 1_000_000 + round;
        for _ in 0..flood_per_round {
            record(&mut shard, &event("flooded", random.next_u64() >> 1, t, 0.0), t);
        }
        let verdict = record(&mut shard, &event("quiet", random.next_u64() >> 1, t, 0.0), t);
        if round > 15_000 {
            events += 1;
            false_duplicates += u32::from(verdict == Verdict::Duplicate);
        }
    }
    f64::from(false_duplicates) / f64::from(events)
}

fn isolating(memory: u64) -> DedupSpec {
    let spec = learning(memory);
    let FilterSpec::Timing { spec: common, prior } = spec.filter else { unreachable!() };
    let layout = CellLayout::Lines(memory / LINE_BYTES / 4);
    let filter = TimingSpec::new(common.clock(), layout, 4, 4).unwrap();
    DedupSpec {
        isolation: Some(IsolationSpec { filters: 4, filter, prior, seen: Seen::First, shared: common }),
        ..spec
    }
}

#[test]
fn flood_on_an_isolated_key_does_not_raise_false_duplicates_of_others() {
    const MEMORY: u64 = 128 << 10;
    let quiet = false_duplicates(shard(learning(MEMORY)), 0);
    let shared = false_duplicates(shard(learning(MEMORY)), 10);
    let isolated = false_duplicates(shard(isolating(MEMORY)), 10);
    println!(
        "false duplicates of a quiet key: alone {quiet:.4}, flooded {shared:.4}, flooded and isolated {isolated:.4}"
    );
    assert!(shared > 10.0 * quiet.max(0.01), "without isolation the flood must raise false duplicates: {shared}");
    assert!((isolated - quiet).abs() <= 0.002 + 0.5 * quiet, "{isolated} instead of {quiet}");
}

#[test]
fn isolating_and_evicting_keys_forgets_nothing() {
    // More heavy keys than filters, one after the other: each is isolated, then evicted by the next.
    let mut shard = shard(isolating(16 << 10));
    let mut accepted: Vec<(String, u64, i64)> = Vec::new();
    let (mut random, mut max_isolated) = (Random::new(8), 0);
    for step in 0..40_000i64 {
        let t = 1_000_000 + step * 5;
        let key = format!("k{}", (step / 3_000 + random.below(2) as i64) % 7);
        let id = random.next_u64() >> 1;
        if record(&mut shard, &event(&key, id, t, 0.0), t) == Verdict::Unique {
            accepted.push((key, id, t));
        }
        if step % 64 == 0 {
            let at = accepted.len() - 1 - random.below(accepted.len().min(12_000) as u64) as usize;
            let (key, id, since) = &accepted[at];
            if t - since < WINDOW_MS as i64 {
                let verdict = shard.ask(&question(&shard, key, *id)).unwrap().verdict;
                assert_eq!(verdict, Verdict::Duplicate, "{key}/{id} was accepted {} ms ago", t - since);
            }
        }
        max_isolated = max_isolated.max(shard.status().isolated_keys);
    }
    assert_eq!(max_isolated, 4, "all filters were in use");
}

#[test]
fn every_filter_continues_from_its_snapshot() {
    let stable = |rule| {
        let spec = StableSpec::new(CellLayout::in_memory(4096).unwrap(), 4, 8, 7, rule).unwrap();
        FilterSpec::Stable(StableViewSpec::new(spec, ClassScale::Linear(ImportanceScale::new(5.0, 7).unwrap())))
    };
    let classic = FilterSpec::Classic { size: CellLayout::in_memory(4096).unwrap(), hashes: 4, share: None };
    let specs = [
        DedupSpec::new(stable(Raise::Stable), Seen::Last),
        DedupSpec::new(stable(Raise::two_class(7)), Seen::Last),
        DedupSpec::new(stable(Raise::MultiClass), Seen::Last),
        DedupSpec::new(stable(Raise::Harmonic), Seen::Last),
        DedupSpec::new(stable(Raise::HarmonicLiteral), Seen::Last),
        DedupSpec::new(classic, Seen::First),
        isolating(4096),
    ];
    for spec in specs {
        let mut random = Random::new(5);
        let log: Vec<String> = (0..4_000)
            .map(|n| event(&format!("k{}", random.below(3)), random.below(900), 1_000_000 + n * 7, 0.0))
            .collect();
        let mut whole = shard(spec.clone());
        let verdicts: Vec<Verdict> = log.iter().map(|payload| record(&mut whole, payload, 1_100_000)).collect();
        assert!(verdicts.contains(&Verdict::Unique) && verdicts.contains(&Verdict::Duplicate));
        for cut in [1, 777, 2_000, 3_999] {
            let mut first = shard(spec.clone());
            log[..cut].iter().for_each(|payload| _ = record(&mut first, payload, 1_100_000));
            let mut second = Shard::restore(first.plan().clone(), 0, &first.snapshot()).unwrap();
            let rest: Vec<Verdict> = log[cut..].iter().map(|payload| record(&mut second, payload, 1_100_000)).collect();
            assert_eq!(rest, verdicts[cut..], "cut at {cut}");
            assert_eq!(second.snapshot(), whole.snapshot(), "cut at {cut}");
        }
    }
}
