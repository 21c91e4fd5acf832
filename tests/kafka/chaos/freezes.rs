//! F3, F4: an instance is suspended past the session or transaction timeout and resumes in the middle of a transaction.

use std::thread;
use std::time::Duration;

use super::{ChaosSize, DYNAMIC_MEMBERS, Scenario, ScenarioSpec};
use crate::{skip_at_small_size, skip_without_own_kafka};

/// The session timeout is 3 s.
const PAST_SESSION_TIMEOUT: Duration = Duration::from_secs(5);
/// The transaction timeout is 20 s.
const PAST_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(22);

#[test]
fn zombie_instance_emits_nothing_after_it_resumes() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (freezes, records) = ChaosSize::from_environment().pick((1, 30_000), (3, 100_000), (12, 300_000));
    let mut scenario = Scenario::start(&ScenarioSpec {
        instances: 2,
        per_second: Some(4_000),
        kafka: DYNAMIC_MEMBERS,
        ..ScenarioSpec::new("zombies", records)
    });
    scenario.start_all();
    scenario.wait_until_committed(5_000, Duration::from_secs(90));
    for _ in 0..freezes {
        let number = scenario.random.below(2) as usize;
        scenario.instances[number].freeze();
        thread::sleep(PAST_SESSION_TIMEOUT);
        scenario.start_all();
        scenario.wait_for_progress(1, Duration::from_secs(60));
        scenario.instances[number].thaw();
        scenario.count_event("freezes past session timeout");
        scenario.pause(500, 2_000);
        // A zombie may exit; a supervisor would restart it.
        scenario.start_all();
    }
    assert!(scenario.rollbacks() > 0, "no zombie had uncommitted work");
    scenario.finish(Duration::from_secs(120 + records / 1_000));
}

#[test]
fn freeze_past_the_transaction_timeout_resumes_from_committed_offsets() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (freezes, records) = ChaosSize::from_environment().pick((1, 30_000), (1, 60_000), (2, 150_000));
    let kafka = "  properties: {session.timeout.ms: 45000, heartbeat.interval.ms: 500, reconnect.backoff.max.ms: 500}";
    let spec = ScenarioSpec { per_second: Some(2_500), kafka, ..ScenarioSpec::new("pauses", records) };
    let mut scenario = Scenario::start(&spec);
    scenario.start_all();
    scenario.wait_until_committed(5_000, Duration::from_secs(90));
    for _ in 0..freezes {
        scenario.instances[0].freeze();
        thread::sleep(PAST_TRANSACTION_TIMEOUT);
        scenario.instances[0].thaw();
        scenario.count_event("freezes past transaction timeout");
        scenario.wait_for_progress(1, Duration::from_secs(60));
        scenario.start_all();
    }
    assert!(scenario.rollbacks() > 0, "no transaction was open during the freeze");
    scenario.finish(Duration::from_secs(120 + records / 1_000));
}
