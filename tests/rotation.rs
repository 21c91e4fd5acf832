//! R1: no remembered item becomes unknown when the hash key is exchanged, and when its window is over the old key can go.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ebb_core::{
    AggregateParameters, AggregateQuestion, AggregateResult, AggregateSpec, DedupSpec, EventSpec, FilterSpec,
    IsolationSpec, KeyRule, KeyRules, KeyScope, Measure, Method, Plan, Question, Reader, Record, Seen, Selection,
    Shard, Statistic, TimeUnit, TopName, Verdict, Weighting,
};
use ebb_sketch::aggregate::answer::TopMode;
use ebb_sketch::filter::belief::ArrivalShare;
use ebb_sketch::filter::inference::PriorSpec;
use ebb_sketch::filter::structure::frequency::FrequencySpec;
use ebb_sketch::filter::structure::frequency::forward::ForwardSpec;
use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::stable::StableSpec;
use ebb_sketch::filter::structure::stable::importance::{ImportanceRule as RaiseRule, ImportanceScale};
use ebb_sketch::filter::structure::timing::TimingSpec;
use ebb_sketch::hash::{HashKey, HashKeys};
use ebb_sketch::random::Random;
use support::{Ebb, free_address};

const WINDOW_MS: u64 = 600_000;
const LATENESS_MS: u64 = 60_000;
const START_MS: i64 = 1_700_000_000_000;
const HALF_LIFE_MS: u64 = 10_000;

fn key(byte: u8) -> HashKey {
    HashKey::new([byte; 16])
}

fn alone(byte: u8) -> HashKeys {
    key(byte).into()
}

/// `byte` is current, `before` is not forgotten.
fn exchanging(byte: u8, before: u8) -> HashKeys {
    HashKeys { current: key(byte), previous: Some(key(before)), routing: Some(key(before)) }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    First,
    Last,
    Counted,
    Isolated,
    Stable,
    Classic,
}

const ALL: [Kind; 6] = [Kind::First, Kind::Last, Kind::Counted, Kind::Isolated, Kind::Stable, Kind::Classic];

fn filter(kind: Kind) -> FilterSpec {
    let prior = PriorSpec::Constant(ArrivalShare::new(0.001).unwrap());
    match kind {
        Kind::First | Kind::Last | Kind::Isolated => {
            FilterSpec::Timing { spec: TimingSpec::time(WINDOW_MS, LATENESS_MS, 1 << 20).unwrap(), prior }
        }
        Kind::Counted => FilterSpec::Timing { spec: TimingSpec::count(500, 1 << 20).unwrap(), prior },
        Kind::Stable => {
            let spec = StableSpec::new(CellLayout::in_memory(1 << 12).unwrap(), 4, 32, 7, RaiseRule::Stable).unwrap();
            FilterSpec::Stable { spec, scale: ImportanceScale::new(10.0, 7).unwrap() }
        }
        Kind::Classic => FilterSpec::Classic { size: CellLayout::in_memory(1 << 20).unwrap(), hashes: 6, share: None },
    }
}

fn plan(kind: Kind, keys: HashKeys) -> Arc<Plan> {
    let spec = EventSpec {
        key: Some("campaign".parse().unwrap()),
        time: Some(("ts".parse().unwrap(), TimeUnit::Milliseconds)),
        labels: vec!["item".parse().unwrap()],
        ..EventSpec::of_item(vec!["item".parse().unwrap()])
    };
    let reader = Reader::new(spec, keys).unwrap();
    let seen = if kind == Kind::Last { Seen::Last } else { Seen::First };
    let mut dedup = DedupSpec::new(filter(kind), seen);
    if let (Kind::Isolated, FilterSpec::Timing { spec, prior }) = (kind, dedup.filter) {
        let own = TimingSpec::time(WINDOW_MS, LATENESS_MS, 1 << 18).unwrap();
        dedup.isolation = Some(IsolationSpec { filters: 2, filter: own, prior, seen, shared: spec });
        let short = KeyRule { window: Some(60_000), penalty: None };
        dedup.rules = KeyRules::new([(reader.key_fingerprint("short"), short)]);
    }
    let frequency = ForwardSpec::new(CellLayout::in_memory(1 << 16).unwrap(), 3, HALF_LIFE_MS).unwrap();
    Arc::new(Plan {
        reader: Arc::new(reader),
        max_skew_ms: 1_000,
        dedup,
        frequency: (kind == Kind::First).then_some(FrequencySpec::Forward(frequency)),
        aggregates: if kind == Kind::First {
            vec![visits(Method::Robust), visits(Method::Forward)]
        } else {
            Vec::new()
        },
    })
}

