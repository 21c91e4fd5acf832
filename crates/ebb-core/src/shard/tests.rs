use super::*;
use crate::*;
use ebb_sketch::codec;
use ebb_sketch::filter::timing::TimingSpec;
use ebb_sketch::hash::HashKey;
use proptest::prelude::*;

const WINDOW_MS: u64 = 10_000;
const LATENESS_MS: u64 = 2_000;
const SKEW_MS: u64 = 1_000;

fn plan_of(seen: Seen, filter: TimingSpec) -> Arc<Plan> {
    let spec = EventSpec {
        time: Some(("t".parse().unwrap(), TimeUnit::Milliseconds)),
        ..EventSpec::of_item(vec!["id".parse().unwrap()])
    };
    let reader = Arc::new(Reader::new(spec, HashKey::new([5; 16])).unwrap());
    Arc::new(Plan {
        reader,
        max_skew_ms: SKEW_MS,
        dedup: DedupSpec::new(FilterSpec::learning(filter, 64).expect("a prior"), seen),
        frequency: None,
        aggregates: Vec::new(),
    })
}

fn timed(seen: Seen) -> Arc<Plan> {
    plan_of(seen, TimingSpec::time(WINDOW_MS, LATENESS_MS, 64 << 10).unwrap())
}

fn counted(seen: Seen) -> Arc<Plan> {
    plan_of(seen, TimingSpec::count(100, 64 << 10).unwrap())
}

/// A shard and the log it is fed.
struct Fed {
    shard: Shard,
    now_ms: i64,
}

impl Fed {
    fn new(plan: Arc<Plan>) -> Self {
        Self { shard: Shard::new(plan, 0).unwrap(), now_ms: 1_000_000 }
    }

