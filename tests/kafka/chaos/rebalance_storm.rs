//! F9: instances join, leave and die in random order, under both group protocols.

use std::time::Duration;

use super::{ChaosSize, DYNAMIC_MEMBERS, Scenario, ScenarioSpec};
use crate::{skip_at_small_size, skip_without_own_kafka};

fn run_storm(name: &'static str, kafka: &'static str) {
    let (changes, records) = ChaosSize::from_environment().pick((4, 20_000), (14, 80_000), (50, 300_000));
    let spec = ScenarioSpec { instances: 4, per_second: Some(3_000), kafka, ..ScenarioSpec::new(name, records) };
    let mut scenario = Scenario::start(&spec);
    scenario.start_instance(0);
    for _ in 0..changes {
        scenario.pause(700, 3_000);
        let number = scenario.random.below(4) as usize;
        match (scenario.instances[number].is_running(), scenario.random.below(2)) {
            (false, _) => {
                scenario.start_instance(number);
                scenario.count_event("joins");
            }
            (true, 0) => scenario.kill_instance(number),
            (true, _) => {
                let is_graceful = scenario.instances[number].terminate(Duration::from_secs(60));
                assert!(is_graceful, "the instance did not stop on SIGTERM");
                scenario.count_event("leaves");
            }
        }
    }
    scenario.finish(Duration::from_secs(240 + records / 1_000));
}

#[test]
fn rebalance_storm_with_the_cooperative_protocol() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    run_storm("storm-cooperative", DYNAMIC_MEMBERS);
}

#[test]
fn rebalance_storm_with_the_consumer_protocol() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    run_storm("storm-consumer", "  properties: {group.protocol: consumer, reconnect.backoff.max.ms: 500}");
}
