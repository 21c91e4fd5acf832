//! F2: the process crashes at every named crash point.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::injections::{CRASH_POINTS, START_CRASH_POINTS};
use super::{ChaosSize, Scenario, ScenarioSpec, snapshots};
use crate::{skip_at_small_size, skip_without_feature, skip_without_own_kafka};

const SIGKILL: i32 = 9;

/// A panicking worker must end the process: otherwise its partitions would stay assigned and unprocessed.
fn panic_at(scenario: &mut Scenario, point: &str) {
    scenario.start_instance_with(0, &[("EBB_PANIC_AT", &format!("{point}:3"))]);
    let status = scenario.instances[0].wait_for_exit(Duration::from_secs(60));
    let log = scenario.instances[0].log_tail();
    assert!(status.is_some_and(|status| status.code() == Some(1)), "{point}: {status:?}\n{log}");
    scenario.count_event("panics");
}

/// Runs an instance that is killed at the `count`th visit of a crash point; returns whether it got there.
fn crash_at(scenario: &mut Scenario, point: &str, count: u64) -> bool {
    scenario.start_instance_with(0, &[("EBB_CRASH_AT", &format!("{point}:{count}"))]);
    let status = scenario.instances[0].wait_for_exit(Duration::from_secs(20));
    if status.is_none_or(|status| status.signal() != Some(SIGKILL)) {
        assert!(status.is_none(), "{point}: exited with {status:?}\n{}", scenario.instances[0].log_tail());
        scenario.kill_instance(0);
        return false;
    }
    scenario.count_event("crash point kills");
    if scenario.event_count("crash point kills").is_multiple_of(4) {
        scenario.collect_checkpoints(0);
    }
    true
}

#[test]
fn crash_at_any_point_neither_loses_nor_duplicates_outputs() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    skip_without_feature!("fault-points");
    let size = ChaosSize::from_environment();
    let (rounds, records) = size.pick((1, 40_000), (1, 60_000), (4, 200_000));
    let spec = ScenarioSpec {
        per_second: Some(3_000),
        kafka: snapshots::WITH_SNAPSHOTS,
        ..ScenarioSpec::new("points", records)
    };
    let mut scenario = Scenario::start(&spec);
    snapshots::create_topic(&scenario);
    // A first run creates the state that later ones restore.
    scenario.start_instance(0);
    scenario.wait_until_committed(5_000, Duration::from_secs(90));
    scenario.kill_instance(0);
    let mut crashes: BTreeMap<&str, u64> = BTreeMap::new();
    for round in 0..rounds {
        for point in CRASH_POINTS {
            let is_single = round % 2 == 0 || START_CRASH_POINTS.contains(&point);
            let count = if is_single { 1 } else { 1 + scenario.random.below(5) };
            if crash_at(&mut scenario, point, count) {
                *crashes.entry(point).or_default() += 1;
            }
        }
    }
    println!("crashes by point: {crashes:?}");
    for point in ["before_produce", "before_offsets", "after_commit"] {
        panic_at(&mut scenario, point);
    }
    let missed: Vec<_> = CRASH_POINTS.iter().filter(|point| !crashes.contains_key(**point)).collect();
    scenario.finish(Duration::from_secs(120 + records / 1_000));
    assert!(missed.is_empty(), "never crashed at {missed:?}");
}
