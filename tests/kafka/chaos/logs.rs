//! F18: a log that lost records nobody has processed is refused, aloud, and the other partitions go on. Topics made anew
//! and topics with more partitions are refused in `service`.

use std::thread;
use std::time::{Duration, Instant};

use super::{DYNAMIC, Play, PlaySpec, Tally};
use crate::feed::{Feed, FeedSpec};
use crate::stage::{GROUP, INPUT};
use crate::{only_from_ci_on, skip_without_own_kafka};

/// Removes records that were not processed from one partition; panics unless just that partition is refused.
pub fn play_retention(variables: Vec<(&'static str, String)>) {
    let mut play = Play::begin(&PlaySpec { variables, ..PlaySpec::new("retention", 6_000) });
    play.start(0);
    play.wait_committed(6_000, Duration::from_secs(60));
    assert!(play.instances[0].terminate(Duration::from_secs(60)));
    Feed::start(&play.stage, FeedSpec { seed: 9, ..FeedSpec::new(3_000) }).finish();
    let admin = play.stage.cluster.admin();
    let before = admin.committed(GROUP, INPUT);
    let lost = before[0].expect("a committed offset") + 10;
    admin.delete_records(INPUT, 0, lost);
    play.start(0);
    let ends: Vec<i64> = (1..play.stage.partitions as i32).map(|at| admin.watermarks(INPUT, at).1).collect();
    let begun = Instant::now();
    loop {
        let committed = admin.committed(GROUP, INPUT);
        assert_eq!(committed[0], before[0], "the partition with the hole was processed");
        let others_done = committed[1..].iter().zip(&ends).all(|(committed, end)| *committed == Some(*end));
        if others_done && play.instances[0].log_text().contains("retention removed") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "no refusal:\n{}", play.instances[0].log_tail());
        thread::sleep(Duration::from_millis(100));
    }
    assert!(!play.instances[0].probe("/readyz"), "ready with a refused partition");
    assert!(play.instances[0].probe("/livez"), "alive, but says it is not");
    assert_eq!(admin.committed(GROUP, INPUT)[0], before[0], "the partition with the hole was processed");
    play.note("partitions refused");
    Tally::of("retention").with("records", 9_000).done(&play).tell();
}

#[test]
fn a_log_that_lost_records_is_refused() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    play_retention(Vec::new());
}

/// What a worker does not read cannot be taken from the client, which would wait for ever; the group must not.
#[test]
fn refused_partitions_move_like_others() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let mut play = Play::begin(&PlaySpec { instances: 2, kafka: DYNAMIC, ..PlaySpec::new("refused", 6_000) });
    play.start(0);
    play.wait_committed(6_000, Duration::from_secs(60));
    assert!(play.instances[0].terminate(Duration::from_secs(60)));
    Feed::start(&play.stage, FeedSpec { seed: 9, ..FeedSpec::new(3_000) }).finish();
    let admin = play.stage.cluster.admin();
    // Of the two that will move at least one is refused.
    for (partition, committed) in admin.committed(GROUP, INPUT).into_iter().enumerate().take(3) {
        admin.delete_records(INPUT, partition as i32, committed.expect("a committed offset") + 10);
    }
    let told = |play: &Play, number: usize, what: &str| play.instances[number].log_text().matches(what).count();
    let before = told(&play, 0, "partition taken on");
    play.start(0);
    play.wait_until("three refused and one taken on", Duration::from_secs(60), |play| {
        (told(play, 0, "partition refused"), told(play, 0, "partition taken on")) == (3, before + 1)
    });
    play.start(1);
    play.wait_until("two moved", Duration::from_secs(30), |play| {
        told(play, 1, "partition refused") + told(play, 1, "partition taken on") == 2
    });
    let end = admin.watermarks(INPUT, 3).1;
    play.wait_until("the last one goes on", Duration::from_secs(30), |_| admin.committed(GROUP, INPUT)[3] == Some(end));
    *play.done.entry("partitions refused").or_default() += 3;
    Tally::of("refused").with("records", 9_000).done(&play).tell();
}

/// A topic of the same name, longer than the one before it ever was, takes its place while an instance is in the middle of
/// reading, and stands still for a moment.
#[test]
fn a_log_that_is_made_anew_under_a_running_instance_is_refused() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    let kafka = "  properties: {session.timeout.ms: 45000}";
    let mut play = Play::begin(&PlaySpec { kafka, ..PlaySpec::new("made-anew", 6_000) });
    play.start(0);
    play.wait_committed(6_000, Duration::from_secs(60));
    play.instances[0].freeze();
    let (admin, partitions) = (play.stage.cluster.admin(), play.stage.partitions);
    admin.delete_topic(INPUT);
    admin.create_topic(INPUT, partitions, &[("retention.ms", "-1")]);
    Feed::start(&play.stage, FeedSpec { seed: 9, ..FeedSpec::new(20_000) }).finish();
    play.instances[0].thaw();
    play.wait_until("every partition refused", Duration::from_secs(60), |play| {
        play.instances[0].log_text().matches("partition refused").count() == partitions
    });
    assert!(!play.instances[0].probe("/readyz"), "ready with refused partitions");
    assert_eq!(admin.committed(GROUP, INPUT), vec![None; partitions], "something of the new log was processed");
    *play.done.entry("partitions refused").or_default() += partitions as u64;
    Tally::of("made-anew").with("records", 26_000).done(&play).tell();
}
