//! F2: dies at every named step.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use ebb::workers::POINTS;

use super::{Play, PlaySpec, Size, snapshots};
use crate::{only_from_ci_on, skip_without_own_kafka};

const KILLED: i32 = 9;
const ONCE: [&str; 5] = ["before_fence", "after_fence", "before_committed", "after_committed", "mid_replay"];

#[test]
fn a_death_at_any_named_step_loses_nothing_and_doubles_nothing() {
    skip_without_own_kafka!();
    only_from_ci_on!();
    if !cfg!(feature = "fault-points") {
        eprintln!("SKIPPED: needs --features fault-points");
        return;
    }
    let size = Size::from_environment();
    let (times, records) = size.pick((1, 40_000), (2, 200_000), (50, 2_000_000));
    let kafka = snapshots::KAFKA;
    let mut play = Play::begin(&PlaySpec { per_second: Some(4_000), kafka, ..PlaySpec::new("points", records) });
    snapshots::create_topic(&play);
    // A first life, so that the next ones have something to restore.
    play.start(0);
    play.wait_committed(5_000, Duration::from_secs(90));
    play.kill(0);
    let mut hit: BTreeMap<&str, u64> = BTreeMap::new();
    for round in 0..times {
        for point in POINTS {
            // Most steps are taken over and over; those of a restart only once.
            let at = if round % 2 == 0 || ONCE.contains(&point) { 1 } else { 1 + play.random.below(5) };
            play.start_with(0, &[("EBB_CRASH_AT", &format!("{point}:{at}"))]);
            let ended = play.instances[0].wait_end(Duration::from_secs(20));
            if ended.is_some_and(|status| status.signal() == Some(KILLED)) {
                *hit.entry(point).or_default() += 1;
                play.note("deaths at a step");
                if play.count("deaths at a step").is_multiple_of(4) {
                    play.audit.take(&play.stage, &play.plan, "ebb-0");
                }
            } else {
                assert!(ended.is_none(), "{point}: ended by itself with {ended:?}\n{}", play.instances[0].log_tail());
                play.kill(0);
            }
        }
    }
    println!("steps at which it died: {hit:?}");
    let missed: Vec<_> = POINTS.iter().filter(|point| !hit.contains_key(**point)).collect();
    play.end(Duration::from_secs(120 + records / 1_000));
    assert!(missed.is_empty(), "never died at {missed:?}");
}
