//! The dedup view over filters that forget at random: penalties, importance classes, snapshots and refusals.

use std::sync::Arc;

use ebb_core::{
    ArrivalShare, Basis, ClassScale, Cost, DedupSpec, EventSpec, FilterSpec, ImportanceClasses, Penalties, PenaltySpec,
    Plan, Question, QuestionError, Reader, Reason, Record, Seen, Shard, Span, StableViewSpec, Verdict,
};
use ebb_sketch::filter::stable_posterior::SharePriorSpec;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::stable::StableSpec;
use ebb_sketch::filter::structure::stable::importance::{ImportanceRule, ImportanceScale};
use ebb_sketch::hash::HashKey;
use ebb_sketch::random::Random;

const WINDOW: u64 = 1_000;

fn plan(filter: FilterSpec, penalty: Option<(f64, f64)>, classes: Option<ImportanceClasses>) -> Arc<Plan> {
    let event = EventSpec {
        importance: Some("tier".parse().unwrap()),
        importance_classes: classes,
        ..EventSpec::of_item(vec!["id".parse().unwrap()])
    };
    let penalty = penalty.map(|(false_duplicate, missed)| PenaltySpec {
        false_duplicate: Cost::Constant(false_duplicate),
        missed_duplicate: Cost::Constant(missed),
    });
    let dedup = DedupSpec { penalty, ..DedupSpec::new(filter, Seen::Last) };
    let reader = Arc::new(Reader::new(event, HashKey::new([9; 16])).unwrap());
    Arc::new(Plan { reader, max_skew_ms: 0, dedup, frequency: None, aggregates: Vec::new() })
}

fn view(rule: ImportanceRule, scale: ClassScale, prior: Option<SharePriorSpec>) -> FilterSpec {
    let filter = StableSpec::new(CellLayout::Lines(100), 4, 30, 7, rule).unwrap();
    let window = Some(Span::Events(WINDOW));
    FilterSpec::Stable(StableViewSpec {
        window,
        window_events: Some(WINDOW),
        prior,
        ..StableViewSpec::new(filter, scale)
    })
}

fn linear() -> ClassScale {
    ClassScale::Linear(ImportanceScale::new(7.0, 7).unwrap())
}

fn apply(shard: &mut Shard, payload: &str) -> Verdict {
    shard.apply(Record { offset: shard.next().0, timestamp_ms: 0, payload: payload.as_bytes() }).verdict
}

