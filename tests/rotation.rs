//! R1: a key rotation loses no remembered item, and the previous key is no longer needed once its window has passed.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ebb_core::{
    AggregateParameters, AggregateQuestion, AggregateResult, AggregateSpec, ClassScale, DedupSpec, EventSpec,
    FilterSpec, IsolationSpec, KeyRule, KeyRules, KeyScope, Measure, Method, Plan, QueryTime, Question, Reader, Record,
    Seen, Selection, Shard, StableViewSpec, Statistic, TimeUnit, TopName, Verdict, Weighting,
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

fn single_key(byte: u8) -> HashKeys {
    key(byte).into()
}

/// A rotation from key `previous` to key `current`.
fn rotation(current: u8, previous: u8) -> HashKeys {
    HashKeys { current: key(current), previous: Some(key(previous)), routing: Some(key(previous)) }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ViewKind {
    First,
    Last,
    CountWindow,
    Isolated,
    Stable,
    Classic,
}

const ALL: [ViewKind; 6] =
    [ViewKind::First, ViewKind::Last, ViewKind::CountWindow, ViewKind::Isolated, ViewKind::Stable, ViewKind::Classic];

fn filter(kind: ViewKind) -> FilterSpec {
    let prior = PriorSpec::Constant(ArrivalShare::new(0.001).unwrap());
    match kind {
        ViewKind::First | ViewKind::Last | ViewKind::Isolated => {
            FilterSpec::Timing { spec: TimingSpec::time(WINDOW_MS, LATENESS_MS, 1 << 20).unwrap(), prior }
        }
        ViewKind::CountWindow => FilterSpec::Timing { spec: TimingSpec::count(500, 1 << 20).unwrap(), prior },
        ViewKind::Stable => {
            let spec = StableSpec::new(CellLayout::in_memory(1 << 12).unwrap(), 4, 32, 7, RaiseRule::Stable).unwrap();
            FilterSpec::Stable(StableViewSpec::new(spec, ClassScale::Linear(ImportanceScale::new(10.0, 7).unwrap())))
        }
        ViewKind::Classic => {
            FilterSpec::Classic { size: CellLayout::in_memory(1 << 20).unwrap(), hashes: 6, share: None }
        }
    }
}

fn plan(kind: ViewKind, keys: HashKeys) -> Arc<Plan> {
    let spec = EventSpec {
        key: Some("campaign".parse().unwrap()),
        time: Some(("ts".parse().unwrap(), TimeUnit::Milliseconds)),
        labels: vec!["item".parse().unwrap()],
        ..EventSpec::of_item(vec!["item".parse().unwrap()])
    };
    let reader = Reader::new(spec, keys).unwrap();
    let seen = if kind == ViewKind::Last { Seen::Last } else { Seen::First };
    let mut dedup = DedupSpec::new(filter(kind), seen);
    if let (ViewKind::Isolated, FilterSpec::Timing { spec, prior }) = (kind, dedup.filter) {
        let own = TimingSpec::time(WINDOW_MS, LATENESS_MS, 1 << 18).unwrap();
        dedup.isolation = Some(IsolationSpec { filters: 2, filter: own, prior, seen, shared: spec });
        let short = KeyRule { window: Some(60_000), ..KeyRule::default() };
        dedup.rules = KeyRules::new([(reader.key_fingerprint("short"), short)]);
    }
    let frequency = ForwardSpec::new(CellLayout::in_memory(1 << 16).unwrap(), 3, HALF_LIFE_MS).unwrap();
    Arc::new(Plan {
        reader: Arc::new(reader),
        max_skew_ms: 1_000,
        dedup,
        frequency: (kind == ViewKind::First).then_some(FrequencySpec::Forward(frequency).into()),
        aggregates: if kind == ViewKind::First {
            vec![visits(Method::Robust), visits(Method::Forward)]
        } else {
            Vec::new()
        },
    })
}

/// Events by campaign with their top items.
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
        memory: None,
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

/// The shard after a restart with other keys.
fn restart(shard: &Shard, kind: ViewKind, keys: HashKeys) -> Result<Shard, String> {
    Shard::restore(plan(kind, keys), 0, &shard.snapshot()).map_err(|error| error.to_string())
}

#[test]
fn duplicates_are_detected_across_a_rotation_and_new_items_stay_unique() {
    for kind in ALL {
        let mut shard = Shard::new(plan(kind, single_key(1)), 0).unwrap();
        (0..200).for_each(|item| _ = record(&mut shard, item, "c", START_MS + item as i64));
        let mut shard = restart(&shard, kind, rotation(2, 1)).unwrap();
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
fn rotation_changes_no_verdict() {
    for kind in [ViewKind::First, ViewKind::Last, ViewKind::CountWindow, ViewKind::Isolated, ViewKind::Classic] {
        let mut random = Random::new(kind as u64);
        let mut never = Shard::new(plan(kind, single_key(1)), 0).unwrap();
        let mut once = Shard::new(plan(kind, single_key(1)), 0).unwrap();
        let mut duplicates = 0;
        for step in 0..6_000i64 {
            if step == 2_000 {
                once = restart(&once, kind, rotation(2, 1)).unwrap();
            }
            // The window after the rotation has passed: everything is under the new key.
            if step == 5_000 && kind != ViewKind::Classic {
                assert!(!once.status().needs_previous_key, "{kind:?}");
                once = restart(&once, kind, single_key(2)).unwrap();
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
fn previous_key_is_needed_until_the_window_has_passed() {
    let mut shard = Shard::new(plan(ViewKind::First, single_key(1)), 0).unwrap();
    record(&mut shard, 1, "c", START_MS);
    let mut shard = restart(&shard, ViewKind::First, rotation(2, 1)).unwrap();
    let mut ended_ms = None;
    for step in 0..1_000 {
        let time_ms = START_MS + step * 1_000;
        record(&mut shard, 1_000 + step as u64, "c", time_ms);
        let early = restart(&shard, ViewKind::First, single_key(2));
        if shard.status().needs_previous_key {
            let error = early.unwrap_err();
            assert!(error.contains("hash key") && error.contains("hash_key_previous_file"), "{error}");
        } else {
            early.unwrap();
            ended_ms = ended_ms.or(Some(time_ms - START_MS));
        }
    }
    let reach = (WINDOW_MS + LATENESS_MS) as i64;
    let ended_ms = ended_ms.expect("the rotation ends");
    assert!((reach..reach + reach / 5).contains(&ended_ms), "{ended_ms}");
}

#[test]
fn state_is_refused_without_its_hash_key() {
    let mut shard = Shard::new(plan(ViewKind::First, single_key(1)), 0).unwrap();
    record(&mut shard, 1, "c", START_MS);
    for keys in [single_key(2), rotation(2, 3)] {
        let error = restart(&shard, ViewKind::First, keys).unwrap_err();
        assert!(error.contains("another configuration or hash key"), "{error}");
    }
    let rotating = restart(&shard, ViewKind::First, rotation(2, 1)).unwrap();
    let error = restart(&rotating, ViewKind::First, rotation(3, 2)).unwrap_err();
    assert!(
        error.contains("rotated again before the previous rotation ended"),
        "two rotations within one window: {error}"
    );
    let error = restart(&rotating, ViewKind::First, rotation(2, 3)).unwrap_err();
    assert!(error.contains("hash_key_previous_file"), "{error}");
    restart(&rotating, ViewKind::First, rotation(2, 1)).unwrap();
}

#[test]
fn restarts_during_a_rotation_change_no_byte() {
    for kind in ALL {
        let mut random = Random::new(7);
        let mut first = Shard::new(plan(kind, single_key(1)), 0).unwrap();
        (0..300).for_each(|item| _ = record(&mut first, item % 90, "c", START_MS + item as i64 * 500));
        let mut whole = restart(&first, kind, rotation(2, 1)).unwrap();
        let mut cut = restart(&first, kind, rotation(2, 1)).unwrap();
        for step in 0..1_500i64 {
            let (item, time_ms) = (random.below(120), START_MS + 150_000 + step * 500);
            let campaign = if item % 3 == 0 { "a" } else { "c" };
            assert_eq!(
                record(&mut cut, item, campaign, time_ms),
                record(&mut whole, item, campaign, time_ms),
                "{kind:?} {step}"
            );
            if random.below(40) == 0 {
                cut = restart(&cut, kind, rotation(2, 1)).unwrap();
            }
        }
        assert_eq!(cut.snapshot(), whole.snapshot(), "{kind:?}");
    }
}

#[test]
fn counts_under_both_keys_are_added() {
    let mut shard = Shard::new(plan(ViewKind::First, single_key(1)), 0).unwrap();
    (0..6).for_each(|_| _ = record(&mut shard, 7, "c", START_MS));
    let mut shard = restart(&shard, ViewKind::First, rotation(2, 1)).unwrap();
    (0..3).for_each(|_| _ = record(&mut shard, 7, "c", START_MS));
    let subject = shard.plan().reader.read_subject(&payload(7, "c", START_MS)).unwrap();
    let count = shard.ask(&Question::about(subject)).unwrap().frequency.unwrap();
    assert!((9.0..9.1).contains(&count.value) && !count.lower_bound, "{count:?}");
}

fn aggregate(shard: &Shard, name: &str, scope: KeyScope, statistic: Statistic) -> AggregateResult {
    let question = AggregateQuestion {
        aggregate: name.into(),
        scope,
        decay: None,
        last: None,
        time: QueryTime::Newest,
        statistic,
    };
    shard.aggregate(&question).unwrap().result
}

fn count(shard: &Shard, name: &str, scope: KeyScope) -> f64 {
    match aggregate(shard, name, scope, Statistic::Count) {
        AggregateResult::Number(Some(number)) => number.value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn aggregates_keep_their_keys_across_a_rotation() {
    let mut shard = Shard::new(plan(ViewKind::First, single_key(1)), 0).unwrap();
    for step in 0..40 {
        record(&mut shard, 5, if step % 4 == 0 { "quiet" } else { "busy" }, START_MS + step);
    }
    let mut shard = restart(&shard, ViewKind::First, rotation(2, 1)).unwrap();
    (0..20).for_each(|step| _ = record(&mut shard, 5, "busy", START_MS + 100 + step));
    for name in ["robust", "forward"] {
        let close = |value: f64, truth: f64| assert!((value - truth).abs() < 0.1, "{name}: {value} for {truth}");
        close(count(&shard, name, KeyScope::Whole), 60.0);
        let [now, before] = shard.plan().reader.key_fingerprints("busy")[..] else {
            panic!("expected two fingerprints")
        };
        close(count(&shard, name, KeyScope::Key(now)), 50.0);
        let question = AggregateQuestion {
            aggregate: name.into(),
            scope: KeyScope::Key(before),
            decay: None,
            last: None,
            time: QueryTime::Newest,
            statistic: Statistic::Count,
        };
        assert!(shard.aggregate(&question).is_err(), "the key is known by its new fingerprint only");
        let [_, before] = shard.plan().reader.key_fingerprints("quiet")[..] else {
            panic!("expected two fingerprints")
        };
        close(count(&shard, name, KeyScope::Key(before)), 10.0);
        let top =
            aggregate(&shard, name, KeyScope::Whole, Statistic::Top { phi: 0.3, mode: TopMode::NoFalseNegatives });
        let AggregateResult::Top { items, .. } = top else { panic!("{top:?}") };
        assert_eq!(items.len(), 1, "one text must be one item: {items:?}");
        assert_eq!(items[0].name, TopName::Text("i5".into()));
        close(items[0].share, 1.0);
    }
}

const DECIDE: &str = "/v1/streams/clicks/decide";
const TIMEOUT: Duration = Duration::from_secs(60);

fn batch() -> String {
    let events: Vec<String> = (0..300).map(|item| format!(r#"{{"ip":"10.0.0.{item}"}}"#)).collect();
    format!(r#"{{"events":[{}],"record":true}}"#, events.join(","))
}

fn verdicts(ebb: &Ebb) -> (usize, usize) {
    let (status, answer) = ebb.post(DECIDE, &batch()).expect("an answer");
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
fn service_rotates_its_key_and_refuses_to_start_without_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (("hash_key_file", "old.key"), ("hash_key_file", "new.key"));
    let mut ebb = serve(folder.path(), &[old]);
    ebb.wait_ready(TIMEOUT);
    assert_eq!(verdicts(&ebb), (300, 0));
    assert!(ebb.terminate(TIMEOUT));

    let mut ebb = serve(folder.path(), &[new, ("hash_key_previous_file", "old.key")]);
    ebb.wait_ready(TIMEOUT);
    assert_eq!(verdicts(&ebb), (0, 300), "in all partitions");
    assert!(ebb.terminate(TIMEOUT));

    let ebb = serve(folder.path(), &[new]);
    let begun = std::time::Instant::now();
    let problem = loop {
        assert!(begun.elapsed() < TIMEOUT, "no restore failure was reported");
        match ebb.get("/readyz") {
            Some((503, problem)) if problem.contains("restore-failed") => break problem,
            Some((200, _)) => panic!("ready without its state"),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(problem.contains("hash_key_previous_file"), "{problem}");
}
