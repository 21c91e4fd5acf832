//! F2: dies at every named step.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use ebb::workers::POINTS;

use super::{Play, PlaySpec, Size, snapshots};
use crate::{only_from_ci_on, skip_without_own_kafka};

const KILLED: i32 = 9;
const ONCE: [&str; 5] = ["before_fence", "after_fence", "before_committed", "after_committed", "mid_replay"];

/// Every point, but the replay after a commit that no checkpoint has seen: only then is there something to replay.
fn in_order() -> Vec<&'static str> {
    let mut order: Vec<&str> = POINTS.into_iter().filter(|point| *point != "mid_replay").collect();
    let commit = order.iter().position(|point| *point == "after_commit").expect("a point after the commit");
    order.insert(commit + 1, "mid_replay");
    order
}

/// A worker that panics takes the process with it: its partitions would have an owner that does nothing.
fn panics_at(play: &mut Play, point: &str) {
    play.start_with(0, &[("EBB_PANIC_AT", &format!("{point}:3"))]);
    let ended = play.instances[0].wait_end(Duration::from_secs(60));
    assert!(
        ended.is_some_and(|status| status.code() == Some(1)),
        "{point}: {ended:?}\n{}",
        play.instances[0].log_tail()
    );
    play.note("panics");
}

/// One life that is to end at a step; whether it did.
fn dies_at(play: &mut Play, point: &str, at: u64) -> bool {
    play.start_with(0, &[("EBB_CRASH_AT", &format!("{point}:{at}"))]);
    let ended = play.instances[0].wait_end(Duration::from_secs(20));
    if ended.is_none_or(|status| status.signal() != Some(KILLED)) {
        assert!(ended.is_none(), "{point}: ended by itself with {ended:?}\n{}", play.instances[0].log_tail());
        play.kill(0);
        return false;
    }
    play.note("deaths at a step");
    if play.count("deaths at a step").is_multiple_of(4) {
        play.audit.take(&play.stage, &play.plan, "ebb-0");
    }
    true
}

#[test]
fn a_death_at_any_named_step_loses_nothing_and_doubles_nothing() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    if !cfg!(feature = "fault-points") {
        eprintln!("SKIPPED: needs --features fault-points");
        return;
    }
    let size = Size::from_environment();
    let (times, records) = size.pick((1, 40_000), (1, 60_000), (4, 200_000));
    let kafka = snapshots::KAFKA;
    let mut play = Play::begin(&PlaySpec { per_second: Some(3_000), kafka, ..PlaySpec::new("points", records) });
    snapshots::create_topic(&play);
    // A first life, so that the next ones have something to restore.
    play.start(0);
    play.wait_committed(5_000, Duration::from_secs(90));
    play.kill(0);
    let mut hit: BTreeMap<&str, u64> = BTreeMap::new();
    for round in 0..times {
        for point in in_order() {
            // Most steps are taken over and over; those of a restart only once.
            let at = if round % 2 == 0 || ONCE.contains(&point) { 1 } else { 1 + play.random.below(5) };
            if dies_at(&mut play, point, at) {
                *hit.entry(point).or_default() += 1;
            }
        }
    }
    println!("steps at which it died: {hit:?}");
    for point in ["before_produce", "before_offsets", "after_commit"] {
        panics_at(&mut play, point);
    }
    let missed: Vec<_> = POINTS.iter().filter(|point| !hit.contains_key(**point)).collect();
    play.end(Duration::from_secs(120 + records / 1_000));
    assert!(missed.is_empty(), "never died at {missed:?}");
}
