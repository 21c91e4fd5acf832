use super::*;
use crate::*;
use ebb_sketch::codec;
use ebb_sketch::filter::structure::timing::TimingSpec;
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
        dedup: DedupSpec::new(FilterSpec::learning(filter, 64).expect("a valid prior"), seen),
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

/// A shard and the time of the log that is applied to it.
struct LogFixture {
    shard: Shard,
    now_ms: i64,
}

impl LogFixture {
    fn new(plan: Arc<Plan>) -> Self {
        Self { shard: Shard::new(plan, 0).unwrap(), now_ms: 1_000_000 }
    }

    /// Applies an event of `time_ms`; the record's timestamp is the largest event time so far.
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
fn seen_first_measures_the_window_from_the_accepted_event() {
    let mut fixture = LogFixture::new(timed(Seen::First));
    assert_eq!(fixture.record(1, 1_000_000), Verdict::Unique);
    assert_eq!(fixture.record(1, 1_000_000 + 9_999), Verdict::Duplicate);
    assert_eq!(fixture.record(1, 1_000_000 + 12_000), Verdict::Unique, "the repeat does not extend the window");
}

#[test]
fn seen_last_measures_the_window_from_the_latest_event() {
    let mut fixture = LogFixture::new(timed(Seen::Last));
    assert_eq!(fixture.record(1, 1_000_000), Verdict::Unique);
    assert_eq!(fixture.record(1, 1_000_000 + 9_999), Verdict::Duplicate);
    assert_eq!(fixture.record(1, 1_000_000 + 12_000), Verdict::Duplicate, "the repeat extends the window");
}

#[test]
fn count_window_is_measured_in_events() {
    let mut fixture = LogFixture::new(counted(Seen::First));
    assert_eq!(fixture.record(0, 1_000_000), Verdict::Unique);
    for id in 1..100 {
        fixture.record(id, 1_000_000);
    }
    assert_eq!(fixture.record(0, 1_000_000), Verdict::Duplicate, "the 100th event after it, counted from itself");
    for id in 1_000..1_120 {
        fixture.record(id, 1_000_000);
    }
    assert_eq!(fixture.record(0, 1_000_000), Verdict::Unique);
}

#[test]
fn event_from_the_future_changes_only_a_count() {
    let mut fixture = LogFixture::new(timed(Seen::First));
    fixture.record(1, 1_000_000);
    let before = fixture.shard.clone();
    for poisoned in [i64::MAX, 1_000_000 + 86_400_000, fixture.now_ms + SKEW_MS as i64 + 1] {
        let payload = format!(r#"{{"id":2,"t":{poisoned}}}"#);
        let record =
            Record { offset: fixture.shard.next().0, timestamp_ms: fixture.now_ms, payload: payload.as_bytes() };
        assert_eq!(fixture.shard.apply(record).verdict, Verdict::Rejected(Reason::Future), "{poisoned}");
    }
    assert_eq!(fixture.shard.as_of().time_ms, before.as_of().time_ms);
    let views = |shard: &Shard| {
        let mut writer = codec::Writer::new(snapshot::KIND, 1);
        shard.dedup.encode(&mut writer);
        writer.seal()
    };
    assert_eq!(views(&fixture.shard), views(&before));
    assert_eq!(fixture.shard.counts.rejected(Reason::Future), 3);
    assert_eq!(fixture.record(1, 1_000_000 + 5_000), Verdict::Duplicate, "the window did not expire");
}

#[test]
fn event_older_than_the_lateness_is_late() {
    let mut fixture = LogFixture::new(timed(Seen::First));
    fixture.record(1, 1_000_000);
    assert_eq!(
        fixture.record(2, 1_000_000 - LATENESS_MS as i64),
        Verdict::Unique,
        "within the lateness the whole window is covered"
    );
    let too_old = [1_000_000 - LATENESS_MS as i64 - 1, 1_000_000 - 100_000, 0, -1, i64::MIN];
    for (id, time_ms) in (10..).zip(too_old) {
        assert_eq!(fixture.record(id, time_ms), Verdict::Late, "{time_ms}");
    }
}

#[test]
fn event_too_old_to_record_is_a_duplicate_if_the_item_is_known() {
    for seen in [Seen::First, Seen::Last] {
        let mut fixture = LogFixture::new(timed(seen));
        fixture.record(1, 1_000_000);
        assert_eq!(fixture.record(1, 0), Verdict::Duplicate, "{seen:?}");
        assert_eq!(fixture.record(2, 0), Verdict::Late, "{seen:?}");
    }
}

#[test]
fn late_event_of_a_known_item_is_a_duplicate() {
    let mut fixture = LogFixture::new(timed(Seen::First));
    fixture.record(1, 1_000_000);
    fixture.record(2, 1_000_000 + 5_000);
    assert_eq!(fixture.record(1, 1_000_000), Verdict::Duplicate);
    assert_eq!(fixture.record(3, 1_000_000), Verdict::Late);
    assert_eq!(fixture.record(3, 1_000_000), Verdict::Duplicate, "a late event within the retention is recorded");
}

#[test]
fn questions_accept_windows_up_to_the_configured_one_and_change_nothing() {
    let mut fixture = LogFixture::new(timed(Seen::First));
    fixture.record(1, 1_000_000);
    fixture.record(2, 1_000_000 + 5_000);
    let before = fixture.shard.snapshot();
    assert_eq!(fixture.ask(1, None).unwrap().verdict, Verdict::Duplicate);
    assert_eq!(fixture.ask(1, Some(Span::Milliseconds(3_000))).unwrap().verdict, Verdict::Unique);
    assert_eq!(fixture.ask(1, Some(Span::Milliseconds(WINDOW_MS))).unwrap().verdict, Verdict::Duplicate);
    assert_eq!(fixture.ask(9, None).unwrap(), Answer::plain(Verdict::Unique));
    assert!(matches!(
        fixture.ask(1, Some(Span::Milliseconds(WINDOW_MS + 1))),
        Err(QuestionError::WindowTooLong { .. })
    ));
    assert!(matches!(fixture.ask(1, Some(Span::Events(5))), Err(QuestionError::WindowKind { .. })));
    assert_eq!(fixture.ask(1, Some(Span::Milliseconds(0))), Err(QuestionError::EmptyWindow));
    assert_eq!(fixture.shard.snapshot(), before);
}

#[test]
fn age_range_contains_the_true_age() {
    let mut fixture = LogFixture::new(timed(Seen::First));
    fixture.record(1, 1_000_000);
    for now_ms in (1_000_000..1_000_000 + 9_000).step_by(333) {
        fixture.record(2, now_ms);
        let age = fixture.ask(1, None).unwrap().age.unwrap();
        let (Span::Milliseconds(min), Span::Milliseconds(below)) = (age.min, age.below) else { panic!("{age:?}") };
        let truth = (now_ms - 1_000_000) as u64;
        assert!(min <= truth && truth < below, "{truth} is not in {min}..{below}");
        assert!(below - min <= 1_100, "{age:?} is wider than a block");
    }
}

#[test]
fn snapshot_of_another_plan_key_or_partition_is_refused() {
    let mut fixture = LogFixture::new(timed(Seen::First));
    fixture.record(1, 1_000_000);
    let bytes = fixture.shard.snapshot();
    assert!(Shard::restore(timed(Seen::First), 0, &bytes).is_ok());
    assert!(Shard::restore(timed(Seen::First), 1, &bytes).is_err());
    assert!(Shard::restore(timed(Seen::Last), 0, &bytes).is_err());
    assert!(Shard::restore(counted(Seen::First), 0, &bytes).is_err());
    let mut other_key = (*timed(Seen::First)).clone();
    other_key.reader = Arc::new(Reader::new(other_key.reader.spec().clone(), HashKey::new([6; 16])).unwrap());
    assert!(Shard::restore(Arc::new(other_key), 0, &bytes).is_err());
    let mut other_skew = (*timed(Seen::First)).clone();
    other_skew.max_skew_ms += 1;
    assert!(Shard::restore(Arc::new(other_skew), 0, &bytes).is_ok(), "state does not depend on the skew");
}

#[test]
fn damaged_snapshot_is_refused_without_panic() {
    let mut fixture = LogFixture::new(plan_of(Seen::First, TimingSpec::time(WINDOW_MS, LATENESS_MS, 64).unwrap()));
    (0..50).for_each(|id| _ = fixture.record(id, 1_000_000 + i64::from(id)));
    let bytes = fixture.shard.snapshot();
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x41;
        assert!(Shard::restore(fixture.shard.plan().clone(), 0, &bad).is_err(), "byte {at}");
        assert!(Shard::restore(fixture.shard.plan().clone(), 0, &bytes[..at]).is_err(), "length {at}");
    }
}

proptest! {
    /// In any order of events, an item accepted within the window is a duplicate.
    #[test]
    fn duplicates_within_the_window_are_never_missed(
        events in prop::collection::vec((0u32..40, 0i64..3_000, 0i64..2_500), 1..300),
        last in any::<bool>(),
    ) {
        let seen = if last { Seen::Last } else { Seen::First };
        let mut fixture = LogFixture::new(timed(seen));
        let mut sightings: Vec<(u32, i64)> = Vec::new();
        for (id, step, late) in events {
            let time_ms = fixture.now_ms + step - late.min(LATENESS_MS as i64 + step);
            let verdict = fixture.record(id, time_ms);
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
