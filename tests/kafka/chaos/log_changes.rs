//! F18: a partition whose unprocessed records were deleted is refused with an error, and the others are processed. The
//! `service` tests cover topics that were recreated or got more partitions while the service was stopped.

use std::thread;
use std::time::{Duration, Instant};

use super::mutants::variables;
use super::{DYNAMIC_MEMBERS, Scenario, ScenarioSpec, ScenarioSummary};
use crate::feed::{Feed, FeedSpec};
use crate::log_lines::{PARTITION_REFUSED, PARTITION_RESTORED, RETENTION_REMOVED_RECORDS};
use crate::testbed::{GROUP, INPUT};
use crate::{skip_at_small_size, skip_without_own_kafka};

const RECORDS: u64 = 6_000;
const UNPROCESSED_RECORDS: u64 = 3_000;

/// Processes [`RECORDS`], stops the instance and produces [`UNPROCESSED_RECORDS`] more.
fn start_with_unprocessed_records(spec: &ScenarioSpec) -> Scenario {
    let mut scenario = Scenario::start(spec);
    scenario.start_instance(0);
    scenario.wait_until_committed(RECORDS, Duration::from_secs(60));
    assert!(scenario.instances[0].terminate(Duration::from_secs(60)), "the instance did not stop on SIGTERM");
    Feed::start(&scenario.testbed, FeedSpec { seed: 9, ..FeedSpec::new(UNPROCESSED_RECORDS) }).finish();
    scenario
}

fn publish_summary(mut scenario: Scenario, name: &str, records: u64, refused: u64) {
    scenario.count_events("partitions refused", refused);
    ScenarioSummary::new(name).with("records", records).with_events(&scenario).publish();
}

/// Deletes unprocessed records of one partition; panics unless exactly that partition is refused.
pub fn run_retention(mutant: Option<&str>) {
    let spec = ScenarioSpec { variables: variables(mutant), ..ScenarioSpec::new("retention", RECORDS) };
    let mut scenario = start_with_unprocessed_records(&spec);
    let admin = scenario.testbed.cluster.admin();
    let before = admin.committed(GROUP, INPUT);
    admin.delete_records(INPUT, 0, before[0].expect("a committed offset") + 10);
    scenario.start_instance(0);
    let partitions = 1..scenario.testbed.partitions as i32;
    let ends: Vec<i64> = partitions.map(|partition| admin.watermarks(INPUT, partition).1).collect();
    let begun = Instant::now();
    loop {
        let committed = admin.committed(GROUP, INPUT);
        assert_eq!(committed[0], before[0], "the partition with deleted records was processed");
        let are_others_done = committed[1..].iter().zip(&ends).all(|(committed, end)| *committed == Some(*end));
        if are_others_done && scenario.instances[0].log_count(RETENTION_REMOVED_RECORDS) > 0 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "not refused:\n{}", scenario.instances[0].log_tail());
        thread::sleep(Duration::from_millis(100));
    }
    assert!(!scenario.instances[0].is_ready(), "ready with a refused partition");
    assert!(scenario.instances[0].probe("/livez"), "/livez fails because of a refused partition");
    assert_eq!(admin.committed(GROUP, INPUT)[0], before[0], "the partition with deleted records was processed");
    publish_summary(scenario, "retention", RECORDS + UNPROCESSED_RECORDS, 1);
}

#[test]
fn partition_with_deleted_unprocessed_records_is_refused() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    run_retention(None);
}

/// A worker does not consume a refused partition, so that its queue in librdkafka never drains: a rebalance must not wait
/// for it.
#[test]
fn refused_partitions_take_part_in_rebalances() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    let mut scenario = start_with_unprocessed_records(&ScenarioSpec {
        instances: 2,
        kafka: DYNAMIC_MEMBERS,
        ..ScenarioSpec::new("refused", RECORDS)
    });
    let admin = scenario.testbed.cluster.admin();
    // Three of four partitions: at least one of the two that move is refused.
    for (partition, committed) in admin.committed(GROUP, INPUT).into_iter().enumerate().take(3) {
        admin.delete_records(INPUT, partition as i32, committed.expect("a committed offset") + 10);
    }
    let count = |scenario: &Scenario, number: usize, message: &str| scenario.instances[number].log_count(message);
    let before = count(&scenario, 0, PARTITION_RESTORED);
    scenario.start_instance(0);
    scenario.wait_until("three partitions refused, one restored", Duration::from_secs(60), |scenario| {
        (count(scenario, 0, PARTITION_REFUSED), count(scenario, 0, PARTITION_RESTORED)) == (3, before + 1)
    });
    scenario.start_instance(1);
    scenario.wait_until("two partitions moved", Duration::from_secs(30), |scenario| {
        count(scenario, 1, PARTITION_REFUSED) + count(scenario, 1, PARTITION_RESTORED) == 2
    });
    let end = admin.watermarks(INPUT, 3).1;
    scenario.wait_until("the fourth partition is processed", Duration::from_secs(30), |_| {
        admin.committed(GROUP, INPUT)[3] == Some(end)
    });
    publish_summary(scenario, "refused", RECORDS + UNPROCESSED_RECORDS, 3);
}

/// While the instance is suspended, its topic is replaced by a longer one with the same name.
#[test]
fn topic_recreated_under_a_running_instance_is_refused() {
    skip_without_own_kafka!();
    skip_at_small_size!();
    const NEW_RECORDS: u64 = 20_000;
    let kafka = "  properties: {session.timeout.ms: 45000}";
    let mut scenario = Scenario::start(&ScenarioSpec { kafka, ..ScenarioSpec::new("recreated-topic", RECORDS) });
    scenario.start_instance(0);
    scenario.wait_until_committed(RECORDS, Duration::from_secs(60));
    scenario.instances[0].freeze();
    let (admin, partitions) = (scenario.testbed.cluster.admin(), scenario.testbed.partitions);
    admin.delete_topic(INPUT);
    admin.create_topic(INPUT, partitions, &[("retention.ms", "-1")]);
    Feed::start(&scenario.testbed, FeedSpec { seed: 9, ..FeedSpec::new(NEW_RECORDS) }).finish();
    scenario.instances[0].thaw();
    scenario.wait_until("every partition is refused", Duration::from_secs(60), |scenario| {
        scenario.instances[0].log_count(PARTITION_REFUSED) == partitions
    });
    assert!(!scenario.instances[0].is_ready(), "ready with refused partitions");
    assert_eq!(admin.committed(GROUP, INPUT), vec![None; partitions], "records of the new topic were processed");
    publish_summary(scenario, "recreated-topic", RECORDS + NEW_RECORDS, partitions as u64);
}