    /// An event that happened at `time_ms` and arrives when the log's time is not before it.
    fn record(&mut self, id: u32, time_ms: i64) -> Verdict {
        self.now_ms = self.now_ms.max(time_ms);
        let payload = format!(r#"{{"id":{id},"t":{time_ms}}}"#);
        let record = Record { offset: self.shard.next().0, timestamp_ms: self.now_ms, payload: payload.as_bytes() };
        self.shard.apply(record).verdict
    }

    fn ask(&self, id: u32, window: Option<Span>) -> Result<Answer, QuestionError> {
        let payload = format!(r#"{{"id":{id}}}"#);
        let subject = self.shard.plan().reader.read_subject(payload.as_bytes()).unwrap();
        self.shard.ask(&Question { window, ..Question::about(subject) })
    }
}

#[test]
fn first_seen_counts_from_the_accepted_event() {
    let mut fed = Fed::new(timed(Seen::First));
    assert_eq!(fed.record(1, 1_000_000), Verdict::Unique);
    assert_eq!(fed.record(1, 1_000_000 + 9_999), Verdict::Duplicate);
    assert_eq!(
        fed.record(1, 1_000_000 + 12_000),
        Verdict::Unique,
        "a window after the accepted one, despite the repeat"
    );
}

#[test]
fn last_seen_counts_from_the_latest_sighting() {
    let mut fed = Fed::new(timed(Seen::Last));
    assert_eq!(fed.record(1, 1_000_000), Verdict::Unique);
    assert_eq!(fed.record(1, 1_000_000 + 9_999), Verdict::Duplicate);
    assert_eq!(fed.record(1, 1_000_000 + 12_000), Verdict::Duplicate, "the repeat renewed it");
}

#[test]
fn windows_of_events_count_arrivals() {
    let mut fed = Fed::new(counted(Seen::First));
    assert_eq!(fed.record(0, 1_000_000), Verdict::Unique);
    for id in 1..100 {
        fed.record(id, 1_000_000);
    }
    assert_eq!(fed.record(0, 1_000_000), Verdict::Duplicate, "the 100th event after it, counted from itself");
    for id in 1_000..1_120 {
        fed.record(id, 1_000_000);
    }
    assert_eq!(fed.record(0, 1_000_000), Verdict::Unique);
}

#[test]
fn one_poisoned_timestamp_changes_nothing_but_a_count() {
    let mut fed = Fed::new(timed(Seen::First));
    fed.record(1, 1_000_000);
    let before = fed.shard.clone();
    for poisoned in [i64::MAX, 1_000_000 + 86_400_000, fed.now_ms + SKEW_MS as i64 + 1] {
        let payload = format!(r#"{{"id":2,"t":{poisoned}}}"#);
        let record = Record { offset: fed.shard.next().0, timestamp_ms: fed.now_ms, payload: payload.as_bytes() };
        assert_eq!(fed.shard.apply(record).verdict, Verdict::Rejected(Reason::Future), "{poisoned}");
    }
    assert_eq!(fed.shard.as_of().time_ms, before.as_of().time_ms);
    let views = |shard: &Shard| {
        let mut writer = codec::Writer::new(snapshot::KIND, 1);
        shard.dedup.encode(&mut writer);
        writer.seal()
    };
    assert_eq!(views(&fed.shard), views(&before));
    assert_eq!(fed.shard.counts.rejected(Reason::Future), 3);
    assert_eq!(fed.record(1, 1_000_000 + 5_000), Verdict::Duplicate, "the window did not expire");
}

#[test]
fn what_is_older_than_the_memory_is_late_and_never_silently_unique() {
    let mut fed = Fed::new(timed(Seen::First));
    fed.record(1, 1_000_000);
    assert_eq!(fed.record(2, 1_000_000 - LATENESS_MS as i64), Verdict::Unique, "within the lateness all is known");
    let too_old = [1_000_000 - LATENESS_MS as i64 - 1, 1_000_000 - 100_000, 0, -1, i64::MIN];
    for (id, time_ms) in (10..).zip(too_old) {
        assert_eq!(fed.record(id, time_ms), Verdict::Late, "{time_ms}");
    }
}

#[test]
fn an_event_too_old_to_be_remembered_is_a_duplicate_when_it_was_seen_since() {
    for seen in [Seen::First, Seen::Last] {
        let mut fed = Fed::new(timed(seen));
        fed.record(1, 1_000_000);
        assert_eq!(fed.record(1, 0), Verdict::Duplicate, "{seen:?}");
        assert_eq!(fed.record(2, 0), Verdict::Late, "{seen:?}");
    }
}

#[test]
fn a_late_event_that_is_remembered_is_a_duplicate() {
    let mut fed = Fed::new(timed(Seen::First));
    fed.record(1, 1_000_000);
    fed.record(2, 1_000_000 + 5_000);
    assert_eq!(fed.record(1, 1_000_000), Verdict::Duplicate);
    assert_eq!(fed.record(3, 1_000_000), Verdict::Late);
    assert_eq!(fed.record(3, 1_000_000), Verdict::Duplicate, "a late event is remembered where the memory reaches it");
}

#[test]
fn questions_change_nothing_and_take_any_window_up_to_the_configured_one() {
    let mut fed = Fed::new(timed(Seen::First));
    fed.record(1, 1_000_000);
    fed.record(2, 1_000_000 + 5_000);
    let before = fed.shard.snapshot();
    assert_eq!(fed.ask(1, None).unwrap().verdict, Verdict::Duplicate);
    assert_eq!(fed.ask(1, Some(Span::Milliseconds(3_000))).unwrap().verdict, Verdict::Unique);
    assert_eq!(fed.ask(1, Some(Span::Milliseconds(WINDOW_MS))).unwrap().verdict, Verdict::Duplicate);
    assert_eq!(fed.ask(9, None).unwrap(), Answer::plain(Verdict::Unique));
    assert!(matches!(fed.ask(1, Some(Span::Milliseconds(WINDOW_MS + 1))), Err(QuestionError::WindowTooLong { .. })));
    assert!(matches!(fed.ask(1, Some(Span::Events(5))), Err(QuestionError::WindowKind { .. })));
    assert_eq!(fed.ask(1, Some(Span::Milliseconds(0))), Err(QuestionError::EmptyWindow));
    assert_eq!(fed.shard.snapshot(), before);
}

#[test]
fn an_age_range_holds_the_true_age() {
    let mut fed = Fed::new(timed(Seen::First));
    fed.record(1, 1_000_000);
    for now_ms in (1_000_000..1_000_000 + 9_000).step_by(333) {
        fed.record(2, now_ms);
        let age = fed.ask(1, None).unwrap().age.unwrap();
        let (Span::Milliseconds(least), Span::Milliseconds(below)) = (age.min, age.below) else { panic!("{age:?}") };
        let truth = (now_ms - 1_000_000) as u64;
        assert!(least <= truth && truth < below, "{truth} is not in {least}..{below}");
        assert!(below - least <= 1_100, "{age:?} is wider than a block and the part of it that is past");
    }
}

#[test]
fn a_snapshot_is_refused_under_another_plan_key_or_partition() {
    let mut fed = Fed::new(timed(Seen::First));
    fed.record(1, 1_000_000);
    let bytes = fed.shard.snapshot();
    assert!(Shard::restore(timed(Seen::First), 0, &bytes).is_ok());
    assert!(Shard::restore(timed(Seen::First), 1, &bytes).is_err());
    assert!(Shard::restore(timed(Seen::Last), 0, &bytes).is_err());
    assert!(Shard::restore(counted(Seen::First), 0, &bytes).is_err());
    let mut other_key = (*timed(Seen::First)).clone();
    other_key.reader = Arc::new(Reader::new(other_key.reader.spec().clone(), HashKey::new([6; 16])).unwrap());
    assert!(Shard::restore(Arc::new(other_key), 0, &bytes).is_err());
    let mut other_skew = (*timed(Seen::First)).clone();
    other_skew.max_skew_ms += 1;
    assert!(Shard::restore(Arc::new(other_skew), 0, &bytes).is_ok(), "the skew is no part of the state");
}

#[test]
fn damaged_snapshots_are_refused_and_never_panic() {
    let mut fed = Fed::new(plan_of(Seen::First, TimingSpec::time(WINDOW_MS, LATENESS_MS, 64).unwrap()));
    (0..50).for_each(|id| _ = fed.record(id, 1_000_000 + i64::from(id)));
    let bytes = fed.shard.snapshot();
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x41;
        assert!(Shard::restore(fed.shard.plan().clone(), 0, &bad).is_err(), "byte {at}");
        assert!(Shard::restore(fed.shard.plan().clone(), 0, &bytes[..at]).is_err(), "length {at}");
    }
}

proptest! {
    /// Whatever the order: an accepted event is never denied within the window, and what the memory calls unique was
    /// truly not accepted within it.
    #[test]
    fn no_duplicate_within_the_window_is_missed(
        events in prop::collection::vec((0u32..40, 0i64..3_000, 0i64..2_500), 1..300),
        last in any::<bool>(),
    ) {
        let seen = if last { Seen::Last } else { Seen::First };
        let mut fed = Fed::new(timed(seen));
        let mut sightings: Vec<(u32, i64)> = Vec::new();
        for (id, step, late) in events {
            let time_ms = fed.now_ms + step - late.min(LATENESS_MS as i64 + step);
            let verdict = fed.record(id, time_ms);
            let within = sightings.iter().any(|(known, at)| *known == id && *at > time_ms - WINDOW_MS as i64);
            if within {
                prop_assert_eq!(verdict, Verdict::Duplicate, "item {} at {}", id, time_ms);
            }
            if verdict != Verdict::Duplicate || seen == Seen::Last {
                sightings.push((id, time_ms));
            }
        }
    }
}