fn event(id: u64) -> String {
    format!(r#"{{"id":{id},"tier":{}}}"#, 1 + id % 7)
}

/// Events, 30 % of which repeat one of up to two windows ago, and whether each repeats one of the window.
fn log(events: u64) -> Vec<(u64, bool)> {
    let (mut random, mut ids) = (Random::new(4), Vec::new());
    for at in 0..events {
        let repeats = at > 0 && random.below(10) < 3;
        let id: u64 = if repeats { ids[(at - 1 - random.below(at.min(2 * WINDOW))) as usize] } else { at };
        ids.push(id);
    }
    let mut seen = std::collections::BTreeMap::new();
    let inside = |(at, id): (u64, &u64)| {
        let before = seen.insert(*id, at);
        (*id, before.is_some_and(|before: u64| at - before <= WINDOW))
    };
    (0..).zip(&ids).map(inside).collect()
}

/// The penalty of the verdicts from the third window on.
fn penalty(filter: FilterSpec, configured: Option<(f64, f64)>, (wrong, missed): (f64, f64)) -> f64 {
    let mut shard = Shard::new(plan(filter, configured, None), 0).unwrap();
    let mut total = 0.0;
    for (at, (id, inside)) in log(20 * WINDOW).into_iter().enumerate() {
        let verdict = apply(&mut shard, &event(id));
        total += match (verdict, inside) {
            _ if at < 2 * WINDOW as usize => 0.0,
            (Verdict::Duplicate, false) => wrong,
            (Verdict::Unique, true) => missed,
            _ => 0.0,
        };
    }
    total
}

#[test]
fn penalties_lower_the_cost_of_wrong_answers_for_every_rule() {
    for rule in
        [ImportanceRule::Stable, ImportanceRule::two_class(7), ImportanceRule::MultiClass, ImportanceRule::Harmonic]
    {
        for costs in [(5.0, 1.0), (1.0, 5.0), (1.0, 0.05)] {
            let standard = penalty(view(rule, linear(), None), None, costs);
            let service = penalty(view(rule, linear(), Some(SharePriorSpec::Learned)), Some(costs), costs);
            let repeats = log(20 * WINDOW)[2 * WINDOW as usize..].iter().filter(|(_, inside)| *inside).count();
            let accept_all = costs.1 * repeats as f64;
            println!("{rule:?} {costs:?}: posterior {service:.0}, standard {standard:.0}, accept all {accept_all:.0}");
            assert!(
                service <= 1.05 * standard.min(accept_all),
                "{rule:?} {costs:?}: {service} {standard} {accept_all}"
            );
        }
    }
}

#[test]
fn answers_state_their_basis_and_posterior() {
    let plan = plan(view(ImportanceRule::MultiClass, linear(), Some(SharePriorSpec::Learned)), Some((1.0, 1.0)), None);
    let mut shard = Shard::new(plan, 0).unwrap();
    let first = shard.apply(Record { offset: 0, timestamp_ms: 0, payload: event(1).as_bytes() }).answer.unwrap();
    assert_eq!((first.basis, first.belief, shard.status().basis), (Basis::Learning, None, Basis::Learning));
    log(2 * WINDOW).into_iter().for_each(|(id, _)| _ = apply(&mut shard, &event(id)));
    let question =
        Question::about(shard.plan().reader.read_subject(event(log(2 * WINDOW)[1_999].0).as_bytes()).unwrap());
    let answer = shard.ask(&question).unwrap();
    let (belief, decision) = (answer.belief.unwrap(), answer.decision.unwrap());
    assert_eq!((answer.basis, shard.status().basis), (Basis::Posterior, Basis::Posterior));
    assert!((belief.inside + belief.outside - 1.0).abs() < 1e-9);
    assert!(shard.status().memory_bytes > 6_400, "the likelihoods are counted too");
    assert_eq!((decision.if_duplicate, decision.if_unique), (belief.outside, belief.inside));
}

#[test]
fn the_state_continues_from_its_snapshot_and_survives_added_and_removed_penalties() {
    for scale in [linear(), ClassScale::Percentiles] {
        let rule = ImportanceRule::MultiClass;
        let priced = plan(view(rule, scale, Some(SharePriorSpec::Learned)), Some((2.0, 1.0)), None);
        let plain = plan(view(rule, scale, None), None, None);
        let log = log(3_000);
        let mut whole = Shard::new(priced.clone(), 0).unwrap();
        log.iter().for_each(|(id, _)| _ = apply(&mut whole, &event(*id)));
        for cut in [1, 700, 2_999] {
            let mut first = Shard::new(priced.clone(), 0).unwrap();
            log[..cut].iter().for_each(|(id, _)| _ = apply(&mut first, &event(*id)));
            let mut second = Shard::restore(priced.clone(), 0, &first.snapshot()).unwrap();
            log[cut..].iter().for_each(|(id, _)| _ = apply(&mut second, &event(*id)));
            assert_eq!(second.snapshot(), whole.snapshot(), "cut at {cut}");
        }
        let without = Shard::restore(plain.clone(), 0, &whole.snapshot()).unwrap();
        let again = Shard::restore(priced.clone(), 0, &without.snapshot()).unwrap();
        assert_eq!(again.status().basis, Basis::Learning, "what was learned is lost with the penalties");
        assert_eq!(again.status().fill, whole.status().fill, "what is remembered is not");
    }
}

#[test]
fn importance_classes_are_named_and_unknown_ones_rejected() {
    let table = [("gold".to_string(), 7.0), ("silver".to_string(), 4.0)];
    let run = |other, tier: &str| {
        let classes = Some(ImportanceClasses::new(table.clone(), other));
        let mut shard = Shard::new(plan(view(ImportanceRule::MultiClass, linear(), None), None, classes), 0).unwrap();
        let verdict = apply(&mut shard, &format!(r#"{{"id":1,"tier":{tier}}}"#));
        (verdict, shard.status().classes.unwrap().observed().map(|observed| observed.shares().to_vec()))
    };
    let classes = |counted: usize| Some((0..7).map(|at| if at == counted { 1.0 } else { 0.0 }).collect::<Vec<_>>());
    assert_eq!(run(None, r#""gold""#), (Verdict::Unique, classes(6)));
    assert_eq!(run(None, r#""silver""#), (Verdict::Unique, classes(3)));
    assert_eq!(run(Some(1.0), r#""bronze""#), (Verdict::Unique, classes(0)));
    for unknown in [r#""bronze""#, "7", "null", "{}"] {
        assert_eq!(run(None, unknown).0, Verdict::Rejected(Reason::Schema), "{unknown}");
    }
}

#[test]
fn tables_change_the_identity_of_the_plan_and_penalties_do_not() {
    let filter = |prior| view(ImportanceRule::MultiClass, linear(), prior);
    let classes = |gold| Some(ImportanceClasses::new([("gold".to_string(), gold)], None));
    let base = plan(filter(None), None, None).identity();
    assert_ne!(base, plan(filter(None), None, classes(7.0)).identity());
    assert_ne!(plan(filter(None), None, classes(6.0)).identity(), plan(filter(None), None, classes(7.0)).identity());
    assert_ne!(base, plan(view(ImportanceRule::MultiClass, ClassScale::Percentiles, None), None, None).identity());
    assert_eq!(base, plan(filter(Some(SharePriorSpec::Learned)), Some((1.0, 2.0)), None).identity());
}

#[test]
fn penalties_of_a_question_are_refused_where_no_posterior_is_computed() {
    let classic = |share| FilterSpec::Classic { size: CellLayout::in_memory(4096).unwrap(), hashes: 4, share };
    let share = ArrivalShare::new(1e-3).ok();
    let ask = |filter, share| {
        let shard = Shard::new(plan(filter, None, None), 0).unwrap();
        let subject = shard.plan().reader.read_subject(br#"{"id":1}"#).unwrap();
        let penalties = Some(Penalties::new(1.0, 1.0).unwrap());
        shard.ask(&Question { penalties, share, ..Question::about(subject) }).map(|answer| answer.basis)
    };
    assert_eq!(ask(classic(None), None), Err(QuestionError::NoPosterior));
    assert_eq!(ask(classic(None), share), Ok(Basis::Posterior));
    assert_eq!(ask(classic(share), None), Ok(Basis::Posterior));
    assert_eq!(ask(view(ImportanceRule::Stable, linear(), None), share), Err(QuestionError::NoPosterior));
    let constant = SharePriorSpec::Constant(share.unwrap());
    assert_eq!(ask(view(ImportanceRule::Stable, linear(), Some(constant)), None), Ok(Basis::Posterior));
}

#[test]
fn forgetting_is_stated_by_class() {
    let FilterSpec::Stable(spec) = view(ImportanceRule::MultiClass, linear(), None) else { unreachable!() };
    let forgetting = spec.forgetting(None).unwrap();
    assert_eq!(forgetting.classes.len(), 7);
    assert!(forgetting.classes.windows(2).all(|pair| pair[1].missed < pair[0].missed));
    assert!(forgetting.classes.windows(2).all(|pair| pair[1].half_forgotten > pair[0].half_forgotten));
    assert_eq!(forgetting.half_forgotten, forgetting.classes[6].half_forgotten);
    let missed = forgetting.missed().unwrap();
    assert!(missed > forgetting.classes[6].missed.unwrap() && missed < forgetting.classes[0].missed.unwrap());
}
