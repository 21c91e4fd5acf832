//! O6: proves that the scenarios can fail. Each mutant breaks one rule of recovery, and a scenario must find it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer};

use super::hanging_transactions::run_torn_commits;
use super::injections::{BELIEVE_OFFSETS, MUTANTS, SKIP_IDENTITY};
use super::log_changes::run_retention;
use super::{Scenario, ScenarioSpec};
use crate::testbed::{GROUP, TestBedSpec};
use crate::{skip_at_small_size, skip_without_feature, skip_without_own_kafka};

const ROUNDS: u64 = 6;
const RECORDS: u64 = 20_000;

/// The variable that enables a mutant.
pub fn variables(mutant: Option<&str>) -> Vec<(&'static str, String)> {
    mutant.map(|mutant| ("EBB_MUTANT", mutant.to_owned())).into_iter().collect()
}

/// A short scenario of kills and failed commits.
fn run_kills_and_fencing(mutant: Option<&str>) {
    let mut scenario = Scenario::start(&ScenarioSpec {
        testbed: TestBedSpec { partitions: 2, ..TestBedSpec::new("mutant") },
        per_second: Some(3_000),
        variables: variables(mutant),
        ..ScenarioSpec::new("mutant", RECORDS)
    });
    for round in 0..ROUNDS {
        scenario.start_all();
        scenario.wait_for_progress(300, Duration::from_secs(60));
        if round % 2 == 1 {
            for _ in 0..3 {
                fence_producers(&scenario);
                scenario.pause(200, 500);
            }
        }
        scenario.pause(200, 900);
        scenario.kill_instance(0);
    }
    scenario.finish(Duration::from_secs(60));
}

/// Fences the service's producers, so that their open transactions fail.
fn fence_producers(scenario: &Scenario) {
    for worker in 0..2 {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", scenario.testbed.cluster.brokers()).set("log_level", "0");
        let intruder: BaseProducer =
            config.set("transactional.id", format!("{GROUP}-ebb-0-{worker}")).create().expect("create a producer");
        intruder.init_transactions(Duration::from_secs(20)).expect("fence the service's producer");
    }
}

fn is_caught(mutant: &str) -> bool {
    let scenario = || match mutant {
        SKIP_IDENTITY => run_retention(Some(mutant)),
        BELIEVE_OFFSETS => run_torn_commits(Some(mutant)),
        _ => run_kills_and_fencing(Some(mutant)),
    };
    catch_unwind(AssertUnwindSafe(scenario)).is_err()
}

#[test]
fn every_mutant_is_caught_and_the_unmodified_service_passes() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    skip_without_feature!("mutants");
    run_kills_and_fencing(None);
    run_retention(None);
    let selection = std::env::var("EBB_MUTANTS").unwrap_or_default();
    let is_selected = |mutant: &&str| selection.is_empty() || selection.split(',').any(|name| name == *mutant);
    let selected: Vec<&str> = MUTANTS.into_iter().filter(is_selected).collect();
    let mut survivors: Vec<&str> = Vec::new();
    for mutant in selected.iter().copied() {
        let is_caught = is_caught(mutant);
        println!("mutant {mutant}: {}", if is_caught { "caught" } else { "SURVIVED" });
        survivors.extend((!is_caught).then_some(mutant));
    }
    println!("{} of {} mutants caught", selected.len() - survivors.len(), selected.len());
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
