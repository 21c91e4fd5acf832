//! F1, F7, F19: random kills of instances and restarts of the broker, with malformed records in the stream. With
//! exactly-once delivery nothing is lost or duplicated; with at-least-once delivery nothing is lost.

use std::time::{Duration, Instant};

use super::{ChaosSize, Scenario, ScenarioSpec};
use crate::broker::free_ports;
use crate::testbed::{Delivery, TestBedSpec};
use crate::{skip_at_small_size, skip_without_own_kafka};

/// How long to wait for an instance to become ready before it is killed.
const READY_TIMEOUT: Duration = Duration::from_secs(15);

/// Kills some instances and restarts them. One in three times an instance is killed while it starts: during recovery of
/// the store, fencing or replay. Otherwise a ready instance is killed, sometimes together with others.
fn kill_some(scenario: &mut Scenario, max_delay_ms: u64) {
    let all = scenario.instances.len();
    let victim = scenario.random.below(all as u64) as usize;
    if scenario.random.below(3) == 0 {
        scenario.pause(10, 600);
        scenario.kill_instance(victim);
    } else {
        let begun = Instant::now();
        while !scenario.instances[victim].is_ready() && begun.elapsed() < READY_TIMEOUT {
            scenario.pause(50, 60);
        }
        scenario.pause(100, max_delay_ms);
        for number in 0..all {
            if number == victim || scenario.random.below(2) == 0 {
                let is_ready = scenario.instances[number].is_ready();
                scenario.count_events("kills of ready instances", u64::from(is_ready));
                scenario.kill_instance(number);
            }
        }
    }
    scenario.start_all();
}

#[test]
fn kills_and_broker_restarts_neither_lose_nor_duplicate_outputs() {
    skip_without_own_kafka!();
    let size = ChaosSize::from_environment();
    let (records, per_second) = size.pick((20_000, 5_000), (600_000, 7_000), (10_000_000, 6_000));
    let (kills, restarts) = size.pick((3, 1), (26, 10), (310, 52));
    let mut scenario = Scenario::start(&ScenarioSpec {
        instances: size.pick(1, 2, 3),
        per_second: Some(per_second),
        ..ScenarioSpec::new("kills", records)
    });
    scenario.start_all();
    let begun = Instant::now();
    let timeout = Duration::from_secs(300 + 3 * records / per_second);
    while scenario.event_count("kills") < kills || scenario.event_count("broker restarts") < restarts {
        assert!(begun.elapsed() < timeout, "too slow: {:?}", scenario.events);
        kill_some(&mut scenario, 1_500);
        let restarted = scenario.event_count("broker restarts");
        if restarted * kills < scenario.event_count("kills") * restarts {
            // The first outage is longer than sessions and requests last.
            let long_ms = size.pick(500, 10_000, 60_000);
            let downtime_ms = if restarted == 0 { long_ms } else { scenario.random.below(3_000) };
            scenario.restart_broker(Duration::from_millis(downtime_ms));
        }
    }
    scenario.finish(Duration::from_secs(300 + records / per_second));
}

#[test]
fn broker_that_moves_to_another_port_is_found_again() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (moves, records) = ChaosSize::from_environment().pick((1, 60_000), (1, 200_000), (3, 600_000));
    let mut scenario = Scenario::start(&ScenarioSpec::new("broker-moves", records));
    let ports = free_ports(moves);
    let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let brokers = format!("{},{}", scenario.testbed.brokers(), addresses.join(","));
    scenario.start_instance_with(0, &[("EBB_KAFKA__BROKERS", &brokers)]);
    for (number, port) in (1..).zip(ports) {
        scenario.wait_until_committed(number * records / (moves as u64 + 2), Duration::from_secs(120));
        let node = &mut scenario.testbed.cluster.nodes()[0];
        node.kill();
        node.move_to(port);
        node.start();
        scenario.testbed.cluster.wait_until_ready();
        scenario.count_event("broker moves");
        assert!(scenario.committed() < records, "all records were committed before the broker moved");
        // librdkafka does not find a coordinator that is the same broker at another address; a new process does.
        let status = scenario.instances[0].wait_for_exit(Duration::from_secs(90));
        assert!(status.is_some_and(|status| !status.success()), "{}", scenario.instances[0].log_tail());
        scenario.start_instance_with(0, &[("EBB_KAFKA__BROKERS", &brokers)]);
    }
    scenario.finish(Duration::from_secs(180));
}

#[test]
fn kills_lose_nothing_with_at_least_once_delivery() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let (kills, records) = ChaosSize::from_environment().pick((2, 15_000), (8, 60_000), (40, 500_000));
    let mut scenario = Scenario::start(&ScenarioSpec {
        testbed: TestBedSpec { delivery: Delivery::AtLeastOnce, ..TestBedSpec::new("at-least-once") },
        per_second: Some(5_000),
        ..ScenarioSpec::new("at-least-once", records)
    });
    scenario.start_all();
    while scenario.event_count("kills") < kills {
        let before = scenario.committed();
        kill_some(&mut scenario, 1_200);
        scenario.wait_until_committed(before + 1, Duration::from_secs(60));
    }
    scenario.finish(Duration::from_secs(120 + records / 1_000));
}
