//! F5, F6, F8: commits that arrive late or whose responses are lost, and a network that stalls, slows down, corrupts or
//! drops connections.

use std::thread;
use std::time::Duration;

use super::{ChaosSize, Scenario, ScenarioSpec};
use crate::proxy::{Api, Direction, FaultRule, NetworkConditions, Proxy, RequestFault};
use crate::testbed::TestBedSpec;
use crate::{skip_at_small_size, skip_without_own_kafka};

/// Requests are repeated after one second.
const SHORT_REQUEST_TIMEOUT: &str = "  instance: {instance}\n  properties: {session.timeout.ms: 6000, heartbeat.interval.ms: 500, socket.timeout.ms: 1000, \
                         reconnect.backoff.max.ms: 500}";

fn start_behind_proxy(name: &'static str, records: u64, per_second: u64) -> Scenario {
    let mut scenario = Scenario::start(&ScenarioSpec {
        testbed: TestBedSpec { with_proxy: true, ..TestBedSpec::new(name) },
        per_second: Some(per_second),
        kafka: SHORT_REQUEST_TIMEOUT,
        ..ScenarioSpec::new(name, records)
    });
    scenario.start_all();
    scenario.wait_until_committed(2_000, Duration::from_secs(90));
    scenario
}

fn proxy(scenario: &Scenario) -> &Proxy {
    scenario.testbed.proxy.as_ref().expect("a proxy")
}

/// Injects a fault into the next commit and waits until processing continues.
fn fault_next_commit(scenario: &mut Scenario, fault: RequestFault, event: &'static str) {
    let before = proxy(scenario).counts().faults;
    proxy(scenario).add_rule(FaultRule::next(Api::END_TXN, fault));
    proxy(scenario).wait_for("the fault hits a commit", Duration::from_secs(30), |counts| counts.faults > before);
    scenario.count_event(event);
    scenario.wait_for_progress(1, Duration::from_secs(60));
}

/// Delivers the held commit during some later transaction.
fn deliver_held_commit(scenario: &mut Scenario) {
    scenario.pause(1, 120);
    let delivered = proxy(scenario).release().len();
    assert_eq!(delivered, 1, "the late commit was not delivered");
}

#[test]
fn late_and_unanswered_commits_leave_no_partial_transaction() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (rounds, records) = ChaosSize::from_environment().pick((1, 15_000), (3, 80_000), (10, 200_000));
    let mut scenario = start_behind_proxy("late-commits", records, 3_000);
    for round in 0..rounds {
        fault_next_commit(&mut scenario, RequestFault::Hold, "late commits");
        deliver_held_commit(&mut scenario);
        // In every second round the client dies in the transaction that the late commit arrived in.
        if round % 2 == 0 {
            scenario.kill_instance(0);
            scenario.start_all();
        }
        fault_next_commit(&mut scenario, RequestFault::DropResponse, "dropped commit responses");
        fault_next_commit(&mut scenario, RequestFault::Cut, "cut commits");
        fault_next_commit(&mut scenario, RequestFault::Drop, "dropped commits");
        let fault = if round % 2 == 0 { RequestFault::DropResponse } else { RequestFault::Drop };
        for api in [Api::PRODUCE, Api::ADD_PARTITIONS_TO_TXN, Api::ADD_OFFSETS_TO_TXN, Api::TXN_OFFSET_COMMIT] {
            proxy(&scenario).add_rule(FaultRule::next(api, fault));
            scenario.pause(200, 600);
            scenario.count_event("other request faults");
        }
    }
    proxy(&scenario).clear_rules();
    scenario.finish(Duration::from_secs(180 + records / 1_000));
}

/// Applies adverse conditions until the instance is affected, then restores the network and waits for recovery.
fn survive_conditions(scenario: &mut Scenario, conditions: NetworkConditions) {
    proxy(scenario).set_conditions(conditions);
    if conditions.stalled.is_some() {
        scenario.wait_until("not ready", Duration::from_secs(20), |scenario| !scenario.instances[0].is_ready());
    } else {
        thread::sleep(Duration::from_secs(3));
    }
    assert!(scenario.instances[0].is_running(), "the instance exited under {conditions:?}");
    assert!(scenario.instances[0].probe("/livez"), "/livez fails under {conditions:?}");
    proxy(scenario).set_conditions(NetworkConditions::default());
    scenario.count_event("adverse network conditions");
    scenario.wait_for_progress(1, Duration::from_secs(60));
    scenario.wait_until("ready again", Duration::from_secs(20), |scenario| scenario.instances[0].is_ready());
}

/// Flips bits in fetched records; the client must not skip them.
fn corrupt_fetches(scenario: &mut Scenario, times: u64) {
    for _ in 0..times {
        let before = proxy(scenario).counts().corrupted;
        proxy(scenario).add_rule(FaultRule::next(Api::FETCH, RequestFault::CorruptResponse));
        proxy(scenario)
            .wait_for("a response is corrupted", Duration::from_secs(30), |counts| counts.corrupted > before);
        scenario.count_event("corrupted responses");
        scenario.pause(100, 700);
    }
}

/// Ends all connections twice a second, and refuses new ones half of the time.
fn flap_connections(scenario: &mut Scenario, times: u64) {
    for number in 0..times {
        let conditions = NetworkConditions { refuses_connections: number % 2 == 0, ..NetworkConditions::default() };
        proxy(scenario).set_conditions(conditions);
        let ended = if number % 4 == 0 { proxy(scenario).cut("") } else { proxy(scenario).reset("") };
        scenario.count_events("connections ended", ended as u64);
        thread::sleep(Duration::from_millis(500));
    }
    proxy(scenario).set_conditions(NetworkConditions::default());
}

#[test]
fn network_faults_delay_processing_but_lose_nothing() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (rounds, records) = ChaosSize::from_environment().pick((1, 15_000), (1, 60_000), (3, 150_000));
    let mut scenario = start_behind_proxy("network", records, 2_000);
    let normal = NetworkConditions::default();
    for _ in 0..rounds {
        for conditions in [
            NetworkConditions { stalled: Some(Direction::ToBroker), ..normal },
            NetworkConditions { stalled: Some(Direction::ToClient), ..normal },
            NetworkConditions { delay: Duration::from_millis(150), jitter: Duration::from_millis(100), ..normal },
            NetworkConditions { bytes_per_second: Some(1 << 20), ..normal },
        ] {
            survive_conditions(&mut scenario, conditions);
        }
        corrupt_fetches(&mut scenario, 4);
        flap_connections(&mut scenario, 8);
        scenario.start_all();
    }
    scenario.finish(Duration::from_secs(180 + records / 1_000));
}