/// Events by campaign, and the items that make up most of them.
fn visits(method: Method) -> AggregateSpec {
    AggregateSpec::new(AggregateParameters {
        name: if method == Method::Robust { "robust" } else { "forward" }.into(),
        of: Measure::Count,
        over: Selection::All,
        method,
        epsilon: 0.1,
        delta: 0.05,
        decay: (method == Method::Forward).then(|| "exponential:half_life=1h".parse().unwrap()),
        horizon_ms: 2 * WINDOW_MS,
        keys: Some(8),
        top: Some(0),
        step: 1.0,
        max: 1.0,
        weights: Weighting::Unit,
        seed: 1,
    })
    .unwrap()
}

fn payload(item: u64, campaign: &str, time_ms: i64) -> Vec<u8> {
    format!(r#"{{"item":"i{item}","campaign":"{campaign}","ts":{time_ms}}}"#).into_bytes()
}

fn record(shard: &mut Shard, item: u64, campaign: &str, time_ms: i64) -> Verdict {
    let (offset, payload) = (shard.next().0, payload(item, campaign, time_ms));
    shard.apply(Record { offset, timestamp_ms: time_ms, payload: &payload }).verdict
}

fn ask(shard: &Shard, item: u64, campaign: &str, time_ms: i64) -> Verdict {
    let subject = shard.plan().reader.read_subject(&payload(item, campaign, time_ms)).unwrap();
    shard.ask(&Question::about(subject)).unwrap().verdict
}

/// The shard as it is after a restart under other keys.
fn restarted(shard: &Shard, kind: Kind, keys: HashKeys) -> Result<Shard, String> {
    Shard::restore(plan(kind, keys), 0, &shard.snapshot()).map_err(|error| error.to_string())
}

#[test]
fn a_duplicate_across_the_exchange_is_caught_and_what_is_new_stays_new() {
    for kind in ALL {
        let mut shard = Shard::new(plan(kind, alone(1)), 0).unwrap();
        (0..200).for_each(|item| _ = record(&mut shard, item, "c", START_MS + item as i64));
        let mut shard = restarted(&shard, kind, exchanging(2, 1)).unwrap();
        assert!(shard.status().needs_previous_key, "{kind:?}");
        for item in 150..200 {
            assert_eq!(ask(&shard, item, "c", START_MS + 300), Verdict::Duplicate, "{kind:?} {item}");
            assert_eq!(record(&mut shard, item, "c", START_MS + 300), Verdict::Duplicate, "{kind:?} {item}");
        }
        let new = (1_000..1_050).filter(|item| record(&mut shard, *item, "c", START_MS + 400) == Verdict::Unique);
        assert!(new.count() >= 48, "{kind:?}");
        for item in 1_000..1_050 {
            assert_eq!(record(&mut shard, item, "c", START_MS + 500), Verdict::Duplicate, "{kind:?} {item}");
        }
    }
}

#[test]
fn an_exchange_changes_no_verdict_of_a_stream() {
    for kind in [Kind::First, Kind::Last, Kind::Counted, Kind::Isolated, Kind::Classic] {
        let mut random = Random::new(kind as u64);
        let mut never = Shard::new(plan(kind, alone(1)), 0).unwrap();
        let mut once = Shard::new(plan(kind, alone(1)), 0).unwrap();
        let mut duplicates = 0;
        for step in 0..6_000i64 {
            if step == 2_000 {
                once = restarted(&once, kind, exchanging(2, 1)).unwrap();
            }
            // Beyond the window after the exchange: everything is under the new key.
            if step == 5_000 && kind != Kind::Classic {
                assert!(!once.status().needs_previous_key, "{kind:?}");
                once = restarted(&once, kind, alone(2)).unwrap();
            }
            let late_ms = if random.below(5) == 0 { random.below(LATENESS_MS) as i64 } else { 0 };
            let time_ms = START_MS + step * 400 - late_ms;
            let campaign = ["c", "short", "heavy"][random.below(3) as usize];
            let item = random.below(if campaign == "heavy" { 4_000 } else { 400 });
            let verdict = record(&mut never, item, campaign, time_ms);
            assert_eq!(record(&mut once, item, campaign, time_ms), verdict, "{kind:?} {step} {item}");
            duplicates += u64::from(verdict == Verdict::Duplicate);
        }
        assert!(duplicates > 500, "{kind:?} {duplicates}");
        assert_eq!(once.status().counts, never.status().counts);
        assert_eq!(once.status().isolated_keys, never.status().isolated_keys);
    }
}

#[test]
fn the_old_key_can_go_when_the_window_is_over_and_not_before() {
    let mut shard = Shard::new(plan(Kind::First, alone(1)), 0).unwrap();
    record(&mut shard, 1, "c", START_MS);
    let mut shard = restarted(&shard, Kind::First, exchanging(2, 1)).unwrap();
    let mut ended_ms = None;
    for step in 0..1_000 {
        let time_ms = START_MS + step * 1_000;
        record(&mut shard, 1_000 + step as u64, "c", time_ms);
        let early = restarted(&shard, Kind::First, alone(2));
        if shard.status().needs_previous_key {
            let told = early.unwrap_err();
            assert!(told.contains("hash key") && told.contains("hash_key_previous_file"), "{told}");
        } else {
            early.unwrap();
            ended_ms = ended_ms.or(Some(time_ms - START_MS));
        }
    }
    let reach = (WINDOW_MS + LATENESS_MS) as i64;
    let ended_ms = ended_ms.expect("the exchange ends");
    assert!((reach..reach + reach / 5).contains(&ended_ms), "{ended_ms}");
}

#[test]
fn state_is_refused_without_the_key_it_was_made_under() {
    let mut shard = Shard::new(plan(Kind::First, alone(1)), 0).unwrap();
    record(&mut shard, 1, "c", START_MS);
    for keys in [alone(2), exchanging(2, 3)] {
        let told = restarted(&shard, Kind::First, keys).unwrap_err();
        assert!(told.contains("another configuration or hash key"), "{told}");
    }
    let turning = restarted(&shard, Kind::First, exchanging(2, 1)).unwrap();
    let told = restarted(&turning, Kind::First, exchanging(3, 2)).unwrap_err();
    assert!(told.contains("rotated again before the previous rotation ended"), "two exchanges in one window: {told}");
    let told = restarted(&turning, Kind::First, exchanging(2, 3)).unwrap_err();
    assert!(told.contains("hash_key_previous_file"), "{told}");
    restarted(&turning, Kind::First, exchanging(2, 1)).unwrap();
}

#[test]
fn restarts_during_the_exchange_change_no_byte() {
    for kind in ALL {
        let mut random = Random::new(7);
        let mut first = Shard::new(plan(kind, alone(1)), 0).unwrap();
        (0..300).for_each(|item| _ = record(&mut first, item % 90, "c", START_MS + item as i64 * 500));
        let mut whole = restarted(&first, kind, exchanging(2, 1)).unwrap();
        let mut cut = restarted(&first, kind, exchanging(2, 1)).unwrap();
        for step in 0..1_500i64 {
            let (item, time_ms) = (random.below(120), START_MS + 150_000 + step * 500);
            let campaign = if item % 3 == 0 { "a" } else { "c" };
            assert_eq!(
                record(&mut cut, item, campaign, time_ms),
                record(&mut whole, item, campaign, time_ms),
                "{kind:?} {step}"
            );
            if random.below(40) == 0 {
                cut = restarted(&cut, kind, exchanging(2, 1)).unwrap();
            }
        }
        assert_eq!(cut.snapshot(), whole.snapshot(), "{kind:?}");
    }
}

#[test]
fn counts_of_both_keys_are_added_up_and_never_too_low() {
    let mut shard = Shard::new(plan(Kind::First, alone(1)), 0).unwrap();
    (0..6).for_each(|_| _ = record(&mut shard, 7, "c", START_MS));
    let mut shard = restarted(&shard, Kind::First, exchanging(2, 1)).unwrap();
    (0..3).for_each(|_| _ = record(&mut shard, 7, "c", START_MS));
    let subject = shard.plan().reader.read_subject(&payload(7, "c", START_MS)).unwrap();
    let count = shard.ask(&Question::about(subject)).unwrap().frequency.unwrap();
    assert!((9.0..9.1).contains(&count.value) && !count.lower_bound, "{count:?}");
}

fn aggregate(shard: &Shard, name: &str, scope: KeyScope, statistic: Statistic) -> AggregateResult {
    let question = AggregateQuestion { aggregate: name.into(), scope, decay: None, statistic };
    shard.aggregate(&question).unwrap().result
}

fn count(shard: &Shard, name: &str, scope: KeyScope) -> f64 {
    match aggregate(shard, name, scope, Statistic::Count) {
        AggregateResult::Number(Some(number)) => number.value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn aggregates_go_on_and_keys_keep_what_was_theirs() {
    let mut shard = Shard::new(plan(Kind::First, alone(1)), 0).unwrap();
    for step in 0..40 {
        record(&mut shard, 5, if step % 4 == 0 { "quiet" } else { "busy" }, START_MS + step);
    }
    let mut shard = restarted(&shard, Kind::First, exchanging(2, 1)).unwrap();
    (0..20).for_each(|step| _ = record(&mut shard, 5, "busy", START_MS + 100 + step));
    for name in ["robust", "forward"] {
        let close = |value: f64, truth: f64| assert!((value - truth).abs() < 0.1, "{name}: {value} for {truth}");
        close(count(&shard, name, KeyScope::Whole), 60.0);
        let [now, before] = shard.plan().reader.key_fingerprints("busy")[..] else { panic!("two keys, two names") };
        close(count(&shard, name, KeyScope::Key(now)), 50.0);
        let question = AggregateQuestion {
            aggregate: name.into(),
            scope: KeyScope::Key(before),
            decay: None,
            statistic: Statistic::Count,
        };
        assert!(shard.aggregate(&question).is_err(), "it is known by its new name");
        let [_, before] = shard.plan().reader.key_fingerprints("quiet")[..] else { panic!("two keys, two names") };
        close(count(&shard, name, KeyScope::Key(before)), 10.0);
        let top =
            aggregate(&shard, name, KeyScope::Whole, Statistic::Top { phi: 0.3, mode: TopMode::NoFalseNegatives });
        let AggregateResult::Top { items, .. } = top else { panic!("{top:?}") };
        assert_eq!(items.len(), 1, "one text is one item: {items:?}");
        assert_eq!(items[0].name, TopName::Text("i5".into()));
        close(items[0].share, 1.0);
    }
}

const DECIDE: &str = "/v1/streams/clicks/decide";
const PATIENCE: Duration = Duration::from_secs(60);

fn batch() -> String {
    let events: Vec<String> = (0..300).map(|item| format!(r#"{{"ip":"10.0.0.{item}"}}"#)).collect();
    format!(r#"{{"events":[{}],"record":true}}"#, events.join(","))
}

fn verdicts(ebb: &Ebb) -> (usize, usize) {
    let (status, answer) = ebb.post(DECIDE, &batch()).expect("it answers");
    assert_eq!(status, 200, "{answer}");
    let all = answer["decisions"].as_array().unwrap();
    let of = |verdict: &str| all.iter().filter(|one| one["verdict"] == verdict).count();
    (of("unique"), of("duplicate"))
}

fn serve(folder: &Path, files: &[(&str, &str)]) -> Ebb {
    let config = folder.join("ebb.yaml");
    let keys: String = files.iter().map(|(key, file)| format!("{key}: {}\n", folder.join(file).display())).collect();
    let streams = "streams: {clicks: {event: {item: [ip]}, partitions: 5, dedup: {window: 1h, memory: 1MiB}}}\n";
    std::fs::write(&config, format!("data_dir: {}\n{keys}{streams}", folder.join("data").display())).unwrap();
    Ebb::start(&config, free_address(), &[])
}

#[test]
fn the_service_exchanges_its_key_by_two_lines_and_refuses_to_lose_the_old_one_early() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (("hash_key_file", "old.key"), ("hash_key_file", "new.key"));
    let mut ebb = serve(folder.path(), &[old]);
    ebb.wait_ready(PATIENCE);
    assert_eq!(verdicts(&ebb), (300, 0));
    assert!(ebb.terminate(PATIENCE));

    let mut ebb = serve(folder.path(), &[new, ("hash_key_previous_file", "old.key")]);
    ebb.wait_ready(PATIENCE);
    assert_eq!(verdicts(&ebb), (0, 300), "in all partitions");
    assert!(ebb.terminate(PATIENCE));

    let ebb = serve(folder.path(), &[new]);
    let begun = std::time::Instant::now();
    let told = loop {
        assert!(begun.elapsed() < PATIENCE, "it does not tell");
        match ebb.get("/readyz") {
            Some((503, told)) if told.contains("restore-failed") => break told,
            Some((200, _)) => panic!("it began without what it knew"),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(told.contains("hash_key_previous_file"), "{told}");
}
